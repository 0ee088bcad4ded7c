"""The oracle of the attribute language: a syntax tree judged directly, by three-valued logic.

Nothing here knows the normal form. Each condition is TRUE, FALSE or UNKNOWN (None) of an event as the table
in docs/filters.md says, the connectives follow Kleene, and a filter matches when the whole is TRUE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from covey.core.attributes.syntax import And, Between, Comparison, Like, Not, Null, Or, Tree, Truth, Within
from covey.core.event import lookup

Verdict = bool | None


def judge(tree: Tree, event: Mapping[str, Any]) -> Verdict:
    """Return True, False or None (UNKNOWN) for the tree on the event."""
    match tree:
        case Truth(value):
            return value
        case Not(operand):
            return _not(judge(operand, event))
        case And(operands):
            return _all(judge(operand, event) for operand in operands)
        case Or(operands):
            return _any(judge(operand, event) for operand in operands)
        case Null(name, negated):
            return (lookup(event, name) is None) != negated
        case Comparison(name, operator, value):
            return _compare(lookup(event, name), operator, value)
        case Between(name, low, high, negated):
            value = lookup(event, name)
            inside = _all([_compare(value, ">=", low), _compare(value, "<=", high)])
            return _not(inside) if negated else inside
        case Within(name, values, negated):
            found = _any([_compare(lookup(event, name), "=", value) for value in values])
            return _not(found) if negated else found
        case Like(name, pattern, escape, negated):
            value = lookup(event, name)
            if not isinstance(value, str):
                return None
            return like_table(value, like_parts(pattern, escape)) != negated
    raise AssertionError(f"not a tree: {tree!r}")


def _not(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    seen = set(verdicts)
    return False if False in seen else None if None in seen else True


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    seen = set(verdicts)
    return True if True in seen else None if None in seen else False


def _kind(value: object) -> str | None:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and not math.isnan(value)):
        return "number"
    return "string" if isinstance(value, str) else None


def _compare(value: Any, operator: str, literal: Any) -> Verdict:
    if _kind(value) is None or _kind(value) != _kind(literal):
        return None
    verdicts: dict[str, bool] = {
        "=": value == literal,
        "<>": value != literal,
        "<": value < literal,
        "<=": value <= literal,
        ">": value > literal,
        ">=": value >= literal,
    }
    return verdicts[operator]


ANY_RUN, ANY_ONE = object(), object()


def like_parts(pattern: str, escape: str | None) -> list[object]:
    """Return the characters and wildcards of a LIKE pattern."""
    parts: list[object] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(next(characters))
        else:
            parts.append({"%": ANY_RUN, "_": ANY_ONE}.get(character, character))
    return parts


def like_table(value: str, parts: list[object]) -> bool:
    """Match by the textbook table: which lengths of `value` the parts read so far can end at."""
    reachable = {0}
    for part in parts:
        if part is ANY_RUN:
            reachable = set(range(min(reachable, default=len(value) + 1), len(value) + 1))
        else:
            reachable = {
                at + 1 for at in reachable if at < len(value) and (part is ANY_ONE or part == value[at])
            }
    return len(value) in reachable
