"""Which subscriptions match which sampled documents, and at which broker each subscription is hosted.

This is what grouping works on. For the documents of a group, `documents_of` gives planning's `Documents`: those that
match one of its subscriptions, each with the hosts of the subscriptions in the group that match it, a host once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints, Longs
from covey.planning.documents import Documents
from covey.planning.graph import Graph


class Matches:
    """Subscriptions 0 … s-1 and documents 0 … d-1, and who matches whom; PlanError for what cannot be that.

    hosts          (s,) int32, the node of each subscription
    publishers     (d,) int32, and `weights` (d,) float64, as in Documents
    offsets        (d + 1,) int64: document j matches subscriptions[offsets[j] : offsets[j + 1]]
    subscriptions  int32, sorted and distinct within a document
    """

    def __init__(
        self,
        hosts: ArrayLike,
        publishers: ArrayLike,
        offsets: ArrayLike,
        subscriptions: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        self.hosts: Ints = np.ascontiguousarray(hosts, np.int32)
        # The rows have the form of documents, with subscriptions for hosts: the same checks hold.
        self._rows = Documents(publishers, offsets, subscriptions, weights)
        if len(self.hosts) and self.hosts.min() < 0:
            raise PlanError("a subscription has a negative node number")
        if self._rows.hosts.max(initial=-1) >= len(self.hosts):
            raise PlanError(
                f"documents match subscription {self._rows.hosts.max()}, and there are {len(self.hosts)}"
            )

    @classmethod
    def of(
        cls,
        hosts: ArrayLike,
        documents: Iterable[tuple[int, Iterable[int]]],
        weights: ArrayLike | None = None,
    ) -> Matches:
        """Return the matches of these (publisher, subscriptions that match), in any order and repeatedly."""
        rows = Documents.of(documents, weights)
        return cls(hosts, rows.publishers, rows.offsets, rows.hosts, rows.weights)

    @property
    def publishers(self) -> Ints:
        """The node at which each document is published."""
        return self._rows.publishers

    @property
    def weights(self) -> Floats:
        """The weight of each document."""
        return self._rows.weights

    @property
    def offsets(self) -> Longs:
        """Where the subscriptions of each document begin."""
        return self._rows.offsets

    @property
    def subscriptions(self) -> Ints:
        """The subscriptions that match, document after document."""
        return self._rows.hosts

    @property
    def document_count(self) -> int:
        """How many documents there are."""
        return len(self._rows)

    @property
    def subscription_count(self) -> int:
        """How many subscriptions there are."""
        return len(self.hosts)

    def __repr__(self) -> str:
        pairs = len(self.subscriptions)
        return f"Matches({self.subscription_count} subscriptions, {self.document_count} documents, {pairs} pairs)"

    @cached_property
    def by_subscription(self) -> tuple[Longs, Ints]:
        """Offsets and documents of each subscription: those it matches, sorted."""
        return transposed(self.offsets, self.subscriptions, self.subscription_count)

    def matched_by(self, subscription: int) -> Ints:
        """Return the documents that a subscription matches, sorted."""
        offsets, documents = self.by_subscription
        return documents[offsets[subscription] : offsets[subscription + 1]]

    def idle(self) -> Ints:
        """Return the subscriptions that match no document at all."""
        return np.flatnonzero(np.diff(self.by_subscription[0]) == 0).astype(np.int32)

    @cached_property
    def documents(self) -> Documents:
        """All documents with all their hosts, also those that match nobody."""
        rows = self._rows
        return Documents.gathered(rows.publishers, rows.offsets, self.hosts[rows.hosts], rows.weights)

    def documents_of(self, group: ArrayLike) -> Documents:
        """Return the documents that match a subscription of the group, with the hosts of those that match."""
        return self.numbered_documents_of(group)[1]

    def numbered_documents_of(self, group: ArrayLike) -> tuple[Longs, Documents]:
        """Return the number of each document of a group beside `documents_of`."""
        members = np.asarray(group, np.int64)
        offsets, documents = self.by_subscription
        sizes = offsets[members + 1] - offsets[members]
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets[members] - ends + sizes, sizes)
        nodes = int(self.hosts.max(initial=0)) + 1
        pairs = np.unique(documents[places].astype(np.int64) * nodes + np.repeat(self.hosts[members], sizes))
        document, host = np.divmod(pairs, nodes)
        first = np.flatnonzero(np.diff(document, prepend=-1))
        numbers = document[first]
        found = Documents(
            self.publishers[numbers],
            np.append(first, len(pairs)),
            host,
            self.weights[numbers],
        )
        return numbers, found

    def take(self, numbers: ArrayLike) -> Matches:
        """Return the matches of these documents, in this order, or of a mask of documents; all subscriptions stay."""
        rows = self._rows.take(numbers)
        return Matches(self.hosts, rows.publishers, rows.offsets, rows.hosts, rows.weights)

    def split(self, share: float, seed: int) -> tuple[Matches, Matches]:
        """Return round(share × d) documents drawn without replacement, and the others; both keep their order."""
        if not 0 <= share <= 1:
            raise PlanError(f"a share of documents is from 0 to 1, not {share}")
        drawn = np.zeros(self.document_count, np.bool_)
        count = round(share * self.document_count)
        drawn[np.random.default_rng(seed).permutation(self.document_count)[:count]] = True
        return self.take(drawn), self.take(~drawn)

    def check_nodes(self, graph: Graph) -> None:
        """Raise PlanError if a publisher or a host is not a node of the graph."""
        largest = max(int(self.publishers.max(initial=0)), int(self.hosts.max(initial=0)))
        if largest >= graph.nodes:
            raise PlanError(f"matches name node {largest}, and the graph has {graph.nodes} nodes")


def transposed(offsets: Longs, items: Ints, count: int) -> tuple[Longs, Ints]:
    """Return the rows of each of `count` items, for items in rows."""
    rows = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(items, minlength=count), out=starts[1:])
    return starts, rows[np.argsort(items, kind="stable")]
