"""What the product is about: definitions, runs and their moves, leases, policies. Pure values and functions."""
