"""Every SQL statement of the product; rows become frozen dataclasses at its border."""
