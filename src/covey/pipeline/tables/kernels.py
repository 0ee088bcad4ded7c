"""Reading the wire forms of attribute filters in compiled code: what many have in common, and their one interval.

A *box* here is a filter of one conjunction whose sides are single values, but for one interval of numbers at most:

    b"A"  91  92|94|…  name side name side …        side: a scalar, or 93 low high sides

(`core/attributes/wire.py`). Two boxes that are equal without their intervals are of one *run*; of those, one covers
the other if its interval contains the other's. Boxes of one *shape*, the same names and the interval at the same one,
cover each other only within a run. Anything else (lists, patterns, several conjunctions) is no box.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Floats, Ints, Longs, called, float_bits, kernel, part

Bytes = NDArray[Any]
Flags = NDArray[np.bool_]

# Cuts before and after all others, and none.
LOWEST: Final = -(2**62) - 2**61 - 1
HIGHEST: Final = 2**62 + 2**61 + 1
NO_CUT: Final = 2**62 + 2**61 + 2

_EXACT = 1 << 53  # integers up to here are floats, exactly
_SEED = -3750763034362895579  # FNV's, as are the primes below
_PRIME = 1099511628211


@part
def byte(data: Bytes, place: int) -> int:
    """Return a byte as a signed number: of an unsigned and a signed one the sum would be a float."""
    return np.int64(data[place])  # type: ignore[return-value]


@called
def skip(data: Bytes, place: int, end: int) -> int:
    """Return where the scalar at `place` ends, -1 if it is none that a side may be, or runs over the end."""
    code = byte(data, place)
    if 0xA0 <= code <= 0xBF:
        place += 1 + (code & 31)
    elif code < 0x80 or code >= 0xE0 or code == 0xC2 or code == 0xC3:
        place += 1
    elif code == 0xD9 and place + 1 < end:
        place += 2 + byte(data, place + 1)
    elif code == 0xDA and place + 2 < end:
        place += 3 + (byte(data, place + 1) << 8 | byte(data, place + 2))
    elif code == 0xCC or code == 0xD0:
        place += 2
    elif code == 0xCD or code == 0xD1:
        place += 3
    elif code == 0xCE or code == 0xD2:
        place += 5
    elif code == 0xCB or code == 0xCF or code == 0xD3:
        place += 9
    else:
        return -1
    return place if place <= end else -1


@called
def integer(data: Bytes, place: int) -> tuple[int, bool]:
    """Return the integer at `place`, which `skip` has passed, and whether it is one."""
    code = byte(data, place)
    if code < 0x80:
        return code, True
    if code >= 0xE0:
        return code - 256, True
    size = 0
    if code == 0xCC or code == 0xD0:
        size = 1
    elif code == 0xCD or code == 0xD1:
        size = 2
    elif code == 0xCE or code == 0xD2:
        size = 4
    elif code == 0xCF or code == 0xD3:
        size = 8
    else:
        return 0, False
    value = byte(data, place + 1)
    if code >= 0xD0 and value >= 128:
        value -= 256
    for k in range(1, size):
        value = value << 8 | byte(data, place + 1 + k)
    # An unsigned one beyond 2⁶³ has become negative: it is out of bounds either way.
    return value, not (code == 0xCF and value < 0)


@part
def cut(value: float, side: int) -> int:
    """Return a number that stands for a cut before (0) or after (1) a value, ordered as cuts are; NO_CUT if none does.

    Twice the bits of a float64 take 65: the smallest and the largest exponents are left out.
    """
    if value == 0.0:
        return side
    bits: int = float_bits(abs(value))
    exponent = bits >> 52
    if exponent < 640 or exponent > 1406:
        return NO_CUT
    place = bits - (639 << 52)
    return (place if value > 0 else -place) * 2 + side


@kernel
def scan(
    data: Bytes,
    offsets: Ints,
    seeds: Longs,
    scratch: Bytes,
    number: Floats,
    runs: Longs,
    shapes: Longs,
    lows: Longs,
    highs: Longs,
    holes: Ints,
) -> None:
    """Read each wire form data[offsets[i] : offsets[i + 1]].

    runs, shapes  digests of what its run (with its seed, whatever that stands for) and its shape have in common;
                  shapes 0: it is no box
    lows, highs   the cuts at the ends of its interval; 0 if it has none
    holes         two places for each form, where the interval is, from the form's beginning

    `number` is one float64 and `scratch` its eight bytes.
    """
    for row in range(len(offsets) - 1):
        start, end = int(offsets[row]), int(offsets[row + 1])
        runs[row], shapes[row], lows[row], highs[row] = 0, 0, 0, 0
        holes[2 * row] = holes[2 * row + 1] = 0
        if end - start < 5 or data[start] != 0x41 or data[start + 1] != 0x91:
            continue
        head = byte(data, start + 2)
        if head < 0x92 or head > 0x9E or head & 1:
            continue
        run, shape = (seeds[row] ^ _SEED) * _PRIME, _SEED
        place = start + 3
        for side in range((head & 15) >> 1):
            name_end = skip(data, place, end) if place < end else -1
            if name_end < 0 or name_end >= end:
                place = -1
                break
            for k in range(place, name_end):
                run = (run ^ byte(data, k)) * _PRIME
                shape = (shape ^ byte(data, k)) * _PRIME
            place = name_end
            if data[place] == 0x93:
                hole = place
                place = (
                    interval(data, place, end, scratch, number, row, lows, highs)
                    if not holes[2 * row]
                    else -1
                )
                if place < 0:
                    break
                holes[2 * row], holes[2 * row + 1] = hole - start, place - start
                run = (run ^ 0x1FF) * _PRIME
                shape = (shape ^ (0x1FF + side)) * _PRIME
            else:
                stop = skip(data, place, end)
                if stop < 0:
                    place = -1
                    break
                for k in range(place, stop):
                    run = (run ^ byte(data, k)) * _PRIME
                place = stop
        if place == end:
            runs[row] = run ^ (run >> 29)
            shapes[row] = shape if shape else 1


@called
def interval(
    data: Bytes, place: int, end: int, scratch: Bytes, number: Floats, row: int, lows: Longs, highs: Longs
) -> int:
    """Read the cuts of the interval at `place`; return where it ends, -1 if cuts cannot stand for it."""
    place += 1
    values = (0.0, 0.0)
    bounded = (False, False)
    for which in range(2):
        if place >= end:
            return -1
        value, has_end = 0.0, data[place] != 0xC0
        if not has_end:
            place += 1
        else:
            stop = skip(data, place, end)
            if stop < 0:
                return -1
            if data[place] == 0xCB:
                for k in range(8):
                    scratch[7 - k] = data[place + 1 + k]
                value = number[0]
            else:
                whole, is_integer = integer(data, place)
                if not is_integer or whole > _EXACT or whole < -_EXACT:
                    return -1
                value = float(whole)
            place = stop
        values = (value, 0.0) if which == 0 else (values[0], value)
        bounded = (has_end, False) if which == 0 else (bounded[0], has_end)
    if place >= end or data[place] > 3:
        return -1
    sides = byte(data, place)
    lows[row] = cut(values[0], sides & 1) if bounded[0] else LOWEST
    highs[row] = cut(values[1], sides >> 1) if bounded[1] else HIGHEST
    return -1 if lows[row] == NO_CUT or highs[row] == NO_CUT else place + 1


@part
def same_rest(data: Bytes, offsets: Ints, holes: Ints, a: int, b: int) -> bool:
    """Return whether two wire forms are equal but for their intervals."""
    start_a, start_b = offsets[a], offsets[b]
    before, cut_a, cut_b = holes[2 * a], holes[2 * a + 1], holes[2 * b + 1]
    rest = offsets[a + 1] - start_a - cut_a
    if before != holes[2 * b] or rest != offsets[b + 1] - start_b - cut_b:
        return False
    for k in range(before):
        if data[start_a + k] != data[start_b + k]:
            return False
    for k in range(rest):  # noqa: SIM110 (kernels have no generators)
        if data[start_a + cut_a + k] != data[start_b + cut_b + k]:
            return False
    return True


@kernel
def number_runs(
    data: Bytes, offsets: Ints, holes: Ints, seeds: Longs, runs: Longs, order: Longs, numbers: Longs
) -> int:
    """Number the runs of the rows in `order`, which has equal digests side by side; return how many there are.

    Rows with one digest that are not of one run are given the numbers of several: a run may so be broken, never joined.
    """
    number = -1
    head = -1
    for place in range(len(order)):
        row = order[place]
        same = head >= 0 and runs[row] == runs[head] and seeds[row] == seeds[head]
        if not (same and same_rest(data, offsets, holes, row, head)):
            number += 1
            head = row
        numbers[place] = number
    return number + 1


@kernel
def sweep(numbers: Longs, rows: Longs, lows: Longs, highs: Longs, kept: Flags) -> None:
    """Say which rows no other one of their run covers; of equal ones all.

    They are in the order of their runs' numbers, and in each run of their intervals' beginnings.
    """
    number, reach, start = -1, LOWEST, 0
    while start < len(rows):
        is_first = numbers[start] != number
        number, low = numbers[start], lows[rows[start]]
        stop, furthest = start, LOWEST
        while stop < len(rows) and numbers[stop] == number and lows[rows[stop]] == low:
            furthest = max(furthest, highs[rows[stop]])
            stop += 1
        for row in rows[start:stop]:
            kept[row] = highs[row] == furthest and (is_first or furthest > reach)
        reach = furthest if is_first else max(reach, furthest)
        start = stop


@kernel
def join(numbers: Longs, rows: Longs, lows: Longs, highs: Longs, far: Longs) -> None:
    """Join the intervals of each run that together are one: far[row] is the row with the end of what begins with `row`.

    It is -1 for rows that something else begins before; rows that are not among `rows` are left as they are. The order
    is that of `sweep`.
    """
    head = -1
    for place in range(len(rows)):
        row = rows[place]
        if head < 0 or numbers[place] != numbers[place - 1] or lows[row] > highs[far[head]]:
            head = row
            far[head] = row
        else:
            far[row] = -1
            if highs[row] > highs[far[head]]:
                far[head] = row


@kernel
def uncovered_in_order(run: Longs, high: Longs, kept: Flags) -> None:
    """Say which of distinct boxes, in their order, no earlier one of their run covers; -1 is the run of those alone."""
    reach = 0
    for k in range(len(run)):
        if run[k] < 0 or k == 0 or run[k] != run[k - 1]:
            kept[k], reach = True, high[k]
        else:
            kept[k] = high[k] > reach
            reach = max(reach, high[k])
