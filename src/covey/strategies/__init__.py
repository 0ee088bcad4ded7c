"""Routing strategies, one file or package an algorithm. Importing the package registers them all, in this order.

`covey.strategies()` returns their names. Importing this package binds `covey.strategies` to the package itself, so the
package can be called too, and the public name means the same before and after.
"""

# ruff: noqa: F401
# isort: off
import covey.strategies.flooding
import covey.strategies.simple
import covey.strategies.identity
import covey.strategies.covering
import covey.strategies.merging.perfect
import covey.strategies.merging.imperfect
import covey.strategies.merging.rebeca
import covey.strategies.match_first
import covey.strategies.xroute.counted
import covey.strategies.xroute.sets
import covey.strategies.incremental.pruning
import covey.strategies.trees
import covey.strategies.regions
import covey.strategies.aggregation
import covey.strategies.advertisements
# isort: on

import sys
from types import ModuleType

from covey.routing.strategy import names


class _Callable(ModuleType):
    """A package that can be called."""

    def __call__(self) -> list[str]:
        """Return the names of all strategies."""
        return names()


sys.modules[__name__].__class__ = _Callable
