"""Planned trees in the simulator: what is published on them, counted link by link, beside what was predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.oracles.planning_graphs import graphs, links_of

from covey.core.families import parse
from covey.core.filter import Filter
from covey.planning.graph import Graph
from covey.planning.groups.baselines import single
from covey.planning.groups.costing import path_tree
from covey.planning.groups.model import Grouping, Problem
from covey.planning.groups.regions import replayed
from covey.planning.paths import AllPaths
from covey.planning.plan import Plan, PlannedTree
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree
from covey.routing.messages import Message, Publish
from covey.routing.plan import TreePlan
from covey.sim import Network

Interest = tuple[int, Filter]  # at a node
Event = tuple[int, Any]  # published at a node

RANGES = [parse(text) for text in ("x > 2", "x < 5", "x = 3", "x between 3 and 7", "x > 6", "y is not null")]
WORDS = [parse(text, language="keywords") for text in ("ash", "elm", "ash and elm", "ash or oak", "oak")]
EVENTS = [
    {"x": 1},
    {"x": 3},
    {"x": 4, "y": 0},
    {"x": 7},
    {"z": 1},
    *map(frozenset, ({"ash"}, {"ash", "elm"}, {"oak"})),
]


def name(node: int) -> str:
    return f"b{node:03}"


@dataclass(frozen=True)
class World:
    """An overlay, who wants what where, and what is published: a sample to plan on, and fresh events."""

    graph: Graph
    interests: Sequence[Interest]
    sample: Sequence[Event]
    fresh: Sequence[Event]

    def matches(self, events: Sequence[Event]) -> Matches:
        rows = [
            (
                publisher,
                [number for number, (_, filter) in enumerate(self.interests) if filter.matches(event)],
            )
            for publisher, event in events
        ]
        return Matches.of(np.array([node for node, _ in self.interests], np.int32), rows)

    def problem(self) -> Problem:
        sample, fresh = self.matches(self.sample), self.matches(self.fresh)
        return Problem(self.graph, AllPaths(self.graph), sample, fresh, seed=1)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    graph = draw(graphs(most=6))
    node = st.integers(0, graph.nodes - 1)
    interest = st.tuples(node, st.sampled_from([*RANGES, *WORDS]))
    events = st.lists(st.tuples(node, st.sampled_from(EVENTS)), min_size=1, max_size=6)
    return World(
        graph, draw(st.lists(interest, min_size=1, max_size=7, unique=True)), draw(events), draw(events)
    )


def in_regions(problem: Problem, roots: Sequence[int], rule: str) -> Grouping:
    """One copy of each document on the tree of one of these roots, whatever else were cheaper."""
    trees = tuple(path_tree(problem.graph, root) for root in roots)
    found = replace(single(problem), name=f"regions {rule}", trees=trees, one_copy=rule)
    assert problem.held_out is not None
    sample, held_out = (replayed(problem, found, matches) for matches in (problem.sample, problem.held_out))
    return replace(found, sample=sample, held_out=held_out)


def pairs_of(graph: Graph, tree: Tree) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name(a), name(b)) for a, b, _ in links_of(graph, tree.links.tolist())))


def tree_plan(world: World, grouping: Grouping) -> TreePlan:
    """The plan as brokers take it, by way of its file."""
    graph = world.graph
    costs = sorted((name(a), name(b), cost) for a, b, cost in links_of(graph))
    trees = tuple(PlannedTree(name(tree.root), pairs_of(graph, tree)) for tree in grouping.trees)
    groups: dict[tuple[str, bytes], int] = {}
    if grouping.one_copy is None:
        assert grouping.group is not None
        for (node, filter), tree in zip(world.interests, grouping.group.tolist(), strict=True):
            groups[name(node), filter.encode()] = tree
    plan = Plan(
        method=grouping.name,
        seed=1,
        brokers=tuple(map(name, range(graph.nodes))),
        links=tuple(costs),
        trees=trees,
        one_copy=grouping.one_copy,
        groups=groups,
    )
    return Plan.decode(plan.encode()).to_tree_plan()


@dataclass(frozen=True)
class Measured:
    """What happened: cost of links crossed, links crossed, trees used by each event, and who got what."""

    cost: float
    crossed: int
    copies: int
    false_positives: int
    deliveries: Counter[tuple[str, str]]


class Installed:
    """A network that follows a plan, or floods, with all subscriptions settled."""

    def __init__(self, world: World, plan: TreePlan | None, *, advertisements: bool = False) -> None:
        graph = world.graph
        self.costs = {frozenset((name(a), name(b))): cost for a, b, cost in links_of(graph)}
        self.crossed: Counter[frozenset[str]] = Counter()
        self.trees: set[tuple[str, int]] = set()
        overlay = [(name(a), name(b)) for a, b, _ in links_of(graph)]
        if plan is None:
            overlay = list(pairs_of(graph, path_tree(graph, 0)))
        topology = type("Topology", (), {"links": overlay, "brokers": list(map(name, range(graph.nodes)))})
        strategy = "flooding" if plan is None else plan.strategy
        self.net = Network(topology, strategy, trees=plan, advertisements=advertisements)
        if advertisements:
            for broker in self.net.brokers:
                for announced in (
                    parse("x is not null"),
                    parse("z is not null"),
                    parse("ash or elm or oak", language="keywords"),
                ):
                    self.net.advertise(broker, announced)
        for number, (node, filter) in enumerate(world.interests):
            for client in range(1 + number % 2):  # some subscribe to the same at the same broker
                self.net.subscribe(name(node), filter, client=f"client {number}.{client}")
        self.net.settle()
        self.net.observer = self._observe

    def _observe(self, sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Publish):
            self.crossed[frozenset((sender, receiver))] += 1
            self.trees.add((message.id, message.tree))

    def publish(self, events: Sequence[Event]) -> Measured:
        self.net.clear_counters()
        self.net.clear_deliveries()
        self.crossed.clear()
        self.trees.clear()
        ids = {}
        for number, (node, event) in enumerate(events):
            ids[self.net.publish(name(node), event)] = number
        deliveries: Counter[tuple[str, str]] = Counter()
        self.net.on_delivery = lambda subscription, publish, _: deliveries.update(
            [(subscription.client, str(ids[publish.id]))]
        )
        self.net.settle()
        assert self.net.counters["forwarded_events"] == self.crossed.total()
        return Measured(
            sum(count * self.costs[link] for link, count in self.crossed.items()),
            self.crossed.total(),
            len(self.trees),
            self.net.counters["false_positives"],
            deliveries,
        )


def kept_local(world: World, grouping: Grouping, events: Sequence[Event]) -> int:
    """How many copies are for the publisher's own broker alone: they are counted, and cross nothing."""
    found = 0
    for publisher, event in events:
        wanting: dict[int, set[int]] = {}
        for number, (node, filter) in enumerate(world.interests):
            if filter.matches(event):
                tree = 0 if grouping.one_copy or grouping.group is None else int(grouping.group[number])
                wanting.setdefault(tree, set()).add(node)
        found += sum(hosts == {publisher} for hosts in wanting.values())
    return found
