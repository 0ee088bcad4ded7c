"""Who got what, and from how far back others wanted it too: the deliveries that a network would have collected.

Events are matched by the brokers' own index, and travel on shortest paths, LINK_MS for each link. The distance is that
of incremental aggregation: links back towards the producer to the first broker from which the event goes to more than
one subscription; none if there is no such broker.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from covey.core.filter import Filter
from covey.datasets.parquet import GROUP_ROWS, TableWriter
from covey.matching.index import Index
from covey.sim.topology.graph import Topology

LINK_MS = 10
EVENTS = 64  # matched at a time: an event may match every subscription
ADDED = 10_000
KEPT_SOURCES = 256


class Deliveries:
    """Collects subscriptions, then takes events and writes who gets them, until there are `most` rows."""

    def __init__(self, topology: Topology, writer: TableWriter, most: int) -> None:
        self._topology = topology
        self._writer = writer
        self._most = most
        self._numbers = {broker: number for number, broker in enumerate(topology.brokers)}
        self._brokers = pa.array(topology.brokers, pa.string())
        self._index = Index()
        self._new: list[Filter] = []
        self._names: list[str] = []
        self._homes: list[int] = []
        self._events: list[tuple[str, str, int, Any]] = []
        self._arrays: tuple[Any, np.ndarray] | None = None
        self._paths = lru_cache(maxsize=KEPT_SOURCES)(self._paths_from)

    def subscribe(self, name: str, broker: str, filter: Filter) -> None:
        """Note a subscription; all come before the first event."""
        self._names.append(name)
        self._homes.append(self._numbers[broker])
        self._new.append(filter)
        if len(self._new) == ADDED:
            self._add()

    def publish(self, event: str, broker: str, at_us: int, content: Any) -> None:
        """Write who gets an event, at once or with others."""
        if self._writer.rows < self._most:
            self._events.append((event, broker, at_us, content))
            if len(self._events) == EVENTS:
                self.flush()

    def _add(self) -> None:
        first = len(self._names) - len(self._new)
        self._index.add_batch(range(first, len(self._names)), self._new)
        self._new = []

    def flush(self) -> None:
        """Write who gets the events that are waiting."""
        if self._arrays is None:
            self._add()
            self._arrays = pa.array(self._names, pa.string()), np.array(self._homes, np.int64)
        waiting, self._events = self._events, []
        found = self._index.match_batch([content for *_, content in waiting])
        for (event, broker, at_us, _), keys in zip(waiting, found, strict=True):
            left = self._most - self._writer.rows
            rows = np.sort(np.asarray(keys, np.int64))
            distances = self._distances(broker, self._arrays[1][rows])
            for first in range(0, min(len(rows), max(0, left)), GROUP_ROWS):
                last = min(first + GROUP_ROWS, left)
                self._write(event, broker, at_us, rows[first:last], distances)

    def _distances(self, broker: str, homes: np.ndarray) -> dict[int, int | None]:
        """Return for each broker that gets an event from another one how far back more than one wanted it."""
        parents = self._paths(broker)[1]
        found: dict[int, int | None] = {}
        wanted: Counter[int] = Counter()  # by how many behind each broker on the way
        for home, count in Counter(homes.tolist()).items():
            node = home
            while node >= 0:
                wanted[node] += count
                node = parents[node]
            found[home] = None
        for home in found:
            node, hops = home, 0
            while node >= 0 and wanted[node] < 2:
                node, hops = parents[node], hops + 1
            found[home] = hops if node >= 0 else None
        return found

    def _write(
        self, event: str, broker: str, at_us: int, rows: np.ndarray, distances: dict[int, int | None]
    ) -> None:
        assert self._arrays is not None
        names, homes = self._arrays
        there = homes[rows]
        hops = self._paths(broker)[0][there]
        columns = (
            [event] * len(rows),
            names.take(pa.array(rows)).to_pylist(),
            self._brokers.take(pa.array(there)).to_pylist(),
            [distances[home] for home in there.tolist()],
            (at_us + hops.astype(np.int64) * LINK_MS * 1_000).tolist(),
        )
        for row in zip(*columns, strict=True):
            self._writer.add(*row)

    def _paths_from(self, broker: str) -> tuple[np.ndarray, list[int]]:
        """Return how far all brokers are, and for each the next one on its way back, -1 for the first."""
        hops = np.zeros(len(self._numbers), np.int32)
        parents = [-1] * len(self._numbers)
        known = self._topology.distances(broker)
        for other, distance in known.items():
            number = self._numbers[other]
            hops[number] = distance
            if distance:
                nearer = (n for n in self._topology.neighbours[other] if known[n] == distance - 1)
                parents[number] = self._numbers[next(nearer)]
        return hops, parents
