"""Routing strategies, one file an algorithm. Importing the package registers them all."""

from covey.strategies import flooding, simple, identity, covering  # noqa: F401, I001 (the order of their names)
