"""Shortest paths, Steiner trees and costs on spanning trees against slow and obvious answers."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from tests.oracles.planning_graphs import (
    cheapest_steiner,
    documents_on,
    floyd_warshall,
    graphs,
    links_of,
    pruned_cost,
    spans,
    terminals_of,
)

from covey.planning.documents import Documents
from covey.planning.graph import Graph, connected
from covey.planning.paths import AllPaths, shortest
from covey.planning.steiner import exact_cost, steiner, steiner_links
from covey.planning.tree import FEW, Tree


@given(graphs(connected=False))
def test_all_pairs_are_those_of_floyd_and_warshall(graph: Graph) -> None:
    paths = AllPaths(graph)
    far = floyd_warshall(graph.nodes, links_of(graph))
    for source in range(graph.nodes):
        distance, via = shortest(graph, graph.costs, source)
        np.testing.assert_allclose(distance, far[source])
        np.testing.assert_array_equal(via, paths.via[source])
        for target in range(graph.nodes):
            if math.isinf(far[source][target]):
                assert paths.distance[source, target] == paths.unreachable
                assert paths.via[source, target] == -1
                continue
            assert math.isclose(paths.distance[source, target], far[source][target], rel_tol=1e-6)
            links = paths.path(source, target)
            assert math.isclose(sum(graph.costs[links]), far[source][target])
            assert not links or spans({source, target}, links_of(graph, links))


@given(graphs(connected=False))
def test_of_equal_paths_in_hops_the_one_by_the_smallest_node_is_taken(graph: Graph) -> None:
    hops = Graph(graph.nodes, graph.ends)
    paths = AllPaths(hops)
    far = floyd_warshall(hops.nodes, links_of(hops))
    for source in range(hops.nodes):
        for target in range(hops.nodes):
            if source == target or math.isinf(far[source][target]):
                continue
            before = [
                (a + b - target, number)
                for number, (a, b, _) in enumerate(links_of(hops))
                if target in (a, b) and far[source][a + b - target] == far[source][target] - 1
            ]
            assert paths.via[source, target] == min(before)[1]


@given(graphs(connected=False), st.data())
def test_components_are_what_links_join(graph: Graph, data: st.DataObject) -> None:
    allowed = np.array([data.draw(st.booleans()) for _ in graph.ends], np.bool_)
    count, label = connected(graph, allowed)
    far = floyd_warshall(graph.nodes, links_of(graph, np.flatnonzero(allowed)))
    for a in range(graph.nodes):
        for b in range(graph.nodes):
            assert (label[a] == label[b]) == math.isfinite(far[a][b])
    firsts = [list(label).index(number) for number in range(count)]
    assert firsts == sorted(firsts)
    assert set(label) == set(range(count))


@given(graphs(most=7), st.data())
def test_dreyfus_and_wagner_find_the_cheapest_tree(graph: Graph, data: st.DataObject) -> None:
    terminals = data.draw(st.sets(st.integers(0, graph.nodes - 1), min_size=1, max_size=5))
    assert math.isclose(
        exact_cost(graph, terminals), cheapest_steiner(graph.nodes, links_of(graph), terminals)
    )


@given(graphs(), st.data())
def test_steiner_trees_join_their_terminals_at_no_more_than_twice_the_least_cost(
    graph: Graph, data: st.DataObject
) -> None:
    documents = data.draw(documents_on(graph))
    paths = AllPaths(graph)
    costs, multiplicities = steiner(paths, documents)
    expected = np.zeros(len(graph.ends))
    for number in range(len(documents)):
        terminals, weight = terminals_of(documents, number), documents.weights[number]
        links = steiner_links(paths, int(documents.publishers[number]), documents.hosts_of(number))
        used = links_of(graph, links)
        assert spans(terminals, used)
        assert len({node for a, b, _ in used for node in (a, b)} | terminals) == len(used) + 1, "a tree"
        assert math.isclose(sum(graph.costs[links]), pruned_cost(used, terminals)), "no bare leaves"
        assert math.isclose(costs[number], weight * sum(graph.costs[links]))
        best = exact_cost(graph, terminals)
        assert weight * best <= costs[number] * (1 + 1e-9)
        assert costs[number] <= 2 * weight * best * (1 + 1e-9)
        expected[links] += weight
    np.testing.assert_allclose(multiplicities, expected)


@given(graphs(), st.data())
def test_a_document_costs_what_is_left_of_the_tree_when_bare_leaves_are_cut(
    graph: Graph, data: st.DataObject
) -> None:
    documents = data.draw(documents_on(graph))
    lengths = np.array([data.draw(st.integers(1, 5)) for _ in graph.ends], np.float64)
    grown = data.draw(st.integers(0, graph.nodes - 1))
    links = [link for link in shortest(graph, lengths, grown)[1] if link >= 0]
    costs = [Tree(graph, links, root).costs(documents) for root in range(graph.nodes)]
    for number in range(len(documents)):
        left = pruned_cost(links_of(graph, links), terminals_of(documents, number))
        assert math.isclose(costs[0][number], documents.weights[number] * left, abs_tol=1e-9)
    for other in costs:
        np.testing.assert_allclose(other, costs[0], atol=1e-9)


@given(graphs(), st.data())
def test_distances_and_stretch_in_a_tree_are_those_of_floyd_and_warshall(
    graph: Graph, data: st.DataObject
) -> None:
    links = [link for link in shortest(graph, graph.costs, graph.nodes - 1)[1] if link >= 0]
    tree = Tree(graph, links, data.draw(st.integers(0, graph.nodes - 1)))
    far = floyd_warshall(graph.nodes, links_of(graph, links))
    everyone = np.arange(graph.nodes)
    for source in everyone:
        np.testing.assert_allclose(
            tree.distances(np.full(graph.nodes, source), everyone), far[source], atol=1e-9
        )
    weights = np.array([data.draw(st.integers(0, 3)) for _ in graph.ends], np.float64)
    stretches = [far[a][b] / cost for a, b, cost in links_of(graph)]
    total = weights.sum()
    expected = sum(w * s for w, s in zip(weights, stretches, strict=True)) / total if total else 1.0
    assert math.isclose(tree.stretch(weights), expected)


@given(graphs(connected=False), st.data())
def test_documents_can_be_taken_restricted_and_gathered(graph: Graph, data: st.DataObject) -> None:
    documents = data.draw(documents_on(graph))
    mask = np.array([data.draw(st.booleans()) for _ in range(graph.nodes)], np.bool_)
    fewer = documents.restricted(mask)
    lost, wanted = documents.undeliverable(graph), documents.wanted()
    far = floyd_warshall(graph.nodes, links_of(graph))
    for number in range(len(documents)):
        publisher, hosts = int(documents.publishers[number]), documents.hosts_of(number)
        assert list(fewer.hosts_of(number)) == [host for host in hosts if mask[host]]
        assert lost[number] == any(math.isinf(far[publisher][host]) for host in hosts)
        assert wanted[number] == bool(set(map(int, hosts)) - {publisher})
    if len(documents):
        numbers = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=8))
        taken = documents.take(numbers)
        for place, number in enumerate(numbers):
            assert taken.publishers[place] == documents.publishers[number]
            assert taken.weights[place] == documents.weights[number]
            assert list(taken.hosts_of(place)) == list(documents.hosts_of(number))
    rows = data.draw(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5))
    offsets = np.cumsum([0, *map(len, rows)])
    gathered = Documents.gathered([0] * len(rows), offsets, [host for row in rows for host in row])
    assert [list(gathered.hosts_of(j)) for j in range(len(rows))] == [sorted(set(row)) for row in rows]


def test_all_pairs_of_a_larger_graph_are_those_of_scipy() -> None:
    random = np.random.default_rng(3)
    nodes, count = 300, 700
    ends = random.integers(nodes, size=(count, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    for costs in (None, random.uniform(0.5, 2.0, len(ends))):
        graph = Graph(nodes, ends, costs)
        matrix = coo_array((graph.costs, (graph.ends[:, 0], graph.ends[:, 1])), shape=(nodes, nodes))
        theirs = dijkstra(matrix.tocsr(), directed=False)
        paths = AllPaths(graph)
        ours = np.where(paths.distance == paths.unreachable, np.inf, paths.distance.astype(np.float64))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_documents_with_many_hosts_cost_what_those_with_few_do() -> None:
    random = np.random.default_rng(5)
    nodes = 700
    graph = Graph(nodes, [(int(random.integers(max(0, node - 40), node)), node) for node in range(1, nodes)])
    tree = Tree(graph, np.arange(nodes - 1))
    sizes = [0, 1, 2, 7, 8, 9, 31, 100, FEW - 1, FEW, FEW + 1, 600]
    documents = Documents.of(
        (int(random.integers(nodes)), random.permutation(nodes)[:size].tolist()) for size in sizes
    )
    for number, cost in enumerate(tree.costs(documents)):
        assert cost == pruned_cost(links_of(graph), terminals_of(documents, number))
