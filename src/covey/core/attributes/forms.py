"""From filters to bytes: the forms that wire.py describes, and why a filter has only one of them.

Each constraint is written in the first form that fits, tried in a fixed order, and MessagePack is written in
its shortest way; so equal filters give equal bytes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, present
from covey.core.attributes.cuts import ALL_STRINGS
from covey.core.attributes.strings import like_prefix
from covey.core.attributes.values import number_literal
from covey.errors import FilterError

MAX_WIRE_BYTES: Final = 65_536
FAMILY_BYTE: Final = b"A"

encoder: Final = msgspec.msgpack.Encoder()
_PRESENT: Final = present()
_INFINITY: Final = float("inf")
_BOOLEANS: Final = ((), (False,), (True,), (False, True))


def encode_conjunctions(conjunctions: tuple[Conjunction, ...]) -> bytes:
    """Return the wire form of a filter's conjunctions; raise FilterError beyond MAX_WIRE_BYTES."""
    forms = []
    for conjunction in conjunctions:
        form: list[Any] = []
        for name, constraint in conjunction.constraints:
            form.append(name)
            form.append(side_form(constraint))
        forms.append(form)
    data = FAMILY_BYTE + encoder.encode(forms)
    if len(data) > MAX_WIRE_BYTES:
        raise FilterError(f"the filter's wire form is longer than {MAX_WIRE_BYTES} bytes")
    return data


def side_form(constraint: Constraint) -> Any:
    """Return the form of one constraint: the first that fits."""
    numbers, texts = constraint.numbers, constraint.strings
    if constraint.absent or constraint.other:
        return None if constraint == _PRESENT else _general_form(constraint)
    if not constraint.booleans:
        if not texts and len(numbers) == 2:
            (low, low_side), (high, high_side) = numbers
            if low == high:
                return _number_form(low)
            return [
                None if low == -_INFINITY else _number_form(low),
                None if high == _INFINITY else _number_form(high),
                low_side | high_side << 1,
            ]
        if not numbers and len(texts) == 2:
            if constraint.likes or constraint.unlikes:
                return _pattern_form(constraint)
            (_, start), (open_end, end) = texts
            if end == start + "\0":
                return start
            return [start, None if open_end else end]
    elif not numbers and not texts and constraint.booleans != 3:
        return constraint.booleans == 2
    return _points_form(constraint) or _general_form(constraint)


def _number_form(value: int | float) -> int | float:
    """Return a number in its one form, which a filter that was computed, as by merging, may not have it in."""
    return number_literal(value) if type(value) is float else value


def _pattern_form(constraint: Constraint) -> Any:
    """Return the form of a constraint on strings alone, one interval under patterns."""
    likes, unlikes = constraint.likes, constraint.unlikes
    if len(likes) == 1 and not unlikes and constraint.strings == like_prefix(likes[0]):
        return likes
    if len(unlikes) == 1 and not likes and constraint.strings == ALL_STRINGS:
        return (None, *unlikes)
    return _general_form(constraint)


def _points_form(constraint: Constraint) -> Any:
    """Return the form of a set of single values, None if the constraint is not one."""
    numbers, texts = constraint.numbers, constraint.strings
    if constraint.likes or constraint.unlikes or (numbers and numbers[0][0] != numbers[1][0]):
        return None
    values = [_number_form(value) for value, _ in numbers[::2]]
    if values != [value for value, _ in numbers[1::2]]:
        return None
    words = [text for _, text in texts[::2]]
    if [text + "\0" for text in words] != [text for _, text in texts[1::2]]:
        return None
    return [[*_BOOLEANS[constraint.booleans], *values, *words]]


def _general_form(constraint: Constraint) -> list[Any]:
    numbers: list[Any] = []
    for value, side in constraint.numbers:
        numbers += (_number_form(value) if -_INFINITY < value < _INFINITY else None, side)
    texts = [None if open_end else text for open_end, text in constraint.strings]
    kinds = constraint.absent | constraint.other << 1 | constraint.booleans << 2
    return [kinds, numbers, texts, constraint.likes, constraint.unlikes]
