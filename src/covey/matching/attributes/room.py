"""Room: the heap's array of words, which grows without being copied once it is large.

A heap of megabytes that is copied to a larger one takes ten milliseconds, in which a broker handles no event. So beyond
MAPPED_BYTES the array is memory of the system's own, to which the system adds pages: where they lie in the machine
stays, and at most their addresses change. Where the system cannot do that (only Linux can), the array is copied.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from typing import Final

import numpy as np

from covey.matching.jit import Longs

MAPPED_BYTES: Final = 1 << 18  # less is copied in no time, and there may be very many small indexes
_WORD: Final = 8
_CAN_MAP: Final = sys.platform == "linux"


def _filled(shape: tuple[int, ...], fill: float, dtype: type) -> np.ndarray:
    return np.zeros(shape, dtype) if fill == 0 else np.full(shape, fill, dtype)


def grown(array: np.ndarray, length: int, fill: float = 0) -> np.ndarray:
    """Return the array with room for at least `length` rows: itself, or a copy with half as many again as before."""
    if length <= len(array):
        return array
    size = max(length, len(array) + min(len(array), 2**20) // 2 + 16)
    larger = _filled((size, *array.shape[1:]), fill, array.dtype.type)
    larger[: len(array)] = array
    return larger


class Room:
    """An array of words, `array`, which is replaced when it grows: views of it must not be kept."""

    def __init__(self, array: Longs) -> None:
        self.array = array
        self._mapped: mmap.mmap | None = None

    def grow(self, length: int) -> None:
        """Make the array so long at least; new words are zero."""
        old = len(self.array)
        if length <= old:
            return
        size = max(length, old + min(old, 2**20) // 2 + 16)
        if self._mapped is None or not self._extend(self._mapped, size):
            self._copy(size)

    def _extend(self, mapped: mmap.mmap, size: int) -> bool:
        """Add pages to the array; return whether that was possible."""
        self.array = self.array[:0].copy()  # nothing may refer to the memory while it moves
        with contextlib.suppress(
            BufferError, OSError, SystemError, ValueError
        ):  # somebody does; or there are no pages
            mapped.resize(size * _WORD)
        self.array = np.frombuffer(mapped, np.int64)
        return len(self.array) >= size

    def _copy(self, size: int) -> None:
        old, self._mapped = self.array, None
        if _CAN_MAP and size * _WORD >= MAPPED_BYTES:
            self._mapped = mmap.mmap(-1, size * _WORD, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.array = np.frombuffer(self._mapped, np.int64)
        else:
            self.array = np.zeros(size, np.int64)
        self.array[: len(old)] = old
