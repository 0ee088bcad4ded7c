"""Families of filters that cost a broker as much as filters of their kind can, numbered: for storms and for costs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from covey.core.attributes.filter import AttributeFilter, conjunction
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.core.xpath.filter import parse_xpath

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

Items = Sequence[Sequence[object]]


def _any_of(conjunctions: Sequence[Items]) -> AttributeFilter:
    return AttributeFilter.any_of([conjunction(items) for items in conjunctions])


def _word(chance: random.Random, length: int) -> str:
    return "".join(chance.choice(LETTERS) for _ in range(length))


def _like(chance: random.Random, name: str, length: int) -> tuple[str, str, str]:
    return (name, "like", f"%{_word(chance, length)}%{_word(chance, length)}%")


def plain(number: int) -> Filter:
    """Return a filter as most are: three constraints."""
    return conjunction(
        [
            ("symbol", "=", f"S{number}"),
            ("price", ">", number % 97 + 0.5),
            ("volume", "<", number * 7 % 1_000),
        ]
    )


def pattern(number: int) -> Filter:
    """Return a filter of one LIKE pattern."""
    return conjunction([("name", "like", f"%x{number}%y{number}%")])


def words(number: int, count: int = 64) -> Filter:
    """Return the filter of texts that contain one of many words."""
    chance = random.Random(number)
    return _any_of([[("name", "like", f"%{_word(chance, 8)}%")] for _ in range(count)])


def patterns(number: int, sides: int = 12) -> Filter:
    """Return a filter of 64 conjunctions of LIKE patterns."""
    chance = random.Random(number)
    return _any_of([[_like(chance, f"a{side}", 10) for side in range(sides)] for _ in range(64)])


def sets(number: int, conjunctions: int = 60, values: int = 150) -> Filter:
    """Return a filter of many conjunctions, each with a large set of values."""
    chance = random.Random(number)
    return _any_of(
        [
            [(f"b{k}", "=", number), (f"c{k}", "in", chance.sample(range(1_000_000), values))]
            for k in range(conjunctions)
        ]
    )


def small_sets(number: int) -> Filter:
    """Return a filter of 64 conjunctions, each with a set of as many values as is split into rows."""
    chance = random.Random(number)
    return _any_of(
        [[(f"b{k}", "=", number), (f"c{k}", "in", chance.sample(range(1_000), 16))] for k in range(64)]
    )


def ranges(number: int, sides: int = 200) -> Filter:
    """Return a filter of one conjunction of wide ranges."""
    chance = random.Random(number)
    return conjunction(
        [(f"w{k}", "between", (chance.random() * 10, 20 + chance.random() * 10)) for k in range(sides)]
    )


def many_ranges(number: int) -> Filter:
    """Return a filter of 64 conjunctions of wide ranges."""
    chance = random.Random(number)
    return _any_of(
        [
            [
                (f"w{k}", "between", (chance.random() * 10, 20 + chance.random() * 10))
                for k in range(j % 8, j % 8 + 8)
            ]
            for j in range(64)
        ]
    )


def without(number: int) -> Filter:
    """Return a filter that leaves many values of many attributes out."""
    chance = random.Random(number)
    return conjunction([(f"c{k}", "not in", chance.sample(range(1_000_000), 40)) for k in range(40)])


def tree(number: int) -> Filter:
    """Return a tree pattern of 60 elements."""
    chance = random.Random(number)

    def step(depth: int) -> str:
        inner = f"[{step(depth - 1)}][{step(depth - 1)}]" if depth else ""
        return f"e{chance.randrange(1_000)}{inner}"

    return parse_xpath("/" + "/".join(step(3) for _ in range(4)))


def keywords(number: int) -> Filter:
    """Return a formula of 64 words."""
    chance = random.Random(number)
    return KeywordFilter.any_of([[f"k{chance.randrange(10_000)}" for _ in range(8)] for _ in range(8)])


FAMILIES: Final[dict[str, Callable[[int], Filter]]] = {
    "plain": plain,
    "pattern": pattern,
    "words": words,
    "patterns": patterns,
    "sets": sets,
    "small sets": small_sets,
    "ranges": ranges,
    "many ranges": many_ranges,
    "without": without,
    "tree": tree,
    "keywords": keywords,
}
