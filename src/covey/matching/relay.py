"""Relay: what a broker does with the events of a turn of its loop, from the bytes that came in to those that go out.

One compiled call takes what all links have sent, read by read and frame by frame. It checks each event, asks whether
its client may publish and has advertised it, finds the local subscriptions and the neighbours that it goes to, and lays
out the frames for each receiver. It stops where Python is needed, says why (`Status`), and goes on from there when it
is called again. What it has laid out by then is to be sent first: so every link's frames have their effects in order.

Everything is reached by addresses, in arrays of 64-bit numbers: an array that is passed by itself costs more than
an event. Whoever calls keeps all of them alive, and up to date:

    turn     the call's own arrays, where it is, and what it found                                  TURN_*
    reads    a row for each read: bytes, how far they are handled, and the source                   READ_*
    source   a link in an epoch: who may say what, and the router                                   SOURCE_*
    router   local subscriptions with their labels, the events that were seen, and the trees        ROUTER_*
    trees    a row for each tree: next hops, and the slots of links                                 TREE_*
    region   of a plan with one copy of each event: its trees, as seen from here              `addressing`

A *slot* is the number of a receiver, a client or a neighbour; slot 0 is nobody's, and what goes there is left to
Python. A *label* is the slot and the number of a subscription, by its handle in the local index.

Frames are those of `protocol.events` and `protocol.frames`; the offsets stand here again because a kernel is compiled
anew only if its own package changes. A test compares them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from covey.matching.addressing import BROKERS as REGION_BROKERS
from covey.matching.addressing import MOST_NOTES as REGION_MOST_NOTES
from covey.matching.addressing import (
    NOTES_HEAD,
    choose_tree,
    divide,
    group_places,
    group_slots,
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

# -- where everything is -----------------------------------------------------------------------------------------

TURN_READS, TURN_READ_COUNT, TURN_READ = 0, 1, 2  # the rows of reads, how many there are, the current one
TURN_EVENTS, TURN_EVENT_COUNT = 3, 4  # rows of events that are laid out
TURN_ENTRIES, TURN_ENTRY_COUNT, TURN_ENTRY_ROOM = 5, 6, 7  # rows of entries: what goes to which slot
TURN_SORTED, TURN_SLOTS, TURN_TOUCHED = (
    8,
    9,
    10,
)  # the same sorted by slot; rows of slots; slots that are used
TURN_CHUNKS, TURN_CHUNK_COUNT = 11, 12  # rows of chunks
TURN_OUT, TURN_OUT_SIZE, TURN_WRITTEN = (
    13,
    14,
    15,
)  # room for MOST_WRITTEN bytes, at most how many go out, and whether
TURN_SCRATCH, TURN_FLOATS, TURN_SEEN = 16, 17, 18  # room for one event
TURN_MISSED, TURN_MISSED_COUNT = 19, 20  # what is missing, or unlabelled
TURN_NEED_ENTRIES = 21
TURN_NOTES, TURN_NOTES_SIZE, TURN_NOTES_ROOM = 22, 23, 24  # notes of events that go on, how much and at most
TURN_LENGTH: Final = 25

READ_ADDRESS, READ_AT, READ_END, READ_LIMIT, READ_SOURCE, READ_COUNT, READ_COLUMNS = 0, 1, 2, 3, 4, 5, 6

SOURCE_ROUTER, SOURCE_SLOT, SOURCE_EPOCH, SOURCE_LANE = (
    0,
    1,
    2,
    3,
)  # the epoch of a client's events is ignored: -1
SOURCE_IS_CLIENT, SOURCE_PUBLISHER, SOURCE_GUARD, SOURCE_ADVERTISED = 4, 5, 6, 7
SOURCE_SAMPLE, SOURCE_BELOW, SOURCE_TREES = (
    8,
    9,
    10,
)  # whether events are sampled; the rows of trees that it may use
SOURCE_LENGTH: Final = 11

ROUTER_EPOCH, ROUTER_LOCAL, ROUTER_STAMPS, ROUTER_LABELS, ROUTER_SEEN = 0, 1, 2, 3, 4
ROUTER_TREES, ROUTER_TREE_COUNT, ROUTER_UNADVERTISED, ROUTER_DUPLICATES = 5, 6, 7, 8
ROUTER_REGION, ROUTER_DROPPED = (
    9,
    10,
)  # 0 if events are not addressed; brokers that they could not be sent on to
ROUTER_LENGTH: Final = 11

TREE_NUMBER, TREE_TELLS, TREE_HOPS, TREE_LINK_SLOTS, TREE_SLOTS, TREE_SLOT_COUNT, TREE_COLUMNS = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
)

LABEL_STAMP, LABEL_SLOT, LABEL_SID, LABEL_COLUMNS = 0, 1, 2, 3
EVENT_ADDRESS, EVENT_SIZE, EVENT_READ, EVENT_COLUMNS = 0, 1, 2, 3
ENTRY_SLOT, ENTRY_EVENT, ENTRY_SID, ENTRY_COLUMNS = (
    0,
    1,
    2,
    3,
)  # a sid below 0: onward, on a tree, flooded or not; from ADDRESSED down: onward, with notes
SORTED_EVENT, SORTED_SID, SORTED_COLUMNS = 0, 1, 2
CHUNK_SLOT, CHUNK_FIRST, CHUNK_LAST, CHUNK_COUNT, CHUNK_SIZE, CHUNK_AT, CHUNK_COLUMNS = 0, 1, 2, 3, 4, 5, 6
_SLOT_COUNT, _SLOT_PLACE, SLOT_COLUMNS = 0, 1, 2

ADDRESSED: Final = -(1 << 32)  # less the place of the tree and the notes in TURN_NOTES
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
def _envelope_status(source: Longs, data: Bytes, first: int, last: int) -> int:
    """Return _DONE if an event's envelope is one that the kernel handles, _PYTHON or _EPOCH otherwise."""
    if data[first] != EVENT_KIND or last - first < HEAD:
        return _PYTHON
    if source[SOURCE_IS_CLIENT] == 0 and _number(data, first + EPOCH_AT, 2) != source[SOURCE_EPOCH]:
        return _EPOCH
    if source[SOURCE_LANE] != 0 or np.int64(data[first + FLAGS_AT]) & (KEPT | FAMILY) != ATTRIBUTES:
        return _PYTHON
    notes = _number(data, first + NOTES_LENGTH_AT, 2)
    if notes != 0 and (
        source[SOURCE_IS_CLIENT] != 0
        or longs_at(source[SOURCE_ROUTER])[ROUTER_REGION] == 0
        or np.int64(data[first + FLAGS_AT]) & FLOODED != 0
    ):
        return _PYTHON
    if first + HEAD + _number(data, first + CONTENT_LENGTH_AT, 4) + notes > last:
        return _PYTHON
    publisher = _number(data, first + PUBLISHER_AT, 8)
    if source[SOURCE_IS_CLIENT] != 0 and publisher != source[SOURCE_PUBLISHER]:
        return _PYTHON
    number = _number(data, first + NUMBER_AT, 8)
    if source[SOURCE_SAMPLE] != 0 and _is_sampled(source[SOURCE_BELOW], publisher, number):
        return _PYTHON
    return _DONE


@part
def _tree_of(source: Longs, router: Longs, number: int) -> int:
    """Return the row of the tree that a neighbour has written on an event, -1 if it may not."""
    trees, allowed = longs_at(router[ROUTER_TREES]), longs_at(source[SOURCE_TREES])
    for tree in range(router[ROUTER_TREE_COUNT]):
        if trees[TREE_COLUMNS * tree + TREE_NUMBER] == number and allowed[tree] != 0:
            return tree
    return -1


@part
def _put_entry(turn: Longs, count: int, slot: int, event: int, sid: int) -> int:
    entries = longs_at(turn[TURN_ENTRIES])
    entries[ENTRY_COLUMNS * count + ENTRY_SLOT] = slot
    entries[ENTRY_COLUMNS * count + ENTRY_EVENT] = event
    entries[ENTRY_COLUMNS * count + ENTRY_SID] = sid
    return count + 1


@called
def _flood(turn: Longs, source: Longs, tree: Longs, count: int, event: int) -> int:
    """Add entries for all open neighbours of a tree but the source."""
    slots = longs_at(tree[TREE_SLOTS])
    for k in range(tree[TREE_SLOT_COUNT]):
        if slots[k] != source[SOURCE_SLOT]:
            count = _put_entry(turn, count, slots[k], event, -2 - 2 * tree[TREE_NUMBER])
    return count


@called
def _put_hops(turn: Longs, source: Longs, tree: Longs, mask: int, count: int, event: int) -> int:
    """Add entries for the neighbours whose links an event has hit: the mask's, and those from SHARED_BIT up."""
    slots, links = longs_at(tree[TREE_LINK_SLOTS]), link_count(tree[TREE_HOPS])
    seen = ints_at(turn[TURN_SEEN])
    for link in range(1, links):
        is_hit = mask >> link & 1 != 0 if link < SHARED_BIT else seen[link] != 0
        if is_hit and slots[link] != 0 and slots[link] != source[SOURCE_SLOT]:
            count = _put_entry(turn, count, slots[link], event, -1 - 2 * tree[TREE_NUMBER])
    return count


@called
def _points(turn: Longs, view: int, which: int, base: int, attributes: int, missed: int) -> tuple[int, int]:
    """Write an event's points for one index, if there is one, into one of four places; see `points_of`."""
    if view == NOTHING or view == EVERYTHING:
        return 0, missed
    rows, numbers = longs_at(turn[TURN_SCRATCH]), floats_at(turn[TURN_FLOATS])
    channels = ints_at(turn[TURN_SCRATCH] + 8 * (POINT_LONGS * MOST_NAMES + which * MOST_POINTS))
    values = floats_at(turn[TURN_FLOATS] + 8 * (MOST_NAMES + which * MOST_POINTS))
    missing = longs_at(turn[TURN_MISSED])
    return points_of(view, base, rows, numbers, attributes, channels, values, missing, missed, MOST_MISSED)


@called
def _ask(turn: Longs, view: int, which: int, points: int, limit: int) -> int:
    """Ask an index about the points that were written for it; see `matching`."""
    channels = ints_at(turn[TURN_SCRATCH] + 8 * (POINT_LONGS * MOST_NAMES + which * MOST_POINTS))
    values = floats_at(turn[TURN_FLOATS] + 8 * (MOST_NAMES + which * MOST_POINTS))
    return matching(view, channels, values, points, _cells(turn), limit)


@part
def _cells(turn: Longs) -> Ints:
    return ints_at(turn[TURN_SCRATCH] + 8 * (POINT_LONGS * MOST_NAMES + _POINT_SETS * MOST_POINTS))


@called
def _label(turn: Longs, router: Longs, found: int) -> int:
    """Return how many of the handles that were found have no label; they are listed as missing."""
    handles, stamps = answers_of(router[ROUTER_LOCAL]), longs_at(router[ROUTER_STAMPS])
    labels, missed = longs_at(router[ROUTER_LABELS]), longs_at(turn[TURN_MISSED])
    count = 0
    for k in range(found):
        handle = handles[k]
        if labels[LABEL_COLUMNS * handle + LABEL_STAMP] != stamps[handle] and count < MOST_MISSED:
            missed[count] = handle
            count += 1
    return count


@called
def _hop_mask(turn: Longs, tree: Longs, points: int) -> int:
    """Return the mask of links that an event must go to on a tree; those from SHARED_BIT up are in `seen`."""
    view = tree[TREE_HOPS]
    seen, links = ints_at(turn[TURN_SEEN]), link_count(view)
    if links > SHARED_BIT:
        for link in range(links + 1):
            seen[link] = 0
    channels = ints_at(turn[TURN_SCRATCH] + 8 * (POINT_LONGS * MOST_NAMES + _HOPS * MOST_POINTS))
    values = floats_at(turn[TURN_FLOATS] + 8 * (MOST_NAMES + _HOPS * MOST_POINTS))
    return links_to(view, channels, values, points, _cells(turn), seen)


@called
def _onward(
    turn: Longs,
    source: Longs,
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
    router = longs_at(source[SOURCE_ROUTER])
    for number in range(router[ROUTER_TREE_COUNT]):
        tree = longs_at(router[ROUTER_TREES] + 8 * TREE_COLUMNS * number)
        if number != carrying if carrying >= 0 else tree[TREE_TELLS] == 0:
            continue
        if flooded:
            return _flood(turn, source, tree, count, event)
        slots = tree[TREE_SLOT_COUNT]
        if slots == 0 or (slots == 1 and longs_at(tree[TREE_SLOTS])[0] == source[SOURCE_SLOT]):
            continue
        if tree[TREE_HOPS] == EVERYTHING:
            before = count
            count = _flood(turn, source, tree, count, event)
            entries = longs_at(turn[TURN_ENTRIES])
            for k in range(before, count):
                entries[ENTRY_COLUMNS * k + ENTRY_SID] += 1  # not flooded
        elif tree[TREE_HOPS] != NOTHING:
            if router[ROUTER_TREE_COUNT] > 1:
                points, _ = _points(turn, tree[TREE_HOPS], _HOPS, base, attributes, 0)
            mask = _hop_mask(turn, tree, points)
            count = _put_hops(turn, source, tree, mask, count, event)
    return count


@called
def _address(
    turn: Longs, source: Longs, points: int, carrying: int, named: int, detours: int, local: int, event: int
) -> int:
    """Add entries for the neighbours towards the brokers that an event is for; return how many entries there are.

    Of a client's event these are found here, with the tree that suits them; of a neighbour's event they are noted.
    """
    router, count = longs_at(source[SOURCE_ROUTER]), turn[TURN_ENTRY_COUNT] + local
    region = longs_at(router[ROUTER_REGION])
    tree = carrying
    if source[SOURCE_IS_CLIENT] != 0:
        first, named, tree = longs_at(router[ROUTER_TREES]), 0, 0
        if first[TREE_HOPS] != NOTHING:
            mask, hosts = _hop_mask(turn, first, points), longs_at(first[TREE_LINK_SLOTS])
            seen, links = ints_at(turn[TURN_SEEN]), link_count(first[TREE_HOPS])
            named = note_wanting(region, hosts, mask, SHARED_BIT, seen, links)
        if named > 0:
            tree = choose_tree(region, named, local > 0)
    groups, end, dropped = divide(
        region, source[SOURCE_SLOT], tree, named, detours, bytes_at(turn[TURN_NOTES]), turn[TURN_NOTES_SIZE]
    )
    turn[TURN_NOTES_SIZE] = end
    router[ROUTER_DROPPED] += dropped
    slots, places = group_slots(region), group_places(region)
    for k in range(groups):
        count = _put_entry(turn, count, slots[k], event, ADDRESSED - places[k])
    return count


@called
def _gather(
    turn: Longs, source: Longs, base: int, attributes: int, missed: int
) -> tuple[int, int, int, int, int, int]:
    """Write an event's points for all indexes that may be asked; return how many there are for the guard, for
    advertisements, local subscriptions and the last tree, how many values are missing, and below 0 if it cannot be
    asked.
    """
    router, last = longs_at(source[SOURCE_ROUTER]), 0
    guard, missed = _points(turn, source[SOURCE_GUARD], _GUARD, base, attributes, missed)
    advertised, missed = _points(turn, source[SOURCE_ADVERTISED], _ADVERTISED, base, attributes, missed)
    local, missed = _points(turn, router[ROUTER_LOCAL], _LOCAL, base, attributes, missed)
    worst = min(guard, advertised, local)
    trees = router[ROUTER_TREE_COUNT]
    if router[ROUTER_REGION] != 0:  # whoever publishes asks the first tree, and nobody else asks any
        trees = min(trees, source[SOURCE_IS_CLIENT])
    for number in range(trees):
        tree = longs_at(router[ROUTER_TREES] + 8 * TREE_COLUMNS * number)
        last, missed = _points(turn, tree[TREE_HOPS], _HOPS, base, attributes, missed)
        worst = min(worst, last)
    return guard, advertised, local, last, missed, worst


@called
def _event(turn: Longs, read: int, base: int, first: int, last: int) -> int:
    """Handle one event whose envelope is in order; return _DONE once it is laid out, or why it is not.

    Nothing is changed unless it is. While values are missing, those that this event lacks are only added to the list.
    """
    source = longs_at(longs_at(turn[TURN_READS])[READ_COLUMNS * read + READ_SOURCE])
    router, data = longs_at(source[SOURCE_ROUTER]), bytes_at(base)
    carrying, flooded = -1, False
    if source[SOURCE_IS_CLIENT] == 0:
        carrying = _tree_of(source, router, _number(data, first + TREE_AT, 2))
        flooded = np.int64(data[first + FLAGS_AT]) & FLOODED != 0
        if carrying < 0:
            return _PYTHON
    begin = first + HEAD
    end = begin + _number(data, first + CONTENT_LENGTH_AT, 4)
    named, detours, notes = 0, 0, _number(data, first + NOTES_LENGTH_AT, 2)
    if notes > 0:
        named, detours = read_brokers(longs_at(router[ROUTER_REGION]), data, end, end + notes)
        if named < 0:
            return _PYTHON
    attributes = read_attributes(data, begin, end, longs_at(turn[TURN_SCRATCH]), floats_at(turn[TURN_FLOATS]))
    if attributes < 0:
        return _PYTHON
    guard, advertised, local, hops, missed, worst = _gather(
        turn, source, base, attributes, turn[TURN_MISSED_COUNT]
    )
    turn[TURN_MISSED_COUNT] = missed
    if worst == TOO_MANY:
        return _PYTHON
    if missed > 0:
        return _MISSING
    if source[SOURCE_GUARD] == EVERYTHING:
        return _PYTHON
    if source[SOURCE_GUARD] != NOTHING and _ask(turn, source[SOURCE_GUARD], _GUARD, guard, 1) == 0:
        return _PYTHON
    view = source[SOURCE_ADVERTISED]
    if source[SOURCE_IS_CLIENT] != 0 and view != EVERYTHING:
        flooded = view == NOTHING or _ask(turn, view, _ADVERTISED, advertised, 1) == 0
    publisher, name = _number(data, first + PUBLISHER_AT, 8), _number(data, first + NUMBER_AT, 8)
    is_known = router[ROUTER_SEEN] != 0 and is_seen(router[ROUTER_SEEN], publisher, name)
    is_again = is_known and source[SOURCE_IS_CLIENT] == 0
    found = 0
    if router[ROUTER_LOCAL] != NOTHING and not is_again:
        found = _ask(turn, router[ROUTER_LOCAL], _LOCAL, local, 2**62)
        turn[TURN_MISSED_COUNT] = _label(turn, router, found)
        if turn[TURN_MISSED_COUNT] > 0:
            return _UNLABELLED
    status = _make_room(turn, router, found, last - first)
    if status != _DONE:
        return status
    number = turn[TURN_EVENT_COUNT]
    count = _deliver(turn, router, found, turn[TURN_ENTRY_COUNT], number)
    if is_again:
        router[ROUTER_DUPLICATES] += 1
    elif router[ROUTER_SEEN] != 0 and not is_known:
        see(router[ROUTER_SEEN], publisher, name)
    # On one tree nothing comes twice, unless it has gone round in a circle.
    if is_again and router[ROUTER_TREE_COUNT] == 1:
        pass
    elif router[ROUTER_REGION] != 0 and not flooded:
        tree = longs_at(router[ROUTER_TREES])[TREE_COLUMNS * max(carrying, 0) + TREE_NUMBER]
        count = _address(turn, source, hops, tree, named, detours, found, number)
    else:
        count = _onward(turn, source, base, attributes, hops, carrying, flooded, count, number)
    if flooded and source[SOURCE_IS_CLIENT] != 0:
        router[ROUTER_UNADVERTISED] += 1
    _put_event(turn, count, read, base + first, last - first)
    return _DONE


@part
def _put_event(turn: Longs, entries: int, read: int, address: int, size: int) -> None:
    """Note an event that is laid out: with it there are so many entries."""
    events = longs_at(turn[TURN_EVENTS] + 8 * EVENT_COLUMNS * turn[TURN_EVENT_COUNT])
    events[EVENT_ADDRESS], events[EVENT_SIZE], events[EVENT_READ] = address, size, read
    turn[TURN_OUT_SIZE] += (entries - turn[TURN_ENTRY_COUNT]) * (size + 12)
    turn[TURN_ENTRY_COUNT] = entries
    turn[TURN_EVENT_COUNT] += 1


@part
def _make_room(turn: Longs, router: Longs, found: int, size: int) -> int:
    """Return _DONE if there is room for an event with so many deliveries, and otherwise what makes some."""
    entries, notes = found, 0
    for number in range(router[ROUTER_TREE_COUNT]):
        entries += longs_at(router[ROUTER_TREES])[TREE_COLUMNS * number + TREE_SLOT_COUNT]
    if router[ROUTER_REGION] != 0:
        region = longs_at(router[ROUTER_REGION])
        entries, notes = entries + region[REGION_BROKERS], region[REGION_MOST_NOTES]
    if (
        turn[TURN_EVENT_COUNT] < MOST_EVENTS
        and turn[TURN_NOTES_SIZE] + notes <= turn[TURN_NOTES_ROOM]
        and turn[TURN_ENTRY_COUNT] + entries <= turn[TURN_ENTRY_ROOM]
        and (turn[TURN_EVENT_COUNT] == 0 or turn[TURN_OUT_SIZE] + entries * (size + 12) <= MOST_OUT)
    ):
        return _DONE
    if turn[TURN_EVENT_COUNT] > 0:
        return _FLUSH
    turn[TURN_NEED_ENTRIES] = entries
    return _ROOM


@part
def _deliver(turn: Longs, router: Longs, found: int, count: int, event: int) -> int:
    """Add entries for the local subscriptions that were found; what is nobody's keeps its handle."""
    handles, labels = answers_of(router[ROUTER_LOCAL]), longs_at(router[ROUTER_LABELS])
    for k in range(found):
        label = LABEL_COLUMNS * handles[k]
        slot = labels[label + LABEL_SLOT]
        count = _put_entry(turn, count, slot, event, labels[label + LABEL_SID] if slot != 0 else handles[k])
    return count


# -- out ---------------------------------------------------------------------------------------------------------


@part
def _sift(rows: Longs, first: int, root: int, count: int) -> None:
    while True:
        child = 2 * root + 1
        if child >= count:
            return
        at = SORTED_COLUMNS * (first + child) + SORTED_SID
        if child + 1 < count and rows[at] < rows[at + SORTED_COLUMNS]:
            child += 1
            at += SORTED_COLUMNS
        parent = SORTED_COLUMNS * (first + root) + SORTED_SID
        if rows[parent] >= rows[at]:
            return
        rows[parent], rows[at] = rows[at], rows[parent]
        root = child


@called
def _sort_sids(rows: Longs, first: int, last: int) -> None:
    """Sort the numbers of subscriptions of one client that one event is for (a heap sort: there may be very many)."""
    in_order = True
    for k in range(first + 1, last):
        if rows[SORTED_COLUMNS * (k - 1) + SORTED_SID] > rows[SORTED_COLUMNS * k + SORTED_SID]:
            in_order = False
            break
    if in_order:
        return
    count = last - first
    for root in range(count // 2 - 1, -1, -1):
        _sift(rows, first, root, count)
    for end in range(count - 1, 0, -1):
        a, b = SORTED_COLUMNS * first + SORTED_SID, SORTED_COLUMNS * (first + end) + SORTED_SID
        rows[a], rows[b] = rows[b], rows[a]
        _sift(rows, first, 0, end)


@part
def _copy_onward(turn: Longs, out: Bytes, at: int, event: int, sid: int) -> int:
    """Write an EVENT with another tree, flag, epoch and perhaps notes; return where it ends."""
    row = longs_at(turn[TURN_EVENTS] + 8 * EVENT_COLUMNS * event)
    source = longs_at(longs_at(turn[TURN_READS])[READ_COLUMNS * row[EVENT_READ] + READ_SOURCE])
    data, size = bytes_at(row[EVENT_ADDRESS]), row[EVENT_SIZE]
    flags, tree = np.int64(data[FLAGS_AT]) & ~FLOODED, (-1 - sid) // 2
    if sid <= ADDRESSED:
        notes, place = bytes_at(turn[TURN_NOTES]), ADDRESSED - sid
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
    _write(out, at + 4 + EPOCH_AT, 2, longs_at(source[SOURCE_ROUTER])[ROUTER_EPOCH])
    return at + 4 + size


@part
def _copy_delivery(turn: Longs, out: Bytes, at: int, first: int, last: int) -> int:
    """Write a DELIVERY for the subscriptions of sorted entries, all of one event; return where it ends."""
    rows = longs_at(turn[TURN_SORTED])
    event = longs_at(turn[TURN_EVENTS] + 8 * EVENT_COLUMNS * rows[SORTED_COLUMNS * first + SORTED_EVENT])
    size = event[EVENT_SIZE]
    _write(out, at, 4, 4 + 4 * (last - first) + size)
    out[at + 4] = DELIVERY_KIND
    out[at + 5] = 0
    _write(out, at + 6, 2, last - first)
    at += 8
    for k in range(first, last):
        _write(out, at, 4, rows[SORTED_COLUMNS * k + SORTED_SID])
        at += 4
    copy_bytes(out, at, bytes_at(event[EVENT_ADDRESS]), 0, size)
    return at + size


@part
def _put_chunk(turn: Longs, slot: int, first: int, last: int, count: int, size: int) -> None:
    chunk = longs_at(turn[TURN_CHUNKS] + 8 * CHUNK_COLUMNS * turn[TURN_CHUNK_COUNT])
    chunk[CHUNK_SLOT], chunk[CHUNK_FIRST], chunk[CHUNK_LAST] = slot, first, last
    chunk[CHUNK_COUNT], chunk[CHUNK_SIZE] = count, size
    turn[TURN_CHUNK_COUNT] += 1


@part
def _same_event(rows: Longs, first: int, last: int) -> int:
    """Return where the sorted entries end that are for the event of the first one."""
    k = first + 1
    while k < last and rows[SORTED_COLUMNS * k + SORTED_EVENT] == rows[SORTED_COLUMNS * first + SORTED_EVENT]:
        k += 1
    return k


@called
def _measure_slot(turn: Longs, slot: int, first: int, last: int) -> int:
    """Divide the sorted entries of one slot into chunks; return how many bytes their frames have."""
    rows, events = longs_at(turn[TURN_SORTED]), longs_at(turn[TURN_EVENTS])
    total, size, frames, begin, k, sorted_to = 0, 0, 0, first, first, first
    while k < last:
        size += events[EVENT_COLUMNS * rows[SORTED_COLUMNS * k + SORTED_EVENT] + EVENT_SIZE]
        sid = rows[SORTED_COLUMNS * k + SORTED_SID]
        if sid < 0:
            size += 4
            if sid <= ADDRESSED:
                event = events[EVENT_COLUMNS * rows[SORTED_COLUMNS * k + SORTED_EVENT] + EVENT_ADDRESS]
                size += _number(bytes_at(turn[TURN_NOTES]), ADDRESSED - sid + 2, 2)
                size -= _number(bytes_at(event), NOTES_LENGTH_AT, 2)
            k += 1
        else:
            if k == sorted_to:
                sorted_to = _same_event(rows, k, last)
                _sort_sids(rows, k, sorted_to)
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
def _write_chunk(turn: Longs, chunk: Longs, address: int) -> None:
    """Write the frames of a chunk to an address."""
    out, rows = bytes_at(address), longs_at(turn[TURN_SORTED])
    at, k, last = 0, chunk[CHUNK_FIRST], chunk[CHUNK_LAST]
    while k < last:
        sid = rows[SORTED_COLUMNS * k + SORTED_SID]
        if sid < 0:
            at = _copy_onward(turn, out, at, rows[SORTED_COLUMNS * k + SORTED_EVENT], sid)
            k += 1
        else:
            end = min(_same_event(rows, k, last), k + MOST_SIDS)
            at = _copy_delivery(turn, out, at, k, end)
            k = end


@kernel
def write_chunks(arguments: Longs) -> None:
    """Write chunks that `relay` has laid out but not written, each where it is to be (CHUNK_AT is an address)."""
    turn = longs_at(arguments.ctypes.data)
    for k in range(turn[TURN_CHUNK_COUNT]):
        chunk = longs_at(turn[TURN_CHUNKS] + 8 * CHUNK_COLUMNS * k)
        if chunk[CHUNK_SLOT] != 0:
            _write_chunk(turn, chunk, chunk[CHUNK_AT])


@called
def _lay_out(turn: Longs) -> None:
    """Sort the entries by slot, divide those of each into chunks, and write these if they are not too large.

    CHUNK_AT of what is written is its place in TURN_OUT. Large frames are copied only once: to memory of their own.
    """
    entries, rows = longs_at(turn[TURN_ENTRIES]), longs_at(turn[TURN_SORTED])
    slots, touched = longs_at(turn[TURN_SLOTS]), longs_at(turn[TURN_TOUCHED])
    used, place, total = 0, 0, 0
    for k in range(turn[TURN_ENTRY_COUNT]):
        slot = entries[ENTRY_COLUMNS * k + ENTRY_SLOT]
        if slots[SLOT_COLUMNS * slot + _SLOT_COUNT] == 0:
            touched[used] = slot
            used += 1
        slots[SLOT_COLUMNS * slot + _SLOT_COUNT] += 1
    for k in range(used):
        slots[SLOT_COLUMNS * touched[k] + _SLOT_PLACE] = place
        place += slots[SLOT_COLUMNS * touched[k] + _SLOT_COUNT]
    for k in range(turn[TURN_ENTRY_COUNT]):
        slot = SLOT_COLUMNS * entries[ENTRY_COLUMNS * k + ENTRY_SLOT]
        place = slots[slot + _SLOT_PLACE]
        rows[SORTED_COLUMNS * place + SORTED_EVENT] = entries[ENTRY_COLUMNS * k + ENTRY_EVENT]
        rows[SORTED_COLUMNS * place + SORTED_SID] = entries[ENTRY_COLUMNS * k + ENTRY_SID]
        slots[slot + _SLOT_PLACE] = place + 1
    for k in range(used):
        slot = SLOT_COLUMNS * touched[k]
        last = slots[slot + _SLOT_PLACE]
        first = last - slots[slot + _SLOT_COUNT]
        slots[slot + _SLOT_COUNT] = 0
        if touched[k] == 0:
            _put_chunk(turn, 0, first, last, 0, 0)
        else:
            total += _measure_slot(turn, touched[k], first, last)
    turn[TURN_WRITTEN] = total <= MOST_WRITTEN
    at = 0
    for k in range(turn[TURN_CHUNK_COUNT] if total <= MOST_WRITTEN else 0):
        chunk = longs_at(turn[TURN_CHUNKS] + 8 * CHUNK_COLUMNS * k)
        chunk[CHUNK_AT] = at
        if chunk[CHUNK_SLOT] != 0:
            _write_chunk(turn, chunk, turn[TURN_OUT] + at)
        at += chunk[CHUNK_SIZE]


@kernel
def relay(arguments: Longs) -> int:
    """Handle what has come, as far as it goes without Python; return a `Status`. See the module's text."""
    turn = longs_at(arguments.ctypes.data)
    turn[TURN_EVENT_COUNT] = turn[TURN_ENTRY_COUNT] = turn[TURN_CHUNK_COUNT] = 0
    turn[TURN_OUT_SIZE] = turn[TURN_MISSED_COUNT] = turn[TURN_NOTES_SIZE] = 0
    status, back = _DONE, -1
    read = turn[TURN_READ]
    while read < turn[TURN_READ_COUNT]:
        row = longs_at(turn[TURN_READS] + 8 * READ_COLUMNS * read)
        base, at, end = row[READ_ADDRESS], row[READ_AT], row[READ_END]
        data, source = bytes_at(base), longs_at(row[READ_SOURCE])
        status = _DONE
        while end - at >= 4:
            length = _number(data, at, 4)
            if length < 1 or length > row[READ_LIMIT]:
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
            if status != _DONE and (status != _MISSING or turn[TURN_MISSED_COUNT] == MOST_MISSED):
                break
            if back < 0:
                row[READ_COUNT] += 1
                row[READ_AT] = last
            status = _DONE
            at = last
        if status != _DONE:
            break
        read += 1
    if back >= 0:
        read, status = back, _MISSING
    turn[TURN_READ] = read
    if turn[TURN_ENTRY_COUNT] > 0:
        _lay_out(turn)
    return status
