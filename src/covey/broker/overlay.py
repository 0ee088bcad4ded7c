"""The overlay as one broker knows it: who is linked to whom, and the tree that everyone computes from that.

Every broker states its own links, with a number that grows; states are flooded, and the newest of each broker counts. A
link is up when both its ends say so. From equal states everyone computes the same tree:

    the minimum spanning forest of the links that are up, by priority (the worse of what the ends say), then by names

Brokers route over the links of the tree only, so an overlay may have more links than it needs: when one fails, the
states change, and with them the tree. States of brokers that cannot be reached are old, which does no harm: every link
that leaves the part of the overlay that can be reached is judged by its near end too.

No clock, no sockets: a value that changes by `state` and `learn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from covey.errors import ProtocolError
from covey.protocol.control import BrokerLinks, LinkStatus

Pair: TypeAlias = tuple[str, str]  # the ends of a link, in the order of their names

MAX_LINKS = 10_000  # of one broker


def pair(a: str, b: str) -> Pair:
    """Return the name of the link between two brokers."""
    return (a, b) if a < b else (b, a)


def links_up(states: Iterable[BrokerLinks]) -> dict[Pair, int]:
    """Return the links whose ends both say that they are up, with their priorities."""
    known = {state.broker: state.links for state in states}
    found: dict[Pair, int] = {}
    for a, links in known.items():
        for b, (priority, is_up) in links.items():
            other = known.get(b, {}).get(a)
            if a < b and is_up and other is not None and other[1]:
                found[a, b] = max(priority, other[0])
    return found


def spanning_tree(links: Mapping[Pair, int]) -> frozenset[Pair]:
    """Return the minimum spanning forest of the links, by priority and then by names (Kruskal)."""
    parents: dict[str, str] = {}
    return frozenset(
        link for _, link in sorted((p, link) for link, p in links.items()) if _join(parents, *link)
    )


def has_cycle(states: Iterable[BrokerLinks]) -> bool:
    """Return whether the links that anybody has, up or not, are more than a forest."""
    parents: dict[str, str] = {}
    links = {pair(state.broker, other) for state in states for other in state.links}
    return any(not _join(parents, *link) for link in sorted(links))


def _root(parents: dict[str, str], broker: str) -> str:
    while (parent := parents.setdefault(broker, broker)) != broker:
        parents[broker] = parents[parent]
        broker = parent
    return broker


def _join(parents: dict[str, str], a: str, b: str) -> bool:
    """Put two brokers into one part; return whether they were not in one before."""
    a, b = _root(parents, a), _root(parents, b)
    parents[a] = b
    return a != b


class Overlay:
    """What the broker `me` knows; see the module's text. `sequence` is one that it has never used before."""

    def __init__(self, me: str, sequence: int, max_brokers: int = 10_000) -> None:
        self.me = me
        self.max_brokers = max_brokers
        self._states: dict[str, BrokerLinks] = {me: BrokerLinks(me, sequence, {})}
        self._tree: frozenset[Pair] | None = None
        self._has_cycle: bool | None = None
        self._parts: dict[str, str] = {}

    @property
    def states(self) -> tuple[BrokerLinks, ...]:
        """All that is known, one state a broker."""
        return tuple(self._states.values())

    def state(self, links: Mapping[str, LinkStatus]) -> BrokerLinks:
        """Change what is said of one's own links; return the new state, to be told to everyone."""
        mine = BrokerLinks(self.me, self._states[self.me].sequence + 1, dict(links))
        self._keep(mine)
        return mine

    def learn(self, state: BrokerLinks) -> BrokerLinks | None:
        """Take somebody's state; return what is to be told to others because of it, or None if it is not new.

        ProtocolError if the overlay has no room for another broker.
        """
        if len(state.links) > MAX_LINKS:
            raise ProtocolError(f"{state.broker!r:.40} cannot have {len(state.links):,} links")
        known = self._states.get(state.broker)
        if known is not None and state.sequence <= known.sequence:
            return None
        if state.broker == self.me:
            # Said by ourselves in an earlier life, with a clock that was ahead: we speak louder than that.
            mine = BrokerLinks(self.me, state.sequence + 1, self._states[self.me].links)
            self._keep(mine)
            return mine
        if known is None and len(self._states) >= self.max_brokers:
            raise ProtocolError(
                f"the overlay has {self.max_brokers:,} brokers, and no room for {state.broker!r:.40}"
            )
        self._keep(state)
        return state

    def _keep(self, state: BrokerLinks) -> None:
        self._states[state.broker] = state
        self._tree = self._has_cycle = None

    @property
    def tree(self) -> frozenset[Pair]:
        """The links over which brokers route."""
        if self._tree is None:
            self._tree = spanning_tree(links_up(self._states.values()))
            self._parts = {}
            for link in self._tree:
                _join(self._parts, *link)
        return self._tree

    def reaches(self, other: str) -> bool:
        """Return whether there is a way to another broker over links that are up."""
        return bool(self.tree) and _root(self._parts, self.me) == _root(self._parts, other)

    @property
    def is_redundant(self) -> bool:
        """Whether the overlay has more links than a tree, so that one may stand in for another."""
        if self._has_cycle is None:
            self._has_cycle = has_cycle(self._states.values())
        return self._has_cycle
