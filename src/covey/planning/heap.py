"""A binary heap of (key, item) in two flat arrays, for kernels; equal keys come out smaller item first.

The caller keeps the size and gives arrays that are large enough: `shortest` needs one place for each end of a link
and one more for the root, because what has found a better key stays in the heap and is skipped when it comes out.
"""

from __future__ import annotations

from covey.matching.jit import Floats, Ints, called


@called
def push(keys: Floats, items: Ints, size: int, key: float, item: int) -> int:
    """Add an item and return the new size."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if keys[above] < key or (keys[above] == key and items[above] <= item):
            break
        keys[place] = keys[above]
        items[place] = items[above]
        place = above
    keys[place] = key
    items[place] = item
    return size + 1


@called
def drop(keys: Floats, items: Ints, size: int) -> int:
    """Remove the first item, which stands at place 0, and return the new size."""
    size -= 1
    key, item = keys[size], items[size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        right = below + 1
        if right < size and (
            keys[right] < keys[below] or (keys[right] == keys[below] and items[right] < items[below])
        ):
            below = right
        if key < keys[below] or (key == keys[below] and item <= items[below]):
            break
        keys[place] = keys[below]
        items[place] = items[below]
        place = below
    keys[place] = key
    items[place] = item
    return size
