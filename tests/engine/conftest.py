"""The store's cast serves here too."""

from tests.store.conftest import *  # noqa: F403 - fixtures are found by name
