"""How text is read: tokens, precedence, names, literals; docs/filters.md numbers the rules."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.attributes.filter import conjunction
from covey.core.attributes.parser import parse_attributes, parse_tree
from covey.core.attributes.syntax import And, Between, Comparison, Like, Literal, Not, Null, Or, Truth, Within


def eq(name: str, value: Literal = 1) -> Comparison:
    return Comparison(name, "=", value)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1 OR b = 1 AND c = 1", Or((eq("a"), And((eq("b"), eq("c")))))),
        ("a = 1 AND b = 1 OR c = 1", Or((And((eq("a"), eq("b"))), eq("c")))),
        ("(a = 1 OR b = 1) AND c = 1", And((Or((eq("a"), eq("b"))), eq("c")))),
        ("NOT a = 1 AND b = 1", And((Not(eq("a")), eq("b")))),
        ("NOT (a = 1 AND b = 1)", Not(And((eq("a"), eq("b"))))),
        ("NOT NOT a = 1", Not(Not(eq("a")))),
        ("((a = 1))", eq("a")),
        ("a BETWEEN 1 AND 2 AND b = 1", And((Between("a", 1, 2, False), eq("b")))),
        ("a NOT BETWEEN 'x' AND 'y'", Between("a", "x", "y", True)),
        ("a NOT IN (1, 'x', TRUE)", Within("a", (1, "x", True), True)),
        ("a not like 'x!_' escape '!'", Like("a", "x!_", "!", True)),
        ("a is null or b Is Not Null", Or((Null("a", False), Null("b", True)))),
        ("EXISTS a AND exists (b)", And((Null("a", True), Null("b", True)))),
        ("TRUE OR NOT false", Or((Truth(True), Not(Truth(False))))),
        ("a!=1", Comparison("a", "<>", 1)),
        ("a<-1", Comparison("a", "<", -1)),
    ],
)
def test_precedence_and_forms(text: str, tree: Any) -> None:
    found = parse_tree(text)
    assert found == tree
    assert repr(found) == repr(tree)  # tuples of different classes can be equal


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("0005", 5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("-.5e+1", -5.0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1e-400", 0.0),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'line\nend\t\0'", "line\nend\t\0"),
        ("'\"AND\" \\ -- %'", '"AND" \\ -- %'),
        ("'🐦'", "🐦"),
        ("true", True),
        ("False", False),
    ],
)
def test_literals(written: str, value: Literal) -> None:
    tree = parse_tree(f"a = {written}")
    assert isinstance(tree, Comparison)
    assert tree.value == value
    assert type(tree.value) is type(value)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a", "a"),
        ("_a1$", "_a1$"),
        ("$", "$"),
        ("größe", "größe"),
        ("a.b.c", "a.b.c"),
        ("order.in.not", "order.in.not"),
        ('"a"', "a"),
        ('"a b"', "a b"),
        ('"a ""b"""', 'a "b"'),
        ('"a.b"', "a.b"),
        ('"in"', "in"),
        ('a."b c".d', "a.b c.d"),
        ('"a"."b"', "a.b"),
        ("n" * 256, "n" * 256),
        ("ﬁn", "ﬁn"),
        ("ıN", "ıN"),
    ],
)
def test_names(written: str, name: str) -> None:
    assert parse_tree(f"{written} = 1") == eq(name)


def test_names_are_case_sensitive_and_keywords_are_not() -> None:
    assert parse_attributes("A = 1") != parse_attributes("a = 1")
    assert parse_attributes("a BeTwEeN 1 aNd 2") == parse_attributes("a between 1 and 2")


def test_text_and_items_make_the_same_filter() -> None:
    text = "symbol = 'IBM' and price between 10 and 20 and a is null and exists b"
    text += " and c not like 'x!%' escape '!'"
    items = [
        ("symbol", "=", "IBM"),
        ("price", "between", (10, 20)),
        ("a", "is null"),
        ("b", "exists"),
        ("c", "not like", ("x!%", "!")),
    ]
    assert parse_attributes(text) == conjunction(items)


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("a <> 5", [{"a": 6}, {"a": 5.5}], [{"a": 5}, {}, {"a": "5"}, {"a": True}, {"a": float("nan")}]),
        ("NOT a = 5", [{"a": 6}], [{"a": 5}, {}, {"a": None}, {"a": "x"}]),
        ("a BETWEEN 5 AND 1", [], [{"a": 3}, {"a": 5}]),
        ("a NOT BETWEEN 5 AND 1", [{"a": 3}], [{"a": "x"}, {}]),
        ("a NOT IN (1, 'x')", [], [{"a": 2}, {"a": "y"}, {"a": True}, {}]),
        ("a IN (1, 'x', TRUE)", [{"a": 1}, {"a": 1.0}, {"a": "x"}, {"a": True}], [{"a": False}, {"a": "1"}]),
        ("a = 1", [{"a": 1}, {"a": 1.0}], [{"a": True}]),
        ("a > 9007199254740992", [{"a": 2**53 + 1}, {"a": float("inf")}], [{"a": 2.0**53}]),
        ("a > 'B'", [{"a": "a"}, {"a": "Ba"}], [{"a": "B"}, {"a": "A"}, {"a": 5}]),
        ("a IS NULL", [{}, {"a": None}, {"a": {"b": 1}}], [{"a": 0}, {"a": []}]),
        ("a IS NOT NULL", [{"a": 0}, {"a": []}, {"a": float("nan")}], [{}, {"a": None}]),
        ("a.b = 1", [{"a": {"b": 1}}, {"a.b": 1}], [{"a": 1}]),
        ("TRUE", [{}, {"a": 1}], []),
        ("FALSE", [], [{}, {"a": 1}]),
        ("a LIKE 'a_%'", [{"a": "ab"}, {"a": "abc"}], [{"a": "a"}, {"a": "A_"}, {"a": 5}]),
        ("a LIKE '100\\%' ESCAPE '\\'", [{"a": "100%"}], [{"a": "1000"}, {"a": "100\\"}]),
        ("a LIKE '\\%'", [{"a": "\\x"}, {"a": "\\"}], [{"a": "%"}]),
    ],
)
def test_meaning(text: str, matching: list[Any], others: list[Any]) -> None:
    filter = parse_attributes(text)
    assert [event for event in matching if not filter.matches(event)] == []
    assert [event for event in others if filter.matches(event)] == []
