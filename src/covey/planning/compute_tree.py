"""COMPUTETREE: a dissemination tree for sampled documents.

A. Majumder, N. Shrivastava, R. Rastogi and A. Srinivasan, "Scalable Content-Based Routing in Pub/Sub Systems",
Algorithm 1: the multiplicity of a link is the number of documents, or their weight, whose Steiner tree has it; a tree
with low average stretch by multiplicities costs at most that many times what the Steiner trees cost. Links of no
Steiner tree are not looked at, except to connect what is left apart.

The low-stretch tree (`star`) is always among the candidates, so the bound holds for the choice. The others have no
bound and are often cheaper: trees of shortest paths from the nodes around which multiplicity is greatest, by the
costs of links (`paths`) and by these divided by the square root of multiplicity (`traffic`), which draws paths
together where many documents go. The candidate with the least true cost is taken; stretch ranks candidates badly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.low_stretch.forest import bridges
from covey.planning.low_stretch.plain import shortest_path_links
from covey.planning.low_stretch.star import star_links, volumes
from covey.planning.paths import AllPaths
from covey.planning.steiner import link_multiplicities
from covey.planning.tree import Tree

ROOTS = 4


@dataclass(frozen=True)
class TreeChoice:
    """The tree that was chosen, what the documents cost on it, its name, and the cost of each candidate by name."""

    tree: Tree
    cost: float
    name: str
    scores: Mapping[str, float]


def compute_tree(
    graph: Graph,
    paths: AllPaths,
    documents: Documents,
    *,
    roots: int = ROOTS,
    multiplicities: Floats | None = None,
) -> TreeChoice:
    """Return the cheapest candidate for these documents; the first of equals in the order of `candidates`.

    `multiplicities` may be given if they are known. Raises PlanError if the graph is not connected.
    """
    graph.check_connected("a dissemination tree")
    if multiplicities is None:
        multiplicities = link_multiplicities(paths, documents)
    best: tuple[float, str, Tree] | None = None
    scores: dict[str, float] = {}
    for name, tree in candidates(graph, multiplicities, roots=roots):
        scores[name] = tree.cost(documents)
        if best is None or scores[name] < best[0]:
            best = scores[name], name, tree
    assert best is not None, "there is always the star"
    cost, name, tree = best
    return TreeChoice(tree, cost, name, scores)


def candidates(graph: Graph, multiplicities: Floats, *, roots: int = ROOTS) -> Iterator[tuple[str, Tree]]:
    """Yield trees with their names: the low-stretch tree first, then two for each of so many roots."""
    if roots < 0:
        raise PlanError(f"the number of roots cannot be {roots}")
    shares = graph.check_link_values(multiplicities, "multiplicities")
    used = shares > 0
    if not used.any():  # no document crosses any link: every tree is as good
        shares, used = np.ones(len(shares)), ~used
    tops = busiest_nodes(graph, shares, max(1, roots))
    # A link's stretch counts by multiplicity times cost: that is what documents pay on it in their Steiner trees.
    joined = {root: bridges(graph, used, root) for root in tops}  # of all forests on the links used

    def whole(links: Ints, root: int) -> Tree:
        return Tree(graph, np.concatenate([links, joined[root]]), root)

    yield f"star {tops[0]}", whole(star_links(graph, tops[0], shares * graph.costs, used), tops[0])
    traffic = graph.costs / np.sqrt(np.where(used, shares, 1.0) / shares.max(initial=1e-300))
    for root in tops[:roots]:
        for name, lengths in (("paths", graph.costs), ("traffic", traffic)):
            yield f"{name} {root}", whole(shortest_path_links(graph, root, lengths, used), root)


def busiest_nodes(graph: Graph, multiplicities: Floats, count: int) -> list[int]:
    """Return the nodes whose links have the greatest sum of multiplicities, the greatest first."""
    volume = volumes(graph, multiplicities)
    return [int(node) for node in np.lexsort((np.arange(graph.nodes), -volume))[:count]]
