"""What a plan says is merged where: blocks of filters that leave a broker as one, towards one neighbour, on one tree.

A block has *inputs*, the filters that reach the broker when all of its members are there, and what they are *told* as
then. A broker that gets other filters than the planner knew, or not all of them, still finds the block: a filter
belongs to the block that has the smallest input which covers it; if none covers it, to the block that is told as
something that covers it. So members find their block from the filter alone, whatever has happened before, and a
subscription that the planner did not know joins a block in which it is for free.

`excess` bounds what a merger may let in: of the sampled `events`, at most this share matches what a block is told as
and none of its members. With 0 blocks are merged exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from covey.core.filter import Filter
from covey.errors import PlanError
from covey.routing.messages import Link, Tree

MOST_EVENTS: Final = 128

Place = tuple[Tree, str, Link]  # a tree, a broker, and its neighbour on the way


class Block(NamedTuple):
    """Filters that leave a broker as one, and what they are told as when all of them are there."""

    inputs: tuple[Filter, ...]
    told: tuple[Filter, ...]


class Aggregation:
    """The blocks of each (tree, broker, neighbour); see the module's text."""

    def __init__(
        self, blocks: Mapping[Place, Sequence[Block]], events: Sequence[Any] = (), excess: float = 0.0
    ) -> None:
        if not 0.0 <= excess <= 1.0:
            raise PlanError(f"the excess of mergers is a share from 0 to 1, not {excess!r:.40}")
        if len(events) > MOST_EVENTS:
            raise PlanError(f"mergers are judged by {len(events)} events; {MOST_EVENTS} are the most")
        self._blocks = dict(blocks)
        self.events = tuple(events)
        self.excess = excess

    @property
    def allowed(self) -> int:
        """How many of the events a block may let in that none of its members wants."""
        return int(self.excess * len(self.events) + 1e-9)

    @property
    def places(self) -> Sequence[Place]:
        """Where something is merged."""
        return list(self._blocks)

    def blocks(self, tree: Tree, broker: str, towards: Link) -> Sequence[Block]:
        """Return what leaves a broker as one towards a neighbour."""
        return self._blocks.get((tree, broker, towards), ())


NOTHING: Final = Aggregation({})
