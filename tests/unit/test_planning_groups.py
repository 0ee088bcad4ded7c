"""Grouping: the traps that make costs look better than they are, and examples worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from covey.errors import PlanError
from covey.planning.documents import Documents
from covey.planning.graph import Graph
from covey.planning.groups.assign import settled
from covey.planning.groups.baselines import flooding, opt, single, spt
from covey.planning.groups.costing import Costing, document_costs, finished, traffic
from covey.planning.groups.insert import insert
from covey.planning.groups.likeness import dendrogram
from covey.planning.groups.model import Problem, members_of, numbered
from covey.planning.groups.mult import held_out, mult, not_worse
from covey.planning.groups.mult2 import mult2
from covey.planning.groups.regions import carriers, placed, region_trees, regions, roots_of
from covey.planning.groups.regions import replayed as replayed_regions
from covey.planning.groups.registry import METHODS, group
from covey.planning.paths import AllPaths
from covey.planning.subscriptions import Matches


def ring(nodes: int) -> Graph:
    return Graph(nodes, [(node, (node + 1) % nodes) for node in range(nodes)])


def line(nodes: int) -> Graph:
    return Graph(nodes, [(node, node + 1) for node in range(nodes - 1)])


def problem_on(graph: Graph, sample: Matches, **more: object) -> Problem:
    return Problem(graph, AllPaths(graph), sample, **more)  # type: ignore[arg-type]


def halves(nodes: int) -> Problem:
    """Example I.3: one document for each half of a ring, the node opposite to the publisher in both."""
    half = nodes // 2
    hosts = [*range(1, half + 1), *range(half, nodes)]
    first, second = list(range(half)), list(range(half, len(hosts)))
    return problem_on(ring(nodes), Matches.of(hosts, [(0, first), (0, second)]))


@pytest.mark.parametrize("nodes", [4, 8, 12])
def test_example_of_two_trees_on_a_ring(nodes: int) -> None:
    problem = halves(nodes)
    assert single(problem).sample.cost == 3 * nodes / 2 - 1
    for method in (mult, mult2):
        found = method(problem)
        assert (found.sample.cost, len(found.trees)) == (nodes, 2)


def test_copies_and_repeated_deliveries_are_counted_apart() -> None:
    # One document, two subscriptions on node 2 and one on node 3; groups {0}, {1, 2}.
    sample = Matches.of([2, 2, 3], [(0, [0, 1, 2]), (0, [0]), (1, [])])
    found = mult(problem_on(line(4), sample), groups=2)
    assert found.group is not None
    assert found.group.tolist() == [0, 1, 1]
    assert found.sample.cost == 2 + 3 + 2
    assert found.sample.copies == 3
    assert (found.sample.deliveries, found.sample.wanted, found.sample.duplicates) == (4, 3, 1)


def test_documents_that_nobody_wants_cost_nothing_and_count() -> None:
    sample = Matches.of([2], [(0, [0]), (0, []), (1, []), (3, [])])
    for name, method in METHODS.items():
        found = method(problem_on(line(4), sample, held_out=sample))
        assert found.sample.documents == 4, name
        assert found.sample.per_document == found.sample.cost / 4, name
    assert single(problem_on(line(4), sample)).sample.cost == 2


def test_the_publishers_own_broker_is_served_without_a_link() -> None:
    sample = Matches.of([1, 1, 2], [(1, [0, 1]), (1, [0, 2]), (1, [2])])
    for name in ("single", "spt", "mult", "mult2", "opt", "unicast"):
        assert METHODS[name](problem_on(line(3), sample)).sample.cost == 2, name


def test_one_broker_and_no_subscription_are_problems_too() -> None:
    alone = problem_on(Graph(1, []), Matches.of([0, 0], [(0, [0]), (0, [0, 1])]))
    empty = problem_on(line(3), Matches.of([], [(0, []), (1, [])]))
    for name, method in METHODS.items():
        assert method(alone).sample.cost == 0, name
        assert method(empty).sample.cost == 0, name


def test_flooding_crosses_every_link_for_each_document_that_is_wanted() -> None:
    sample = Matches.of([3], [(0, [0]), (1, [])], [2.0, 1.0])
    problem = problem_on(line(5), sample)
    assert flooding(problem).sample.cost == 8
    assert spt(problem).sample.cost == 6
    assert opt(problem).sample.cost == 6


def test_idle_subscriptions_follow_words_then_distance_then_number() -> None:
    paths = AllPaths(line(10))
    hosts = np.array([0, 9, 8, 1, 5, 4], np.int32)
    classes = np.array([0, 1, -1, -1, -1, -1], np.int32)
    words = [frozenset("ab"), frozenset("c"), frozenset("a"), frozenset("c"), frozenset("x"), frozenset("y")]
    # Words decide although the other class is nearer; without shared words, distance does: node 5 is nearer to 9.
    assert settled(paths, hosts, classes, 2, words).tolist() == [0, 1, 0, 1, 1, 0]
    assert settled(paths, hosts, classes, 2, None).tolist() == [0, 1, 1, 0, 1, 0]
    middle = np.array([0, 8, 4], np.int32)
    assert settled(paths, middle, np.array([0, 1, -1], np.int32), 2, None).tolist() == [0, 1, 0]


def test_idle_subscriptions_with_the_same_words_stay_together() -> None:
    paths = AllPaths(line(10))
    hosts = np.array([0, 9, 1, 8, 7], np.int32)
    classes = np.array([0, 1, -1, -1, -1], np.int32)
    words = [frozenset("a"), frozenset("b"), frozenset("z"), frozenset("z"), frozenset("z")]
    assert settled(paths, hosts, classes, 2, words).tolist() == [0, 1, 1, 1, 1]


def test_idle_subscriptions_are_no_free_groups_and_pay_on_fresh_documents() -> None:
    sample = Matches.of([1, 2, 3], [(0, [0]), (0, [0])])
    fresh = Matches.of([1, 2, 3], [(0, [2])])
    for name in ("mult", "mult2", "hybrid", "single"):
        found = METHODS[name](problem_on(line(4), sample, held_out=fresh))
        assert len(found.trees) == 1, name
        assert found.held_out_cost == 3, name
    nothing = Matches.of([1, 2], [(0, []), (1, [])])
    assert len(mult(problem_on(line(4), nothing)).trees) == 1
    assert len(mult(problem_on(line(4), nothing), groups=2).trees) == 1


def test_an_idle_subscription_does_not_change_what_its_group_costs_on_the_sample() -> None:
    sample = Matches.of([4, 0], [(node, [0]) for node in range(9)])
    fresh = Matches.of([4, 0], [(node, [0, 1]) for node in range(9)])
    problem = problem_on(ring(9), sample, held_out=fresh)
    worth = Costing(problem).worth(np.array([0, 1], np.int32))
    assert worth == replace(worth, sample=2 * (1 + 2 + 3 + 4))
    assert worth.held_out == single(problem).held_out_cost
    assert worth.held_out >= opt(problem).held_out_cost  # type: ignore[operator]


def test_groups_with_nothing_in_common_are_not_merged_by_chance() -> None:
    sample = Matches.of([0, 1, 2, 3], [(0, [0]), (1, [1]), (2, [2]), (3, [3])])
    found = dendrogram(sample)
    assert (found.count, found.fewest) == (4, 4)
    problem = problem_on(ring(5), sample)
    assert len(mult(problem, groups=2).trees) == 1, "there is no likeness by which two could be chosen"
    assert [point.groups for point in mult(problem, every=True).curve] == [4, 1]
    with pytest.raises(PlanError, match="from 4 to 4 groups"):
        found.labels(2)


def test_the_curve_has_every_number_of_groups_and_its_ends_are_right() -> None:
    sample = Matches.of([0, 1, 2, 3], [(0, [0, 1]), (1, [1, 2]), (2, [2, 3]), (3, [3])])
    problem = problem_on(ring(5), sample, held_out=sample)
    found = mult(problem, every=True)
    assert [point.groups for point in found.curve] == [4, 3, 2, 1]
    assert found.curve[0].sample == METHODS["unicast"](problem).sample.cost
    assert found.curve[-1].duplicates == 0
    assert found.curve[-1].copies == 4
    assert min(point.sample for point in found.curve) >= found.sample.cost
    assert all(point.held_out == point.sample for point in found.curve)


def test_an_overlay_in_pieces_is_refused() -> None:
    graph = Graph(4, [(0, 1), (2, 3)])
    with pytest.raises(PlanError, match="connected"):
        problem_on(graph, Matches.of([3], [(0, [0])]))


def test_what_does_not_fit_together_is_refused() -> None:
    graph = line(4)
    sample = Matches.of([1, 2], [(0, [0])])
    for more, text in (
        ({"held_out": Matches.of([1, 3], [(0, [0])])}, "same subscriptions"),
        ({"words": [frozenset()]}, "words for each of 2"),
    ):
        with pytest.raises(PlanError, match=text):
            problem_on(graph, sample, **more)
    with pytest.raises(PlanError, match="another graph"):
        Problem(graph, AllPaths(line(4)), sample)
    with pytest.raises(PlanError, match="node 7"):
        problem_on(graph, Matches.of([7], [(0, [0])]))
    with pytest.raises(PlanError, match="match subscription 5"):
        Matches.of([1], [(0, [5])])
    with pytest.raises(PlanError, match="no measure"):
        dendrogram(sample, measure="cosine")
    with pytest.raises(PlanError, match="no grouping 'best'"):
        group(problem_on(graph, sample), "best")
    with pytest.raises(PlanError, match="opt has no groups"):
        opt(problem_on(graph, sample)).members(0)
    with pytest.raises(PlanError, match="no groups to join"):
        insert(problem_on(graph, sample), opt(problem_on(graph, sample)), 0, [])
    with pytest.raises(PlanError, match="host must be among 4"):
        insert(problem_on(graph, sample), single(problem_on(graph, sample)), 4, [])


def test_documents_of_a_group_have_each_host_once() -> None:
    sample = Matches.of([2, 2, 0, 1], [(3, [0, 1, 2]), (1, [3]), (0, [1, 3])], [1.0, 5.0, 2.0])
    numbers, documents = sample.numbered_documents_of([0, 1, 3])
    assert numbers.tolist() == [0, 1, 2]
    assert [documents.hosts_of(j).tolist() for j in range(3)] == [[2], [1], [1, 2]]
    assert documents.weights.tolist() == [1.0, 5.0, 2.0]
    assert sample.documents_of([2]).publishers.tolist() == [3]
    assert len(sample.documents_of([])) == 0
    assert sample.matched_by(1).tolist() == [0, 2]
    assert sample.take([1]).idle().tolist() == [0, 1, 2]


def test_a_new_subscription_without_documents_goes_by_words_then_distance() -> None:
    sample = Matches.of([0, 9], [(5, [0]), (5, [1])])
    problem = problem_on(line(10), sample, words=[frozenset("a"), frozenset("b")])
    grouping = mult(problem, groups=2)
    assert insert(problem, grouping, 8, [], frozenset("a")) == 0
    assert insert(problem, grouping, 8, []) == 1
    assert insert(problem, grouping, 1, []) == 0
    assert insert(problem, grouping, 8, [1]) == 1
    assert insert(problem, grouping, 9, [0]) == 1, "both grow by 4 links, and the second is nearer"


def test_held_out_documents_decide_against_groups_that_only_fit_the_sample() -> None:
    # In the sample the subscriptions never go together, afterwards always.
    sample = Matches.of([3, 3], [(0, [0]), (6, [1])] * 3)
    fresh = Matches.of([3, 3], [(0, [0, 1]), (6, [0, 1])] * 3)
    problem = problem_on(ring(8), sample, held_out=fresh)
    assert len(held_out(problem).trees) == 1
    assert len(mult(problem, groups=2).trees) == 2
    other_way = replace(problem, sample=fresh, held_out=sample)
    assert len(held_out(other_way).trees) == 1, "one class, so one group"


def test_planted_groups_are_found_by_estimates_as_well_as_exactly() -> None:
    random = np.random.default_rng(5)
    subscriptions, blocks, documents = 120, 6, 360
    block = np.arange(subscriptions) % blocks
    rows = []
    for document in range(documents):
        mine = np.flatnonzero(block == document % blocks)
        rows.append((0, mine[random.random(len(mine)) < 0.7].tolist()))
    matches = Matches.of(np.zeros(subscriptions, np.int32), rows)
    exact = dendrogram(matches)
    rough = dendrogram(matches, exact_words=900, seed=1)
    for found in (exact, rough):
        assert found.count == subscriptions
        assert found.fewest == blocks
        assert (numbered(found.labels(blocks)) == numbered(block.astype(np.int32))).all()
    assert exact.merges.tobytes() != rough.merges.tobytes(), "the rough way was really taken"


def test_regions_send_one_copy_on_the_tree_whose_root_is_nearest() -> None:
    graph = ring(12)
    hosts = [1, 2, 3, 7, 8, 9]
    sample = Matches.of(
        hosts, [(node, [0, 1, 2]) for node in range(12)] + [(node, [3, 4, 5]) for node in range(12)]
    )
    problem = problem_on(graph, sample, held_out=sample)
    found = regions(problem, most=2)
    assert sorted(tree.root for tree in found.trees) == [2, 8]
    assert found.one_copy == "nearest"
    assert found.sample.copies == 24
    assert found.sample.duplicates == 0
    assert found.sample.cost < single(problem).sample.cost
    assert replayed_regions(problem, found, sample) == found.sample
    roots = np.array([tree.root for tree in found.trees], np.int32)
    chosen = carriers(sample.documents, found.trees, "nearest")
    assert {int(roots[c]) for c in chosen[:12]} == {2}
    assert {int(roots[c]) for c in chosen[12:]} == {8}
    assert insert(problem, found, 9, [0]) == int(np.flatnonzero(roots == 8)[0])


def test_a_saving_that_may_be_chance_is_left_to_one_tree() -> None:
    """What is chosen by few documents held out must beat one tree on them by more than their spread explains."""
    sample = Matches.of([1, 3], [(0, [0]), (2, [1]), (0, [0, 1])])
    problem = problem_on(ring(4), sample, held_out=sample)
    alone = single(problem)
    one = document_costs(sample, np.zeros(2, np.int32), alone.trees)
    assert one.sum() == alone.sample.cost
    other = replace(alone, name="other")
    for saved, stays in (([0, 0, 0], False), ([-1, -1, -1], False), ([1, 1, 1], True), ([3, -1, -1], False)):
        found = not_worse(problem, other, one - np.array(saved, np.float64))
        assert (found is other) == stays, saved
        assert found.name == "other"


def test_costs_of_documents_add_up_to_those_of_groups() -> None:
    sample = Matches.of([1, 3, 5], [(0, [0, 2]), (2, []), (4, [1]), (5, [0, 1, 2])], weights=[1, 1, 2, 0.5])
    group = np.array([0, 1, 0], np.int32)
    problem = problem_on(ring(7), sample)
    trees = finished(problem, "some", group).trees
    spent = document_costs(sample, group, trees)
    assert spent.sum() == pytest.approx(traffic(sample, group, trees).cost)
    for number in range(4):
        assert spent[number] == pytest.approx(traffic(sample.take([number]), group, trees).cost)


def test_placed_regions_need_no_documents() -> None:
    """The same trees whatever the sample is, and what it costs is what they cost."""
    hosts = [1, 2, 3, 7, 8, 9]
    some = Matches.of(hosts, [(0, [0, 1]), (5, [3, 4, 5])])
    none = Matches.of(hosts, [])
    for rule in ("nearest", "cheapest"):
        seen, blind = (placed(problem_on(ring(12), sample), 2, rule) for sample in (some, none))
        assert [tree.links.tolist() for tree in seen.trees] == [tree.links.tolist() for tree in blind.trees]
        assert sorted(tree.root for tree in seen.trees) == [2, 8]
        assert (seen.one_copy, seen.held_out) == (rule, None)
        assert replayed_regions(problem_on(ring(12), some), seen, some) == seen.sample
    assert len(placed(problem_on(ring(12), none), 40).trees) == 6, "no more than brokers that host"
    for count, rule, said in ((0, "nearest", "cannot be 0"), (2, "random", "no rule")):
        with pytest.raises(PlanError, match=said):
            placed(problem_on(ring(12), none), count, rule)


def test_trees_of_regions_bring_together_who_asks_for_the_same() -> None:
    """Two ways of the same length to hosts that want the same: with words known, they share one."""
    graph = Graph(6, [(0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (2, 4)])
    sample = Matches.of([2, 4], [])
    problem = Problem(graph, AllPaths(graph), sample, words=[frozenset("a"), frozenset("a")])
    (known,) = region_trees(problem, np.array([0], np.int32))
    (unknown,) = region_trees(replace(problem, words=None), np.array([0], np.int32))
    assert known.costs(Documents.of([(0, [2, 4])])).tolist() == [3]
    assert unknown.costs(Documents.of([(0, [2, 4])])).tolist() == [4], (
        "shortest paths, as nothing else is known"
    )


def test_roots_are_the_best_to_add_one_after_the_other() -> None:
    paths = AllPaths(line(9))
    assert roots_of(paths, np.array([0, 1, 2, 8], np.int32), 2).tolist() == [1, 8]
    assert roots_of(paths, np.array([4, 4], np.int32), 5).tolist() == [4], "no more than brokers that host"
    with pytest.raises(PlanError, match="no rule"):
        regions(problem_on(line(3), Matches.of([1], [(0, [0])])), rule="random")


def test_members_are_in_order_and_groups_are_numbered_by_their_first() -> None:
    label = numbered(np.array([7, 3, 7, 5], np.int32))
    assert label.tolist() == [0, 1, 0, 2]
    assert [members.tolist() for members in members_of(label)] == [[0, 2], [1], [3]]
    assert members_of(np.zeros(0, np.int32)) == []
