"""What is merged where on planned trees, and critical distances: on some twenty rows, against planning itself and the
strategy's own statistics."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from covey import pipeline
from covey.errors import ConfigError
from covey.planning.aggregation.many import merges
from covey.planning.aggregation.sample import Sample
from covey.strategies.incremental.statistics import FAR, Distances

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#   a ─ b ─ c ─ d,  and b ─ e: a tree; f closes a ring with d and e
NAMES = "abcdef"
LINKS = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"), ("d", "f"), ("e", "f")]
TREES = [
    ("d", [("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"), ("e", "f")]),
    ("e", [("a", "b"), ("b", "c"), ("b", "e"), ("d", "f"), ("e", "f")]),
]
HOSTS = "aaabbccddeef"
GROUP = [0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1]


def documents_by_hand() -> list[tuple[str, str, str, list[int]]]:
    generator = random.Random(4)
    rows = []
    for place in range(40):
        wanted = sorted(generator.sample(range(len(HOSTS)), generator.randrange(5)))
        if 0 in wanted or 1 in wanted:  # two at one broker that match the same
            wanted = sorted({0, 1, *wanted})
        part = generator.choice(["training", "training", "held-out", "fresh"])
        rows.append((f"e{place:02}", generator.choice("adff"), part, wanted))
    return rows


DOCUMENTS = documents_by_hand()


def on_tree(tree: int, rule: str, part: str) -> list[tuple[str, list[int]]]:
    """Each document of a part that a tree carries: where it is published, and the interests it goes to there."""
    found = []
    for _, broker, where, wanted in DOCUMENTS:
        mine = [one for one in wanted if GROUP[one] == tree] if rule == "groups" else wanted
        chosen = {"groups": tree, "nearest": nearest(wanted), "cheapest": cheapest(broker, wanted)}[rule]
        if where == part and mine and chosen == tree:
            found.append((broker, mine))
    return found


def nearest(wanted: list[int]) -> int:
    """The tree whose root has the fewest hops, along the tree, to all brokers that want the event."""
    sums = []
    for root, links in TREES:
        hops = {root: 0}
        for _ in NAMES:
            for a, b in (*links, *((b, a) for a, b in links)):
                if a in hops:
                    hops.setdefault(b, hops[a] + 1)
        sums.append(sum(hops[host] for host in {HOSTS[one] for one in wanted}))
    return sums.index(min(sums))


def cheapest(broker: str, wanted: list[int]) -> int:
    """The tree on which the event crosses the fewest links."""
    crossed = []
    for _, links in TREES:
        left = set(links)
        while True:  # cut off what nobody is at
            ends = [end for link in left for end in link]
            idle = {end for end in ends if ends.count(end) == 1} - {broker, *(HOSTS[one] for one in wanted)}
            if not idle:
                break
            left = {link for link in left if not idle & set(link)}
        crossed.append(len(left))
    return crossed.index(min(crossed))


def expected(tree: int, rule: str, share: float) -> set[tuple[Any, ...]]:
    """What planning says of one tree."""
    training, held_out = (on_tree(tree, rule, part) for part in ("training", "held-out"))
    if not training:
        return set()  # nothing is known of it
    members = sorted({one for _, wanted in training for one in wanted})
    published = [broker for broker, _ in training]
    entry = max(NAMES, key=lambda name: (published.count(name), -NAMES.index(name)))
    parents = [-1] * len(NAMES)
    reached = [entry]
    for name in reached:
        for a, b in (*TREES[tree][1], *((b, a) for a, b in TREES[tree][1])):
            if a == name and b not in reached:
                parents[NAMES.index(b)] = NAMES.index(name)
                reached.append(b)

    def sample(rows: list[tuple[str, list[int]]]) -> Sample:
        matrix = [[one in wanted for one in members] for _, wanted in rows]
        return Sample.of_matches(matrix, np.full(len(rows), 1 / len(rows)))

    access = [NAMES.index(HOSTS[one]) for one in members]
    found = merges(parents, access, sample(training), share, held_out=sample(held_out) if held_out else None)
    return {
        (
            tree,
            entry,
            NAMES[one.broker],
            NAMES[one.towards] if one.towards >= 0 else None,
            tuple(members[place] for place in one.members),
            one.gain,
            round(one.cost, 9),
            round(one.held_out_cost or 0.0, 9),
        )
        for one in found
    }


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, DataFrame]:
    groups = [
        (name, interest, group, None, name)
        for name in ("groups", "nearest", "cheapest")
        for interest, group in enumerate(GROUP)
    ]
    trees = [
        (name, group, root, bytes([sum(1 << sorted(LINKS).index(link) for link in links)]))
        for name in ("groups", "nearest", "cheapest")
        for group, (root, links) in enumerate(TREES)
    ]
    interests = [(number, host, b"", 1) for number, host in enumerate(HOSTS)]
    documents = "event string, broker string, part string, interests array<int>"
    return {
        "documents": spark.createDataFrame(DOCUMENTS, documents).repartition(3),
        "interests": spark.createDataFrame(
            interests, "interest int, broker string, encoded binary, subscriptions bigint"
        ),
        "groups": spark.createDataFrame(
            groups, "alternative string, interest int, `group` int, root string, rule string"
        ),
        "trees": spark.createDataFrame(trees, "alternative string, `group` int, root string, links binary"),
        "topology": spark.createDataFrame(LINKS, "a string, b string"),
    }


@pytest.mark.parametrize(("rule", "share"), [("groups", 0.5), ("nearest", 0.8), ("cheapest", 0.8)])
def test_merges_are_those_of_planning(tables: dict[str, DataFrame], rule: str, share: float) -> None:
    rows = pipeline.aggregation(*tables.values(), alternative=rule, share=share).collect()
    found = [
        (
            row.tree,
            row.entry,
            row.broker,
            row.towards,
            tuple(row.members),
            row.gain,
            round(row.cost, 9),
            round(row.held_out_cost, 9),
        )
        for row in rows
    ]
    assert set(found) == expected(0, rule, share) | expected(1, rule, share)
    assert len(found) == len(set(found)) >= 4
    assert {row.alternative for row in rows} == {rule}
    for tree in (0, 1):
        assert sorted(row.block for row in rows if row.tree == tree) == list(
            range(sum(row.tree == tree for row in rows))
        )
    assert any(set(row.members) >= {0, 1} and row.broker == "a" for row in rows), "they match the same"


def test_a_tree_that_carries_nothing_merges_nothing(tables: dict[str, DataFrame]) -> None:
    nothing = tables["documents"].where("part = 'fresh'")
    others = [frame for name, frame in tables.items() if name != "documents"]
    assert pipeline.aggregation(nothing, *others, alternative="groups").collect() == []


# -- critical distances ----------------------------------------------------------------------------------------

THRESHOLDS = [0.5, 0.55, 0.6, 0.9, 1.0]


def deliveries_by_hand() -> tuple[list[tuple[Any, ...]], dict[str, str]]:
    generator = random.Random(9)
    publishers = {f"e{place}": generator.choice("pq") for place in range(60)}
    rows = [
        (event, subscription, broker, generator.choice([0, 1, 1, 2, 3, 5, None]))
        for subscription, broker, share in (("s1", "a", 1.0), ("s2", "a", 0.7), ("s3", "b", 0.3))
        for event in publishers
        if generator.random() < share
    ]
    return rows, publishers


@pytest.mark.parametrize("known", [True, False], ids=["by publisher", "of all"])
def test_critical_distances_are_those_of_the_strategy(spark: SparkSession, known: bool) -> None:
    rows, publishers = deliveries_by_hand()
    counted: dict[tuple[str, str, str | None], Distances] = {}
    for event, subscription, broker, distance in rows:
        publisher = publishers[event] if known else None
        one = counted.setdefault((subscription, broker, publisher), Distances())
        one.add(FAR if distance is None else distance)
    deliveries = spark.createDataFrame(
        rows, "event string, subscription string, broker string, distance int"
    ).repartition(3)
    events = spark.createDataFrame(list(publishers.items()), "event string, publisher string")
    found = pipeline.critical(
        deliveries, events if known else None, thresholds=THRESHOLDS, minimum_samples=20
    ).collect()
    assert {(row.subscription, row.broker, row.publisher) for row in found} == counted.keys()
    for key, one in counted.items():
        mine = [row for row in found if (row.subscription, row.broker, row.publisher) == key]
        assert {row.total for row in mine} == {one.total} == {sum(row.events for row in mine)}
        assert [row.distance for row in mine].count(None) == 1
        reached = {
            threshold: FAR if row.distance is None else row.distance
            for row in mine
            for threshold in row.thresholds
        }
        enough = one.total >= 20
        assert reached == ({theta: one.critical(theta) for theta in THRESHOLDS} if enough else {})
        for row in mine:
            assert row.similarity == one.similarity(FAR if row.distance is None else row.distance)
    assert min(one.total for one in counted.values()) < 20 < max(one.total for one in counted.values())


def test_parameters_are_checked(tables: dict[str, DataFrame]) -> None:
    with pytest.raises(ConfigError, match="share of the gain is 2"):
        pipeline.aggregation(*tables.values(), alternative="groups", share=2)
    with pytest.raises(ConfigError, match="threshold is 0"):
        pipeline.critical(tables["documents"], thresholds=[0.0])
    with pytest.raises(ConfigError, match="at least one event"):
        pipeline.critical(tables["documents"], thresholds=[0.5], minimum_samples=0)
