"""The links of a tree as bytes: a bit for each link of the overlay, in the order of their numbers.

Tables of trees hold them so: a tree of an overlay of m links takes m / 8 bytes, and Spark moves them as one value,
where it would touch each number of a list.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from covey.matching.jit import Ints


def bits_of(links: ArrayLike, count: int) -> bytes:
    """Return links as bits, of an overlay of so many; link 0 is the lowest bit of the first byte."""
    chosen = np.zeros(count, np.bool_)
    chosen[np.asarray(links, np.int64)] = True
    return np.packbits(chosen, bitorder="little").tobytes()


def links_of(bits: bytes) -> Ints:
    """Return the links whose bits are set, sorted."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")).astype(np.int32)
