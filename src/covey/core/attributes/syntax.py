"""The syntax tree of an attribute filter: what was written, before it is put into normal form.

Small immutable values, one class for each kind of condition of the language and one for each connective. The
parser makes them and the normal form is built from them; a direct evaluator of this tree is the oracle that
the normal form is tested against. A tree is judged by three-valued logic (docs/filters.md says how).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Literal: TypeAlias = bool | int | float | str


class Truth(NamedTuple):
    """TRUE or FALSE standing alone: every event, or none."""

    value: bool


class Comparison(NamedTuple):
    """`name operator value`, with one of the operators = <> < <= > >=."""

    name: str
    operator: str
    value: Literal


class Between(NamedTuple):
    """`name [NOT] BETWEEN low AND high`: both ends belong to the range."""

    name: str
    low: int | float | str
    high: int | float | str
    negated: bool


class Within(NamedTuple):
    """`name [NOT] IN (value, ...)`."""

    name: str
    values: tuple[Literal, ...]
    negated: bool


class Like(NamedTuple):
    """`name [NOT] LIKE pattern [ESCAPE escape]`."""

    name: str
    pattern: str
    escape: str | None
    negated: bool


class Null(NamedTuple):
    """`name IS [NOT] NULL`; `EXISTS name` is the negated form."""

    name: str
    negated: bool


class Not(NamedTuple):
    """The condition turned round; UNKNOWN stays UNKNOWN."""

    operand: Tree


class And(NamedTuple):
    """All of two or more conditions."""

    operands: tuple[Tree, ...]


class Or(NamedTuple):
    """Any of two or more conditions."""

    operands: tuple[Tree, ...]


Leaf: TypeAlias = Comparison | Between | Within | Like | Null
Tree: TypeAlias = Truth | Leaf | Not | And | Or
