"""Compiled loops of grouping: signatures, neighbours, and both agglomerations.

Rows are document sets: row r has documents[offsets[r] : offsets[r + 1]], sorted. What is merged keeps the smaller
number. A measure of likeness is a number here: 0 is Jaccard's, 1 the overlap over the smaller set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Floats, Ints, Longs, called, kernel, part
from covey.planning.graph import Mask
from covey.planning.heap import drop, push

Words = NDArray[np.uint64]
Signatures = NDArray[np.uint32]


@part
def _likeness(common: float, first: float, second: float, measure: int) -> float:
    """Return how alike two sets are by the sizes of both and of what is common."""
    if common <= 0.0:
        return 0.0
    if measure == 0:
        return common / (first + second - common)
    return common / min(first, second)


@part
def _ones(word: Any) -> Any:
    """Return how many bits of an unsigned 64-bit word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@called
def _best_after(bits: Words, sizes: Floats, alive: Mask, row: int, measure: int) -> tuple[int, float]:
    """Return the living row after this one that is most like it, the first of equals; -1 if none is at all."""
    best, found = -1, 0.0
    for other in range(row + 1, len(bits)):
        if alive[other]:
            common = np.uint64(0)
            for word in range(bits.shape[1]):
                common += _ones(bits[row, word] & bits[other, word])
            near = _likeness(float(common), sizes[row], sizes[other], measure)
            if near > found:
                best, found = other, near
    return best, found


@kernel
def agglomerate_exactly(bits: Words, measure: int, fewest: int, merges: Ints, heights: Floats) -> int:
    """Merge the two most alike rows, smaller numbers first among equals, until no two are alike at all or `fewest` are
    left; write (kept, gone) and the likeness of each merge and return how many were made. `bits` is used up."""
    count = len(bits)
    sizes = np.zeros(count)
    alive = np.ones(count, np.bool_)
    nearest = np.empty(count, np.int32)
    near = np.zeros(count)
    for row in range(count):
        for word in range(bits.shape[1]):
            sizes[row] += float(_ones(bits[row, word]))
    for row in range(count):
        nearest[row], near[row] = _best_after(bits, sizes, alive, row, measure)
    made = 0
    while count - made > fewest:
        kept = -1
        best = 0.0
        for row in range(count):
            if alive[row] and near[row] > best:
                kept, best = row, near[row]
        if kept < 0:
            break
        gone = nearest[kept]
        merges[made, 0] = kept
        merges[made, 1] = gone
        heights[made] = best
        made += 1
        alive[gone] = False
        sizes[kept] = 0.0
        for word in range(bits.shape[1]):
            bits[kept, word] |= bits[gone, word]
            sizes[kept] += float(_ones(bits[kept, word]))
        nearest[kept], near[kept] = _best_after(bits, sizes, alive, kept, measure)
        for row in range(gone):
            if not alive[row] or row == kept:
                continue
            if nearest[row] == gone or nearest[row] == kept:
                nearest[row], near[row] = _best_after(bits, sizes, alive, row, measure)
            elif row < kept:
                common = np.uint64(0)
                for word in range(bits.shape[1]):
                    common += _ones(bits[row, word] & bits[kept, word])
                now = _likeness(float(common), sizes[row], sizes[kept], measure)
                if now > near[row] or (now == near[row] and now > 0.0 and kept < nearest[row]):
                    nearest[row], near[row] = kept, now
    return made


@kernel
def bit_sets(offsets: Longs, documents: Ints, bits: Words) -> None:
    """Set the bit of each document in each row; `bits` comes in as zeros."""
    for row in range(len(offsets) - 1):
        for place in range(offsets[row], offsets[row + 1]):
            bits[row, documents[place] >> 6] |= np.uint64(1) << np.uint64(documents[place] & 63)


@kernel
def sign(offsets: Longs, documents: Ints, hashes: Signatures, signatures: Signatures) -> None:
    """Write the least hash of each row's documents, for each of the hash functions."""
    for row in range(len(offsets) - 1):
        mine = signatures[row]
        mine[:] = 0xFFFFFFFF
        for place in range(offsets[row], offsets[row + 1]):
            of = hashes[documents[place]]
            for at in range(len(mine)):
                mine[at] = min(mine[at], of[at])


@kernel
def nearest_rows(
    offsets: Longs,
    documents: Ints,
    row_offsets: Longs,
    rows: Ints,
    most_matches: int,
    measure: int,
    neighbours: Ints,
    near: Floats,
) -> None:
    """Write for each row the rows most like it, -1 for none, counted exactly through the rows of each document.

    Documents in more than `most_matches` rows are not counted: they say little and cost most.
    """
    count = len(offsets) - 1
    width = neighbours.shape[1]
    common = np.zeros(count, np.int32)
    touched = np.empty(count, np.int32)
    for row in range(count):
        found = 0
        for place in range(offsets[row], offsets[row + 1]):
            document = documents[place]
            first, last = row_offsets[document], row_offsets[document + 1]
            if last - first > most_matches:
                continue
            for at in range(first, last):
                other = rows[at]
                if common[other] == 0:
                    touched[found] = other
                    found += 1
                common[other] += 1
        kept = 0
        size = float(offsets[row + 1] - offsets[row])
        for at in range(found):
            other = touched[at]
            like = _likeness(
                float(common[other]),
                size,
                float(offsets[other + 1] - offsets[other]),
                measure,
            )
            common[other] = 0
            if other == row or (
                kept == width
                and (
                    like < near[row, kept - 1]
                    or (like == near[row, kept - 1] and other > neighbours[row, kept - 1])
                )
            ):
                continue
            place = min(kept, width - 1)
            while place > 0 and (
                near[row, place - 1] < like
                or (near[row, place - 1] == like and neighbours[row, place - 1] > other)
            ):
                near[row, place] = near[row, place - 1]
                neighbours[row, place] = neighbours[row, place - 1]
                place -= 1
            near[row, place] = like
            neighbours[row, place] = other
            kept = min(kept + 1, width)
        for at in range(kept, width):
            neighbours[row, at] = -1
            near[row, at] = 0.0


@part
def _root(above: Ints, row: int) -> int:
    """Return the row into which this one was merged in the end; paths are halved on the way."""
    while above[row] != row:
        above[row] = above[above[row]]
        row = above[row]
    return row


@called
def _estimate(
    signatures: Signatures, sizes: Floats, first: int, second: int, measure: int
) -> tuple[float, float]:
    """Return how alike two rows are and how many documents are common to them, both estimated by signatures."""
    same = 0
    for at in range(signatures.shape[1]):
        same += signatures[first, at] == signatures[second, at]
    share = same / signatures.shape[1]
    common = min(
        share * (sizes[first] + sizes[second]) / (1.0 + share),
        min(sizes[first], sizes[second]),
    )
    return _likeness(common, sizes[first], sizes[second], measure), common


@kernel
def agglomerate_roughly(
    signatures: Signatures,
    sizes: Floats,
    neighbours: Ints,
    near: Floats,
    measure: int,
    fewest: int,
    merges: Ints,
    heights: Floats,
) -> int:
    """Merge like `agglomerate_exactly`, among neighbours only, by estimates; all but both last arguments is used up.

    The signature of a union is the least of both, its neighbours are those of both. An entry of the heap counts only
    if neither row changed since it was made; among equals the entry made first comes first.
    """
    count, width = neighbours.shape
    most = 3 * count * width + 1  # what comes in, and at most twice the width for each merge
    keys = np.empty(most, np.float64)
    items = np.empty(most, np.int32)
    pairs = np.empty((most, 4), np.int32)  # two rows, and which version of each is meant
    version = np.zeros(count, np.int32)
    above = np.arange(count).astype(np.int32)
    seen = np.full(count, -1, np.int32)
    both = np.empty(2 * width, np.int32)
    like = np.empty(2 * width, np.float64)
    size = 0
    entries = 0
    for row in range(count):
        for at in range(width):
            other = neighbours[row, at]
            if other < 0:
                break
            # Both may name each other: the pair is entered once, by the smaller.
            if other < row:
                named = False
                for back in range(width):
                    named = named or neighbours[other, back] == row
                if named:
                    continue
            pairs[entries, 0], pairs[entries, 1] = row, other
            pairs[entries, 2], pairs[entries, 3] = 0, 0
            size = push(keys, items, size, -near[row, at], entries)
            entries += 1
    made = 0
    while size > 0 and count - made > fewest:
        entry, height = items[0], -keys[0]
        size = drop(keys, items, size)
        first, second = pairs[entry, 0], pairs[entry, 1]
        if version[first] != pairs[entry, 2] or version[second] != pairs[entry, 3]:
            continue
        if height <= 0.0:
            break
        kept, gone = min(first, second), max(first, second)
        merges[made, 0] = kept
        merges[made, 1] = gone
        heights[made] = height
        made += 1
        _, common = _estimate(signatures, sizes, kept, gone, measure)
        sizes[kept] = sizes[kept] + sizes[gone] - common
        for at in range(signatures.shape[1]):
            signatures[kept, at] = min(signatures[kept, at], signatures[gone, at])
        version[kept] += 1
        version[gone] = -1
        above[gone] = kept
        found = 0
        seen[kept] = made
        for source in (kept, gone):
            for at in range(width):
                if neighbours[source, at] < 0:
                    break
                other = _root(above, neighbours[source, at])
                if seen[other] != made:
                    seen[other] = made
                    now, _ = _estimate(signatures, sizes, kept, other, measure)
                    place = found
                    while place > 0 and (
                        like[place - 1] < now or (like[place - 1] == now and both[place - 1] > other)
                    ):
                        like[place] = like[place - 1]
                        both[place] = both[place - 1]
                        place -= 1
                    like[place] = now
                    both[place] = other
                    found += 1
        for at in range(width):
            neighbours[kept, at] = both[at] if at < found else -1
        for at in range(found):
            if like[at] > 0.0:
                pairs[entries, 0], pairs[entries, 1] = kept, both[at]
                pairs[entries, 2], pairs[entries, 3] = version[kept], version[both[at]]
                size = push(keys, items, size, -like[at], entries)
                entries += 1
    return made
