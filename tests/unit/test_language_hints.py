"""Every hint about the text of a filter is provoked and followed: the text that it leads to is a filter.

The hints are collected from the sources: one that no text here provokes fails, so that one that none can is noticed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.test_hints import template

import covey
from covey.core.attributes.normalise import MAX_TERMS, to_filter
from covey.core.attributes.parser import parse_attributes
from covey.core.attributes.sql import to_spark_sql
from covey.core.attributes.syntax import Like, Or
from covey.core.keywords.filter import KeywordFilter
from covey.errors import FilterError

ROOT = Path(__file__).parents[2] / "src/covey"
SOURCES = [*sorted((ROOT / "core").rglob("*.py")), ROOT / "matching/index.py"]
SOURCES.remove(ROOT / "core/content.py")  # about events: test_hints.py
TABLES = re.compile(r"hint$|_HINT|_HABITS$")

# A text that people write, and the one that the hint leads to.
ATTRIBUTES = [
    # what the language leaves out
    ("a = b", "a = 'b'"),
    ("a = 3 -1", "a = 2"),
    ("a = 1 + 1", "a = 2"),
    ("a = - 5", "a = -5"),
    ("upper(a) = 'X'", "a = 'X'"),
    ("a = upper('x')", "a = 'X'"),
    ("a > 1 < 5", "a > 1 AND a < 5"),
    ("a > 1 < 5", "a BETWEEN 1 AND 5"),
    ("active", "active = TRUE"),
    ("5 < a", "a > 5"),
    ("1 <= 2", "a <= 2"),
    ("TRUE = a", "a = TRUE"),
    ("a = ?", "a = 1"),
    ("a = :x", "a = 'x'"),
    ("a = 1 -- why", "a = 1"),
    ("a = /* why */ 1", "a = 1"),
    ("a = NaN", "a > 5"),
    ("a > -inf", "a > -5"),
    # habits from other languages
    ("a == 5", "a = 5"),
    ("a = 1 && b = 2", "a = 1 AND b = 2"),
    ("a = 1 || b = 2", "a = 1 OR b = 2"),
    ("a = 1 & b = 2", "a = 1 AND b = 2"),
    ("a = 1 | b = 2", "a = 1 OR b = 2"),
    ("!(a = 1)", "NOT (a = 1)"),
    ("a => 5", "a >= 5"),
    ("`a` = 1", '"a" = 1'),
    ("a = `IBM`", "a = 'IBM'"),
    ("a IN [1, 2, 3]", "a IN (1, 2, 3)"),
    ("a = 1;", "a = 1"),
    ('symbol = "IBM"', "symbol = 'IBM'"),
    ("symbol = ‘IBM’", "symbol = 'IBM'"),
    ("a\u00a0= 1", "a = 1"),
    ("a # b", '"a # b" = 1'),
    ("a = NULL", "a IS NULL"),
    ("a IS TRUE", "a = TRUE"),
    ("a NOT = 5", "NOT a = 5"),
    ("WHERE a = 1", "a = 1"),
    ("a = 1 ORDER BY b", "a = 1"),
    ("a contains 'x'", "a LIKE '%x%'"),
    ("a = 1 b = 2", "a = 1 AND b = 2"),
    ("a = (5)", "a = 5"),
    ("in = 5", '"in" = 5'),
    ("a.5 = 1", 'a."5" = 1'),
    ("2nd = 1", '"2nd" = 1'),
    ("a. b = 1", "a.b = 1"),
    # values
    ("a = 9223372036854775808", "a = 9.3e18"),
    ("a < TRUE", "a = TRUE"),
    ("a BETWEEN 1 AND 'x'", "a BETWEEN 'a' AND 'x'"),
    ("a BETWEEN FALSE AND TRUE", "a = FALSE OR a = TRUE"),
    ("a LIKE 5", "a LIKE '5%'"),
    ("a LIKE '5!%' ESCAPE 5", "a LIKE '5!%' ESCAPE '!'"),
    ("a LIKE '5!x' ESCAPE '!'", r"a LIKE '5\%' ESCAPE '\'"),
    (f"a LIKE '{'x' * 257}'", f"a LIKE '{'x' * 100}%'"),
    ("a = 1 ESCAPE 'x'", "a LIKE 'x%%' ESCAPE 'x'"),
    ('a = ""', "a = ''"),
    ("a = 'it's'", "a = 'it''s'"),
    ('a = "text', "a = 'text'"),
    # what is missing or too much
    ("", "TRUE"),
    ("(a = 1", "(a = 1)"),
    ("a = 1)", "a = 1"),
    ("()", "(a = 1)"),
    ("a IN (1,)", "a IN (1)"),
    ("a IN 1", "a IN (1)"),
    ("a IN (1 2)", "a IN (1, 2)"),
    ("a BETWEEN 1 OR 5", "a BETWEEN 1 AND 5"),
    ("EXISTS 'a'", "EXISTS a"),
    ("EXISTS (a", "EXISTS (a)"),
    (" OR ".join(f"a = {i}" for i in range(99)), f"a IN ({', '.join(map(str, range(99)))})"),
    (f"a = '{'x' * 5_000}'", f"a = '{'x' * 2_500}'"),
    (" AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(20)), "(a1 = 1 OR b1 = 1) AND (a2 = 1 OR b2 = 1)"),
    (" AND ".join(f"({'a' * 70}{i} = '{'b' * 70}' OR {'c' * 70}{i} = 1)" for i in range(6)), f"{'a' * 70}1 = 1"),
]  # fmt: skip
XPATH = [
    ("news//item", "/news//item"),
    ("///a", "//a"),
    ("/a/..", "/a"),
    ("/a/./b", "/a[.//b]"),
    ("/a/[b]", "/a/*[b]"),
    ("/a[b='x']", "/a/b[@c='x']"),
    ("/a[@b=5]", "/a[@b='5']"),
    ("/a[@b=c]", "/a[@b='c']"),
    ("/a[/b]", "/a[.//b]"),
    ("/a[//b]", "/a[b]"),
    ("/a[b//@c]", "/a[b//*[@c]]"),
    ("/a[.//@c]", "/a[.//*[@c]]"),
    ("/a[@b='x", "/a[@b='x']"),
    ('/a[@b="x', '/a[@b="x"]'),
    ("/a[text()]", "/a"),
    ("/a|/b", "/b"),
    ("/a[@b!='x']", "/a[@b='x']"),
    ("/a[@b<'x']", "/a[@b='x']"),
    ("/a[@b>'x']", "/a[@b='x']"),
    ("/1st", "/first"),
    ("/child::a", "/a"),
    ("/a/@b='v'", "/a[@b='v']"),
    ("/a[@x='1'][@x='2']", "/a[@x='1']"),
]
KEYWORDS = [
    ("", "nokia and (phone or watch)"),
    ("a & b", "a and b"),
    ("a | b", "a or b"),
    ("a, b", "a or b"),
    ("!a", "a"),
    ('"new york"', "'new york'"),
    ("`new york`", "'new york'"),
    ("-5", "'-5'"),
    ("+5", "'+5'"),
    ("a = b", "'a = b'"),
    ("new york", "'new york'"),
    ("new york", "new and york"),
    ("not a", "'not'"),
    ("and a", "'and'"),
    ("'new york", "'new york'"),
    (" and ".join(f"(a{i} or b{i})" for i in range(8)), " and ".join(f"(a{i} or b{i})" for i in range(4))),
    (" and ".join(f"({one * 300} or {two * 300})" for one, two in zip("abcde", "bcdef", strict=True)), "a or b"),
]  # fmt: skip
PAIRS = [
    *(("attributes", *pair) for pair in ATTRIBUTES),
    *(("xpath", *pair) for pair in XPATH),
    *(("keywords", *pair) for pair in KEYWORDS),
]
LIKES = tuple(Like("a", f"{i}%x", None, negated=False) for i in range(MAX_TERMS + 1))
CALLS: list[tuple[Callable[[], object], Callable[[], object]]] = [
    (lambda: covey.conjunction([("a", "=", None)]), lambda: covey.conjunction([("a", "IS NULL")])),
    (lambda: covey.conjunction([("a", "=", 10**30)]), lambda: covey.conjunction([("a", "=", 1e30)])),
    (lambda: to_filter(Or(LIKES)), lambda: to_filter(Or(LIKES[:2]))),
    (
        lambda: to_spark_sql(parse_attributes("a = 1 OR a = 'x'")),
        lambda: to_spark_sql(parse_attributes("a = 1 OR a = 'x'"), schema={"a": "number"}),
    ),
    (
        lambda: to_spark_sql(parse_attributes('"a." = 1')),
        lambda: to_spark_sql(parse_attributes('"a." = 1'), flat=True),
    ),
    (
        lambda: KeywordFilter.any_of([["w" * 200 + str(i)] for i in range(60)]),
        lambda: KeywordFilter.any_of([["w" * 200 + str(i)] for i in range(5)]),
    ),
    (
        lambda: covey.Index().add_batch(["k"], ["a = 1"]),  # type: ignore[list-item]
        lambda: covey.Index().add_batch(["k"], [covey.parse("a = 1")]),
    ),
]


@pytest.mark.parametrize(("language", "wrong", "right"), PAIRS)
def test_a_hint_leads_to_a_filter(language: str, wrong: str, right: str) -> None:
    with pytest.raises(FilterError) as caught:
        covey.parse(wrong, language)
    assert caught.value.hint
    covey.parse(right, language)


@pytest.mark.parametrize(("wrong", "right"), CALLS)
def test_a_hint_leads_to_a_call(wrong: Callable[[], object], right: Callable[[], object]) -> None:
    with pytest.raises(FilterError) as caught:
        wrong()
    assert caught.value.hint
    right()


def test_every_hint_is_provoked() -> None:
    said = set()
    for call in [
        *(lambda pair=pair: covey.parse(pair[1], pair[0]) for pair in PAIRS),
        *(one for one, _ in CALLS),
    ]:
        with pytest.raises(FilterError) as caught:
            call()
        assert caught.value.hint is not None
        said.add(caught.value.hint)
    written = dict(hints())
    unprovoked = {
        hint: place
        for hint, place in written.items()
        if not any(pattern(hint).fullmatch(one) for one in said)
    }
    assert unprovoked == {}
    unknown = {one for one in said if not any(pattern(hint).fullmatch(one) for hint in written)}
    assert unknown == set(), "hints that are written in a way that is not looked for here"


def pattern(hint: str) -> re.Pattern[str]:
    """Return what a hint may read with anything for its {expressions}."""
    return re.compile(".*".join(map(re.escape, re.split(r"\{.*?\}(?!\})", hint))), re.DOTALL)


def hints() -> Iterator[tuple[str, str]]:
    """Return the hints that are written in the sources of languages, with their places."""
    for file in SOURCES:
        for one in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for value in places(one):
                for text in texts(value):
                    yield text, f"{file.name}:{value.lineno}"


def places(one: ast.AST) -> Iterator[ast.expr]:
    """Return the expressions of a node that are hints."""
    if isinstance(one, ast.Call):
        yield from (word.value for word in one.keywords if word.arg == "hint")
        called = one.func.attr if isinstance(one.func, ast.Attribute) else getattr(one.func, "id", "")
        if called in ("take", "string", "unexpected") and one.args:
            yield one.args[-1]
    elif isinstance(one, ast.Assign | ast.AnnAssign):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        if one.value is not None and any(TABLES.search(getattr(to, "id", "")) for to in targets):
            yield one.value
    elif isinstance(one, ast.FunctionDef) and re.match("_diagnose|_attribute_first", one.name):
        for inner in ast.walk(one):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield inner.value.elts[-1] if isinstance(inner.value, ast.Tuple) else inner.value


def texts(value: ast.expr) -> Iterator[str]:
    """Return the texts that an expression may be: of tables, the last column."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.JoinedStr):
        yield template(value)
    elif isinstance(value, ast.IfExp):
        yield from (text for one in (value.body, value.orelse) for text in texts(one))
    elif isinstance(value, ast.BoolOp | ast.Dict):
        yield from (text for one in value.values for text in texts(one))
    elif isinstance(value, ast.Tuple) and all(isinstance(row, ast.Tuple) for row in value.elts):
        yield from (text for row in value.elts if isinstance(row, ast.Tuple) for text in texts(row.elts[-1]))
    elif isinstance(value, ast.Call) and value.args and getattr(value.func, "attr", "") == "fromkeys":
        yield from texts(value.args[-1])
