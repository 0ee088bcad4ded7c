"""Grouping by likeness, the merge part of Algorithm 3: a dendrogram of subscriptions, without any cost.

Two groups are alike as far as the documents that they match are the same, each document counted once whatever its
weight. Subscriptions with the same documents are one class from the start. The two most alike are merged, again and
again, until no two have a document in common: what is left has no order by likeness, and further merges would be
arbitrary. Ties go to the smaller numbers.

Up to `exact_words` of work everything is exact: document sets are bits. Above, pairs are looked for only among each
class's nearest, found exactly through the documents, and merged by estimates: the signature of a set is the least
hash under each of many hash functions, that of a union the least of both. Rounds of this go on until few enough are
left for the exact way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs
from covey.planning.groups.kernels import (
    Words,
    agglomerate_exactly,
    agglomerate_roughly,
    bit_sets,
    nearest_rows,
    sign,
)
from covey.planning.subscriptions import Matches, transposed

MEASURES = {"jaccard": 0, "overlap": 1}
EXACT_WORDS = 4 << 30  # words of bit sets compared with each other: rows² × words of a row
HASHES = 128
NEIGHBOURS = 16
MOST_MATCHES = 5_000


@dataclass(frozen=True, eq=False)
class Dendrogram:
    """Classes of subscriptions with the same documents, and the order in which they merge.

    classes  (s,) int32, the class of each subscription, numbered by their smallest subscriptions; -1 where a
             subscription matches no document
    count    how many classes there are
    merges   (m, 2) int32, the class that grows and the one that it takes in, each named by its smallest class
    heights  (m,) float64, how alike the two were, estimated where there were too many for the exact way
    """

    classes: Ints
    count: int
    merges: Ints
    heights: Floats

    @property
    def fewest(self) -> int:
        """How many groups are left when no two are alike."""
        return self.count - len(self.merges)

    def labels(self, groups: int) -> Ints:
        """Return for each class the smallest class of its group, when so many groups are left."""
        if not self.fewest <= groups <= self.count:
            raise PlanError(f"there are from {self.fewest} to {self.count} groups, not {groups}")
        return joined(self.count, self.merges[: self.count - groups])


def joined(count: int, merges: Ints) -> Ints:
    """Return for each class the smallest of its group, after merges each of which keeps the smaller number."""
    above = np.arange(count, dtype=np.int32)
    above[merges[:, 1]] = merges[:, 0]
    while True:
        higher = above[above]
        if np.array_equal(higher, above):
            return above
        above = higher


def classes_of(matches: Matches) -> tuple[Ints, int]:
    """Return the class of each subscription, -1 where it matches nothing, and how many classes there are."""
    offsets, documents = matches.by_subscription
    known: dict[bytes, int] = {}
    found = np.full(matches.subscription_count, -1, np.int32)
    for subscription, (start, end) in enumerate(pairwise(offsets.tolist())):
        if end > start:
            found[subscription] = known.setdefault(documents[start:end].tobytes(), len(known))
    return found, len(known)


def dendrogram(
    matches: Matches,
    *,
    measure: str = "jaccard",
    seed: int = 0,
    exact_words: int = EXACT_WORDS,
) -> Dendrogram:
    """Return how the subscriptions merge by likeness; the seed decides the hash functions."""
    if measure not in MEASURES:
        raise PlanError(f"no measure {measure!r} (hint: one of {', '.join(MEASURES)})")
    classes, count = classes_of(matches)
    _, first = np.unique(classes, return_index=True)
    first = first[-count:] if count else first[:0]  # without the -1
    offsets, documents = _rows(matches, first)
    merges: list[Ints] = [np.empty((0, 2), np.int32)]
    heights: list[Floats] = [np.empty(0)]
    names = np.arange(count, dtype=np.int32)  # the smallest class of each row that is left
    words = matches.document_count // 64 + 1
    most = max(1, int((exact_words / words) ** 0.5))
    while len(names) > most:
        made, high = _rough_round(offsets, documents, matches.document_count, MEASURES[measure], most, seed)
        if not len(made):
            break  # what is alike is so only by documents that match very many
        merges.append(names[made])
        heights.append(high)
        offsets, documents, kept = _united(offsets, documents, joined(len(names), made))
        names = names[kept]
    if len(names) <= most:
        bits = np.zeros((len(names), words), np.uint64)
        bit_sets(offsets, documents, bits)
        made, high = _exact_rest(bits, MEASURES[measure])
        merges.append(names[made])
        heights.append(high)
    return Dendrogram(classes, count, np.concatenate(merges), np.concatenate(heights))


def _rows(matches: Matches, subscriptions: Longs) -> tuple[Longs, Ints]:
    offsets, documents = matches.by_subscription
    sizes = offsets[subscriptions + 1] - offsets[subscriptions]
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    places = np.arange(starts[-1]) + np.repeat(offsets[subscriptions] - starts[:-1], sizes)
    return starts, documents[places]


def _exact_rest(bits: Words, measure: int) -> tuple[Ints, Floats]:
    merges = np.empty((len(bits), 2), np.int32)
    heights = np.empty(len(bits))
    made = int(agglomerate_exactly(bits, measure, 1, merges, heights))
    return merges[:made], heights[:made]


def _rough_round(
    offsets: Longs,
    documents: Ints,
    document_count: int,
    measure: int,
    fewest: int,
    seed: int,
) -> tuple[Ints, Floats]:
    count = len(offsets) - 1
    row_offsets, rows = transposed(offsets, documents, document_count)
    neighbours = np.empty((count, NEIGHBOURS), np.int32)
    near = np.empty((count, NEIGHBOURS))
    nearest_rows(offsets, documents, row_offsets, rows, MOST_MATCHES, measure, neighbours, near)
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 1 << 32, (document_count, HASHES), dtype=np.uint32)
    signatures = np.empty((count, HASHES), np.uint32)
    sign(offsets, documents, hashes, signatures)
    merges = np.empty((count, 2), np.int32)
    heights = np.empty(count)
    sizes = np.diff(offsets).astype(np.float64)
    made = int(agglomerate_roughly(signatures, sizes, neighbours, near, measure, fewest, merges, heights))
    return merges[:made], heights[:made]


def _united(offsets: Longs, documents: Ints, labels: Ints) -> tuple[Longs, Ints, Longs]:
    """Return the document sets of groups of rows, and the row that names each."""
    kept, group = np.unique(labels, return_inverse=True)
    width = int(documents.max(initial=0)) + 1
    rows = np.repeat(group.astype(np.int64), np.diff(offsets))
    pairs = np.unique(rows * width + documents)
    starts = np.searchsorted(pairs, np.arange(len(kept) + 1) * width)
    return (
        starts.astype(np.int64),
        (pairs % width).astype(np.int32),
        kept.astype(np.int64),
    )
