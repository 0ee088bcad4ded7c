"""The wire form of keyword filters: the byte K, then the normal form as MessagePack arrays of words.

Bytes come from anywhere. Decoding accepts exactly what encoding gives: words, order, minimality and limits
are checked, and any other bytes are refused with FilterError.
"""

from __future__ import annotations

import msgspec

from covey.core.keywords.normal import EVERYTHING, Formula, is_minimal
from covey.core.keywords.text import MAX_CONJUNCTIONS, is_word, surely_fits, write
from covey.errors import FilterError

FAMILY_BYTE = b"K"
MAX_ENCODED_BYTES = 65_536

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, ...], ...])


def encode_formula(formula: Formula) -> bytes:
    """Return the wire form of a formula in normal form."""
    return FAMILY_BYTE + _encoder.encode(formula)


def decode_formula(data: bytes) -> Formula:
    """Return the formula of a wire form; raise FilterError unless it is exactly what encoding gives."""
    if len(data) > MAX_ENCODED_BYTES:
        raise FilterError(f"an encoded filter has {len(data):,} bytes and may have {MAX_ENCODED_BYTES:,}")
    if data[:1] != FAMILY_BYTE:
        raise FilterError("these bytes are not an encoded keywords filter")
    try:
        formula = _decoder.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FilterError(f"an encoded keywords filter is damaged: {error}") from None
    problem = _problem(formula, data)
    if problem is not None:
        raise FilterError(f"an encoded keywords filter is not in normal form: {problem}")
    return formula


def _problem(formula: Formula, data: bytes) -> str | None:
    """Return what is wrong with a decoded formula, or None."""
    if not formula:
        return "it has no conjunction"
    if len(formula) > MAX_CONJUNCTIONS:
        return f"it has {len(formula)} conjunctions and may have {MAX_CONJUNCTIONS}"
    if formula == EVERYTHING:
        return None if len(data) == 3 else "it has another encoding"
    for conjunction in formula:
        if not all(map(is_word, conjunction)):
            return "a word is empty, too long or has characters that no word has"
        if not conjunction or list(conjunction) != sorted(set(conjunction)):
            return "the words of a conjunction are not in order"
    if list(formula) != sorted(set(formula)):
        return "its conjunctions are not in order"
    if not is_minimal(formula):
        return "one conjunction contains another"
    if encode_formula(formula) != data:
        return "it has another encoding"
    if not surely_fits(formula, len(data)) and write(formula) is None:
        return "it is too large to be written out"
    return None
