"""FastPath: the one way of events through a broker, for what all links have sent in a turn of the loop.

    reads of all links → relay (compiled: check, match, lay out) → one chunk of frames a receiver
                         ↑↓ stops, in the order of each link, where Python is needed

`matching.relay` does the work. This module keeps what it needs up to date (`Tables` of each epoch's router, `_Source`
of each link), sends what it has laid out, and answers where it stops:

    values that no compiled code can judge    are judged, and remembered (`IndexView.learn`)
    subscriptions that it has not met yet     get a label: their client's slot, and their number there (`Labels`)
    a frame that is not for it                control frames go to the `Desk`; an event goes its own lane: it is decoded
                                              and given to the router alone (`_event`)

Its own lane has an event that is no packed event of attributes in its one form, has notes other than the names of
brokers that it is for, is confirmed (KEPT), is sampled, may not be published by its client, or that a strategy wants to
see which does more than follow tables or address events.

A subscription that is not simply a connected client's (a durable one, whose deliveries are stored) has no slot: its
deliveries are handed to the desk one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from ctypes import string_at
from struct import Struct
from typing import Any, Final, Protocol

import numpy as np
from msgspec.msgpack import Encoder

from covey.broker.effects import Effect, Write
from covey.broker.neighbours import Neighbour
from covey.broker.plans import Epochs
from covey.broker.sampling import Sampler
from covey.broker.sessions import Session
from covey.core.content import check_content, too_wide
from covey.core.event import MAX_ATTRIBUTES
from covey.core.filter import Filter
from covey.core.work import ACCOUNT
from covey.errors import CoveyError, EventError, ProtocolError
from covey.matching import addressing
from covey.matching import relay as kernel
from covey.matching.attributes.checking import count_values
from covey.matching.attributes.packed import Bytes
from covey.matching.attributes.view import MISSING_COLUMNS, IndexView
from covey.matching.index import Index
from covey.matching.jit import Longs, address_of, address_of_bytes
from covey.matching.relay import MOST_IN_CHUNK, Status, relay, write_chunks
from covey.matching.relay_layout import (
    Addressed,
    Chunk,
    Entry,
    EventRow,
    Label,
    ReadRow,
    RouterRow,
    Slot,
    SortedEntry,
    Source,
    Turn,
)
from covey.protocol.batches import Frames, new_bytes
from covey.protocol.connection import Connection
from covey.protocol.events import ATTRIBUTES, ENVELOPE, KEPT, Envelope, envelope_of, family_of, publish_of
from covey.protocol.frames import LENGTH, Kind
from covey.protocol.outbox import Verdict
from covey.routing.messages import Key, Link, Publish, Tree
from covey.routing.outputs import Deliver, Output
from covey.routing.router import Router
from covey.routing.table import Place
from covey.routing.tree import TreePart

__all__ = ["MOST_IN_CHUNK", "Desk", "FastPath", "Read"]

ANY_LENGTH: Final = (1 << 32) - 1

# Units of work (`core.work`) of an event on a lane of its own, and of each byte of its content.
LANE, LANE_BYTE = 20.0, 0.1
WIDTH_BYTE: Final = 0.0012  # of each byte of an event whose attributes are counted before it is decoded

# Units of work of what goes out: of each chunk, of each event in it, and 1 for each SENT_BYTES. Below DEAR it is not
# worth the while to find out whose work it was.
SENT_CHUNK, SENT_EVENT, SENT_BYTES = 4.0, 0.1, 4_096
DEAR: Final = 50.0

# Where the fields of the kernel's records are among their numbers.
_CHUNK_AT, _ENTRY_AT, _EVENT_AT, _LABEL_AT = Chunk.PLACES, Entry.PLACES, EventRow.PLACES, Label.PLACES
_READ_AT, _ROUTER_AT, _TURN_AT = ReadRow.PLACES, RouterRow.PLACES, Turn.PLACES
_READ_LENGTH: Final = ReadRow.length_in(np.int64)

_ROW: Final = Struct(f"={_READ_LENGTH}q")
_pack_row: Final = _ROW.pack_into
_SOURCE: Final = Struct(f"={Source.length_in(np.int64)}q")
_CHUNK: Final = Struct(f"={Chunk.length_in(np.int64)}q")
_EVENT: Final = int(Kind.EVENT)
_EPOCH: Final = Struct("<H")
_KIND_AT: Final = LENGTH.size  # where a frame says what it is
MOST_PASSED: Final = 1 << 16  # bytes of events that are passed through at once: about what a turn does

_FIRST_ENTRIES: Final = 1 << 12
_FIRST_READS: Final = 64
_FIRST_NOTES: Final = 1 << 16
_FEW: Final = (
    8  # reads that the kernel is given after a frame that may change what it knows, as more may come
)

Peer = Session | Neighbour


class Read:
    """What one link has sent: bytes from `at` to `end`, which may end in a part of a frame.

    `address` is where `data` begins. Once it is handled, `at` is where the first frame begins that was not handled.
    """

    __slots__ = ("address", "at", "data", "end", "limit", "link", "peer")

    def __init__(
        self,
        link: Link,
        peer: Peer,
        data: bytes | bytearray | memoryview,
        address: int,
        at: int,
        end: int,
        limit: int = ANY_LENGTH,
    ) -> None:
        self.link, self.peer = link, peer
        self.data, self.address = data, address
        self.at, self.end = at, end
        self.limit = limit  # of a frame's length

    @classmethod
    def of(cls, peer: Peer, frames: Sequence[bytes]) -> Read:
        """Return the read of complete frames of a client or neighbour."""
        some = Frames.of(frames)
        return cls(peer.link, peer, some.data, some.address, some.at, some.end)

    def frame(self, at: int) -> bytes:
        """Return the complete frame whose length is at a place."""
        first = at + LENGTH.size
        return bytes(self.data[first : first + LENGTH.unpack_from(self.data, at)[0]])


class Passage:
    """A connection over which events are passed through; what it says holds until `FastPath.forget_passages`.

    `limit` is how many bytes a frame may have that is received, or all that is sent at once.
    """

    __slots__ = ("address", "connection", "limit", "most_events", "number", "peer", "source")

    def __init__(
        self, number: int, peer: Peer, connection: Connection, limit: int, most_events: int = 0
    ) -> None:
        self.number, self.peer, self.connection = number, peer, connection
        self.limit, self.most_events = limit, most_events
        self.source: _Source  # of whoever sends,
        self.address: int  # and where it is


class Desk(Protocol):
    """Who handles what is not the fast path's: the rest of the broker."""

    counters: Counter[str]
    sampler: Sampler | None

    @property
    def time_s(self) -> float:
        """The time of day, for samples."""

    @property
    def clients(self) -> Mapping[Link, Session]:
        """The clients that are connected."""

    @property
    def linked(self) -> Mapping[Link, Neighbour]:
        """The brokers to which there is a connection."""

    @property
    def links_version(self) -> int:
        """A number that is another one after every change of who is linked, and over which links routers talk."""

    @property
    def is_holding(self) -> bool:
        """Whether what clients say has to wait."""

    @property
    def is_keeping(self) -> bool:
        """Whether confirmed events are kept here."""

    @property
    def is_spent(self) -> bool:
        """Whether so much was done in this turn that what is left of it has to wait for another one."""

    def sender(self, number: int) -> Passage | None:
        """Return whoever sends over a connection, without its source; None if what it says has to wait for a turn."""

    def receiver(self, peer: Peer) -> Passage | None:
        """Return the connection of somebody who receives; None if nothing can be written to it at once."""

    def is_used(self, neighbour: Neighbour, epoch: int) -> bool:
        """Return whether routers of that epoch talk over the link to a neighbour."""

    def hold(self, read: Read) -> None:
        """Let a read of a client wait."""

    def begin(self, link: Link | None) -> None:
        """What follows is done for frames of that link; None: no longer."""

    def charge(self, peer: Peer, events: int, units: float) -> None:
        """Count what so many events that somebody has sent have cost."""

    def control(self, read: Read, frame: bytes) -> None:
        """Handle a frame that carries no event; CoveyError if its link is to end."""

    def failed(self, read: Read, error: CoveyError) -> None:
        """A link has said what it may not: nothing more of it is handled."""

    def full(self, link: Link, sources: Sequence[Link]) -> None:
        """A receiver has taken more than it should: those who have filled it are to wait."""

    def unreadable(self, envelope: Envelope, read: Read, error: EventError) -> None:
        """An event is none."""

    def confirmed(self, frame: bytes, envelope: Envelope, publish: Publish, read: Read) -> None:
        """Take a confirmed event."""

    def waits(self, link: Link, epoch: int, frame: bytes) -> bool:
        """Put a neighbour's frame aside if the router of its epoch is not ready for it; return whether that is so."""

    def carry_out(
        self, outputs: Sequence[Output], epoch: int, one: bytes = b"", envelope: Envelope | None = None
    ) -> None:
        """Carry out what the router of an epoch says of one event."""

    def elsewhere(self, link: Link, keys: tuple[Key, ...], frame: bytes, source: Link | None) -> None:
        """Deliver an event, which the source has sent if that is known, to subscriptions that have no slot."""


class Slots:
    """Numbers for those who receive: clients from `client_up` to `client_down`, neighbours while they are linked."""

    def __init__(self) -> None:
        self.peers: list[Peer | None] = [None]  # slot 0 is nobody's
        self._of_link: dict[Link, int] = {}
        self._neighbours: set[Link] = set()
        self._free: list[int] = []

    def of(self, link: Link) -> int:
        """Return the slot of a link, 0 if it has none."""
        return self._of_link.get(link, 0)

    def add(self, peer: Peer) -> int:
        """Give whoever is at a link a slot, the same as long as the link has one; return it."""
        slot = self._of_link.get(peer.link)
        if slot is None:
            if self._free:
                slot = self._free.pop()
            else:
                slot = len(self.peers)
                self.peers.append(None)
            self._of_link[peer.link] = slot
        self.peers[slot] = peer
        return slot

    def remove(self, link: Link) -> None:
        """Take a slot back, to which nothing may refer any more."""
        slot = self._of_link.pop(link)
        self.peers[slot] = None
        self._free.append(slot)

    def keep_neighbours(self, neighbours: Mapping[Link, Neighbour]) -> None:
        """Give these neighbours slots, and take back those of others."""
        for link in self._neighbours - neighbours.keys():
            self.remove(link)
        self._neighbours = set(neighbours)
        for neighbour in neighbours.values():
            self.add(neighbour)


class Labels:
    """For each handle of the local index: of which client the subscription is, by its slot, and its number there.

    A handle says nothing to a client, and a key is a text: to look one up costs more than to match and copy an event.
    So what was looked up once is kept by handle until the handle gets another key, which its stamp tells.
    """

    def __init__(self) -> None:
        self.rows: Longs = np.zeros((0, Label.length_in(np.int64)), np.int64)

    def make_room(self, count: int) -> None:
        """Make room for handles below `count`."""
        if count > len(self.rows):
            rows: Longs = np.full((count, Label.length_in(np.int64)), -1, np.int64)
            rows[: len(self.rows)] = self.rows
            self.rows = rows

    def learn(self, handles: Longs, index: Index, clients: Mapping[Link, Session], slots: Slots) -> None:
        """Look up what handles stand for."""
        places: list[Place] = index.keys_of(handles.astype(np.int32)).tolist()
        for handle, (link, key) in zip(handles.tolist(), places, strict=True):
            client = clients.get(link)
            sid = None if client is None else client.sid_of(key)
            self.rows[handle, _LABEL_AT.slot] = 0 if sid is None else slots.of(link)
            self.rows[handle, _LABEL_AT.sid] = sid or 0
        self.rows[handles, _LABEL_AT.stamp] = index.stamps()[handles]


class Tables:
    """The router of one epoch as the kernel sees it."""

    def __init__(self, router: Router, epoch: int) -> None:
        self.router, self.epoch = router, epoch
        self.labels = Labels()
        self.row: Longs = np.zeros(RouterRow.length_in(np.int64), np.int64)
        self.row[_ROUTER_AT.epoch] = epoch
        self.address = address_of(self.row)
        self.counts = self.row.data
        self._telling = {part.tree for part in router.telling}
        self._region = _Region(router) if router.addresses else None
        self._trees: list[tuple[Any, ...]] = []
        self._kept: list[Longs] = []
        self.most_links = 0
        self.is_plain = False  # whether the kernel may use it

    def refresh(self, slots: Slots, used: Mapping[Link, Neighbour], views: dict[int, IndexView]) -> None:
        """Follow the router to its present state."""
        local, row = self.router.local, self.row
        row[_ROUTER_AT.local] = kernel.NOTHING
        if len(local):
            row[_ROUTER_AT.local] = address_of_view(local, views)
            stamps = local.stamps()
            self.labels.make_room(len(stamps))
            row[_ROUTER_AT.stamps] = address_of(stamps)
            row[_ROUTER_AT.labels] = address_of(self.labels.rows)
        seen = self.router.seen
        row[_ROUTER_AT.seen] = 0 if seen is None else seen.names.address
        if self._region is not None:
            self._region.refresh(slots, used)
            row[_ROUTER_AT.region] = self._region.address
        trees = [
            self._tree(
                number, part, {link: slots.of(link) for link in part.neighbours() if link in used}, views
            )
            for number, part in self.router.trees.items()
        ]
        if trees != self._trees:  # seldom: subscriptions change more often than links
            self._trees = trees
            self._set_trees()

    def _tree(
        self, number: Tree, part: TreePart, links: Mapping[Link, int], views: dict[int, IndexView]
    ) -> tuple[Any, ...]:
        """Return a tree's number, whether it tells, its next hops, and the slots of links by number and as listed."""
        index, slots = part.strategy.next_hop_index(), tuple(links.values())
        if index is None:
            return number, number in self._telling, kernel.EVERYTHING, (), slots
        if not len(index):
            return number, number in self._telling, kernel.NOTHING, (), slots
        numbered: Sequence[Any] = index.numbered_links()
        view = address_of_view(index, views)
        if self._region is not None:
            return number, number in self._telling, view, self._region.hosts(numbered), slots
        return number, number in self._telling, view, tuple(links.get(link, 0) for link in numbered), slots

    @property
    def most_notes(self) -> int:
        """How many bytes the notes of one event may take."""
        return 0 if self._region is None else self._region.most_notes

    def _set_trees(self) -> None:
        self._kept = []
        rows = []
        for number, tells, hops, of_numbers, slots in self._trees:
            numbered, listed = self._keep(of_numbers), self._keep(slots)
            rows.append((number, tells, hops, address_of(numbered), address_of(listed), len(slots)))
        self.row[_ROUTER_AT.trees] = address_of(self._keep(rows))
        self.row[_ROUTER_AT.tree_count] = len(rows)
        self.most_links = max(len(of_numbers) for _, _, _, of_numbers, _ in self._trees)

    def _keep(self, items: Sequence[Any]) -> Longs:
        array: Longs = np.array(items, np.int64).reshape(-1)
        self._kept.append(array)
        return array

    def count(self) -> None:
        """Add what the kernel has counted to the router's counters."""
        for place, name in _COUNTED:
            if self.counts[place]:
                self.router.counters[name] += self.counts[place]
                self.counts[place] = 0


_COUNTED: Final = (
    (_ROUTER_AT.unadvertised, "unadvertised_events"),
    (_ROUTER_AT.duplicates, "duplicates_suppressed"),
    (_ROUTER_AT.dropped, "dropped_destinations"),
)


class _Region:
    """Where a plan takes the only copy of an event, as the kernel sees it from one broker (`matching.addressing`)."""

    def __init__(self, router: Router) -> None:
        self._parts = list(router.trees.values())
        carrying = router.plan.carrying
        assert carrying is not None, "a strategy that addresses events has trees for one copy"
        self._carrying, self._here = carrying, router.broker
        self._number, count, here = carrying.number, len(carrying.names), carrying.number[router.broker]
        names = [_encode_name(name) for name in carrying.names]
        self._names: Bytes = np.frombuffer(b"".join(names), np.uint8)
        self._starts: Longs = np.cumsum([0, *map(len, names)], dtype=np.int64)
        self._far, self._parents = carrying.far_to_choose(), carrying.parents.astype(np.int64)
        self._next: list[
            tuple[list[Link], Longs]
        ] = []  # of each tree: the neighbours, and which is next, by broker
        for part in self._parts:
            hops = [
                "" if name == router.broker else carrying.next_hop(part.tree, router.broker, name)
                for name in carrying.names
            ]
            links = sorted(set(hops))
            places: Longs = np.array([links.index(link) for link in hops], np.int64)
            self._next.append((links, places))
        self._ways: Longs = np.zeros((len(self._parts), count), np.int64)
        self._room: Longs = np.zeros((count, Addressed.length_in(np.int64)), np.int64)
        self._links: tuple[object, ...] | None = None  # of which the ways are
        self.most_notes = addressing.most_notes(len(self._names), count)
        rule = addressing.NEAREST if carrying.rule == "nearest" else addressing.CHEAPEST
        row = [rule, here, count, len(self._parts)]
        row += [address_of(array) for array in (self._far, self._parents, self._ways)]
        row += [address_of(array) for array in (self._names, self._starts, self._room)]
        self._row: Longs = np.array([*row, self.most_notes], np.int64)
        self.address = address_of(self._row)

    def refresh(self, slots: Slots, used: Mapping[Link, Neighbour]) -> None:
        """Follow the links: which are open on each tree, their slots, and over which events may be sent."""
        links = tuple(
            tuple((link, slots.of(link), link in used) for link in part.neighbours()) for part in self._parts
        )
        if links == self._links:
            return
        self._links = links
        for tree, some in enumerate(links):
            # A link without a connection has no slot, and is not used.
            way = {link: (slot or _NO_SLOT) << 1 | is_used for link, slot, is_used in some}
            known, places = self._next[tree]
            self._ways[tree] = np.array([way.get(link, 0) for link in known], np.int64)[places]
        open_links = {link for some in links for link, _, _ in some}
        away = [link for link in self._carrying.around(self._here) if link not in open_links]
        if away:
            good = (self._ways != 0) & ~self._carrying.behind(self._here, away)
            self._ways[~good & good.any(axis=0)] = 0  # in place: the kernel has its address

    def hosts(self, links: Sequence[Any]) -> tuple[int, ...]:
        """Return one more than the number of the broker that each link of the directory is."""
        return tuple(0 if link is None else self._number[link] + 1 for link in links)


_NO_SLOT: Final = 1 << 40
_encode_name: Final = Encoder().encode


def address_of_view(index: Index, views: dict[int, IndexView]) -> int:
    """Return where kernels find an index, up to date; it is noted among the views."""
    view = index.view()
    views[view.address] = view
    return view.address


class _Source:
    """A link in one epoch as the kernel sees it; it holds for a state of the broker."""

    __slots__ = ("_bytes", "_kept", "_row", "address", "epoch", "is_lane", "peer", "permissions", "state")

    def __init__(self, peer: Peer, epoch: int) -> None:
        self.peer, self.epoch = peer, epoch
        self.permissions: object = None
        self._row: Longs = np.zeros(Source.length_in(np.int64), np.int64)
        self._bytes = self._row.data.cast("B")
        self.address = address_of(self._row)
        self.state: object = None
        self.is_lane = True
        self._kept: Longs | None = None

    def holds(self, peer: Peer, state: object) -> bool:
        """Return whether it says what is true of whoever is at the link, in a state of the broker."""
        if self.state is not state or self.peer is not peer:
            return False
        return not isinstance(peer, Session) or self.permissions is peer.permissions

    def set_lane(self) -> None:
        """Let all events have a lane of their own."""
        is_client = isinstance(self.peer, Session)
        self.is_lane = True
        _SOURCE.pack_into(self._bytes, 0, 0, 0, self.epoch, 1, is_client, 0, 0, 0, 0, 0, 0)

    def set_client(
        self, number: int, tables: Tables, guard: int, advertised: int, is_sampled: bool, below: int
    ) -> None:
        """Note what a client may say."""
        self.is_lane = False
        values = (0, self.epoch, 0, 1, _signed(number), guard, advertised, is_sampled, _signed(below), 0)
        _SOURCE.pack_into(self._bytes, 0, tables.address, *values)

    def set_neighbour(
        self, slot: int, tables: Tables, trees: Sequence[int], is_sampled: bool, below: int
    ) -> None:
        """Note what a neighbour may say: on which trees, in the order of the router's."""
        self.is_lane = False
        self._kept = np.array(trees, np.int64)
        at = address_of(self._kept)
        values = (slot, self.epoch, 0, 0, 0, 0, 0, is_sampled, _signed(below), at)
        _SOURCE.pack_into(self._bytes, 0, tables.address, *values)


class _Rooms:
    """The arrays that the kernel works in."""

    def __init__(self) -> None:
        self.version = 0
        self.events: Longs = np.empty((kernel.MOST_EVENTS, EventRow.length_in(np.int64)), np.int64)
        self.missed: Longs = np.empty((kernel.MOST_MISSED, MISSING_COLUMNS), np.int64)
        self.scratch: Longs = np.empty(kernel.SCRATCH_LONGS, np.int64)
        self.floats = np.empty(kernel.SCRATCH_FLOATS, np.float64)
        self.seen = np.zeros(128, np.int32)
        self.slots: Longs = np.zeros((64, Slot.length_in(np.int64)), np.int64)
        self._make_entries(_FIRST_ENTRIES)
        self.out: Bytes = np.empty(kernel.MOST_WRITTEN, np.uint8)
        self.out_bytes = self.out.data
        self.notes: Bytes = np.empty(_FIRST_NOTES, np.uint8)

    def _make_entries(self, count: int) -> None:
        self.entry_room = count
        self.entries: Longs = np.empty((count, Entry.length_in(np.int64)), np.int64)
        self.sorted: Longs = np.empty((count, SortedEntry.length_in(np.int64)), np.int64)
        self.touched: Longs = np.empty(count, np.int64)
        self.chunks: Longs = np.empty((count, Chunk.length_in(np.int64)), np.int64)
        self.chunk_bytes = self.chunks.reshape(-1).data.cast("B")

    def fit(self, slots: int, links: int, notes: int = 0) -> None:
        """Make room for so many slots, for links of neighbours, and bytes of notes of one event."""
        if notes > len(self.notes):
            self.notes = np.empty(2 * notes, np.uint8)
            self.version += 1
        if slots > len(self.slots):
            self.slots = np.zeros((2 * slots, Slot.length_in(np.int64)), np.int64)
            self.version += 1
        if links + 1 > len(self.seen):
            self.seen = np.zeros(2 * links, np.int32)
            self.version += 1

    def grow(self, entries: int) -> None:
        """Make room for one event that goes to so many."""
        self._make_entries(entries + entries // 4)
        self.version += 1

    def note(self, turn: Longs) -> None:
        """Write where everything is."""
        for place, array in (
            (_TURN_AT.events, self.events),
            (_TURN_AT.entries, self.entries),
            (_TURN_AT.sorted, self.sorted),
            (_TURN_AT.slots, self.slots),
            (_TURN_AT.touched, self.touched),
            (_TURN_AT.chunks, self.chunks),
            (_TURN_AT.out, self.out),
            (_TURN_AT.scratch, self.scratch),
            (_TURN_AT.floats, self.floats),
            (_TURN_AT.seen, self.seen),
            (_TURN_AT.missed, self.missed),
            (_TURN_AT.notes, self.notes),
        ):
            turn[place] = address_of(array)
        turn[_TURN_AT.notes_room] = len(self.notes)
        turn[_TURN_AT.entry_room] = self.entry_room


class _Turn:
    """The arguments of the kernel for one turn: a turn within a turn has its own."""

    def __init__(self) -> None:
        self.array: Longs = np.zeros(Turn.length_in(np.int64), np.int64)
        self.fields = self.array.data
        self.rooms = -1  # the version of the rooms that it knows
        self.reads: Sequence[Read] = ()
        self.peers: list[Peer] = []
        self.sources: list[_Source | None] = []
        self.make_rows(_FIRST_READS)

    def make_rows(self, count: int) -> None:
        """Make room for so many reads."""
        self.rows: Longs = np.zeros((count, _READ_LENGTH), np.int64)
        self.cells = self.rows.reshape(-1).data
        self.row_bytes = self.cells.cast("B")
        self.array[_TURN_AT.reads] = address_of(self.rows)

    def begin(self, reads: Sequence[Read]) -> None:
        """Take reads; their sources are still to be set."""
        if len(reads) > len(self.rows):
            self.make_rows(2 * len(reads))
        self.reads, self.peers = reads, [read.peer for read in reads]
        self.sources = [None] * len(reads)
        place, rows, pack_into = 0, self.row_bytes, _ROW.pack_into
        for read in reads:
            pack_into(rows, place, read.address, read.at, read.end, read.limit, 0, 0)
            place += _ROW.size
        self.fields[_TURN_AT.read] = 0

    def next(self) -> int:
        """Go on to the first read of which something is left; return its number, or how many reads there are."""
        number = self.fields[_TURN_AT.read]
        while number < len(self.reads) and not self.rest(number):
            number += 1
        self.fields[_TURN_AT.read] = number
        return number

    def handled(self, count: int) -> tuple[list[int], list[int]]:
        """Return, by read, how far it is handled, and how many events of it the kernel has handled."""
        last, step = count * _READ_LENGTH, _READ_LENGTH
        places, counts = self.cells[_READ_AT.at : last : step], self.cells[_READ_AT.count : last : step]
        return places.tolist(), counts.tolist()

    def at(self, number: int) -> int:
        """Return how far a read is handled."""
        return self.cells[number * _READ_LENGTH + _READ_AT.at]

    def set_at(self, number: int, at: int) -> None:
        """Note how far a read is handled."""
        self.cells[number * _READ_LENGTH + _READ_AT.at] = at

    def end(self, number: int) -> None:
        """Handle nothing more of a read: it ends as far as it is handled."""
        at = self.at(number)
        self.cells[number * _READ_LENGTH + _READ_AT.end] = at
        self.reads[number].end = at

    def rest(self, number: int) -> int:
        """Return how many bytes of a read are not handled."""
        row = number * _READ_LENGTH
        return self.cells[row + _READ_AT.end] - self.cells[row + _READ_AT.at]

    def set_source(self, number: int, source: _Source) -> None:
        """Note whose a read is."""
        self.sources[number] = source
        self.cells[number * _READ_LENGTH + _READ_AT.source] = source.address


class FastPath:
    """The events of one broker; see the module's text."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self._slots = Slots()
        self._rooms = _Rooms()
        self._turns = [_Turn()]
        self._depth = 0
        self._state: tuple[object, ...] = ()
        self._senders: dict[int, Passage] = {}  # by connection, until `forget_passages`
        self._receivers: dict[int, Passage] = {}  # by slot, likewise
        self._tables: dict[int, Tables] = {}
        self._sources: dict[int, dict[Link, _Source]] = {}  # by epoch
        self._epoch_of: dict[Link, int] = {}  # in which a neighbour has sent last
        self._views: dict[int, IndexView] = {}
        self._guards: dict[Filter, Index] = {}
        self._now_s = 0.0

    # -- clients ---------------------------------------------------------------------------------------------

    def client_up(self, client: Session) -> None:
        """Give a client a slot."""
        self._slots.add(client)
        self._rooms.fit(len(self._slots.peers), 0)

    def client_down(self, link: Link) -> None:
        """Take the slot back; the routers have none of the client's subscriptions any more."""
        self._slots.remove(link)
        for known in self._sources.values():
            known.pop(link, None)

    # -- events ----------------------------------------------------------------------------------------------

    def handle(self, reads: Sequence[Read], desk: Desk, now_s: float) -> None:
        """Handle what links have sent, each in its order; what one of them may not say ends that link alone.

        It ends early if the desk says that enough was done: reads tell how far they were handled.
        """
        if self._depth == len(self._turns):
            self._turns.append(_Turn())
        turn = self._turns[self._depth]
        self._depth += 1
        self._now_s = now_s
        try:
            turn.begin(reads)
            self._run(turn, desk)
        finally:
            self._depth -= 1
            self._count(turn)
            turn.reads, turn.peers, turn.sources = (), [], []

    # -- events that are passed through ----------------------------------------------------------------------

    def pass_through(
        self, reads: dict[int, bytes], desk: Desk, now_s: float
    ) -> tuple[list[Effect], dict[int, bytes]]:
        """Handle events of connections, one read of each, as far as the kernel needs nobody.

        Return what is to be written, and what is left of the reads, for `handle`. It does what `handle` would do, for
        what most turns consist of, with as little else as can be: what is found out about senders and receivers holds
        until `forget_passages`.
        """
        turn, place, size = self._turns[0], 0, 0
        found: list[tuple[int, bytes, Passage]] = []
        left: dict[int, bytes] = {}
        for number, data in reads.items():
            sender = self._senders.get(number) or self._find_sender(number, desk)
            size += len(data)
            if sender is None or len(data) <= _KIND_AT or data[_KIND_AT] != _EVENT or size > MOST_PASSED:
                left[number] = data
                continue
            if len(found) == len(turn.rows):
                turn.make_rows(2 * len(found))
                return [], reads  # as seldom as this
            _pack_row(
                turn.row_bytes, place, address_of_bytes(data), 0, len(data), sender.limit, sender.address, 0
            )
            place += _ROW.size
            found.append((number, data, sender))
        if not found:
            return [], left
        fields, cells, place = turn.fields, turn.cells, 0
        fields[_TURN_AT.read], fields[_TURN_AT.read_count] = 0, len(found)
        if turn.rooms != self._rooms.version:
            turn.rooms = self._rooms.version
            self._rooms.note(turn.array)
        relay(turn.array)
        writes = self._pass_on(turn, found, desk, now_s) if fields[_TURN_AT.chunk_count] else []
        for number, data, sender in found:
            at, count, peer = cells[place + _READ_AT.at], cells[place + _READ_AT.count], sender.peer
            place += _READ_LENGTH
            sender.connection.heard_s = now_s
            sender.connection.received_bytes += at
            if isinstance(peer, Session):
                peer.published += count
            else:
                peer.received += count
            if at < len(data):
                left[number] = data[at:]
        return writes, left

    def _pass_on(
        self, turn: _Turn, found: Sequence[tuple[int, bytes, Passage]], desk: Desk, now_s: float
    ) -> list[Effect]:
        """Return what the kernel has laid out as it is to be written; what cannot be at once goes to outboxes."""
        rooms, writes = self._rooms, list[Effect]()
        size = _CHUNK.size * turn.fields[_TURN_AT.chunk_count]
        rows = list(_CHUNK.iter_unpack(rooms.chunk_bytes[:size]))
        for slot, _, _, count, size, at in rows if turn.fields[_TURN_AT.written] else ():
            receiver = self._receivers.get(slot) or self._find_receiver(slot, desk)
            if receiver is None or size > receiver.limit or count > receiver.most_events:
                break
            connection, peer = receiver.connection, receiver.peer
            connection.sent_s = now_s
            connection.sent_bytes += size
            if isinstance(peer, Session):
                peer.delivered += count
            else:
                peer.sent += count
            writes.append(Write(receiver.number, [rooms.out_bytes[at : at + size].tobytes()]))
        entry_count = turn.fields[_TURN_AT.entry_count]
        if len(writes) < len(rows) or SENT_CHUNK * len(rows) + SENT_EVENT * entry_count >= DEAR:
            turn.peers = [sender.peer for _, _, sender in found]
            turn.sources = [sender.source for _, _, sender in found]
            self._send(turn, rows[len(writes) :], desk)
            self._charge(turn, rows, desk)
            turn.peers, turn.sources = [], []
            self.forget_passages()  # whoever has to pay may have to wait
        return writes

    def forget_passages(self) -> None:
        """Something else has been done than to pass events through: ask again who sends and receives."""
        if self._senders:
            self._senders = {}
        if self._receivers:
            self._receivers = {}

    def _find_sender(self, number: int, desk: Desk) -> Passage | None:
        """Return whoever sends over a connection, None if its events cannot be passed through."""
        passage = desk.sender(number)
        if passage is not None:
            self._follow(desk)
            peer, epoch = passage.peer, self._epochs.current
            if not isinstance(peer, Session):
                epoch = self._epoch_of.get(peer.link, epoch)
            passage.source = self._source(peer, epoch, desk)
            passage.address = passage.source.address
            self._senders[number] = passage
        return passage

    def _find_receiver(self, slot: int, desk: Desk) -> Passage | None:
        """Return whoever has a slot, None if nothing can be written to it at once."""
        peer = self._slots.peers[slot]
        passage = None if peer is None else desk.receiver(peer)
        if passage is not None:
            self._receivers[slot] = passage
        return passage

    def _run(self, turn: _Turn, desk: Desk) -> None:
        is_placed, most = False, len(turn.reads)
        while (number := turn.next()) < len(turn.reads):
            if self._is_spent(desk):
                break
            if self._is_control(turn, number):  # as most that is not an event: the kernel need not know it
                self._lane(turn, number, desk)
                is_placed, most = False, _FEW
                continue
            if not is_placed:
                self._follow(desk)
                self._place(turn, number, min(number + most, len(turn.reads)), desk)
                is_placed = True
            if turn.rooms != self._rooms.version:
                turn.rooms = self._rooms.version
                self._rooms.note(turn.array)
            status = relay(turn.array)
            if turn.fields[_TURN_AT.event_count]:
                self._send_all(turn, desk)
            number = turn.fields[_TURN_AT.read]
            if status == Status.DONE:
                is_placed, most = False, 2 * most
            elif status == Status.PYTHON:
                is_placed = self._lane(turn, number, desk)
                most = most if is_placed else _FEW
            elif status == Status.MISSING:
                desk.begin(turn.reads[number].link)
                self._learn(turn.fields[_TURN_AT.missed_count])
                desk.begin(None)
            elif status == Status.UNLABELLED:
                self._label(turn, number, desk)
            elif status == Status.EPOCH:
                self._change_epoch(turn, number, desk)
            elif status == Status.ROOM:
                self._rooms.grow(turn.fields[_TURN_AT.need_entries])
            elif status == Status.BROKEN:
                self._break(turn, number, desk)

    def _is_spent(self, desk: Desk) -> bool:
        return self._depth == 1 and desk.is_spent  # a turn within a turn is done to its end

    def _count(self, turn: _Turn) -> None:
        """Note how far reads are handled, and count the events of which the kernel has done that."""
        for read, at, count in zip(turn.reads, *turn.handled(len(turn.reads)), strict=True):
            read.at = at
            peer = read.peer
            if not count:
                continue
            if isinstance(peer, Session):
                peer.published += count
            else:
                peer.received += count
        self.count_tables()

    def count_tables(self) -> None:
        """Add what the kernel has counted to the counters of routers."""
        for tables in self._tables.values():
            counts = tables.counts
            if counts[_ROUTER_AT.unadvertised] or counts[_ROUTER_AT.duplicates] or counts[_ROUTER_AT.dropped]:
                tables.count()

    # -- what the kernel knows -------------------------------------------------------------------------------

    def _state_of(self, desk: Desk) -> tuple[object, ...]:
        """Return what is different if anything has changed that the kernel knows."""
        state: list[object] = [desk.is_holding, desk.sampler, self._epochs.current, *self._epochs.adopting]
        state.append(desk.links_version)
        for epoch, router in self._epochs.routers.items():
            state += (epoch, router, router.version)
        return tuple(state)

    def _follow(self, desk: Desk) -> None:
        """Bring what the kernel knows up to date."""
        state = self._state_of(desk)
        if state == self._state:
            return
        self._state = state
        self._slots.keep_neighbours(desk.linked)
        self._sources = {
            epoch: known for epoch, known in self._sources.items() if epoch in self._epochs.routers
        }
        routers = self._epochs.routers
        self._tables = {
            epoch: tables for epoch, tables in self._tables.items() if routers.get(epoch) is tables.router
        }
        self._views = {}
        links = notes = 0
        for epoch, router in routers.items():
            tables = self._tables.get(epoch)
            if tables is None:
                tables = self._tables[epoch] = Tables(router, epoch)
            tables.is_plain = router.is_plain and epoch not in self._epochs.adopting
            if tables.is_plain:
                used = {
                    link: neighbour
                    for link, neighbour in desk.linked.items()
                    if desk.is_used(neighbour, epoch)
                }
                tables.refresh(self._slots, used, self._views)
                links, notes = max(links, tables.most_links), max(notes, tables.most_notes)
        self._rooms.fit(len(self._slots.peers), links, notes)

    def _place(self, turn: _Turn, first: int, last: int, desk: Desk) -> None:
        """Set the sources of the next reads; what has to wait, or is of nobody, is put aside."""
        current, state, clients = self._epochs.current, self._state, desk.clients
        is_holding = state[0]  # `_follow` has just asked
        known, reads, sources, cells = (
            self._sources.setdefault(current, {}),
            turn.reads,
            turn.sources,
            turn.cells,
        )
        turn.fields[_TURN_AT.read_count] = last
        for number in range(first, last):
            peer = reads[number].peer
            link = peer.link
            if not isinstance(peer, Session):
                source = self._source(peer, self._epoch_of.get(link, current), desk)
            elif is_holding or clients.get(link) is not peer:
                self._is_put_aside(turn, number, desk)
                continue
            else:
                found = known.get(link)
                # `holds`, without a call: this is done for every read.
                source = (
                    found
                    if found is not None
                    and found.state is state
                    and found.peer is peer
                    and found.permissions is peer.permissions
                    else self._source(peer, current, desk)
                )
            sources[number] = source
            cells[number * _READ_LENGTH + _READ_AT.source] = source.address

    def _is_put_aside(self, turn: _Turn, number: int, desk: Desk) -> bool:
        """Drop a read if its client is gone, let it wait if clients have to; return whether that is so."""
        read = turn.reads[number]
        if not isinstance(read.peer, Session):
            return False
        if desk.clients.get(read.link) is not read.peer:
            turn.end(number)
            return True
        if desk.is_holding:
            at = turn.at(number)
            if at < read.end:
                desk.hold(Read(read.link, read.peer, read.data, read.address, at, read.end, read.limit))
            turn.set_at(number, read.end)
            return True
        return False

    def _source(self, peer: Peer, epoch: int, desk: Desk) -> _Source:
        known = self._sources.setdefault(epoch, {})
        source = known.get(peer.link)
        if source is not None and source.holds(peer, self._state):
            return source
        if source is None or source.peer is not peer:
            source = known[peer.link] = _Source(peer, epoch)
        source.state = self._state
        tables, sampler = self._tables.get(epoch), desk.sampler
        below = 0 if sampler is None else sampler.below
        if isinstance(peer, Session):
            source.permissions = peer.permissions
        if tables is None or not tables.is_plain or below >> 64:
            source.set_lane()
        elif isinstance(peer, Session):
            guard, advertised = self._guard_of(peer), self._advertised_of(peer, tables.router)
            source.set_client(peer.number, tables, guard, advertised, sampler is not None, below)
        elif desk.linked.get(peer.link) is peer and desk.is_used(peer, epoch):
            trees = [peer.link in part.links_up() for part in tables.router.trees.values()]
            source.set_neighbour(self._slots.of(peer.link), tables, trees, sampler is not None, below)
        else:
            source.set_lane()
        return source

    def _guard_of(self, client: Session) -> int:
        """Return the index of what a client may publish: NOTHING if it may all, EVERYTHING if it may nothing."""
        allowed = client.permissions.publish
        if allowed is None:
            return kernel.NOTHING
        if allowed.attributes is None:
            return kernel.EVERYTHING
        guard = self._guards.get(allowed.attributes)
        if guard is None:
            guard = self._guards[allowed.attributes] = Index()
            guard.add(0, allowed.attributes)
        return address_of_view(guard, self._views)

    def _advertised_of(self, client: Session, router: Router) -> int:
        """Return the index of what a client has advertised."""
        part = router.telling[0]
        if not part.with_advertisements:
            return kernel.EVERYTHING
        index = part.advertised.index_of(client.link)
        return kernel.NOTHING if index is None else address_of_view(index, self._views)

    # -- where the kernel stops ------------------------------------------------------------------------------

    def _learn(self, count: int) -> None:
        """Judge values that the kernel has met."""
        by_view: dict[int, list[tuple[int, bytes]]] = {}
        for view, owner, address, size in self._rooms.missed[:count].tolist():
            by_view.setdefault(view, []).append((owner, string_at(address, size)))
        for view, missing in by_view.items():
            self._views[view].learn(missing)

    def _label(self, turn: _Turn, number: int, desk: Desk) -> None:
        source = turn.sources[number]
        assert source is not None, "its events were matched"
        tables = self._tables[source.epoch]
        handles = self._rooms.missed.reshape(-1)[: turn.fields[_TURN_AT.missed_count]]
        tables.labels.learn(handles, tables.router.local, desk.clients, self._slots)

    def _change_epoch(self, turn: _Turn, number: int, desk: Desk) -> None:
        read = turn.reads[number]
        (epoch,) = _EPOCH.unpack_from(read.data, turn.at(number) + LENGTH.size + kernel.EPOCH_AT)
        self._epoch_of[read.link] = epoch
        turn.set_source(number, self._source(read.peer, epoch, desk))

    def _fail(self, turn: _Turn, number: int, desk: Desk, error: CoveyError) -> None:
        link = turn.reads[number].link
        for other in range(number, len(turn.reads)):
            if turn.reads[other].link == link:
                turn.end(other)
        desk.failed(turn.reads[number], error)

    def _break(self, turn: _Turn, number: int, desk: Desk) -> None:
        """End a link that sends a frame of no possible length."""
        read = turn.reads[number]
        (length,) = LENGTH.unpack_from(read.data, turn.at(number))
        error = ProtocolError(f"a frame of {length:,} bytes; from 1 to {read.limit:,} are allowed")
        self._fail(turn, number, desk, error)

    def _lane(self, turn: _Turn, number: int, desk: Desk) -> bool:
        """Handle a frame that is not for the kernel, and those behind it of which that is known.

        Return whether what the kernel knows is still right.
        """
        read, source = turn.reads[number], turn.sources[number]
        is_lane = source is not None and source.is_lane
        is_right, state = True, self._state
        desk.begin(read.link)
        try:
            while not self._is_put_aside(turn, number, desk):
                at = turn.at(number)
                frame = read.frame(at)
                turn.set_at(number, at + LENGTH.size + len(frame))
                if frame[0] == _EVENT:
                    self._event(frame, read, desk)
                else:
                    is_right = False
                    desk.control(read, frame)
                if self._is_spent(desk) or not (
                    self._is_control(turn, number) or (is_right and is_lane and self._is_alike(turn, number))
                ):
                    break
        except CoveyError as error:
            self._fail(turn, number, desk, error)
            is_right = False
        finally:
            desk.begin(None)
        # A turn within this one may have followed a change already.
        return is_right and self._state is state and self._state_of(desk) == state

    def _kind(self, turn: _Turn, number: int) -> int:
        """Return the kind of the next frame of a read, -1 if it is not there."""
        read, at = turn.reads[number], turn.at(number)
        if turn.rest(number) <= LENGTH.size:
            return -1
        (length,) = LENGTH.unpack_from(read.data, at)
        if not 1 <= length <= min(read.limit, turn.rest(number) - LENGTH.size):
            return -1
        return read.data[at + LENGTH.size]

    def _is_control(self, turn: _Turn, number: int) -> bool:
        """Return whether the next frame of a read is there, and carries no event."""
        place = turn.at(number) + LENGTH.size
        data = turn.reads[number].data
        if place < len(data) and data[place] == _EVENT:
            return False  # whether it is all there or not
        return self._kind(turn, number) not in (-1, _EVENT)

    def _is_alike(self, turn: _Turn, number: int) -> bool:
        """Return whether the next frame of a read is there, and is an event of its source's epoch."""
        read, source = turn.reads[number], turn.sources[number]
        if self._kind(turn, number) != _EVENT or turn.rest(number) < LENGTH.size + kernel.HEAD:
            return False
        (epoch,) = _EPOCH.unpack_from(read.data, turn.at(number) + LENGTH.size + kernel.EPOCH_AT)
        return isinstance(read.peer, Session) or (source is not None and epoch == source.epoch)

    def _event(self, frame: bytes, read: Read, desk: Desk) -> None:
        """Decode one event and give it to its router; ProtocolError if its link may not send it."""
        envelope = envelope_of(frame)
        client = read.peer if isinstance(read.peer, Session) else None
        if client is not None:
            if envelope.publisher != client.number:
                raise ProtocolError("an event has another publisher than the client that sends it")
            client.published += 1
        else:
            if desk.waits(read.link, envelope.epoch, frame):
                return
            neighbour = desk.linked.get(read.link)
            is_kept = envelope.flags & KEPT and desk.is_keeping
            if neighbour is None or not (is_kept or desk.is_used(neighbour, envelope.epoch)):
                desk.counters["stale_frames"] += 1
                return
            neighbour.received += 1
        try:
            _check_width(frame, envelope)
            ACCOUNT.spend(LANE + LANE_BYTE * envelope.content_length)
            publish = publish_of(frame, envelope)
            if client is not None:
                check_content(publish.event.content)
        except EventError as error:
            desk.unreadable(envelope, read, error)
            return
        is_sampled = desk.sampler is not None and desk.sampler.takes(envelope.publisher, envelope.number)
        if client is not None:
            allowed = client.permissions.publish
            if allowed is not None and not allowed.matches(publish.event):
                client.refuse(envelope.number, f"{client.permissions.name} may not publish this event")
                return
            if is_sampled:
                self._sample(frame, envelope, desk)
        if envelope.flags & KEPT:
            desk.confirmed(frame, envelope, publish, read)
            return
        epoch = envelope.epoch if client is None else self._epochs.current
        router = self._epochs.routers[epoch]
        distance = router.distance_of(publish, read.link) if is_sampled else None
        outputs = router.handle(publish, read.link, self._now_s)
        if distance is not None:
            self._sample_deliveries(outputs, envelope, distance, desk)
        desk.carry_out(outputs, epoch, frame, envelope)

    @staticmethod
    def _sample(frame: bytes, envelope: Envelope, desk: Desk) -> None:
        assert desk.sampler is not None, "it has taken the event"
        content = frame[ENVELOPE.size : ENVELOPE.size + envelope.content_length]
        name = (envelope.publisher, envelope.number)
        desk.sampler.record(*name, family_of(envelope), content, desk.time_s)

    @staticmethod
    def _sample_deliveries(
        outputs: Iterable[Output], envelope: Envelope, distance: float, desk: Desk
    ) -> None:
        assert desk.sampler is not None, "it has taken the event"
        for output in outputs:
            if isinstance(output, Deliver):
                name = (envelope.publisher, envelope.number)
                desk.sampler.delivered(*name, output.keys, distance, desk.time_s)

    # -- out -------------------------------------------------------------------------------------------------

    def _send_all(self, turn: _Turn, desk: Desk) -> None:
        """Send what the kernel has laid out, and count the work."""
        size = _CHUNK.size * turn.fields[_TURN_AT.chunk_count]
        rows = list(_CHUNK.iter_unpack(self._rooms.chunk_bytes[:size]))
        self._send(turn, rows, desk)
        self._charge(turn, rows, desk)

    def _send(self, turn: _Turn, rows: Sequence[tuple[int, ...]], desk: Desk) -> None:
        """Send some of the chunks that the kernel has laid out, through outboxes."""
        rooms = self._rooms
        full: dict[int, Link] = {}
        large = () if turn.fields[_TURN_AT.written] else self._write(turn, rows)
        for number, (slot, first, last, count, size, at) in enumerate(rows):
            if slot == 0:
                self._elsewhere(turn, rooms.sorted[first:last], desk)
                continue
            peer = self._slots.peers[slot]
            assert peer is not None, "whoever has subscriptions has a slot"
            if isinstance(peer, Session):
                peer.delivered += count
            else:
                peer.sent += count
            data = large[number] if large else rooms.out_bytes[at : at + size].tobytes()
            if peer.outlet.send_events(data, count) is Verdict.FULL:
                full[slot] = peer.link
        for slot, link in full.items():
            entries = rooms.entries[: turn.fields[_TURN_AT.entry_count]]
            events = entries[entries[:, _ENTRY_AT.slot] == slot, _ENTRY_AT.event]
            reads = np.unique(rooms.events[events, _EVENT_AT.read]).tolist()
            desk.full(link, [turn.peers[number].link for number in reads])

    def _charge(self, turn: _Turn, rows: Sequence[tuple[int, ...]], desk: Desk) -> None:
        """Count the work of what was sent, each read's part by how often its events went out."""
        entry_count = turn.fields[_TURN_AT.entry_count]
        size = sum(row[_CHUNK_AT.size] for row in rows)
        units = SENT_CHUNK * len(rows) + SENT_EVENT * entry_count + size / SENT_BYTES
        if units < DEAR:
            return
        rooms = self._rooms
        read_of = rooms.events[: turn.fields[_TURN_AT.event_count], _EVENT_AT.read]
        events = np.bincount(read_of, minlength=len(turn.peers))
        sent = np.bincount(read_of[rooms.entries[:entry_count, _ENTRY_AT.event]], minlength=len(turn.peers))
        for number in np.flatnonzero(events).tolist():
            desk.charge(turn.peers[number], int(events[number]), units * float(sent[number]) / entry_count)

    def _write(self, turn: _Turn, rows: Sequence[tuple[int, ...]]) -> Sequence[bytes]:
        """Return chunks that were too large to be written at once, each in memory of its own."""
        found = [new_bytes(row[_CHUNK_AT.size]) for row in rows]
        self._rooms.chunks[: len(found), _CHUNK_AT.at] = [address_of_bytes(data) for data in found]
        write_chunks(turn.array)
        return found

    def _elsewhere(self, turn: _Turn, entries: Longs, desk: Desk) -> None:
        """Hand out what is for subscriptions without a slot, whose handles entries have."""
        together: dict[tuple[int, Link], list[Key]] = {}
        for event, handle in entries.tolist():
            source = turn.sources[int(self._rooms.events[event, _EVENT_AT.read])]
            assert source is not None, "it was handled"
            local = self._tables[source.epoch].router.local
            ((link, key),) = local.keys_of(np.array([handle], np.int32)).tolist()
            together.setdefault((event, link), []).append(key)
        frames = {
            event: string_at(
                int(self._rooms.events[event, _EVENT_AT.address]),
                int(self._rooms.events[event, _EVENT_AT.size]),
            )
            for event, _ in together
        }
        for (event, link), keys in together.items():
            peer = turn.peers[int(self._rooms.events[event, _EVENT_AT.read])]
            desk.elsewhere(link, tuple(sorted(keys)), frames[event], peer.link)


def _check_width(frame: bytes, envelope: Envelope) -> None:
    """Raise EventError if an event has too many attributes, before it is decoded."""
    if family_of(envelope) != ATTRIBUTES or envelope.content_length <= 2 * MAX_ATTRIBUTES:
        return
    ACCOUNT.spend(WIDTH_BYTE * envelope.content_length)
    first, most = ENVELOPE.size, 2 * MAX_ATTRIBUTES + 1  # a name and a value each, and the map
    data = np.frombuffer(frame, np.uint8)
    if count_values(data, first, first + envelope.content_length, most) > most:
        raise too_wide()


def _signed(number: int) -> int:
    """Return a number of 64 bits as kernels see it."""
    return number - (1 << 64) if number >> 63 else number
