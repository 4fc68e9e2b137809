"""YAML text to typed definitions with places: what people committed, and every problem it has, at once."""
