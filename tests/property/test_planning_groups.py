"""Grouping against exhaustive search and plain Python on small problems."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.oracles.planning_graphs import graphs, links_of, pruned_cost
from tests.oracles.planning_groups import alike, matching, merges_of, partitions, problems, replayed

from covey.planning.groups.baselines import opt, single, unicast
from covey.planning.groups.costing import Costing, path_tree
from covey.planning.groups.insert import growths, insert
from covey.planning.groups.kernels import nearest_rows
from covey.planning.groups.likeness import MEASURES, classes_of, dendrogram, joined
from covey.planning.groups.model import Problem, members_of
from covey.planning.groups.mult import held_out, mult, parted
from covey.planning.groups.mult2 import mult2
from covey.planning.groups.regions import replayed as one_copy_each
from covey.planning.groups.regions import roots_of
from covey.planning.groups.registry import METHODS
from covey.planning.groups.semcast import CHANGES, semcast
from covey.planning.paths import AllPaths
from covey.planning.steiner import exact_cost
from covey.planning.subscriptions import Matches, transposed

few = settings(max_examples=40, deadline=None)
fewer = settings(max_examples=15, deadline=None)  # where every method runs
sets_of_documents = st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=9)


def rows_of(sets: list[set[int]]) -> Matches:
    """Subscriptions that match these documents."""
    rows = [(0, [s for s, mine in enumerate(sets) if document in mine]) for document in range(12)]
    return Matches.of(np.zeros(len(sets), np.int32), rows)


@few
@given(sets_of_documents, st.sampled_from(list(MEASURES)))
def test_exact_merges_are_those_of_plain_python(sets: list[set[int]], measure: str) -> None:
    distinct = [set(mine) for mine in dict.fromkeys(frozenset(mine) for mine in sets)]
    found = dendrogram(rows_of(sets), measure=measure)
    expected = merges_of(distinct, measure)
    assert [(int(a), int(b)) for a, b in found.merges] == [(a, b) for a, b, _ in expected]
    assert found.heights.tolist() == pytest.approx([height for _, _, height in expected])
    assert found.count == len(distinct)


@few
@given(sets_of_documents, st.sampled_from(list(MEASURES)), st.integers(1, 4))
def test_nearest_rows_are_the_most_alike(sets: list[set[int]], measure: str, width: int) -> None:
    matches = rows_of(sets)
    offsets, documents = matches.by_subscription
    row_offsets, rows = transposed(offsets, documents, 12)
    neighbours = np.empty((len(sets), width), np.int32)
    near = np.empty((len(sets), width))
    nearest_rows(offsets, documents, row_offsets, rows, 100, MEASURES[measure], neighbours, near)
    for row, mine in enumerate(sets):
        likes = [(alike(mine, other, measure), at) for at, other in enumerate(sets) if at != row]
        best = sorted((one for one in likes if one[0] > 0), key=lambda one: (-one[0], one[1]))[:width]
        assert neighbours[row].tolist() == [at for _, at in best] + [-1] * (width - len(best))
        assert near[row][: len(best)].tolist() == pytest.approx([like for like, _ in best])


@few
@given(sets_of_documents, st.sampled_from(list(MEASURES)), st.integers(0, 3))
def test_rough_merges_join_what_shares_documents(sets: list[set[int]], measure: str, seed: int) -> None:
    # With little work allowed for the exact way, estimates decide; they may differ in order, not in kind.
    found = dendrogram(rows_of(sets), measure=measure, seed=seed, exact_words=4)
    again = dendrogram(rows_of(sets), measure=measure, seed=seed, exact_words=4)
    assert found.merges.tobytes() == again.merges.tobytes()
    assert (found.merges[:, 0] < found.merges[:, 1]).all()
    assert len(set(found.merges[:, 1].tolist())) == len(found.merges)
    united: dict[int, set[int]] = {name: set() for name in range(found.count)}
    for label, mine in zip(found.classes, sets, strict=True):
        united[int(label)] |= mine
    for (kept, gone), height in zip(found.merges.tolist(), found.heights, strict=True):
        assert height > 0
        assert united[kept] & united[gone], "only what has a document in common is merged"
        united[kept] |= united.pop(gone)


@fewer
@given(problems())
def test_costs_copies_and_deliveries_are_what_is_cut_out_of_the_trees(problem: Problem) -> None:
    for name in ("single", "spt", "unicast", "mult", "mult2", "hybrid"):
        found = METHODS[name](problem)
        assert found.group is not None
        assert len(found.trees) == len(set(found.group.tolist()))
        for matches, traffic in ((problem.sample, found.sample), (problem.held_out, found.held_out)):
            if matches is None:
                assert traffic is None
                continue
            assert traffic is not None
            cost, copies, deliveries = replayed(matches, found)
            assert traffic.cost == pytest.approx(cost)
            assert (traffic.copies, traffic.deliveries) == pytest.approx((copies, deliveries))
            assert traffic.duplicates >= 0
            assert traffic.documents == matches.document_count


@fewer
@given(problems())
def test_no_method_costs_less_than_exact_steiner_trees(problem: Problem) -> None:
    documents = problem.sample.documents
    least = sum(
        float(documents.weights[j])
        * exact_cost(problem.graph, [int(documents.publishers[j]), *documents.hosts_of(j).tolist()])
        for j in range(len(documents))
    )
    assert least <= opt(problem).sample.cost + 1e-6 <= 2 * least + 1e-3
    for name, method in METHODS.items():
        found = method(problem)
        if found.sample.documents == len(documents):  # some hold a part of the sample out
            assert found.sample.cost >= least - 1e-6, name


@few
@given(problems(least=1))
def test_one_group_of_mult_is_the_single_tree_and_most_groups_are_its_classes(problem: Problem) -> None:
    one = mult(problem, groups=1)
    assert one.sample == single(problem).sample
    assert one.trees[0].links.tobytes() == single(problem).trees[0].links.tobytes()
    most = mult(problem, groups=100)
    _, count = classes_of(problem.sample)
    assert len(most.trees) == max(1, count)


@few
@given(problems(least=1))
def test_as_many_groups_as_hosts_are_unicast(problem: Problem) -> None:
    found = unicast(problem)
    documents = problem.sample.documents
    far = problem.paths.distance.astype(float)
    expected = sum(
        float(documents.weights[j]) * far[documents.publishers[j], documents.hosts_of(j)].sum()
        for j in range(len(documents))
    )
    assert found.sample.cost == pytest.approx(expected, rel=1e-5)
    assert found.sample.duplicates == 0


@few
@given(problems(least=1, subscriptions=5))
def test_mult2_lies_between_the_best_partition_and_where_it_began(problem: Problem) -> None:
    costing = Costing(problem)
    found = mult2(problem)
    assert found.group is not None
    classes, count = classes_of(problem.sample)
    assume(count > 0)
    cost = sum(costing.worth(members).sample for members in members_of(found.group))
    start = [np.flatnonzero(classes == label).astype(np.int32) for label in range(count)]
    assert cost <= sum(costing.worth(members).sample for members in start) + 1e-6
    ways = partitions(list(range(count)))
    least = min(
        sum(costing.worth(np.sort(np.concatenate([start[c] for c in part]))).sample for part in way)
        for way in ways
    )
    assert cost >= least - 1e-6
    for one, two in ((a, b) for a in range(len(found.trees)) for b in range(a)):
        mine, others = found.members(one), found.members(two)
        documents = set(problem.sample.numbered_documents_of(mine)[0].tolist())
        if documents & set(problem.sample.numbered_documents_of(others)[0].tolist()):
            apart = costing.worth(mine).sample + costing.worth(others).sample
            both = costing.worth(np.sort(np.concatenate([mine, others]))).sample
            assert both >= apart * (1 - 1e-6), "a merge would still save something"


@few
@given(problems())
def test_choices_on_held_out_documents_are_never_worse_than_one_tree_on_them(problem: Problem) -> None:
    alone = single(parted(problem)).held_out
    assert alone is not None
    for name in ("held-out", "regions", "regions-cheapest"):
        found = METHODS[name](problem).held_out
        assert found is not None
        assert found.cost <= alone.cost + 1e-9, name


@fewer
@given(problems())
def test_every_method_gives_the_same_bytes_again(problem: Problem) -> None:
    for name, method in METHODS.items():
        one, two = method(problem), method(problem)
        assert (one.group is None) == (two.group is None), name
        assert one.group is None or (two.group is not None and one.group.tobytes() == two.group.tobytes())
        assert [t.links.tobytes() for t in one.trees] == [t.links.tobytes() for t in two.trees], name
        assert (one.sample, one.held_out, one.curve) == (two.sample, two.held_out, two.curve), name


@few
@given(problems(least=1), st.data())
def test_a_new_subscription_joins_the_group_that_grows_least(problem: Problem, data: st.DataObject) -> None:
    grouping = mult(problem)
    host = data.draw(st.integers(0, problem.graph.nodes - 1))
    count = problem.sample.document_count
    documents = data.draw(st.sets(st.integers(0, count - 1))) if count else set()
    growth = growths(problem, grouping, host, sorted(documents))
    assert grouping.group is not None
    for group, tree in enumerate(grouping.trees):
        links = links_of(problem.graph, tree.links.tolist())
        expected = 0.0
        for document in documents:
            wanting = [s for s in matching(problem.sample, document) if grouping.group[s] == group]
            hosts = {int(problem.sample.hosts[s]) for s in wanting}
            publisher, weight = int(problem.sample.publishers[document]), problem.sample.weights[document]
            before = pruned_cost(links, hosts | {publisher}) if hosts else 0.0
            expected += float(weight) * (pruned_cost(links, hosts | {publisher, host}) - before)
        assert growth[group] == pytest.approx(expected, abs=1e-9)
    chosen = insert(problem, grouping, host, sorted(documents))
    assert growth[chosen] <= growth.min() + 1e-6


@few
@given(problems(), st.sampled_from(list(CHANGES)))
def test_channels_filter_to_their_gain_and_leave_nobody_out(problem: Problem, changes: str) -> None:
    plain = semcast(problem, changes=changes)
    filtered = semcast(problem, changes=changes, filtering=True)
    assert filtered.sample.cost <= plain.sample.cost + 1e-6
    for traffic in (filtered.sample, filtered.held_out, plain.sample, plain.held_out):
        assert traffic is None or traffic.duplicates >= -1e-9, "each wanted delivery is made at least once"
    if changes == "merge" and plain.group is not None:
        assert len(plain.trees) == len(set(plain.group.tolist()))


@fewer
@given(graphs(most=7), st.data())
def test_weights_of_documents_multiply_all_costs(graph, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    node = st.integers(0, graph.nodes - 1)
    hosts = data.draw(st.lists(node, min_size=1, max_size=4))
    rows = data.draw(st.lists(st.tuples(node, st.sets(st.integers(0, len(hosts) - 1))), max_size=5))
    paths = AllPaths(graph)
    for name in ("single", "mult", "mult2", "semcast merge+split"):
        once, more = (
            METHODS[name](Problem(graph, paths, Matches.of(hosts, rows, np.full(len(rows), weight))))
            for weight in (1.0, 4.0)
        )
        assert more.sample.cost == pytest.approx(4 * once.sample.cost), name
        assert math.isclose(more.sample.copies, 4 * once.sample.copies), name


def test_joined_follows_chains_of_merges() -> None:
    assert joined(5, np.array([[3, 4], [1, 3], [0, 1]], np.int32)).tolist() == [0, 0, 2, 0, 0]


@few
@given(problems(least=1))
def test_held_out_reports_costs_of_documents_it_was_not_fitted_to(problem: Problem) -> None:
    found, parts = held_out(problem), parted(problem)
    assert found.group is not None
    assert found.held_out is not None
    assert parts.held_out is not None
    assert found.held_out.cost == pytest.approx(replayed(parts.held_out, found)[0])
    assert found.sample.cost == pytest.approx(replayed(parts.sample, found)[0])


@fewer
@given(problems(least=1))
def test_regions_cost_what_is_cut_out_of_the_tree_whose_root_is_nearest(problem: Problem) -> None:
    roots = roots_of(problem.paths, problem.sample.hosts, 3)
    trees = tuple(path_tree(problem.graph, int(root)) for root in roots)
    found, documents = replace(single(problem), trees=trees, one_copy="nearest"), problem.sample.documents
    carried = one_copy_each(problem, found, problem.sample)
    far = problem.paths.distance.astype(float)
    least = most = 0.0
    for number in range(len(documents)):
        hosts, weight = documents.hosts_of(number).tolist(), float(documents.weights[number])
        if hosts:
            sums = [far[tree.root, hosts].sum() for tree in found.trees]
            nearest = [tree for tree, far_ in zip(found.trees, sums, strict=True) if far_ <= min(sums) + 1e-4]
            terminals = {int(documents.publishers[number]), *hosts}
            costs = [pruned_cost(links_of(tree.graph, tree.links.tolist()), terminals) for tree in nearest]
            least, most = least + weight * min(costs), most + weight * max(costs)
    assert least - 1e-6 <= carried.cost <= most + 1e-6
    assert carried.duplicates == 0
