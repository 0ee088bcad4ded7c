"""Constructions of spanning trees: what each promises, on small random graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.planning_graphs import (
    documents_on,
    floyd_warshall,
    graphs,
    links_of,
    minimum_tree,
    spans,
    terminals_of,
)

from covey.errors import PlanError
from covey.planning.compute_tree import candidates, compute_tree
from covey.planning.graph import Graph, connected
from covey.planning.improve import improve_by_swaps
from covey.planning.low_stretch.akpw import akpw_links
from covey.planning.low_stretch.forest import completed
from covey.planning.low_stretch.plain import (
    heaviest_links,
    heavy_path_links,
    hop_links,
    minimum_links,
    random_links,
    shortest_path_links,
)
from covey.planning.low_stretch.star import epsilon, star_decomposition, star_links
from covey.planning.paths import AllPaths, shortest
from covey.planning.steiner import exact_cost, link_multiplicities
from covey.planning.tree import Tree


def draw_weights(data: st.DataObject, graph: Graph, least: int = 0) -> np.ndarray:
    return np.array([data.draw(st.integers(least, 4)) for _ in graph.ends], np.float64)


@given(graphs(most=10), st.data())
def test_every_construction_spans_what_its_links_join(graph: Graph, data: st.DataObject) -> None:
    weights = draw_weights(data, graph)
    allowed = np.array([data.draw(st.booleans()) for _ in graph.ends], np.bool_)
    root = data.draw(st.integers(0, graph.nodes - 1))
    pieces, _ = connected(graph, allowed)
    made = {
        "star": star_links(graph, root, weights, allowed),
        "akpw": akpw_links(graph, weights, allowed),
        "akpw by multiplicity": akpw_links(graph, weights, allowed, lengths=1 / (weights + 1)),
        "hops": hop_links(graph, root, allowed),
        "paths": shortest_path_links(graph, root, graph.costs, allowed),
        "minimum": minimum_links(graph, graph.costs, allowed),
        "random": random_links(graph, 7, allowed),
        "heaviest": heaviest_links(graph, weights, allowed),
    }
    for name, links in made.items():
        assert allowed[links].all(), name
        assert len(links) == graph.nodes - pieces, name
        kept = np.zeros(len(graph.ends), np.bool_)
        kept[links] = True
        assert connected(graph, kept)[0] == pieces, name
        tree = completed(graph, links, root)
        assert set(links) <= set(tree.links), name
        assert spans(range(graph.nodes), links_of(graph, tree.links)), name


@given(graphs(most=10), st.data())
def test_heavy_paths_are_shortest_and_join_where_most_is_carried(graph: Graph, data: st.DataObject) -> None:
    """Against the rule in plain Python: nodes choose from the farthest on, the neighbour that carries most by then."""
    root = data.draw(st.integers(0, graph.nodes - 1))
    weights = np.array([data.draw(st.integers(0, 4)) for _ in range(graph.nodes)], np.float64)
    tree = Tree(graph, heavy_path_links(graph, root, weights), root)
    far, _ = shortest(graph, graph.costs, root)
    assert tree.depth == pytest.approx(far)
    carried, parents = weights.tolist(), {}
    ways = {(a, b): cost for (a, b), cost in zip(graph.ends.tolist(), graph.costs.tolist(), strict=True)}
    ways |= {(b, a): cost for (a, b), cost in ways.items()}
    for node in sorted(range(graph.nodes), key=lambda node: (-far[node], node)):
        onward = [
            b
            for (a, b), cost in ways.items()
            if a == node and math.isclose(far[b] + cost, far[node], rel_tol=1e-12)
        ]
        if node != root:
            parents[node] = min(onward, key=lambda other: (-carried[other], other))
            carried[parents[node]] += carried[node]
    assert {node: int(tree.parent[node]) for node in range(graph.nodes) if node != root} == parents


@given(graphs(most=10), st.data())
def test_minimum_and_heaviest_trees_are_kruskals(graph: Graph, data: st.DataObject) -> None:
    weights = draw_weights(data, graph)
    everyone = set(range(graph.nodes))
    least = minimum_tree(everyone, links_of(graph))
    for links in (minimum_links(graph, graph.costs), random_links(graph, data.draw(st.integers(0, 9)))):
        assert math.isclose(graph.costs[links].sum(), least)
    turned = [(a, b, -w) for (a, b, _), w in zip(links_of(graph), weights, strict=True)]
    assert weights[heaviest_links(graph, weights)].sum() == -minimum_tree(everyone, turned)


@given(graphs(most=10), st.data())
def test_nodes_outside_a_piece_join_it_by_shortest_paths(graph: Graph, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, graph.nodes - 1))
    size = data.draw(st.integers(0, graph.nodes - 1))
    distance, via = shortest(graph, graph.costs, root)
    piece = [int(node) for node in np.argsort(distance, kind="stable")[: size + 1]]
    tree = completed(graph, [via[node] for node in piece if via[node] >= 0], root)
    in_tree = floyd_warshall(graph.nodes, links_of(graph, tree.links))
    in_graph = floyd_warshall(graph.nodes, links_of(graph))
    for node in range(graph.nodes):
        assert math.isclose(
            min(in_tree[node][there] for there in piece),
            min(in_graph[node][there] for there in piece),
            abs_tol=1e-9,
        )


def test_links_with_a_cycle_cannot_be_completed() -> None:
    graph = Graph(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    with pytest.raises(PlanError, match="does not span"):
        completed(graph, [0, 1, 2], 0)
    larger = Graph(5, [*graph.ends, (3, 4)])
    with pytest.raises(PlanError, match="cycle"):
        completed(larger, [0, 1, 2], 0)
    assert list(completed(larger, [0, 1], 4).links) == [0, 1, 3, 4]


@given(graphs(most=14), st.data())
def test_a_star_is_a_ball_and_cones_that_keep_their_distance(graph: Graph, data: st.DataObject) -> None:
    if graph.nodes < 2:
        return
    weights = draw_weights(data, graph, least=1)
    root = data.draw(st.integers(0, graph.nodes - 1))
    star = star_decomposition(graph, root, weights)
    far, _ = shortest(graph, graph.costs, root)
    radius = far.max()
    ball = star.part == 0
    assert star.centres[0] == root
    assert len(star.centres) == star.part.max() + 1 == len(star.bridges) + 1
    # The ball is all within some distance from ρ/3 to 2ρ/3.
    assert far[ball].max() <= 2 * radius / 3
    assert far[~ball].min() > max(far[ball].max(), radius / 3)
    for number, centre in enumerate(star.centres):
        members = np.flatnonzero(star.part == number)
        assert centre in members
        inner = (star.part[graph.ends] == number).all(axis=1)
        within, _ = shortest(graph, graph.costs, int(centre), inner)
        assert np.isfinite(within[members]).all(), "a part is connected"
        if number:
            link = star.bridges[number - 1]
            a, b = graph.ends[link]
            gate = a if b == centre else b
            assert {int(a), int(b)} == {int(gate), int(centre)}
            assert ball[gate]
            assert far[gate] + graph.costs[link] == far[centre], "on a shortest path"
            assert far[centre] + within[members].max() <= (1 + epsilon(graph)) * radius * (1 + 1e-9)


@given(graphs(most=14), st.data())
def test_a_star_tree_keeps_the_radius_of_the_graph(shape: Graph, data: st.DataObject) -> None:
    graph = Graph(shape.nodes, shape.ends)  # in hops, where a step adds no more than ε of the radius
    root = data.draw(st.integers(0, graph.nodes - 1))
    tree = Tree(graph, star_links(graph, root, draw_weights(data, graph)), root)
    far, _ = shortest(graph, graph.costs, root)
    assert tree.depth.max() <= math.sqrt(math.e) * far.max() * (1 + 1e-9)


@given(graphs(), st.data())
def test_the_chosen_tree_is_the_cheapest_candidate_and_within_the_bound(
    graph: Graph, data: st.DataObject
) -> None:
    documents = data.draw(documents_on(graph))
    paths = AllPaths(graph)
    multiplicities = link_multiplicities(paths, documents)
    choice = compute_tree(graph, paths, documents, roots=data.draw(st.integers(0, 3)))
    again = compute_tree(graph, paths, documents, roots=(len(choice.scores) - 1) // 2)
    assert (again.name, again.cost, list(again.tree.links)) == (
        choice.name,
        choice.cost,
        list(choice.tree.links),
    )
    assert (
        choice.cost
        == choice.tree.cost(documents)
        == min(choice.scores.values())
        == choice.scores[choice.name]
    )
    for name, tree in candidates(graph, multiplicities):
        paid = multiplicities * graph.costs
        bound = tree.stretch(paid) * paid.sum()
        assert tree.cost(documents) <= bound * (1 + 1e-9), name
    best = sum(
        documents.weights[number] * exact_cost(graph, terminals_of(documents, number))
        for number in range(len(documents))
    )
    assert best <= choice.cost * (1 + 1e-9) + 1e-9


@given(graphs(most=7), st.data())
def test_swaps_end_where_no_swap_pays(graph: Graph, data: st.DataObject) -> None:
    documents = data.draw(documents_on(graph, least=1))
    tree = Tree(graph, random_links(graph, 3), data.draw(st.integers(0, graph.nodes - 1)))
    found = improve_by_swaps(tree, documents, documents, rounds=50)
    assert found.training == (tree.cost(documents), found.tree.cost(documents))
    assert found.training[1] <= found.training[0]
    assert (found.training[1] < found.training[0]) == (found.swaps > 0)
    inside = set(found.tree.links)
    for new in set(range(len(graph.ends))) - inside:
        for old in inside:
            links = inside - {old} | {new}
            if spans(range(graph.nodes), links_of(graph, links)):
                assert Tree(graph, sorted(links)).cost(documents) >= found.training[1] * (1 - 1e-8)


@given(graphs(), st.data())
def test_swaps_never_make_documents_dearer_that_are_held_out(graph: Graph, data: st.DataObject) -> None:
    training, held_out = data.draw(documents_on(graph)), data.draw(documents_on(graph))
    tree = Tree(graph, minimum_links(graph, graph.costs))
    found = improve_by_swaps(tree, training, held_out)
    for before, after in (found.training, found.held_out):
        assert after <= before * (1 + 1e-8)
    assert found.held_out == (tree.cost(held_out), found.tree.cost(held_out))
