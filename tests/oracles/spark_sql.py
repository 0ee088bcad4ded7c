"""A small judge of the Spark SQL that filters turn into, with Spark's rules where they differ from ours.

Not Spark, but its documented behaviour for this subset: a BIGINT beside a DOUBLE becomes a DOUBLE (all values
of an IN list together), NaN equals itself and is above every other number, strings compare by bytes, and
literals escape with backslashes. A column is given as (type, value) with None for NULL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tests.oracles.three_valued import like_parts, like_table

Column = tuple[str, Any]

_TOKENS = re.compile(
    r"\s*(?:(?P<name>`(?:[^`]|``)*`(?:\.`(?:[^`]|``)*`)*)|(?P<string>'(?:\\.|[^'\\])*')"
    r"|(?P<number>-?[0-9.]+(?:E[+-]?[0-9]+)?[LD]?)|(?P<word>[A-Za-z]+)|(?P<symbol><=|>=|<>|[=<>(),])|(?P<end>\Z))",
    re.DOTALL,
)


def judge_spark(sql: str, row: Mapping[str, Column]) -> bool | None:
    """Return TRUE, FALSE or None (NULL) for the expression on the row."""
    tokens = []
    at = 0
    while at < len(sql):
        match = _TOKENS.match(sql, at)
        assert match is not None, sql[at:]
        tokens.append((match.lastgroup, match[match.lastgroup or 0]))
        at = match.end()
    judge = _Judge([*tokens, ("end", "")], row)
    result = judge.disjunction()
    assert judge.tokens[judge.at][0] == "end", judge.tokens[judge.at :]
    return result


class _Judge:
    def __init__(self, tokens: list[Any], row: Mapping[str, Column]) -> None:
        self.tokens, self.row, self.at = tokens, row, 0

    def accept(self, text: str) -> bool:
        kind, found = self.tokens[self.at]
        if kind in ("word", "symbol") and found == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        assert self.accept(text), (text, self.tokens[self.at :])

    def disjunction(self) -> bool | None:
        seen = [self.conjunction()]
        while self.accept("OR"):
            seen.append(self.conjunction())
        return True if True in seen else None if None in seen else False

    def conjunction(self) -> bool | None:
        seen = [self.predicate()]
        while self.accept("AND"):
            seen.append(self.predicate())
        return False if False in seen else None if None in seen else True

    def predicate(self) -> bool | None:
        if self.accept("("):
            inner = self.disjunction()
            self.expect(")")
            return inner
        if self.accept("IF"):
            self.expect("(")
            condition = self.predicate()
            self.expect(",")
            yes = self.disjunction()
            self.expect(",")
            no = self.disjunction()
            self.expect(")")
            return yes if condition else no
        if self.accept("TRUE"):
            return True
        if self.accept("FALSE"):
            return False
        return self.comparison(self.value())

    def comparison(self, left: Any) -> bool | None:
        if self.accept("IS"):
            negated = self.accept("NOT")
            self.expect("NULL")
            return (left is None) != negated
        negated = self.accept("NOT")
        if self.accept("BETWEEN"):
            low = self.value()
            self.expect("AND")
            result = _both(_compare(left, ">=", low), _compare(left, "<=", self.value()))
        elif self.accept("IN"):
            result = self.membership(left)
        elif self.accept("LIKE"):
            pattern = self.value()
            escape = self.value() if self.accept("ESCAPE") else "\\"
            result = None if left is None else like_table(left, like_parts(pattern, escape))
        else:
            operator = self.tokens[self.at][1]
            self.at += 1
            result = _compare(left, operator, self.value())
        return result if not negated or result is None else not result

    def membership(self, left: Any) -> bool | None:
        self.expect("(")
        values = [self.value()]
        while self.accept(","):
            values.append(self.value())
        self.expect(")")
        if any(type(value) is float for value in (left, *values)):
            left, *values = [None if value is None else float(value) for value in (left, *values)]
        return None if left is None else any(_compare(left, "=", value) for value in values)

    def value(self) -> Any:
        kind, found = self.tokens[self.at]
        self.at += 1
        if kind == "name":
            return self.row[found][1]
        if kind == "string":
            return _unescape(found[1:-1])
        if kind == "number":
            if found.endswith("D"):
                return float(found[:-1])
            if found.endswith("L"):
                return int(found[:-1])
            assert -(2**31) <= int(found) < 2**31, found
            return int(found)
        if found in ("TRUE", "FALSE"):
            return found == "TRUE"
        self.expect("(")
        if found == "typeof":
            name = self.tokens[self.at][1]
            self.at += 1
            self.expect(")")
            return self.row[name][0]
        assert found == "CAST", found
        inner = self.value()
        self.expect("AS")
        self.expect("DOUBLE")
        self.expect(")")
        return float(inner)


def _unescape(body: str) -> str:
    assert "$" not in body
    return re.sub(
        r"\\(u[0-9a-f]{4}|.)",
        lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else m[1],
        body,
        flags=re.DOTALL,
    )


def _both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def _compare(left: Any, operator: str, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if float in (type(left), type(right)):
        left, right = float(left), float(right)
    else:
        # Anything else would make Spark cast, or refuse.
        assert type(left) is type(right), (left, right)
    a, b = _key(left), _key(right)
    found: bool = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]
    return found


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value
