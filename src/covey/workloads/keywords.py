"""Keywords by number, and filters and events that consist of them."""

from __future__ import annotations

from collections.abc import Iterable

from covey.core.keywords.filter import KeywordFilter


def word(number: int) -> str:
    """Return the word of that number."""
    return f"w{number:04}"


def any_word_filter(numbers: Iterable[int]) -> KeywordFilter:
    """Return the filter of all documents that have one of these words, at most MAX_CONJUNCTIONS of them."""
    return KeywordFilter(tuple((one,) for one in sorted(map(word, numbers))))
