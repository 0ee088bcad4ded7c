"""Words and canonical text of keyword filters, and the limits that both keep.

A word is any text without control characters and unpaired surrogates. It is written bare when it reads as
one word and in quotes otherwise, `'new york'`, with a quote inside doubled, `'it''s'`. Words are compared
exactly, character by character: `Nokia` is not `nokia`.

The canonical text is the normal form written flat, `a and b or c`. When that would exceed the limits of text,
it is written with parentheses around the parts that share no word with the rest, `(a or b) and (c or d)`;
this gives back every formula that was written with each word once. A formula too large for both is refused,
so that every filter's text parses back.
"""

from __future__ import annotations

import re

from covey.core.keywords.factoring import alternatives, factors
from covey.core.keywords.normal import EVERYTHING, Formula, Vocabulary

MAX_LENGTH = 4096
MAX_TOKENS = 200
MAX_DEPTH = 32
MAX_CONJUNCTIONS = 64

EVERYTHING_TEXT = "*"
RESERVED_WORDS = frozenset({"and", "or", "not"})

# A bare word stops at white space, at what has a meaning here, and at what has one in other search languages:
# somebody who writes a|b must get an answer, not a filter for the word "a|b".
NOT_BARE = r"\s()'\",;&|!<>=*?\[\]{}~^\\`\x00-\x1f\x7f-\x9f\ud800-\udfff"
BARE_WORD = re.compile(rf"(?![-+])[^{NOT_BARE}]+")
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_word(word: object) -> bool:
    """Return whether a filter may ask for `word`."""
    return isinstance(word, str) and 0 < len(word) <= MAX_LENGTH and FORBIDDEN.search(word) is None


def write_word(word: str) -> str:
    """Return `word` as it stands in text: bare if it can, else quoted."""
    if BARE_WORD.fullmatch(word) and word.lower() not in RESERVED_WORDS:
        return word
    return "'" + word.replace("'", "''") + "'"


def write(formula: Formula) -> str | None:
    """Return the canonical text of a formula in normal form; None when no text within the limits has it."""
    if formula == EVERYTHING:
        return EVERYTHING_TEXT
    # A flat text has an operator between each two words and nothing else.
    if 2 * sum(map(len, formula)) - 1 <= MAX_TOKENS:
        flat = _flat(formula)
        if len(flat) <= MAX_LENGTH:
            return flat
    words = sorted({word for conjunction in formula for word in conjunction})
    if 2 * len(words) - 1 > MAX_TOKENS:
        return None
    return _Writer(words).write(formula)


def surely_fits(formula: Formula, encoded_length: int) -> bool:
    """Return True only if the flat text is within the limits, judged by numbers alone.

    Quoting at most doubles a word and adds two characters; an operator with its spaces has at most five.
    """
    words = sum(map(len, formula))
    return 2 * words - 1 <= MAX_TOKENS and 2 * encoded_length + 7 * words <= MAX_LENGTH


def _flat(formula: Formula) -> str:
    return " or ".join([" and ".join(map(write_word, conjunction)) for conjunction in formula])


class _Writer:
    """Writes a formula as nested alternatives and products of parts without common words, and counts."""

    def __init__(self, words: list[str]) -> None:
        self._vocabulary = Vocabulary(words)
        self._tokens = 0
        self._depth = 0

    def write(self, formula: Formula) -> str | None:
        text = self._any_of(sorted(map(self._vocabulary.mask, formula)), 0)
        fits = self._tokens <= MAX_TOKENS and self._depth <= MAX_DEPTH and len(text) <= MAX_LENGTH
        return text if fits else None

    def _any_of(self, masks: list[int], depth: int) -> str:
        self._depth = max(self._depth, depth)
        parts = alternatives(masks)
        self._tokens += len(parts) - 1
        return " or ".join([self._alternative(part, depth) for part in parts])

    def _alternative(self, masks: list[int], depth: int) -> str:
        parts = factors(masks)
        if len(parts) == 1:
            self._tokens += 2 * sum(map(int.bit_count, masks)) - 1
            return _flat(self._vocabulary.formula(masks))
        self._tokens += len(parts) - 1
        return " and ".join([self._factor(part, depth) for part in parts])

    def _factor(self, masks: list[int], depth: int) -> str:
        if len(masks) == 1:
            return self._alternative(masks, depth)
        self._tokens += 2
        return f"({self._any_of(masks, depth + 1)})"
