"""The text of keyword filters, by recursive descent.

    filter      = conjunction { "or" conjunction }
    conjunction = unit { "and" unit }
    unit        = word | "'" quoted word "'" | "*" | "(" filter ")"

Each rule returns the minimal masks of what it read (see `normal`), so a text that expands too far is found
out while it is read and not after.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.normal import Vocabulary, minimal_masks
from covey.core.keywords.text import (
    BARE_WORD,
    FORBIDDEN,
    MAX_CONJUNCTIONS,
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_TOKENS,
    RESERVED_WORDS,
    write,
)
from covey.core.keywords.wire import decode_formula
from covey.errors import FilterError

EXAMPLE = "nokia and (phone or watch)"

_TOKEN = re.compile(
    rf"\s*(?:(?P<symbol>[()*])|'(?P<quoted>(?:[^']|'')*)'(?!')|(?P<bare>{BARE_WORD.pattern})|(?P<end>\Z))"
)
_HINTS = (
    (("&",), "write `and`"),
    (("|", ","), "write `or`"),
    (("!",), "keyword filters have no `not`; they only ask for words"),
    (('"', "`"), "quote with single quotes, 'new york'"),
    (("-", "+"), "a word that begins so goes in single quotes"),
)


class _Token(NamedTuple):
    kind: str  # "word", "end", or the symbol or operator itself
    word: str
    position: int


def parse_keywords(text: str) -> KeywordFilter:
    """Return the filter that `text` describes; raise FilterError, with the place, if it describes none."""
    if not isinstance(text, str):
        raise FilterError(f"a filter's text is a string, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter has {len(text):,} characters and may have {MAX_LENGTH:,}")
    parser = _Parser(text, _tokens(text))
    masks = parser.any_of(depth=0)
    parser.expect_end()
    formula = parser.vocabulary.formula(masks)
    if write(formula) is None:
        raise FilterError(
            "the filter is too large once it is written out",
            text=text,
            position=0,
            hint="ask for fewer words, or subscribe with several filters",
        )
    return KeywordFilter(formula)


def decode_keywords(data: bytes) -> KeywordFilter:
    """Return the filter of a wire form; raise FilterError for bytes that no keyword filter encodes to."""
    return KeywordFilter(decode_formula(data))


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while True:
        found = _TOKEN.match(text, position)
        if found is None:
            raise _bad_character(text, position)
        start, position = found.start(found.lastgroup or 0), found.end()
        if found.lastgroup == "end":
            tokens.append(_Token("end", "", len(text)))
            return tokens
        tokens.append(_token(text, found, start))
        if len(tokens) > MAX_TOKENS:
            raise FilterError(
                f"the filter has more than {MAX_TOKENS} words and symbols", text=text, position=start
            )


def _token(text: str, found: re.Match[str], start: int) -> _Token:
    if found.lastgroup == "symbol":
        return _Token(found["symbol"], "", start)
    if found.lastgroup == "quoted":
        quoted = found["quoted"]
        if not quoted:
            raise FilterError(
                "a word is empty", text=text, position=start - 1, expected="a word between the quotes"
            )
        bad = FORBIDDEN.search(quoted)
        if bad is not None:
            raise _bad_character(text, start + bad.start())
        return _Token("word", quoted.replace("''", "'"), start - 1)
    word = found["bare"]
    folded = word.lower()
    return _Token(folded, word, start) if folded in RESERVED_WORDS else _Token("word", word, start)


def _bad_character(text: str, position: int) -> FilterError:
    while position < len(text) and text[position].isspace():
        position += 1
    character = text[position]
    if character == "'":
        return FilterError(
            "a quoted word does not end",
            text=text,
            position=position,
            hint="close it with a single quote; a quote inside a word is doubled, 'it''s'",
        )
    hint = next((hint for characters, hint in _HINTS if character in characters), None)
    if hint is None and not FORBIDDEN.match(character):
        hint = "a word with other signs goes in single quotes"
    return FilterError(
        f"the character {character!r} has no place here",
        text=text,
        position=position,
        expected="a word, an operator or a parenthesis",
        hint=hint,
    )


class _Parser:
    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self.vocabulary = Vocabulary()

    def any_of(self, depth: int) -> list[int]:
        masks = self._all_of(depth)
        while self._take("or"):
            masks = self._limited(masks + self._all_of(depth))
        return masks

    def _all_of(self, depth: int) -> list[int]:
        masks = self._unit(depth)
        while self._take("and"):
            unit = self._unit(depth)
            masks = self._limited([a | b for a in masks for b in unit])
        return masks

    def _unit(self, depth: int) -> list[int]:
        token = self._tokens[self._next]
        if token.kind == "word":
            self._next += 1
            return [self.vocabulary.bit(token.word)]
        if token.kind == "*":
            self._next += 1
            return [0]
        if token.kind != "(":
            raise self._unexpected(token, "a word or `(`")
        if depth == MAX_DEPTH:
            raise FilterError(
                f"parentheses nest deeper than {MAX_DEPTH}", text=self._text, position=token.position
            )
        self._next += 1
        masks = self.any_of(depth + 1)
        if not self._take(")"):
            raise self._unexpected(self._tokens[self._next], "`and`, `or` or `)`")
        return masks

    def expect_end(self) -> None:
        token = self._tokens[self._next]
        if token.kind != "end":
            raise self._unexpected(token, "`and`, `or` or the end")

    def _take(self, kind: str) -> bool:
        if self._tokens[self._next].kind != kind:
            return False
        self._next += 1
        return True

    def _limited(self, masks: list[int]) -> list[int]:
        kept = minimal_masks(masks, at_most=MAX_CONJUNCTIONS)
        if kept is None:
            raise FilterError(
                f"the filter expands to more than {MAX_CONJUNCTIONS} conjunctions",
                text=self._text,
                position=self._tokens[self._next - 1].position,
                hint="subscribe with several filters",
            )
        return kept

    def _unexpected(self, token: _Token, expected: str) -> FilterError:
        hint = None
        if token.kind == "end":
            problem = "the filter is empty" if self._next == 0 else "the filter ends too early"
            hint = f"for example: {EXAMPLE}" if self._next == 0 else None
        elif token.kind == "not":
            problem = "`not` is not a part of keyword filters"
            hint = "they only ask for words; the word itself is written 'not'"
        elif token.kind == "word":
            problem = f"the word {token.word!r:.40} stands without an operator before it"
            hint = "write `and` or `or` between words; a phrase goes in single quotes"
        elif token.kind in RESERVED_WORDS:
            problem = f"`{token.kind}` has nothing to join"
            hint = f"the word itself is written '{token.kind}'"
        else:
            problem = f"`{token.kind}` has no place here"
        return FilterError(problem, text=self._text, position=token.position, expected=expected, hint=hint)
