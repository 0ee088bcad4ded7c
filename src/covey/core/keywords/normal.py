"""Positive keyword formulas in disjunctive normal form.

A conjunction is a set of words that a document must have; a formula is a set of conjunctions of which one
must hold. The normal form is *minimal*: no conjunction contains another, because the smaller one alone
decides. Two positive formulas match the same documents exactly when their minimal forms are equal, so
equality, covering and hashing need nothing else:

    ()            nothing                 cannot be written, appears only inside computations
    ((),)         every document          written *
    (("a",), ("b", "c"))                  written a or b and c

Here conjunctions are tuples of words in code point order, and a formula is a sorted tuple of them. While a
formula is computed, a conjunction is an integer with one bit per word: a subset test is then one operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

Conjunction = tuple[str, ...]
Formula = tuple[Conjunction, ...]

EVERYTHING: Formula = ((),)


def minimal_masks(masks: Iterable[int], at_most: int | None = None) -> list[int] | None:
    """Return the masks that contain no other one, fewest bits first; None if they are more than `at_most`."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=int.bit_count):
        for smaller in kept:
            if mask & smaller == smaller:
                break
        else:
            kept.append(mask)
            # Masks come in order of size, so what is kept stays: too many now is too many for good.
            if at_most is not None and len(kept) > at_most:
                return None
    return kept


def is_minimal(formula: Formula) -> bool:
    """Return whether no conjunction of `formula` contains another."""
    if len(formula) < 2:
        return True
    sets = [frozenset(conjunction) for conjunction in formula]
    return not any(a <= b or b <= a for a, b in combinations(sets, 2))


def minimise(conjunctions: Iterable[Iterable[str]]) -> Formula:
    """Return the normal form of a disjunction of conjunctions."""
    vocabulary = Vocabulary()
    masks = minimal_masks(vocabulary.mask(words) for words in conjunctions)
    assert masks is not None
    return vocabulary.formula(masks)


class Vocabulary:
    """Gives each word of one computation its bit."""

    __slots__ = ("_bits", "_words")

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words = list(words)
        self._bits = {word: 1 << place for place, word in enumerate(self._words)}

    def bit(self, word: str) -> int:
        """Return the mask of one word."""
        bit = self._bits.get(word)
        if bit is None:
            bit = self._bits[word] = 1 << len(self._words)
            self._words.append(word)
        return bit

    def mask(self, words: Iterable[str]) -> int:
        """Return the mask of a conjunction."""
        mask = 0
        for word in words:
            mask |= self.bit(word)
        return mask

    def conjunction(self, mask: int) -> Conjunction:
        """Return the words of a mask in code point order."""
        words = []
        while mask:
            low = mask & -mask
            words.append(self._words[low.bit_length() - 1])
            mask ^= low
        return tuple(sorted(words))

    def formula(self, masks: Iterable[int]) -> Formula:
        """Return the formula of minimal masks."""
        return tuple(sorted(self.conjunction(mask) for mask in masks))


def formula_covers(a: Formula, b: Formula) -> bool:
    """Return whether every document of `b` is one of `a`: each conjunction of `b` contains one of `a`.

    This is exact: the smallest document of a conjunction is its own words, and what matches it must be
    contained in them.
    """
    for conjunction in b:
        document = frozenset(conjunction)
        if not any(document.issuperset(required) for required in a):
            return False
    return True


def generalise(masks: Iterable[int], at_most: int) -> list[int]:
    """Return at most `at_most` minimal masks that cover all of `masks` and give up few words.

    Pairs of conjunctions are replaced by what they have in common, those first that lose the fewest words.
    When no two have a word in common the answer is [0]: every document.
    """
    current = sorted(masks)
    while len(current) > at_most:
        pairs = sorted(
            ((a ^ b).bit_count(), i, j) for (i, a), (j, b) in combinations(enumerate(current), 2) if a & b
        )
        if not pairs:
            return [0]
        used: set[int] = set()
        common: list[int] = []
        for _, i, j in pairs:
            if len(common) == len(current) - at_most:
                break
            if i not in used and j not in used:
                used |= {i, j}
                common.append(current[i] & current[j])
        rest = [mask for i, mask in enumerate(current) if i not in used]
        reduced = minimal_masks(rest + common)
        assert reduced is not None
        current = sorted(reduced)
    return current
