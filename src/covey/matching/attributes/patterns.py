"""LIKE patterns in compiled code, over the bytes of UTF-8.

A pattern is a *program*: the bytes of its characters, with ANY for `_` and MANY for `%`, two bytes that no UTF-8 has.
It is canonical (`core/attributes/like.py`): of a run of wildcards, `_` stands before `%`, so that a piece behind a `%`
begins with a character.

Pieces between two `%` are found leftmost, one after the other, and the last one from the end: nothing is tried again.
A piece is looked for byte by byte. A piece and a text that are almost alike everywhere would make that slow, so after
some false starts it is looked for by its states as bits, which takes the same time whatever the text is.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from covey.core.attributes.like import MAX_PATTERN_LENGTH
from covey.matching.attributes.packed import Bytes
from covey.matching.jit import BITS_ROOM, called, part, room_for_bits

ANY, MANY = 0xFE, 0xFF

_MOST_STATES: Final = 4 * MAX_PATTERN_LENGTH  # a character has at most four bytes
_WORDS: Final = _MOST_STATES // 64
_CALM: Final = 4_096  # false steps that are nothing to worry about, and for each byte of the text
_CALM_PER_BYTE: Final = 8

assert 256 * _WORDS + 2 * _WORDS <= BITS_ROOM, "there is room for a row of bits for every byte, and two more"


def program_of(pattern: str) -> bytes:
    """Return the program of a canonical pattern."""
    if "\\" not in pattern:
        return pattern.encode().replace(b"%", b"\xff").replace(b"_", b"\xfe")
    program = bytearray()
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            program += next(characters).encode()
        else:
            program += {"%": b"\xff", "_": b"\xfe"}.get(character) or character.encode()
    return bytes(program)


def longest_literal(program: bytes) -> bytes:
    """Return the longest stretch of a program without wildcards: every text that matches has it."""
    return max(program.replace(b"\xfe", b"\xff").split(b"\xff"), key=len)


@part
def _is_inside(byte: int) -> bool:
    """Return whether a byte continues a character."""
    return byte & 0xC0 == 0x80


@part
def _fits(text: Bytes, at: int, end: int, program: Bytes, first: int, last: int) -> tuple[int, int]:
    """Return where the piece `program[first:last]` ends if it begins at `at`, else -1; and the steps taken."""
    for k in range(first, last):
        if at >= end:
            return -1, k - first
        code = program[k]
        if code == ANY:
            at += 1
            while at < end and _is_inside(text[at]):
                at += 1
        elif text[at] != code:
            return -1, k - first
        else:
            at += 1
    return at, last - first


@part
def _fits_before(text: Bytes, begin: int, at: int, program: Bytes, first: int, last: int) -> int:
    """Return where the piece begins, not before `begin`, if it ends at `at`; -1 if it does not."""
    for k in range(last - 1, first - 1, -1):
        if at <= begin:
            return -1
        code = program[k]
        at -= 1
        if code == ANY:
            while at > begin and _is_inside(text[at]):
                at -= 1
        elif text[at] != code:
            return -1
    return at


@called
def _search_by_bits(text: Bytes, at: int, end: int, program: Bytes, first: int, last: int) -> int:
    """Return where the first place ends where the piece fits, -1 if there is none: one step a byte of text, and for
    each 64 of the piece.

    Bit k of the state says that the piece up to its byte k fits what was read last. ANY takes the first byte of a
    character, and stays where it is while the character goes on.
    """
    words = (last - first + 63) >> 6
    accepts = room_for_bits()
    anys, state = 256 * _WORDS, 256 * _WORDS + _WORDS
    for k in range(256 * words):
        accepts[k] = 0
    for k in range(words):
        accepts[anys + k] = accepts[state + k] = 0
    for k in range(last - first):
        code, word, bit = np.int64(program[first + k]), k >> 6, np.int64(1) << (k & 63)
        if code == ANY:
            accepts[anys + word] |= bit
            for first_byte in range(256):
                if not _is_inside(first_byte):
                    accepts[first_byte * words + word] |= bit
        else:
            accepts[code * words + word] |= bit
    found, done = words - 1, np.int64(1) << ((last - first - 1) & 63)
    while at < end:
        byte, carry = text[at] + 0, np.int64(1)
        at += 1
        for word in range(words):
            before = accepts[state + word]
            after = ((before << 1) | carry) & accepts[byte * words + word]
            if _is_inside(byte):
                after |= before & accepts[anys + word]
            accepts[state + word] = after
            carry = (before >> 63) & 1
        if accepts[state + found] & done != 0:
            while at < end and program[last - 1] == ANY and _is_inside(text[at]):
                at += 1
            return at
    return -1


@part
def _search(text: Bytes, at: int, end: int, program: Bytes, first: int, last: int) -> int:
    """Return where the first place ends where the piece fits, -1 if there is none."""
    calm, steps = _CALM + _CALM_PER_BYTE * (end - at), 0
    while at < end:
        if text[at] == program[first]:
            stop, more = _fits(text, at, end, program, first, last)
            if stop >= 0:
                return stop
            steps += more
            if steps > calm:
                return _search_by_bits(text, at, end, program, first, last)
        at += 1
    return -1


@called
def is_like(text: Bytes, at: int, end: int, program: Bytes, first: int, last: int) -> bool:
    """Return whether the bytes `text[at:end]` match the program `program[first:last]`."""
    gap = first
    while gap < last and program[gap] != MANY:
        gap += 1
    at, _ = _fits(text, at, end, program, first, gap)
    if at < 0 or gap == last:
        return at == end
    final = last
    while program[final - 1] != MANY:
        final -= 1
    end = _fits_before(text, at, end, program, final, last)
    if end < 0:
        return False
    piece = gap + 1
    while piece < final:
        gap = piece
        while program[gap] != MANY:
            gap += 1
        if gap > piece:
            at = _search(text, at, end, program, piece, gap)
            if at < 0:
                return False
        piece = gap + 1
    return True
