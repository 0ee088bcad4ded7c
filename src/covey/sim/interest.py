"""Who really wants an event: what the simulator knows of everyone, and no broker does.

It judges transmissions: one towards a side of the overlay where no live subscription wants the event is a false
positive. Sets of brokers are bits of an integer, so that judging a transmission is one `and`.
"""

from __future__ import annotations

from collections.abc import Iterable

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.messages import Key, Tree


class Interest:
    """Live subscriptions by tree, and which brokers are behind each end of each link."""

    def __init__(self, brokers: Iterable[str], trees: Iterable[Iterable[tuple[str, str]]]) -> None:
        self._bits = {broker: 1 << number for number, broker in enumerate(brokers)}
        self._behind = [_behind(list(links), self._bits) for links in trees]
        self._indexes = [Index() for _ in self._behind]
        self._trees: dict[Key, Tree] = {}

    def add(self, key: Key, filter: Filter, broker: str, tree: Tree) -> None:
        """Note a subscription."""
        self._trees[key] = tree
        self._indexes[tree].add(key, filter, broker)

    def remove(self, key: Key) -> None:
        """Forget a subscription."""
        self._indexes[self._trees.pop(key)].remove(key)

    def wanted_by(self, event: object, tree: Tree) -> int:
        """Return the brokers, as bits, with a subscription of the tree that wants the event."""
        bits = 0
        for broker in self._indexes[tree].links(event):
            bits |= self._bits[broker]  # type: ignore[index]
        return bits

    def is_wanted_behind(self, wanted: int, tree: Tree, sender: str, receiver: str) -> bool:
        """Return whether one of the brokers is on the receiver's side of the link."""
        return bool(wanted & self._behind[tree][sender, receiver])


def _behind(links: list[tuple[str, str]], bits: dict[str, int]) -> dict[tuple[str, str], int]:
    """Return for each direction of each link of a forest the brokers that it leads to."""
    neighbours: dict[str, list[str]] = {broker: [] for broker in bits}
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    behind: dict[tuple[str, str], int] = {}
    done: set[str] = set()
    for root in bits:
        if root in done:
            continue
        order, parent = [root], {root: ""}
        for broker in order:
            for other in neighbours[broker]:
                if other not in parent:
                    parent[other] = broker
                    order.append(other)
        done.update(order)
        below = {broker: bits[broker] for broker in order}
        for broker in reversed(order[1:]):
            below[parent[broker]] |= below[broker]
        for broker in order[1:]:
            behind[parent[broker], broker] = below[broker]
            behind[broker, parent[broker]] = below[root] & ~below[broker]
    return behind
