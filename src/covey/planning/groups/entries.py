"""How many entries planned trees put into routing tables.

On a tree, a broker has an entry for a filter at each of its links beyond which somebody asks for it; equal filters
behind one link are one entry. Seen by links: a link between two parts of the tree has an entry at the end that looks
towards the askers, and at both ends if there are askers on both sides, which is so for the links of the subtree that
joins the askers. So a filter asked for at some brokers takes n - 1 entries and one more for each link of that subtree.

That is what telling equal filters once takes, without advertisements; covering and merging have fewer entries.

Where an event travels in one copy (`regions`), every broker has a directory instead, of who asks for what: an entry for
each host's filter, at every other broker, however many trees there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Ints
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.tree import Tree


def table_entries(trees: Sequence[Tree], group: Ints, hosts: Ints, filters: Ints) -> int:
    """Return how many entries all brokers' tables have together for these trees.

    Subscription i asks at the node hosts[i] for the filter with the number filters[i], on the tree group[i].
    """
    if not len(hosts) == len(filters) == len(group):
        raise PlanError("there must be a host, a filter and a group for each subscription")
    total = 0
    unit: Graph | None = None
    for number, tree in enumerate(trees):
        mine = np.flatnonzero(group == number)
        if not len(mine):
            continue
        if not tree.graph.unit:
            unit = unit or Graph(tree.graph.nodes, tree.graph.ends)
            tree = Tree(unit, tree.links, tree.root)
        total += _entries(tree, hosts[mine], filters[mine])
    return total


def directory_entries(nodes: int, hosts: Ints, filters: Ints) -> int:
    """Return how many entries all brokers' directories have together."""
    asked = len(np.unique(np.stack([hosts, filters]), axis=1).T)
    return (nodes - 1) * asked


def _entries(tree: Tree, hosts: Ints, filters: Ints) -> int:
    # Askers of one filter are like the hosts of a document that one of them publishes, on a tree of unit costs.
    order = np.lexsort((hosts, filters))
    kept = np.flatnonzero(np.diff(filters[order], prepend=-1))
    offsets = np.append(kept, len(order))
    askers = Documents.gathered(hosts[order[kept]], offsets, hosts[order])
    return (tree.graph.nodes - 1) * len(askers) + round(tree.cost(askers))
