"""The tree of brokers as arrays: links in both directions, who is behind each, and the order of a walk.

A *way* is a link in one direction, u → v: u tells v. There are two for each link, numbered 0 … 2(n-1)-1, and what is
told over way w is in the table of broker `hears[w]` under the link `tells[w]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from covey.errors import ConfigError
from covey.matching.jit import Ints
from covey.pipeline.tables.kernels import Flags

# A table of who is behind which way has n² entries.
MOST_BROKERS = 20_000


class Overlay:
    """Brokers 0 … n-1, in the order of their names, linked as a tree; ConfigError in one line for what is none."""

    def __init__(self, links: Iterable[tuple[str, str]]) -> None:
        self.links = sorted({(min(link), max(link)) for link in _checked(links)})
        self.brokers = sorted({broker for link in self.links for broker in link})
        self._number = {broker: number for number, broker in enumerate(self.brokers)}
        count = len(self.brokers)
        if not count:
            raise ConfigError("the topology has no link")
        if count > MOST_BROKERS:
            raise ConfigError(f"the topology has {count:,} brokers; tables are computed for {MOST_BROKERS:,}")
        neighbours: list[list[int]] = [[] for _ in range(count)]
        for a, b in self.links:
            neighbours[self._number[a]].append(self._number[b])
            neighbours[self._number[b]].append(self._number[a])
        self.order, self.parent = self._walk(neighbours)
        others = self.order[1:]  # all but the root: way 2k goes up from others[k], 2k + 1 down to it
        self.tells: Ints = np.array([end for b in others for end in (b, self.parent[b])], np.int32)
        self.hears: Ints = np.array([end for b in others for end in (self.parent[b], b)], np.int32)
        self.up = {broker: 2 * k for k, broker in enumerate(others)}

    def _walk(self, neighbours: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Return the brokers from the root, the first by name, each after its parent; and the parents."""
        parent = [-1] * len(neighbours)
        order = [0]
        for broker in order:
            for other in neighbours[broker]:
                if other != parent[broker]:
                    if parent[other] >= 0 or other == 0:
                        a, b = self.brokers[broker], self.brokers[other]
                        raise ConfigError(f"the topology is no tree: a cycle goes over the link {a}–{b}")
                    parent[other] = broker
                    order.append(other)
        if len(order) < len(neighbours):
            lost = self.brokers[min(set(range(len(neighbours))) - set(order))]
            raise ConfigError(
                f"the topology is not connected: {lost} cannot be reached from {self.brokers[0]}"
            )
        return order, parent

    def __getstate__(self) -> list[tuple[str, str]]:
        return self.links

    def __setstate__(self, links: list[tuple[str, str]]) -> None:
        self.__init__(links)  # type: ignore[misc]

    def number(self, broker: str, what: str) -> int:
        """Return the number of a broker; ConfigError, which says what names it, if there is no such broker."""
        found = self._number.get(broker)
        if found is None:
            raise ConfigError(f"{what} names the broker {broker!r:.60}, which the topology does not have")
        return found

    @cached_property
    def behind(self) -> Flags:
        """Whether a broker, by column, is on the telling side of a way, by row."""
        below = np.eye(len(self.brokers), dtype=bool)  # by row, who is in the subtree of a broker
        for broker in reversed(self.order[1:]):
            below[self.parent[broker]] |= below[broker]
        up = below[self.order[1:]]
        return np.stack([up, ~up], axis=1).reshape(len(self.tells), len(self.brokers))

    def incoming(self, broker: int, *, but: int) -> list[int]:
        """Return the ways that lead to a broker, but those from the broker `but`, in their order."""
        return [way for way in self._incoming[broker] if self.tells[way] != but]

    @cached_property
    def _incoming(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.brokers]
        for way, broker in enumerate(self.hears.tolist()):
            found[broker].append(way)
        return found

    def both_passes(self) -> list[int]:
        """Return all ways in an order in which whatever a way depends on comes before it: up to the root, then down."""
        up = [self.up[broker] for broker in reversed(self.order[1:])]
        return [*up, *(self.up[broker] + 1 for broker in self.order[1:])]


def _checked(links: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    seen: set[frozenset[str]] = set()
    result = []
    for a, b in links:
        if a == b:
            raise ConfigError(f"the topology is no tree: a link goes from {a!r:.60} to itself")
        if frozenset((a, b)) in seen:
            raise ConfigError(f"the topology is no tree: the link between {a} and {b} is there twice")
        seen.add(frozenset((a, b)))
        result.append((a, b))
    return result
