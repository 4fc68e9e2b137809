"""The worker: claims runs, has its guard process run them, and writes back what came of them.

This package is imported by every child that runs a demo handler, so it imports nothing itself; `run.py` is its front.
"""
