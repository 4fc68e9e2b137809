"""The domain: values and pure functions."""
