"""What plans are worth, and what planning takes: regions with a tree each beside one tree, and beside Steiner trees.

Keywords have a random root and subscribers among the 2 % of brokers nearest to it, at least ten; documents take three
keywords from one random broker's subscriptions and are published anywhere. A plan is made from a sample and costed on
fresh documents: how many links a document crosses. What regions and one tree cost is counted again in plain Python for
some documents. By events, the time that planning regions takes is beside that of planning one tree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from covey.bench import planning_plain as plain
from covey.bench.comparison import Comparison
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.groups.costing import traffic
from covey.planning.groups.model import Grouping, Problem, Words
from covey.planning.groups.regions import document_costs, replayed
from covey.planning.groups.registry import METHODS
from covey.planning.paths import AllPaths
from covey.planning.steiner import steiner_costs
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree
from covey.sim.topology import transit_stub

EXTRA_LINKS: Final = 0.5
SHARE: Final = 0.02
SUBSCRIBERS: Final = 10
KEYWORDS_PER_BROKER: Final = 2
SAMPLED: Final = 500
FRESH: Final = 5_000
CHECKED: Final = 100
SEED: Final = 1


def plans(
    progress: Callable[[str], None], *, brokers: Sequence[int], events: Sequence[int]
) -> list[Comparison]:
    """Return what plans cost in overlays of so many brokers, and what planning takes with so many events."""
    result: list[Comparison] = []
    for count in sorted(brokers):
        progress(f"plans for {count:,} brokers")
        result += _quality(count)
    nodes = max(brokers)
    paths = AllPaths(overlay(nodes, SEED))
    for count in sorted(events):
        progress(f"plans from {count:,} events")
        result.append(_planning(paths, count))
    return result


def overlay(brokers: int, seed: int) -> Graph:
    """Return a transit-stub graph of so many brokers with half a random link more for each."""
    topology = transit_stub(brokers, seed, extra=EXTRA_LINKS)
    number = {broker: place for place, broker in enumerate(topology.brokers)}
    return Graph(len(number), [(number[a], number[b]) for a, b in topology.links])


def localized(
    paths: AllPaths,
    share: float,
    keywords: int,
    count: int,
    seed: int,
    subscribers: int = SUBSCRIBERS,
    each: int = 3,
) -> tuple[Matches, Words]:
    """Return documents of keywords that one broker subscribes to, and a subscription for each (broker, keyword)."""
    random = np.random.default_rng(seed)
    nodes = paths.graph.nodes
    wanting = []
    for root in random.integers(nodes, size=keywords):
        near = np.argsort(paths.distance[root] + random.random(nodes) / 2, kind="stable")
        near = near[: max(1, round(share * nodes))]
        wanting.append(np.sort(random.permutation(near)[:subscribers]))
    hosts = np.concatenate(wanting)
    word = np.repeat(np.arange(keywords), [len(mine) for mine in wanting])
    members = [np.flatnonzero(word == keyword) for keyword in range(keywords)]
    having = [word[hosts == node] for node in range(nodes)]
    centres = random.choice(np.unique(hosts), count)
    documents = [
        (
            int(random.integers(nodes)),
            np.concatenate([members[k] for k in random.permutation(having[centre])[:each]]).tolist(),
        )
        for centre in centres
    ]
    return Matches.of(hosts, documents), [frozenset([int(keyword)]) for keyword in word]


def _drawn(paths: AllPaths, count: int) -> tuple[Matches, Words]:
    nodes = paths.graph.nodes
    share = max(SHARE, SUBSCRIBERS / nodes)
    return localized(paths, share, KEYWORDS_PER_BROKER * nodes, count, SEED)


def _quality(brokers: int) -> list[Comparison]:
    paths = AllPaths(overlay(brokers, SEED))
    matches, words = _drawn(paths, SAMPLED + FRESH)
    sample, fresh = matches.split(SAMPLED / (SAMPLED + FRESH), SEED)
    problem = Problem(paths.graph, paths, sample, words=words, seed=SEED)
    regions, single = (METHODS[name](problem) for name in ("regions", "single"))
    assert single.group is not None, "one tree is one group"
    ours = replayed(problem, regions, fresh).per_document
    one_tree = traffic(fresh, single.group, single.trees).per_document
    steiner = float(steiner_costs(paths, fresh.documents).sum()) / fresh.document_count
    equal = _recounted(fresh.documents, regions) and _recounted(fresh.documents, single)
    return [
        Comparison(
            part="planning",
            work="links that an event crosses, regions",
            unit="",
            axis="brokers",
            size=brokers,
            ours=ours,
            baseline=baseline,
            theirs=theirs,
            equal=equal,
        )
        for baseline, theirs in (("one tree", one_tree), ("a Steiner tree for each event", steiner))
    ]


def _recounted(documents: Documents, found: Grouping) -> bool:
    """Return whether some documents cost in plain Python what the plan says, on the tree with the nearest root."""
    few = documents.take(range(min(CHECKED, len(documents))))
    total = 0
    for number in range(len(few)):
        terminals = plain.terminals_of(few, number)
        tree = min(found.trees, key=lambda tree: float(tree.depth[terminals[1:]].sum()))
        total += plain.tree_cost(tree.parent.tolist(), tree.depth.astype(int).tolist(), terminals)
    return total == _costs(few, found.trees, found.one_copy)


def _costs(documents: Documents, trees: Sequence[Tree], rule: str | None) -> float:
    if rule is None:
        (tree,) = trees
        return float(tree.costs(documents).sum())
    return float(document_costs(documents, trees, rule).sum())


def _planning(paths: AllPaths, events: int) -> Comparison:
    matches, words = _drawn(paths, events)
    spent: dict[str, float] = {}
    for name in ("regions", "single"):
        problem = Problem(paths.graph, paths, matches, words=words, seed=SEED)
        began = time.thread_time()
        METHODS[name](problem)
        spent[name] = time.thread_time() - began
    return Comparison(
        part="planning",
        work=f"planning regions for {paths.graph.nodes:,} brokers",
        unit="s",
        axis="events",
        size=events,
        ours=spent["regions"],
        baseline="planning one tree",
        theirs=spent["single"],
    )
