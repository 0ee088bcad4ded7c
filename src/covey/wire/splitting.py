"""Frames that lie in one buffer, found by a compiled loop: what a broker reads, many frames at a time.

`Frames` is a sequence of frames as bytes, each with its kind first, for whoever takes them one by one. Whoever takes
many at once asks for `runs`: consecutive EVENT frames stay where they are, and only their places are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from covey.errors import ProtocolError
from covey.matching.jit import Longs, kernel
from covey.wire.frames import LENGTH, MAX_GREETING, Kind, Splitter

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


def places_of(frames: Sequence[bytes], kind: int) -> list[int]:
    """Return the numbers of the frames of a kind."""
    if isinstance(frames, Frames):
        return np.flatnonzero(frames.kinds == kind).tolist()
    return [place for place, one in enumerate(frames) if one[0] == kind]


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
