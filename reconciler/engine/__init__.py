"""The leader: elected through one row of the store, and its duties."""
