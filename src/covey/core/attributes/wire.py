"""The wire form of attribute filters: b"A" and one MessagePack value.

    filter       [conjunction, ...]
    conjunction  [name, side, name, side, ...]
    side         scalar               equal to that boolean, number or string
                 nil                  present
                 [low, high, sides]   a number interval; nil is unbounded; bits 1 and 2 of `sides` are the
                                      sides of the two cuts
                 [low, high]          a string interval: from `low` up to, not including, `high`
                 [[scalar, ...]]      one of these: booleans, then numbers, then strings, each increasing
                 [pattern]            like the pattern
                 [nil, pattern]       unlike the pattern
                 [kinds, numbers, strings, likes, unlikes]
                                      any constraint; `kinds` has bits 1 absent, 2 other, 4 FALSE, 8 TRUE;
                                      cuts are listed flat, nil where unbounded

The first form that fits is used, in the shortest MessagePack, so a filter has exactly one wire form. Bytes are not
trusted: `check` accepts a form only if it is in normal form and no earlier one would have fitted, and the bytes only if
what they say is written so again. It makes no objects of what it checks, as most filters that come to a broker are put
into an index straight from their forms (`forms_of`); `conjunctions_of` makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import lt
from sys import intern
from typing import Any, Final

import msgspec

from covey.core.attributes import simplify, strings
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, present
from covey.core.attributes.cuts import (
    ALL_STRINGS,
    MAX_INTERVALS,
    NUMBER_BOTTOM,
    NUMBER_TOP,
    STRING_TOP,
    NumberCuts,
    StringCuts,
    is_string_point,
)
from covey.core.attributes.forms import FAMILY_BYTE, MAX_WIRE_BYTES, encoder, side_form
from covey.core.attributes.like import MAX_PATTERN_LENGTH, parse_pattern, pattern_text
from covey.core.attributes.strings import like_prefix
from covey.core.attributes.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    MAX_NAME_LENGTH,
    MAX_STRING_LENGTH,
    number_literal,
    string_literal,
)
from covey.errors import FilterError

_Scalar = bool | int | float | str | None
_Side = bool | int | float | str | list[bool | int | float | str | list[_Scalar] | None] | None

Form = list[Any]  # of a conjunction: names and sides by turns

# Filters of many subscribers say the same of an attribute: it is kept once. When there are too many, it begins anew;
# filters keep what they have. What is long takes much room, and is seldom said twice.
MOST_KNOWN: Final = 8_192
LONGEST_KNOWN: Final = 64
_sides_known: dict[bytes | tuple[str, int | str], tuple[str, Constraint]] = {}

_decoder: Final = msgspec.msgpack.Decoder(list[list[_Side]])
_PRESENT: Final = present()
_LOWEST: Final = (float("-inf"), 0)  # one for all ranges that are open at that end
_HIGHEST: Final = (float("inf"), 1)
# A cut may lie after the longest string, one character further.
_MAX_CUT_LENGTH: Final = MAX_STRING_LENGTH + 1


def check(data: bytes) -> tuple[Conjunction, ...] | None:
    """Raise FilterError for bytes that are no filter's wire form; return the conjunctions if they had to be made."""
    if len(data) > MAX_WIRE_BYTES:
        raise FilterError(f"the filter's wire form is longer than {MAX_WIRE_BYTES} bytes")
    if data[:1] != FAMILY_BYTE:
        raise FilterError("the bytes are not an attribute filter", expected="the first byte A")
    try:
        forms = _decoder.decode(data[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FilterError(f"the filter's wire form is damaged: {error}") from None
    if encoder.encode(forms) != data[1:]:
        raise _not_canonical()
    if len(forms) == 1:
        _check_conjunction(forms[0])
        return None
    return _checked(forms)


def forms_of(data: bytes) -> list[Form]:
    """Return the forms of the conjunctions of a filter whose wire form was checked."""
    return _decoder.decode(data[1:])


def conjunctions_of(data: bytes) -> tuple[Conjunction, ...]:
    """Return the conjunctions of a filter whose wire form was checked."""
    return tuple([Conjunction(_sides(form)) for form in _decoder.decode(data[1:])])


def conjunction_of(form: Form) -> Conjunction:
    """Return the conjunction of a form that was checked."""
    return Conjunction(_sides(form))


def constraint_of(form: Any) -> Constraint:
    """Return the constraint of a form that was checked, or FilterError if it is none."""
    return _constraint(form)


def _checked(forms: list[Form]) -> tuple[Conjunction, ...]:
    """Return the conjunctions of a filter that has not just one; FilterError if they are none."""
    if len(forms) > simplify.MAX_CONJUNCTIONS:
        raise FilterError(f"a filter has more than {simplify.MAX_CONJUNCTIONS} conjunctions")
    for form in forms:
        _check_names(form)
    found = tuple([Conjunction(_sides(form)) for form in forms])
    if not simplify.is_simplified(found):
        raise _not_canonical()
    return found


def _check_conjunction(form: Form) -> None:
    """Raise FilterError unless the form is that of one conjunction."""
    _check_names(form)
    for side in form[1::2]:
        kind = type(side)
        if kind is int and INTEGER_MIN <= side <= INTEGER_MAX:
            continue
        if kind is list and len(side) == 3:
            _interval_cuts(*side)
        else:
            _constraint(side)


def _check_names(form: Form) -> None:
    if len(form) & 1:
        raise FilterError("a conjunction's wire form has a name without a constraint")
    before = ""
    for name in form[::2]:
        if type(name) is not str or not before < name or len(name) > MAX_NAME_LENGTH:
            raise FilterError("a conjunction's wire form has a bad name or names out of order")
        before = name


def _sides(form: Form) -> tuple[tuple[str, Constraint], ...]:
    """Return the constraints of one conjunction, whose names were checked; FilterError for a bad constraint."""
    result = []
    parts = iter(form)
    for name, side in zip(parts, parts, strict=True):
        result.append(_side(name, side))
    return tuple(result)


def _side(name: str, side: Any) -> tuple[str, Constraint]:
    """Return the constraint of one attribute, which is checked, with its name."""
    # Lists are not hashable, and true is equal to 1: those are known by their bytes.
    kind = type(side)
    written = (name, side) if kind is int or kind is str else encoder.encode((name, side))
    known = _sides_known.get(written)
    if known is None:
        known = intern(name), _constraint(side)
        if len(written) <= LONGEST_KNOWN:
            if len(_sides_known) >= MOST_KNOWN:
                _sides_known.clear()
            _sides_known[written] = known
    return known


def covers(mine: bytes, theirs: bytes) -> bool | None:
    """Return whether a filter of one conjunction covers another one, None for other filters; the forms were checked.

    Constraints are made one by one until the answer is clear. What most pairs of filters have is another name or value.
    """
    forms = forms_of(mine)
    if len(forms) != 1:
        return None
    parts = iter(forms[0])
    sides = list(zip(parts, parts, strict=True))
    for form in forms_of(theirs):
        others = dict(zip(form[::2], form[1::2], strict=True))
        if not all(name in others for name, _ in sides):
            return False
        for name, side in sides:
            if not _side(name, side)[1].covers(_side(name, others[name])[1]):
                return False
    return True


def overlaps(mine: bytes, theirs: bytes) -> bool:
    """Return False only if two filters, whose forms were checked, cannot match the same event."""
    others = forms_of(theirs)
    return any(_meet(form, other) for form in forms_of(mine) for other in others)


def _meet(form: Form, other: Form) -> bool:
    """Return whether all attributes that two conjunctions have in common can have a value that both allow."""
    sides = dict(zip(form[::2], form[1::2], strict=True))
    parts = iter(other)
    return all(
        _side(name, sides[name])[1].overlaps(_side(name, side)[1])
        for name, side in zip(parts, parts, strict=True)
        if name in sides
    )


def forget_known() -> None:
    """Forget the constraints that were made last."""
    _sides_known.clear()


def _constraint(form: Any) -> Constraint:
    kind = type(form)
    if kind is int or kind is float:
        form = _number(form)
        return Constraint(False, False, 0, ((form, 0), (form, 1)))
    if kind is str:
        if len(form) > MAX_STRING_LENGTH:
            raise FilterError(f"a string is longer than {MAX_STRING_LENGTH} characters")
        return Constraint(False, False, 0, (), ((0, form), (0, form + "\0")))
    if kind is list:
        build = _LISTS.get(len(form))
        if build is None:
            raise FilterError("a constraint's wire form has a wrong number of parts")
        return build(*form)
    if form is None:
        return _PRESENT
    return Constraint(False, False, 2 if form else 1)


def _number(value: Any) -> int | float:
    """Return a number that a filter may hold, given in its one form."""
    if type(value) is int:
        if INTEGER_MIN <= value <= INTEGER_MAX:
            return value
    elif type(value) is float and type(number_literal(value)) is float:
        return value
    raise FilterError("a filter's wire form has a bad number")


def _number_interval(low: Any, high: Any, sides: Any) -> Constraint:
    return Constraint(False, False, 0, _interval_cuts(low, high, sides))


def _interval_cuts(low: Any, high: Any, sides: Any) -> NumberCuts:
    if type(sides) is not int or not 0 <= sides <= 3:
        raise FilterError("a number interval's wire form has bad sides")
    start = _LOWEST if low is None else (_number(low), sides & 1)
    end = _HIGHEST if high is None else (_number(high), sides >> 1)
    if not start < end or start[0] == end[0]:
        raise FilterError("a number interval's wire form is empty or has one number")
    if (low is None and sides & 1) or (high is None and not sides & 2):
        raise _not_canonical()
    return start, end


def _two(first: Any, second: Any) -> Constraint:
    if first is None:
        return Constraint(False, False, 0, (), ALL_STRINGS, (), _patterns([second]))
    found = _string_cuts([first, second])
    if is_string_point(*found):
        raise _not_canonical()
    return Constraint(False, False, 0, (), found)


def _one(form: Any) -> Constraint:
    if type(form) is list:
        return _points(form)
    likes = _patterns([form])
    return Constraint(False, False, 0, (), like_prefix(likes[0]), likes)


def _points(form: list[Any]) -> Constraint:
    if not 2 <= len(form) <= 2 * MAX_INTERVALS:
        raise FilterError("a set of values has less than two or too many")
    if len(form) <= MAX_INTERVALS and set(map(type, form)) == {int}:
        _check_increasing(form)
        _number(form[0])
        _number(form[-1])
        return Constraint(False, False, 0, tuple([(value, side) for value in form for side in (0, 1)]))
    booleans = 0
    numbers: list[tuple[int | float, int]] = []
    texts: list[tuple[int, str]] = []
    for value in form:
        kind = type(value)
        if (kind is int or kind is float) and not texts:
            _number(value)
            numbers += ((value, 0), (value, 1))
        elif kind is str:
            if len(value) > MAX_STRING_LENGTH:
                raise FilterError(f"a string is longer than {MAX_STRING_LENGTH} characters")
            texts += ((0, value), (0, value + "\0"))
        elif kind is bool and booleans < value + 1 and not numbers and not texts:
            booleans |= value + 1
        else:
            raise FilterError("a set of values has one that is no scalar or out of order")
    _check_increasing(numbers)
    _check_increasing(texts)
    if max(len(numbers), len(texts)) > 2 * MAX_INTERVALS:
        raise FilterError("a set of values has too many")
    return Constraint(False, False, booleans, tuple(numbers), tuple(texts))


def _string_cuts(form: list[Any]) -> StringCuts:
    if len(form) & 1 or len(form) > 2 * MAX_INTERVALS:
        raise FilterError("a filter's wire form has a bad number of string cuts")
    result = []
    for text in form:
        if type(text) is str and len(text) <= _MAX_CUT_LENGTH:
            result.append((0, text))
        elif text is None:
            result.append(STRING_TOP)
        else:
            raise FilterError("a filter's wire form has a bad string cut")
    _check_increasing(result)
    return tuple(result)


def _number_cuts(form: list[Any]) -> NumberCuts:
    if len(form) & 3 or len(form) > 4 * MAX_INTERVALS:
        raise FilterError("a filter's wire form has a bad number of number cuts")
    result: list[tuple[int | float, int]] = []
    for value, side in zip(form[::2], form[1::2], strict=True):
        if type(side) is not int or not 0 <= side <= 1:
            raise FilterError("a number cut's wire form has a bad side")
        if value is None:
            result.append(NUMBER_TOP if side else NUMBER_BOTTOM)
        else:
            result.append((_number(value), side))
    _check_increasing(result)
    return tuple(result)


def _check_increasing(found: list[Any]) -> None:
    if not all(map(lt, found, found[1:])):
        raise FilterError("a filter's wire form has cuts out of order")


def _general(kinds: Any, numbers: Any, texts: Any, likes: Any, unlikes: Any) -> Constraint:
    if type(kinds) is not int or not 0 <= kinds <= 15:
        raise FilterError("a constraint's wire form has bad kinds")
    if kinds & 2:
        # Values of other kinds are let in by IS NOT NULL alone, which has a form of its own.
        raise _not_canonical()
    if not (type(numbers) is type(texts) is type(likes) is type(unlikes) is list):
        raise FilterError("a constraint's wire form has parts that are not lists")
    found: strings.Strings = (_string_cuts(texts) if texts else (), (), ())
    if likes or unlikes:
        found = (found[0], _patterns(likes), _patterns(unlikes))
        if strings.normal(*found) != found:
            raise _not_canonical()
    result = Constraint(
        bool(kinds & 1), bool(kinds & 2), kinds >> 2, _number_cuts(numbers) if numbers else (), *found
    )
    if result.is_empty or result.is_everything or not _is_general(side_form(result)):
        raise _not_canonical()
    return result


def _is_general(form: Any) -> bool:
    return type(form) is list and len(form) == 5


def _patterns(form: list[Any]) -> tuple[str, ...]:
    if len(form) > strings.MAX_PATTERNS:
        raise FilterError(f"one attribute has more than {strings.MAX_PATTERNS} LIKE patterns")
    for text in form:
        if type(text) is not str or len(text) > 2 * MAX_PATTERN_LENGTH:
            raise FilterError("a filter's wire form has a bad LIKE pattern")
        if not _is_canonical_pattern(text):
            raise _not_canonical()
    return tuple(form)


@lru_cache(maxsize=2_048)
def _is_canonical_pattern(text: str) -> bool:
    """Return whether the text is a pattern in its one form and not one that cuts express."""
    if (
        "\\" not in text and len(text) <= MAX_PATTERN_LENGTH
    ):  # as almost all are: no token is written in two letters
        string_literal(text)
        if "%%" in text or "%_" in text:
            return False
        ends = [place for place in (text.find("%"), text.find("_")) if place >= 0]
        return bool(ends) and text[min(ends) :] not in ("%", "_%")
    tokens = parse_pattern(text, "\\")
    return pattern_text(tokens) == text and strings.pattern_cuts(tokens) is None


_LISTS: Final[dict[int, Callable[..., Constraint]]] = {1: _one, 2: _two, 3: _number_interval, 5: _general}


def _not_canonical() -> FilterError:
    return FilterError("the filter's wire form is not the one that a filter is encoded to")
