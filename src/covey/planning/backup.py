"""Backup trees: so that whichever one link or one broker fails, a tree is there on which all others are joined.

A tree survives the loss of a link that it does not have, and the loss of a broker that is a leaf of it. Trees of a plan
usually share links, so some failures hit all of them. `backup_trees` adds trees until every failure is survived by
some tree, as far as the overlay itself survives it: no tree avoids a bridge, or a broker without which the overlay
falls apart.

Each tree is one of shortest paths by lengths that make paths through what is not survived yet longer than any other
path. If several things at once leave nothing better, they are avoided one by one: a path around a link or a broker is
taken whenever there is one, so each round survives at least one failure more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covey.matching.jit import Floats, Ints
from covey.planning.graph import Graph, Mask
from covey.planning.low_stretch.plain import shortest_path_links
from covey.planning.tree import Tree


@dataclass(frozen=True)
class Backups:
    """Trees to install beside others, and the links and brokers whose loss no tree can survive."""

    trees: tuple[Tree, ...]
    links: Ints
    brokers: Ints


def survived(trees: Sequence[Tree]) -> tuple[Mask, Mask]:
    """Return for each link and each broker whether some tree joins all others without it."""
    graph = trees[0].graph
    links = np.zeros(len(graph.ends), np.bool_)
    brokers = np.zeros(graph.nodes, np.bool_)
    for tree in trees:
        without = np.ones(len(links), np.bool_)
        without[tree.links] = False
        links |= without
        brokers |= np.bincount(graph.ends[tree.links].ravel(), minlength=graph.nodes) <= 1
    return links, brokers


def backup_trees(graph: Graph, trees: Sequence[Tree]) -> Backups:
    """Return trees beside these that survive what can be survived and these do not."""
    found: list[Tree] = []
    lost_links: list[int] = []
    lost_brokers: list[int] = []
    while True:
        links, brokers = survived([*trees, *found])
        links[lost_links] = True
        brokers[lost_brokers] = True
        open_links = np.flatnonzero(~links).astype(np.int32)
        open_brokers = np.flatnonzero(~brokers).astype(np.int32)
        if not len(open_links) and not len(open_brokers):
            break
        tree = _around(graph, open_links, open_brokers)
        if _gains(tree, links, brokers):
            found.append(tree)
            continue
        # All at once leave nothing better: go around the first of them alone.
        alone = (open_links[:1], open_brokers[:0]) if len(open_links) else (open_links, open_brokers[:1])
        tree = _around(graph, *alone)
        if _gains(tree, links, brokers):
            found.append(tree)
        elif len(open_links):
            lost_links.append(int(open_links[0]))
        else:
            lost_brokers.append(int(open_brokers[0]))
    return Backups(tuple(found), np.array(lost_links, np.int32), np.array(lost_brokers, np.int32))


def _gains(tree: Tree, links: Mask, brokers: Mask) -> bool:
    """Say whether a tree survives something that was not survived."""
    more_links, more_brokers = survived([tree])
    return bool((more_links & ~links).any() or (more_brokers & ~brokers).any())


def _around(graph: Graph, links: Ints, brokers: Ints) -> Tree:
    """Return a tree of paths around these links and brokers, as far as there are such paths."""
    far: Floats = graph.costs.copy()
    beyond = float(graph.costs.sum()) + 1.0  # longer than any path
    far[links] += beyond
    avoided = np.zeros(graph.nodes, np.bool_)
    avoided[brokers] = True
    # Two links of a path end at each broker within it.
    far += beyond * avoided[graph.ends].sum(axis=1)
    free = np.flatnonzero(~avoided)
    root = int(free[0]) if len(free) else 0
    if len(brokers) and not len(free):
        far -= beyond * (graph.ends == root).any(axis=1)
    return Tree(graph, shortest_path_links(graph, root, far), root)
