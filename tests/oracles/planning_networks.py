"""Networks and traffic of kinds that planners meet, drawn from a seed: what tests of planning make for themselves.

Topologies: grids, preferential attachment (Barabási and Albert), Waxman's random plane, small worlds (Watts and
Strogatz), leaf-spine fabrics, and two backbones by hand: Abilene and GÉANT. Subscriptions are to topics by Zipf's law,
to conjunctions of attributes, or to ranges; publishers are skewed, links have costs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from covey.matching.jit import Floats
from covey.planning.graph import Graph
from covey.planning.groups.model import Problem
from covey.planning.objective import Objective
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches

Pairs = list[tuple[int, int]]

ABILENE = (
    "Seattle-Sunnyvale Seattle-Denver Sunnyvale-LosAngeles Sunnyvale-Denver LosAngeles-Houston Denver-KansasCity"
    " KansasCity-Houston KansasCity-Indianapolis Houston-Atlanta Indianapolis-Chicago Indianapolis-Atlanta"
    " Chicago-NewYork Atlanta-Washington NewYork-Washington"
)
GEANT = (
    "UK-FR UK-NL UK-IE UK-PT UK-US FR-CH FR-ES FR-LU FR-BE DE-NL DE-CH DE-AT DE-CZ DE-DK DE-PL DE-LU DE-RU DE-IL NL-BE"
    " NL-DK NL-IE CH-IT CH-ES IT-ES IT-AT IT-GR IT-MT ES-PT AT-HU AT-SI AT-SK AT-GR HU-RO HU-HR HU-SK SI-HR SK-CZ CZ-PL"
    " DK-SE DK-NO SE-FI SE-EE PL-LT LT-LV LV-EE RO-BG BG-GR GR-CY CY-IL US-DE RO-TR TR-BG"
)


def named(text: str) -> Pairs:
    """The links of a network whose ends are named, with nodes numbered by their names."""
    links = [(pair.split("-")[0], pair.split("-")[1]) for pair in text.split()]
    number = {name: place for place, name in enumerate(sorted({end for link in links for end in link}))}
    return [(number[a], number[b]) for a, b in links]


def grid(rows: int, columns: int) -> Pairs:
    """A grid."""
    node = [[row * columns + column for column in range(columns)] for row in range(rows)]
    across = [(node[r][c], node[r][c + 1]) for r in range(rows) for c in range(columns - 1)]
    return across + [(node[r][c], node[r + 1][c]) for r in range(rows - 1) for c in range(columns)]


def preferential(nodes: int, seed: int, links: int = 2) -> Pairs:
    """Each node joins so many others, those with many links more often."""
    draw = np.random.default_rng(seed)
    found, ends = [(0, 1)], [0, 1]
    for node in range(2, nodes):
        others: set[int] = set()
        while len(others) < min(links, node):
            others.add(ends[int(draw.integers(len(ends)))])
        for other in sorted(others):
            found.append((other, node))
            ends += [other, node]
    return found


def waxman(nodes: int, seed: int) -> Pairs:
    """Nodes in a square, near ones joined more often; a path through all holds it together."""
    draw = np.random.default_rng(seed)
    spot = draw.random((nodes, 2))
    order = np.argsort(spot[:, 0]).tolist()
    found = {(min(a, b), max(a, b)) for a, b in pairwise(order)}
    for a in range(nodes):
        for b in range(a + 1, nodes):
            far = float(np.hypot(*(spot[a] - spot[b])))
            if draw.random() < 0.5 * np.exp(-far / 0.18):
                found.add((a, b))
    return sorted(found)


def small_world(nodes: int, seed: int) -> Pairs:
    """A ring in which each is joined to two on either side, a tenth of these links to somebody else."""
    draw = np.random.default_rng(seed)
    found = {(min(a, b), max(a, b)) for a in range(nodes) for b in [(a + 1) % nodes]}
    for a in range(nodes):
        b = (a + 2) % nodes if draw.random() > 0.1 else int(draw.integers(nodes))
        if a != b:
            found.add((min(a, b), max(a, b)))
    return sorted(found)


def leaf_spine(spines: int, leaves: int) -> Pairs:
    """Every leaf is joined to every spine."""
    return [(spine, spines + leaf) for spine in range(spines) for leaf in range(leaves)]


KINDS: dict[str, Callable[[int], Pairs]] = {
    "grid": lambda seed: grid(5, 5 + seed % 2),
    "preferential": lambda seed: preferential(28, seed),
    "waxman": lambda seed: waxman(26, seed),
    "small world": lambda seed: small_world(26, seed),
    "leaf-spine": lambda seed: leaf_spine(4, 16),
    "abilene": lambda seed: named(ABILENE),
    "geant": lambda seed: named(GEANT),
}
ASKED = ("topics", "attributes", "ranges")


def graph_of(pairs: Pairs, costs: Floats | None = None) -> Graph:
    """The graph of these links."""
    return Graph(1 + max(max(pair) for pair in pairs), pairs, costs)


def drawn_costs(pairs: Pairs, seed: int) -> Floats:
    """A cost for each link, from 1 to 10, most of them low."""
    return np.round(1 + 9 * np.random.default_rng(seed).random(len(pairs)) ** 3, 1)


def drawn_matches(
    graph: Graph, kind: str, seed: int, subscriptions: int, documents: int, local: bool
) -> tuple[list[int], list[tuple[int, list[int]]], list[int]]:
    """Hosts of subscriptions, documents as (publisher, those that match), and the filter of each subscription.

    With `local`, what is asked for together is asked for near each other. A few brokers publish most.
    """
    draw = np.random.default_rng(seed)
    paths = AllPaths(graph)
    order = [np.argsort(paths.distance[node], kind="stable") for node in range(graph.nodes)]
    topics = max(4, subscriptions // 6)
    centre = draw.integers(0, graph.nodes, topics)
    zipf = np.minimum(draw.zipf(1.5, subscriptions) - 1, topics - 1)
    topic = (zipf if kind == "topics" else draw.integers(0, topics, subscriptions)).tolist()
    near = max(2, graph.nodes // 6) if local else graph.nodes
    hosts = [int(order[centre[t]][int(draw.integers(near))]) for t in topic]
    low = [t / topics + 0.02 * float(draw.random()) for t in topic]
    second = draw.integers(0, 3, subscriptions).tolist()
    speaks = np.minimum(draw.zipf(1.6, documents) - 1, graph.nodes - 1)
    speaker = draw.permutation(graph.nodes)
    found = []
    for number in range(documents):
        about = topic[int(draw.integers(subscriptions))]
        other = int(draw.integers(3))
        value = about / topics + 0.05 * float(draw.random())
        if kind == "topics":
            wanted = [k for k in range(subscriptions) if topic[k] == about]
        elif kind == "attributes":
            wanted = [k for k in range(subscriptions) if topic[k] == about and second[k] <= other]
        else:
            wanted = [k for k in range(subscriptions) if low[k] <= value <= low[k] + 1.5 / topics]
        found.append((int(speaker[speaks[number]]), wanted))
    filters = {"topics": topic, "attributes": [3 * t + s for t, s in zip(topic, second, strict=True)]}
    return hosts, found, filters.get(kind, list(range(subscriptions)))


def problem_on(
    pairs: Pairs,
    *,
    kind: str = "topics",
    seed: int = 0,
    costs: Floats | None = None,
    objective: Objective | None = None,
    subscriptions: int = 120,
    documents: int = 240,
    local: bool = True,
) -> Problem:
    """A problem with half of the documents held out."""
    graph = graph_of(pairs, costs)
    hosts, found, names = drawn_matches(graph, kind, seed, subscriptions, documents, local)
    half = len(found) // 2
    return Problem(
        graph,
        AllPaths(graph),
        Matches.of(hosts, found[:half]),
        Matches.of(hosts, found[half:]),
        words=[frozenset({name}) for name in names],
        filters=np.array(names, np.int32),
        filter_bytes=30.0,
        objective=objective,
    )
