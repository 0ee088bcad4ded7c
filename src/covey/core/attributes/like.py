"""LIKE patterns: matching, containment and intersection, without regular expressions.

A pattern is a sequence of tokens: a character, ONE (`_`, any one code point) or MANY (`%`, any string). Its
canonical text escapes with a backslash and writes every run of wildcards as its `_`s before at most one `%`,
so that equal patterns are equal texts.

Matching splits the pattern at its `%`s and finds each piece leftmost after the one before: two pointers that
only move forward. Questions about two patterns run one pattern as a set of states, held as the bits of an
integer, over the tokens of the other: time is linear in each, and no pattern can make it explode.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from covey.core.attributes.values import string_literal
from covey.errors import FilterError

ONE: Final = "one"
MANY: Final = "many"

MAX_PATTERN_LENGTH: Final = 256
_CACHED_PATTERNS: Final = 2_048  # each takes 2 KB
# A piece with `_` inside is looked for by its longest literal; after so many false finds, by all characters.
_MAX_FALSE_FINDS: Final = 32

_WILDCARDS: Final = {"%": MANY, "_": ONE}

Tokens = tuple[str, ...]


class _Piece(NamedTuple):
    """What stands between two `%`: `literals` at their offsets in a stretch of `length` characters."""

    length: int
    literals: tuple[tuple[int, str], ...]
    anchor: int  # which literal is the longest
    tokens: Tokens


class Pattern(NamedTuple):
    """A pattern prepared for use."""

    tokens: Tokens
    prefix: str
    least_length: int
    pieces: tuple[_Piece, ...]
    accepts: dict[str, int]  # by character: the tokens that are that character or ONE, as bits
    ones: int
    many: int
    near_many: int  # the states inside a run of wildcards that has a MANY

    @property
    def size(self) -> int:
        return len(self.tokens)


def parse_pattern(text: str, escape: str | None = None) -> Tokens:
    """Return the canonical tokens of a LIKE pattern; raise FilterError for a bad one."""
    string_literal(text)
    if escape is not None:
        string_literal(escape)
        if len(escape) != 1 or escape in "%_":
            raise FilterError("the escape of a LIKE pattern must be one character other than % and _")
    tokens: list[str] = []
    escaped = False
    for character in text:
        if escaped:
            if character not in ("%", "_", escape):
                raise FilterError(
                    "the escape in a LIKE pattern stands before an ordinary character",
                    expected=f"%, _ or {escape} after {escape}",
                )
            tokens.append(character)
            escaped = False
        elif character == escape:
            escaped = True
        else:
            tokens.append(_WILDCARDS.get(character, character))
    if escaped:
        raise FilterError("a LIKE pattern ends with its escape")
    if len(tokens) > MAX_PATTERN_LENGTH:
        # Escapes are not counted, so that the canonical text of an acceptable pattern is acceptable.
        raise FilterError(
            f"a LIKE pattern is longer than {MAX_PATTERN_LENGTH} characters",
            hint="write a part of it, such as its beginning and %",
        )
    return _canonical_tokens(tokens)


def _canonical_tokens(tokens: list[str]) -> Tokens:
    result: list[str] = []
    many = False
    for token in tokens:
        if token == MANY:
            many = True
        else:
            if token != ONE and many:
                result.append(MANY)
                many = False
            result.append(token)
    if many:
        result.append(MANY)
    return tuple(result)


def pattern_text(tokens: Tokens) -> str:
    """Return the canonical text of canonical tokens."""
    return "".join([_TOKEN_TEXT.get(token, token) for token in tokens])


_TOKEN_TEXT: Final = {MANY: "%", ONE: "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}


@lru_cache(maxsize=_CACHED_PATTERNS)
def literal_prefix(text: str) -> str:
    """Return what every string that matches the canonical pattern begins with."""
    if text[:1] in ("%", "_"):
        return ""
    prefix = []
    characters = iter(text)
    for character in characters:
        if character in ("%", "_"):
            break
        prefix.append(next(characters) if character == "\\" else character)
    return "".join(prefix)


@lru_cache(maxsize=_CACHED_PATTERNS)
def prepare(text: str) -> Pattern:
    """Return the canonical pattern `text` prepared for use."""
    tokens: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            tokens.append(next(characters))
        else:
            tokens.append(_WILDCARDS.get(character, character))
    return _prepare_tokens(tuple(tokens))


def outline(text: str) -> tuple[int, int]:
    """Return the least length of what matches the canonical pattern, and the characters that it has, as bits of 64.

    Unless it has escapes, that takes a twentieth of the time of `prepare`, and keeps nothing.
    """
    if "\\" in text:
        tokens = prepare(text).tokens
        characters = {token for token in tokens if token not in (ONE, MANY)}
        length = len(tokens) - tokens.count(MANY)
    else:
        characters = set(text) - {"%", "_"}
        length = len(text) - text.count("%")
    letters = 0
    for character in characters:
        letters |= 1 << (ord(character) & 63)
    return length, letters


def _prepare_tokens(tokens: Tokens) -> Pattern:
    ones = many = near_many = 0
    accepts = dict.fromkeys((token for token in tokens if token not in (ONE, MANY)), 0)
    wildcards = 0
    for i, token in enumerate(tokens):
        if token == ONE:
            ones |= 1 << i
            wildcards |= 1 << i
        elif token == MANY:
            many |= 1 << i
            near_many |= wildcards | 1 << i
            wildcards = 0
        else:
            accepts[token] |= 1 << i
            wildcards = 0
    for token in accepts:
        accepts[token] |= ones
    wild = next((i for i, token in enumerate(tokens) if token in (ONE, MANY)), len(tokens))
    return Pattern(
        tokens=tokens,
        prefix="".join(tokens[:wild]),
        least_length=len(tokens) - many.bit_count(),
        pieces=tuple(_piece(part) for part in _split(tokens)),
        accepts=accepts,
        ones=ones,
        many=many,
        near_many=near_many,
    )


def _split(tokens: Tokens) -> list[Tokens]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == MANY:
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts]


def _piece(tokens: Tokens) -> _Piece:
    literals: list[tuple[int, str]] = []
    start = 0
    while start < len(tokens):
        if tokens[start] == ONE:
            start += 1
            continue
        end = start
        while end < len(tokens) and tokens[end] != ONE:
            end += 1
        literals.append((start, "".join(tokens[start:end])))
        start = end
    longest = max(range(len(literals)), key=lambda k: len(literals[k][1]), default=0)
    return _Piece(len(tokens), tuple(literals), longest, tokens)


def like(text: str, pattern: str) -> bool:
    """Return whether `text` matches the canonical pattern."""
    prepared = prepare(pattern)
    size = len(text)
    if size < prepared.least_length:
        return False
    pieces = prepared.pieces
    first, last = pieces[0], pieces[-1]
    if not _fits(text, 0, first):
        return False
    if len(pieces) == 1:
        return size == first.length
    end = size - last.length
    if not _fits(text, end, last):
        return False
    place = first.length
    for piece in pieces[1:-1]:
        place = _find(text, place, end, piece)
        if place < 0:
            return False
        place += piece.length
    return place <= end


def _fits(text: str, place: int, piece: _Piece) -> bool:
    return all(text.startswith(literal, place + offset) for offset, literal in piece.literals)


def _find(text: str, start: int, end: int, piece: _Piece) -> int:
    """Return the first place in text[start:end] where the whole piece fits, or -1."""
    if start + piece.length > end:
        return -1
    if not piece.literals:
        return start
    offset, anchor = piece.literals[piece.anchor]
    last = end - piece.length + offset + len(anchor)
    place = text.find(anchor, start + offset, last)
    if len(piece.literals) == 1:
        return place - offset if place >= 0 else -1
    for _ in range(_MAX_FALSE_FINDS):
        if place < 0:
            return -1
        if _fits(text, place - offset, piece):
            return place - offset
        place = text.find(anchor, place + 1, last)
    return _find_by_bits(text, place - offset, end, piece) if place >= 0 else -1


def _find_by_bits(text: str, start: int, end: int, piece: _Piece) -> int:
    """Do as `_find`, in one step a character of text whatever the piece is."""
    prepared = _prepare_tokens(piece.tokens)
    ones, accepts = prepared.ones, prepared.accepts
    found = 1 << (piece.length - 1)
    state = 0
    for place in range(start, end):
        state = (state << 1 | 1) & accepts.get(text[place], ones)
        if state & found:
            return place - piece.length + 1
    return -1


def pattern_contains(outer: Pattern, inner: Tokens) -> bool:
    """Return True only if every string that `inner` matches is matched by `outer`.

    Each run of wildcards of `outer` takes in a stretch of `inner` that is at least as long, and a MANY only
    when it has one itself; each character meets the same character. Sound, reflexive and transitive; complete
    when `inner` is a plain string or a prefix.
    """
    many, ones, accepts, near_many = outer.many, outer.ones, outer.accepts, outer.near_many
    state = 1
    state |= (state & many) << 1
    for token in inner:
        if token == MANY:
            state &= near_many
        elif token == ONE:
            state = (state & ones) << 1 | state & many
        else:
            state = (state & accepts.get(token, ones)) << 1 | state & many
        state |= (state & many) << 1
        if not state:
            return False
    return bool(state >> len(outer.tokens) & 1)


def patterns_intersect(a: Pattern, b: Tokens) -> bool:
    """Return whether some string matches both patterns; exact."""
    if a.many and MANY in b:
        # What stands between the first and the last % of both can follow each other: only the ends can be at odds.
        return _ends_meet(a.tokens, b) and _ends_meet(a.tokens[::-1], b[::-1])
    many, accepts, ones = a.many, a.accepts, a.ones
    size = len(a.tokens)
    everywhere = (2 << size) - 1
    state = 1
    state |= (state & many) << 1
    for token in b:
        if token == MANY:
            # Any text may follow: every state at or after the first one can be reached.
            state = everywhere & -(state & -state)
        elif token == ONE:
            state = (state & ~many) << 1 & everywhere | state & many
        else:
            state = (state & accepts.get(token, ones)) << 1 | state & many
        state |= (state & many) << 1
        if not state:
            return False
    return bool(state >> size & 1)


def _ends_meet(a: Tokens, b: Tokens) -> bool:
    """Return whether two patterns agree up to the first % of either."""
    for one, other in zip(a, b, strict=False):
        if one == MANY or other == MANY:
            return True
        if one != other and one != ONE and other != ONE:
            return False
    return True
