"""The aggregation problem of paper W: a propagation tree, filters, and a plan for each of its links.

Subscriptions travel from their access brokers to the root broker, which is linked to the publisher. A plan says, for
each broker v, how the subscribers below v are partitioned on the link from v towards the publisher: each block is one
forwarded filter. Rules that every plan obeys:

1. The inputs of v are its own clients, one by one, and the blocks its children forward. Each block of v is a union of
   inputs: a merge is never undone higher up, so the partitions are nested.
2. A block made of two or more inputs is an aggregator; one made of a single input only passes through.
3. The gain G is the number of filters no longer carried, summed over the links between brokers and to the publisher:
   sum over v of (subscribers below v - blocks of v). Links to clients do not count.

The paper does not state its target theta; here it is a share of the largest possible gain, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Ints
from covey.planning.aggregation.sample import Sample

Accounting: TypeAlias = Literal["cascade", "top"]
Delay: TypeAlias = Literal["access", "constant"]
Block: TypeAlias = tuple[int, ...]
Partition: TypeAlias = tuple[Block, ...]

NONE = -1


class Layout(NamedTuple):
    """A slot for each (broker, subscriber below it), by broker and then by subscriber; what kernels work on.

    `up` and `down` are the slots of the same subscriber at the parent and at the child towards it, or NONE. `order`
    has the brokers, parents first.
    """

    offsets: Ints
    broker: Ints
    subscriber: Ints
    up: Ints
    down: Ints
    order: Ints


class Propagation:
    """The tree along which subscriptions travel, and where the subscribers are.

    `parents[v]` is the broker next to v towards the publisher, NONE for the root; `access[s]` the broker of
    subscriber s. `depths[v]` counts links from v to the publisher, so that of the root is 1.
    """

    def __init__(self, parents: Sequence[int] | Ints, access: Sequence[int] | Ints) -> None:
        self.parents: Ints = np.array(parents, np.int32)
        self.access: Ints = np.array(access, np.int32)
        brokers = len(self.parents)
        roots = np.flatnonzero(self.parents == NONE)
        if len(roots) != 1:
            raise PlanError(f"a propagation tree has one root, not {len(roots)}")
        if self.parents.min() < NONE or self.parents.max(initial=0) >= brokers:
            raise PlanError("the parent of a broker is no broker")
        if len(self.access) and (self.access.min() < 0 or self.access.max() >= brokers):
            raise PlanError("a subscriber's access broker is no broker")
        self.root = int(roots[0])
        self.depths: Ints = np.zeros(brokers, np.int32)
        for broker in range(brokers):
            self.depths[broker] = len(self._way_up(broker))

    def _way_up(self, broker: int) -> list[int]:
        way: list[int] = []
        while broker != NONE:
            way.append(broker)
            if len(way) > len(self.parents):
                raise PlanError("the propagation tree has a cycle")
            broker = int(self.parents[broker])
        return way

    @property
    def brokers(self) -> int:
        return len(self.parents)

    @property
    def subscribers(self) -> int:
        return len(self.access)

    def way(self, subscriber: int) -> list[int]:
        """Return the brokers from a subscriber's own to the root."""
        return self._way_up(int(self.access[subscriber]))

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """For each broker the subscribers whose way to the publisher goes through it."""
        found: list[list[int]] = [[] for _ in range(self.brokers)]
        for subscriber in range(self.subscribers):
            for broker in self.way(subscriber):
                found[broker].append(subscriber)
        return tuple(map(tuple, found))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in range(self.brokers)]
        for broker, parent in enumerate(self.parents.tolist()):
            if parent != NONE:
                found[parent].append(broker)
        return tuple(map(tuple, found))

    @cached_property
    def most_gain(self) -> int:
        """The gain when every link carries one filter."""
        return sum(max(0, len(subscribers) - 1) for subscribers in self.below)

    @cached_property
    def layout(self) -> Layout:
        sizes = [len(subscribers) for subscribers in self.below]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        broker = np.repeat(np.arange(self.brokers, dtype=np.int32), sizes)
        subscriber = np.array([s for below in self.below for s in below], np.int32)
        slot = {
            (int(v), int(s)): number for number, (v, s) in enumerate(zip(broker, subscriber, strict=True))
        }
        up = np.full(len(broker), NONE, np.int32)
        down = np.full(len(broker), NONE, np.int32)
        for (v, s), number in slot.items():
            parent = int(self.parents[v])
            if parent != NONE:
                up[number] = slot[parent, s]
                down[slot[parent, s]] = number
        order = np.argsort(self.depths, kind="stable").astype(np.int32)
        return Layout(offsets, broker, subscriber, up, down, order)

    def hops(self, broker: int, subscriber: int) -> int:
        """Return the links from a broker down to the access broker of a subscriber below it."""
        return int(self.depths[self.access[subscriber]] - self.depths[broker])


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be planned: the tree, the filters as bit sets over sampled events, and how cost is counted.

    `accounting` and `delay` are explained in `cost`. `events` is the rate of events for one unit of weight, `leaves`
    that at which a subscriber leaves. `held_out` are other events, on which plans are judged.
    """

    tree: Propagation
    sample: Sample
    accounting: Accounting = "cascade"
    delay: Delay = "access"
    events: float = 1.0
    leaves: float = 1.0
    held_out: Sample | None = None

    def __post_init__(self) -> None:
        for sample in (self.sample, self.held_out):
            if sample is not None and sample.filters != self.tree.subscribers:
                raise PlanError(f"{sample.filters} filters for {self.tree.subscribers} subscribers")
        if self.accounting not in ("cascade", "top") or self.delay not in ("access", "constant"):
            raise PlanError(f"no accounting {self.accounting!r} with delay {self.delay!r}")

    @cached_property
    def compact(self) -> Sample:
        """The sample with equal events made one: the same cost of every plan."""
        return self.sample.compact()

    def target(self, share: float) -> int:
        """Return theta for a share of the largest gain: what no fewer filters than that must be saved."""
        if not 0.0 <= share <= 1.0:
            raise PlanError(f"a share of the largest gain lies between 0 and 1, not {share}")
        return math.ceil(share * self.tree.most_gain - 1e-9)

    def delay_of(self, broker: int, block: Iterable[int]) -> int:
        """Return r: how long an aggregator needs to learn again what is behind it, in hops."""
        if self.delay == "constant":
            return 1
        return max(1, *(self.tree.hops(broker, subscriber) for subscriber in block))


@dataclass(frozen=True)
class AggregationPlan:
    """A plan: the blocks on the link above each broker, and what they are worth.

    `cost` is on the problem's sample, `held_out_cost` on its held-out events (None without them). `waste` is the rate
    of events that merging into hulls lets through for ever, over all links; None when filters have no hulls.
    """

    method: str
    theta: int
    partitions: tuple[Partition, ...]
    aggregators: tuple[tuple[int, Block], ...]
    gain: int
    cost: float
    held_out_cost: float | None = None
    waste: float | None = None

    @property
    def load(self) -> int:
        """The filters carried, over all links between brokers and to the publisher."""
        return sum(len(partition) for partition in self.partitions)


def inputs_of(tree: Propagation, partitions: Sequence[Partition], broker: int) -> list[Block]:
    """Return what a broker may merge: its clients and the blocks of its children, by smallest subscriber."""
    own = [(s,) for s in tree.below[broker] if tree.access[s] == broker]
    return sorted(own + [block for child in tree.children[broker] for block in partitions[child]])


def aggregators_of(tree: Propagation, partitions: Sequence[Partition]) -> list[tuple[int, Block]]:
    """Return each (broker, block) that is made of two or more inputs."""
    found = []
    for broker in range(tree.brokers):
        whole = set(inputs_of(tree, partitions, broker))
        found += [(broker, block) for block in partitions[broker] if block not in whole]
    return found


def gain_of(tree: Propagation, partitions: Sequence[Partition]) -> int:
    return sum(len(below) - len(partition) for below, partition in zip(tree.below, partitions, strict=True))


def check(tree: Propagation, partitions: Sequence[Partition]) -> None:
    """Raise PlanError unless each broker's blocks are a partition of those below it into unions of its inputs."""
    if len(partitions) != tree.brokers:
        raise PlanError(f"{len(partitions)} partitions for {tree.brokers} brokers")
    for broker, partition in enumerate(partitions):
        if sorted(s for block in partition for s in block) != list(tree.below[broker]):
            raise PlanError(f"the blocks of broker {broker} are no partition of the subscribers below it")
        home = {s: number for number, block in enumerate(partition) for s in block}
        for block in inputs_of(tree, partitions, broker):
            if len({home[s] for s in block}) > 1:
                raise PlanError(f"broker {broker} takes apart a filter that it got as one")


def induced(tree: Propagation, groups: Iterable[Iterable[int]]) -> tuple[Partition, ...]:
    """Return the plan that merges each group as early as it can: on each link, whoever of the group is below."""
    home = {s: number for number, group in enumerate(groups) for s in group}
    partitions = []
    for below in tree.below:
        blocks: dict[int, list[int]] = {}
        for s in below:
            blocks.setdefault(home.get(s, -1 - s), []).append(s)
        partitions.append(tuple(sorted(map(tuple, blocks.values()))))
    return tuple(partitions)
