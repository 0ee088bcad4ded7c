"""On which tree the only copy travels, and over which link: by exhaustive walks, and as the planner chooses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.planning_graphs import documents_on, graphs, links_of, pruned_cost

import covey
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.groups.costing import path_tree
from covey.planning.groups.regions import carriers
from covey.planning.tree import Tree
from covey.routing.carrying import BITS, RULES, Carrying, OneCopy, whole
from covey.routing.plan import TreePlan

few = settings(max_examples=60, deadline=None)


def name(node: int) -> str:
    return f"b{node:02}"


def carrying_on(graph: Graph, trees: list[Tree], rule: str, spare: int = 0) -> Carrying:
    costs = {(name(a), name(b)): cost for a, b, cost in links_of(graph)}
    pairs = [[(name(a), name(b)) for a, b, _ in links_of(graph, tree.links.tolist())] for tree in trees]
    return Carrying(pairs, OneCopy(rule, [name(tree.root) for tree in trees], costs, spare))


@st.composite
def forests(draw: st.DrawFn) -> tuple[Graph, list[Tree]]:
    graph = draw(graphs(most=7))
    roots = draw(st.lists(st.integers(0, graph.nodes - 1), min_size=1, max_size=4))
    return graph, [path_tree(graph, root) for root in roots]


def ways(links: list[tuple[int, int, float]], start: int) -> dict[int, tuple[int, Fraction]]:
    """For each other node of a tree the first step from the start towards it, and how far it is, exactly."""
    found: dict[int, tuple[int, Fraction]] = {}
    walks = [(b if a == start else a, b if a == start else a, start, Fraction(str(cost)))
             for a, b, cost in links if start in (a, b)]  # fmt: skip
    for node, first, before, far in walks:
        found[node] = first, far
        for a, b, cost in links:
            other = b if a == node else a
            if node in (a, b) and other != before:
                walks.append((other, first, node, far + Fraction(str(cost))))
    return found


@few
@given(forests())
def test_the_next_hop_is_the_first_step_on_the_tree(found: tuple[Graph, list[Tree]]) -> None:
    graph, trees = found
    carrying = carrying_on(graph, trees, "nearest")
    for number, tree in enumerate(trees):
        links = links_of(graph, tree.links.tolist())
        for here in range(graph.nodes):
            for there, (first, _) in ways(links, here).items():
                assert carrying.next_hop(number, name(here), name(there)) == name(first)


@few
@given(forests(), st.data())
def test_the_tree_is_the_nearest_or_the_cheapest(
    found: tuple[Graph, list[Tree]], data: st.DataObject
) -> None:
    graph, trees = found
    node = st.integers(0, graph.nodes - 1)
    publisher, hosts = data.draw(node), sorted(data.draw(st.sets(node, min_size=1)))
    links = [links_of(graph, tree.links.tolist()) for tree in trees]
    far = [
        sum(ways(links[number], tree.root).get(host, (0, 0))[1] for host in hosts)
        for number, tree in enumerate(trees)
    ]
    chosen = carrying_on(graph, trees, "nearest").carrier(name(publisher), [name(host) for host in hosts])
    assert far[chosen] <= min(far) + Fraction(1, 10**6)
    crossed = [pruned_cost(mine, {publisher, *hosts}) for mine in links]
    chosen = carrying_on(graph, trees, "cheapest").carrier(name(publisher), [name(host) for host in hosts])
    assert crossed[chosen] <= min(crossed) + 1e-6
    if graph.unit:
        assert chosen == crossed.index(min(crossed)), "the first of equals"


@few
@given(forests(), st.data())
def test_a_planner_and_a_broker_choose_alike(found: tuple[Graph, list[Tree]], data: st.DataObject) -> None:
    graph, trees = found
    documents: Documents = data.draw(documents_on(graph, most=12))
    carrying = carrying_on(graph, trees, "nearest")
    planned = carriers(documents, trees, "nearest")
    for number in range(len(documents)):
        hosts = [name(host) for host in documents.hosts_of(number).tolist()]
        if hosts:
            publisher = name(int(documents.publishers[number]))
            assert carrying.carrier(publisher, hosts) == planned[number]


def test_rounding_does_not_choose() -> None:
    # In four bytes each, 0.7 + 0.1 is less than 0.8; the first of equals is the tree of root 0.
    graph = Graph(3, [(0, 1), (1, 2)], [0.7, 0.1])
    trees = [path_tree(graph, 0), path_tree(graph, 1)]
    documents = Documents.of([(0, []), (0, [0, 2])])
    assert carriers(documents, trees, "nearest").tolist() == [0, 0]
    assert carrying_on(graph, trees, "nearest").carrier("b00", ["b00", "b02"]) == 0


@few
@given(st.lists(st.floats(0, 1e12), max_size=5))
def test_whole_distances_keep_their_proportions(distances: list[float]) -> None:
    found = whole(distances)
    assert (np.abs(found) < 1 << BITS).all()
    most = max(distances, default=0.0)
    unit = most / max(found.tolist(), default=1) if most else 0.0
    for number, distance in zip(found.tolist(), distances, strict=True):
        assert number * unit == pytest.approx(distance, rel=1e-9, abs=1e-9 * most)
    order = np.argsort(distances, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


def test_trees_for_one_copy_are_checked() -> None:
    chain = [("a", "b"), ("b", "c")]
    with pytest.raises(covey.PlanError, match="no rule 'random' for the only copy"):
        TreePlan([chain], one_copy=OneCopy("random", ["a"]))
    with pytest.raises(covey.PlanError, match="1 trees has as many roots, not 2"):
        TreePlan([chain], one_copy=OneCopy("nearest", ["a", "b"]))
    for other in ([("a", "b")], [("a", "b"), ("b", "d")], [("a", "b"), ("c", "d")]):
        with pytest.raises(covey.PlanError, match="tree 1 of the plan does not span"):
            TreePlan([chain, other], one_copy=OneCopy("nearest", ["a", "b"]))
    with pytest.raises(covey.PlanError, match="has no groups"):
        TreePlan([chain], lambda broker, filter: 0, one_copy=OneCopy("nearest", ["a"]))
    alone = TreePlan([[]], one_copy=OneCopy("nearest", ["a"])).carrying
    assert alone is not None
    assert alone.carrier("a", ["a"]) == 0


def test_links_cost_what_is_said_of_either_order_of_their_ends() -> None:
    costs = OneCopy("nearest", [], {("a", "b"): 2.0})
    assert (costs.cost("a", "b"), costs.cost("b", "a"), costs.cost("b", "c")) == (2.0, 2.0, 1.0)
    assert set(RULES) == {"nearest", "cheapest"}


@few
@given(forests(), st.data())
def test_spare_trees_carry_nothing_until_something_fails(
    found: tuple[Graph, list[Tree]], data: st.DataObject
) -> None:
    graph, trees = found
    spare = data.draw(st.integers(0, len(trees) - 1))
    for rule in RULES:
        alone = carrying_on(graph, trees[: len(trees) - spare], rule)
        carrying = carrying_on(graph, trees, rule, spare)
        far, parents, names = carrying.far_to_choose(), carrying.parents, carrying.names
        hosts = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
        publisher = data.draw(st.sampled_from(names))
        assert carrying.carrier(publisher, hosts) == alone.carrier(publisher, hosts)
        # As compiled code chooses: among all trees, by these distances.
        places = [carrying.number[host] for host in hosts]
        if rule == "nearest":
            costs = far[:, places].sum(axis=1).tolist()
        else:
            ends = {carrying.number[publisher], *places}
            costs = [crossed(parents[tree].tolist(), far[tree].tolist(), ends) for tree in range(len(trees))]
        assert costs.index(min(costs)) == alone.carrier(publisher, hosts)


def crossed(parents: list[int], far: list[int], ends: set[int]) -> int:
    """Return what the links cost that have some of the brokers on either side."""

    def above(broker: int) -> set[int]:
        found = {broker}
        while parents[broker] >= 0:
            broker = parents[broker]
            found.add(broker)
        return found

    below = [sum(broker in above(end) for end in ends) for broker in range(len(parents))]
    return sum(
        far[broker] - far[parents[broker]]
        for broker, count in enumerate(below)
        if 0 < count < len(ends) and parents[broker] >= 0
    )


@few
@given(forests(), st.data())
def test_who_is_behind_others_is_whom_walks_reach_through_them(
    found: tuple[Graph, list[Tree]], data: st.DataObject
) -> None:
    graph, trees = found
    carrying = carrying_on(graph, trees, "nearest")
    here = data.draw(st.sampled_from(carrying.names))
    around = set()
    for tree in range(len(trees)):
        around |= {carrying.next_hop(tree, here, other) for other in carrying.names if other != here}
    assert carrying.around(here) == tuple(sorted(around))
    others = [one for one in carrying.names if one != here and data.draw(st.booleans())]
    behind = carrying.behind(here, others)
    for tree in range(len(trees)):
        for name_ in carrying.names:
            passed, at = [], here
            while at != name_:
                at = carrying.next_hop(tree, at, name_)
                passed.append(at)
            assert behind[tree, carrying.number[name_]] == any(one in others for one in passed[:-1])
