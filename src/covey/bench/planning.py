"""Planning on arrays, by the number of brokers: its graph work beside plain Python, and what plans are worth.

The overlay is a transit-stub graph with half a random link more for each broker; links cost 1. Hosts of a document
are near a random node (`local`: the nearest 2 %) or anywhere (`uniform`); the publisher is anywhere and counts
as one of the terminals.

    all pairs      distances and last links between all pairs; plain is a breadth-first search from each
    steiner        a document; plain is the same heuristic on nested lists
    tree cost      a document; plain climbs from each terminal until it meets a marked node
    compute tree   300 documents, all candidates; no plain twin
    swaps          each (link in, link out) that was judged; instead of plain Python, a `Tree` is built and costed, and
                   `equal` is about the cost of the tree that the swaps lead to

Plain work is measured on a part and scaled. CPU time of the thread, best of several. `planning_quality` has the plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from covey.bench import planning_plain as plain
from covey.bench.comparison import Comparison
from covey.bench.planning_quality import overlay, plans
from covey.bench.timing import best_us
from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.improve import improve_by_swaps
from covey.planning.paths import AllPaths
from covey.planning.steiner import link_multiplicities, steiner_costs
from covey.planning.tree import Tree

TERMINALS: Final = 10
PLANNED: Final = 300
PART: Final = 200  # documents and sources for plain Python
SWAPS: Final = 20
SEED: Final = 1

Progress = Callable[[str], None]


def compare(
    progress: Progress,
    *,
    brokers: Sequence[int],
    documents: int,
    plan_brokers: Sequence[int],
    plan_events: Sequence[int],
) -> list[Comparison]:
    """Return graph work in overlays of so many brokers, then plans by brokers and by events."""
    _graph_work(60, 2 * PLANNED)  # compiles
    result: list[Comparison] = []
    for count in sorted(brokers):
        progress(f"{count:,} brokers")
        result += _graph_work(count, max(documents, 2 * PLANNED))
    return result + plans(progress, brokers=plan_brokers, events=plan_events)


def _graph_work(brokers: int, count: int) -> list[Comparison]:
    graph = overlay(brokers, SEED)
    paths = AllPaths(graph)
    rows = [_all_pairs(graph, paths)]
    for name, documents in _documents(paths, count).items():
        sample = documents.take(range(PLANNED))
        tree = compute_tree(graph, paths, sample).tree
        rows += [
            _steiner(name, paths, documents),
            _tree_cost(name, tree, documents),
            _row(
                f"compute tree, {PLANNED} {name} documents",
                "ms",
                best_us(lambda sample=sample: compute_tree(graph, paths, sample), 1_000, 3),  # type: ignore[misc]
            ),
            _swaps(name, tree, paths, documents),
        ]
    return [_at(row, brokers) for row in rows]


def _row(
    work: str,
    unit: str,
    ours: float,
    baseline: str = "",
    theirs: float | None = None,
    equal: bool | None = None,
) -> Comparison:
    return Comparison(
        part="planning",
        work=work,
        unit=unit,
        axis="brokers",
        ours=ours,
        baseline=baseline,
        theirs=theirs,
        equal=equal,
    )


def _at(row: Comparison, brokers: int) -> Comparison:
    return msgspec.structs.replace(row, size=brokers)


def _documents(paths: AllPaths, count: int) -> dict[str, Documents]:
    """Return documents whose hosts are near each other, and such whose hosts are anywhere."""
    random = np.random.default_rng(SEED)
    nodes, hosts = paths.graph.nodes, TERMINALS - 1
    near = np.argsort(paths.distance, axis=1, kind="stable")[:, : max(2 * hosts, nodes // 50)]
    chosen = [random.choice(near[random.integers(nodes)], hosts, replace=False) for _ in range(count)]
    offsets = np.arange(count + 1) * hosts
    publishers = random.integers(nodes, size=count)
    anywhere = random.integers(nodes, size=count * hosts)
    return {
        "local": Documents.gathered(publishers, offsets, np.concatenate(chosen)),
        "uniform": Documents.gathered(publishers, offsets, anywhere),
    }


def _all_pairs(graph: Graph, paths: AllPaths) -> Comparison:
    adjacent = plain.adjacency(graph)
    sources = range(0, graph.nodes, max(1, graph.nodes // PART))
    answers = [plain.hops(adjacent, source) for source in sources]
    return _row(
        "all pairs of brokers",
        "ms",
        best_us(lambda: AllPaths(graph), 1_000, 3),
        "plain Python",
        best_us(lambda: [plain.hops(adjacent, source) for source in sources], 1_000, 1)
        * graph.nodes
        / len(sources),
        all(list(paths.distance[s]) == hops for s, hops in zip(sources, answers, strict=True)),
    )


def _steiner(name: str, paths: AllPaths, documents: Documents) -> Comparison:
    few = documents.take(range(PART))
    distance, via, across = paths.distance.tolist(), paths.via.tolist(), paths.graph.across.tolist()
    terminals = [plain.terminals_of(few, number) for number in range(PART)]

    def by_lists() -> list[int]:
        return [plain.steiner(distance, via, across, mine) for mine in terminals]

    return _row(
        f"Steiner tree of a {name} document",
        "µs",
        best_us(lambda: steiner_costs(paths, documents), len(documents)),
        "plain Python",
        best_us(by_lists, PART, 2),
        by_lists() == list(steiner_costs(paths, few)),
    )


def _tree_cost(name: str, tree: Tree, documents: Documents) -> Comparison:
    few = documents.take(range(PART))
    parent, depth = tree.parent.tolist(), tree.depth.astype(int).tolist()
    terminals = [plain.terminals_of(few, number) for number in range(PART)]

    def by_lists() -> list[int]:
        return [plain.tree_cost(parent, depth, mine) for mine in terminals]

    return _row(
        f"cost on a tree of a {name} document",
        "µs",
        best_us(lambda: tree.costs(documents), len(documents), 9),
        "plain Python",
        best_us(by_lists, PART),
        by_lists() == list(tree.costs(few)),
    )


def _swaps(name: str, tree: Tree, paths: AllPaths, documents: Documents) -> Comparison:
    training, held_out = documents.take(range(PLANNED)), documents.take(range(PLANNED, 2 * PLANNED))
    graph = tree.graph
    outside = np.setdiff1d(np.arange(len(graph.ends)), tree.links)
    multiplicities = link_multiplicities(paths, training)

    def improve() -> object:
        return improve_by_swaps(tree, training, held_out, multiplicities=multiplicities, rounds=1)

    found = improve_by_swaps(tree, training, held_out, multiplicities=multiplicities, rounds=1)
    judged = float(tree.distances(graph.ends[outside, 0], graph.ends[outside, 1]).sum())
    # The deeper end of a link is not above the other, so the link to its parent is on the cycle.
    deeper = np.where(tree.depth[graph.ends[:, 0]] >= tree.depth[graph.ends[:, 1]], *graph.ends.T)

    def by_building() -> list[float]:
        """Judge some swaps by building each tree."""
        gone = tree.parent_link[deeper]
        swapped = (np.where(tree.links == gone[link], link, tree.links) for link in outside[:SWAPS])
        return [Tree(graph, links).cost(training) for links in swapped]

    parent, depth = found.tree.parent.tolist(), found.tree.depth.astype(int).tolist()
    counted = [plain.tree_cost(parent, depth, plain.terminals_of(training, n)) for n in range(PLANNED)]
    return _row(
        f"judging a swap of links, {name} documents",
        "µs",
        best_us(improve, 1, 3) / judged,
        "building each tree",
        best_us(by_building, min(SWAPS, len(outside)), 2),
        sum(counted) == found.training[1],
    )
