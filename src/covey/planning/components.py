"""Planning an overlay that has fallen apart: each component for itself.

No plan can carry a document to another component. Such documents are in no component's sample; whoever plans says how
many there are (`Documents.undeliverable`), because a cost without them looks better than it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covey.matching.jit import Ints, Longs
from covey.planning.documents import Documents
from covey.planning.graph import Graph, subgraph


@dataclass(frozen=True)
class Component:
    """A connected part of an overlay as a graph of its own, and the documents that stay in it.

    `nodes`, `links` and `numbers` say which node, link and document of the whole each one is; all are sorted.
    """

    graph: Graph
    documents: Documents
    nodes: Ints
    links: Ints
    numbers: Longs


def by_component(graph: Graph, documents: Documents) -> list[Component]:
    """Return the components in the order of their smallest nodes; together they have every deliverable document."""
    label = graph.components()
    deliverable = ~documents.undeliverable(graph)
    number = np.empty(graph.nodes, np.int32)
    found = []
    for component in range(graph.component_count):
        nodes = np.flatnonzero(label == component).astype(np.int32)
        number[nodes] = np.arange(len(nodes), dtype=np.int32)
        part, links = subgraph(graph, nodes)
        numbers = np.flatnonzero(deliverable & (label[documents.publishers] == component))
        mine = documents.take(numbers)
        renumbered = Documents(number[mine.publishers], mine.offsets, number[mine.hosts], mine.weights)
        found.append(Component(part, renumbered, nodes, links, numbers))
    return found
