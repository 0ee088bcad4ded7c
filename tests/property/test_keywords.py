"""Keyword filters against brute force: over five words there are 32 documents, and they decide everything."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import example, given
from hypothesis import strategies as st

from covey.core.keywords.factoring import alternatives, factors
from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.normal import minimal_masks
from covey.core.keywords.parser import decode_keywords, parse_keywords
from covey.core.keywords.text import MAX_TOKENS, is_word
from covey.errors import FilterError

WORDS = "abcde"
DOCUMENTS = [
    frozenset(words)
    for words in chain.from_iterable(combinations(WORDS, size) for size in range(len(WORDS) + 1))
]

filters = st.lists(st.sets(st.sampled_from(WORDS)), min_size=1, max_size=5).map(KeywordFilter.any_of)
any_words = st.text(min_size=1, max_size=6).filter(is_word)
any_filters = st.lists(st.sets(any_words, min_size=1, max_size=4), min_size=1, max_size=6).map(
    KeywordFilter.any_of
)

# A formula as nested tuples, so that its text and its meaning are made from it without each other's help.
formulas = st.recursive(
    st.sampled_from([*WORDS, "*"]),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=10,
)


def extension(keywords: KeywordFilter) -> list[bool]:
    return [keywords.matches(document) for document in DOCUMENTS]


def write(formula: str | tuple[str, object, object]) -> str:
    if isinstance(formula, str):
        return formula
    operator, left, right = formula
    return f"({write(left)} {operator} {write(right)})"  # type: ignore[arg-type]


def holds(formula: str | tuple[str, object, object], document: frozenset[str]) -> bool:
    if isinstance(formula, str):
        return formula == "*" or formula in document
    operator, left, right = formula
    both = holds(left, document), holds(right, document)  # type: ignore[arg-type]
    return all(both) if operator == "and" else any(both)


@given(formulas)
def test_the_normal_form_means_what_the_text_says(formula: str) -> None:
    assert extension(parse_keywords(write(formula))) == [holds(formula, document) for document in DOCUMENTS]


@given(filters, filters)
def test_covers_is_exactly_inclusion(a: KeywordFilter, b: KeywordFilter) -> None:
    assert a.covers(b) == all(x >= y for x, y in zip(extension(a), extension(b), strict=True))


@given(filters, filters)
def test_equal_means_the_same_documents(a: KeywordFilter, b: KeywordFilter) -> None:
    assert (a == b) == (extension(a) == extension(b)) == (a.covers(b) and b.covers(a))
    if a == b:
        assert hash(a) == hash(b)
        assert str(a) == str(b)
        assert a.encode() == b.encode()


@given(filters, filters, filters)
def test_covers_is_a_partial_order(a: KeywordFilter, b: KeywordFilter, c: KeywordFilter) -> None:
    assert a.covers(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@given(filters, filters)
def test_overlaps_is_symmetric_and_true_of_a_common_document(a: KeywordFilter, b: KeywordFilter) -> None:
    assert a.overlaps(b)
    assert b.overlaps(a)
    assert any(x and y for x, y in zip(extension(a), extension(b), strict=True))


@given(filters, filters)
def test_a_small_merge_is_exactly_the_union(a: KeywordFilter, b: KeywordFilter) -> None:
    merged, exact = a.merge(b)
    assert exact
    assert isinstance(merged, KeywordFilter)
    assert extension(merged) == [x or y for x, y in zip(extension(a), extension(b), strict=True)]
    assert merged == b.merge(a).filter


wide_filters = st.lists(st.sets(st.integers(0, 60), min_size=1, max_size=3), min_size=20, max_size=60).map(
    lambda conjunctions: KeywordFilter.any_of(
        [[f"w{number}" for number in conjunction] for conjunction in conjunctions[:33]]
    )
)


@given(wide_filters, wide_filters)
def test_a_large_merge_covers_both_and_still_is_a_filter(a: KeywordFilter, b: KeywordFilter) -> None:
    merged, exact = a.merge(b)
    assert isinstance(merged, KeywordFilter)
    assert merged.covers(a)
    assert merged.covers(b)
    assert parse_keywords(str(merged)) == merged
    assert decode_keywords(merged.encode()) == merged
    if exact:
        assert all(a.covers(part) or b.covers(part) for part in map(single, merged.conjunctions))


def single(conjunction: tuple[str, ...]) -> KeywordFilter:
    return KeywordFilter((conjunction,))


@given(any_filters)
@example(KeywordFilter.any_of([["and"], ["Or"], ["it's"], ["''"], [" "], ["*"], ["-"]]))
def test_text_and_wire_give_back_the_filter(keywords: KeywordFilter) -> None:
    assert parse_keywords(str(keywords)) == keywords
    assert decode_keywords(keywords.encode()) == keywords


@given(st.text(max_size=40) | st.text("ab'() *ornd", max_size=40))
def test_any_text_is_a_filter_or_a_clear_error(text: str) -> None:
    try:
        keywords = parse_keywords(text)
    except FilterError as error:
        assert "\n" not in str(error)
    else:
        assert parse_keywords(str(keywords)) == keywords


@given(
    st.binary(max_size=60).map(b"K".__add__)
    | st.tuples(any_filters, st.integers(0, 80), st.binary(max_size=2))
)
def test_any_bytes_are_canonical_or_refused(data: bytes | tuple[KeywordFilter, int, bytes]) -> None:
    if isinstance(data, tuple):
        keywords, place, piece = data
        whole = keywords.encode()
        data = whole[:place] + piece + whole[place + len(piece) :]
    try:
        keywords = decode_keywords(data)
    except FilterError:
        return
    assert keywords.encode() == data
    assert parse_keywords(str(keywords)) == keywords


# A formula that uses each word once: a list of lists of ... of words, alternately alternatives and factors.
shapes = st.recursive(st.just("word"), lambda inner: st.lists(inner, min_size=2, max_size=3), max_leaves=12)


@given(shapes, st.booleans())
def test_a_formula_with_each_word_once_splits_into_what_it_was_made_of(
    shape: object, any_first: bool
) -> None:
    bits = iter(range(64))

    def masks(part: object, is_any: bool) -> list[int]:
        if part == "word":
            return [1 << next(bits)]
        assert isinstance(part, list)
        inner = [masks(piece, not is_any) for piece in part]
        if is_any:
            return [mask for piece in inner for mask in piece]
        product = [0]
        for piece in inner:
            product = [a | b for a in product for b in piece]
        return product

    def leaves(part: list[int], is_any: bool) -> int:
        pieces = alternatives(part) if is_any else factors(part)
        if len(pieces) == 1 and len(part) == 1 and part[0].bit_count() == 1:
            return 1
        if len(pieces) == 1:
            pieces = factors(part) if is_any else alternatives(part)
            is_any = not is_any
        assert len(pieces) > 1
        return sum(leaves(piece, not is_any) for piece in pieces)

    formula = masks(shape, any_first)
    if len(formula) > MAX_TOKENS:
        return
    assert minimal_masks(formula) is not None
    words = next(bits)
    assert leaves(sorted(formula), any_first) == words


@given(st.lists(st.integers(1, 255), min_size=1, max_size=8))
def test_splitting_keeps_the_formula(masks: list[int]) -> None:
    formula = minimal_masks(masks)
    assert formula is not None
    assert sorted(mask for part in alternatives(formula) for mask in part) == sorted(formula)
    product = [0]
    for factor in factors(formula):
        product = [a | b for a in product for b in factor]
    assert sorted(product) == sorted(formula)
