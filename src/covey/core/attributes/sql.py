"""Filter to Spark SQL: the text of a boolean expression over columns that hold the attributes.

The expression is TRUE exactly for the rows that the filter matches, where a row is an event: each attribute
is a column of one type (BIGINT or DOUBLE, STRING, BOOLEAN) and an absent attribute is NULL. What differs
from the filter language, and is taken care of here:

- A column has one type, so conditions on other types are never TRUE and are left out. Which type a column has
  is read off the filter when its conditions are of one type; otherwise the caller says it in `schema`.
- Spark takes NaN as equal to itself and above every number; a filter's comparisons never hold for it. A set
  of numbers without an upper end gets one: `x <= Infinity`, which NaN is not.
- Spark compares a BIGINT with a DOUBLE as doubles, which rounds. The values of the few filters that this
  would change are replaced by their neighbours of the column's own type, between which no other value lies.
- In Spark's literals a backslash escapes, and `${...}` is replaced even inside quotes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from covey.core.attributes import text
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.cuts import ALL_NUMBERS, NUMBER_BOTTOM, NUMBER_TOP, NumberCut, NumberCuts
from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.syntax import Literal
from covey.core.attributes.text import CONDITION, Phrase
from covey.core.attributes.values import INTEGER_MAX, INTEGER_MIN, number_literal
from covey.errors import FilterError

COLUMN_KINDS: Final = ("number", "bigint", "double", "string", "boolean")
_NUMBERS: Final = ("number", "bigint", "double")

_INFINITY: Final = "CAST('Infinity' AS DOUBLE)"
_INT_MAX: Final = 2**31 - 1
_BEYOND_EXACT: Final = 2**53  # from here on a BIGINT and another can be the same DOUBLE
_BEYOND_BIGINT: Final = 2.0**63  # what the largest BIGINT becomes as a DOUBLE


def to_spark_sql(
    filter: AttributeFilter, schema: Mapping[str, str] | None = None, *, flat: bool = False
) -> str:
    """Return a Spark SQL expression that is TRUE exactly for the rows that the filter matches.

    `schema` gives the kind of columns by attribute name: "bigint", "double", "number" (one of these two),
    "string" or "boolean"; it is needed only where the filter lets one attribute have several types. A
    dotted name is a path into structs, `a`.`b`; with `flat` it is the name of one column, `a.b`. Raises
    FilterError when a column's kind is missing or unknown, and for a name that Spark cannot quote.
    """
    kinds = _column_kinds(filter, dict(schema or {}))
    disjunction = []
    for conjunction in filter.conjunctions:
        sides = [
            _column_phrase(constraint, kinds.get(name), _column(name, flat))
            for name, constraint in conjunction.constraints
        ]
        disjunction.append(text.all_of(sides))
    return text.any_of(disjunction, enclose=True).text


def _column_kinds(filter: AttributeFilter, schema: dict[str, str]) -> dict[str, str]:
    """Return the kinds that the schema gives or, for other columns, that all conditions agree on."""
    for name, kind in schema.items():
        if kind not in COLUMN_KINDS:
            expected = ", ".join(COLUMN_KINDS)
            raise FilterError(f"the column {name!r} has the unknown kind {kind!r}", expected=expected)
    found: dict[str, set[str]] = {}
    for conjunction in filter.conjunctions:
        for name, constraint in conjunction.constraints:
            if name not in schema and not constraint.other:
                found.setdefault(name, set()).update(_kinds_of(constraint))
    for name, kinds in found.items():
        if len(kinds) > 1:
            raise FilterError(
                f"the filter lets {name!r} be a {' or a '.join(sorted(kinds))}, and a column has one type",
                hint=f"say which in the schema, such as {{{name!r}: {min(kinds)!r}}}",
            )
    return {**{name: min(kinds) for name, kinds in found.items() if kinds}, **schema}


def _kinds_of(constraint: Constraint) -> list[str]:
    present = (
        ("number", constraint.numbers),
        ("string", constraint.strings),
        ("boolean", constraint.booleans),
    )
    return [kind for kind, values in present if values]


def _column(name: str, flat: bool) -> str:
    parts = [name] if flat else name.split(".")
    if "" in parts or "${" in name:
        raise FilterError(
            f"the attribute name {name!r} cannot be written as a Spark column",
            hint="pass flat=True for a column whose name has dots" if "" in parts else None,
        )
    return ".".join(["`" + part.replace("`", "``") + "`" for part in parts])


def _column_phrase(constraint: Constraint, kind: str | None, column: str) -> Phrase:
    """Return the condition on one column."""
    if constraint.other:
        return text.constraint_phrase(constraint, column, write_spark_literal)
    if kind not in _NUMBERS:
        shown = msgspec.structs.replace(
            constraint,
            numbers=(),
            booleans=constraint.booleans if kind == "boolean" else 0,
            **({} if kind == "string" else {"strings": (), "likes": (), "unlikes": ()}),
        )
        return text.constraint_phrase(shown, column, write_spark_literal)
    phrase = _number_phrase(constraint.numbers, kind, column)
    if not constraint.absent:
        return phrase
    absence = Phrase(CONDITION, f"{column} IS NULL")
    return text.any_of([phrase, absence]) if constraint.numbers else absence


def _number_phrase(cuts: NumberCuts, kind: str, column: str) -> Phrase:
    if kind == "bigint":
        return _bigint_phrase(cuts, column)
    if kind == "double":
        return _double_phrase(_on_doubles(cuts), column)
    if all(_is_exact(value) for value, _ in cuts):
        return _double_phrase(cuts, column)
    as_double = _double_phrase(_on_doubles(cuts), column).text
    as_bigint = _bigint_phrase(cuts, column).text
    return Phrase(CONDITION, f"IF(typeof({column}) IN ('double', 'float'), {as_double}, {as_bigint})")


def _double_phrase(cuts: NumberCuts, column: str) -> Phrase:
    """The condition for a column that can hold NaN."""
    below_nan = Phrase(CONDITION, f"{column} <= {_INFINITY}")
    if cuts == ALL_NUMBERS:
        return below_nan
    phrase = text.constraint_phrase(Constraint(numbers=cuts), column, write_spark_literal)
    return text.all_of([phrase, below_nan]) if cuts and cuts[-1] == NUMBER_TOP else phrase


def _bigint_phrase(cuts: NumberCuts, column: str) -> Phrase:
    """The condition for a column of 64-bit integers."""
    whole = _on_integers(cuts)
    if whole == ALL_NUMBERS:
        return Phrase(CONDITION, f"{column} IS NOT NULL")
    return text.constraint_phrase(Constraint(numbers=whole), column, write_spark_literal)


def _is_exact(value: int | float) -> bool:
    """Whether comparing with the value is exact both for a BIGINT and for a DOUBLE column."""
    return abs(value) < _BEYOND_EXACT if isinstance(value, int) else value != _BEYOND_BIGINT


def _on_doubles(cuts: NumberCuts) -> NumberCuts:
    """Return a set that holds the same doubles, with doubles for cuts."""
    return _moved(cuts, _double_cut)


def _double_cut(cut: NumberCut) -> NumberCut:
    value = cut[0]
    nearest = float(value)
    if nearest == value:
        return cut
    # No double lies between the value and the nearest one, on either side of which it stands.
    return (number_literal(nearest), 1) if nearest < value else (number_literal(nearest), 0)


def _on_integers(cuts: NumberCuts) -> NumberCuts:
    """Return a set that holds the same 64-bit integers, with such integers for cuts."""
    return _moved(cuts, _integer_cut)


def _integer_cut(cut: NumberCut) -> NumberCut:
    value = cut[0]
    if value > INTEGER_MAX:
        return NUMBER_TOP
    if value < INTEGER_MIN:
        return NUMBER_BOTTOM
    return cut if isinstance(value, int) else (math.ceil(value), 0)


def _moved(cuts: NumberCuts, move: Callable[[NumberCut], NumberCut]) -> NumberCuts:
    """Move every cut, keeping their order; two that meet enclose nothing and vanish."""
    result: list[NumberCut] = []
    for cut in map(move, cuts):
        if result and result[-1] == cut:
            result.pop()
        else:
            result.append(cut)
    return tuple(result)


def write_spark_literal(value: Literal) -> str:
    """Return the value as a Spark SQL literal of type BOOLEAN, INT, BIGINT, DOUBLE or STRING."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"{value}" if abs(value) <= _INT_MAX else f"{value}L"
    if isinstance(value, float):
        return f"{value!r}D".upper()
    return "'" + "".join([_escaped(character) for character in value]) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    if character == "$" or ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0:
        return f"\\u{ord(character):04x}"
    return character
