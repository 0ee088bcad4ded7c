"""Examples I.2 and I.3: two networks on which a tree that knows nothing of subscriptions, or a single one, is bad.

Figure 2 is read as a horizontal path of n sub-paths of length x from v0, with v_i one link below the end of the i-th,
and a direct path of length x + 2 from v0 to each v_i; the first of these is no shorter than the way over the horizontal
path, which explains the 1 that is taken off. Figure 3 is read as a circle of n links in which v_{n/2} has both
subscriptions: with any other reading a single tree could cost n.
"""

from __future__ import annotations

import numpy as np

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_m.world import integer
from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.low_stretch.forest import completed
from covey.planning.low_stretch.plain import shortest_path_links
from covey.planning.paths import AllPaths
from covey.planning.steiner import steiner_links
from covey.planning.tree import Tree

NAME = "m-examples"


def cells(scale: Scale) -> list[Cell]:
    """Return networks of both examples; x is 0 where there is none."""
    sizes = [(2, 2), (5, 3), (9, 4)] + ([(40, 10), (200, 7)] if scale == "paper" else [])
    circles = [4, 8, 20] + ([100, 500] if scale == "paper" else [])
    ladders: list[Cell] = [{"example": "I.2", "n": n, "x": x} for n, x in sizes]
    return ladders + [{"example": "I.3", "n": n, "x": 0} for n in circles]


def run(cell: Cell) -> list[Row]:
    """Compute one example: what is printed and what was found, a row for each number."""
    n, x = integer(cell, "n"), integer(cell, "x")
    found = ladder_costs(n, x) if cell["example"] == "I.2" else circle_costs(n)
    return [{"what": what, "printed": printed, "found": cost} for what, (printed, cost) in found.items()]


def ladder_costs(n: int, x: int) -> dict[str, tuple[float, float]]:
    """Return for each tree what the text says of Example I.2 and what it costs."""
    runs: list[tuple[int, int, float]] = []  # ends and length
    for i in range(1, n + 1):
        before, end, below = (0 if i == 1 else 2 * i - 3), 2 * i - 1, 2 * i
        runs += [(before, end, x), (end, below, 1), (0, below, x + 2)]
    graph = Graph(2 * n + 1, [(a, b) for a, b, _ in runs], [length for *_, length in runs])
    wanting = [2 * i for i in range(1, n + 1)]
    paths, documents = AllPaths(graph), Documents.of((0, [node]) for node in wanting)
    steiner = completed(graph, steiner_links(paths, 0, wanting), 0)
    straight = completed(graph, shortest_path_links(graph, 0, graph.costs), 0)
    least = n * (x + 2) - 1
    return {
        "Steiner tree": (sum(i * x + 1 for i in range(1, n + 1)), steiner.cost(documents)),
        "shortest-path tree": (least, straight.cost(documents)),
        "COMPUTETREE": (least, compute_tree(graph, paths, documents).cost),
    }


def circle_costs(n: int) -> dict[str, tuple[float, float]]:
    """Return for one tree and for two what the text says of Example I.3 and what they cost; of one tree, the best."""
    graph = Graph(n, [(i, (i + 1) % n) for i in range(n)])
    paths = AllPaths(graph)
    documents = Documents.of([(0, range(1, n // 2 + 1)), (0, range(n // 2, n))])
    every = [Tree(graph, np.delete(np.arange(n), gone)).cost(documents) for gone in range(n)]
    two = [compute_tree(graph, paths, documents.take([number])).cost for number in (0, 1)]
    one = 3 * n / 2 - 1
    return {
        "one tree, the best": (one, min(every)),
        "one tree, COMPUTETREE": (one, compute_tree(graph, paths, documents).cost),
        "two trees": (n, sum(two)),
    }


EXAMPLES = Experiment(NAME, "M", "Examples I.2 and I.3", cells, run)
