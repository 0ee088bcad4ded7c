"""A network, who subscribes to what, and documents: the data of section VII under one reading of it.

The paper leaves open what decides its numbers, so a reading says it, and every cell has one:

    topology   GT-ITM's transit-stub graph has one way into each stub (TS). TSX10 and TSX2 have a random link between
               stubs more for every 10 or 2 brokers; Flat4 and Flat8 are random graphs with 4 and 8 neighbours on
               average, Geo6 and Geo12 geometric ones with 6 and 12. GT-ITM itself was not run
    per        a subscription is all keywords of a broker (`broker`), or one keyword of it (`keyword`)
    words      how many keywords a document has. The text's 10,000 documents, 1,000 keywords and 5 documents a
               keyword cannot be true together, so it does not follow
    near       a document takes its keywords from those of so many brokers, the nearest to a random one that have any
    place      where a document is published: at any broker (`anywhere`), or at the one around which its keywords were
               drawn (`centre`)
    sample     the share of documents on which trees are planned

1,000 keywords are each at up to 10 of the nearest 2 % (Localized1), 15 % (Localized2) or all (Uniform) of the brokers
around a random one. Links cost 1, documents weigh 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from covey.lab.experiment import Cell, Value
from covey.planning.graph import Graph
from covey.planning.groups.model import Problem, Words
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches
from covey.sim.topology import Topology, geometric, random_graph, transit_stub

TOPOLOGIES: Mapping[str, Callable[[int, int], Topology]] = {
    "TS": lambda count, seed: transit_stub(count, seed),
    "TSX10": lambda count, seed: transit_stub(count, seed, extra=0.1),
    "TSX2": lambda count, seed: transit_stub(count, seed, extra=0.5),
    "Flat4": lambda count, seed: random_graph(count, seed, degree=4.0),
    "Flat8": lambda count, seed: random_graph(count, seed, degree=8.0),
    "Geo6": lambda count, seed: geometric(count, seed, degree=6.0),
    "Geo12": lambda count, seed: geometric(count, seed, degree=12.0),
}
DATA: Mapping[str, float] = {"Localized1": 0.02, "Localized2": 0.15, "Uniform": 1.0}
SUBSCRIBERS = 10
SAMPLED = 0.03

# What figures show, and what a reading of a claim changes.
JUDGED: Mapping[str, Value] = {
    "topology": "TSX2",
    "per": "keyword",
    "words": 3,
    "near": 1,
    "place": "anywhere",
}
READING = (
    "TSX2 (a transit-stub graph with one random link more for every 2 brokers), a subscription for each (broker, "
    "keyword), documents of 3 keywords of one broker (near 1) published anywhere, planned on a sample of 3 %"
)


@dataclass(frozen=True)
class World:
    """An overlay with all its paths, who matches which documents, and what each subscription asks for."""

    paths: AllPaths
    matches: Matches
    words: Words

    def problem(self, share: float, seed: int) -> tuple[Problem, Matches]:
        """Return the problem of planning on this share of the documents, and the others, which are fresh."""
        sample, fresh = self.matches.split(share, seed)
        return Problem(self.paths.graph, self.paths, sample, words=self.words, seed=seed), fresh


def integer(cell: Cell, key: str) -> int:
    """Return a whole number of a cell."""
    value = cell[key]
    assert isinstance(value, int), f"{key} is {value!r}"
    return value


def real(cell: Cell, key: str) -> float:
    """Return a number of a cell or row."""
    value = cell[key]
    assert isinstance(value, int | float), f"{key} is {value!r}"
    return float(value)


def world(cell: Cell) -> World:
    """Return what the reading and the sizes of a cell say; the same for the same cell."""
    seed, keywords = integer(cell, "seed"), integer(cell, "keywords")
    paths = AllPaths(overlay(str(cell["topology"]), integer(cell, "brokers"), seed))
    random = np.random.default_rng(seed)
    hosts, asked = _asked(paths, DATA[str(cell["data"])], keywords, random)
    rows, centres = _documents(paths, hosts, asked, cell, random)
    anywhere = random.integers(paths.graph.nodes, size=len(rows))
    publishers = centres if cell["place"] == "centre" else anywhere
    if cell["per"] == "broker":
        return _by_broker(paths, hosts, asked, rows, publishers)
    members = _split(asked, keywords)
    matched = [np.sort(np.concatenate([members[word] for word in row])) for row in rows]
    words = [frozenset([int(word)]) for word in asked]
    return World(paths, _matches(hosts, publishers, matched), words)


def overlay(topology: str, brokers: int, seed: int) -> Graph:
    """Return one of TOPOLOGIES with brokers numbered in its order."""
    built = TOPOLOGIES[topology](brokers, seed)
    number = {broker: place for place, broker in enumerate(built.brokers)}
    return Graph(len(number), [(number[a], number[b]) for a, b in built.links])


def _asked(paths: AllPaths, share: float, keywords: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Return the broker and the keyword of each (broker, keyword), by keywords."""
    nodes = paths.graph.nodes
    hosts, asked = [], []
    for word, root in enumerate(random.integers(nodes, size=keywords)):
        around = _nearest(paths.distance[root], max(1, round(share * nodes)), random)
        mine = np.sort(random.permutation(around)[:SUBSCRIBERS])
        hosts.append(mine)
        asked.append(np.full(len(mine), word))
    return np.concatenate(hosts).astype(np.int32), np.concatenate(asked).astype(np.int32)


def _documents(
    paths: AllPaths, hosts: Any, asked: Any, cell: Cell, random: np.random.Generator
) -> tuple[list[Any], Any]:
    """Return the keywords of each document, and the brokers around which they were drawn."""
    nodes, near, words = paths.graph.nodes, integer(cell, "near"), integer(cell, "words")
    having = _split(hosts, nodes)
    hosting = np.unique(hosts)
    far = paths.distance[:, hosting]
    rows = []
    centres = random.integers(nodes, size=integer(cell, "documents"))
    for centre in centres.tolist():
        around = hosting[_nearest(far[centre], min(near, len(hosting)), random)]
        known = np.unique(asked[np.concatenate([having[node] for node in around.tolist()])])
        rows.append(np.sort(random.permutation(known)[:words]))
    return rows, centres


def _nearest(far: Any, count: int, random: np.random.Generator) -> Any:
    """Return the places of so many of the least distances, chance deciding between equals."""
    last = np.partition(far, count - 1)[count - 1]
    nearer, equal = np.flatnonzero(far < last), np.flatnonzero(far == last)
    return np.concatenate([nearer, random.permutation(equal)[: count - len(nearer)]])


def _by_broker(paths: AllPaths, hosts: Any, asked: Any, rows: list[Any], publishers: Any) -> World:
    """Return the same with one subscription for each broker that asks for anything."""
    brokers, owner = np.unique(hosts, return_inverse=True)
    members = _split(asked, int(asked.max()) + 1)
    matched = [np.unique(owner[np.concatenate([members[word] for word in row])]) for row in rows]
    words = [frozenset(asked[mine].tolist()) for mine in _split(owner, len(brokers))]
    return World(paths, _matches(brokers, publishers, matched), words)


def _split(labels: Any, count: int) -> list[Any]:
    """Return the places at which each label is."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])


def _matches(hosts: Any, publishers: Any, matched: list[Any]) -> Matches:
    offsets = np.cumsum([0, *map(len, matched)])
    return Matches(hosts, publishers, offsets, np.concatenate(matched))
