"""Limits: what is refused, what is just accepted, and that hostile text costs little."""

from __future__ import annotations

import time

import pytest

from covey.core.attributes.constraint import MAX_IN_VALUES
from covey.core.attributes.parser import (
    MAX_CANONICAL_CHARACTERS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_TOKENS,
    parse_attributes,
    parse_tree,
)
from covey.errors import FilterError

USUAL = "symbol = 'IBM' AND price BETWEEN 10 AND 20 AND volume >= 1000"
SLOWER = 12  # times the time of usual text, for each character, that no text may take


def distributed(factors: int, tail: str = "") -> str:
    return " AND ".join(f"(a{k} = 1 OR b{k} = 1)" for k in range(factors)) + tail


def test_characters() -> None:
    parse_attributes("a = 1".ljust(MAX_CHARACTERS))
    with pytest.raises(
        FilterError, match="4,097 characters passes the limit at character 4097; expected at most 4,096"
    ):
        parse_attributes("a = 1".ljust(MAX_CHARACTERS + 1))


def test_tokens() -> None:
    fifty = " OR ".join(f"a = {k}" for k in range(MAX_TOKENS // 4))
    parse_attributes(fifty)
    too_many = fifty + " OR a = 99 OR a = 98"
    with pytest.raises(FilterError, match="more than 200 tokens") as caught:
        parse_attributes(too_many)
    assert caught.value.position == too_many.index("a = 99")


def test_a_list_counts_as_one_token() -> None:
    listed = f"a IN ({', '.join(map(str, range(MAX_IN_VALUES)))})"
    parse_attributes(" OR ".join([listed] * 3 + ["b = 1"] * 40))


def test_list_values() -> None:
    with pytest.raises(FilterError, match="more than 256 values"):
        parse_attributes(f"a IN ({', '.join(map(str, range(MAX_IN_VALUES + 1)))})")


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("NOT ", ""), ("NOT (", ")")])
def test_depth(opening: str, closing: str) -> None:
    levels = MAX_DEPTH // (2 if opening == "NOT (" else 1)
    parse_attributes(opening * levels + "a = 1" + closing * levels)
    with pytest.raises(FilterError, match="deeper than 32 levels"):
        parse_attributes(opening * (levels + 1) + "a = 1" + closing * (levels + 1))


def test_conjunctions() -> None:
    assert len(parse_attributes(distributed(6)).conjunctions) == 64
    with pytest.raises(FilterError, match="conjunctions"):
        parse_attributes(distributed(7))


def test_canonical_text_may_be_longer_than_text_by_hand() -> None:
    filter = parse_attributes(distributed(6, " AND symbol = 'International Business Machines'"))
    text = str(filter)
    assert len(text) > MAX_CHARACTERS
    assert parse_attributes(text) == filter
    for not_canonical in (text + " ", text.replace("a0 = 1", "a0=1 "), text.lower(), f"({text})", text[:-1]):
        with pytest.raises(FilterError, match="expected at most 4,096"):
            parse_attributes(not_canonical)
    with pytest.raises(FilterError, match="expected at most 4,096"):
        parse_tree(text)


def test_canonical_text_may_have_more_tokens_than_text_by_hand() -> None:
    filter = parse_attributes(distributed(5))
    assert len(str(filter)) < MAX_CHARACTERS
    assert parse_attributes(str(filter)) == filter
    with pytest.raises(FilterError, match="more than 200 tokens"):
        parse_attributes(str(filter).lower())


def test_a_normal_form_too_long_to_write_is_refused() -> None:
    listed = ", ".join(str(k) for k in range(10**9, 10**9 + 100))
    with pytest.raises(FilterError, match="normal form takes") as caught:
        parse_attributes(distributed(6, f" AND x IN ({listed})"))
    assert f"{MAX_CANONICAL_CHARACTERS:,}" in (caught.value.expected or "")


HOSTILE = {
    "parentheses": "(" * 100_000 + "a = 1" + ")" * 100_000,
    "open parentheses": "(" * MAX_CHARACTERS,
    "open parentheses, longer": "(" * MAX_CANONICAL_CHARACTERS,
    "ten megabytes": "a = 1 AND " * 1_000_000,
    "a string of ten megabytes": f"a = '{'x' * 10_000_000}'",
    "NOTs": "NOT " * 1000 + "a = 1",
    "spaces": " " * MAX_CANONICAL_CHARACTERS,
    "quotes": "'" * (MAX_CHARACTERS - 1),
    "double quotes": '"' * (MAX_CHARACTERS - 1),
    "dots": "a" + ".a" * 2000 + ".",
    "a LIKE bomb": f"a LIKE '{'%a' * 120}'",
    "LIKE bombs": " AND ".join(f"a LIKE '{'%a_b' * 50}{k}'" for k in range(15)),
    "LIKE bombs, negated": " AND ".join(f"a NOT LIKE '{'%_a' * 30}%{k}%'" for k in range(12)),
    "LIKE bombs, joined": " OR ".join(f"a LIKE '{'%a_b' * 40}%{k}%'" for k in range(20)),
    "many LIKEs": " OR ".join(f"a LIKE '%{k}%'" for k in range(800)),
    "digits": "a = " + "9" * 4000,
    "digits of a float": "a = " + "9" * 4000 + ".5",
    "an exponent": "a = 1e" + "9" * 4000,
    "a surrogate": "a = '\ud800'",
    "an AND of ORs": distributed(20),
    "an AND of long ORs": " AND ".join(
        ["(" + " OR ".join(f"a{k} = {n}" for k in range(12)) + ")" for n in range(4)]
    ),
    "an AND of ranges": " AND ".join(f"(a > {k} OR b < {k})" for k in range(20)),
    "an OR of everything": " OR ".join(f"a{k} = {k}" for k in range(50)),
    "an OR of values, longer": " OR ".join(f"a = {k}" for k in range(1400)),
    "ranges, longer": " OR ".join(f"a BETWEEN {2 * k} AND {2 * k}.5" for k in range(580)),
    "an AND of ORs, longer": distributed(580),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_is_refused_or_answered_quickly(case: str) -> None:
    text = HOSTILE[case]
    usual_s = min(_duration(USUAL) for _ in range(200)) / len(USUAL)  # a slow machine is slow with both
    fastest_s = min(_duration(text) for _ in range(3))
    assert fastest_s < SLOWER * usual_s * max(len(text), MAX_CHARACTERS)


def _duration(text: str) -> float:
    start = time.process_time()  # a busy machine says nothing about the text
    try:
        parse_attributes(text)
    except FilterError as error:
        assert str(error).isprintable()
        assert len(str(error)) < 500
    return time.process_time() - start


def test_usual_text_parses_quickly() -> None:
    fastest = min(_duration(USUAL) for _ in range(200))
    assert fastest < 200e-6
