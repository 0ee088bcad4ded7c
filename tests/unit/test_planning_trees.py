"""Graphs, paths, documents and trees of planning: limits, errors, and cases that are easy to get wrong."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from covey.errors import PlanError
from covey.planning.components import by_component
from covey.planning.compute_tree import candidates, compute_tree
from covey.planning.documents import Documents
from covey.planning.graph import Graph, subgraph
from covey.planning.improve import improve_by_swaps
from covey.planning.low_stretch.akpw import akpw_links
from covey.planning.low_stretch.forest import completed
from covey.planning.low_stretch.plain import hop_links, random_links, shortest_path_links
from covey.planning.low_stretch.star import star_decomposition, star_links
from covey.planning.paths import MAX_ALL_PAIRS, AllPaths
from covey.planning.steiner import (
    MAX_EXACT_TERMINALS,
    exact_cost,
    link_multiplicities,
    steiner,
    steiner_costs,
    steiner_links,
)
from covey.planning.tree import Tree

SQUARE = Graph(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
APART = Graph(5, [(0, 3), (1, 2), (2, 4)])


def random_overlay(nodes: int, extra: int, seed: int) -> Graph:
    random = np.random.default_rng(seed)
    tree = [(random.integers(node), node) for node in range(1, nodes)]
    more = random.integers(nodes, size=(extra, 2))
    return Graph(nodes, [*tree, *more[more[:, 0] != more[:, 1]]])


def random_documents(graph: Graph, count: int, seed: int, hosts: int = 4) -> Documents:
    random = np.random.default_rng(seed)
    flat = random.integers(graph.nodes, size=count * hosts)
    return Documents.gathered(random.integers(graph.nodes, size=count), np.arange(count + 1) * hosts, flat)


@pytest.mark.parametrize(
    ("nodes", "ends", "costs", "words"),
    [
        (0, [], None, "nodes"),
        (2, [(0, 0)], None, "itself"),
        (2, [(0, 2)], None, "not one of 2 nodes"),
        (2, [(-1, 0)], None, "not one of 2 nodes"),
        (3, [(0, 1, 2)], None, "pairs"),
        (2, [(0.0, 1.0)], None, "pairs"),
        (2, [(0, 1)], [0.0], "positive"),
        (2, [(0, 1)], [math.nan], "positive"),
        (2, [(0, 1)], [math.inf], "positive"),
        (2, [(0, 1)], [1.0, 2.0], "one cost for each"),
    ],
)
def test_what_cannot_be_a_graph_is_refused(nodes: int, ends: object, costs: object, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Graph(nodes, ends, costs)  # type: ignore[arg-type]


def test_a_link_given_twice_keeps_its_first_place_and_its_lowest_cost() -> None:
    graph = Graph(4, [(2, 1), (0, 1), (1, 2), (3, 1)], [5.0, 1.0, 2.0, 1.0])
    assert graph.ends.tolist() == [[1, 2], [0, 1], [1, 3]]
    assert graph.costs.tolist() == [2.0, 1.0, 1.0]
    assert not graph.unit
    assert graph.neighbours[graph.offsets[1] : graph.offsets[2]].tolist() == [0, 2, 3]
    assert graph.links[graph.offsets[1] : graph.offsets[2]].tolist() == [1, 0, 2]
    part, links = subgraph(graph, [3, 1, 2])
    assert part.ends.tolist() == [[1, 2], [0, 1]]
    assert links.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("publishers", "offsets", "hosts", "weights", "words"),
    [
        ([0], [0], [], None, "offsets"),
        ([0], [0, 2], [1], None, "rise"),
        ([0, 0], [0, 2, 1], [1], None, "rise"),
        ([0], [0, 2], [2, 1], None, "document 0 are not sorted"),
        ([0, 0], [0, 1, 3], [1, 2, 2], None, "document 1 are not sorted"),
        ([0], [0, 1], [-1], None, "negative"),
        ([0], [0, 1], [1], [-1.0], "weights"),
        ([0], [0, 1], [1], [math.nan], "weights"),
    ],
)
def test_what_cannot_be_documents_is_refused(
    publishers: list[int], offsets: list[int], hosts: list[int], weights: list[float] | None, words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        Documents(publishers, offsets, hosts, weights)


def test_a_split_parts_the_documents_the_same_way_every_time() -> None:
    documents = Documents.of([(number, []) for number in range(30)])
    drawn, others = documents.split(0.3, seed=4)
    again, _ = documents.split(0.3, seed=4)
    assert (len(drawn), len(others)) == (9, 21)
    assert drawn.publishers.tolist() == again.publishers.tolist()
    assert sorted([*drawn.publishers, *others.publishers]) == list(range(30))
    with pytest.raises(PlanError):
        documents.split(1.5, seed=4)


def test_nodes_beyond_the_graph_are_refused() -> None:
    documents = Documents.of([(0, [4])])
    with pytest.raises(PlanError, match="node 4"):
        steiner_costs(AllPaths(SQUARE), documents)
    with pytest.raises(PlanError, match="node 4"):
        Tree(SQUARE, [0, 1, 2]).costs(documents)


@pytest.mark.parametrize(
    ("links", "root", "words"),
    [
        ([0, 1], 0, "3 links, not 2"),
        ([0, 1, 1], 0, "3 links, not 2"),
        ([0, 1, 4], 0, "not among"),
        ([0, 1, -1], 0, "not among"),
        ([0, 1, 2], 4, "root"),
    ],
)
def test_what_is_no_spanning_tree_is_refused(links: list[int], root: int, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Tree(SQUARE, links, root)


def test_as_many_links_as_a_tree_has_may_still_have_a_cycle() -> None:
    graph = Graph(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    for root in range(4):
        with pytest.raises(PlanError, match="does not span"):
            Tree(graph, [0, 1, 2], root)


def test_documents_for_nobody_or_for_the_publisher_alone_cost_nothing() -> None:
    documents = Documents.of([(1, []), (1, [1]), (1, [0, 1]), (1, [0])], weights=[1, 1, 1, 3])
    assert documents.wanted().tolist() == [False, False, True, True]
    assert steiner_costs(AllPaths(SQUARE), documents).tolist() == [0, 0, 1, 3]
    assert Tree(SQUARE, [1, 2, 3]).costs(documents).tolist() == [0, 0, 3, 9]
    lone = Graph(1, [])
    choice = compute_tree(lone, AllPaths(lone), Documents.of([(0, [0]), (0, [])]))
    assert (choice.cost, choice.tree.links.tolist()) == (0.0, [])


def test_distances_and_links_are_as_wide_as_they_must_be() -> None:
    path = Graph(300, [(node, node + 1) for node in range(299)])
    paths = AllPaths(path)
    assert (paths.distance.dtype, paths.via.dtype) == (np.dtype(np.uint16), np.dtype(np.int16))
    assert paths.distance[0, 299] == paths.distance.max() == 299
    assert AllPaths(subgraph(path, range(255))[0]).distance.dtype == np.uint8
    assert AllPaths(subgraph(path, range(256))[0]).distance.dtype == np.uint16
    complete = Graph(260, list(combinations(range(260), 2)))
    paths = AllPaths(complete)
    assert (paths.distance.dtype, paths.via.dtype) == (np.dtype(np.uint8), np.dtype(np.int32))
    assert paths.path(258, 259) == [len(complete.ends) - 1]
    assert AllPaths(Graph(2, [(0, 1)], [0.5])).distance.dtype == np.float32
    with pytest.raises(PlanError, match="memory"):
        AllPaths(Graph(MAX_ALL_PAIRS + 1, []))


def test_an_overlay_in_pieces_is_planned_piece_by_piece() -> None:
    documents = Documents.of([(0, [3]), (4, [1, 2]), (1, [3, 4]), (3, [])], weights=[1, 2, 1, 1])
    paths = AllPaths(APART)
    assert documents.undeliverable(APART).tolist() == [False, False, True, False]
    with pytest.raises(PlanError, match="first document 2"):
        steiner_costs(paths, documents)
    with pytest.raises(PlanError, match="no path"):
        paths.path(0, 1)
    with pytest.raises(PlanError, match="no path"):
        exact_cost(APART, [0, 1])
    deliverable = documents.take(~documents.undeliverable(APART))
    assert steiner_costs(paths, deliverable).tolist() == [1, 4, 0]
    with pytest.raises(PlanError, match="2 components, and node 1"):
        compute_tree(APART, paths, deliverable)
    with pytest.raises(PlanError, match="connected"):
        completed(APART, [], 0)
    first, second = by_component(APART, documents)
    assert (first.nodes.tolist(), first.links.tolist(), first.numbers.tolist()) == ([0, 3], [0], [0, 3])
    assert (second.nodes.tolist(), second.links.tolist(), second.numbers.tolist()) == ([1, 2, 4], [1, 2], [1])
    costs = [compute_tree(part.graph, AllPaths(part.graph), part.documents).cost for part in (first, second)]
    assert costs == [1, 4]


def test_exact_trees_are_for_few_terminals() -> None:
    with pytest.raises(PlanError, match="at most"):
        exact_cost(random_overlay(40, 5, 1), range(MAX_EXACT_TERMINALS + 1))
    with pytest.raises(PlanError, match="among"):
        exact_cost(SQUARE, [0, 4])
    assert exact_cost(SQUARE, [2]) == exact_cost(SQUARE, []) == 0.0
    with pytest.raises(PlanError, match="two nodes"):
        star_decomposition(Graph(1, []), 0)


def test_a_single_document_travels_on_its_steiner_tree() -> None:
    graph = random_overlay(60, 60, 3)
    paths = AllPaths(graph)
    document = Documents.of([(5, [17, 30, 31, 59])])
    choice = compute_tree(graph, paths, document)
    # The used links leave most nodes alone: every tree had to be joined to the rest of the graph.
    assert len(steiner_links(paths, 5, [17, 30, 31, 59])) < 59 == len(choice.tree.links)
    assert choice.cost == steiner_costs(paths, document).sum()
    assert set(choice.scores.values()) == {choice.cost}


def test_two_documents_far_apart_leave_two_pieces_that_are_joined() -> None:
    graph = Graph(9, [(node, node + 1) for node in range(8)])
    paths = AllPaths(graph)
    choice = compute_tree(graph, paths, Documents.of([(0, [1]), (7, [8])]))
    assert choice.cost == 2
    assert choice.tree.links.tolist() == list(range(8))


def test_weights_of_documents_and_costs_of_links_scale_the_cost_and_not_the_choice() -> None:
    graph = random_overlay(80, 80, 5)
    dear = Graph(80, graph.ends, np.full(len(graph.ends), 3.0))
    documents = random_documents(graph, 40, 6)
    heavy = Documents(documents.publishers, documents.offsets, documents.hosts, np.full(40, 2.0))
    plain = compute_tree(graph, AllPaths(graph), documents)
    scaled = compute_tree(dear, AllPaths(dear), heavy)
    assert scaled.cost == 6 * plain.cost
    assert scaled.tree.links.tolist() == plain.tree.links.tolist()


def test_the_star_is_always_a_candidate_and_the_same_input_gives_the_same_trees() -> None:
    graph = random_overlay(120, 100, 7)
    documents = random_documents(graph, 50, 8)
    multiplicities = link_multiplicities(AllPaths(graph), documents)
    names = [name for name, _ in candidates(graph, multiplicities, roots=2)]
    assert [name.split()[0] for name in names] == ["star", "paths", "traffic", "paths", "traffic"]
    assert [name.split()[0] for name, _ in candidates(graph, multiplicities, roots=0)] == ["star"]
    with pytest.raises(PlanError):
        list(candidates(graph, multiplicities, roots=-1))
    first, second = ([tree.links.tolist() for _, tree in candidates(graph, multiplicities)] for _ in range(2))
    assert first == second


def test_low_stretch_trees_stretch_less_than_a_minimum_spanning_tree_and_within_the_bound() -> None:
    nodes = 300
    graph = random_overlay(nodes, 450, 9)
    documents = random_documents(graph, 200, 10)
    costs, multiplicities = steiner(AllPaths(graph), documents)
    used = multiplicities > 0
    stretch = {
        name: completed(graph, links, 0).stretch(multiplicities)
        for name, links in {
            "star": star_links(graph, 0, multiplicities, used),
            "akpw": akpw_links(graph, multiplicities, used),
            "hops": hop_links(graph, 0, used),
            "paths": shortest_path_links(graph, 0, graph.costs, used),
            "random": random_links(graph, 1, used),
        }.items()
    }
    assert stretch["star"] < 0.75 * stretch["random"]
    assert stretch["akpw"] < 0.75 * stretch["random"]
    assert stretch["star"] <= math.log2(nodes) ** 2 * math.log2(math.log2(nodes))
    star = completed(graph, star_links(graph, 0, multiplicities, used), 0)
    assert star.cost(documents) <= stretch["star"] * costs.sum()


def test_cones_grow_where_short_links_lead_out_of_them() -> None:
    """Two long arms from the centre, joined by very short links: one cone takes in both."""
    ends = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (1, 2), (3, 4), (5, 6)]
    far, near = 1.0, 0.001
    graph = Graph(7, ends, [far] * 6 + [near] * 3)
    assert star_decomposition(graph, 0).part.max() == 1
    apart = Graph(7, ends, [far] * 9)
    assert star_decomposition(apart, 0).part.max() == 2


def test_a_swap_that_only_the_training_documents_want_is_not_made() -> None:
    tree = Tree(SQUARE, [0, 1, 2])  # without the link from 3 to 0
    training, held_out = Documents.of([(0, [3])] * 3), Documents.of([(1, [2]), (0, [1]), (2, [3])])
    wanted = improve_by_swaps(tree, training, training)
    assert (wanted.swaps, wanted.training) == (1, (9.0, 3.0))
    assert 3 in wanted.tree.links
    refused = improve_by_swaps(tree, training, Documents.of([(0, [1]), (1, [2]), (2, [3])] * 2))
    assert (refused.swaps, refused.training, refused.held_out) == (0, (9.0, 9.0), (6.0, 6.0))
    nothing = improve_by_swaps(tree, training, held_out, rounds=0)
    assert nothing.tree is tree
    with pytest.raises(PlanError):
        improve_by_swaps(tree, training, held_out, rounds=-1)


def test_swaps_help_documents_that_nobody_showed_them() -> None:
    graph = random_overlay(200, 300, 11)
    documents = random_documents(graph, 900, 12)
    training, held_out, fresh = (documents.take(range(k, k + 300)) for k in (0, 300, 600))
    tree = completed(graph, random_links(graph, 2), 0)
    found = improve_by_swaps(tree, training, held_out)
    assert found.swaps > 10
    assert found.tree.cost(fresh) < 0.8 * tree.cost(fresh)


def test_links_much_cheaper_than_others_are_still_counted_once_each() -> None:
    """With distances in float32, nodes of the tree would look equally near, and links would be counted twice."""
    tiny, huge = 1e-4, 1e4
    graph = Graph(6, [(0, 1), (1, 2), (2, 3), (3, 4), (2, 5)], [huge, tiny, tiny, huge, huge])
    paths = AllPaths(graph)
    assert paths.distance.dtype == np.float64
    document = Documents.of([(0, [1, 2, 3, 4, 5])])
    costs, multiplicities = steiner(paths, document)
    assert multiplicities.tolist() == [1.0] * 5
    assert math.isclose(costs[0], 3 * huge + 2 * tiny)
    assert Tree(graph, range(5)).costs(document)[0] == pytest.approx(costs[0])
    with pytest.raises(PlanError, match="times the lowest"):
        Graph(3, [(0, 1), (1, 2)], [1.0, 1e9])
    with pytest.raises(PlanError, match="times the lowest"):
        Graph(2, [(0, 1)], [5e-324])
    with pytest.raises(PlanError, match="times the lowest"):
        Graph(2, [(0, 1)], [1e300])
