"""Sets over an ordered domain, as tuples of cuts.

A cut is a place between values. A set is a strictly increasing tuple of an even number of cuts: (b0, b1, b2,
b3) holds what lies between b0 and b1 and between b2 and b3. Each set has exactly one such form, so equal sets
are equal tuples, and all of the algebra is merging sorted tuples.

    number cut (value, side)   side 0 is just before the value, side 1 just after it; numbers count as dense
    string cut (0, text)       just before the string `text`; just after it is (0, text + NUL)
    string cut (1, "")         after all strings

A value is in the set when an odd number of cuts lies before it: one bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, TypeVar

Number = int | float
NumberCut = tuple[Number, int]
StringCut = tuple[int, str]
NumberCuts = tuple[NumberCut, ...]
StringCuts = tuple[StringCut, ...]
Cut = TypeVar("Cut", NumberCut, StringCut)

NUMBER_BOTTOM: Final[NumberCut] = (float("-inf"), 0)
NUMBER_TOP: Final[NumberCut] = (float("inf"), 1)
ALL_NUMBERS: Final[NumberCuts] = (NUMBER_BOTTOM, NUMBER_TOP)
STRING_BOTTOM: Final[StringCut] = (0, "")
STRING_TOP: Final[StringCut] = (1, "")
ALL_STRINGS: Final[StringCuts] = (STRING_BOTTOM, STRING_TOP)

# The most intervals that one attribute's numbers or strings may consist of.
MAX_INTERVALS: Final = 1_024

# Truth tables: bit (2 * in_a + in_b) says whether such a place belongs to the result.
_UNION: Final = 0b1110
_INTERSECTION: Final = 0b1000
_DIFFERENCE: Final = 0b0100

_LAST_CODE_POINT: Final = 0x10FFFF
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000


def union(a: tuple[Cut, ...], b: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """Return the set of what is in `a` or in `b`."""
    if not a or a == b:
        return b
    if not b:
        return a
    return _combine(a, b, _UNION)


def intersect(a: tuple[Cut, ...], b: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """Return the set of what is in both `a` and `b`."""
    if not a or not b:
        return ()
    if len(a) == 2 and len(b) == 2:
        low = a[0] if a[0] > b[0] else b[0]
        high = a[1] if a[1] < b[1] else b[1]
        return (low, high) if low < high else ()
    return _combine(a, b, _INTERSECTION)


def difference(a: tuple[Cut, ...], b: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """Return the set of what is in `a` and not in `b`."""
    if not a or not b:
        return a
    return _combine(a, b, _DIFFERENCE)


def complement(a: tuple[Cut, ...], bottom: Cut, top: Cut) -> tuple[Cut, ...]:
    """Return what lies between `bottom` and `top` and not in `a`, which must lie between them."""
    return difference((bottom, top), a)


def _combine(a: tuple[Cut, ...], b: tuple[Cut, ...], table: int) -> tuple[Cut, ...]:
    result: list[Cut] = []
    i = j = 0
    inside = False
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] <= b[j]):
            cut = a[i]
            if j < len(b) and b[j] == cut:
                j += 1
            i += 1
        else:
            cut = b[j]
            j += 1
        if bool(table >> (2 * (i & 1) + (j & 1)) & 1) != inside:
            result.append(cut)
            inside = not inside
    return tuple(result)


def contains_set(a: tuple[Cut, ...], b: tuple[Cut, ...]) -> bool:
    """Return whether `b` is a subset of `a`."""
    if len(a) == 2 and b:
        return a[0] <= b[0] and b[-1] <= a[1]
    for k in range(0, len(b), 2):
        place = bisect_right(a, b[k])
        if not place & 1 or a[place] < b[k + 1]:
            return False
    return True


def intersects(a: tuple[Cut, ...], b: tuple[Cut, ...]) -> bool:
    """Return whether a value can be in both sets."""
    if len(a) == 2 and len(b) == 2:
        return a[0] < b[1] and b[0] < a[1]
    if len(a) < len(b):
        a, b = b, a
    for k in range(0, len(b), 2):
        place = bisect_right(a, b[k])
        if place & 1 or (place < len(a) and a[place] < b[k + 1]):
            return True
    return False


def contains_number(cuts: NumberCuts, value: Number) -> bool:
    """Return whether the number is in the set; NaN never is."""
    return bisect_right(cuts, (value, 0)) & 1 == 1


def contains_string(cuts: StringCuts, value: str) -> bool:
    """Return whether the string is in the set."""
    return bisect_right(cuts, (0, value)) & 1 == 1


def number_points(values: Iterable[Number]) -> NumberCuts:
    """Return the set of exactly these numbers."""
    return tuple((value, side) for value in sorted(set(values)) for side in (0, 1))


def string_points(values: Iterable[str]) -> StringCuts:
    """Return the set of exactly these strings."""
    result: StringCuts = ()
    ordered = sorted(set(values))
    if all(ordered[k] + "\0" != ordered[k + 1] for k in range(len(ordered) - 1)):
        return tuple(cut for value in ordered for cut in ((0, value), (0, value + "\0")))
    for value in ordered:
        result = union(result, ((0, value), (0, value + "\0")))
    return result


def is_string_point(low: StringCut, high: StringCut) -> bool:
    """Return whether the interval between the cuts holds one string only."""
    return high[0] == 0 and high[1] == low[1] + "\0"


def intervals(cuts: tuple[Cut, ...]) -> Iterable[tuple[Cut, Cut]]:
    """Return the pairs of cuts that bound the set's intervals."""
    return zip(cuts[::2], cuts[1::2], strict=True)


def after_prefix(prefix: str) -> StringCut:
    """Return the cut after all strings that begin with `prefix`.

    It lies before the prefix with its last code point raised by one; a last code point that cannot be raised
    is dropped. Surrogates are skipped, because a filter must be encodable: an event's lone surrogates
    therefore count as if they began with U+D7FF.
    """
    stem = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not stem:
        return STRING_TOP
    raised = ord(stem[-1]) + 1
    if raised == _FIRST_SURROGATE:
        raised = _AFTER_SURROGATES
    return (0, stem[:-1] + chr(raised))


def prefix_interval(prefix: str) -> StringCuts:
    """Return the set of all strings that begin with `prefix`."""
    return ((0, prefix), after_prefix(prefix))


def common_prefix(low: StringCut, high: StringCut) -> str:
    """Return the longest text that all strings between the cuts begin with."""
    text = low[1]
    # Every such text is a prefix of the interval's first string; longer ones reach less far.
    shortest, longest = 0, len(text)
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        if high <= after_prefix(text[:middle]):
            shortest = middle
        else:
            longest = middle - 1
    return text[:shortest]
