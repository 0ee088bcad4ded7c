"""The only copy of an event in compiled code: its tree, the links towards the brokers that it is for, and their names.

This does for `relay` what `strategies.regions` and `routing.carrying` do in Python, to the last byte; a property test
compares them. `Region` lists what it works on, an array of addresses and numbers that the caller keeps up to date:
for each tree and broker of the plan the distance from the root, the parent, and the way there from this broker.

An event that travels so has notes, the MessagePack array [0.0, [name, ...], detours]; `read_brokers` reads those that
are written in this one form, and leaves all others to Python. `divide` writes notes of this form for each link that the
event goes on to.
"""

from __future__ import annotations

from typing import Final

from covey.matching.attributes.packed import Bytes
from covey.matching.jit import Ints, Longs, bytes_at, called, copy_bytes, longs_at, part

# The array of a region. Brokers are numbered in the order of their names; `FAR`, `PARENTS` and `WAYS` have a row for
# each tree. A way is 0 if the link towards the broker is not open, and otherwise twice the link's slot, plus 1 if
# events may be sent over it now. `NAMES` has the names in MessagePack, one after the other, and `STARTS` where.
RULE, HERE, BROKERS, TREES, FAR, PARENTS, WAYS, NAMES, STARTS, ROOM, MOST_NOTES, REGION_LENGTH = range(12)
NEAREST, CHEAPEST = 0, 1

# Room for one event, so many times as there are brokers.
_NUMBERS, _TREE_OF, _WAY_OF, _BELOW, _SLOTS, _PLACES, ROOM_COLUMNS = range(7)

MOST_DETOURS: Final = 3
NOTES_HEAD: Final = 4  # before notes: the tree and the length, two bytes each
_BEGIN: Final = 10  # bytes before the names: an array of three, 0.0
_AROUND: Final = _BEGIN + 3 + 1 + NOTES_HEAD  # all bytes beside names
_MOST_DETOURS_READ: Final = 100


def most_notes(names: int, brokers: int) -> int:
    """Return how many bytes the notes of one event may take, for so many brokers with names of so many bytes."""
    return names + brokers * _AROUND


@part
def _column(region: Longs, column: int) -> Longs:
    return longs_at(region[ROOM] + 8 * column * region[BROKERS])


@part
def group_slots(region: Longs) -> Longs:
    """Return the slot of each link that `divide` has found."""
    return _column(region, _SLOTS)


@part
def group_places(region: Longs) -> Longs:
    """Return where the notes for each of these links are."""
    return _column(region, _PLACES)


@part
def _head_size(data: Bytes, at: int) -> int:
    """Return how many bytes a text has before its characters, 0 if it is none."""
    if data[at] >> 5 == 5:
        return 1
    if data[at] == 0xD9:
        return 2
    return 3 if data[at] == 0xDA else 0


@part
def _text_size(data: Bytes, at: int, last: int) -> int:
    """Return how many bytes a text in MessagePack has, -1 if it is none or goes beyond the end."""
    if at >= last:
        return -1
    head, size = _head_size(data, at), 0
    if head == 0 or at + head > last:
        return -1
    if head == 1:
        size = data[at] & 31
    else:
        for k in range(1, head):
            size = size << 8 | data[at + k]
    return head + size if at + head + size <= last else -1


@part
def _compare(data: Bytes, first: int, last: int, names: Bytes, begin: int, end: int) -> int:
    """Return a number below 0, 0 or above 0 as the first text is before, the same as or behind the second."""
    size = min(last - first, end - begin)
    for k in range(size):
        if data[first + k] != names[begin + k]:
            return -1 if data[first + k] < names[begin + k] else 1
    return (last - first) - (end - begin)


@called
def _number_of(region: Longs, data: Bytes, first: int, last: int) -> int:
    """Return the number of the broker with a name, -1 if there is none."""
    names, starts = bytes_at(region[NAMES]), longs_at(region[STARTS])
    low, high = 0, region[BROKERS]
    while low < high:
        middle = (low + high) // 2
        begin = starts[middle]
        order = _compare(data, first, last, names, begin + _head_size(names, begin), starts[middle + 1])
        if order == 0:
            return middle
        if order < 0:
            high = middle
        else:
            low = middle + 1
    return -1


@called
def read_brokers(region: Longs, data: Bytes, first: int, last: int) -> tuple[int, int]:
    """Read the brokers that an event is for from its notes; return how many they are, and how often it changed trees.

    The first is -1 if the notes are not in the form that `divide` writes, or name a broker that the plan does not have.
    """
    if last - first < _BEGIN + 2 or data[first] != 0x93 or data[first + 1] != 0xCB:
        return -1, 0
    for k in range(2, _BEGIN):
        if data[first + k] != 0:
            return -1, 0
    at, count = first + _BEGIN, 0
    if data[at] >> 4 == 9:
        count = data[at] & 15
        at += 1
    elif data[at] == 0xDC and at + 3 < last:
        count = data[at + 1] << 8 | data[at + 2]
        at += 3
    else:
        return -1, 0
    if count > region[BROKERS]:
        return -1, 0
    numbers = _column(region, _NUMBERS)
    for k in range(count):
        size = _text_size(data, at, last)
        if size < 0:
            return -1, 0
        numbers[k] = _number_of(region, data, at + _head_size(data, at), at + size)
        if numbers[k] < 0:
            return -1, 0
        at += size
    if at + 1 != last or data[at] > _MOST_DETOURS_READ:
        return -1, 0
    return count, data[at]


@called
def note_wanting(region: Longs, hosts: Longs, mask: int, shared: int, seen: Ints, links: int) -> int:
    """Note the brokers whose links were hit, in the order of their names; return how many there are.

    `hosts` has one more than the number of the broker for each link, or 0.
    """
    numbers, below = _column(region, _NUMBERS), _column(region, _BELOW)
    for broker in range(region[BROKERS]):
        below[broker] = 0
    for link in range(1, links):
        is_hit = mask >> link & 1 != 0 if link < shared else seen[link] != 0
        if is_hit and hosts[link] != 0:
            below[hosts[link] - 1] = 1
    count = 0
    for broker in range(region[BROKERS]):
        if below[broker] != 0:
            numbers[count] = broker
            count += 1
    return count


@called
def _crossed(region: Longs, tree: int, count: int) -> int:
    """Return what the smallest subtree costs that has this broker and those that are noted."""
    brokers, here = region[BROKERS], region[HERE]
    far = longs_at(region[FAR] + 8 * brokers * tree)
    parents = longs_at(region[PARENTS] + 8 * brokers * tree)
    numbers, below = _column(region, _NUMBERS), _column(region, _BELOW)
    for broker in range(brokers):
        below[broker] = 0
    ends = 1
    broker = here
    while broker >= 0:
        below[broker] += 1
        broker = parents[broker]
    for k in range(count):
        if numbers[k] != here:
            ends += 1
            broker = numbers[k]
            while broker >= 0:
                below[broker] += 1
                broker = parents[broker]
    cost = 0
    for broker in range(brokers):
        if 0 < below[broker] < ends and parents[broker] >= 0:
            cost += far[broker] - far[parents[broker]]
    return cost


@called
def choose_tree(region: Longs, count: int, is_wanted_here: bool) -> int:
    """Return the tree on which an event travels from here to the brokers that are noted; see `Carrying.carrier`."""
    numbers, best, least = _column(region, _NUMBERS), 0, 0
    for tree in range(region[TREES]):
        cost = 0
        if region[RULE] == NEAREST:
            far = longs_at(region[FAR] + 8 * region[BROKERS] * tree)
            for k in range(count):
                cost += far[numbers[k]]
            if is_wanted_here:
                cost += far[region[HERE]]
        else:
            cost = _crossed(region, tree, count)
        if tree == 0 or cost < least:
            best, least = tree, cost
    return best


@part
def _find_way(region: Longs, source: int, tree: int, host: int, detours: int) -> tuple[int, int]:
    """Return the tree on which an event goes on to a broker and the way there, 0 if there is none."""
    brokers, trees = region[BROKERS], region[TREES]
    ways = longs_at(region[WAYS])
    way = ways[tree * brokers + host]
    if way != 0 and way >> 1 != source:
        return tree, way
    for step in range(1, trees if detours < MOST_DETOURS else 1):
        other = (tree + step) % trees
        if ways[other * brokers + host] != 0:
            return other, ways[other * brokers + host]
    return tree, 0


@called
def _write_notes(region: Longs, count: int, group: int, detours: int, out: Bytes, at: int) -> int:
    """Write the tree, the length and the notes for all noted brokers of one group, those that have the tree and way
    of the broker at `group`, and mark these as done; return where the notes end."""
    numbers, trees, ways = _column(region, _NUMBERS), _column(region, _TREE_OF), _column(region, _WAY_OF)
    names, starts = bytes_at(region[NAMES]), longs_at(region[STARTS])
    tree, way, many, begin = trees[group], ways[group], 0, at
    for k in range(group, count):
        many += trees[k] == tree and ways[k] == way
    at += NOTES_HEAD
    out[at], out[at + 1] = 0x93, 0xCB
    for k in range(2, _BEGIN):
        out[at + k] = 0
    at += _BEGIN
    if many < 16:
        out[at] = 0x90 | many
        at += 1
    else:
        out[at], out[at + 1], out[at + 2] = 0xDC, many >> 8, many & 0xFF
        at += 3
    for k in range(group, count):
        if trees[k] == tree and ways[k] == way:
            first, last = starts[numbers[k]], starts[numbers[k] + 1]
            copy_bytes(out, at, names, first, last - first)
            at += last - first
            ways[k] = 0
    out[at] = detours
    at += 1
    size = at - begin - NOTES_HEAD
    out[begin], out[begin + 1] = tree & 0xFF, tree >> 8
    out[begin + 2], out[begin + 3] = size & 0xFF, size >> 8
    return at


@called
def divide(
    region: Longs, source: int, tree: int, count: int, detours: int, out: Bytes, at: int
) -> tuple[int, int, int]:
    """Divide the noted brokers by the trees and links over which an event from `source` goes on to them.

    Write the notes for each link to `out` from `at` on (`group_slots`, `group_places`); return how many links there
    are, where the notes end, and how many brokers cannot be reached.
    """
    numbers, trees, ways = _column(region, _NUMBERS), _column(region, _TREE_OF), _column(region, _WAY_OF)
    slots, places = group_slots(region), group_places(region)
    dropped, groups = 0, 0
    for k in range(count):
        trees[k], ways[k] = tree, 0
        if numbers[k] != region[HERE]:
            trees[k], ways[k] = _find_way(region, source, tree, numbers[k], detours)
            dropped += ways[k] == 0
    for k in range(count):
        if ways[k] & 1 != 0:
            slots[groups], places[groups] = ways[k] >> 1, at
            at = _write_notes(region, count, k, detours + (trees[k] != tree), out, at)
            groups += 1
    return groups, at, dropped
