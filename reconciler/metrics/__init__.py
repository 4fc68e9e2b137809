"""What Prometheus scrapes: counters fed by events, gauges read from the store, and the listener that shows them.

Law: metrics subscribe to events and read the store; nothing else knows of them. All names begin with `reconciler_`, are
in base units, and never carry a label `job` (Prometheus has its own) or a run's id.
"""
