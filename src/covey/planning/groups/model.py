"""What every way of grouping is given, and what it gives back.

Subscriptions of a group share a dissemination tree. A document travels on the tree of each group in which somebody
wants it, and only towards those who do. What that costs is the sum over its groups, so a document in several groups
pays the long way several times (`copies`), and a host may get it several times (`deliveries` less `wanted`): the
broker at the edge lets the first one through.

Costs are totals, times the weight of each document. Documents that match nobody cost nothing and stay in the number
by which `per_document` divides. What is planned on a sample looks better on it than on fresh documents: both costs
are reported.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Ints
from covey.planning.graph import Graph
from covey.planning.objective import ENTRY_BYTES, Bill, Objective, Usage, bill
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree

Words: TypeAlias = Sequence[frozenset[Hashable]]


@dataclass(frozen=True, eq=False)
class Problem:
    """An overlay, which subscriptions match which sampled documents, and what else is known.

    `held_out` are documents that trees are not fitted to; `words` say what each subscription asks for, as far as it
    can be said in words: filters that share words match some of the same documents. `filters` number what each
    subscription asks for, equal filters alike; without them all are different. With an `objective`, plans are chosen
    by their price (`planning.objective`), without one by traffic alone. `budget_s` is how long a method may compute, in
    estimated seconds (`planning.budget`). PlanError unless the graph is connected and
    both sets of documents are about the same subscriptions.
    """

    graph: Graph
    paths: AllPaths
    sample: Matches
    held_out: Matches | None = None
    words: Words | None = None
    seed: int = 0
    filters: Ints | None = None
    filter_bytes: float = 0.0
    objective: Objective | None = None
    budget_s: float | None = None

    def __post_init__(self) -> None:
        self.graph.check_connected("grouping")
        if self.paths.graph is not self.graph:
            raise PlanError("the paths are of another graph")
        for matches in (self.sample, self.held_out):
            if matches is not None:
                matches.check_nodes(self.graph)
        if self.held_out is not None and not np.array_equal(self.held_out.hosts, self.sample.hosts):
            raise PlanError("documents held out must be matched against the same subscriptions as the sample")
        if self.words is not None and len(self.words) != self.sample.subscription_count:
            raise PlanError(f"there must be words for each of {self.sample.subscription_count} subscriptions")
        if self.filters is not None and len(self.filters) != self.sample.subscription_count:
            raise PlanError(
                f"there must be a filter for each of {self.sample.subscription_count} subscriptions"
            )

    @cached_property
    def asked(self) -> Ints:
        """The number of each subscription's filter."""
        known = self.filters
        return np.arange(self.sample.subscription_count, dtype=np.int32) if known is None else known

    def billed(self, point: Point) -> Bill:
        """Return what an event costs at a point of a curve, by documents held out."""
        usage = Usage(
            (point.held_out or 0.0) / max(1, point.others),
            point.copies / max(1, point.documents),
            point.trials / max(1, point.documents),
            point.entries,
            point.entries * (ENTRY_BYTES + self.filter_bytes),
            point.groups,
            self.graph.nodes,
            0.0 if point.groups == 1 and not point.one_copy else point.entries,
        )
        return bill(self.objective or Objective(), usage)


@dataclass(frozen=True)
class Traffic:
    """What a set of documents costs; all but `documents` count each document by its weight.

    cost        links crossed, by their costs
    copies      how many groups a document is sent to, added up
    deliveries  how many hosts get it in each of its groups, added up; `wanted` counts each host once
    documents   how many documents there are, also those that match nobody
    """

    cost: float
    copies: float
    deliveries: float
    wanted: float
    documents: int

    @property
    def duplicates(self) -> float:
        """How often a host gets a document again."""
        return self.deliveries - self.wanted

    @property
    def per_document(self) -> float:
        """The cost of a document on average, those included that match nobody."""
        return self.cost / self.documents if self.documents else 0.0


@dataclass(frozen=True)
class Point:
    """A number of groups that was tried, and what it would cost.

    Of the sample so many `documents` were costed, to which copies and trials (trees tried) belong, and of those held
    out `others`.
    """

    groups: int
    sample: float
    held_out: float | None
    copies: float
    duplicates: float
    entries: int = 0
    documents: int = 0
    others: int = 0
    trials: float = 0.0
    one_copy: bool = False


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups of subscriptions with their trees, and what they are worth.

    group     (s,) int32, the group of each subscription, numbered by their smallest subscriptions; None where a
              subscription is not in one group (OPT, channels that were split)
    trees     the tree of each group
    curve     what was tried, if several numbers of groups were, from many to few
    one_copy  how a document's only tree is chosen, if it travels on one and each tree's tables hold all subscriptions
              (`regions`); None if it travels on the tree of each group in which it is wanted
    stopped   where the method stopped because its budget was spent, in a clause; "" if it came to its end
    """

    name: str
    group: Ints | None
    trees: tuple[Tree, ...]
    sample: Traffic
    held_out: Traffic | None = None
    curve: tuple[Point, ...] = ()
    one_copy: str | None = None
    stopped: str = ""

    @property
    def sample_cost(self) -> float:
        """What the sample costs."""
        return self.sample.cost

    @property
    def held_out_cost(self) -> float | None:
        """What the documents held out cost, if there were any."""
        return None if self.held_out is None else self.held_out.cost

    def members(self, group: int) -> Ints:
        """Return the subscriptions of a group, sorted."""
        if self.group is None:
            raise PlanError(f"{self.name} has no groups of subscriptions")
        return np.flatnonzero(self.group == group).astype(np.int32)


def members_of(group: Ints, count: int = 0) -> list[Ints]:
    """Return the subscriptions of each group, sorted; of at least so many groups, some of which may be empty."""
    order = np.argsort(group, kind="stable").astype(np.int32)
    sizes = np.bincount(group, minlength=count)
    return np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []


def numbered(labels: Ints) -> Ints:
    """Return the same groups, numbered by their smallest subscriptions."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse].astype(np.int32)
