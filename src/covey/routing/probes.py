"""Probe and echo: how a client learns that what it asked for is in force everywhere.

A probe is passed on to every other neighbour, and echoed when each of them has echoed. Links are FIFO and a router
sends what a subscription causes while it handles it, so a probe never overtakes it: at the echo every broker knows. Nor
does it overtake events: at the echo, whatever was sent to any broker before the probe came by has arrived. A client
that moves subscribes at its new broker, probes, and on the echo unsubscribes at the old one: it misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from covey.routing.messages import Echo, Link, Probe, Tree
from covey.routing.outputs import Send

Emit = Callable[[Send], None]


class Waiting:
    """A probe under way: who asked, and who has yet to echo, as pairs of tree and neighbour."""

    def __init__(self, source: Link, tree: Tree) -> None:
        self.source = source
        self.tree = tree
        self.missing: set[tuple[Tree, Link]] = set()
        self.trees_to_come = 1


class Probes:
    """The probes under way at one broker."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Link, str, Tree | None], Waiting] = {}
        self._asked: dict[tuple[str, Tree, Link], tuple[Link, str, Tree | None]] = {}

    def is_known(self, source: Link, id: str, tree: Tree) -> bool:
        """Return whether the source waits for the echo of such a probe already."""
        return (source, id, tree) in self._waiting or (source, id, None) in self._waiting

    def probe(
        self, source: Link, id: str, tree: Tree, neighbours: Sequence[Link], trees: int, emit: Emit
    ) -> None:
        """Pass a probe on along one tree; a client's goes along `trees` of them and is echoed once."""
        name = (source, id, tree if trees == 1 else None)
        waiting = self._waiting.get(name)
        if waiting is None:
            waiting = self._waiting[name] = Waiting(source, tree)
            waiting.trees_to_come = trees
        waiting.trees_to_come -= 1
        for link in neighbours:
            if link != source:
                waiting.missing.add((tree, link))
                self._asked[id, tree, link] = name
                emit(Send(link, Probe(id, tree)))
        self._finish(name, emit)

    def echo(self, source: Link, message: Echo, emit: Emit) -> None:
        """Note a neighbour's echo; one that nobody waits for is of a link that was down in between."""
        name = self._asked.pop((message.id, message.tree, source), None)
        if name is not None and name in self._waiting:
            self._waiting[name].missing.discard((message.tree, source))
            self._finish(name, emit)

    def link_down(self, link: Link, emit: Emit) -> None:
        """Wait no longer for a neighbour that is gone, nor for those it asked."""
        for name in [name for name in self._waiting if name[0] == link]:
            del self._waiting[name]
        for asked in [asked for asked in self._asked if asked[2] == link]:
            name = self._asked.pop(asked)
            if name in self._waiting:
                self._waiting[name].missing.discard((asked[1], link))
                self._finish(name, emit)

    def _finish(self, name: tuple[Link, str, Tree | None], emit: Emit) -> None:
        waiting = self._waiting[name]
        if not waiting.missing and not waiting.trees_to_come:
            del self._waiting[name]
            emit(Send(waiting.source, Echo(name[1], waiting.tree)))
