"""Keyword filters: which words a document must have.

A document is a set of words. A filter is a positive formula over words in minimal disjunctive normal form
(see `normal`), and every question about filters is decided on that form, exactly:

    matches    some conjunction is a subset of the document
    covers     each conjunction of the other contains one of this filter's: sound and complete
    overlaps   always: the union of two documents matches both filters, since nothing can be forbidden
    merge      the union of the conjunctions; beyond the limits, conjunctions give up words until it fits
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from covey.core.event import content_of
from covey.core.filter import Filter, Merge
from covey.core.keywords.normal import (
    Formula,
    Vocabulary,
    formula_covers,
    generalise,
    minimal_masks,
    minimise,
)
from covey.core.keywords.text import MAX_CONJUNCTIONS, is_word, write
from covey.core.keywords.wire import encode_formula
from covey.errors import FilterError


class KeywordFilter(Filter):
    """A formula of words; made by `parse_keywords`, `decode_keywords` or `any_of`; immutable.

    `conjunctions` must be in normal form and within the limits: the constructor trusts its caller. It is no dataclass,
    because serialisers take those apart, and a filter travels in its own wire form.
    """

    __slots__ = ("conjunctions",)

    family: ClassVar[str] = "keywords"
    conjunctions: Formula

    def __init__(self, conjunctions: Formula) -> None:
        object.__setattr__(self, "conjunctions", conjunctions)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a filter is immutable: {name}")

    def __reduce__(self) -> tuple[type[KeywordFilter], tuple[Formula]]:
        return KeywordFilter, (self.conjunctions,)

    @classmethod
    def any_of(cls, conjunctions: Iterable[Iterable[str]]) -> KeywordFilter:
        """Return the filter of the documents that have all words of one of `conjunctions`.

        An empty conjunction asks for nothing and makes a filter of all documents. Raises FilterError when
        there is no conjunction, a word is not acceptable, or the filter is too large.
        """
        formula = minimise(_checked(conjunctions))
        if not formula:
            raise FilterError("a keyword filter needs at least one conjunction")
        check_size(formula)
        return cls(formula)

    def matches(self, event: object) -> bool:
        """Return whether `event` is a set that has all words of one conjunction."""
        words = content_of(event)
        if not isinstance(words, set | frozenset):
            return False
        return any(words.issuperset(conjunction) for conjunction in self.conjunctions)

    def covers(self, other: Filter) -> bool:
        """Return whether every document of `other` is one of this filter; exact."""
        return isinstance(other, KeywordFilter) and formula_covers(self.conjunctions, other.conjunctions)

    def overlaps(self, other: Filter) -> bool:
        """Return whether a document can match both: of two keyword filters always."""
        return isinstance(other, KeywordFilter)

    def merge(self, other: Filter) -> Merge:
        """Return the union, exact unless it exceeds the limits of a filter; see docs/filters-keywords.md."""
        if not isinstance(other, KeywordFilter):
            raise FilterError(f"a keywords filter cannot be merged with one of the family {other.family}")
        formula = minimise(self.conjunctions + other.conjunctions)
        if len(formula) <= MAX_CONJUNCTIONS and write(formula) is not None:
            return Merge(KeywordFilter(formula), exact=True)
        return Merge(KeywordFilter(_fitting(formula)), exact=False)

    def encode(self) -> bytes:
        """Return the wire form: the byte K and the conjunctions in MessagePack."""
        return encode_formula(self.conjunctions)

    def __str__(self) -> str:
        text = write(self.conjunctions)
        assert text is not None
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeywordFilter) and self.conjunctions == other.conjunctions

    def __hash__(self) -> int:
        return hash(self.conjunctions)


def check_size(formula: Formula) -> None:
    """Raise FilterError when a formula in normal form is larger than a filter may be."""
    if len(formula) > MAX_CONJUNCTIONS:
        raise FilterError(f"the filter has {len(formula)} conjunctions and may have {MAX_CONJUNCTIONS}")
    if write(formula) is None:
        raise FilterError(
            "the filter is too large to be written out",
            hint="ask for fewer words, or subscribe with several filters",
        )


def _checked(conjunctions: Iterable[Iterable[str]]) -> Iterator[list[str]]:
    for conjunction in conjunctions:
        # A bare string would otherwise be taken for its letters.
        words: list[str] = [conjunction] if isinstance(conjunction, str) else list(conjunction)
        for word in words:
            if not is_word(word):
                raise FilterError(
                    f"{word!r:.60} cannot be a word",
                    expected="1 to 4,096 characters, no control characters, no unpaired surrogates",
                )
        yield words


def _fitting(formula: Formula) -> Formula:
    """Return a formula within the limits that covers `formula`."""
    # Sorted words give each of them the same bit whichever filter was merged into which.
    vocabulary = Vocabulary(sorted({word for conjunction in formula for word in conjunction}))
    masks = minimal_masks(map(vocabulary.mask, formula))
    assert masks is not None
    at_most = min(MAX_CONJUNCTIONS, len(formula))
    while True:
        masks = generalise(masks, at_most)
        smaller = vocabulary.formula(masks)
        if write(smaller) is not None:
            return smaller
        # Too long still: an eighth fewer conjunctions, and in the end one, which may be that of no word.
        at_most = min(at_most, len(masks)) - max(1, at_most // 8)
        if at_most < 1:
            return ((),)
