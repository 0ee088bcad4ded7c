"""The only copy of an event in compiled code: its tree, the links towards the brokers that it is for, and their names.

This does for `relay` what `strategies.regions` and `routing.carrying` do in Python, to the last byte; a property test
compares them. `relay_layout.Region` lists what it works on, which the caller keeps up to date: for each tree and broker
of the plan the distance from the root, the parent, and the way there from this broker.

An event that travels so has notes, the MessagePack array [0.0, [name, ...], detours]; `read_brokers` reads those that
are written in this one form, and leaves all others to Python. `divide` writes notes of this form for each link that the
event goes on to.
"""

from __future__ import annotations

from typing import Final

from covey.matching.attributes.packed import Bytes
from covey.matching.jit import Ints, Longs, bytes_at, called, copy_bytes, longs_at, part
from covey.matching.records import WORD
from covey.matching.relay_layout import Addressed, Region

NEAREST, CHEAPEST = 0, 1

MOST_DETOURS: Final = 3
NOTES_HEAD: Final = 4  # before notes: the tree and the length, two bytes each
_BEGIN: Final = 10  # bytes before the names: an array of three, 0.0
_AROUND: Final = _BEGIN + 3 + 1 + NOTES_HEAD  # all bytes beside names
_MOST_DETOURS_READ: Final = 100


def most_notes(names: int, brokers: int) -> int:
    """Return how many bytes the notes of one event may take, for so many brokers with names of so many bytes."""
    return names + brokers * _AROUND


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
def _number_of(region: Region, data: Bytes, first: int, last: int) -> int:
    """Return the number of the broker with a name, -1 if there is none."""
    names, starts = bytes_at(region.names), longs_at(region.starts)
    low, high = 0, region.brokers
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
def read_brokers(region: Region, data: Bytes, first: int, last: int) -> tuple[int, int]:
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
    if count > region.brokers:
        return -1, 0
    for k in range(count):
        size = _text_size(data, at, last)
        if size < 0:
            return -1, 0
        number = _number_of(region, data, at + _head_size(data, at), at + size)
        if number < 0:
            return -1, 0
        Addressed(region.room, k).number = number
        at += size
    if at + 1 != last or data[at] > _MOST_DETOURS_READ:
        return -1, 0
    return count, data[at]


@called
def note_wanting(region: Region, hosts: Longs, mask: int, shared: int, seen: Ints, links: int) -> int:
    """Note the brokers whose links were hit, in the order of their names; return how many there are.

    `hosts` has one more than the number of the broker for each link, or 0.
    """
    for broker in range(region.brokers):
        Addressed(region.room, broker).below = 0
    for link in range(1, links):
        is_hit = mask >> link & 1 != 0 if link < shared else seen[link] != 0
        if is_hit and hosts[link] != 0:
            Addressed(region.room, hosts[link] - 1).below = 1
    count = 0
    for broker in range(region.brokers):
        if Addressed(region.room, broker).below != 0:
            Addressed(region.room, count).number = broker
            count += 1
    return count


@part
def _count_up(region: Region, parents: Longs, broker: int) -> None:
    """Count one more end below a broker and all those above it."""
    while broker >= 0:
        Addressed(region.room, broker).below += 1
        broker = parents[broker]


@called
def _crossed(region: Region, tree: int, count: int) -> int:
    """Return what the smallest subtree costs that has this broker and those that are noted."""
    brokers = region.brokers
    far = longs_at(region.far + WORD * brokers * tree)
    parents = longs_at(region.parents + WORD * brokers * tree)
    for broker in range(brokers):
        Addressed(region.room, broker).below = 0
    ends = 1
    _count_up(region, parents, region.here)
    for k in range(count):
        broker = Addressed(region.room, k).number
        if broker != region.here:
            ends += 1
            _count_up(region, parents, broker)
    cost = 0
    for broker in range(brokers):
        if 0 < Addressed(region.room, broker).below < ends and parents[broker] >= 0:
            cost += far[broker] - far[parents[broker]]
    return cost


@called
def choose_tree(region: Region, count: int, is_wanted_here: bool) -> int:
    """Return the tree on which an event travels from here to the brokers that are noted; see `Carrying.carrier`."""
    best, least = 0, 0
    for tree in range(region.trees):
        cost = 0
        if region.rule == NEAREST:
            far = longs_at(region.far + WORD * region.brokers * tree)
            for k in range(count):
                cost += far[Addressed(region.room, k).number]
            if is_wanted_here:
                cost += far[region.here]
        else:
            cost = _crossed(region, tree, count)
        if tree == 0 or cost < least:
            best, least = tree, cost
    return best


@part
def _find_way(region: Region, source: int, tree: int, host: int, detours: int) -> tuple[int, int]:
    """Return the tree on which an event goes on to a broker and the way there, 0 if there is none."""
    brokers, trees = region.brokers, region.trees
    ways = longs_at(region.ways)
    way = ways[tree * brokers + host]
    if way != 0 and way >> 1 != source:
        return tree, way
    for step in range(1, trees if detours < MOST_DETOURS else 1):
        other = (tree + step) % trees
        if ways[other * brokers + host] != 0:
            return other, ways[other * brokers + host]
    return tree, 0


@called
def _write_notes(region: Region, count: int, group: int, detours: int, out: Bytes, at: int) -> int:
    """Write the tree, the length and the notes for all noted brokers of one group, those that have the tree and way
    of the broker at `group`, and mark these as done; return where the notes end."""
    names, starts = bytes_at(region.names), longs_at(region.starts)
    tree, way, many, begin = Addressed(region.room, group).tree, Addressed(region.room, group).way, 0, at
    for k in range(group, count):
        one = Addressed(region.room, k)
        many += one.tree == tree and one.way == way
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
        one = Addressed(region.room, k)
        if one.tree == tree and one.way == way:
            first, last = starts[one.number], starts[one.number + 1]
            copy_bytes(out, at, names, first, last - first)
            at += last - first
            one.way = 0
    out[at] = detours
    at += 1
    size = at - begin - NOTES_HEAD
    out[begin], out[begin + 1] = tree & 0xFF, tree >> 8
    out[begin + 2], out[begin + 3] = size & 0xFF, size >> 8
    return at


@called
def divide(
    region: Region, source: int, tree: int, count: int, detours: int, out: Bytes, at: int
) -> tuple[int, int, int]:
    """Divide the noted brokers by the trees and links over which an event from `source` goes on to them.

    Write the notes for each link to `out` from `at` on (`Addressed.slot` and `place`); return how many links there are,
    where the notes end, and how many brokers cannot be reached.
    """
    dropped, groups = 0, 0
    for k in range(count):
        one = Addressed(region.room, k)
        one.tree, one.way = tree, 0
        if one.number != region.here:
            one.tree, one.way = _find_way(region, source, tree, one.number, detours)
            dropped += one.way == 0
    for k in range(count):
        one = Addressed(region.room, k)
        if one.way & 1 != 0:
            group = Addressed(region.room, groups)
            group.slot, group.place = one.way >> 1, at
            at = _write_notes(region, count, k, detours + (one.tree != tree), out, at)
            groups += 1
    return groups, at, dropped
