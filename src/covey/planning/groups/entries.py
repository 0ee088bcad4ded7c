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
from covey.matching.jit import Ints, Longs
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.objective import ENTRY_BYTES
from covey.planning.tree import Tree


def table_entries(trees: Sequence[Tree], group: Ints, hosts: Ints, filters: Ints) -> int:
    """Return how many entries all brokers' tables have together for these trees.

    Subscription i asks at the node hosts[i] for the filter with the number filters[i], on the tree group[i].
    """
    return table_sizes(trees, group, hosts, filters)[0]


def table_sizes(
    trees: Sequence[Tree], group: Ints, hosts: Ints, filters: Ints, lengths: Longs | None = None
) -> tuple[int, int]:
    """Return `table_entries`, and how many bytes they take if filter i has lengths[i]; 0 without lengths."""
    if not len(hosts) == len(filters) == len(group):
        raise PlanError("there must be a host, a filter and a group for each subscription")
    entries = size = 0
    for number, tree in enumerate(trees):
        mine = np.flatnonzero(group == number)
        if not len(mine):
            continue
        asked, found = tree_entries(tree, hosts[mine], filters[mine])
        entries += int(found.sum())
        if lengths is not None:
            size += int((found * (ENTRY_BYTES + lengths[asked])).sum())
    return entries, size


def tree_entries(tree: Tree, hosts: Ints, filters: Ints) -> tuple[Ints, Longs]:
    """Return the different filters, and how many entries each has in all tables of a tree."""
    if not tree.graph.unit:
        tree = Tree(Graph(tree.graph.nodes, tree.graph.ends), tree.links, tree.root)
    order = np.lexsort((hosts, filters))
    kept = np.flatnonzero(np.diff(filters[order], prepend=-1))
    # Askers of one filter are like the hosts of a document that one of them publishes, on a tree of unit costs.
    askers = Documents.gathered(hosts[order[kept]], np.append(kept, len(order)), hosts[order])
    found = tree.graph.nodes - 1 + np.rint(tree.costs(askers)).astype(np.int64)
    return filters[order[kept]], found


def directory_entries(nodes: int, hosts: Ints, filters: Ints) -> int:
    """Return how many entries all brokers' directories have together."""
    return directory_sizes(nodes, hosts, filters)[0]


def directory_sizes(nodes: int, hosts: Ints, filters: Ints, lengths: Longs | None = None) -> tuple[int, int]:
    """Return `directory_entries`, and how many bytes they take, as `table_sizes` does."""
    asked = np.unique(np.stack([hosts, filters]), axis=1)[1]
    size = 0 if lengths is None else (nodes - 1) * int((ENTRY_BYTES + lengths[asked]).sum())
    return (nodes - 1) * len(asked), size
