"""Where a new subscription goes while a plan is in force: to the group whose cost grows least.

Trees stay as they are. A subscription that matches no document of the sample makes no group dearer: it goes where
`assign` would have put it.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import ArrayLike

from covey.errors import PlanError
from covey.matching.jit import Floats
from covey.planning.groups.assign import settled
from covey.planning.groups.model import Grouping, Problem, members_of
from covey.planning.subscriptions import Matches


def insert(
    problem: Problem,
    grouping: Grouping,
    host: int,
    documents: ArrayLike,
    words: frozenset[Hashable] = frozenset(),
) -> int:
    """Return the group of a new subscription at this host that matches these sampled documents.

    Among groups that grow alike, the one whose members share most words, then the nearest, then the first.
    """
    if grouping.group is None or not grouping.trees:
        raise PlanError(f"{grouping.name} has no groups to join")
    if not 0 <= host < problem.graph.nodes:
        raise PlanError(f"the host must be among {problem.graph.nodes} nodes, not {host}")
    if grouping.one_copy is not None:  # every tree serves it; its region is that of the nearest root
        return int(np.argmin([problem.paths.distance[tree.root, host] for tree in grouping.trees]))
    growth = growths(problem, grouping, host, documents)
    least = np.flatnonzero(growth <= growth.min() + 1e-9 * max(1.0, abs(float(growth.min()))))
    if len(least) == 1:
        return int(least[0])
    rank = np.full(len(grouping.trees), -1, np.int32)
    rank[least] = np.arange(len(least))
    classes = np.append(rank[grouping.group], -1).astype(np.int32)
    hosts = np.append(problem.sample.hosts, host).astype(np.int32)
    known = [*(problem.words or [frozenset()] * len(grouping.group)), words]
    # Others that are in no group of the least are of no concern, and must not be taken for new ones.
    concerned = np.flatnonzero((classes >= 0) | (np.arange(len(classes)) == len(classes) - 1))
    chosen = settled(
        problem.paths,
        hosts[concerned],
        classes[concerned],
        len(least),
        [known[at] for at in concerned],
    )
    return int(least[chosen[-1]])


def growths(problem: Problem, grouping: Grouping, host: int, documents: ArrayLike) -> Floats:
    """Return by how much each group's cost on the sample grows if such a subscription joins it."""
    assert grouping.group is not None, "asked before"
    numbers = np.unique(np.asarray(documents, np.int64))
    rows = problem.sample.take(numbers)
    new = rows.subscription_count
    # The same documents with one more subscription, which matches them all.
    offsets = rows.offsets + np.arange(len(numbers) + 1)
    subscriptions = np.insert(rows.subscriptions, rows.offsets[1:], new)
    hosts = np.append(rows.hosts, host)
    more = Matches(hosts, rows.publishers, offsets, subscriptions, rows.weights)
    found = np.empty(len(grouping.trees))
    for number, members in enumerate(members_of(grouping.group)):
        tree = grouping.trees[number]
        after = tree.cost(more.documents_of(np.append(members, new)))
        found[number] = after - tree.cost(rows.documents_of(members))
    return found
