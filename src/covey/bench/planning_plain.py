"""The graph work of planning in plain Python, as one would write it first, to measure `planning` by."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from covey.planning.documents import Documents
from covey.planning.graph import Graph


def adjacency(graph: Graph) -> list[list[int]]:
    """Return each node's neighbours."""
    return [
        [int(other) for other in graph.neighbours[graph.offsets[node] : graph.offsets[node + 1]]]
        for node in range(graph.nodes)
    ]


def terminals_of(documents: Documents, number: int) -> list[int]:
    """Return the publisher and the hosts of a document."""
    return [int(documents.publishers[number]), *map(int, documents.hosts_of(number))]


def hops(adjacent: list[list[int]], source: int) -> list[int]:
    """Return the distances from a node, by a breadth-first search."""
    found = [-1] * len(adjacent)
    found[source] = 0
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for other in adjacent[node]:
            if found[other] < 0:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def steiner(
    distance: list[list[int]], via: list[list[int]], across: list[int], terminals: Sequence[int]
) -> int:
    """Return the links of the heuristic Steiner tree: always the nearest host next, by the union of paths."""
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


def tree_cost(parent: Sequence[int], depth: Sequence[int], terminals: Sequence[int]) -> int:
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
