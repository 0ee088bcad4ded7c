"""Sampled documents as planning sees them: where each is published, and which brokers host somebody who wants it.

Here a document is an event of the sample; the word is the papers'. Content plays no part any more: which
subscriptions match was decided before. A document's hosts are sorted and distinct. The publisher's own broker may be
among them, which costs nothing, and there may be none: nobody wants the document, and it costs nothing either. The
weight of a document, 1 unless told, multiplies whatever it costs: its size, or how many like it one sampled document
stands for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs, kernel, sort
from covey.planning.graph import Graph, Mask


class Documents:
    """Documents 0 … d-1 in flat arrays; PlanError for what cannot be documents.

    publishers  (d,) int32, the node at which each is published
    offsets     (d + 1,) int64: the hosts of document j are hosts[offsets[j] : offsets[j + 1]]
    hosts       int32, sorted and distinct within a document
    weights     (d,) float64, not negative
    """

    __slots__ = ("hosts", "offsets", "publishers", "weights")

    def __init__(
        self, publishers: ArrayLike, offsets: ArrayLike, hosts: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        self.publishers: Ints = np.ascontiguousarray(publishers, np.int32)
        self.offsets: Longs = np.ascontiguousarray(offsets, np.int64)
        self.hosts: Ints = np.ascontiguousarray(hosts, np.int32)
        count = len(self.publishers)
        self.weights: Floats = (
            np.ones(count) if weights is None else np.ascontiguousarray(weights, np.float64)
        )
        if self.offsets.shape != (count + 1,) or self.weights.shape != (count,):
            raise PlanError(f"{count} documents need {count + 1} offsets and {count} weights")
        sizes = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.hosts) or (sizes < 0).any():
            raise PlanError("the offsets of documents must rise from 0 to the number of hosts")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all()):
            raise PlanError("the weights of documents must be finite and not negative")
        if (self.publishers < 0).any() or (self.hosts < 0).any():
            raise PlanError("a document has a negative node number")
        rising = np.ones(len(self.hosts) + 1, np.bool_)
        rising[1:-1] = self.hosts[1:] > self.hosts[:-1]
        rising[self.offsets] = True
        if not rising.all():
            wrong = int(np.searchsorted(self.offsets, np.argmin(rising), "right")) - 1
            raise PlanError(f"the hosts of document {wrong} are not sorted and distinct")

    @classmethod
    def of(
        cls, documents: Iterable[tuple[int, Iterable[int]]], weights: ArrayLike | None = None
    ) -> Documents:
        """Return the documents of these (publisher, hosts); hosts may come in any order and repeatedly."""
        pairs = [(publisher, sorted(set(hosts))) for publisher, hosts in documents]
        offsets = np.cumsum([0, *(len(hosts) for _, hosts in pairs)])
        flat = [host for _, hosts in pairs for host in hosts]
        return cls([publisher for publisher, _ in pairs], offsets, np.array(flat, np.int32), weights)

    @classmethod
    def gathered(
        cls, publishers: ArrayLike, offsets: ArrayLike, hosts: ArrayLike, weights: ArrayLike | None = None
    ) -> Documents:
        """Return the documents of arrays in which the hosts of a document have no order and may repeat."""
        flat = np.array(hosts, np.int32)
        starts = np.array(offsets, np.int64)
        if len(starts) == 0 or starts[0] != 0 or starts[-1] != len(flat) or (np.diff(starts) < 0).any():
            raise PlanError("the offsets of documents must rise from 0 to the number of hosts")
        kept = int(_sort_rows(starts, flat))
        return cls(publishers, starts, flat[:kept].copy(), weights)

    def __len__(self) -> int:
        return len(self.publishers)

    def __repr__(self) -> str:
        return f"Documents({len(self)} with {len(self.hosts)} hosts)"

    def hosts_of(self, number: int) -> Ints:
        """Return the hosts of one document."""
        return self.hosts[self.offsets[number] : self.offsets[number + 1]]

    def take(self, numbers: ArrayLike) -> Documents:
        """Return the documents of these numbers, in this order; a mask of documents does too."""
        chosen = np.asarray(numbers)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        sizes = np.diff(self.offsets)[chosen]
        offsets = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        return Documents(self.publishers[chosen], offsets, self.hosts[places], self.weights[chosen])

    def split(self, share: float, seed: int) -> tuple[Documents, Documents]:
        """Return round(share × d) documents drawn without replacement, and the others; both keep their order."""
        if not 0 <= share <= 1:
            raise PlanError(f"a share of documents is from 0 to 1, not {share}")
        drawn = np.zeros(len(self), np.bool_)
        drawn[np.random.default_rng(seed).permutation(len(self))[: round(share * len(self))]] = True
        return self.take(drawn), self.take(~drawn)

    def restricted(self, mask: Mask) -> Documents:
        """Return the same documents with only those hosts for which the mask, one boolean a node, is true."""
        kept = np.asarray(mask, np.bool_)[self.hosts]
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        return Documents(self.publishers, before[self.offsets], self.hosts[kept], self.weights)

    def wanted(self) -> Mask:
        """Return for each document whether it has a host other than its publisher, and so can cost something."""
        abroad = self.hosts != np.repeat(self.publishers, np.diff(self.offsets))
        before = np.zeros(len(abroad) + 1, np.int64)
        np.cumsum(abroad, out=before[1:])
        return np.asarray(np.diff(before[self.offsets]) > 0, np.bool_)

    def undeliverable(self, graph: Graph) -> Mask:
        """Return for each document whether one of its hosts cannot be reached from its publisher."""
        self.check_nodes(graph)
        if graph.component_count == 1:
            return np.zeros(len(self), np.bool_)
        label = graph.components()
        apart = label[self.hosts] != np.repeat(label[self.publishers], np.diff(self.offsets))
        before = np.zeros(len(apart) + 1, np.int64)
        np.cumsum(apart, out=before[1:])
        return np.asarray(np.diff(before[self.offsets]) > 0, np.bool_)

    def check_nodes(self, graph: Graph) -> None:
        """Raise PlanError if a publisher or a host is not a node of the graph."""
        largest = max(int(self.publishers.max(initial=0)), int(self.hosts.max(initial=0)))
        if largest >= graph.nodes:
            raise PlanError(f"documents name node {largest}, and the graph has {graph.nodes} nodes")

    def check_deliverable(self, graph: Graph) -> None:
        """Raise PlanError if a publisher or host is not in the graph, or no path joins those of a document."""
        lost = np.flatnonzero(self.undeliverable(graph))
        if len(lost):
            raise PlanError(
                f"{len(lost)} documents have hosts that no path joins to their publisher, first document {lost[0]}"
                " (leave out what `undeliverable` says)"
            )


@kernel
def _sort_rows(offsets: Longs, hosts: Ints) -> int:
    """Sort each row and drop what repeats; rows move together, `offsets` follow; return how many hosts are left."""
    kept = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        offsets[row] = kept
        sort(hosts, start, end)
        for place in range(start, end):
            host = hosts[place]
            if place == start or host != hosts[kept - 1]:
                hosts[kept] = host
                kept += 1
    offsets[len(offsets) - 1] = kept
    return kept
