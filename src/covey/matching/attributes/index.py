"""The index of attribute filters: one row in the store for each conjunction.

Answers are those of a linear scan. A filter with one conjunction, which almost all are, is just its row; nothing else
of it is kept. One with small sets of values has several (splitting.py). Filters with several conjunctions are kept
too, because such a filter can cover another without any one of its conjunctions doing so; and FALSE, which has
no row, is remembered by its handle. Which of them to compare is found by events that they must match (`_could_cover`),
and by the box around those of their conjunctions that have attributes in common.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import sub
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from covey.core.attributes.boxes import clusters, is_cut
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.core.attributes.imperfect import hull_of_boxes
from covey.core.attributes.wire import forms_of
from covey.core.packing import pack_many, pack_plain
from covey.core.work import ACCOUNT
from covey.errors import EventError, FilterError
from covey.matching.attributes.asking import COVERING, INSIDE, LEFT, MEETING, MEETS, NOT_READY, ask
from covey.matching.attributes.atoms import COMPARED, member_of
from covey.matching.attributes.channels import Batch, Channels, Interval, closed_cuts
from covey.matching.attributes.layout import Extra
from covey.matching.attributes.lists import SHARED_BIT
from covey.matching.attributes.packed import PackedEvents
from covey.matching.attributes.splitting import MOST_ROWS, Sides, pieces_needed, pieces_of
from covey.matching.attributes.store import Store
from covey.matching.attributes.unpacking import Unpacker
from covey.matching.attributes.view import NO_ROWS, RESTLESS, IndexView, match_one
from covey.matching.jit import Ints, Longs, address_of_bytes
from covey.matching.keyset import KeyTable

MOST_BEHIND: Final = 64  # changes of channels, by which what reads events may be behind
EARLY: Final = range(
    256, 2_048
)  # filters of an index that grows: what reads events of so few is made quickly
MOST_PIECES: Final = 256  # into which a filter that is asked about is split

# Units of work (`core.work`): of a row that comes or goes, of each of its constraints, and of a question to the rows.
ROW, SIDE, QUESTION = 4.0, 1.0, 10.0

_HANDLE, _GROUP = Extra.index_of("handle"), Extra.index_of("group")
_PACKED: Final = 64
_INTS: Final = [Struct(f"={n}i") for n in range(_PACKED + 1)]
_FLOATS: Final = [Struct(f"={n}d") for n in range(_PACKED + 1)]


class AttributeIndex:
    """Attribute filters by handle; see the module's text."""

    def __init__(self) -> None:
        self.store = Store()
        self.channels = Channels(self.store.make_channel)
        self._several: dict[int, AttributeFilter] = {}
        self._rows_of: dict[int, Sequence[int]] = {}  # ranges, or arrays: there may be very many
        self._never: set[int] = set()
        self._free_rows: list[int] = []
        self._last_row = 0
        self._packed: Ints | None = None
        self._views: tuple[memoryview, memoryview, memoryview]
        self._count = 0
        self._unpacker: Unpacker | None = None
        self._view: IndexView | None = None
        self.changes = 0  # how often filters were added or removed

    def __len__(self) -> int:
        return self._count

    def __getstate__(self) -> dict[str, object]:
        """Return all but what is made again when it is needed: views of the store's arrays, and the unpacker."""
        state = {name: value for name, value in vars(self).items() if name != "_views"}
        return state | {"_packed": None, "_unpacker": None, "_view": None}

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, handle: int, filter: AttributeFilter) -> None:
        """Add a filter under a handle that is not in use."""
        self.add_batch([handle], [filter])

    def add_batch(self, handles: Sequence[int], filters: Sequence[AttributeFilter]) -> None:
        """Add many filters; handles must be distinct and not in use."""
        if not handles:
            return
        self.changes += 1
        self.store.make_handles(max(handles) + 1)
        ids: list[int] = []
        starts = [0]
        names: list[int] = []
        lows: list[float] = []
        highs: list[float] = []
        add_rows = self.channels.add_rows
        for handle, filter in zip(handles, filters, strict=True):
            if (
                filter.wire is None
                and len(filter.conjunctions) == 1
                and self._add_sides(filter.conjunctions[0].constraints, names, lows, highs)
            ):
                ids.append(handle)
                starts.append(len(names))
                continue
            before, count = len(starts), 0
            for sides in _boxes_of(filter):
                add_rows(sides, MOST_ROWS, names, lows, highs, starts)
                count += 1
            rows = len(starts) - before
            ids.extend([handle] if rows == 1 else self._extra_rows(handle, rows))
            if count > 1 and is_cut(filter.conjunctions):
                self._several[handle] = filter.compact()
        ACCOUNT.spend(ROW * len(ids) + SIDE * len(names))
        self.store.add_rows(
            np.array(ids, dtype=np.int32),
            np.array(starts, dtype=np.int64),
            np.array(names, dtype=np.int32),
            np.array(lows, dtype=np.float64),
            np.array(highs, dtype=np.float64),
            max(map(sub, starts[1:], starts), default=0),
        )
        self._count += len(handles)
        # What events need is made here, a little at a time, and not in one piece when the next event comes.
        if self._unpacker is not None:
            is_due = len(self.channels.journal or ()) > MOST_BEHIND
        else:
            is_due = self._count in EARLY
        if is_due:
            self._followed()

    def _add_sides(self, sides: Sides, names: list[int], lows: list[float], highs: list[float]) -> bool:
        """Add the intervals of a conjunction as `intervals_of` makes them: most are intervals of small numbers.

        Return whether they are added: a conjunction with a set that may be split is left as it is.
        """
        start, get = len(names), self.channels.attributes.get
        for name, side in sides:
            numbers, channel, low, high = side.numbers, 0, 1.0, 0.0
            if len(numbers) == 2 and not (side.strings or side.booleans or side.absent or side.other):
                low, high = closed_cuts(*numbers)
                attribute = get(name)
                if attribute is not None and low <= high:
                    channel = attribute.number
            elif len(numbers) + len(side.strings) + 2 * side.booleans.bit_count() > 2:
                del names[start:], lows[start:], highs[start:]
                return False
            if channel:
                names.append(channel)
                lows.append(low)
                highs.append(high)
                continue
            for channel, low, high in self.channels.intervals_of(name, side):
                names.append(channel)
                lows.append(low)
                highs.append(high)
        return True

    def _extra_rows(self, handle: int, count: int) -> list[int]:
        """Return the ids of the rows of a filter that has none, or several."""
        if not count:
            self._never.add(handle)
            return []
        rows: Sequence[int]
        if self._free_rows:
            again = min(count, len(self._free_rows))
            rows = array("i", self._free_rows[-again:])
            del self._free_rows[-again:]
            rows.extend(range(self._last_row, self._last_row + count - again))
            self._last_row += count - again
        else:
            rows = range(self._last_row, self._last_row + count)
            self._last_row += count
        self.store.make_extra(self._last_row)
        # Of most filters they lie side by side, and are found faster so.
        where = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
        self.store.extra[where, _HANDLE] = handle
        self.store.extra[where, _GROUP] = rows[0]
        self._rows_of[handle] = rows
        return [~row for row in rows]

    def rows_of(self, handle: int) -> int:
        """Return how many rows a filter has, at least one."""
        return len(self._rows_of.get(handle, (0,)))

    def remove(self, handle: int) -> None:
        """Remove a filter."""
        self.remove_batch([handle])

    def remove_batch(self, handles: Sequence[int]) -> None:
        """Remove many filters."""
        self.changes += 1
        ids: list[int] = []
        for handle in handles:
            if handle in self._never:
                self._never.remove(handle)
            elif handle in self._rows_of:
                self._several.pop(handle, None)
                rows = self._rows_of.pop(handle)
                self._free_rows.extend(rows)
                ids.extend(~row for row in rows)
            else:
                ids.append(handle)
        ACCOUNT.spend(ROW * len(ids))
        self.channels.release(self.store.remove_rows(np.array(ids, dtype=np.int32)))
        self._count -= len(handles)

    # -- events ----------------------------------------------------------------------------------------------

    def match(self, event: Mapping[str, Any]) -> Ints:
        """Return the handles of filters that match the event; a view, valid until the next call."""
        found, event = self._match_packed(event, 0)
        return self.store.out[:found] if found >= 0 else self._match_plainly(event)

    def match_keys(self, event: Mapping[str, Any], keys: KeyTable) -> NDArray[Any]:
        """Return the keys of filters that match the event."""
        found, event = self._match_packed(event, keys.address)
        if found < 0:
            return keys.take(self._match_plainly(event))
        if not keys.address:
            return keys.take(self.store.out[:found])
        assert self._view is not None, "a kernel has been asked"
        return self._view.keys[:found].copy()

    def _match_packed(self, event: Mapping[str, Any], keys: int) -> tuple[int, Mapping[str, Any]]:
        """Let a kernel match an event, and take keys at an address; return how many there are, below 0 if it cannot,
        and the event, flattened if it had to be.
        """
        packed, event = pack_plain(event)
        if packed is None:
            return -1, event
        view = self._view
        if view is None or view.changes != self.changes:
            view = self.view(None)
        found = match_one(view.address, address_of_bytes(packed), len(packed), keys)
        if found >= RESTLESS:
            self.store.tidy()
            found -= RESTLESS
        return found, event

    def _match_plainly(self, event: Mapping[str, Any]) -> Ints:
        """Match an event that kernels cannot read, or not all values of which they can judge."""
        names: list[int] = []
        values: list[float] = []
        self.channels.points(event, names, values)
        return self.store.query(self._set(names, values, values))

    def _set(self, names: list[int], lows: list[float], highs: list[float]) -> int:
        """Put intervals where the store looks for them; return their number."""
        store, count = self.store, len(names)
        if count > _PACKED:
            store.make_intervals(count)
            store.names[:count] = names
            store.lows[:count] = lows
            store.highs[:count] = highs
            return count
        if self._packed is not store.names:
            # The store has new arrays; a view of each is made once, as packing into an array would make one each time.
            self._packed = store.names
            self._views = (store.names.data, store.lows.data, store.highs.data)
        some_names, some_lows, some_highs = self._views
        _INTS[count].pack_into(some_names, 0, *names)
        floats = _FLOATS[count]
        floats.pack_into(some_lows, 0, *lows)
        floats.pack_into(some_highs, 0, *highs)
        return count

    def links_one(self, event: Mapping[str, Any], count: int) -> list[int]:
        """Return the links, of which there are `count`, that one event must go to; a batch of one would cost more."""
        if count >= SHARED_BIT:
            return self.links(self.encode([event]), count)[0]
        view, points = self.view(None), -1
        packed, event = pack_plain(event)
        if packed is not None:
            points = match_one(view.address, address_of_bytes(packed), len(packed), NO_ROWS)
        if points >= 0:
            mask = self.store.links_one(view.channels, view.values, points, count)
        else:
            names: list[int] = []
            values: list[float] = []
            self.channels.points(event, names, values)
            points = self._set(names, values, values)
            mask = self.store.links_one(self.store.names, self.store.lows, points, count)
        return [link for link in range(1, count) if mask >> link & 1]

    def encode(self, events: Iterable[Mapping[str, Any]]) -> Batch:
        """Return events in the form that batches take; it holds until a filter is added or removed."""
        starts, names, values = self._encode(list(events))
        return starts, names.copy(), values.copy()

    def match_batch(self, events: Sequence[Mapping[str, Any]]) -> tuple[Ints, Longs]:
        """Return the handles matching each event, as `match_encoded` does."""
        return self.match_encoded(self._encode(events))

    def _encode(self, events: Sequence[Mapping[str, Any]]) -> Batch:
        """Return the `encode` of events as a view, valid until the next call."""
        try:
            packed = pack_many(events)
        except EventError:
            # A text without an encoding can be judged, and for what cannot be the error is raised here.
            return self.channels.encode(events)
        ends: Longs = np.cumsum(np.fromiter(map(len, packed), np.int64, len(packed)))
        starts = np.zeros_like(ends)
        starts[1:] = ends[:-1]
        data = np.frombuffer(b"".join(packed), np.uint8)
        return self.encode_packed(PackedEvents(data, starts, ends))

    def encode_packed(self, events: PackedEvents) -> Batch:
        """Return packed events in that form; a view, valid until the next call. EventError if one is none."""
        return self._followed().encode_packed(events)

    def _followed(self) -> Unpacker:
        """Return the index's own unpacker as the channels are now."""
        journal = self.channels.journal
        if self._unpacker is None or journal is None:
            self._unpacker = Unpacker(self.channels)
            self.channels.journal = []
        elif journal:
            self._unpacker.follow(journal)
            journal.clear()
        return self._unpacker

    def view(self, links: int | None) -> IndexView:
        """Return the index as kernels see it, which has `links` links; it holds until a filter is added or removed.

        Without a number of links it has as many as before.
        """
        unpacker = self._followed()
        if self._view is None:
            self._view = IndexView(unpacker)
        self._view.refresh(self.changes, self.store, unpacker, links)
        return self._view

    def match_encoded(self, batch: Batch) -> tuple[Ints, Longs]:
        """Return the handles matching each event of a batch in one array, and where those of each event end."""
        return self.store.query_batch(*batch)

    def links(self, batch: Batch, count: int) -> list[list[int]]:
        """Return the links, of which there are `count`, that each event of an encoded batch must go to."""
        return self.store.links_batch(*batch, count)

    def link_hits(self, batch: Batch, count: int) -> NDArray[np.bool_]:
        """Return for each of the `count` links, and each event of an encoded batch, whether it must go there."""
        return self.store.link_hits(*batch, count)

    # -- filters ---------------------------------------------------------------------------------------------

    def covers_any(self, filter: AttributeFilter) -> bool:
        """Return whether some filter here covers the given one."""
        found = self._ask_form(filter, COVERING, 1)
        if found < 0:
            return len(self.covering(filter)) > 0
        # A filter with several conjunctions may cover it with all of them together.
        return found > 0 or (
            bool(self._several) and any(self._several[h].covers(filter) for h in self._could_cover(filter))
        )

    def _ask_form(self, filter: AttributeFilter, question: int, limit: int) -> int:
        """Let a kernel answer a question about a filter that it can read from its wire form; LEFT if it cannot."""
        form = filter.wire
        if form is None:
            if len(filter.conjunctions) != 1:
                return LEFT
            try:
                form = filter.encode()
            except FilterError:
                return LEFT  # too long
        return self._ask(address_of_bytes(form) + 1, len(form) - 1, question, limit)

    def _ask(self, data: int, size: int, question: int, limit: int) -> int:
        """Call the kernel `ask`, and do what it needs done."""
        view = self._view
        if view is None or view.changes != self.changes:
            view = self.view(None)
        found = ask(view.address, data, size, question, limit)
        if found == NOT_READY:
            self.store.make_question()
            found = ask(view.address, data, size, question, limit)
        elif found >= RESTLESS:
            self.store.tidy()
            found -= RESTLESS
        return found

    def _ask_conjunction(self, conjunction: Conjunction, question: int) -> int:
        """Let the kernel answer a question about a conjunction that it cannot read, with at least one constraint."""
        groups = len(conjunction.constraints)
        self.store.set_acceptors(self.channels.acceptors(conjunction, overlap=question != INSIDE), groups)
        return self._ask(0, groups, question, 0)

    def _query(self, sides: Sides) -> Ints:
        names, lows, highs = _columns(self.channels.covered_intervals(sides))
        return self.store.query(self._set(names, lows, highs))

    def covering(self, filter: AttributeFilter) -> Ints:
        """Return the handles of filters that cover the given one."""
        if not filter.conjunctions:
            return self._all()
        pieces = [
            piece for conjunction in filter.conjunctions for piece in pieces_of(conjunction, MOST_PIECES)
        ]
        if len(pieces) == 1 and not self._several:
            return self._query(pieces[0]).copy()
        found = set(self._query(pieces[0]).tolist())
        for piece in pieces[1:]:
            found.intersection_update(self._query(piece).tolist())
        found.update(
            h for h in self._could_cover(filter) if h not in found and self._several[h].covers(filter)
        )
        if any(pieces_needed(conjunction) > MOST_PIECES for conjunction in filter.conjunctions):
            split = [
                handle for handle in self._rows_of if handle not in self._several and handle not in found
            ]
            found.update(handle for handle, other in self._filters(split) if other.covers(filter))
        return _array(found)

    def _could_cover(self, filter: AttributeFilter) -> Iterable[int]:
        """Return the handles of several-conjunction filters that may cover this one as a whole."""
        if not self._several:
            return ()
        # Whatever covers the filter matches any event that it matches: one for each conjunction is tried.
        found: set[int] | None = None
        for conjunction in filter.conjunctions:
            event = event_of(conjunction)
            if event is None:
                continue
            matching = {handle for handle in self.match(event).tolist() if handle in self._several}
            ACCOUNT.spend(QUESTION + SIDE * len(conjunction.constraints))
            found = matching if found is None else found & matching
            if not found:
                return ()
        return self._several if found is None else found

    def covered(self, filter: AttributeFilter) -> Ints:
        """Return the handles of filters that the given one covers."""
        found = self._ask_form(filter, INSIDE, 0)
        if found >= 0:
            rows = self.store.candidates[:found].copy()
        elif not filter.conjunctions:
            return _array(self._never)
        elif any(not conjunction.constraints for conjunction in filter.conjunctions):
            return self._all()
        elif len(filter.conjunctions) > 1:
            return self._covered_by_several(filter)
        else:
            rows = self._inside(filter.conjunctions[0])
        if not self._rows_of and not self._never:
            return rows
        return _array([*self._whole_handles(rows), *self._never])

    def _inside(self, conjunction: Conjunction) -> Ints:
        """Return the rows that lie inside a conjunction."""
        if not conjunction.constraints:
            rows = [~row for some in self._rows_of.values() for row in some]
            return np.concatenate([np.flatnonzero(self.store.homes).astype(np.int32), _array(rows)])
        found = self._ask_conjunction(conjunction, INSIDE)
        return self.store.candidates[:found].copy()

    def _whole_handles(self, rows: Ints) -> list[int]:
        """Return the handles of filters all of whose rows are among these."""
        found = rows[rows >= 0].tolist()
        among = {~row for row in rows[rows < 0].tolist()}
        handles = {int(self.store.extra[row, _HANDLE]) for row in among}
        return found + [handle for handle in handles if among.issuperset(self._rows_of[handle])]

    def _covered_by_several(self, filter: AttributeFilter) -> Ints:
        """Return the handles of filters that lie in several conjunctions, in one each or in all of them together."""
        inside: set[int] = set()
        for conjunction in filter.conjunctions:
            inside.update(self._inside(conjunction).tolist())
            ACCOUNT.spend(QUESTION + SIDE * len(conjunction.constraints))
        found = set(self._whole_handles(np.array(list(inside), np.int32)))
        if is_cut(filter.conjunctions):
            near = set(inside)
            for cluster in clusters(filter.conjunctions):
                if len(cluster) > 1:
                    near.update(self._inside(hull_of_boxes(cluster)).tolist())
            whole = self._whole_handles(np.array(list(near), np.int32))
            for handle, other in self._filters([handle for handle in whole if handle not in found]):
                ACCOUNT.spend(COMPARED * len(filter.conjunctions))
                if filter.covers(other):
                    found.add(handle)
        return _array([*found, *self._never])

    def overlapping(self, filter: AttributeFilter) -> Ints:
        """Return the handles of filters that overlap the given one."""
        count = self._ask_form(filter, MEETING, 0)
        if count >= 0:
            found = [self._met(count)]
        else:
            found = [self._met(self._ask_conjunction(c, MEETING)) for c in filter.conjunctions]
        if len(found) == 1 and not self._rows_of:
            return found[0]
        return np.unique(np.concatenate([np.zeros(0, np.int32), *found]))

    def _met(self, count: int) -> Ints:
        """Return the handles of the rows that a kernel has found."""
        rows = self.store.candidates[:count].copy()
        extra = rows < 0
        rows[extra] = self.store.extra[~rows[extra], _HANDLE]
        return rows

    def overlaps_any(self, filter: AttributeFilter) -> bool:
        """Return whether some filter here overlaps the given one; quicker than `overlapping`."""
        found = self._ask_form(filter, MEETS, 0)
        if found >= 0:
            return found > 0
        return any(self._ask_conjunction(conjunction, MEETS) for conjunction in filter.conjunctions)

    def _all(self) -> Ints:
        rows = np.flatnonzero(self.store.homes).astype(np.int32)
        return np.concatenate([rows, _array(self._rows_of), _array(self._never)])

    def _filters(self, handles: list[int]) -> Iterable[tuple[int, AttributeFilter]]:
        """Return filters that say the same as those added under these handles."""
        for handle in handles:
            if handle in self._never:
                yield handle, trusted(())
            elif handle in self._several:
                yield handle, self._several[handle]
            else:
                rows = [~row for row in self._rows_of[handle]] if handle in self._rows_of else [handle]
                yield handle, trusted(tuple(self._conjunctions(rows)))

    def _conjunctions(self, rows: list[int]) -> Iterable[Conjunction]:
        starts, names, lows, highs = self.store.read(np.array(rows, np.int32))
        for start, end in pairwise(starts.tolist()):
            sides: dict[str, Constraint] = {}
            for k in range(start, end):
                name, side = self.channels.constraint_of(int(names[k]), float(lows[k]), float(highs[k]))
                before = sides.get(name)
                sides[name] = side if before is None else before.intersect(side)
            yield Conjunction(tuple(sorted(sides.items())))


def _boxes_of(filter: AttributeFilter) -> Iterable[Iterable[tuple[str, Any]]]:
    """Return the conjunctions of a filter as names and constraints; as names and wire forms, if it has them."""
    if filter.wire is None:
        return [conjunction.constraints for conjunction in filter.conjunctions]
    return [zip(form[::2], form[1::2], strict=True) for form in forms_of(filter.wire)]


def event_of(conjunction: Conjunction) -> dict[str, Any] | None:
    """Return an event that the conjunction matches; None if none is known."""
    event: dict[str, Any] = {}
    for name, constraint in conjunction.constraints:
        if not constraint.absent:
            value = event[name] = member_of(constraint)
            if value is None:
                return None
    return event


def _columns(intervals: list[Interval]) -> tuple[list[int], list[float], list[float]]:
    return [i[0] for i in intervals], [i[1] for i in intervals], [i[2] for i in intervals]


def _array(handles: Iterable[int]) -> Ints:
    return np.array(list(handles), dtype=np.int32)
