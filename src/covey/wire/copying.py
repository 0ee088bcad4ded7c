"""Events from the buffer that they came in to the chunks that go out, by compiled loops.

Offsets are those of an EVENT frame (`wire.events`). A chunk is whole frames, each with its length; nothing of an event
is decoded, and only what a broker may change on the envelope is written anew.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Ints, Longs, bytes_at, copy_bytes, kernel, longs_at, part, sort
from covey.wire.events import ATTRIBUTES, ENVELOPE, FAMILY_SHIFT, FLOODED
from covey.wire.frames import Kind
from covey.wire.splitting import Frames

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

MOST_SIDS: Final = 65_535  # in one DELIVERY: their count is a u16

_HEAD: Final = ENVELOPE.size
_FLAGS, _TREE, _CONTENT_LENGTH, _PUBLISHER, _EPOCH, _NOTES_LENGTH = 1, 2, 4, 8, 24, 26
_DELIVERY: Final = int(Kind.DELIVERY)
_FLOODED: Final = FLOODED
_FAMILY: Final = 3 << FAMILY_SHIFT
_ATTRIBUTES: Final = ATTRIBUTES << FAMILY_SHIFT


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


@kernel
def read_envelopes(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    publisher: int,
    firsts: Longs,
    lasts: Longs,
    trees: Ints,
    epochs: Ints,
    flags: Bytes,
    plain: Mask,
) -> None:
    """Write what the envelopes of EVENT frames say, and where their contents are.

    Plain is an event of attributes without notes, whose lengths fit, of the publisher unless that is negative. Nothing
    else is to be believed of one that is not.
    """
    source = bytes_at(data.ctypes.data)
    for n in range(len(starts)):
        start, end = starts[n], ends[n]
        plain[n] = False
        firsts[n] = lasts[n] = start
        if end - start < _HEAD:
            continue
        flags[n] = data[start + _FLAGS]
        trees[n] = _number(source, start + _TREE, 2)
        epochs[n] = _number(source, start + _EPOCH, 2)
        last = start + _HEAD + _number(source, start + _CONTENT_LENGTH, 4)
        if last > end or _number(source, start + _NOTES_LENGTH, 2) != 0:
            continue
        if publisher >= 0 and _number(source, start + _PUBLISHER, 8) != publisher:
            continue
        firsts[n] = start + _HEAD
        lasts[n] = last
        plain[n] = flags[n] & _FAMILY == _ATTRIBUTES


@kernel
def copy_onward(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    which: Longs,
    trees: Ints,
    flooded: Mask,
    epoch: int,
    out: Bytes,
    out_ends: Longs,
) -> None:
    """Write the chosen EVENT frames with another tree, flag and epoch, and where each ends."""
    at, target, source = 0, bytes_at(out.ctypes.data), bytes_at(data.ctypes.data)
    for n in range(len(which)):
        start, end = starts[which[n]], ends[which[n]]
        _write(target, at, 4, end - start)
        at += 4
        copy_bytes(target, at, source, start, end - start)
        flags = np.int64(source[start + _FLAGS]) & ~_FLOODED
        target[at + _FLAGS] = flags | (_FLOODED if flooded[n] else 0)
        _write(target, at + _TREE, 2, trees[n])
        _write(target, at + _EPOCH, 2, epoch)
        at += end - start
        out_ends[n] = at


@kernel
def sort_deliveries(
    starts: Longs,
    ends: Longs,
    event_ends: Longs,
    slots: Ints,
    sids: Longs,
    firsts: Longs,
    sizes: Longs,
    frames: Longs,
    events: Longs,
    sorted_sids: Longs,
) -> None:
    """Sort what events are for by client, event and subscription; count the bytes and frames that each client gets.

    `slots` and `sids` say for which client and subscription, event by event. `firsts`, `sizes` and `frames` have a
    number for each client, and `firsts` one more.
    """
    of_events = longs_at(events.ctypes.data)
    firsts[:] = 0
    for k in range(len(slots)):
        firsts[slots[k] + 1] += 1
    for slot in range(len(sizes)):
        firsts[slot + 1] += firsts[slot]
    place = firsts[:-1].copy()
    k = 0
    for event in range(len(event_ends)):
        while k < event_ends[event]:
            at = place[slots[k]]
            events[at] = event
            sorted_sids[at] = sids[k]
            place[slots[k]] = at + 1
            k += 1
    for slot in range(len(sizes)):
        size, count, at = 0, 0, firsts[slot]
        while at < firsts[slot + 1]:
            same = at + 1
            while same < firsts[slot + 1] and events[same] == events[at]:
                same += 1
            if same > at + 1 and (at == firsts[slot] or events[at - 1] != events[at]):
                sort(sorted_sids, at, same)
            many = _together(of_events, at, firsts[slot + 1])
            size += 8 + 4 * many + ends[events[at]] - starts[events[at]]
            count += 1
            at += many
        sizes[slot] = size
        frames[slot] = count


@part
def _together(events: Longs, at: int, end: int) -> int:
    """Return for how many subscriptions of one client the next frame is."""
    many = 1
    while at + many < end and many < MOST_SIDS and events[at + many] == events[at]:
        many += 1
    return many


@kernel
def copy_deliveries(
    data: Bytes, starts: Longs, ends: Longs, events: Longs, sids: Longs, out: Bytes, out_ends: Longs
) -> None:
    """Write the DELIVERY frames of one client, and where each ends."""
    at, k, frame = 0, 0, 0
    target, source = bytes_at(out.ctypes.data), bytes_at(data.ctypes.data)
    places = longs_at(events.ctypes.data)
    while k < len(events):
        many = _together(places, k, len(events))
        start, end = starts[events[k]], ends[events[k]]
        _write(target, at, 4, 4 + 4 * many + end - start)
        target[at + 4] = _DELIVERY
        target[at + 5] = 0
        _write(target, at + 6, 2, many)
        at += 8
        for _ in range(many):
            _write(target, at, 4, sids[k])
            at += 4
            k += 1
        copy_bytes(target, at, source, start, end - start)
        at += end - start
        out_ends[frame] = at
        frame += 1


class Envelopes(NamedTuple):
    """What the envelopes of EVENT frames say; see `read_envelopes`."""

    firsts: Longs
    lasts: Longs
    trees: Ints
    epochs: Ints
    flags: Bytes
    plain: Mask


def envelopes_of(frames: Frames, publisher: int = -1) -> Envelopes:
    """Return the envelopes of EVENT frames, of this publisher alone unless it is negative."""
    count = len(frames)
    result = Envelopes(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.zeros(count, np.int32),
        np.zeros(count, np.int32),
        np.zeros(count, np.uint8),
        np.zeros(count, np.bool_),
    )
    read_envelopes(np.frombuffer(frames.data, np.uint8), frames.starts, frames.ends, publisher, *result)
    return result


def names_in(frames: Frames) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the publishers and numbers of EVENT frames, which must be long enough."""
    data = np.frombuffer(frames.data, np.uint8)
    places = frames.starts[:, None] + np.arange(_PUBLISHER, _PUBLISHER + 16)
    both = np.ascontiguousarray(data[places]).view("<u8")
    return both[:, 0], both[:, 1]


def epochs_of(frames: Frames) -> Ints:
    """Return the epochs of EVENT frames; 0 of those that are too short to have one."""
    data = np.frombuffer(frames.data, np.uint8)
    whole = frames.ends - frames.starts >= _HEAD
    at = np.where(whole, frames.starts, 0) + _EPOCH
    if not whole.any():
        return np.zeros(len(whole), np.int32)
    at = np.where(whole, at, at[np.argmax(whole)])
    return np.where(whole, data[at] | data[at + 1].astype(np.int32) << 8, 0).astype(np.int32)
