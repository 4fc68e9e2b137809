"""A distributed job scheduler whose desired state lives in git."""

__version__ = "0.1.0"
