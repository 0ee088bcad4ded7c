"""Constraints from (name, op, value) items: the same conditions as in filter text, without the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from covey.core.attributes import constraint as conditions
from covey.core.attributes.conjunction import Constraints
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.values import attribute_name
from covey.errors import FilterError

MAX_ITEMS: Final = 1_024


def constraints(items: Iterable[Sequence[object]]) -> Constraints | None:
    """Return the sorted constraints that the items say together; None if they contradict each other."""
    sides: dict[str, Constraint] = {}
    contradiction = False
    for index, item in enumerate(items):
        if index == MAX_ITEMS:
            raise FilterError(f"a conjunction has more than {MAX_ITEMS} items")
        try:
            name, constraint = _side(item)
            known = sides.get(name)
            constraint = constraint if known is None else known.intersect(constraint)
        except FilterError as error:
            raise FilterError(
                f"item {index}: {error.problem}", expected=error.expected, hint=error.hint
            ) from None
        sides[name] = constraint
        contradiction = contradiction or constraint.is_empty
    return None if contradiction else tuple(sorted(sides.items()))


def _side(item: object) -> tuple[str, Constraint]:
    if isinstance(item, str | bytes) or not isinstance(item, Sequence) or not 2 <= len(item) <= 3:
        raise FilterError("not a condition", expected="(name, op, value) or (name, op)")
    name = attribute_name(item[0])
    op = item[1]
    if not isinstance(op, str):
        raise FilterError(f"an operator must be a string, not {type(op).__name__}")
    op = " ".join(op.lower().split())
    if op in _UNARY:
        if len(item) == 3:
            raise FilterError(f"{op} takes no value")
        return name, _UNARY[op]()
    build = _BINARY.get(op)
    if build is None:
        raise FilterError(f"unknown operator {op[:40]!r}", expected=", ".join([*_BINARY, *_UNARY]))
    if len(item) == 2:
        raise FilterError(f"{op} needs a value")
    return name, build(item[2])


def _comparison(op: str) -> Callable[[object], Constraint]:
    return lambda value: conditions.compare(op, value)


def _pair(value: object, what: str) -> tuple[object, object]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or len(value) != 2:
        raise FilterError(f"{what} needs a pair", expected="a tuple of two values")
    return value[0], value[1]


def _pattern(value: object) -> tuple[object, str | None]:
    if isinstance(value, str):
        return value, None
    pattern, escape = _pair(value, "LIKE with an escape")
    if escape is not None and not isinstance(escape, str):
        raise FilterError("the escape of a LIKE pattern must be a string")
    return pattern, escape


def _values(value: object) -> Iterable[object]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise FilterError("IN needs a list of values", expected="a list, tuple or set")
    return value


_UNARY: Final[dict[str, Callable[[], Constraint]]] = {
    "is null": conditions.null,
    "is not null": conditions.present,
    "exists": conditions.present,
}
_BINARY: Final[dict[str, Callable[[object], Constraint]]] = {
    **{op: _comparison(op) for op in conditions.COMPARISONS},
    "between": lambda value: conditions.between(*_pair(value, "BETWEEN")),
    "not between": lambda value: conditions.not_between(*_pair(value, "BETWEEN")),
    "in": lambda value: conditions.within(_values(value)),
    "not in": lambda value: conditions.not_within(_values(value)),
    "like": lambda value: conditions.like(*_pattern(value)),
    "not like": lambda value: conditions.not_like(*_pattern(value)),
}
