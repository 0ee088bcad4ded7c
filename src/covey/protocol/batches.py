"""Frames that lie in one buffer, found by a compiled loop: what a broker reads, many frames at a time.

`Frames` is a sequence of frames as bytes, each with its kind first, for whoever takes them one by one. The fast path
takes them where they lie (`matching.relay`), by the address of the buffer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

from covey.errors import ProtocolError
from covey.matching.jit import address_of_bytes, bytes_at, kernel
from covey.protocol.frames import LENGTH, MAX_GREETING, Kind, Splitter, framed

MOST_SIDS: Final = 65_535  # in one DELIVERY: their count is a u16

_OTHER: Final = 63  # the bit of kinds that are no less
_ANY_LENGTH: Final = (1 << 32) - 1
_HEARTBEATS: Final = 1 << Kind.PING | 1 << Kind.PONG

_new_bytes: Final = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.restype = ctypes.py_object
_new_bytes.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]


def new_bytes(size: int) -> bytes:
    """Return bytes that are still to be written, once, at their address, before anybody else sees them."""
    data: bytes = _new_bytes(None, size)
    return data


@kernel
def scan_frames(address: int, at: int, end: int, limit: int) -> tuple[int, int, int]:
    """Return how many complete frames there are, where the first one that is not begins, and a bit for each kind.

    The number is -1, and the place that of the frame, if there is one that is too long or empty.
    """
    data = bytes_at(address)
    count, kinds = 0, 0
    while end - at >= 4:
        length = int(data[at]) | int(data[at + 1]) << 8 | int(data[at + 2]) << 16 | int(data[at + 3]) << 24
        if length < 1 or length > limit:
            return -1, at, kinds
        last = at + 4 + length
        if last > end:
            break
        kinds |= 1 << min(int(data[at + 4]), _OTHER)
        count += 1
        at = last
    return count, at, kinds


class Frames(Sequence[bytes]):
    """Complete frames in one buffer, from `at` to `end`; see the module's text."""

    # `number` and `size` are there beside `len` because calls cost as much as all else that is done with one frame.
    __slots__ = ("address", "at", "data", "end", "kinds", "number", "size")

    def __init__(self, data: bytes, address: int, at: int, end: int, count: int, kinds: int) -> None:
        self.data = data
        self.address = address
        self.at, self.end = at, end
        self.number, self.kinds = count, kinds  # of kinds, a bit for each that there is
        self.size = end - at - LENGTH.size * count  # bytes that they have together, without their lengths

    @classmethod
    def of(cls, frames: Iterable[bytes]) -> Frames:
        """Return frames, each with its kind first, in one buffer: themselves if they are in one."""
        if isinstance(frames, Frames):
            return frames
        data = b"".join([framed(one) for one in frames])
        address = address_of_bytes(data)
        count, end, kinds = scan_frames(address, 0, len(data), _ANY_LENGTH)
        return cls(data, address, 0, end, count, kinds)

    def __len__(self) -> int:
        return self.number

    def has_only(self, kind: int) -> bool:
        """Return whether there are no frames but of that kind."""
        return self.kinds == 1 << kind

    def outlines(self) -> Iterator[tuple[int, int]]:
        """Yield the kind and the length of each frame."""
        at = self.at
        while at < self.end:
            (length,) = LENGTH.unpack_from(self.data, at)
            yield self.data[at + LENGTH.size], length
            at += LENGTH.size + length

    def rest(self, at: int) -> Frames:
        """Return the frames from a place on, where one begins."""
        count, place = 0, at
        while place < self.end:
            place += LENGTH.size + LENGTH.unpack_from(self.data, place)[0]
            count += 1
        return Frames(self.data, self.address, at, self.end, count, self.kinds)

    def split(self, count: int) -> tuple[Frames, Frames]:
        """Return the first frames, so many, and the others."""
        at = self.at
        for _ in range(count):
            at += LENGTH.size + LENGTH.unpack_from(self.data, at)[0]
        first = Frames(self.data, self.address, self.at, at, count, self.kinds)
        return first, Frames(self.data, self.address, at, self.end, self.number - count, self.kinds)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return list(self)[index]

    def __iter__(self) -> Iterator[bytes]:
        at = self.at
        while at < self.end:
            first = at + LENGTH.size
            at = first + LENGTH.unpack_from(self.data, at)[0]
            yield self.data[first:at]


def size_of(frames: Sequence[bytes]) -> int:
    """Return how many bytes frames have together, without their lengths."""
    return frames.size if isinstance(frames, Frames) else sum(map(len, frames))


class FastSplitter(Splitter):
    """A `Splitter` whose frames stay in their buffer."""

    def __init__(self, limit: int = MAX_GREETING) -> None:
        super().__init__(limit)

    def take(self, data: bytes) -> tuple[Sequence[bytes], bool]:
        """Return the frames that are complete with these bytes but for heartbeats, and whether there was a ping."""
        frames = self.feed(data)
        if type(frames) is Frames and not frames.kinds & _HEARTBEATS:  # as most are
            return frames, False
        return self.without_heartbeats(frames)

    def _cut(self, data: bytes) -> tuple[Sequence[bytes], int]:
        data = bytes(data)  # itself, unless it is another buffer
        address = address_of_bytes(data)
        count, at, kinds = scan_frames(address, 0, len(data), self.limit)
        if count < 0:
            (length,) = LENGTH.unpack_from(data, at)
            raise ProtocolError(f"a frame of {length:,} bytes; from 1 to {self.limit:,} are allowed")
        return Frames(data, address, 0, at, count, kinds), at

    def without_heartbeats(self, frames: Sequence[bytes]) -> tuple[Sequence[bytes], bool]:
        """Return the other frames, and whether there was a ping."""
        if not isinstance(frames, Frames) or not frames.kinds & _HEARTBEATS:
            return frames, False
        others, is_pinged = super().without_heartbeats(list(frames))
        return Frames.of(others), is_pinged
