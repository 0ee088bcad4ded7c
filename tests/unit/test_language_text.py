"""Canonical text: one way to write each filter."""

from __future__ import annotations

import pytest

from covey.core.attributes import constraint
from covey.core.attributes.filter import AttributeFilter, conjunction
from covey.core.attributes.lexer import KEYWORDS, quote_name
from covey.core.attributes.parser import parse_attributes, parse_tree
from covey.core.attributes.syntax import Comparison

CANONICAL = [
    ("symbol = 'IBM' and price between 10 and 20", "price BETWEEN 10 AND 20 AND symbol = 'IBM'"),
    ("true", "TRUE"),
    ("a = 1 and a = 2", "FALSE"),
    ("a is null or a is not null", "TRUE"),
    # single values
    ("a = 1.0", "a = 1"),
    ("a = -0.0", "a = 0"),
    ("a = 1e3", "a = 1000"),
    ("a = 1e300", "a = 1e+300"),
    ("a = 0.1", "a = 0.1"),
    ("a in (3, 1, 2, 1)", "a IN (1, 2, 3)"),
    ("a = true or a = 'x' or a = 2", "a IN (2, 'x', TRUE)"),
    ("a in (true, false)", "a IN (FALSE, TRUE)"),
    ("a = 'it''s'", "a = 'it''s'"),
    # ranges
    ("a >= 1 and a <= 5", "a BETWEEN 1 AND 5"),
    ("a > 1 and a <= 5", "a > 1 AND a <= 5"),
    ("a between 1 and 5 or a between 4 and 9", "a BETWEEN 1 AND 9"),
    ("a < 5 or a > 7", "a NOT BETWEEN 5 AND 7"),
    ("a <= 5 or a > 7", "a <= 5 OR a > 7"),
    ("a < 5 or a > 5", "a <> 5"),
    ("a <> 2 and not a = 1", "a NOT IN (1, 2)"),
    ("a between 1 and 9 and a <> 3 and a <> 5", "a BETWEEN 1 AND 9 AND a NOT IN (3, 5)"),
    ("a < 9 and a <> 3", "a < 9 AND a <> 3"),
    ("a < 5 or a >= 3", "a <= 0 OR a > 0"),
    ("a = 1 or a > 5", "a = 1 OR a > 5"),
    # strings
    ("a >= 'b' and a < 'c'", "a LIKE 'b%'"),
    ("a like 'ab%'", "a LIKE 'ab%'"),
    ("a not like 'ab%'", "a NOT LIKE 'ab%'"),
    ("a like 'abc'", "a = 'abc'"),
    ("a like '50!%%' escape '!'", "a LIKE '50\\%%' ESCAPE '\\'"),
    ("a like '%%_x'", "a LIKE '_%x'"),
    ("a like '%x%' and a like 'a%'", "a LIKE 'a%' AND a LIKE '%x%'"),
    ("a like '%'", "a LIKE '%'"),
    ("a >= ''", "a LIKE '%'"),
    ("a > ''", "a > ''"),
    ("a between 'a' and 'b'", "a BETWEEN 'a' AND 'b'"),
    ("a > 'a' and a < 'b' and a not like '%z'", "a > 'a' AND a < 'b' AND a NOT LIKE '%z'"),
    # presence
    ("exists a", "a IS NOT NULL"),
    ("not exists a", "a IS NULL"),
    ("a is null or a > 5", "a > 5 OR a IS NULL"),
    ("a is null or a in (1, 2)", "a IN (1, 2) OR a IS NULL"),
    # joined
    ("b = 1 or a = 1", "a = 1 OR b = 1"),
    ("(a = 1 or b = 1) and c = 1", "a = 1 AND c = 1 OR b = 1 AND c = 1"),
    ("(a < 1 or a = 5) and b = 1", "(a = 5 OR a < 1) AND b = 1"),
    ("a = 1 and b = 1 or a = 2 and b = 1", "a IN (1, 2) AND b = 1"),
    ("a = 1 or a = 1 and b = 2", "a = 1"),
    ("not (a = 1 or b > 2)", "a <> 1 AND b <= 2"),
    # names
    ('"a b" = 1', '"a b" = 1'),
    ('"a"."b" = 1', "a.b = 1"),
    ('a."b c" = 1', '"a.b c" = 1'),
    ('"in" = 1', '"in" = 1'),
]


@pytest.mark.parametrize(("written", "canonical"), CANONICAL)
def test_canonical_text(written: str, canonical: str) -> None:
    assert str(parse_attributes(written)) == canonical


@pytest.mark.parametrize("canonical", sorted({canonical for _, canonical in CANONICAL}))
def test_canonical_text_stays(canonical: str) -> None:
    assert str(parse_attributes(canonical)) == canonical


@pytest.mark.parametrize(
    "name", [*sorted(KEYWORDS), "and", "1a", "a-b", "a..b", ".a", "a.", "a.1", 'say "x"', " ", "\n"]
)
def test_names_that_need_quotes_get_them(name: str) -> None:
    assert quote_name(name).startswith('"')
    assert parse_tree(f"{quote_name(name)} = 1") == Comparison(name, "=", 1)


@pytest.mark.parametrize(
    "items",
    [
        [("a", "in", list(range(0, 512, 2))), ("b", "not in", list(range(0, 512, 2)))],
        [("a", "like", "%" * 5 + "\\")],
        [("a", "=", "x" * 4096)],
        [("a", ">", "x" * 4096)],
        [("a", "like", "!%" * 120 + "%")],
        [("a", "like", ("!%" * 120 + "%", "!"))],
        [("a", "like", "%" + "\\" * 255), ("b", "not like", "\\" * 255 + "%")],
        [("a", ">=", "x" * 256), ("a", "<", "x" * 255 + "y")],
        [("a" * 256, "exists"), ("b" * 256, "is null")],
        [("a", "<", -(2**63)), ("b", ">=", 2**63 - 1), ("c", "<=", 5e-324)],
        [("a", ">", "\U0010ffff"), ("b", "like", "\U0010ffff%"), ("c", "like", "\ud7ff%")],
        [("a", "<>", ""), ("b", "<>", "\0"), ("c", "in", ["", "\0", "\0\0", "b"])],
    ],
)
def test_what_no_hand_would_write_still_comes_back(items: list[tuple[str, str]]) -> None:
    filter = conjunction(items)
    assert parse_attributes(str(filter)) == filter


def test_lists_longer_than_the_limit_are_written_as_several() -> None:
    values = [constraint.within(range(start, start + 200, 2)) for start in range(0, 1000, 200)]
    filter = AttributeFilter.any_of([AttributeFilter.of("a", value) for value in values])
    assert str(filter).count(" IN (") == 2
    assert parse_attributes(str(filter)) == filter
    holes = AttributeFilter.all_of(
        [
            AttributeFilter.of("a", constraint.not_within(range(start, start + 200, 2)))
            for start in (0, 200, 400)
        ]
    )
    assert str(holes).count(" NOT IN (") == 2
    assert parse_attributes(str(holes)) == holes
