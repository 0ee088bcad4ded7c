"""Values at which code goes wrong that is right elsewhere: one list for all tests that draw events or filters.

Each stands for a mistake that is easily made: a zero with a sign hashed by its bits, a whole number rounded to a
float64, an integer cut to 64 bits, a number so small that it is flushed to zero, a truth value taken for a number, an
empty text taken for none. `filters` and `events` have all of them, so that a test need not be lucky to meet each.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from covey.core.attributes.filter import AttributeFilter, conjunction

SMALLEST: Final = 5e-324  # the neighbour of 0
DENORMAL: Final = 1e-310
LARGEST: Final = 1.7976931348623157e308

# What filters may hold: finite floats, and integers of 64 bits.
NUMBERS: Final[tuple[int | float, ...]] = (
    -0.0, 0, 0.0, 1, SMALLEST, -SMALLEST, DENORMAL, LARGEST, -LARGEST,
    2**53 - 1, 2**53, 2**53 + 1, 1 - 2**53, -(2**53), -(2**53) - 1, 2**63 - 1, -(2**63),
)  # fmt: skip
CONSTANTS: Final[tuple[Any, ...]] = (*NUMBERS, "", "0", True, False)
# What events may hold besides; None is absence.
VALUES: Final[tuple[Any, ...]] = (*CONSTANTS, 2**63, 2**64 - 1, 2**64, -(2**64), 2**70 + 1, None)


def constants() -> st.SearchStrategy[Any]:
    """A special value that a filter may hold."""
    return st.sampled_from(CONSTANTS)


def values() -> st.SearchStrategy[Any]:
    """A special value that an event may hold; None is absence."""
    return st.sampled_from(VALUES)


def filters() -> list[AttributeFilter]:
    """Return a filter of every kind for every constant: equality, sets small and large, intervals, conjunctions."""
    found = [conjunction([("a", op)]) for op in ("is null", "is not null")]
    for value, other in _neighbours(CONSTANTS):
        found += [conjunction([("a", op, value)]) for op in ("=", "<>")]
        # The larger set is too large to be split into single values.
        found += [conjunction([("a", "in", [value, *more])]) for more in ((7, "seven"), range(10, 40))]
        found += [conjunction([("a", "=", value), ("b", "=", other)])]
    for value in (*NUMBERS, "", "0"):
        found += [conjunction([("a", op, value)]) for op in ("<", "<=", ">", ">=")]
        found += [conjunction([("a", "between", (value, value))])]
    found += [
        conjunction([("a", "between", ends)]) for ends in ((-0.0, 1), (-1, -0.0), (-SMALLEST, SMALLEST))
    ]
    # 0 alone, though it is the end of neither; and what ends at 0 without it.
    found += [conjunction([("a", ">", -SMALLEST), ("a", "<", SMALLEST)])]
    found += [conjunction([("a", ">", -1), ("a", "<", -0.0)])]
    return found


def events() -> list[dict[str, Any]]:
    """Return an event for every value, with a value of another sort beside it."""
    return [{"a": value, "b": other} for value, other in _neighbours(VALUES)]


def _neighbours(values: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    return list(zip(values, (*values[1:], values[0]), strict=True))
