"""How valid inputs become inputs that may not be: bytes changed, pieces lost, repeated or exchanged.

Everything is drawn from the generator that is given, so that an input is known by its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

# What means much to MessagePack, to lengths, to UTF-8 and to text.
BYTES = bytes(
    (0, 1, 0x0A, 0x20, 0x22, 0x27, 0x28, 0x5B, 0x7B, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xC4, 0xD9, 0xDD, 0xFF)
)
LENGTHS = (
    0,
    1,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    (1 << 24) - 1,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
)
MOST = 1 << 16  # bytes of an input that grows by repetition
LONG = 1 << 18  # of a few

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def flip(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change a bit."""
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def put(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put another byte in a place."""
    at = draw.randrange(len(data))
    value = draw.choice(BYTES) if draw.random() < 0.7 else draw.randrange(256)
    return data[:at] + bytes([value]) + data[at + 1 :]


def length(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put a number where there may be a length."""
    at, size = draw.randrange(len(data)), draw.choice((1, 2, 4, 8))
    number = draw.choice(LENGTHS) & (1 << 8 * size) - 1
    return data[:at] + number.to_bytes(size, draw.choice(("little", "big"))) + data[at + size :]


def lose(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Leave a piece out."""
    at, end = _piece(draw, data)
    return data[:at] + data[end:]


def cut(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Leave out what follows."""
    return data[: draw.randrange(len(data) + 1)]


def insert(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put random bytes in between."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.randbytes(draw.randrange(1, 9)) + data[at:]


def repeat(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Have a piece there several times, or very many times."""
    at, end = _piece(draw, data)
    piece = data[at:end] or b"x"
    most = LONG if draw.random() < 0.01 else MOST if draw.random() < 0.1 else 64
    return data[:end] + piece * draw.randrange(1, max(2, most // len(piece))) + data[end:]


def splice(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put a piece of another input in place of one."""
    other = draw.choice(others)
    (at, end), (first, last) = _piece(draw, data), _piece(draw, other)
    return data[:at] + other[first:last] + data[end:]


def exchange(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Exchange two pieces."""
    (a, b), (c, d) = sorted((_piece(draw, data), _piece(draw, data)))
    return data if b > c else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


MUTATIONS: tuple[Mutation, ...] = (flip, put, put, length, lose, cut, insert, repeat, splice, exchange)


def _piece(draw: Random, data: bytes) -> tuple[int, int]:
    at = draw.randrange(len(data) + 1)
    return at, min(len(data), at + draw.choice((1, 2, 4, 8, 16, 64, 1024)))


def mutated(draw: Random, corpus: Sequence[bytes], most: int = 6) -> bytes:
    """Return an input of the corpus after some mutations; sometimes as it is."""
    data = draw.choice(corpus)
    for _ in range(min(draw.randrange(most + 1), draw.randrange(most + 1))):
        if data:
            data = draw.choice(MUTATIONS)(draw, data, corpus)
    return data


SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 65_536, 1 << 31, 1 << 63, 1 << 64, 10**30, 0.5, -0.0, 1e308, 1e-320,
    "", "a", "b", "x" * 300, "é\n", "\x00", "../..", "1", "1.5", "2026-01-02T03:04:05Z",
)  # fmt: skip


def some_value(draw: Random, depth: int = 2) -> Any:
    """Return a value as JSON or TOML may have it."""
    lot = draw.random()
    if depth and lot < 0.15:
        return [some_value(draw, depth - 1) for _ in range(draw.randrange(4))]
    if depth and lot < 0.3:
        return {str(draw.choice(SCALARS)): some_value(draw, depth - 1) for _ in range(draw.randrange(4))}
    return draw.choice(SCALARS)


def changed(draw: Random, value: Any) -> Any:
    """Return a copy of a value made of dictionaries and lists in which one place is another."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value, key=str))
        lot, rest = draw.random(), {name: one for name, one in value.items() if name != key}
        if lot < 0.05:
            return rest
        if lot < 0.1:
            return {**rest, str(draw.choice(SCALARS)): value[key]}
        return {**value, key: changed(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at, lot = draw.randrange(len(value)), draw.random()
        if lot < 0.1:
            return value[:at] + value[at + 1 :]
        if lot < 0.2:
            return value[:at] + [value[at]] * draw.choice((2, 3, 100)) + value[at + 1 :]
        if lot < 0.3:
            return draw.sample(value, len(value))
        return [*value[:at], changed(draw, value[at]), *value[at + 1 :]]
    return some_value(draw)
