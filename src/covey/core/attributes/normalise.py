"""Syntax tree to filter: NOT is pushed to the conditions, then the normal form is built from the leaves up.

A filter matches on TRUE only, and a condition's negation is again a condition (`NOT a = 5` is `a <> 5`:
both are UNKNOWN for an absent attribute and for one of another type), so De Morgan's laws move every NOT to
a leaf without changing when the whole is TRUE. Each leaf becomes the set of values for which it is TRUE.
Conditions on one attribute are combined as sets before anything is distributed: fewer conjunctions, and
most filters are done.
"""

from __future__ import annotations

from typing import Final

from covey.core.attributes import constraint as conditions
from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.filter import FALSE, TRUE, AttributeFilter, trusted
from covey.core.attributes.syntax import (
    And,
    Between,
    Comparison,
    Leaf,
    Like,
    Not,
    Or,
    Tree,
    Truth,
    Within,
)
from covey.errors import FilterError

# Terms of one OR that are left once plain conditions on the same attribute are united. Text written by hand
# stays below it; longer text must not make us compare thousands of terms with each other.
MAX_TERMS: Final = 128

_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def to_filter(tree: Tree, negated: bool = False) -> AttributeFilter:
    """Return the filter that matches when the tree, or its negation, is TRUE; FilterError if too large."""
    while isinstance(tree, Not):
        tree, negated = tree.operand, not negated
    if isinstance(tree, And | Or):
        if isinstance(tree, And) != negated:
            return _all_of(tree.operands, negated)
        return _any_of(tree.operands, negated)
    if isinstance(tree, Truth):
        return TRUE if tree.value != negated else FALSE
    return AttributeFilter.of(tree.name, to_constraint(tree, negated))


def to_constraint(leaf: Leaf, negated: bool = False) -> Constraint:
    """Return the values for which the condition (or its negation) is TRUE."""
    if isinstance(leaf, Comparison):
        return conditions.compare(_OPPOSITE[leaf.operator] if negated else leaf.operator, leaf.value)
    negated = negated != leaf.negated
    if isinstance(leaf, Between):
        return (conditions.not_between if negated else conditions.between)(leaf.low, leaf.high)
    if isinstance(leaf, Within):
        return (conditions.not_within if negated else conditions.within)(leaf.values)
    if isinstance(leaf, Like):
        return (conditions.not_like if negated else conditions.like)(leaf.pattern, leaf.escape)
    return conditions.present() if negated else conditions.null()


def _all_of(operands: tuple[Tree, ...], negated: bool) -> AttributeFilter:
    sides: dict[str, Constraint] = {}
    factors: list[AttributeFilter] = []
    contradiction = False
    for operand in operands:
        if isinstance(operand, And | Or | Not | Truth):
            factors.append(to_filter(operand, negated))
            continue
        side = to_constraint(operand, negated)
        known = sides.get(operand.name)
        if known is not None:
            side = known.intersect(side)
        sides[operand.name] = side
        contradiction = contradiction or side.is_empty
    if contradiction:
        return FALSE
    if not sides:
        return AttributeFilter.all_of(factors)
    plain = trusted((Conjunction(tuple(sorted(sides.items()))),))
    return AttributeFilter.all_of([plain, *factors]) if factors else plain


def _any_of(operands: tuple[Tree, ...], negated: bool) -> AttributeFilter:
    plain: dict[str, list[Constraint]] = {}
    terms: list[AttributeFilter] = []
    for operand in operands:
        term = to_filter(operand, negated)
        single = _single(term)
        if single is None:
            terms.append(term)
        else:
            plain.setdefault(single[0], []).append(single[1])
    for name, sides in plain.items():
        terms += [AttributeFilter.of(name, side) for side in _united(sides)]
    if len(terms) > MAX_TERMS:
        raise FilterError(f"an OR has more than {MAX_TERMS} terms", hint="split the filter")
    return AttributeFilter.any_of(terms)


def _single(term: AttributeFilter) -> tuple[str, Constraint] | None:
    """Return the name and set of a filter that limits one attribute without LIKE, None for another filter."""
    if len(term.conjunctions) != 1 or len(term.conjunctions[0].constraints) != 1:
        return None
    name, side = term.conjunctions[0].constraints[0]
    return None if side.likes or side.unlikes else (name, side)


def _united(sides: list[Constraint]) -> list[Constraint]:
    """Unite sets without LIKE, neighbours first: n log n steps where one after the other takes n squared."""
    while len(sides) > 1:
        pairs = [left.union(right) for left, right in zip(sides[::2], sides[1::2], strict=False)]
        united = [side for side in pairs if side is not None]
        if len(united) < len(pairs):
            return sides  # too many intervals for one constraint
        sides = united + sides[2 * len(pairs) :]
    return sides
