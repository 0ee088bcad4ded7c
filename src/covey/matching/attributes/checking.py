"""Whether bytes are packed events in their one form, so that everyone reads them alike.

Kernels that match trust what they read: an attribute that comes twice, or a text that is not UTF-8, means to them
something else than to whoever decodes the event. What comes from strangers is asked here first. An event that does not
pass need not be wrong: it may only be written in a way that is rare (more than MOST_NAMES attributes, integers beyond
64 bits, nested maps), and `core.packing.unpack` says what it is. A value that is neither number, string nor boolean is
in no event that may be published: such an event does not pass either.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from covey.matching.attributes.packed import OTHER, TEXT, WRONG, Bytes, PackedEvents, map_at, point_at
from covey.matching.jit import Longs, bytes_at, kernel, longs_at, part

MOST_NAMES: Final = 64  # they are compared with each other


@part
def _is_utf8(data: Bytes, first: int, last: int) -> bool:
    """Return whether bytes are well-formed: no surrogates, nothing longer than needed, nothing beyond 10FFFF."""
    at = first
    while at < last:
        head = np.int64(data[at])
        at += 1
        if head < 0x80:
            continue
        more, low, high = 0, 0x80, 0xBF
        if 0xC2 <= head <= 0xDF:
            more = 1
        elif 0xE0 <= head <= 0xEF:
            more = 2
            if head == 0xE0:
                low = 0xA0
            elif head == 0xED:
                high = 0x9F
        elif 0xF0 <= head <= 0xF4:
            more = 3
            if head == 0xF0:
                low = 0x90
            elif head == 0xF4:
                high = 0x8F
        else:
            return False
        if at + more > last:
            return False
        for _ in range(more):
            if not low <= data[at] <= high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True


@part
def _is_known(data: Bytes, names: Longs, count: int, first: int, last: int) -> bool:
    """Return whether a name is among those before it."""
    for k in range(count):
        begin = names[2 * k]
        if names[2 * k + 1] - begin == last - first:
            same = True
            for place in range(last - first):
                if data[begin + place] != data[first + place]:
                    same = False
                    break
            if same:
                return True
    return False


@part
def _is_packed(data: Bytes, first: int, end: int, names: Longs) -> bool:
    count, at = map_at(data, first, end)
    if count < 0 or count > MOST_NAMES:
        return False
    for k in range(count):
        begin = at
        kind, _, name_first, name_last, value_first, value_last, at = point_at(data, at, end)
        if kind == WRONG or kind == OTHER or begin == at or not _is_utf8(data, name_first, name_last):
            return False
        if kind == TEXT and not _is_utf8(data, value_first, value_last):
            return False
        # The head of a value follows its name; extensions are integers of many digits, or none at all.
        head = data[name_last]
        if 0xC7 <= head <= 0xC9 or 0xD4 <= head <= 0xD8:
            return False
        if _is_known(data, names, k, name_first, name_last):
            return False
        names[2 * k] = name_first
        names[2 * k + 1] = name_last
    return at == end


@kernel
def check_events(data: Bytes, firsts: Longs, lasts: Longs, names: Longs, passed: NDArray[np.bool_]) -> None:
    """Write for each event whether it is in its one form. `names` has room for two numbers a name."""
    bytes_, known = bytes_at(data.ctypes.data), longs_at(names.ctypes.data)
    for event in range(len(firsts)):
        passed[event] = _is_packed(bytes_, firsts[event], lasts[event], known)


def are_packed(events: PackedEvents) -> NDArray[np.bool_]:
    """Return for each event whether its bytes are a packed event in its one form; see the module's text."""
    passed = np.zeros(len(events), np.bool_)
    names: Longs = np.zeros(2 * MOST_NAMES, np.int64)
    check_events(events.data, events.firsts, events.lasts, names, passed)
    return passed
