"""Tests of the worker: pure parts, the guard process with a renewal of its own, and the whole on both databases."""
