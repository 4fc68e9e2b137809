"""Desired state from files, actual state in the store, and the pass that makes the one the other."""
