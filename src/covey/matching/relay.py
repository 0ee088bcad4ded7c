"""Relay: what a broker does with the events of a turn of its loop, from the bytes that came in to those that go out.

One compiled call takes what all links have sent, read by read and frame by frame. It checks each event, asks whether
its client may publish and has advertised it, finds the local subscriptions and the neighbours that it goes to, and lays
out the frames for each receiver. It stops where Python is needed, says why (`Status`), and goes on from there when it
is called again. What it has laid out by then is to be sent first: so every link's frames have their effects in order.

Everything is reached by addresses, as records of 64-bit numbers (relay_layout.py): an array that is passed by itself
costs more than an event. Whoever calls keeps all of them alive, and up to date:

    Turn        the call's own arrays, where it is, and what it found
    ReadRow     of each read: bytes, how far they are handled, and the source
    Source      a link in an epoch: who may say what, and the router
    RouterRow   local subscriptions with their labels, the events that were seen, and the trees
    TreeRow     of each tree: next hops, and the slots of links
    Region      of a plan with one copy of each event: its trees, as seen from here (addressing.py)

Frames are those of `protocol.events` and `protocol.frames`; the offsets stand here again because a kernel is compiled
anew only if its own package changes. A test compares them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from covey.matching.addressing import (
    NOTES_HEAD,
    choose_tree,
    divide,
    note_wanting,
    read_brokers,
)
from covey.matching.attributes.checking import MOST_NAMES, POINT_LONGS, read_attributes
from covey.matching.attributes.lists import SHARED_BIT
from covey.matching.attributes.packed import Bytes
from covey.matching.attributes.view import (
    MOST_POINTS,
    TOO_MANY,
    answers_of,
    link_count,
    links_to,
    matching,
    points_of,
)
from covey.matching.jit import (
    Ints,
    Longs,
    bytes_at,
    called,
    copy_bytes,
    floats_at,
    ints_at,
    kernel,
    longs_at,
    part,
)
from covey.matching.relay_layout import (
    Addressed,
    Chunk,
    Entry,
    EventRow,
    Label,
    ReadRow,
    Region,
    RouterRow,
    Slot,
    SortedEntry,
    Source,
    TreeRow,
    Turn,
)
from covey.matching.seen import is_seen, see


class Status(IntEnum):
    """Why the kernel has returned."""

    DONE = 0  # all reads are handled, but for frames that are not complete
    FLUSH = 1  # there is no room for more until what is laid out is sent
    PYTHON = 2  # the next frame of the current read is not for the kernel
    EPOCH = 3  # the next event of the current read is of another epoch than its source
    MISSING = 4  # values are to be judged by Python: rows of `view.MISSING_COLUMNS`
    UNLABELLED = 5  # handles have no label: a list of them
    ROOM = 6  # one event needs more room than there is
    BROKEN = 7  # the next frame of the current read is too long, or empty


_DONE, _FLUSH, _PYTHON, _EPOCH, _MISSING, _UNLABELLED, _ROOM, _BROKEN = range(8)

ADDRESSED: Final = -(1 << 32)  # less the place of the tree and the notes in `Turn.notes`
EVERYTHING: Final = (
    -1
)  # instead of an index: of a guard's refusal, of advertisements and next hops that all match
NOTHING: Final = 0  # instead of an index: there is none

MOST_EVENTS: Final = 4_096  # that are laid out together
MOST_MISSED: Final = 4_096
MOST_OUT: Final = 1 << 22  # bytes that are laid out together, unless they are of one event
MOST_WRITTEN: Final = 1 << 16  # bytes that are written at once; for more, Python gets memory first
MOST_IN_CHUNK: Final = 256  # events; what is dropped from a full link is dropped by chunks
MOST_SIDS: Final = 65_535  # in one DELIVERY: their count is a u16

# Room for one event: its attributes, and the points that it has in each of four indexes.
_POINT_SETS: Final = 4
_GUARD, _ADVERTISED, _LOCAL, _HOPS = range(_POINT_SETS)
SCRATCH_LONGS: Final = POINT_LONGS * MOST_NAMES + (_POINT_SETS + 1) * MOST_POINTS  # the last for cells
SCRATCH_FLOATS: Final = MOST_NAMES + _POINT_SETS * MOST_POINTS

# -- frames ------------------------------------------------------------------------------------------------------

HEAD: Final = 28
FLAGS_AT, TREE_AT, CONTENT_LENGTH_AT, PUBLISHER_AT, NUMBER_AT, EPOCH_AT, NOTES_LENGTH_AT = (
    1,
    2,
    4,
    8,
    16,
    24,
    26,
)
EVENT_KIND, DELIVERY_KIND = 32, 33
FLOODED, KEPT, FAMILY, ATTRIBUTES = 1, 2, 12, 0


@part
def _number(data: Bytes, at: int, size: int) -> int:
    value = np.uint64(0)
    for k in range(size):
        value |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return np.int64(value)  # type: ignore[return-value]


@part
def _write(out: Bytes, at: int, size: int, number: int) -> None:
    for k in range(size):
        out[at + k] = number >> 8 * k & 0xFF


@part
def _is_sampled(below: int, publisher: int, number: int) -> bool:
    """Return whether an event is looked at closely: `sampling.mixed` of its name is below a number of 64 bits."""
    z = np.uint64(publisher) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(number) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bool((z ^ z >> np.uint64(31)) < np.uint64(below))


# -- in ----------------------------------------------------------------------------------------------------------


@part
def _envelope_status(source: Source, data: Bytes, first: int, last: int) -> int:
    """Return _DONE if an event's envelope is one that the kernel handles, _PYTHON or _EPOCH otherwise."""
    if data[first] != EVENT_KIND or last - first < HEAD:
        return _PYTHON
    if source.is_client == 0 and _number(data, first + EPOCH_AT, 2) != source.epoch:
        return _EPOCH
    if source.lane != 0 or np.int64(data[first + FLAGS_AT]) & (KEPT | FAMILY) != ATTRIBUTES:
        return _PYTHON
    notes = _number(data, first + NOTES_LENGTH_AT, 2)
    if notes != 0 and (
        source.is_client != 0
        or RouterRow(source.router).region == 0
        or np.int64(data[first + FLAGS_AT]) & FLOODED != 0
    ):
        return _PYTHON
    if first + HEAD + _number(data, first + CONTENT_LENGTH_AT, 4) + notes > last:
        return _PYTHON
    publisher = _number(data, first + PUBLISHER_AT, 8)
    if source.is_client != 0 and publisher != source.publisher:
        return _PYTHON
    number = _number(data, first + NUMBER_AT, 8)
    if source.sample != 0 and _is_sampled(source.below, publisher, number):
        return _PYTHON
    return _DONE


@part
def _tree_of(source: Source, router: RouterRow, number: int) -> int:
    """Return the row of the tree that a neighbour has written on an event, -1 if it may not."""
    allowed = longs_at(source.trees)
    for tree in range(router.tree_count):
        if TreeRow(router.trees, tree).number == number and allowed[tree] != 0:
            return tree
    return -1


@part
def _put_entry(turn: Turn, count: int, slot: int, event: int, sid: int) -> int:
    entry = Entry(turn.entries, count)
    entry.slot, entry.event, entry.sid = slot, event, sid
    return count + 1


@called
def _flood(turn: Turn, source: Source, tree: TreeRow, count: int, event: int) -> int:
    """Add entries for all open neighbours of a tree but the source."""
    slots = longs_at(tree.slots)
    for k in range(tree.slot_count):
        if slots[k] != source.slot:
            count = _put_entry(turn, count, slots[k], event, -2 - 2 * tree.number)
    return count


@called
def _put_hops(turn: Turn, source: Source, tree: TreeRow, mask: int, count: int, event: int) -> int:
    """Add entries for the neighbours whose links an event has hit: the mask's, and those from SHARED_BIT up."""
    slots, links = longs_at(tree.link_slots), link_count(tree.hops)
    seen = ints_at(turn.seen)
    for link in range(1, links):
        is_hit = mask >> link & 1 != 0 if link < SHARED_BIT else seen[link] != 0
        if is_hit and slots[link] != 0 and slots[link] != source.slot:
            count = _put_entry(turn, count, slots[link], event, -1 - 2 * tree.number)
    return count


@called
def _points(turn: Turn, view: int, which: int, base: int, attributes: int, missed: int) -> tuple[int, int]:
    """Write an event's points for one index, if there is one, into one of four places; see `points_of`."""
    if view == NOTHING or view == EVERYTHING:
        return 0, missed
    rows, numbers = longs_at(turn.scratch), floats_at(turn.floats)
    channels = ints_at(turn.scratch + 8 * (POINT_LONGS * MOST_NAMES + which * MOST_POINTS))
    values = floats_at(turn.floats + 8 * (MOST_NAMES + which * MOST_POINTS))
    missing = longs_at(turn.missed)
    return points_of(view, base, rows, numbers, attributes, channels, values, missing, missed, MOST_MISSED)


@called
def _ask(turn: Turn, view: int, which: int, points: int, limit: int) -> int:
    """Ask an index about the points that were written for it; see `matching`."""
    channels = ints_at(turn.scratch + 8 * (POINT_LONGS * MOST_NAMES + which * MOST_POINTS))
    values = floats_at(turn.floats + 8 * (MOST_NAMES + which * MOST_POINTS))
    return matching(view, channels, values, points, _cells(turn), limit)


@part
def _cells(turn: Turn) -> Ints:
    return ints_at(turn.scratch + 8 * (POINT_LONGS * MOST_NAMES + _POINT_SETS * MOST_POINTS))


@called
def _label(turn: Turn, router: RouterRow, found: int) -> int:
    """Return how many of the handles that were found have no label; they are listed as missing."""
    handles, stamps = answers_of(router.local), longs_at(router.stamps)
    missed, count = longs_at(turn.missed), 0
    for k in range(found):
        handle = handles[k]
        if Label(router.labels, handle).stamp != stamps[handle] and count < MOST_MISSED:
            missed[count] = handle
            count += 1
    return count


@called
def _hop_mask(turn: Turn, tree: TreeRow, points: int) -> int:
    """Return the mask of links that an event must go to on a tree; those from SHARED_BIT up are in `seen`."""
    view = tree.hops
    seen, links = ints_at(turn.seen), link_count(view)
    if links > SHARED_BIT:
        for link in range(links + 1):
            seen[link] = 0
    channels = ints_at(turn.scratch + 8 * (POINT_LONGS * MOST_NAMES + _HOPS * MOST_POINTS))
    values = floats_at(turn.floats + 8 * (MOST_NAMES + _HOPS * MOST_POINTS))
    return links_to(view, channels, values, points, _cells(turn), seen)


@called
def _onward(
    turn: Turn,
    source: Source,
    base: int,
    attributes: int,
    points: int,
    carrying: int,
    flooded: bool,
    count: int,
    event: int,
) -> int:
    """Add entries for the neighbours that an event goes to: on the tree it came on, or, of a client, on all that tell.

    What nobody has advertised floods one tree, which reaches everyone. The points in the next hops of the last tree are
    written already.
    """
    router = RouterRow(source.router)
    for number in range(router.tree_count):
        tree = TreeRow(router.trees, number)
        if number != carrying if carrying >= 0 else tree.tells == 0:
            continue
        if flooded:
            return _flood(turn, source, tree, count, event)
        slots = tree.slot_count
        if slots == 0 or (slots == 1 and longs_at(tree.slots)[0] == source.slot):
            continue
        if tree.hops == EVERYTHING:
            before = count
            count = _flood(turn, source, tree, count, event)
            for k in range(before, count):
                Entry(turn.entries, k).sid += 1  # not flooded
        elif tree.hops != NOTHING:
            if router.tree_count > 1:
                points, _ = _points(turn, tree.hops, _HOPS, base, attributes, 0)
            mask = _hop_mask(turn, tree, points)
            count = _put_hops(turn, source, tree, mask, count, event)
    return count


@called
def _address(
    turn: Turn, source: Source, points: int, carrying: int, named: int, detours: int, local: int, event: int
) -> int:
    """Add entries for the neighbours towards the brokers that an event is for; return how many entries there are.

    Of a client's event these are found here, with the tree that suits them; of a neighbour's event they are noted.
    """
    router, count = RouterRow(source.router), turn.entry_count + local
    region = Region(router.region)
    tree = carrying
    if source.is_client != 0:
        first, named, tree = TreeRow(router.trees, 0), 0, 0
        if first.hops != NOTHING:
            mask, hosts = _hop_mask(turn, first, points), longs_at(first.link_slots)
            seen, links = ints_at(turn.seen), link_count(first.hops)
            named = note_wanting(region, hosts, mask, SHARED_BIT, seen, links)
        if named > 0:
            tree = choose_tree(region, named, local > 0)
    groups, end, dropped = divide(
        region, source.slot, tree, named, detours, bytes_at(turn.notes), turn.notes_size
    )
    turn.notes_size = end
    router.dropped += dropped
    for k in range(groups):
        group = Addressed(region.room, k)
        count = _put_entry(turn, count, group.slot, event, ADDRESSED - group.place)
    return count


@called
def _gather(
    turn: Turn, source: Source, base: int, attributes: int, missed: int
) -> tuple[int, int, int, int, int, int]:
    """Write an event's points for all indexes that may be asked; return how many there are for the guard, for
    advertisements, local subscriptions and the last tree, how many values are missing, and below 0 if it cannot be
    asked.
    """
    router, last = RouterRow(source.router), 0
    guard, missed = _points(turn, source.guard, _GUARD, base, attributes, missed)
    advertised, missed = _points(turn, source.advertised, _ADVERTISED, base, attributes, missed)
    local, missed = _points(turn, router.local, _LOCAL, base, attributes, missed)
    worst = min(guard, advertised, local)
    trees = router.tree_count
    if router.region != 0:  # whoever publishes asks the first tree, and nobody else asks any
        trees = min(trees, source.is_client)
    for number in range(trees):
        tree = TreeRow(router.trees, number)
        last, missed = _points(turn, tree.hops, _HOPS, base, attributes, missed)
        worst = min(worst, last)
    return guard, advertised, local, last, missed, worst


@called
def _event(turn: Turn, read: int, base: int, first: int, last: int) -> int:
    """Handle one event whose envelope is in order; return _DONE once it is laid out, or why it is not.

    Nothing is changed unless it is. While values are missing, those that this event lacks are only added to the list.
    """
    source = Source(ReadRow(turn.reads, read).source)
    router, data = RouterRow(source.router), bytes_at(base)
    carrying, flooded = -1, False
    if source.is_client == 0:
        carrying = _tree_of(source, router, _number(data, first + TREE_AT, 2))
        flooded = np.int64(data[first + FLAGS_AT]) & FLOODED != 0
        if carrying < 0:
            return _PYTHON
    begin = first + HEAD
    end = begin + _number(data, first + CONTENT_LENGTH_AT, 4)
    named, detours, notes = 0, 0, _number(data, first + NOTES_LENGTH_AT, 2)
    if notes > 0:
        named, detours = read_brokers(Region(router.region), data, end, end + notes)
        if named < 0:
            return _PYTHON
    attributes = read_attributes(data, begin, end, longs_at(turn.scratch), floats_at(turn.floats))
    if attributes < 0:
        return _PYTHON
    guard, advertised, local, hops, missed, worst = _gather(turn, source, base, attributes, turn.missed_count)
    turn.missed_count = missed
    if worst == TOO_MANY:
        return _PYTHON
    if missed > 0:
        return _MISSING
    if source.guard == EVERYTHING:
        return _PYTHON
    if source.guard != NOTHING and _ask(turn, source.guard, _GUARD, guard, 1) == 0:
        return _PYTHON
    view = source.advertised
    if source.is_client != 0 and view != EVERYTHING:
        flooded = view == NOTHING or _ask(turn, view, _ADVERTISED, advertised, 1) == 0
    publisher, name = _number(data, first + PUBLISHER_AT, 8), _number(data, first + NUMBER_AT, 8)
    is_known = router.seen != 0 and is_seen(router.seen, publisher, name)
    is_again = is_known and source.is_client == 0
    found = 0
    if router.local != NOTHING and not is_again:
        found = _ask(turn, router.local, _LOCAL, local, 2**62)
        turn.missed_count = _label(turn, router, found)
        if turn.missed_count > 0:
            return _UNLABELLED
    status = _make_room(turn, router, found, last - first)
    if status != _DONE:
        return status
    number = turn.event_count
    count = _deliver(turn, router, found, turn.entry_count, number)
    if is_again:
        router.duplicates += 1
    elif router.seen != 0 and not is_known:
        see(router.seen, publisher, name)
    # On one tree nothing comes twice, unless it has gone round in a circle.
    if is_again and router.tree_count == 1:
        pass
    elif router.region != 0 and not flooded:
        tree = TreeRow(router.trees, max(carrying, 0)).number
        count = _address(turn, source, hops, tree, named, detours, found, number)
    else:
        count = _onward(turn, source, base, attributes, hops, carrying, flooded, count, number)
    if flooded and source.is_client != 0:
        router.unadvertised += 1
    _put_event(turn, count, read, base + first, last - first)
    return _DONE


@part
def _put_event(turn: Turn, entries: int, read: int, address: int, size: int) -> None:
    """Note an event that is laid out: with it there are so many entries."""
    row = EventRow(turn.events, turn.event_count)
    row.address, row.size, row.read = address, size, read
    turn.out_size += (entries - turn.entry_count) * (size + 12)
    turn.entry_count = entries
    turn.event_count += 1


@part
def _make_room(turn: Turn, router: RouterRow, found: int, size: int) -> int:
    """Return _DONE if there is room for an event with so many deliveries, and otherwise what makes some."""
    entries, notes = found, 0
    for number in range(router.tree_count):
        entries += TreeRow(router.trees, number).slot_count
    if router.region != 0:
        region = Region(router.region)
        entries, notes = entries + region.brokers, region.most_notes
    if (
        turn.event_count < MOST_EVENTS
        and turn.notes_size + notes <= turn.notes_room
        and turn.entry_count + entries <= turn.entry_room
        and (turn.event_count == 0 or turn.out_size + entries * (size + 12) <= MOST_OUT)
    ):
        return _DONE
    if turn.event_count > 0:
        return _FLUSH
    turn.need_entries = entries
    return _ROOM


@part
def _deliver(turn: Turn, router: RouterRow, found: int, count: int, event: int) -> int:
    """Add entries for the local subscriptions that were found; what is nobody's keeps its handle."""
    if found == 0:  # and perhaps there is no index
        return count
    handles = answers_of(router.local)
    for k in range(found):
        label = Label(router.labels, handles[k])
        slot = label.slot
        count = _put_entry(turn, count, slot, event, label.sid if slot != 0 else handles[k])
    return count


# -- out ---------------------------------------------------------------------------------------------------------


@part
def _sid_at(turn: Turn, place: int) -> int:
    return SortedEntry(turn.sorted, place).sid


@part
def _swap_sids(turn: Turn, one: int, other: int) -> None:
    a, b = SortedEntry(turn.sorted, one), SortedEntry(turn.sorted, other)
    a.sid, b.sid = b.sid, a.sid


@part
def _sift(turn: Turn, first: int, root: int, count: int) -> None:
    while True:
        child = 2 * root + 1
        if child >= count:
            return
        if child + 1 < count and _sid_at(turn, first + child) < _sid_at(turn, first + child + 1):
            child += 1
        if _sid_at(turn, first + root) >= _sid_at(turn, first + child):
            return
        _swap_sids(turn, first + root, first + child)
        root = child


@called
def _sort_sids(turn: Turn, first: int, last: int) -> None:
    """Sort the numbers of subscriptions of one client that one event is for (a heap sort: there may be very many)."""
    in_order = True
    for k in range(first + 1, last):
        if _sid_at(turn, k - 1) > _sid_at(turn, k):
            in_order = False
            break
    if in_order:
        return
    count = last - first
    for root in range(count // 2 - 1, -1, -1):
        _sift(turn, first, root, count)
    for end in range(count - 1, 0, -1):
        _swap_sids(turn, first, first + end)
        _sift(turn, first, 0, end)


@part
def _copy_onward(turn: Turn, out: Bytes, at: int, event: int, sid: int) -> int:
    """Write an EVENT with another tree, flag, epoch and perhaps notes; return where it ends."""
    row = EventRow(turn.events, event)
    source = Source(ReadRow(turn.reads, row.read).source)
    data, size = bytes_at(row.address), row.size
    flags, tree = np.int64(data[FLAGS_AT]) & ~FLOODED, (-1 - sid) // 2
    if sid <= ADDRESSED:
        notes, place = bytes_at(turn.notes), ADDRESSED - sid
        tree, length = _number(notes, place, 2), _number(notes, place + 2, 2)
        first = HEAD + _number(data, CONTENT_LENGTH_AT, 4)
        last = first + _number(data, NOTES_LENGTH_AT, 2)
        copy_bytes(out, at + 4, data, 0, first)
        copy_bytes(out, at + 4 + first, notes, place + NOTES_HEAD, length)
        copy_bytes(out, at + 4 + first + length, data, last, size - last)
        _write(out, at + 4 + NOTES_LENGTH_AT, 2, length)
        size += length - (last - first)
    else:
        copy_bytes(out, at + 4, data, 0, size)
        flags |= FLOODED if sid % 2 == 0 else 0
    _write(out, at, 4, size)
    out[at + 4 + FLAGS_AT] = flags
    _write(out, at + 4 + TREE_AT, 2, tree)
    _write(out, at + 4 + EPOCH_AT, 2, RouterRow(source.router).epoch)
    return at + 4 + size


@part
def _copy_delivery(turn: Turn, out: Bytes, at: int, first: int, last: int) -> int:
    """Write a DELIVERY for the subscriptions of sorted entries, all of one event; return where it ends."""
    event = EventRow(turn.events, SortedEntry(turn.sorted, first).event)
    size = event.size
    _write(out, at, 4, 4 + 4 * (last - first) + size)
    out[at + 4] = DELIVERY_KIND
    out[at + 5] = 0
    _write(out, at + 6, 2, last - first)
    at += 8
    for k in range(first, last):
        _write(out, at, 4, _sid_at(turn, k))
        at += 4
    copy_bytes(out, at, bytes_at(event.address), 0, size)
    return at + size


@part
def _put_chunk(turn: Turn, slot: int, first: int, last: int, count: int, size: int) -> None:
    chunk = Chunk(turn.chunks, turn.chunk_count)
    chunk.slot, chunk.first, chunk.last = slot, first, last
    chunk.count, chunk.size = count, size
    turn.chunk_count += 1


@part
def _same_event(turn: Turn, first: int, last: int) -> int:
    """Return where the sorted entries end that are for the event of the first one."""
    k = first + 1
    while k < last and SortedEntry(turn.sorted, k).event == SortedEntry(turn.sorted, first).event:
        k += 1
    return k


@called
def _measure_slot(turn: Turn, slot: int, first: int, last: int) -> int:
    """Divide the sorted entries of one slot into chunks; return how many bytes their frames have."""
    total, size, frames, begin, k, sorted_to = 0, 0, 0, first, first, first
    while k < last:
        event, sid = EventRow(turn.events, SortedEntry(turn.sorted, k).event), _sid_at(turn, k)
        size += event.size
        if sid < 0:
            size += 4
            if sid <= ADDRESSED:
                size += _number(bytes_at(turn.notes), ADDRESSED - sid + 2, 2)
                size -= _number(bytes_at(event.address), NOTES_LENGTH_AT, 2)
            k += 1
        else:
            if k == sorted_to:
                sorted_to = _same_event(turn, k, last)
                _sort_sids(turn, k, sorted_to)
            many = min(sorted_to - k, MOST_SIDS)
            size += 8 + 4 * many
            k += many
        frames += 1
        if frames == MOST_IN_CHUNK or k == last:
            _put_chunk(turn, slot, begin, k, frames, size)
            total += size
            begin, frames, size = k, 0, 0
    return total


@called
def _write_chunk(turn: Turn, chunk: Chunk, address: int) -> None:
    """Write the frames of a chunk to an address."""
    out, at, k, last = bytes_at(address), 0, chunk.first, chunk.last
    while k < last:
        sid = _sid_at(turn, k)
        if sid < 0:
            at = _copy_onward(turn, out, at, SortedEntry(turn.sorted, k).event, sid)
            k += 1
        else:
            end = min(_same_event(turn, k, last), k + MOST_SIDS)
            at = _copy_delivery(turn, out, at, k, end)
            k = end


@kernel
def write_chunks(arguments: Longs) -> None:
    """Write chunks that `relay` has laid out but not written, each where it is to be (`Chunk.at` is an address)."""
    turn = Turn(arguments.ctypes.data)
    for k in range(turn.chunk_count):
        chunk = Chunk(turn.chunks, k)
        if chunk.slot != 0:
            _write_chunk(turn, chunk, chunk.at)


@called
def _lay_out(turn: Turn) -> None:
    """Sort the entries by slot, divide those of each into chunks, and write these if they are not too large.

    `at` of a chunk that is written is its place in `Turn.out`. Large frames are copied once, to memory of their own.
    """
    touched, used, place, total = longs_at(turn.touched), 0, 0, 0
    for k in range(turn.entry_count):
        number = Entry(turn.entries, k).slot
        slot = Slot(turn.slots, number)
        if slot.count == 0:
            touched[used] = number
            used += 1
        slot.count += 1
    for k in range(used):
        slot = Slot(turn.slots, touched[k])
        slot.place = place
        place += slot.count
    for k in range(turn.entry_count):
        entry = Entry(turn.entries, k)
        slot = Slot(turn.slots, entry.slot)
        row = SortedEntry(turn.sorted, slot.place)
        row.event, row.sid = entry.event, entry.sid
        slot.place += 1
    for k in range(used):
        slot = Slot(turn.slots, touched[k])
        last = slot.place
        first = last - slot.count
        slot.count = 0
        if touched[k] == 0:
            _put_chunk(turn, 0, first, last, 0, 0)
        else:
            total += _measure_slot(turn, touched[k], first, last)
    turn.written = total <= MOST_WRITTEN
    at = 0
    for k in range(turn.chunk_count if total <= MOST_WRITTEN else 0):
        chunk = Chunk(turn.chunks, k)
        chunk.at = at
        if chunk.slot != 0:
            _write_chunk(turn, chunk, turn.out + at)
        at += chunk.size


@kernel
def relay(arguments: Longs) -> int:
    """Handle what has come, as far as it goes without Python; return a `Status`. See the module's text."""
    turn = Turn(arguments.ctypes.data)
    turn.event_count = turn.entry_count = turn.chunk_count = 0
    turn.out_size = turn.missed_count = turn.notes_size = 0
    status, back = _DONE, -1
    read = turn.read
    while read < turn.read_count:
        row = ReadRow(turn.reads, read)
        base, at, end = row.address, row.at, row.end
        data, source = bytes_at(base), Source(row.source)
        status = _DONE
        while end - at >= 4:
            length = _number(data, at, 4)
            if length < 1 or length > row.limit:
                status = _BROKEN
                break
            first, last = at + 4, at + 4 + length
            if last > end:
                break
            status = _envelope_status(source, data, first, last)
            if status == _DONE:
                status = _event(turn, read, base, first, last)
            if status == _MISSING and back < 0:
                back = read
            # While something is missing, the events behind it are only looked at for what they lack.
            if status != _DONE and (status != _MISSING or turn.missed_count == MOST_MISSED):
                break
            if back < 0:
                row.count += 1
                row.at = last
            status = _DONE
            at = last
        if status != _DONE:
            break
        read += 1
    if back >= 0:
        read, status = back, _MISSING
    turn.read = read
    if turn.entry_count > 0:
        _lay_out(turn)
    return status
