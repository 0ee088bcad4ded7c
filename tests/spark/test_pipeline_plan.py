"""From subscriptions and events to a plan, stage by stage on twenty rows, against plain Python or planning itself."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from tests.oracles.planning_graphs import links_of, pruned_cost
from tests.spark.toy import BROKERS, LINKS, SUBSCRIPTIONS, event_rows, part_of

import covey
from covey import pipeline
from covey.errors import ConfigError, PlanError
from covey.pipeline.plan import choose
from covey.planning.graph import Graph
from covey.planning.groups.model import Grouping, Problem
from covey.planning.groups.registry import METHODS
from covey.planning.objective import Objective
from covey.planning.paths import AllPaths
from covey.planning.plan import Plan, PlannedTree
from covey.planning.steiner import best_steiner_costs
from covey.planning.subscriptions import Matches
from covey.planning.words import words_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = event_rows(24)
SEED = 5
HELD_OUT, FRESH = 0.3, 0.2
METHODS_TRIED = ["single", "unicast", "regions", "mult2", "regions-cheapest", "spt", "flooding"]
NAMES = BROKERS


class Stages(NamedTuple):
    interests: DataFrame
    documents: DataFrame
    groups: DataFrame
    trees: DataFrame
    costs: DataFrame
    topology: DataFrame


@pytest.fixture(scope="module")
def stages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """Every stage's table, computed once and written, as jobs do: what reads it knows nothing of how it was made."""
    directory = tmp_path_factory.mktemp("stages")

    def written(name: str, frame: DataFrame) -> DataFrame:
        frame.write.parquet(str(directory / name))
        return spark.read.schema(frame.schema).parquet(str(directory / name))

    subscriptions = spark.createDataFrame(
        SUBSCRIPTIONS, "subscription string, broker string, language string, filter string"
    )
    events = spark.createDataFrame(EVENTS, "event string, broker string, language string, content string")
    links = spark.createDataFrame(LINKS, "a string, b string, cost double")
    topology = written("topology", links.repartition(3))
    checked = pipeline.ingest(events, table="events").repartition(4)
    interests = written("interests", pipeline.interests(subscriptions.repartition(3)))
    documents = written(
        "documents", pipeline.documents(checked, interests, seed=SEED, held_out=HELD_OUT, fresh=FRESH)
    )
    groups = written(
        "groups", pipeline.groups(documents, interests, topology, methods=METHODS_TRIED, seed=SEED)
    )
    trees = written("trees", pipeline.trees(groups, documents, interests, topology))
    costs = written("costs", pipeline.costs(documents, groups, trees, interests, topology))
    return Stages(interests, documents, groups, trees, costs, topology)


# -- plain Python ----------------------------------------------------------------------------------------------

FILTERS = {
    (broker, covey.parse(text, language).encode()): covey.parse(text, language)
    for _, broker, language, text in SUBSCRIPTIONS
}
INTERESTS = sorted(FILTERS)
HOSTS = np.array([NAMES.index(broker) for broker, _ in INTERESTS], np.int32)


def documents_by_hand() -> dict[str, tuple[str, str, list[int]]]:
    """Each event with its broker, its part and the interests that it matches."""
    found = {}
    for name, broker, _, content in EVENTS:
        words = frozenset(json.loads(content))
        matching = [place for place, key in enumerate(INTERESTS) if FILTERS[key].matches(words)]
        found[name] = broker, part_of(name, HELD_OUT, FRESH, SEED), matching
    return found


DOCUMENTS = documents_by_hand()


def graph_by_hand() -> Graph:
    costs: dict[tuple[int, int], float] = {}
    for a, b, cost in LINKS:
        low, high = sorted((NAMES.index(a), NAMES.index(b)))
        price = 1.0 if cost is None else cost
        costs[low, high] = min(price, costs.get((low, high), price))
    ends = sorted(costs)
    return Graph(12, ends, [costs[link] for link in ends])


def problem_by_hand(fresh: bool = False) -> Problem:
    def part(name: str) -> Matches:
        rows = [DOCUMENTS[event] for event in sorted(DOCUMENTS) if DOCUMENTS[event][1] == name]
        return Matches.of(HOSTS, [(NAMES.index(broker), matching) for broker, _, matching in rows])

    graph = graph_by_hand()
    words = [words_of(FILTERS[key]) for key in INTERESTS]
    held_out = part("fresh" if fresh else "held-out")
    return Problem(graph, AllPaths(graph), part("training"), held_out, words, SEED)


@pytest.fixture(scope="module")
def grouped() -> dict[str, Grouping]:
    problem = problem_by_hand()
    return {name: METHODS[name](problem) for name in METHODS_TRIED}


# -- the stages ------------------------------------------------------------------------------------------------


def test_interests_are_the_distinct_filters_of_brokers(stages: Stages) -> None:
    rows = sorted(stages.interests.collect())
    assert [(row.broker, bytes(row.encoded)) for row in rows] == INTERESTS
    assert [row.interest for row in rows] == list(range(len(INTERESTS)))
    counts = Counter(
        (broker, covey.parse(text, language).encode()) for _, broker, language, text in SUBSCRIPTIONS
    )
    assert [row.subscriptions for row in rows] == [counts[key] for key in INTERESTS]
    assert len(INTERESTS) < len(SUBSCRIPTIONS)


def test_documents_are_events_with_the_interests_that_they_match(stages: Stages) -> None:
    found = {row.event: (row.broker, row.part, row.interests) for row in stages.documents.collect()}
    assert found == DOCUMENTS
    assert {part for _, part, _ in found.values()} == {"training", "held-out", "fresh"}
    assert any(not matching for _, _, matching in found.values()), "one that nobody wants is there too"


@pytest.mark.parametrize(("least", "most"), [(0.0, 100), (0.5, 6)])
def test_similarity_counts_common_events(stages: Stages, least: float, most: int) -> None:
    sets: dict[int, set[str]] = {}
    for event, (_, _, matching) in DOCUMENTS.items():
        for interest in matching if len(matching) <= most else []:
            sets.setdefault(interest, set()).add(event)
    expected = {
        (a, b): (len(sets[a] & sets[b]), len(sets[a] & sets[b]) / len(sets[a] | sets[b]))
        for a, b in combinations(sorted(sets), 2)
        if sets[a] & sets[b] and len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= least
    }
    rows = pipeline.similarity(stages.documents, least=least, most=most).collect()
    assert {(row.a, row.b): (row.common, row.jaccard) for row in rows} == expected
    assert len(rows) == len(expected) > 5


def test_groups_are_those_of_planning(stages: Stages, grouped: dict[str, Grouping]) -> None:
    rows = stages.groups.collect()
    assert {row.alternative for row in rows} == set(METHODS_TRIED)
    for name, grouping in grouped.items():
        assert grouping.group is not None
        mine = {row.interest: row for row in rows if row.alternative == name and row.interest is not None}
        assert [mine[place].group for place in range(len(INTERESTS))] == grouping.group.tolist()
        assert {row.group for row in rows if row.alternative == name} == set(range(len(grouping.trees)))
        rule = "flooding" if name == "flooding" else grouping.one_copy or "groups"
        assert {row.rule for row in mine.values()} == {rule}
        given = {row.group: tree_in(row) for row in rows if row.alternative == name and row.root}
        assert given == {
            number: (NAMES[tree.root], tree.links.tolist())
            for number, tree in enumerate(grouping.trees if name != "unicast" else ())
        }
        curve = [
            {
                "groups": point.groups,
                "sample": point.sample,
                "held_out": point.held_out,
                "entries": point.entries,
                "copies": point.copies / point.documents,
                "trials": point.trials / point.documents,
                "documents": point.documents,
                "others": point.others,
            }
            for point in grouping.curve
        ]
        told = [row.curve for row in rows if row.alternative == name and row.curve is not None]
        assert [json.loads(points) for points in told] == ([curve] if curve else [])
    assert len(grouped["mult2"].trees) > 1, "there is something to group"
    assert grouped["regions"].one_copy == "nearest"
    assert grouped["regions"].curve
    assert grouped["regions-cheapest"].one_copy == "cheapest"
    assert len(grouped["regions-cheapest"].trees) > 1, "there is something to choose from"


def tree_in(row: Any) -> tuple[str, list[int]]:
    """The root and the links of a row, bit by bit."""
    bits = [byte >> place & 1 for byte in row.links for place in range(8)]
    return row.root, [link for link, bit in enumerate(bits) if bit]


def test_trees_are_those_of_planning(stages: Stages, grouped: dict[str, Grouping]) -> None:
    found = {(row.alternative, row.group): tree_in(row) for row in stages.trees.collect()}
    expected = {
        (name, number): (NAMES[tree.root], sorted(tree.links.tolist()))
        for name, grouping in grouped.items()
        for number, tree in enumerate(grouping.trees)
    }
    assert found == expected


def cost_by_hand(grouping: Grouping, name: str, broker: str, matching: list[int]) -> tuple[float, int, int]:
    """What one document costs, its copies and deliveries, with trees cut by hand."""
    assert grouping.group is not None
    hosts = {int(HOSTS[interest]) for interest in matching}
    trees = [links_of(tree.graph, tree.links.tolist()) for tree in grouping.trees]
    roots = [tree.root for tree in grouping.trees]
    publisher = NAMES.index(broker)
    if not hosts:
        return 0.0, 0, 0
    if name == "flooding":
        return sum(cost for _, _, cost in trees[0]), 1, len(hosts)
    if grouping.one_copy == "cheapest":
        return min(pruned_cost(links, hosts | {publisher}) for links in trees), 1, len(hosts)
    if grouping.one_copy:
        far = [
            {host: pruned_cost(links, {host, root}) for host in hosts}
            for links, root in zip(trees, roots, strict=True)
        ]
        sums = [round(sum(mine.values()), 9) for mine in far]
        return pruned_cost(trees[sums.index(min(sums))], hosts | {publisher}), 1, len(hosts)
    groups = {int(grouping.group[interest]) for interest in matching}
    mine = {k: {int(HOSTS[i]) for i in matching if grouping.group[i] == k} for k in groups}
    cost = sum(pruned_cost(trees[k], mine[k] | {publisher}) for k in groups)
    return cost, len(groups), sum(map(len, mine.values()))


def test_costs_are_those_of_trees_cut_by_hand(stages: Stages, grouped: dict[str, Grouping]) -> None:
    rows = {(row.alternative, row.part): row for row in stages.costs.collect()}
    assert {name for name, _ in rows} == {*METHODS_TRIED, "opt"}
    for name, grouping in grouped.items():
        for part in ("training", "held-out", "fresh"):
            mine = [(broker, matching) for broker, where, matching in DOCUMENTS.values() if where == part]
            found = [cost_by_hand(grouping, name, *document) for document in mine]
            row = rows[name, part]
            assert row.cost == pytest.approx(sum(cost for cost, _, _ in found), rel=1e-9)
            assert row.copies == sum(copies for _, copies, _ in found)
            assert row.deliveries == sum(deliveries for _, _, deliveries in found)
            assert row.documents == len(mine)
            assert row.wanted == sum(len({int(HOSTS[i]) for i in matching}) for _, matching in mine)
            filtered = rows["spt", part].cost if name == "flooding" else row.cost
            assert row.wasted == pytest.approx(row.cost - filtered, abs=1e-9)
    for fresh, parts in ((False, ("training", "held-out")), (True, ("training", "fresh"))):
        problem = problem_by_hand(fresh)
        opt = METHODS["opt"](problem)
        assert opt.held_out is not None
        assert problem.held_out is not None
        both = ((opt.sample, problem.sample), (opt.held_out, problem.held_out))
        for part, (traffic, matches) in zip(parts, both, strict=True):
            documents = matches.documents
            better = float(best_steiner_costs(problem.paths, documents).sum())  # nodes are inserted
            assert rows["opt", part].cost == pytest.approx(better, rel=1e-9)
            assert better <= traffic.cost * (1 + 1e-9)
            assert rows["opt", part].copies == traffic.copies


def test_the_partitions_change_no_bit_of_the_sums(stages: Stages) -> None:
    others = stages.documents.orderBy("interests").repartition(5)
    again = pipeline.costs(others, stages.groups, stages.trees, stages.interests, stages.topology.coalesce(1))
    assert sorted(again.collect()) == sorted(stages.costs.collect())


def entries_by_hand(grouping: Grouping) -> int:
    """Count (tree, broker, link, filter) with somebody who asks for it beyond the link."""
    assert grouping.group is not None
    if grouping.one_copy:
        return 11 * len(INTERESTS)
    found = set()
    for number, tree in enumerate(grouping.trees):
        links = [(a, b) for a, b, _ in links_of(tree.graph, tree.links.tolist())]
        for a, b in links:
            for here, there in ((a, b), (b, a)):
                beyond, before = {there}, 0
                while len(beyond) > before:
                    before = len(beyond)
                    beyond |= {y for x, y in links if x in beyond and y != here}
                    beyond |= {x for x, y in links if y in beyond and x != here}
                for interest, (_, encoded) in enumerate(INTERESTS):
                    if grouping.group[interest] == number and int(HOSTS[interest]) in beyond:
                        found.add((number, here, there, encoded))
    return len(found)


@pytest.mark.parametrize("method", ["best", "mult2", "regions-cheapest"])
def test_the_plan_says_what_the_tables_say(stages: Stages, grouped: dict[str, Grouping], method: str) -> None:
    frames = (stages.groups, stages.trees, stages.costs, stages.interests, stages.topology)
    candidates = ["single", "mult2", "regions"]
    (row,) = pipeline.plan(*frames, method=method, candidates=candidates, seed=SEED, basis={"x": 1}).collect()
    made = Plan.decode(bytes(row.plan))
    rows = {(row.alternative, row.part): row for row in stages.costs.collect()}
    costs = {key: row.cost for key, row in rows.items()}
    if method == "best":
        price = {key: price_by_hand(row) for key, row in rows.items() if key[0] in candidates}
        least = min(candidates, key=lambda name: price[name, "held-out"])
        assert made.method == (least if price[least, "fresh"] <= price["single", "fresh"] else "single")
        assert made.basis["reason"].startswith(f"{least} has the least price on held-out events")
        tried = {(offer["name"], offer["trees"]): offer for offer in made.basis["offers"]}
        for name in candidates:
            mine = tried[name, rows[name, "held-out"].trees]
            assert mine["price"] == pytest.approx(price[name, "held-out"])
            assert mine["entries"] == rows[name, "held-out"].entries
        for offer in tried.values():
            beaten = any(
                other["cost"] <= offer["cost"] and other["entries"] <= offer["entries"]
                for other in tried.values()
                if (other["cost"], other["entries"]) != (offer["cost"], offer["entries"])
            )
            assert offer["front"] <= (not beaten)
    else:
        assert made.method == method
    grouping = grouped[made.method]
    assert grouping.group is not None
    assert row.method == made.method
    assert (made.seed, made.basis["x"], made.basis["asked"]) == (SEED, 1, method)
    assert made.one_copy == grouping.one_copy
    assert len(made.basis.get("curve", ())) == len(grouping.curve)
    assert made.brokers == tuple(NAMES)
    assert made.links == tuple((NAMES[a], NAMES[b], cost) for a, b, cost in links_of(graph_by_hand()))
    assert made.groups == dict(zip(INTERESTS, grouping.group.tolist(), strict=True))
    assert [(tree.root, set(tree.links)) for tree in made.trees] == [
        (NAMES[tree.root], {(NAMES[a], NAMES[b]) for a, b, _ in links_of(tree.graph, tree.links.tolist())})
        for tree in grouping.trees
    ]
    for broker in {host for host, _ in INTERESTS}:
        mine = Counter(grouping.group[k] for k, (host, _) in enumerate(INTERESTS) if host == broker)
        assert mine[made.home[broker]] == max(mine.values())
    for name, numbers in made.predictions.items():
        parts = {part: costs[name, part] for part in ("training", "held-out", "fresh")}
        assert numbers["cost"] == pytest.approx(sum(parts.values()))
        assert [numbers["cost_training"], numbers["cost_held_out"], numbers["cost_fresh"]] == [
            *parts.values()
        ]
        if name in grouped:
            assert numbers["trees"] == len(grouped[name].trees)
        if name in grouped and name != "flooding":
            assert numbers["table_entries"] == entries_by_hand(grouped[name])


def price_by_hand(row: Any) -> float:
    """What an event costs by the usual prices, from a row of the table `costs`."""
    copies = row.copies / row.documents
    per_period = (
        row.entries * (2 + (row.alternative != "single"))
        + 4 * row.bytes / 1024
        + 10 * row.trees * len(BROKERS)
    )
    return float(row.cost / row.documents + 0.5 * copies + 0.05 * copies * row.tried + per_period / 1e6)


def test_a_plan_by_groups_takes_witnesses_along(
    spark: SparkSession, stages: Stages, grouped: dict[str, Grouping]
) -> None:
    events = spark.createDataFrame(EVENTS, "event string, broker string, language string, content string")
    frames = (stages.groups, stages.trees, stages.costs, stages.interests, stages.topology)
    witnesses = pipeline.witnesses(stages.documents, events, seed=SEED)
    (row,) = pipeline.plan(*frames, method="mult2", witnesses=witnesses).collect()
    made, group = Plan.decode(bytes(row.plan)), grouped["mult2"].group
    assert group is not None
    by_hand = documents_by_hand()
    wanted = sorted(name for name, (_, _, matching) in by_hand.items() if matching)
    assert len(made.trees) > 1
    assert len(made.witnesses) == len(wanted)
    for name, witness in zip(wanted, made.witnesses, strict=True):
        broker, _, matching = by_hand[name]
        assert (witness.publisher, witness.language) == (broker, "keywords")
        assert witness.content == next(content for event, *_, content in EVENTS if event == name)
        assert {(tree, host) for tree, hosts in witness.wanted.items() for host in hosts} == {
            (int(group[interest]), INTERESTS[interest][0]) for interest in matching
        }
    (row,) = pipeline.plan(*frames, method="regions", witnesses=witnesses).collect()
    assert Plan.decode(bytes(row.plan)).witnesses == (), "every tree serves all: there is nothing to choose"


def test_a_known_plan_costs_what_it_cost_as_an_alternative(stages: Stages) -> None:
    frames = (stages.groups, stages.trees, stages.costs, stages.interests, stages.topology)
    plans = {}
    for method in ("mult2", "regions", "regions-cheapest", "single"):
        (row,) = pipeline.plan(*frames, method=method).collect()
        plans[f"known {method}"] = bytes(row.plan)
    elsewhere = Plan("single", 1, ("x", "y"), (("x", "y", 1.0),), (PlannedTree("x", (("x", "y"),)),))
    known = pipeline.known(
        stages.interests, stages.topology, plans={**plans, "elsewhere": elsewhere.encode()}
    ).persist()
    trees = pipeline.trees(known, stages.documents, stages.interests, stages.topology).persist()
    costs = pipeline.costs(stages.documents, known, trees, stages.interests, stages.topology)
    found = {(row.alternative, row.part): row.cost for row in costs.collect()}
    expected = {(row.alternative, row.part): row.cost for row in stages.costs.collect()}
    assert {name for name, _ in found} == {*plans, "opt"}
    for (name, part), cost in found.items():
        assert cost == expected[name.removeprefix("known "), part]


def test_the_best_is_never_worse_than_one_tree_on_fresh_events() -> None:
    def costs(**parts: tuple[float, float]) -> Any:
        return {
            name: {"held-out": {"cost": held_out}, "fresh": {"cost": fresh}}
            for name, (held_out, fresh) in parts.items()
        }

    known = costs(single=(10.0, 10.0), many=(8.0, 9.0), fitted=(7.0, 11.0), same=(8.0, 2.0))
    assert choose(known, ["single", "many", "same"], Objective(), 3)[0] == "many"
    best, reason = choose(known, ["single", "many", "fitted"], Objective(), 3)
    assert best == "single"
    assert (
        "fitted has the least price on held-out events, 7 an event, of single 10, many 8, fitted 7" in reason
    )
    assert "one tree has a lower price on fresh events, 10 against 11" in reason
    assert choose(known, ["many", "fitted"], Objective(), 3)[0] == "fitted"
    with pytest.raises(PlanError, match="nothing to choose"):
        choose(known, [], Objective(), 3)


def test_rows_at_unknown_brokers_are_set_aside(spark: SparkSession) -> None:
    rows = [("s1", "a", "keywords", "ant"), ("s2", "z", "keywords", "ant"), ("s3", "z", "keywords", "(")]
    raw = spark.createDataFrame(rows, "subscription string, broker string, language string, filter string")
    judged = pipeline.judge(raw, table="subscriptions", brokers=BROKERS)
    reasons = {row.subscription: row.reason for row in judged.collect()}
    assert reasons["s1"] is None
    assert reasons["s2"] == "the broker z is not in the topology"
    assert "not in the topology" not in reasons["s3"], "the first reason stays"


def test_parameters_are_checked(stages: Stages) -> None:
    with pytest.raises(PlanError, match="no grouping 'most'"):
        pipeline.groups(stages.documents, stages.interests, stages.topology, methods=["most"])
    with pytest.raises(ConfigError, match="least similarity"):
        pipeline.similarity(stages.documents, least=2)
    with pytest.raises(ConfigError, match="at least 2 interests"):
        pipeline.similarity(stages.documents, most=1)
    with pytest.raises(ConfigError, match="not parts of one whole"):
        pipeline.documents(stages.documents, stages.interests, held_out=0.7, fresh=0.7)


def test_stages_run_no_action(stages: Stages) -> None:
    """Reading the rows would fail, so whoever returns has not read them."""

    def unread(frame: DataFrame) -> DataFrame:
        return frame.where(F.raise_error("the rows are read").isNull())

    documents, interests, groups, trees, costs = map(unread, stages[1:2] + stages[:1] + stages[2:5])
    topology = unread(stages.topology)
    frames = [
        pipeline.groups(documents, interests, topology, methods=["single"]),
        pipeline.trees(groups, documents, interests, topology),
        pipeline.costs(documents, groups, trees, interests, topology),
        pipeline.plan(groups, trees, costs, interests, topology, method="single"),
        pipeline.similarity(documents),
    ]
    assert all(frame.columns for frame in frames)
    for frame in (documents, interests, groups, trees, costs, topology):
        with pytest.raises(Exception, match="the rows are read"):
            frame.collect()
