"""What a plan's file says of merging that brokers do: blocks with their filters, and how loosely they are merged.

The table `aggregation` names members by numbers and says what merging them is worth. Brokers need filters: for each
block its inputs, which are filters of the broker's own clients and what blocks further away are told as, and what the
block itself is told as (`covey.routing.aggregation`). Filters are in the file once each, by number.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from covey.core.families import decode, parse_content
from covey.errors import EventError, FilterError, PlanError
from covey.planning.joining import MOST_CONTENT
from covey.routing.aggregation import MOST_EVENTS, Aggregation, Block, Place


class PlannedBlock(NamedTuple):
    """A block: where it leaves as one, and filters in their wire form."""

    tree: int
    broker: str
    towards: str
    inputs: tuple[bytes, ...]
    told: tuple[bytes, ...]


@dataclass(frozen=True)
class PlannedMerging:
    """Blocks that brokers merge, by which method they were found, and what bounds their excess.

    Of the sampled `events`, each a language and a content as in tables of events, at most the share `excess` may match
    what a block is told as and none of its members; 0 merges exactly.
    """

    method: str
    blocks: tuple[PlannedBlock, ...]
    excess: float = 0.0
    events: tuple[tuple[str, str], ...] = ()

    def check(self, trees: Sequence[set[tuple[str, str]]]) -> None:
        """Raise PlanError for a block on a link that its tree does not have, or an event that is none."""
        if not 0.0 <= self.excess <= 1.0:
            raise PlanError(f"the excess of mergers is a share from 0 to 1, not {self.excess!r:.40}")
        if len(self.events) > MOST_EVENTS:
            raise PlanError(f"mergers are judged by {len(self.events)} events; {MOST_EVENTS} are the most")
        for block in self.blocks:
            if type(block.tree) is not int or not 0 <= block.tree < len(trees):
                raise PlanError(f"a block is on tree {block.tree!r:.40} and there are {len(trees)}")
            link = min(block.broker, block.towards), max(block.broker, block.towards)
            if link not in trees[block.tree]:
                raise PlanError(
                    f"a block leaves {block.broker} towards {block.towards}, which is no link of its tree"[
                        :200
                    ]
                )
        assert self.aggregation is not None

    @cached_property
    def aggregation(self) -> Aggregation:
        """It as routers take it. PlanError for what is no filter or no event."""
        known: dict[bytes, Any] = {}
        blocks: dict[Place, list[Block]] = {}
        try:
            for one in self.blocks:
                for wire in (*one.inputs, *one.told):
                    if wire not in known:
                        known[wire] = decode(wire).compact()
                block = Block(
                    tuple(known[wire] for wire in one.inputs), tuple(known[wire] for wire in one.told)
                )
                blocks.setdefault((one.tree, one.broker, one.towards), []).append(block)
            events = [parse_content(content, language) for language, content in self.events]
        except (FilterError, EventError) as error:
            raise PlanError(f"what the plan merges cannot be read: {error!s:.200}") from None
        return Aggregation(blocks, events, self.excess)

    def as_dict(self) -> dict[str, Any]:
        """Return it as it is in the file."""
        number: dict[bytes, int] = {}
        for block in self.blocks:
            for wire in (*block.inputs, *block.told):
                number.setdefault(wire, len(number))
        return {
            "method": self.method,
            "excess": float(self.excess),
            "events": [list(event) for event in self.events],
            "filters": [b64encode(wire).decode() for wire in number],
            "blocks": [
                [
                    block.tree,
                    block.broker,
                    block.towards,
                    [number[wire] for wire in block.inputs],
                    [number[wire] for wire in block.told],
                ]
                for block in self.blocks
            ],
        }

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> PlannedMerging:
        """Return what a file has; ValueError, TypeError, KeyError or IndexError for another form."""
        filters = [b64decode(one, validate=True) for one in said["filters"]]

        def picked(numbers: Sequence[Any]) -> tuple[bytes, ...]:
            for number in numbers:
                if type(number) is not int or not 0 <= number < len(filters):
                    raise ValueError(f"a block has filter {number!r:.40} and there are {len(filters)}")
            return tuple(filters[number] for number in numbers)

        blocks = []
        for tree, broker, towards, inputs, told in said["blocks"]:
            if not isinstance(broker, str) or not isinstance(towards, str):
                raise TypeError("a block leaves a broker towards another one")
            blocks.append(PlannedBlock(tree, broker, towards, picked(inputs), picked(told)))
        events = []
        for language, content in said["events"]:
            if not isinstance(language, str) or not isinstance(content, str):
                raise TypeError("a sampled event is a language and a content")
            if len(content.encode()) > MOST_CONTENT:
                raise ValueError(f"a sampled event has more than {MOST_CONTENT} bytes")
            events.append((language, content))
        method = said["method"]
        if not isinstance(method, str):
            raise TypeError("the method of aggregation is a name")
        return cls(method, tuple(blocks), float(said["excess"]), tuple(events))
