"""SemCast, as far as it is known: channels that are merged or split while that saves something.

O. Papaemmanouil and U. Çetintemel, "SemCast: Semantic Multicast for Content-Based Data Dissemination". How it forms
channels is reconstructed here from short descriptions; state that with every number. Each class of subscriptions with
the same documents starts as a channel. A channel's tree is a Steiner tree of its members' brokers; a publisher hands
its document in at the nearest broker of the tree, and it is carried to all of them, wanted or not. Of all pairs of
channels that share a document, the one whose change saves most is changed, until none saves anything:

    merge   one channel for what is in either
    split   three channels, for what is in both, only in the first, only in the second

With `filtering`, documents go only towards members that want them, on the same trees. A channel that was split carries
an expression over others; it decides which fresh documents it carries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush

import numpy as np

from covey.errors import PlanError
from covey.matching.jit import Floats, Ints
from covey.planning.documents import Documents
from covey.planning.graph import Mask
from covey.planning.groups.assign import settled
from covey.planning.groups.likeness import classes_of
from covey.planning.groups.model import Grouping, Problem, Traffic, members_of, numbered
from covey.planning.low_stretch.forest import completed
from covey.planning.steiner import steiner_links
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree

CHANGES = {"merge": (True, False), "split": (False, True), "merge+split": (True, True)}
TOLERANCE = 1e-9

Expression = tuple[str, int, int]  # "class", "or", "and", "less", of two earlier ones


@dataclass(frozen=True)
class Channel:
    """Which sampled documents it carries, its subscriptions, and the number of its expression."""

    documents: Mask
    members: Ints
    expression: int


@dataclass(frozen=True)
class _Stem:
    """The tree of a channel: its links, their cost, and how far each node is from it and from which node of it."""

    links: Ints
    cost: float
    far: Floats
    joint: Ints


def semcast(problem: Problem, *, changes: str = "merge+split", filtering: bool = False) -> Grouping:
    """Return the channels at which no change of this kind saves anything on the sample."""
    if changes not in CHANGES:
        raise PlanError(f"no such changes as {changes!r} (hint: one of {', '.join(CHANGES)})")
    search = _Search(problem, *CHANGES[changes])
    search.run()
    channels = [search.channels[name] for name in sorted(search.channels)]
    name = f"semcast {changes}" + (" filtered" if filtering else "")
    trees = tuple(search.spanning(channel.members) for channel in channels)
    cost = partial(_traffic, search, channels, trees if filtering else None)
    held_out = None if problem.held_out is None else cost(problem.held_out)
    group = None
    if changes == "merge" and channels:
        label = np.zeros(problem.sample.subscription_count, np.int32)
        for number, channel in enumerate(channels):
            label[channel.members] = number
        group = numbered(label)
        trees = tuple(trees[label[members[0]]] for members in members_of(group))
    return Grouping(name, group, trees, cost(problem.sample), held_out)


class _Search:
    """Channels by number, and how changes are found."""

    def __init__(self, problem: Problem, merge: bool, split: bool) -> None:
        sample = problem.sample
        classes, count = classes_of(sample)
        self.problem = problem
        self.merge, self.split = merge, split
        self.channels: dict[int, Channel] = {}
        self.expressions: list[Expression] = []
        self.classes = members_of(settled(problem.paths, sample.hosts, classes, count, problem.words))
        self._stems: dict[bytes, _Stem] = {}
        self._at: dict[int, set[int]] = defaultdict(set)  # document -> channels
        self._next = 0
        if count:
            for number, members in enumerate(self.classes):
                documents = np.zeros(sample.document_count, np.bool_)
                documents[sample.matched_by(int(members[classes[members] >= 0][0]))] = True
                self._add(documents, members, ("class", number, number))

    def run(self) -> None:
        """Change the pair that saves most, smaller numbers first among equals, until none saves anything."""
        heap = [entry for name in self.channels for other in self._near(name) if name < other
                for entry in self._savings(name, other)]  # fmt: skip
        heapify(heap)
        while heap:
            _, first, second, split = heappop(heap)
            if first not in self.channels or second not in self.channels:
                continue
            for name in self._change(first, second, split):
                for other in self._near(name):
                    for entry in self._savings(min(name, other), max(name, other)):
                        heappush(heap, entry)

    def stem(self, members: Ints) -> _Stem:
        """Return the tree of a channel with these members."""
        hosts = np.unique(self.problem.sample.hosts[members])
        known = self._stems.get(hosts.tobytes())
        if known is None:
            paths, graph = self.problem.paths, self.problem.graph
            links = steiner_links(paths, int(hosts[0]), hosts.tolist())
            nodes = np.unique(np.append(graph.ends[links].ravel(), hosts[0]))
            nearest = paths.distance[nodes].argmin(axis=0)
            far = paths.distance[nodes[nearest], np.arange(graph.nodes)].astype(np.float64)
            known = _Stem(
                links,
                float(graph.costs[links].sum()),
                far,
                nodes[nearest].astype(np.int32),
            )
            self._stems[hosts.tobytes()] = known
        return known

    def spanning(self, members: Ints) -> Tree:
        """Return a spanning tree that has the channel's tree in it."""
        graph = self.problem.graph
        return completed(graph, self.stem(members).links, int(self.problem.sample.hosts[members[0]]))

    def carried(self, matches: Matches) -> dict[int, Mask]:
        """Return for each channel which of these documents it carries."""
        values: list[Mask] = []
        for kind, first, second in self.expressions:
            if kind == "class":
                value = np.zeros(matches.document_count, np.bool_)
                value[matches.numbered_documents_of(self.classes[first])[0]] = True
            elif kind == "or":
                value = values[first] | values[second]
            else:
                value = values[first] & (values[second] if kind == "and" else ~values[second])
            values.append(value)
        return {name: values[channel.expression] for name, channel in self.channels.items()}

    def _cost(self, documents: Mask, members: Ints) -> float:
        stem, sample = self.stem(members), self.problem.sample
        return float(sample.weights[documents] @ (stem.cost + stem.far[sample.publishers[documents]]))

    def _savings(self, first: int, second: int) -> Iterator[tuple[float, int, int, bool]]:
        one, two = self.channels[first], self.channels[second]
        before = self._cost(one.documents, one.members) + self._cost(two.documents, two.members)
        members = np.union1d(one.members, two.members)
        found = []
        if self.merge:
            found.append((self._cost(one.documents | two.documents, members), False))
        if self.split:
            common = self._cost(one.documents & two.documents, members)
            left = self._cost(one.documents & ~two.documents, one.members)
            right = self._cost(two.documents & ~one.documents, two.members)
            found.append((common + left + right, True))
        after, split = min(found)
        if before - after > TOLERANCE * before:
            yield after - before, first, second, split

    def _change(self, first: int, second: int, split: bool) -> list[int]:
        one, two = self._remove(first), self._remove(second)
        members = np.union1d(one.members, two.members)
        a, b = one.expression, two.expression
        if not split:
            return [self._add(one.documents | two.documents, members, ("or", a, b))]
        # Also what no sampled document asks for is kept: a fresh one may.
        return [
            self._add(one.documents & two.documents, members, ("and", a, b)),
            self._add(one.documents & ~two.documents, one.members, ("less", a, b)),
            self._add(two.documents & ~one.documents, two.members, ("less", b, a)),
        ]

    def _add(self, documents: Mask, members: Ints, expression: Expression) -> int:
        name, self._next = self._next, self._next + 1
        self.expressions.append(expression)
        self.channels[name] = Channel(documents, members, len(self.expressions) - 1)
        for document in np.flatnonzero(documents).tolist():
            self._at[document].add(name)
        return name

    def _remove(self, name: int) -> Channel:
        channel = self.channels.pop(name)
        for document in np.flatnonzero(channel.documents).tolist():
            self._at[document].discard(name)
        return channel

    def _near(self, name: int) -> list[int]:
        if name not in self.channels:
            return []
        documents = np.flatnonzero(self.channels[name].documents).tolist()
        return sorted({other for document in documents for other in self._at[document]} - {name})


def _traffic(
    search: _Search,
    channels: list[Channel],
    trees: tuple[Tree, ...] | None,
    matches: Matches,
) -> Traffic:
    """Return what documents cost: on the whole trees of their channels, or with filtering on these."""
    cost = copies = deliveries = 0.0
    carried = search.carried(matches)
    for place, name in enumerate(sorted(search.channels)):
        channel, stem = channels[place], search.stem(channels[place].members)
        mask = carried[name]
        weights = matches.weights[mask]
        cost += float(weights @ stem.far[matches.publishers[mask]])
        copies += float(weights.sum())
        numbers, wanting = matches.numbered_documents_of(channel.members)
        mine = wanting.take(mask[numbers])
        if trees is None:
            cost += stem.cost * float(weights.sum())
            deliveries += float(weights.sum()) * len(np.unique(matches.hosts[channel.members]))
        else:
            inside = Documents(stem.joint[mine.publishers], mine.offsets, mine.hosts, mine.weights)
            cost += trees[place].cost(inside)
            deliveries += float(mine.weights @ np.diff(mine.offsets))
    documents = matches.documents
    wanted = float(documents.weights @ np.diff(documents.offsets))
    return Traffic(cost, copies, deliveries, wanted, matches.document_count)
