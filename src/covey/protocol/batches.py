"""Frames that lie in one buffer, found by a compiled loop: what a broker reads, many frames at a time.

`Frames` is a sequence of frames as bytes, each with its kind first, for whoever takes them one by one. Whoever takes
many at once asks for `runs`: consecutive EVENT frames stay where they are, and only their places are told.


Events from the buffer that they came in to the chunks that go out, by compiled loops.

Offsets are those of an EVENT frame (`protocol.events`). A chunk is whole frames, each with its length; nothing of an
event is decoded, and only what a broker may change on the envelope is written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from covey.errors import ProtocolError
from covey.matching.jit import Ints, Longs, bytes_at, copy_bytes, kernel, longs_at, part
from covey.protocol.events import ATTRIBUTES, ENVELOPE, FAMILY_SHIFT, FLOODED
from covey.protocol.frames import LENGTH, MAX_GREETING, Kind, Splitter

Bytes = NDArray[np.uint8]

_AT_ONCE: Final = 1 << 14  # frames that are found by one call
_PING: Final = int(Kind.PING)
_PONG: Final = int(Kind.PONG)
_EVENT: Final = int(Kind.EVENT)


@kernel
def split_frames(
    data: Bytes, at: int, limit: int, starts: Longs, ends: Longs, kinds: Bytes
) -> tuple[int, int]:
    """Write where frames begin and end and of which kind they are, as many as there is room for.

    Return their number and where the first one that is not complete, or has no room, begins. A frame that is too long
    or empty has the number -1.
    """
    count = 0
    while len(data) - at >= 4 and count < len(starts):
        low = np.int64(data[at]) | np.int64(data[at + 1]) << 8
        length = int(low | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24)
        if length < 1 or length > limit:
            return -1, at
        last = at + 4 + length
        if last > len(data):
            break
        starts[count] = at + 4
        ends[count] = last
        kinds[count] = data[at + 4]
        count += 1
        at = last
    return count, at


class Frames(Sequence[bytes]):
    """Frames in one buffer; see the module's text."""

    __slots__ = ("data", "ends", "kinds", "starts")

    def __init__(self, data: bytes, starts: Longs, ends: Longs, kinds: Bytes) -> None:
        self.data = data
        self.starts, self.ends, self.kinds = starts, ends, kinds

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Frames: ...
    def __getitem__(self, index: int | slice) -> bytes | Frames:
        if isinstance(index, slice):
            return self.some(index)
        return self.data[self.starts[index] : self.ends[index]]

    def __iter__(self) -> Iterator[bytes]:
        data = self.data
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield data[start:end]

    def some(self, which: Any) -> Frames:
        """Return some of the frames, by their numbers, a mask or a slice."""
        return Frames(self.data, self.starts[which], self.ends[which], self.kinds[which])

    def runs(self) -> Iterator[Frames | bytes]:
        """Yield the frames in their order: those of a kind other than EVENT by themselves, EVENT frames in rows."""
        if not len(self):
            return
        others = np.flatnonzero(self.kinds != _EVENT).tolist()
        at = 0
        for place in others:
            if place > at:
                yield self.some(slice(at, place))
            yield self[place]
            at = place + 1
        if at < len(self):
            yield self.some(slice(at, len(self))) if at else self


def runs(frames: Sequence[bytes]) -> Iterable[Frames | bytes]:
    """Return the frames in their order, consecutive EVENT frames of a buffer in rows."""
    return frames.runs() if isinstance(frames, Frames) else frames


def size_of(frames: Sequence[bytes]) -> int:
    """Return how many bytes frames have together, without their lengths."""
    if isinstance(frames, Frames):
        return int((frames.ends - frames.starts).sum())
    return sum(map(len, frames))


class FastSplitter(Splitter):
    """A `Splitter` whose frames stay in their buffer."""

    # What a call finds is copied from here: all connections share it.
    _room: tuple[Longs, Longs, Bytes] = (
        np.zeros(_AT_ONCE, np.int64),
        np.zeros(_AT_ONCE, np.int64),
        np.zeros(_AT_ONCE, np.uint8),
    )

    def __init__(self, limit: int = MAX_GREETING) -> None:
        super().__init__(limit)

    def _cut(self, data: bytes) -> tuple[Sequence[bytes], int]:
        array, at = np.frombuffer(data, np.uint8), 0
        found: list[tuple[Longs, Longs, Bytes]] = []
        while True:
            count, at = split_frames(array, at, self.limit, *self._room)
            if count < 0:
                (length,) = LENGTH.unpack_from(data, at)
                raise ProtocolError(f"a frame of {length:,} bytes; from 1 to {self.limit:,} are allowed")
            starts, ends, kinds = self._room
            found.append((starts[:count].copy(), ends[:count].copy(), kinds[:count].copy()))
            if count < _AT_ONCE:
                break
        if len(found) == 1:
            return Frames(data, *found[0]), at
        starts, ends, kinds = (np.concatenate(some) for some in zip(*found, strict=True))
        return Frames(data, starts, ends, kinds), at

    def without_heartbeats(self, frames: Sequence[bytes]) -> tuple[Sequence[bytes], bool]:
        """Return the other frames, and whether there was a ping."""
        assert isinstance(frames, Frames), "they were found here"
        beats = (frames.kinds == _PING) | (frames.kinds == _PONG)
        if not beats.any():
            return frames, False
        return frames.some(~beats), bool((frames.kinds == _PING).any())


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
                sorted_sids[at:same] = np.sort(sorted_sids[at:same])
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
