"""Spark's filters as a filter of ours: what a query asks for of attribute columns is asked of the network instead.

Spark offers the conditions that all rows must meet; each is about one column. A column's value is made of an
attribute's value (`columns`), so a condition holds for a set of attribute values, and a `Constraint` is such a set:
absent, booleans, numbers, strings, others. There are three cases:

    exact     the set is exactly a constraint: the condition is Covey's, and Spark does not look again
    wider     a constraint holds all of the set and more: it is pushed, and Spark looks again
    neither   nothing is pushed: Spark alone looks

Where values differ between the two is what decides:

- A whole column is null for 12.5, and no constraint is "the whole numbers". `c = 5` is exact, `c > 5` is wider.
- A double column rounds integers beyond 2**53; only values below that are compared alike. A float column rounds all.
- NaN is no number in an event, so a column never has it; a condition that names NaN or an infinity is Spark's.
- A condition on a null is not TRUE in either logic, negated or not, so that NOT needs no further care: all conditions
  are taken apart to `is not null` and a set. IS NULL is the complement, which has the values of other types in it.
- Strings are ordered by code points here and by UTF-8 bytes there, which is the same order.

What would make a filter larger than a filter may be is left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covey.core.attributes import constraint as conditions
from covey.core.attributes import cuts
from covey.core.attributes.constraint import ALL_BOOLEANS, EVERYTHING, Constraint
from covey.core.attributes.filter import AttributeFilter, decode_attributes
from covey.errors import FilterError
from covey.pipeline.network.columns import BOOLEAN, DOUBLE, FLOAT, STRING, WHOLE

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_EXACT_BELOW: Final = 2**53
_ESCAPE: Final = "!"
_COMPARISONS: Final = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_NEGATED: Final = {"=": "<>", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}
_SHAPES: Final = {
    "StringStartsWith": "{}%",
    "StringEndsWith": "%{}",
    "StringContains": "%{}%",
}


class Pushed(NamedTuple):
    """What is asked of the network, and the conditions at which Spark must look itself."""

    filter: AttributeFilter
    left: list[Filter]


def push(asked: AttributeFilter, offered: Iterable[Filter], kinds: Mapping[str, str]) -> Pushed:
    """Add to a filter what it can take over of Spark's conditions; `kinds` are the columns that are attributes."""
    left = []
    for one in offered:
        condition = translate(one, kinds)
        if condition is not None:
            try:
                narrower = AttributeFilter.all_of(
                    [asked, AttributeFilter.of(condition.name, condition.values)]
                )
                decode_attributes(narrower.encode())  # as the broker will, which has limits
            except FilterError:
                condition = None
            else:
                asked = narrower
        if condition is None or not condition.is_exact:
            left.append(one)
    return Pushed(asked, left)


class Condition(NamedTuple):
    """The values of an attribute for which a condition can hold; whether it holds for all of them."""

    name: str
    values: Constraint
    is_exact: bool


def translate(one: Filter, kinds: Mapping[str, str]) -> Condition | None:
    """Return what one of Spark's conditions asks of an attribute, None if that cannot be said."""
    negated = type(one).__name__ == "Not"
    plain: Any = one.child if negated else one  # type: ignore[attr-defined]
    path = getattr(plain, "attribute", None)
    name = ".".join(path) if path else ""
    kind = kinds.get(name)
    if kind is None:
        return None
    try:
        found = _values(type(plain).__name__, getattr(plain, "value", None), kind, negated)
    except FilterError:
        return None
    if found is None:
        return None
    values, is_exact = found
    return Condition(name, values, is_exact)


def _values(what: str, value: Any, kind: str, negated: bool) -> tuple[Constraint, bool] | None:
    if what in ("IsNull", "IsNotNull"):
        return _nullness(kind, (what == "IsNull") != negated)
    if what in _SHAPES:
        return (_like(_SHAPES[what], value, negated), True) if kind == STRING else None
    if what == "In":
        return _within(value, kind, negated)
    operator = _COMPARISONS.get(what)
    # Negated, <=> holds for null too.
    if operator is None or not _is_of(kind, value) or (negated and what == "EqualNullSafe"):
        return None
    if kind == BOOLEAN and operator != "=":
        return None
    operator = _NEGATED[operator] if negated else operator
    return conditions.compare(operator, value), kind not in WHOLE or operator == "="


def _nullness(kind: str, is_null: bool) -> tuple[Constraint, bool] | None:
    present = _kind_of(kind)
    if not is_null:
        return present, kind not in WHOLE
    if kind in WHOLE:
        return None
    (rest,) = EVERYTHING.difference(present)
    return rest, True


def _kind_of(kind: str) -> Constraint:
    """Return the values for which a column of this kind is not null, and for whole columns some more."""
    if kind == STRING:
        return Constraint(strings=cuts.ALL_STRINGS)
    if kind == BOOLEAN:
        return Constraint(booleans=ALL_BOOLEANS)
    if kind in WHOLE:
        high = 1 << (WHOLE[kind] - 1)
        return conditions.between(-high, high - 1)
    return Constraint(numbers=cuts.ALL_NUMBERS)


def _within(values: Any, kind: str, negated: bool) -> tuple[Constraint, bool] | None:
    known = [value for value in values if value is not None]
    if not known or not all(_is_of(kind, value) for value in known) or (negated and len(known) < len(values)):
        return None
    if negated:
        return conditions.not_within(known), kind not in WHOLE
    return conditions.within(known), True


def _like(shape: str, text: Any, negated: bool) -> Constraint:
    escaped = "".join(_ESCAPE + one if one in ("%", "_", _ESCAPE) else one for one in text)
    make = conditions.not_like if negated else conditions.like
    return make(shape.format(escaped), _ESCAPE)


def _is_of(kind: str, value: Any) -> bool:
    """Whether a value of Spark's is one that a column of this kind can be compared with alike."""
    if kind == STRING:
        return type(value) is str
    if kind == BOOLEAN:
        return type(value) is bool
    if kind == DOUBLE:
        return type(value) in (int, float) and -_EXACT_BELOW < value < _EXACT_BELOW
    if kind == FLOAT:
        return False
    high = 1 << (WHOLE[kind] - 1)
    return type(value) is int and -high <= value < high
