"""Joining: the group of a filter that the planner did not know, found by the broker that it comes to.

A plan by groups carries witnesses: a few sampled events, each with the brokers of every group that want it. A new
filter at a broker would make the group dearer, for each witness that it matches, by the way on the group's tree from
the broker to what the witness crosses already. It joins the group that grows least (`groups.insert` is the same in
arrays, with all documents of the sample). Every broker decides about its own clients, at once, from the plan alone, so
the same filter always finds the same group.

What a witness crosses on a tree is the union of the paths from its publisher p to the brokers q that want it, so the
way to it from a broker b is the least of (d(b, p) + d(b, q) - d(p, q)) / 2 over all q and p itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from covey.core.families import parse_content
from covey.core.filter import Filter
from covey.errors import EventError, PlanError
from covey.matching.jit import Floats

MOST_WITNESSES: Final = 200
MOST_CONTENT: Final = 4_096  # bytes of a witness's content, as it is in the plan's file


class Witness(NamedTuple):
    """A sampled event: where it was published, what it says, and for each group the brokers that want it.

    `content` is a text as in tables of events.
    """

    publisher: str
    language: str
    content: str
    wanted: Mapping[int, tuple[str, ...]]


class Joining:
    """Where new filters go, for the trees of one plan; costs are those of the overlay's links."""

    def __init__(
        self,
        trees: Sequence[Sequence[tuple[str, str]]],
        costs: Mapping[tuple[str, str], float],
        witnesses: Sequence[Witness],
    ) -> None:
        self._witnesses = witnesses
        self._contents: list[Any] = [parse_content(one.content, one.language) for one in witnesses]
        self._near = [_neighbours(tree, costs) for tree in trees]
        self._from_publisher: list[list[tuple[float, ...]]] | None = None
        self._ways: dict[str, Floats] = {}  # of each broker: by witness and tree

    def choose(self, broker: str, filter: Filter, usual: int) -> int:
        """Return the tree whose cost grows least by this filter; of equals the usual one, else the first."""
        growth = self.growths(broker, filter)
        least = np.flatnonzero(growth <= growth.min() * (1 + 1e-9) + 1e-12)
        return usual if usual in least else int(least[0])

    def growths(self, broker: str, filter: Filter) -> Floats:
        """Return by how much each tree's cost on all witnesses grows if such a filter joins it."""
        matched = [number for number, content in enumerate(self._contents) if filter.matches(content)]
        growth: Floats = self._ways_of(broker)[matched].sum(axis=0)
        return growth

    def _ways_of(self, broker: str) -> Floats:
        ways = self._ways.get(broker)
        if ways is None:
            ways = self._ways[broker] = self._measured(broker)
        return ways

    def _measured(self, broker: str) -> Floats:
        if self._from_publisher is None:
            self._from_publisher = list(self._distances())
        ways = np.empty((len(self._witnesses), len(self._near)))
        for tree, near in enumerate(self._near):
            far = _distances_from(broker, near)
            for number, witness in enumerate(self._witnesses):
                here = far[witness.publisher]
                way = here
                distances = self._from_publisher[tree][number]
                for wanting, distance in zip(witness.wanted.get(tree, ()), distances, strict=True):
                    way = min(way, (here + far[wanting] - distance) / 2)
                ways[number, tree] = way
        return ways

    def _distances(self) -> Iterator[list[tuple[float, ...]]]:
        """Yield for each tree and witness how far those that want it are from its publisher."""
        for tree, near in enumerate(self._near):
            known: dict[str, dict[str, float]] = {}
            mine = []
            for witness in self._witnesses:
                wanted = witness.wanted.get(tree, ())
                if wanted and witness.publisher not in known:
                    known[witness.publisher] = _distances_from(witness.publisher, near)
                mine.append(tuple(known[witness.publisher][one] for one in wanted))
            yield mine


_Near = dict[str, list[tuple[str, float]]]


def _neighbours(tree: Sequence[tuple[str, str]], costs: Mapping[tuple[str, str], float]) -> _Near:
    near: _Near = {}
    for a, b in tree:
        near.setdefault(a, []).append((b, costs[a, b]))
        near.setdefault(b, []).append((a, costs[a, b]))
    return near


def _distances_from(broker: str, near: _Near) -> dict[str, float]:
    far, waiting = {broker: 0.0}, [broker]
    for one in waiting:
        for other, cost in near.get(one, ()):
            if other not in far:
                far[other] = far[one] + cost
                waiting.append(other)
    return far


def check_witness(witness: Witness, brokers: set[str], trees: int) -> None:
    """Raise PlanError if a witness names what the plan does not have."""
    for broker in (witness.publisher, *(one for wanted in witness.wanted.values() for one in wanted)):
        if broker not in brokers:
            raise PlanError(f"a witness names a broker {broker!r:.80} that the plan's overlay does not have")
    for tree in witness.wanted:
        if type(tree) is not int or not 0 <= tree < trees:
            raise PlanError(f"a witness names tree {tree!r:.40} and there are {trees}")
    try:
        parse_content(witness.content, witness.language)
    except EventError as error:
        raise PlanError(f"a witness is no event: {error!s:.200}") from None
