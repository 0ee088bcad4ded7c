"""Values of columns, from text: numbers, whole numbers, and times. What is not exactly one of them is refused.

    double      a decimal number, 12, -0.5 or 1e3, that a 64-bit floating-point number can hold; not NaN or infinity
    int         a whole number of 32 bits; 3.0 is one, 3.5 is not
    timestamp   ISO 8601, date and time or a date alone, 2026-01-02T03:04:05.678+01:00; UTC if no offset is given. The
                time must exist. A column of bare numbers is read only if the user says what they count since 1970-01-01
                UTC: s, ms or us

Times are whole microseconds since 1970, as Spark keeps them; digits beyond microseconds are dropped. Blanks around a
value do not matter. A ValueError says what is wrong with a value without repeating it, so that equal mistakes are
counted together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from functools import partial
from typing import Final

UNITS: Final[Mapping[str, int]] = {"s": 6, "ms": 3, "us": 0}  # digits from the unit to microseconds
FIRST_US: Final = -62_135_596_800_000_000  # the beginning of year 1, and the end of year 9999
LAST_US: Final = 253_402_300_799_999_999
OUT_OF_RANGE: Final = "is out of range"
BARE_NUMBER: Final = "is a bare number"
NO_SUCH_TIME: Final = "is a date or a time that does not exist"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST: Final = 100  # characters of a number
_MOST_DIGITS: Final = 25  # before the point, of a time
_EXACT: Final = Context(prec=_LONGEST + _MOST_DIGITS)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_WHOLE: Final = re.compile(r"([+-]?\d+)(\.0*)?", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)


def reader(type_: str, unit: str | None = None) -> Callable[[str], float | int]:
    """Return what reads text as a type of a column; with a unit, times are numbers of these."""
    if unit is not None:
        return partial(read_epoch, unit=unit)
    return {"double": read_number, "int": read_whole, "timestamp": read_time}[type_]


def epochs_hint(table: str, column: str) -> str:
    """Return how to say what the numbers of a column count."""
    return f" (hint: --epochs {table}.{column}=s if it counts seconds since 1970, or ms, us)"


def read_number(text: str) -> float:
    """Return a finite number."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError("is not a number")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(OUT_OF_RANGE)
    return value


def read_whole(text: str) -> int:
    """Return a whole number of 32 bits."""
    found = _WHOLE.fullmatch(text.strip())
    if not found:
        raise ValueError("is not a whole number")
    if len(found[1]) > _LONGEST or not -(1 << 31) <= int(found[1]) < 1 << 31:
        raise ValueError(OUT_OF_RANGE)
    return int(found[1])


def read_time(text: str) -> int:
    """Return an ISO 8601 time in microseconds since 1970."""
    given = text.strip()
    found = _TIME.fullmatch(given)
    if not found:
        raise ValueError(
            BARE_NUMBER
            if _NUMBER.fullmatch(given)
            else "is not an ISO 8601 time such as 2026-01-02T03:04:05Z"
        )
    *parts, fraction, sign, hours, minutes = found.groups()
    try:
        time = datetime(*(int(part or 0) for part in parts), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        raise ValueError(NO_SUCH_TIME) from None
    if int(hours or 0) > 23 or int(minutes or 0) > 59:
        raise ValueError(NO_SUCH_TIME)
    offset_us = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000_000
    value = (time - _EPOCH) // _MICROSECOND + int((fraction or "0").ljust(6, "0")[:6])
    return _in_range(value + offset_us if sign == "-" else value - offset_us)


def read_epoch(text: str, *, unit: str) -> int:
    """Return a time that is given as a number of units since 1970, in microseconds."""
    given = text.strip()
    if not _NUMBER.fullmatch(given):
        raise ValueError(f"is not a number of {unit} since 1970, as --epochs says")
    number = Decimal(given) if len(given) <= _LONGEST else Decimal("Infinity")
    if not number.is_finite() or number.adjusted() > _MOST_DIGITS:
        raise ValueError(OUT_OF_RANGE)
    exact = number.scaleb(UNITS[unit], _EXACT)
    return _in_range(int(exact.to_integral_value(ROUND_FLOOR, _EXACT)))


def _in_range(value: int) -> int:
    if not FIRST_US <= value <= LAST_US:
        raise ValueError(OUT_OF_RANGE)
    return value
