"""Keyword filters: the language by example, its limits, and what it says about mistakes."""

from __future__ import annotations

import time

import msgspec
import pytest

from covey.core.event import Event
from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.parser import decode_keywords, parse_keywords
from covey.errors import FilterError


def product(pairs: int) -> str:
    return " and ".join(f"(a{k} or b{k})" for k in range(pairs))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("nokia", "nokia"),
        ("nokia or motorola", "motorola or nokia"),
        ("phone AND nokia Or watch", "nokia and phone or watch"),
        ("a and (b or c)", "a and b or a and c"),
        ("((a))", "a"),
        ("a or a and b", "a"),
        ("a and a", "a"),
        ("(a or b) and (a or c)", "a or b and c"),
        ("'new york' or york", "'new york' or york"),
        ("'it''s'", "'it''s'"),
        ("'plain'", "plain"),
        ("'and' or 'NOT'", "'NOT' or 'and'"),
        ("'-x' or c++ or #tag or e.g.", "#tag or '-x' or c++ or e.g."),
        ("*", "*"),
        ("a or *", "*"),
        ("a and *", "a"),
        ("ключ and 鍵", "ключ and 鍵"),
        ("a\n\tand\u00a0b", "a and b"),
    ],
)
def test_text_has_one_canonical_form(text: str, canonical: str) -> None:
    keywords = parse_keywords(text)
    assert str(keywords) == canonical
    assert parse_keywords(canonical) == keywords
    assert hash(parse_keywords(canonical)) == hash(keywords)
    assert decode_keywords(keywords.encode()) == keywords


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, ["empty", "for example"]),
        ("   ", 3, ["empty"]),
        ("a and", 5, ["too early", "a word"]),
        ("or a", 0, ["`or` has nothing to join", "'or'"]),
        ("a b", 2, ["without an operator", "single quotes"]),
        ("not a", 0, ["`not`", "only ask for words"]),
        ("a and not b", 6, ["`not`"]),
        ("a && b", 2, ["write `and`"]),
        ("a | b", 2, ["write `or`"]),
        ("a, b", 1, ["write `or`"]),
        ("!a", 0, ["no `not`"]),
        ("-a", 0, ["single quotes"]),
        ('"new york"', 0, ["single quotes"]),
        ("(a or b", 7, ["`)`"]),
        ("a)", 1, ["`)` has no place"]),
        ("()", 1, ["a word"]),
        ("'open", 0, ["does not end"]),
        ("''", 0, ["empty"]),
        ("'a\x00'", 2, ["'\\x00'"]),
        ("a \ud800", 2, ["'\\ud800'"]),
        ("a = b", 2, ["single quotes"]),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, position: int, words: list[str]) -> None:
    with pytest.raises(FilterError) as caught:
        parse_keywords(text)
    assert caught.value.position == position
    line = str(caught.value)
    assert "\n" not in line
    for part in words:
        assert part in line


def test_matching_looks_at_sets_of_words_only() -> None:
    keywords = parse_keywords("nokia and phone")
    assert keywords.matches({"nokia", "phone", "x"})
    assert keywords.matches(frozenset({"nokia", "phone"}))
    assert keywords.matches(Event({"nokia", "phone"}, b"payload"))
    assert not keywords.matches({"Nokia", "phone"})
    for other in ({"nokia": 1, "phone": 1}, ["nokia", "phone"], "nokia phone", None, 7):
        assert not keywords.matches(other)
    assert parse_keywords("*").matches(set())
    assert not keywords.matches(set())


def test_any_of_makes_the_same_filters_without_text() -> None:
    assert KeywordFilter.any_of([["a", "b"], ["c"]]) == parse_keywords("a and b or c")
    assert KeywordFilter.any_of(["new york"]) == parse_keywords("'new york'")
    assert KeywordFilter.any_of([[]]) == parse_keywords("*")
    for wrong in ([], [[""]], [["a\n"]], [["\udfff"]], [[3]], [["x" * 5000]]):
        with pytest.raises(FilterError):
            KeywordFilter.any_of(wrong)  # type: ignore[arg-type]
    with pytest.raises(FilterError, match="65 conjunctions"):
        KeywordFilter.any_of([[f"w{k}"] for k in range(65)])


def test_limits_of_text() -> None:
    assert parse_keywords("a" * 4096).matches({"a" * 4096})
    assert parse_keywords("(" * 32 + "a" + ")" * 32) == parse_keywords("a")
    assert len(parse_keywords(" or ".join(f"w{k}" for k in range(64))).conjunctions) == 64
    assert len(parse_keywords(" and ".join(f"w{k}" for k in range(100))).conjunctions[0]) == 100
    for text, words in [
        ("a" * 4097, "4,097 characters"),
        ("(" * 33 + "a" + ")" * 33, "deeper than 32"),
        (" or ".join(f"w{k}" for k in range(65)), "64 conjunctions"),
        (" and ".join(f"w{k}" for k in range(101)), "200 words and symbols"),
        (product(7), "64 conjunctions"),
    ]:
        with pytest.raises(FilterError, match=words):
            parse_keywords(text)


def test_a_product_of_64_conjunctions_is_written_with_parentheses() -> None:
    keywords = parse_keywords(product(6))
    assert len(keywords.conjunctions) == 64
    assert str(keywords) == product(6)
    assert decode_keywords(keywords.encode()) == keywords


def test_what_cannot_be_written_out_is_refused() -> None:
    # 33 conjunctions of which a0 ties one to the rest, so that no part is without common words.
    with pytest.raises(FilterError, match="too large once it is written out"):
        parse_keywords(f"{product(5)} or a0 and c")


def test_hostile_text_is_answered_quickly() -> None:
    clauses = " or ".join(f"a{k}" for k in range(49))
    for text in [
        "(" * 100_000,
        "a" * 10_000_000,
        "a or " * 800,
        "'" * 4095,
        "' " * 2000,
        f"({clauses}) and ({clauses})",
        f"({product(6)}) and ({product(6)}) and ({product(6)})",
    ]:
        start_s = time.process_time()
        try:
            parse_keywords(text)
        except FilterError as error:
            assert len(str(error)) < 400
        assert time.process_time() - start_s < 0.5


def pack(value: object) -> bytes:
    return b"K" + msgspec.msgpack.encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"K",
        b"A\x90",
        pack([]),
        pack([[""]]),
        pack([["b", "a"]]),
        pack([["a", "a"]]),
        pack([["b"], ["a"]]),
        pack([["a"], ["a"]]),
        pack([["a"], ["a", "b"]]),
        pack([[], ["a"]]),
        pack([["a\x00"]]),
        pack([[1]]),
        pack("a"),
        pack([["a"]]) + b"\x00",
        pack([["a"]])[:-1],
        b"K\xdc\x00\x01\x91\xa1a",
        b"K\xdc\x00\x01\x90",
        b"K\x91\x91\xa3\xed\xa0\x80",
        b"K\x91\x91\xd9\x01a",
        pack([[f"w{k:03}" for k in range(101)]]),
        pack([[f"w{k:03}"] for k in range(65)]),
        pack([["x" * 4097]]),
        pack([["'" * 4000]]),
        b"K" + b"\x91" * 60_000,
        b"K" + b"\x00" * 70_000,
        b"K\xdd\xff\xff\xff\xff",
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FilterError):
        decode_keywords(data)


def test_a_merge_beyond_the_limits_covers_both_and_says_so() -> None:
    left = KeywordFilter.any_of([["common", f"l{k}"] for k in range(40)])
    right = KeywordFilter.any_of([["common", f"r{k}"] for k in range(40)])
    for a, b in [(left, right), (right, left)]:
        merged, exact = a.merge(b)
        assert not exact
        assert merged.covers(left)
        assert merged.covers(right)
        assert merged == left.merge(right).filter
    assert str(left.merge(right).filter) == "common"
    # Words without anything in common leave nothing to ask for.
    singles = [KeywordFilter.any_of([[f"{side}{k}"] for k in range(40)]) for side in "lr"]
    assert str(singles[0].merge(singles[1]).filter) == "*"


def test_a_merge_that_is_too_long_gives_up_words_until_it_fits() -> None:
    left, right = (
        KeywordFilter.any_of([["shared" * 50, side + str(k) + "x" * 300] for k in range(8)]) for side in "lr"
    )
    merged, exact = left.merge(right)
    assert not exact
    assert len(str(merged)) <= 4096
    assert merged.covers(left)
    assert merged.covers(right)


def test_a_merge_of_other_families_is_refused() -> None:
    class Other:
        family = "other"

    with pytest.raises(FilterError, match="other"):
        parse_keywords("a").merge(Other())  # type: ignore[arg-type]
    assert not parse_keywords("a").covers(Other())  # type: ignore[arg-type]
    assert not parse_keywords("a").overlaps(Other())  # type: ignore[arg-type]


def test_a_filter_does_not_change() -> None:
    keywords = parse_keywords("a or b")
    with pytest.raises(AttributeError):
        keywords.conjunctions = ()
    assert repr(keywords) == "<keywords filter: a or b>"
    assert keywords != "a or b"
