"""Values of attributes: what kind each is, and which may stand in a filter.

An attribute's value is absent, a boolean, a number, a string, or *other*: present but comparable with nothing
(NaN, a list, bytes). Rules:

1. A boolean is never a number: TRUE is not 1.
2. Integers and floats are one ordered domain, compared exactly. An event may hold any of them, infinities and
   integers of any size included; a filter holds 64-bit integers and finite floats.
3. A filter's number has one form: an int when it is integral and fits 64 bits, else a float; -0.0 is 0.
4. Strings are ordered by code point. An event's string may be anything that Python holds; a filter's string
   must be encodable, so unpaired surrogates are refused.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, Final

from covey.errors import FilterError

ABSENT: Final = 0
BOOLEAN: Final = 1
NUMBER: Final = 2
STRING: Final = 3
OTHER: Final = 4

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
MAX_STRING_LENGTH: Final = 4_096
MAX_NAME_LENGTH: Final = 256

_INFINITY = float("inf")


def classify(value: object) -> tuple[int, Any]:
    """Return the kind of an event's value and the plain value that stands for it.

    The plain value is a bool, int, float or str of exactly that type; None for ABSENT and OTHER. Numbers of
    other types (numpy's, fractions) count as the int or float they convert to.
    """
    exact = type(value)
    if exact is str:
        return STRING, value
    if exact is int:
        return NUMBER, value
    if exact is float:
        return (NUMBER, value) if value == value else (OTHER, None)
    if exact is bool:
        return BOOLEAN, value
    if value is None:
        return ABSENT, None
    return _classify_rare(value)


def _classify_rare(value: object) -> tuple[int, Any]:
    if isinstance(value, str):
        return STRING, str.__str__(value)
    if isinstance(value, Mapping):
        # A nested mapping is a place where names continue, not a value.
        return ABSENT, None
    try:
        if isinstance(value, numbers.Integral):
            return NUMBER, int(value)
        if isinstance(value, numbers.Real):
            number = float(value)
            return (NUMBER, number) if number == number else (OTHER, None)
        if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
            return BOOLEAN, bool(value)
    except (ValueError, TypeError, OverflowError):
        pass
    return OTHER, None


def literal(value: object) -> bool | int | float | str:
    """Return a filter's value in its one form; raise FilterError for what no filter may hold."""
    kind, plain = classify(value)
    if kind == NUMBER:
        return number_literal(plain)
    if kind == STRING:
        return string_literal(plain)
    if kind == BOOLEAN:
        return bool(plain)
    if kind == ABSENT:
        raise FilterError("a missing value compares with nothing", hint="use IS NULL or IS NOT NULL")
    raise FilterError(
        f"a value of type {type(value).__name__} cannot stand in a filter"
        if value == value
        else "not a number (NaN) cannot stand in a filter",
        expected="a 64-bit integer, a finite float, a string or a boolean",
    )


def number_literal(number: int | float) -> int | float:
    """Return a number in its one form; raise FilterError for infinities and integers beyond 64 bits."""
    if type(number) is float:
        if not -_INFINITY < number < _INFINITY:
            raise FilterError("an infinite number cannot stand in a filter", expected="a finite number")
        if number.is_integer() and INTEGER_MIN <= number <= INTEGER_MAX:
            return int(number)
        return number
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        raise FilterError("an integer does not fit 64 bits", hint="write it as a float, such as 1e30")
    return number


def string_literal(text: str) -> str:
    """Return `text`; raise FilterError if it is too long or holds unpaired surrogates."""
    if len(text) > MAX_STRING_LENGTH:
        raise FilterError(f"a string is longer than {MAX_STRING_LENGTH} characters")
    if not text.isascii() and not is_encodable(text):
        raise FilterError("a string holds an unpaired surrogate", expected="well-formed Unicode text")
    return text


def attribute_name(name: object) -> str:
    """Return `name`; raise FilterError unless it is a string of 1 to 256 well-formed characters."""
    if not isinstance(name, str):
        raise FilterError(f"an attribute's name must be a string, not {type(name).__name__}")
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise FilterError(f"an attribute's name must have 1 to {MAX_NAME_LENGTH} characters")
    if not name.isascii() and not is_encodable(name):
        raise FilterError("an attribute's name holds an unpaired surrogate")
    return str.__str__(name)


def is_encodable(text: str) -> bool:
    """Return whether `text` has no unpaired surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
