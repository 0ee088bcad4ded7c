"""Taking a formula apart where its parts share no word.

Conjunctions are masks with one bit per word, as in `normal`. A formula splits in two ways, each in one finest
way: into *alternatives*, whose conjunctions are apart, and into *factors*, of whose conjunctions it has every
combination. Splitting by turns gives back each formula that can be written with every word once.
"""

from __future__ import annotations

from math import prod


def alternatives(masks: list[int]) -> list[list[int]]:
    """Return the parts of a disjunction that have no word in common, as small as possible."""
    groups = _components(_meetings(masks))
    return [[mask for mask in masks if mask & group] for group in groups]


def factors(masks: list[int]) -> list[list[int]]:
    """Return formulas without common words whose conjunction is `masks`; only itself when there are none.

    In a product, each word of one factor meets each word of the others in some conjunction. So words that
    never meet belong to one factor, and the groups so found are the factors if all combinations are there.
    """
    meetings = _meetings(masks)
    everything = sum(meetings)
    groups = _components({word: everything & ~met | word for word, met in meetings.items()})
    if not all(mask & group for mask in masks for group in groups):
        return [masks]
    projections = [sorted({mask & group for mask in masks}) for group in groups]
    if prod(map(len, projections)) != len(masks):
        return [masks]
    return projections


def _meetings(masks: list[int]) -> dict[int, int]:
    """Return for each word, in order, the words with which it shares a conjunction, itself among them."""
    meetings: dict[int, int] = {}
    for mask in masks:
        rest = mask
        while rest:
            word = rest & -rest
            meetings[word] = meetings.get(word, 0) | mask
            rest ^= word
    return dict(sorted(meetings.items()))


def _components(neighbours: dict[int, int]) -> list[int]:
    """Return the connected groups of words as masks, each group at the place of its first word."""
    groups: list[int] = []
    seen = 0
    for word in neighbours:
        if word & seen:
            continue
        group, frontier = word, word
        while frontier:
            nearest = frontier & -frontier
            group_before = group
            group |= neighbours[nearest]
            frontier = frontier ^ nearest | group & ~group_before
        seen |= group
        groups.append(group)
    return groups
