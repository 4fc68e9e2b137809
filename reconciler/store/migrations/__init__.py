"""The store's schema, one migration per change; `reconciler db upgrade` runs them."""
