"""Section IV: the stretch of kinds of trees, what they cost, and the bound of Theorem IV.1.

The average stretch of a tree counts links by multiplicity: by how many documents' Steiner trees cross each. M is the
sum of multiplicities, which is what these Steiner trees cost. Documents cost at most M × average stretch on a tree, and
the low-stretch tree's stretch is O(log² n log log n). Trees are compared on all documents, which they are made for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from covey.lab.experiment import Cell, Experiment, Row
from covey.lab.paper_m.grids import effort, stretch_cells
from covey.lab.paper_m.world import integer, world
from covey.matching.jit import Floats
from covey.planning.compute_tree import busiest_nodes, compute_tree
from covey.planning.graph import Graph
from covey.planning.low_stretch.akpw import akpw_links
from covey.planning.low_stretch.forest import completed
from covey.planning.low_stretch.plain import heaviest_links, hop_links, random_links, shortest_path_links
from covey.planning.low_stretch.star import star_links
from covey.planning.steiner import steiner
from covey.planning.tree import Tree

NAME = "m-stretch"


def run(cell: Cell) -> list[Row]:
    """Compute a row for each kind of tree."""
    data = world(cell)
    documents, graph = data.matches.documents, data.paths.graph
    costs, multiplicities = steiner(data.paths, documents)
    least = float(costs.sum())
    rows = []
    for name, tree in kinds(graph, multiplicities, integer(cell, "seed")):
        stretch = tree.stretch(multiplicities)
        rows.append(row(name, tree.cost(documents), stretch, least, graph.nodes))
    choice = compute_tree(graph, data.paths, documents, multiplicities=multiplicities)
    chosen = row("COMPUTETREE", choice.cost, choice.tree.stretch(multiplicities), least, graph.nodes)
    return [*rows, {**chosen, "chosen": choice.name.split()[0]}]


def kinds(graph: Graph, multiplicities: Floats, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield trees by kind, those with a root from the node around which most documents go, unless they say random."""
    used = multiplicities > 0
    top = busiest_nodes(graph, multiplicities, 1)[0]
    anywhere = int(np.random.default_rng(seed).integers(graph.nodes))
    traffic = graph.costs / np.sqrt(np.where(used, multiplicities, 1.0))
    classes = np.where(used, multiplicities.max(initial=1.0) / np.maximum(multiplicities, 1.0), 1.0)
    links = {
        "low stretch (star)": (star_links(graph, top, multiplicities * graph.costs, used), top),
        "low stretch, random root": (
            star_links(graph, anywhere, multiplicities * graph.costs, used),
            anywhere,
        ),
        "AKPW": (akpw_links(graph, multiplicities, used), top),
        "AKPW by multiplicity": (akpw_links(graph, multiplicities, used, lengths=classes), top),
        "breadth first": (hop_links(graph, top, used), top),
        "shortest paths, random root": (shortest_path_links(graph, anywhere, graph.costs), anywhere),
        "shortest paths by traffic": (shortest_path_links(graph, top, traffic, used), top),
        "minimum spanning, ties by chance": (random_links(graph, seed), top),
        "maximum multiplicity": (heaviest_links(graph, multiplicities), top),
    }
    for name, (chosen, root) in links.items():
        yield name, completed(graph, chosen, root)


def row(name: str, cost: float, stretch: float, least: float, brokers: int) -> Row:
    """Return a row: the bound's parts beside what they bound."""
    logarithm = math.log2(brokers)
    return {
        "tree": name,
        "stretch": stretch,
        "over": cost / least,
        "within": bool(cost <= stretch * least * (1 + 1e-9)),
        "theory": logarithm**2 * math.log2(logarithm),
    }


STRETCH = Experiment(
    NAME, "M", "Stretch and cost of kinds of spanning trees", stretch_cells, run, effort=effort
)
