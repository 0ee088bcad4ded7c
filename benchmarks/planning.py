"""Graph work of planning against plain Python doing the same: time, and that the answers are equal.

    .venv/bin/python benchmarks/planning.py [--sizes 500,2000] [--terminals 10] [--documents 20000] [--json]

The overlay is a transit-stub graph with half a random link more for each broker. Hosts of a document are near a random
node (`local`: the nearest 2 %) or anywhere (`uniform`); the publisher is anywhere and counts as one of the terminals.

    all pairs        seconds for distances and last links between all pairs; plain is a breadth-first search from each
    steiner          microseconds a document; plain is the same heuristic on nested lists
    tree cost        microseconds a document; plain climbs from each terminal until it meets a marked node
    compute tree     milliseconds for 300 documents, all candidates; no plain twin
    swaps            microseconds for each (link in, link out) that was judged; instead of plain Python, a `Tree` is
                     built and costed, and `equal` is about the cost of the tree that the swaps lead to

`ratio` is plain over ours. Plain work is measured on a part and scaled. Processor time, best of several.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.improve import improve_by_swaps
from covey.planning.paths import AllPaths
from covey.planning.steiner import link_multiplicities, steiner_costs
from covey.planning.tree import Tree
from covey.sim.topology import transit_stub

PART = 200  # documents and sources for plain Python
PLANNED = 300
SWAPS = 20
SEED = 1

Row = dict[str, Any]


def main() -> int:
    """Measure and print; 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="500,2000", help="numbers of brokers, with commas between")
    parser.add_argument("--terminals", type=int, default=10)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[Row] = []
    measure(100, arguments.terminals, 2 * PLANNED)  # compiles
    for size in map(int, arguments.sizes.split(",")):
        rows += measure(size, arguments.terminals, max(arguments.documents, 2 * PLANNED))
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'work':22} {'brokers':>8} {'ours':>11} {'plain':>11} {'ratio':>8}  unit")
        for row in rows:
            plain = f"{row['plain']:11.3f} {row['plain'] / row['ours']:8.0f}" if "plain" in row else " " * 20
            same = "" if row.get("equal", True) else "  ANSWERS DIFFER"
            print(f"{row['work']:22} {row['brokers']:8,} {row['ours']:11.3f} {plain}  {row['unit']}{same}")
    return 0 if all(row.get("equal", True) for row in rows) else 1


def measure(brokers: int, terminals: int, count: int) -> list[Row]:
    """Return a row for each kind of work."""
    graph = overlay(brokers)
    paths = AllPaths(graph)
    rows = [all_pairs(graph, paths)]
    for name, documents in workloads(paths, terminals, count).items():
        choice = compute_tree(graph, paths, documents.take(range(PLANNED)))
        rows += [
            steiner_row(name, paths, documents),
            cost_row(name, choice.tree, documents),
            compute_row(name, paths, documents.take(range(PLANNED))),
            swap_row(name, choice.tree, paths, documents),
        ]
    return [{"brokers": brokers, **row} for row in rows]


def overlay(brokers: int) -> Graph:
    topology = transit_stub(brokers, SEED, extra=0.5)
    number = {broker: place for place, broker in enumerate(topology.brokers)}
    return Graph(len(number), [(number[a], number[b]) for a, b in topology.links])


def workloads(paths: AllPaths, terminals: int, count: int) -> dict[str, Documents]:
    """Return documents whose hosts are near each other, and such whose hosts are anywhere."""
    random = np.random.default_rng(SEED)
    nodes, hosts = paths.graph.nodes, terminals - 1
    near = np.argsort(paths.distance, axis=1, kind="stable")[:, : max(2 * hosts, nodes // 50)]
    chosen = [random.choice(near[random.integers(nodes)], hosts, replace=False) for _ in range(count)]
    offsets = np.arange(count + 1) * hosts
    publishers = random.integers(nodes, size=count)
    anywhere = random.integers(nodes, size=count * hosts)
    return {
        "local": Documents.gathered(publishers, offsets, np.concatenate(chosen)),
        "uniform": Documents.gathered(publishers, offsets, anywhere),
    }


def best(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the seconds of processor time that the work takes in the best of several rounds."""
    found = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        work()
        found = min(found, time.thread_time() - start)
    return found


def all_pairs(graph: Graph, paths: AllPaths) -> Row:
    adjacent = [
        [int(other) for other in graph.neighbours[graph.offsets[node] : graph.offsets[node + 1]]]
        for node in range(graph.nodes)
    ]
    sources = range(0, graph.nodes, max(1, graph.nodes // PART))
    answers = [plain_hops(adjacent, source) for source in sources]
    return {
        "work": "all pairs",
        "unit": "s",
        "ours": best(lambda: AllPaths(graph), 3),
        "plain": best(lambda: [plain_hops(adjacent, source) for source in sources], 1)
        * graph.nodes
        / len(sources),
        "equal": all(list(paths.distance[s]) == hops for s, hops in zip(sources, answers, strict=True)),
    }


def plain_hops(adjacent: list[list[int]], source: int) -> list[int]:
    hops = [-1] * len(adjacent)
    hops[source] = 0
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for other in adjacent[node]:
            if hops[other] < 0:
                hops[other] = hops[node] + 1
                queue.append(other)
    return hops


def steiner_row(name: str, paths: AllPaths, documents: Documents) -> Row:
    few = documents.take(range(PART))
    distance, via, across = paths.distance.tolist(), paths.via.tolist(), paths.graph.across.tolist()
    terminals = [terminals_of(few, number) for number in range(PART)]

    def plain() -> list[int]:
        return [plain_steiner(distance, via, across, mine) for mine in terminals]

    return {
        "work": f"steiner, {name}",
        "unit": "us",
        "ours": best(lambda: steiner_costs(paths, documents)) / len(documents) * 1e6,
        "plain": best(plain, 2) / PART * 1e6,
        "equal": plain() == list(steiner_costs(paths, few)),
    }


def plain_steiner(
    distance: list[list[int]], via: list[list[int]], across: list[int], terminals: list[int]
) -> int:
    publisher, *hosts = terminals
    waiting = {host: (distance[host][publisher], publisher) for host in hosts if host != publisher}
    links = 0
    while waiting:
        host = min(waiting, key=lambda host: (waiting[host][0], host))
        node = waiting.pop(host)[1]
        while node != host:
            node = across[via[host][node]] ^ node
            links += 1
            for other, (far, _) in waiting.items():
                if distance[other][node] < far:
                    waiting[other] = (distance[other][node], node)
    return links


def cost_row(name: str, tree: Tree, documents: Documents) -> Row:
    few = documents.take(range(PART))
    parent, depth = tree.parent.tolist(), tree.depth.astype(int).tolist()
    terminals = [terminals_of(few, number) for number in range(PART)]

    def plain() -> list[int]:
        return [plain_cost(parent, depth, mine) for mine in terminals]

    return {
        "work": f"tree cost, {name}",
        "unit": "us",
        "ours": best(lambda: tree.costs(documents), 9) / len(documents) * 1e6,
        "plain": best(plain) / PART * 1e6,
        "equal": plain() == list(tree.costs(few)),
    }


def plain_cost(parent: list[int], depth: list[int], terminals: list[int]) -> int:
    """Count the links above marked nodes, less those above the highest node that all have in common."""
    first = terminals[0]
    path = set()
    node = first
    while node >= 0:
        path.add(node)
        node = parent[node]
    marked, top, links = set(path), depth[first], depth[first]
    for node in terminals[1:]:
        while node not in marked:
            marked.add(node)
            links += 1
            node = parent[node]
        if node in path:
            top = min(top, depth[node])
    return links - top


def compute_row(name: str, paths: AllPaths, documents: Documents) -> Row:
    spent = best(lambda: compute_tree(paths.graph, paths, documents), 3)
    return {"work": f"compute tree, {name}", "unit": "ms", "ours": spent * 1e3}


def swap_row(name: str, tree: Tree, paths: AllPaths, documents: Documents) -> Row:
    training, held_out = documents.take(range(PLANNED)), documents.take(range(PLANNED, 2 * PLANNED))
    graph = tree.graph
    outside = np.setdiff1d(np.arange(len(graph.ends)), tree.links)
    multiplicities = link_multiplicities(paths, training)
    found = improve_by_swaps(tree, training, held_out, multiplicities=multiplicities, rounds=1)
    spent = best(
        lambda: improve_by_swaps(tree, training, held_out, multiplicities=multiplicities, rounds=1), 3
    )
    judged = float(tree.distances(graph.ends[outside, 0], graph.ends[outside, 1]).sum())

    # The deeper end of a link is not above the other, so the link to its parent is on the cycle.
    deeper = np.where(tree.depth[graph.ends[:, 0]] >= tree.depth[graph.ends[:, 1]], *graph.ends.T)

    def plain() -> list[float]:
        """Judge some swaps by building each tree."""
        gone = tree.parent_link[deeper]
        swapped = (np.where(tree.links == gone[link], link, tree.links) for link in outside[:SWAPS])
        return [Tree(graph, links).cost(training) for links in swapped]

    parent, depth = found.tree.parent.tolist(), found.tree.depth.astype(int).tolist()
    counted = [plain_cost(parent, depth, terminals_of(training, number)) for number in range(PLANNED)]
    return {
        "work": f"swaps, {name}",
        "unit": "us",
        "ours": spent / judged * 1e6,
        "plain": best(plain, 2) / SWAPS * 1e6,
        "equal": sum(counted) == found.training[1],
        "training": found.training,
        "held_out": found.held_out,
    }


def terminals_of(documents: Documents, number: int) -> list[int]:
    return [int(documents.publishers[number]), *map(int, documents.hosts_of(number))]


if __name__ == "__main__":
    sys.exit(main())
