"""Repair: where a broker finds a good copy of an event that is damaged in its store.

An event that travels waits in several stores: at each broker whose subscriptions have not acknowledged it, or whose
neighbours have not taken it. A broker that reads a damaged event looks for a copy in its own store first (an outbox
may have one in another form), and then asks its neighbours, each of which does the same:

    Wanted     who has these?                 to every neighbour but the one that has asked
    COPY       the event, as it is stored     to the one that has asked
    Lacking    neither I nor those behind me  to the one that has asked, once all who were asked have said so

A search has a name of its own, given by the broker that began it, so that searches for one event do not mix. The
question reaches every broker that is connected, and answers go back the way of the questions. A broker takes part in a
search for the neighbour from which it heard of it first. Any other that asks is told Lacking at once: what this broker
finds goes back the first way. So those that take part are a tree, in which everyone waits only for those that heard of
the search from it, and nobody waits in a circle.

A search of this broker's own waits for neighbours that should be there and are not, and every search ends after
`PATIENCE_S`. Brokers that speak a version of the protocol without these frames are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from covey.broker.actions import Actions, Send, SendEvent
from covey.broker.durable.log import Found
from covey.broker.durable.queues import Tickets
from covey.protocol.control import Lacking, Wanted, encode_stored
from covey.protocol.events import Name, envelope_of
from covey.protocol.frames import Kind
from covey.routing.messages import Link

PATIENCE_S: Final = 30.0
MOST_NAMES: Final = 1_000  # that the log, or a neighbour, is asked for at a time

_Key: TypeAlias = tuple[str, Name]  # the name of a search, and that of the event
# What follows once a copy is there, or none can be had; the time.
Then = Callable[[bytes | None, float], Actions]


@dataclass
class _Search:
    """The search for one event."""

    until_s: float
    thens: list[Then] = field(default_factory=list)  # of queues here
    asker: Link | None = None  # the neighbour for which we ask, if it is not for queues here
    asked: set[Link] = field(default_factory=set)  # that have yet to answer
    is_searched: bool = False  # in this broker's own store


class Repairs:
    """The searches that one broker begins or takes part in; see the module's text."""

    def __init__(self, tickets: Tickets, prefix: str) -> None:
        self._tickets = tickets
        # Of the names of this broker's searches, unlike those of others and of other lives.
        self._prefix = prefix
        self._begun = 0
        self._own: dict[Name, _Key] = {}  # searches for this broker's own queues
        # Searches of others that have ended here: who has the answer, and until when that is remembered.
        self._ended: dict[_Key, tuple[Link, float]] = {}
        self._searches: dict[_Key, _Search] = {}
        self._lacking: dict[Link, list[_Key]] = {}  # by neighbour: what it is to be told
        self._unsearched: list[_Key] = []  # to be looked for in the log, all at once
        self._expected: frozenset[Link] = frozenset()
        self._connected: set[Link] = set()
        self.able: set[Link] = set()  # those that are connected and can be asked

    @property
    def searching(self) -> int:
        """How many searches there are."""
        return len(self._searches)

    def is_for_here(self, name: Name) -> bool:
        """Return whether a copy of an event is looked for that waits here."""
        return name in self._own

    # -- questions -------------------------------------------------------------------------------------------

    def want(self, name: Name, then: Then, now_s: float) -> Actions:
        """Look for a copy of an event that is damaged here."""
        if name not in self._own:
            self._own[name] = (f"{self._prefix}{self._begun:x}", name)  # all of one turn have the same
        self._search(self._own[name], now_s).thens.append(then)
        return iter(())

    def wanted(self, link: Link, wanted: Wanted, now_s: float) -> Actions:
        """A neighbour asks for events."""
        lacking: list[_Key] = []
        for name in wanted.names:
            key = (wanted.search, name)
            if key in self._searches or key in self._ended:
                lacking.append(key)  # this broker takes part already, or has answered
            else:
                self._search(key, now_s).asker = link
        yield from say_lacking(link, lacking)

    def _search(self, key: _Key, now_s: float) -> _Search:
        search = self._searches.get(key)
        if search is None:
            self._unsearched.append(key)
            search = self._searches[key] = _Search(now_s + PATIENCE_S)
        return search

    def flush(self) -> Actions:
        """Say what is lacking, and look for what is wanted in this broker's own store; at the end of each turn."""
        for link, lacking in self._lacking.items():
            yield from say_lacking(link, lacking)
        self._lacking.clear()
        self._begun += bool(self._unsearched)
        while self._unsearched:
            keys, self._unsearched = self._unsearched[:MOST_NAMES], self._unsearched[MOST_NAMES:]
            names = sorted({name for _, name in keys})
            yield self._tickets.find(names, partial(self._searched, keys))

    def _searched(self, keys: Sequence[_Key], found: Found, now_s: float) -> Actions:
        to_ask: dict[Link, list[_Key]] = {}
        for key in keys:
            search = self._searches.get(key)
            if search is None:
                continue
            search.is_searched = True
            copy = found.copies.get(key[1])
            if copy is not None and _is_of(copy, key[1]):
                yield from self._end(key, copy, now_s)
                continue
            for link in sorted(self.able - {search.asker}):
                search.asked.add(link)
                to_ask.setdefault(link, []).append(key)
        for link, some in to_ask.items():
            yield from _say(Wanted, link, some)
        for key in keys:
            yield from self._end_if_done(key, now_s)

    # -- answers ---------------------------------------------------------------------------------------------

    def copied(self, name: Name, frame: bytes, now_s: float) -> Actions:
        """Somebody has sent a copy, as an answer or of its own accord."""
        for key in [key for key in self._searches if key[1] == name]:
            yield from self._end(key, frame, now_s)

    def lacking(self, link: Link, lacking: Lacking, now_s: float) -> Actions:
        """A neighbour lacks events, and so do those behind it."""
        for name in lacking.names:
            key = (lacking.search, name)
            if key in self._searches:
                self._searches[key].asked.discard(link)
                yield from self._end_if_done(key, now_s)

    def _end_if_done(self, key: _Key, now_s: float) -> Actions:
        search = self._searches.get(key)
        if search is None or not search.is_searched or search.asked:
            return
        is_away = bool(search.thens) and not self._expected <= self._connected
        if not is_away or now_s >= search.until_s:
            yield from self._end(key, None, now_s)

    def _end(self, key: _Key, frame: bytes | None, now_s: float) -> Actions:
        search = self._searches.pop(key)
        if search.thens:
            del self._own[key[1]]
        if search.asker is not None:
            self._ended[key] = search.asker, search.until_s
            if frame is None:
                self._lacking.setdefault(search.asker, []).append(key)
            else:
                yield SendEvent(search.asker, Kind.COPY, frame[1:])
        for then in search.thens:
            yield from then(frame, now_s)

    # -- neighbours and time ---------------------------------------------------------------------------------

    def expect(self, neighbours: Iterable[Link], now_s: float) -> Actions:
        """Say which neighbours there should be."""
        self._expected = frozenset(neighbours)
        for key in list(self._searches):
            yield from self._end_if_done(key, now_s)

    def connected(self, link: Link, is_able: bool, now_s: float) -> Actions:
        """There is a connection to a neighbour: it is asked too, if it knows how."""
        self._connected.add(link)
        own = [key for key, search in self._searches.items() if search.thens and search.is_searched]
        if is_able:
            self.able.add(link)
            for key in own:
                self._searches[key].asked.add(link)
            yield from _say(Wanted, link, own)
        for key in own:
            yield from self._end_if_done(key, now_s)

    def disconnected(self, link: Link, now_s: float) -> Actions:
        """The connection to a neighbour is gone, with what it was asked and has asked, and answers on the way."""
        self._connected.discard(link)
        self.able.discard(link)
        self._lacking.pop(link, None)
        self._ended = {key: one for key, one in self._ended.items() if one[0] != link}
        for key, search in list(self._searches.items()):
            if search.asker == link:
                del self._searches[key]  # whoever asks next begins it anew
            elif link in search.asked:
                search.asked.remove(link)
                yield from self._end_if_done(key, now_s)

    def tick(self, now_s: float) -> Actions:
        """End what has taken too long."""
        for key in [key for key, search in self._searches.items() if now_s >= search.until_s]:
            yield from self._end(key, None, now_s)
        self._ended = {key: one for key, one in self._ended.items() if now_s < one[1]}


def _is_of(copy: bytes, name: Name) -> bool:
    """Return whether a copy is that of this event: no other may take its place."""
    envelope = envelope_of(copy)
    return (envelope.publisher, envelope.number) == name


def say_lacking(link: Link, keys: Sequence[_Key]) -> Actions:
    """Tell a neighbour that we lack events."""
    yield from _say(Lacking, link, keys)


def _say(kind: type[Wanted | Lacking], link: Link, keys: Sequence[_Key]) -> Actions:
    names: dict[str, list[Name]] = {}
    for search, name in keys:
        names.setdefault(search, []).append(name)
    for search, all_names in names.items():
        for first in range(0, len(all_names), MOST_NAMES):
            some = tuple(all_names[first : first + MOST_NAMES])
            yield Send(link, Kind.STORE, encode_stored(kind(search, some)))
