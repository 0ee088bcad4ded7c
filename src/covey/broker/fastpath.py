"""Labels: for each local subscription, by its handle in the router's index, which client it is of and its number there.

A handle says nothing to a client, and a key is a text: to look one up costs more than to match and copy an event. So
what was looked up once is kept by handle, as numbers, until the handle gets another key.


Flow: consecutive events of one link through the router at once, and out in one chunk a link.

What it does is what `Exchange` does with each event by itself, faster. Events that cannot be handled so go there, in
their turn: those that are not attributes in their one form, that have notes, that are KEPT or sampled, that their
client may not publish, and all events where the strategy is not a plain one.

    frames of a link → envelopes, contents checked → Router.handle_batch → chunks, a copy of each event a link

A subscription that is not simply a connected client's (a durable one, whose deliveries are stored) has no slot: its
deliveries are handed out one by one, `elsewhere`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, Protocol

import numpy as np

from covey.broker.peers import Neighbour, Outlet
from covey.broker.permissions import Allowed
from covey.broker.sampling import Sampler
from covey.broker.sessions import Session
from covey.core.filter import Filter
from covey.matching.attributes.checking import are_packed
from covey.matching.attributes.packed import PackedEvents
from covey.matching.index import Index
from covey.matching.jit import Ints, Longs
from covey.protocol.batches import (
    Bytes,
    Frames,
    Mask,
    copy_deliveries,
    copy_onward,
    envelopes_of,
    names_in,
    sort_deliveries,
)
from covey.protocol.events import FLOODED, KEPT, envelope_of, name_of
from covey.routing.batch import EventBatch, Onward
from covey.routing.messages import Key, Link
from covey.routing.router import Router
from covey.routing.table import Place

Label = tuple[int, int]  # the client's slot, and the number of its subscription

NOBODY: Final = (0, 0)


class Labels:
    """Two numbers for each handle of an index; `label_of` says those of a place when they are first asked for."""

    def __init__(self, index: Index, label_of: Callable[[Place], Label]) -> None:
        self._index = index
        self._label_of = label_of
        self._stamps: Longs = np.zeros(0, np.int64)
        self._slots: Ints = np.zeros(0, np.int32)
        self._sids: Longs = np.zeros(0, np.int64)

    def of(self, handles: Ints) -> tuple[Ints, Longs]:
        """Return the slots and numbers of handles."""
        stamps = self._index.stamps()
        if len(stamps) > len(self._stamps):
            more = len(stamps) - len(self._stamps)
            self._stamps = np.concatenate([self._stamps, np.full(more, -1, np.int64)])
            self._slots = np.concatenate([self._slots, np.zeros(more, np.int32)])
            self._sids = np.concatenate([self._sids, np.zeros(more, np.int64)])
        stale = self._stamps[handles] != stamps[handles]
        if np.count_nonzero(stale):
            some = np.unique(handles[stale])
            labels = [self._label_of(place) for place in self._index.keys_of(some).tolist()]
            self._slots[some] = [slot for slot, _ in labels]
            self._sids[some] = [sid for _, sid in labels]
            self._stamps[some] = stamps[some]
        return self._slots[handles], self._sids[handles]


FEW: Final = 4  # events that are handled sooner one by one
MOST_IN_CHUNK: Final = 256  # events; what is dropped from a full link is dropped by chunks


class OneByOne(Protocol):
    """Who handles what does not go in batches."""

    sampler: Sampler | None

    def event(self, frame: bytes, source: Link, client: Session | None) -> None:
        """Handle one EVENT frame."""

    def elsewhere(self, link: Link, keys: tuple[Key, ...], frame: bytes) -> None:
        """Deliver an event to subscriptions that have no slot."""


class Flow:
    """The way of events through one router; see the module's text."""

    def __init__(
        self,
        router: Router,
        clients: Mapping[Link, Session],
        neighbours: Mapping[Link, Neighbour],
        one_by_one: OneByOne,
        epoch: int = 0,
    ) -> None:
        self.router = router
        self._clients, self._neighbours = clients, neighbours
        self._one_by_one = one_by_one
        self._epoch = epoch
        self._slots: dict[Link, int] = {}
        self._in_slot: list[Session | None] = [None]  # slot 0 is nobody's
        self._free: list[int] = []
        self._labels = Labels(router.local, self._label_of)
        self._guards: dict[Filter, Index] = {}

    # -- clients ---------------------------------------------------------------------------------------------

    def client_up(self, client: Session) -> None:
        """Give a client a slot."""
        if self._free:
            slot = self._free.pop()
            self._in_slot[slot] = client
        else:
            slot = len(self._in_slot)
            self._in_slot.append(client)
        self._slots[client.link] = slot

    def client_leaving(self, link: Link) -> None:
        """Deliver nothing more to a client; the router may still have subscriptions of it."""
        self._in_slot[self._slots[link]] = None

    def client_down(self, link: Link) -> None:
        """Take the slot back; the router has none of the client's subscriptions any more."""
        slot = self._slots.pop(link, None)  # none, if it was leaving before this way was there
        if slot is not None:
            self._in_slot[slot] = None
            self._free.append(slot)

    def _label_of(self, place: Place) -> Label:
        link, key = place
        client = self._clients.get(link)
        sid = None if client is None else client.sid_of(key)
        return NOBODY if sid is None else (self._slots[link], sid)

    # -- events ----------------------------------------------------------------------------------------------

    def handle(self, frames: Frames, source: Link, client: Session | None, now_s: float) -> None:
        """Handle EVENT frames of a link, in their order; ProtocolError for the first that may not be, after others."""
        if len(frames) < FEW:
            self._each(frames, source, client)
            return
        envelopes = envelopes_of(frames, -1 if client is None else client.number)
        data = np.frombuffer(frames.data, np.uint8)
        plain = envelopes.plain & (envelopes.flags & KEPT == 0)
        trees = () if client is not None else np.unique(envelopes.trees[plain]).tolist()
        if not plain.any() or not self.router.takes_batch(source, trees):
            self._each(frames, source, client)
            return
        contents = PackedEvents(data, envelopes.firsts, envelopes.lasts)
        if plain.all():
            plain = are_packed(contents)
        else:
            plain[plain] = are_packed(contents.some(plain))
        sampler = self._one_by_one.sampler
        if sampler is not None and plain.any():
            plain[plain] = ~sampler.takes_each(*names_in(frames.some(plain)))  # what is looked at closely
        if client is not None and client.permissions.publish is not None:
            plain[plain] = self._may(client.permissions.publish, contents.some(plain))
        flooded = envelopes.flags & FLOODED != 0
        if plain.all():
            batch = EventBatch(contents, envelopes.trees, flooded, _Names(frames))
            self._batch(frames, data, batch, source, now_s)
            self._count(source, client, len(frames))
            return
        for start, end in _rows(plain):
            rows = slice(start, end)
            some = frames.some(rows)
            if not plain[start]:
                self._each(some, source, client)
                continue
            batch = EventBatch(contents.some(rows), envelopes.trees[rows], flooded[rows], _Names(some))
            self._batch(some, data, batch, source, now_s)
            self._count(source, client, len(some))

    def _each(self, frames: Frames, source: Link, client: Session | None) -> None:
        for frame in frames:
            self._one_by_one.event(frame, source, client)

    def _count(self, source: Link, client: Session | None, events: int) -> None:
        if client is not None:
            client.published += events
        elif source in self._neighbours:
            self._neighbours[source].received += events

    def _may(self, allowed: Allowed, events: PackedEvents) -> Mask:
        """Return which events, of attributes, a permission lets through."""
        filter = allowed.attributes
        if filter is None:
            return np.zeros(len(events), np.bool_)
        guard = self._guards.get(filter)
        if guard is None:
            guard = self._guards[filter] = Index()
            guard.add(0, filter)
        return guard.matches_packed(events)

    def _batch(self, frames: Frames, data: Bytes, batch: EventBatch, source: Link, now_s: float) -> None:
        handles, ends, onward = self.router.handle_batch(batch, source, now_s)
        if len(handles):
            self._deliver(frames, data, handles, ends)
        for one in onward:
            self._send(frames, data, one)

    # -- out -------------------------------------------------------------------------------------------------

    def _send(self, frames: Frames, data: Bytes, onward: Onward) -> None:
        neighbour = self._neighbours.get(onward.link)
        if neighbour is None:
            return
        which = onward.events
        sizes = frames.ends[which] - frames.starts[which]
        out: Bytes = np.empty(int(sizes.sum()) + 4 * len(which), np.uint8)
        ends: Longs = np.empty(len(which), np.int64)
        copy_onward(
            data, frames.starts, frames.ends, which, onward.trees, onward.flooded, self._epoch, out, ends
        )
        neighbour.sent += len(which)
        _put(neighbour.outlet, out, ends)

    def _deliver(self, frames: Frames, data: Bytes, handles: Ints, event_ends: Longs) -> None:
        slots, sids = self._labels.of(handles)
        count = len(self._in_slot)
        firsts: Longs = np.empty(count + 1, np.int64)
        sizes: Longs = np.empty(count, np.int64)
        numbers: Longs = np.empty(count, np.int64)
        events: Longs = np.empty(len(handles), np.int64)
        sorted_sids: Longs = np.empty(len(handles), np.int64)
        sort_deliveries(
            frames.starts, frames.ends, event_ends, slots, sids, firsts, sizes, numbers, events, sorted_sids
        )
        for slot in np.flatnonzero(sizes).tolist():
            if slot == 0:
                self._elsewhere(frames, handles, event_ends, slots)
                continue
            client = self._in_slot[slot]
            if client is None:
                continue  # it is leaving
            first, last = int(firsts[slot]), int(firsts[slot + 1])
            out: Bytes = np.empty(int(sizes[slot]), np.uint8)
            ends: Longs = np.empty(int(numbers[slot]), np.int64)
            copy_deliveries(
                data, frames.starts, frames.ends, events[first:last], sorted_sids[first:last], out, ends
            )
            client.delivered += len(ends)
            _put(client.outlet, out, ends)

    def _elsewhere(self, frames: Frames, handles: Ints, event_ends: Longs, slots: Ints) -> None:
        where = np.flatnonzero(slots == 0)
        events = np.searchsorted(event_ends, where, side="right").tolist()
        together: dict[tuple[int, Link], list[Key]] = {}
        for event, (link, key) in zip(
            events, self.router.local.keys_of(handles[where]).tolist(), strict=True
        ):
            together.setdefault((event, link), []).append(key)
        for (event, link), keys in together.items():
            self._one_by_one.elsewhere(link, tuple(sorted(keys)), frames[event])


def _put(outlet: Outlet, out: Bytes, ends: Longs) -> None:
    """Send whole frames, in chunks that are small enough to be dropped."""
    first = 0
    for place in range(0, len(ends), MOST_IN_CHUNK):
        count = min(MOST_IN_CHUNK, len(ends) - place)
        last = int(ends[place + count - 1])
        outlet.send_events(out[first:last].tobytes(), count)
        first = last


def _rows(mask: Mask) -> list[tuple[int, int]]:
    """Return where the mask says the same from beginning to end."""
    changes = (np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist()
    bounds = [0, *changes, len(mask)]
    return list(pairwise(bounds))


class _Names:
    """The names of events, made when they are asked for."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def __call__(self, number: int) -> str:
        envelope = envelope_of(self._frames[number])
        return name_of(envelope.publisher, envelope.number)
