"""The protocol under a seeded scheduler: the real store and engine, simulated time, faults, an independent witness.

`plan` turns a seed into a scenario, `world` lets greenlets take turns, `faults` break things, `stage` holds the store
and its witness; `leaders`, `nodes` and `people` act; `checks` judge what the witness saw; `play` runs a seed.
docs/simulation.md tells how to read a failure.
"""
