"""Random filters as people write them: syntax trees, their texts in many spellings, and events to judge.

The domains are small, so that conditions meet: the same few names, values at each other's borders, strings
that are each other's prefixes and successors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tests import special_values

from covey.core.attributes.syntax import (
    And,
    Between,
    Comparison,
    Leaf,
    Like,
    Literal,
    Not,
    Null,
    Or,
    Tree,
    Truth,
    Within,
)

NAMES = ("a", "b", "c.d", 'odd "name"')
WRITTEN_NAMES = {
    "a": ("a", '"a"'),
    "b": ("b",),
    "c.d": ("c.d", '"c.d"', 'c."d"'),
    NAMES[3]: ('"odd ""name"""',),
}
NUMBERS = (-(2**63), -1.5, -1, 0, 0.5, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1, 2.0**63, 1e300)
STRINGS = (
    "",
    "a",
    "a\0",
    "a\0\0",
    "ab",
    "ab%",
    "abc",
    "b",
    "it's",
    "\\",
    "_",
    "\ud7ff",
    "\U0010ffff",
    "line\nend",
)

numbers = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(special_values.NUMBERS))
strings = st.sampled_from(STRINGS)
names = st.sampled_from(NAMES)
literals: st.SearchStrategy[Literal] = st.one_of(numbers, strings, st.booleans())


def _like(name: str, parts: list[str], escape: str | None, negated: bool) -> Like:
    if escape is None:
        return Like(name, "".join(parts).replace("\\", "b"), None, negated)
    written = [part.replace("\\", escape) if len(part) == 2 else part for part in parts]
    return Like(name, "".join("ab" if part == escape else part for part in written), escape, negated)


pattern_parts = st.lists(st.sampled_from(["a", "b", "%", "_", "ab", "\\%", "\\_", "\\\\"]), max_size=5)
leaves: st.SearchStrategy[Truth | Leaf] = st.one_of(
    st.builds(
        Comparison, names, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), st.one_of(numbers, strings)
    ),
    st.builds(Comparison, names, st.sampled_from(["=", "<>"]), st.booleans()),
    st.builds(Between, names, numbers, numbers, st.booleans()),
    st.builds(Between, names, strings, strings, st.booleans()),
    st.builds(Within, names, st.lists(numbers, min_size=1, max_size=4).map(tuple), st.booleans()),
    st.builds(Within, names, st.lists(strings, min_size=1, max_size=4).map(tuple), st.booleans()),
    st.builds(Within, names, st.lists(literals, min_size=1, max_size=4).map(tuple), st.booleans()),
    st.builds(_like, names, pattern_parts, st.sampled_from([None, "\\", "!"]), st.booleans()),
    st.builds(Null, names, st.booleans()),
    st.builds(Truth, st.booleans()),
)


def _branches(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Not, inner), st.builds(And, several), st.builds(Or, several))


trees: st.SearchStrategy[Tree] = st.recursive(leaves, _branches, max_leaves=7)
one_attribute_trees = st.recursive(
    leaves.map(lambda leaf: leaf if isinstance(leaf, Truth) else leaf._replace(name="a")),
    _branches,
    max_leaves=6,
)

values: st.SearchStrategy[Any] = st.one_of(
    special_values.values(),
    numbers,
    strings,
    st.booleans(),
    st.sampled_from(
        [None, math.nan, math.inf, -math.inf, [], 1.0, 2**70, "aab", "ba", "abab", "a%", "a_b", "a\ud800"]
    ),
)


def events_for(tree: Tree) -> st.SearchStrategy[dict[str, Any]]:
    """Events whose values are mostly those that the tree compares with, where its conditions change."""
    mentioned = _mentioned(tree)
    columns = {name: st.one_of(st.sampled_from(mentioned.get(name, [None])), values) for name in NAMES}
    return st.fixed_dictionaries({}, optional=columns).map(_nested)


def _mentioned(tree: Tree) -> dict[str, list[Any]]:
    """The values that each attribute is compared with."""
    if isinstance(tree, And | Or):
        found: dict[str, list[Any]] = {}
        for operand in tree.operands:
            for name, literals in _mentioned(operand).items():
                found.setdefault(name, []).extend(literals)
        return found
    if isinstance(tree, Not):
        return _mentioned(tree.operand)
    if isinstance(tree, Comparison):
        return {tree.name: [tree.value]}
    if isinstance(tree, Between):
        return {tree.name: [tree.low, tree.high]}
    if isinstance(tree, Within):
        return {tree.name: list(tree.values)}
    return {}


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    """The same event with `c.d` as a mapping inside."""
    inner = {"c": {"d": flat.pop("c.d")}} if "c.d" in flat else {}
    return {**flat, **inner}


@st.composite
def texts(draw: Callable[[st.SearchStrategy[Any]], Any], tree: Tree) -> str:
    """A text whose syntax tree is `tree`, in one of many spellings."""
    random = draw(st.randoms(use_true_random=False))
    return _Speller(random.choice).write(tree, loosest=True)


class _Speller:
    def __init__(self, choose: Callable[[Any], Any]) -> None:
        self.choose = choose

    def write(self, tree: Tree, loosest: bool = False) -> str:
        if isinstance(tree, Truth):
            return self.word("TRUE" if tree.value else "FALSE")
        if isinstance(tree, Not):
            return f"{self.word('NOT')} {self.enclosed(tree.operand)}"
        if isinstance(tree, And | Or):
            joint = f" {self.word('AND' if isinstance(tree, And) else 'OR')}\t"
            text = joint.join([self.enclosed(operand) for operand in tree.operands])
        else:
            text = self.condition(tree)
            loosest = loosest or self.choose([True, True, False])
        return text if loosest else f"({text} )"

    def enclosed(self, tree: Tree) -> str:
        return self.write(tree, loosest=isinstance(tree, Truth))

    def condition(self, leaf: Leaf) -> str:
        name = self.choose(WRITTEN_NAMES[leaf.name])
        if isinstance(leaf, Comparison):
            operator = self.choose(["<>", "!="]) if leaf.operator == "<>" else leaf.operator
            gap = self.choose(["", " "])
            return f"{name}{gap}{operator}{gap}{self.literal(leaf.value)}"
        if isinstance(leaf, Null):
            if leaf.negated and self.choose([True, False]):
                return f"{self.word('EXISTS')} {self.choose([name, f'({name})'])}"
            return f"{name} {self.word('IS')}{self.negation(leaf.negated)} {self.word('NULL')}"
        start = f"{name}{self.negation(leaf.negated)} "
        if isinstance(leaf, Between):
            low, high = self.literal(leaf.low), self.literal(leaf.high)
            return f"{start}{self.word('BETWEEN')} {low} {self.word('AND')} {high}"
        if isinstance(leaf, Within):
            return f"{start}{self.word('IN')}({','.join(map(self.literal, leaf.values))})"
        escape = "" if leaf.escape is None else f" {self.word('ESCAPE')} {self.literal(leaf.escape)}"
        return f"{start}{self.word('LIKE')} {self.literal(leaf.pattern)}{escape}"

    def negation(self, negated: bool) -> str:
        return f" {self.word('NOT')}" if negated else ""

    def word(self, keyword: str) -> str:
        return str(self.choose([keyword, keyword.lower(), keyword.capitalize()]))

    def literal(self, value: Literal) -> str:
        if isinstance(value, bool):
            return self.word("TRUE" if value else "FALSE")
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        spellings = [repr(value)]
        if abs(value) <= 2**53 and "e" not in spellings[0]:
            spellings.append(f"{value!r}e0" if isinstance(value, float) else f"{value}.0")
        if not spellings[0].startswith("-"):
            spellings.append(f"+{value!r}")
        return str(self.choose(spellings))
