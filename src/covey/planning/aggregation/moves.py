"""A plan in the making: blocks, the moves open to it, and their exact values.

`CascadeState` and `TopState` are the same to the algorithms, one for each accounting. A block is named by a slot: of
(broker, subscriber) under cascade, a subscriber under top. Moves only join; `anneal` also takes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from covey.matching.jit import Floats, Ints, Longs
from covey.planning.aggregation import cascade_candidates, cascade_kernels, top_kernels
from covey.planning.aggregation.cascade_kernels import Blocks
from covey.planning.aggregation.model import Partition, Problem, induced
from covey.planning.aggregation.sample import Bytes
from covey.planning.aggregation.top_kernels import Groups, Ways


class State(Protocol):
    """What algorithms see of a plan in the making."""

    cost: float  # for rates of 1
    gain: int

    def candidates(self, alike: bool) -> Floats:
        """Return the value of each pair that can be joined, infinite elsewhere: the change of cost for each unit of
        gain, or minus the similarity. The same mode must be asked for throughout."""

    def pair(self, candidate: int) -> tuple[int, int, int]:
        """Return the broker's depth and the two blocks of a candidate."""

    def larger(self) -> tuple[float, list[int]]:
        """Return the best move that joins several blocks at once: its value, and the blocks."""

    def join(self, blocks: Sequence[int]) -> None:
        """Join blocks of one broker."""

    def partitions(self) -> tuple[Partition, ...]: ...


class CascadeState:
    """Nested partitions, one for each broker."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.layout = problem, problem.tree.layout
        sample, tree, slots = problem.compact, problem.tree, len(self.layout.broker)
        self.filters, self.table = sample.bits, sample.table
        hops = tree.depths[tree.access[self.layout.subscriber]] - tree.depths[self.layout.broker]
        self.hops: Ints = (hops if problem.delay == "access" else np.zeros(slots)).astype(np.int32)
        self.blocks = self._apart()
        self.cost, self.gain = 0.0, 0
        sizes = np.diff(self.layout.offsets).astype(np.int64)
        self.starts: Longs = np.concatenate([[0], np.cumsum(sizes**2)])
        self.changed: Bytes = np.ones(slots, np.uint8)
        self._stale = np.ones(tree.brokers, bool)
        self._larger: dict[int, tuple[float, list[int]]] = {}
        self._ratios: Floats | None = None

    def _apart(self) -> Blocks:
        slots = len(self.layout.broker)
        rows = np.ascontiguousarray(self.filters[self.layout.subscriber])
        own = np.arange(slots, dtype=np.int32)
        return Blocks(
            own.copy(),
            own.copy(),
            rows.copy(),
            rows.copy(),
            np.ones(slots, np.int32),
            self.hops.copy(),
            np.zeros(slots),
        )

    def candidates(self, alike: bool) -> Floats:
        if self._ratios is None:
            self._ratios = np.full(self.starts[-1], np.inf)
        cascade_candidates.refresh(
            self.layout, self.blocks, self.table, self.changed, self.starts, self._ratios, alike
        )
        return self._ratios

    def pair(self, candidate: int) -> tuple[int, int, int]:
        broker = int(np.searchsorted(self.starts, candidate, side="right")) - 1
        first = int(self.layout.offsets[broker])
        a, b = divmod(candidate - int(self.starts[broker]), int(self.layout.offsets[broker + 1]) - first)
        return int(self.problem.tree.depths[broker]), first + a, first + b

    def larger(self) -> tuple[float, list[int]]:
        slots = len(self.layout.broker)
        seen, rows = np.zeros(slots, np.uint8), np.zeros((2, self.filters.shape[1]), np.uint8)
        chosen, found = np.zeros(slots, np.int32), np.zeros(slots + 1, np.int32)
        for broker in np.flatnonzero(self._stale).tolist():
            value = cascade_candidates.best_sets(
                self.layout, self.blocks, self.table, broker, seen, rows, chosen, found
            )
            self._larger[broker] = float(value), found[1 : found[0] + 1].tolist()
        self._stale[:] = False
        return min(self._larger.values())

    def join(self, blocks: Sequence[int]) -> None:
        for other in blocks[1:]:
            x, y = int(self.blocks.label[blocks[0]]), int(self.blocks.label[other])
            if x == y:
                continue
            change, gain = cascade_kernels.join(self.layout, self.blocks, self.table, x, y, self.changed)
            self.cost, self.gain = self.cost + change, self.gain + gain
        self._age()

    def _age(self) -> None:
        """Forget the larger moves of brokers that hold somebody of a block that has just changed: marked in `changed`
        are their leaders, and every broker on the way of a member may be concerned."""
        if not self._larger:
            return
        concerned: set[int] = set()
        for leader in np.flatnonzero(self.changed).tolist():
            block = np.flatnonzero(self.blocks.label == self.blocks.label[leader])
            concerned.update(self.layout.subscriber[block].tolist())
        for subscriber in concerned:
            self._stale[self.problem.tree.way(subscriber)] = True

    def partitions(self) -> tuple[Partition, ...]:
        return blocks_of(self.problem, self.blocks.label)


def blocks_of(problem: Problem, label: Ints) -> tuple[Partition, ...]:
    """Return the partitions that labels of slots stand for."""
    layout, partitions = problem.tree.layout, []
    for broker in range(problem.tree.brokers):
        found: dict[int, list[int]] = {}
        for slot in range(layout.offsets[broker], layout.offsets[broker + 1]):
            found.setdefault(int(label[slot]), []).append(int(layout.subscriber[slot]))
        partitions.append(tuple(sorted(map(tuple, found.values()))))
    return tuple(partitions)


class TopState:
    """One partition of the subscribers; links carry its restrictions."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        sample, tree = problem.compact, problem.tree
        count = tree.subscribers
        way = np.zeros((count, tree.brokers), bool)
        for subscriber in range(count):
            way[subscriber, tree.way(subscriber)] = True
        bits = np.packbits(way, axis=1, bitorder="little")
        deep = tree.depths[tree.access] if problem.delay == "access" else np.zeros(count, np.int32)
        ones = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.int32)
        self.ways = Ways(sample.bits, bits, deep.astype(np.int32), ones)
        self.table = sample.table
        own = np.arange(count, dtype=np.int32)
        self.groups = Groups(
            own.copy(),
            own.copy(),
            sample.bits.copy(),
            sample.bits.copy(),
            bits.copy(),
            bits.copy(),
            self.ways.deep.copy(),
            np.ones(count, np.int32),
            np.zeros(count),
        )
        self.cost, self.gain = 0.0, 0
        self.changed: Bytes = np.ones(count, np.uint8)
        self._ratios: Floats | None = None

    def candidates(self, alike: bool) -> Floats:
        if self._ratios is None:
            self._ratios = np.full(len(self.groups.label) ** 2, np.inf)
        top_kernels.refresh(self.groups, self.ways, self.table, self.changed, self._ratios, alike)
        return self._ratios

    def pair(self, candidate: int) -> tuple[int, int, int]:
        return 1, *divmod(candidate, len(self.groups.label))

    def larger(self) -> tuple[float, list[int]]:
        count = len(self.groups.label)
        rows = np.zeros((2, self.groups.some.shape[1]), np.uint8)
        paths = np.zeros((2, self.groups.touch.shape[1]), np.uint8)
        chosen, found = np.zeros(count, np.int32), np.zeros(count + 1, np.int32)
        value = top_kernels.best_sets(self.groups, self.ways, self.table, rows, paths, chosen, found)
        return float(value), found[1 : found[0] + 1].tolist()

    def join(self, blocks: Sequence[int]) -> None:
        for other in blocks[1:]:
            x, y = int(self.groups.label[blocks[0]]), int(self.groups.label[other])
            if x != y:
                change, gain = top_kernels.join(self.groups, self.ways, self.table, x, y, self.changed)
                self.cost, self.gain = self.cost + change, self.gain + gain

    def partitions(self) -> tuple[Partition, ...]:
        found: dict[int, list[int]] = {}
        for subscriber, label in enumerate(self.groups.label.tolist()):
            found.setdefault(label, []).append(subscriber)
        return induced(self.problem.tree, found.values())


def state_of(problem: Problem) -> CascadeState | TopState:
    """Return the state in which nothing is merged."""
    return CascadeState(problem) if problem.accounting == "cascade" else TopState(problem)


def loaded(problem: Problem, partitions: Sequence[Partition]) -> CascadeState | TopState:
    """Return the state that a plan is."""
    state = state_of(problem)
    if isinstance(state, TopState):
        for block in partitions[problem.tree.root]:
            state.join(block)
        return state
    layout = state.layout
    # Lower brokers first: what a broker merges stays merged above, and is then found so.
    for broker in reversed(layout.order.tolist()):
        first = int(layout.offsets[broker])
        slot = {int(s): first + n for n, s in enumerate(problem.tree.below[broker])}
        for block in partitions[broker]:
            if len(block) > 1:
                state.join([slot[s] for s in block])
    return state
