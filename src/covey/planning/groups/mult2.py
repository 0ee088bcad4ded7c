"""MULT2 and the hybrid: groups by what merging them saves.

A. Majumder, N. Shrivastava, R. Rastogi and A. Srinivasan, "Scalable Content-Based Routing in Pub/Sub Systems",
Algorithm 2: of all pairs of groups, the one is merged that saves the greatest share of what both cost, until no pair
saves anything. Each pair needs a tree, so only pairs that share a sampled document are looked at: others have nothing
to save with the best trees. Subscriptions with the same documents are one group from the start. Ties go to the
smaller numbers, and a group keeps the smaller number of two.

The hybrid lets likeness (`mult`) merge down to a few hundred groups first.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

from covey.matching.jit import Ints
from covey.planning.groups.assign import settled
from covey.planning.groups.costing import Costing, finished
from covey.planning.groups.likeness import classes_of
from covey.planning.groups.model import Grouping, Point, Problem, members_of, numbered
from covey.planning.groups.mult import Merging
from covey.planning.subscriptions import Matches

HYBRID_GROUPS = 250
TOLERANCE = 1e-9  # of what both cost: less is rounding


def mult2(problem: Problem, *, collapse: bool = True) -> Grouping:
    """Return the groups at which no merge saves anything on the sample.

    Without `collapse`, subscriptions with the same documents start apart: as in the paper, and slow.
    """
    sample = problem.sample
    classes, count = classes_of(sample)
    if not collapse:
        count = int((classes >= 0).sum())
        classes[classes >= 0] = np.arange(count)
    start = settled(problem.paths, sample.hosts, classes, count, problem.words)
    costing = Costing(problem)
    return finished(problem, "mult2", merged_by_saving(problem, start, costing), costing=costing)


def hybrid(problem: Problem, *, measure: str = "jaccard", groups: int = HYBRID_GROUPS) -> Grouping:
    """Return what MULT2 makes of so many groups by likeness, or of as few as likeness leaves."""
    merging = Merging(problem, measure)
    most = max(groups, merging.tree.fewest, 1)
    costing = Costing(problem)
    return finished(
        problem, "hybrid", merged_by_saving(problem, merging.group(most), costing), costing=costing
    )


def merged_by_saving(
    problem: Problem,
    group: Ints,
    costing: Costing | None = None,
    tell: Callable[[Point], None] | None = None,
) -> Ints:
    """Return the groups that are left when pairs were merged as long as that saves something.

    `tell` is told what the groups cost before the first merge and after each.
    """
    costing = Costing(problem) if costing is None else costing
    members = dict(enumerate(members_of(numbered(group))))
    if not len(group):
        return group
    near = _sharing(costing.sample, numbered(group), len(members))
    version = dict.fromkeys(members, 0)

    def entry(first: int, second: int) -> tuple[float, int, int, int, int] | None:
        first, second = min(first, second), max(first, second)
        apart = costing.worth(members[first]).sample + costing.worth(members[second]).sample
        both = np.sort(np.concatenate([members[first], members[second]]))
        share = (apart - costing.worth(both).sample) / apart if apart else 0.0
        if share <= TOLERANCE:
            return None
        return -share, first, second, version[first], version[second]

    pairs = [(one, two) for one in near for two in sorted(near[one]) if one < two]
    heap = []
    for number, (one, two) in enumerate(pairs):
        # Half of the budget is for looking at pairs, half for merging them.
        if costing.budget.halves(f"after {number:,} of {len(pairs):,} pairs of groups"):
            break
        if made := entry(one, two):
            heap.append(made)
    heapify(heap)
    if tell:
        tell(costing.point(list(members.values())))
    while heap and not costing.budget.stops(f"with {len(members):,} groups"):
        _, kept, gone, *meant = heappop(heap)
        if [version.get(kept), version.get(gone)] != meant:
            continue
        members[kept] = np.sort(np.concatenate([members[kept], members.pop(gone)]))
        version[kept] += 1
        del version[gone]
        near[kept] = (near[kept] | near.pop(gone)) - {kept, gone}
        for other in sorted(near[kept]):
            near[other] = (near[other] - {gone}) | {kept}
            made = entry(kept, other)
            if made:
                heappush(heap, made)
        if tell:
            tell(costing.point(list(members.values())))
    found = np.empty(len(group), np.int32)
    for name, mine in members.items():
        found[mine] = name
    return numbered(found)


def _sharing(matches: Matches, group: Ints, count: int) -> dict[int, set[int]]:
    """Return for each group those with which it shares a document."""
    near: dict[int, set[int]] = {name: set() for name in range(count)}
    label = group[matches.subscriptions]
    for number in range(matches.document_count):
        mine = set(label[matches.offsets[number] : matches.offsets[number + 1]].tolist())
        for name in mine:
            near[name] |= mine
    for name, others in near.items():
        others.discard(name)
    return near
