"""LIKE patterns against the plainest recursive definition, and pairs of patterns against enumerated strings."""

from __future__ import annotations

from functools import cache
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.core.attributes import strings
from covey.core.attributes.like import (
    like,
    outline,
    parse_pattern,
    pattern_contains,
    pattern_text,
    patterns_intersect,
    prepare,
)

PATTERN = st.text(alphabet="ab%%_", max_size=7)
TEXT = st.text(alphabet="abc", max_size=9)
# Long enough for a counterexample to short patterns: one letter that no pattern has among them.
SHORT_TEXTS = ["".join(letters) for size in range(6) for letters in product("abc", repeat=size)]


def canonical(pattern: str, escape: str | None = None) -> str:
    return pattern_text(parse_pattern(pattern, escape))


def oracle(text: str, pattern: str) -> bool:
    @cache
    def rest(i: int, j: int) -> bool:
        if j == len(pattern):
            return i == len(text)
        if pattern[j] == "%":
            return rest(i, j + 1) or (i < len(text) and rest(i + 1, j))
        return i < len(text) and pattern[j] in ("_", text[i]) and rest(i + 1, j + 1)

    return rest(0, 0)


@given(TEXT, PATTERN)
@settings(max_examples=500)
def test_like_agrees_with_the_recursive_definition(text: str, pattern: str) -> None:
    assert like(text, canonical(pattern)) == oracle(text, pattern)


@given(st.lists(st.sampled_from(("a", "b", "ab", "a_b", "_")), min_size=1, max_size=4), st.integers(0, 60))
def test_like_agrees_where_pieces_are_found_falsely_many_times(pieces: list[str], size: int) -> None:
    pattern = "%" + "%".join(pieces) + "_b%"
    text = "a" * size + "ab" * (size // 7) + "b" * (size % 2)
    assert like(text, canonical(pattern)) == oracle(text, pattern)


@given(PATTERN, TEXT)
def test_canonical_form_is_stable_and_keeps_its_meaning(pattern: str, text: str) -> None:
    once = canonical(pattern)
    assert canonical(once, "\\") == once
    assert oracle(text, pattern) == like(text, once)
    assert "%%" not in once
    assert "%_" not in once


@given(st.text(alphabet="a%_\\!", max_size=6))
def test_escaped_text_matches_only_itself(text: str) -> None:
    escaped = "".join("!" + c if c in "%_!" else c for c in text)
    pattern = canonical(escaped, "!")
    assert like(text, pattern)
    assert not like(text + "a", pattern)
    assert strings.like_strings(escaped, "!") == (((0, text), (0, text + "\0")), (), ())


@given(PATTERN, PATTERN)
@settings(max_examples=300)
def test_containment_is_sound(outer: str, inner: str) -> None:
    outer, inner = canonical(outer), canonical(inner)
    if pattern_contains(prepare(outer), prepare(inner).tokens):
        assert all(like(text, outer) for text in SHORT_TEXTS if like(text, inner))


@given(PATTERN)
def test_containment_is_reflexive_and_everything_is_in_percent(pattern: str) -> None:
    pattern = canonical(pattern)
    assert pattern_contains(prepare(pattern), prepare(pattern).tokens)
    assert pattern_contains(prepare("%"), prepare(pattern).tokens)


@given(PATTERN, PATTERN, PATTERN)
@settings(max_examples=1000)
def test_containment_is_transitive(a: str, b: str, c: str) -> None:
    a, b, c = canonical(a), canonical(b), canonical(c)
    if pattern_contains(prepare(a), prepare(b).tokens) and pattern_contains(prepare(b), prepare(c).tokens):
        assert pattern_contains(prepare(a), prepare(c).tokens)


@given(PATTERN, TEXT)
def test_containment_of_a_plain_string_is_matching(pattern: str, text: str) -> None:
    assert pattern_contains(prepare(canonical(pattern)), tuple(text)) == like(text, canonical(pattern))


@given(st.text(alphabet="ab%_", max_size=4), st.text(alphabet="ab%_", max_size=4))
@settings(max_examples=300)
def test_intersection_is_exact_and_symmetric(a: str, b: str) -> None:
    a, b = canonical(a), canonical(b)
    found = patterns_intersect(prepare(a), prepare(b).tokens)
    assert found == patterns_intersect(prepare(b), prepare(a).tokens)
    longest = len(a) + len(b)
    common = any(
        like(text, a) and like(text, b)
        for size in range(longest + 1)
        for text in map("".join, product("ab", repeat=size))
    )
    assert found == common


def test_containment_is_complete_for_short_patterns() -> None:
    patterns = {canonical("".join(p)) for size in range(4) for p in product("ab%_", repeat=size)}
    texts = ["".join(letters) for size in range(7) for letters in product("abc", repeat=size)]
    matched = {p: {text for text in texts if like(text, p)} for p in sorted(patterns)}
    for outer, wide in matched.items():
        for inner, narrow in matched.items():
            assert pattern_contains(prepare(outer), prepare(inner).tokens) == (narrow <= wide)


@given(st.text(alphabet="ab%_\\é", max_size=7))
def test_the_outline_is_that_of_the_prepared_pattern(text: str) -> None:
    prepared = prepare(canonical(text))
    letters = 0
    for character in prepared.accepts:
        letters |= 1 << (ord(character) & 63)
    assert outline(canonical(text)) == (prepared.least_length, letters)
