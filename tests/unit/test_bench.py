"""The benchmarks run, and compare equal answers; what they measure is nobody's test."""

from __future__ import annotations

import numpy as np
import pytest

from covey.bench import (
    cover,
    keywords,
    match,
    planning,
    routing,
    routing_network,
    xpath,
)
from covey.bench.comparison import Comparison
from covey.bench.timing import exponent
from covey.matching.counting import CountingIndex
from covey.matching.keywords import KeywordIndex
from covey.matching.scan import ScanIndex
from covey.workloads.attributes import POOR_WORKLOADS, WORKLOADS, Workload
from covey.workloads.conditions import CONDITION_WORKLOADS
from covey.workloads.trading import TYPED_WORKLOADS


@pytest.mark.parametrize(
    "workload",
    [*WORKLOADS, *POOR_WORKLOADS, *TYPED_WORKLOADS, *CONDITION_WORKLOADS],
    ids=lambda workload: workload.name,
)
def test_the_counting_index_agrees_with_the_scan(workload: Workload) -> None:
    filters = workload.filters(np.random.default_rng(1), 500)
    events = workload.events(np.random.default_rng(2), 30)
    scan = ScanIndex()
    for key, filter in enumerate(filters):
        scan.add(key, filter)
    counting = CountingIndex([filters[:200], filters[200:]])
    answers = counting.match_encoded(*counting.encode(events))
    assert [set(answer.tolist()) for answer in answers] == scan.match_batch(events)


def test_match_measures_every_workload() -> None:
    said: list[str] = []
    rows = match.run((200, 400), said.append)
    assert [(row["workload"], row["size"]) for row in rows] == [
        (workload.name, size) for workload in match.ALL_WORKLOADS for size in (200, 400)
    ]
    assert all(
        row["equal"] and row["ours_us"] > 0 and row["columnar_us"] > 0 and row["bytes_per_filter"] > 0
        for row in rows
    )
    assert len(said) == len(rows)


def test_cover_measures_every_workload() -> None:
    rows = cover.run((300,), lambda _: None)
    assert [row["workload"] for row in rows] == [workload.name for workload in WORKLOADS]
    assert all(row["equal"] and 0 < row["roots"] <= 300 for row in rows)


def test_the_same_seed_gives_the_same_workload() -> None:
    for workload in match.ALL_WORKLOADS:
        first, second = (workload.filters(np.random.default_rng(3), 50) for _ in range(2))
        assert first == second
        assert workload.events(np.random.default_rng(4), 9) == workload.events(np.random.default_rng(4), 9)


def test_the_exponent_of_growth() -> None:
    rows = [{"size": 10, "x": 2.0}, {"size": 1000, "x": 20.0}]
    assert exponent(rows, "x") == pytest.approx(0.5)
    assert exponent(rows[:1], "x") is None


# -- comparisons of all parts, at tiny sizes -----------------------------------------------------------------


def silent(_: str) -> None:
    pass


def checked(found: list[Comparison]) -> set[tuple[str, str]]:
    """Check that all has figures and equal answers; return axes with baselines."""
    assert found
    for one in found:
        assert one.ours is not None
        assert one.ours > 0
        assert one.equal is not False, one
    return {(one.axis, one.baseline) for one in found}


def test_matching_is_compared_with_scan_counting_and_columns() -> None:
    found = match.compare(silent, sizes={"siena": (100, 200), "quotes": (100,), "mixed": (100,)})
    baselines = ("scan", "counting index", "columns in NumPy")
    assert checked(found) == {("filters", baseline) for baseline in baselines}
    assert [one.size for one in found] == [100] * 3 + [200] * 3 + [100] * 3 + [100] * 2


def test_covering_is_compared_with_a_scan_over_roots() -> None:
    assert checked(cover.compare(silent, sizes=(200,))) == {("filters", "scan over the roots")}


def test_xpath_is_compared_with_a_scan() -> None:
    found = xpath.compare(silent, sizes=(100,), documents=3)
    assert checked(found) == {("patterns", "scan")}
    assert len({one.work for one in found}) == 2


def test_keywords_are_compared_with_a_scan() -> None:
    found = keywords.compare(silent, sizes=(300, 100))
    assert checked(found) == {("filters", "scan")}
    assert [one.size for one in found] == [100, 100, 300, 300]


def test_a_wrong_index_of_keywords_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = KeywordIndex.match
    monkeypatch.setattr(KeywordIndex, "match", lambda index, one: right(index, one)[:-1])
    found = keywords.compare(silent, sizes=(2_000,))
    assert [one.equal for one in found] == [False, True]


def test_routing_is_compared_with_scan_simple_and_flooding() -> None:
    found = routing.compare(
        silent, sizes=(300,), brokers=(5,), subscriptions=60, events=20, strategies=("covering", "identity")
    )
    assert checked(found) == {
        ("filters", "simple"),
        ("filters", "scan"),
        ("brokers", "simple"),
        ("brokers", "flooding"),
    }
    (decided,) = (one for one in found if one.baseline == "scan")
    assert decided.equal is True


def test_what_a_router_tells_differs_where_it_decides_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a strategy that leaves nothing out, the scan's decision is not what neighbours are told."""
    filled = routing.filled
    monkeypatch.setattr(routing, "filled", lambda strategy, table: filled("identity", table))
    found = routing.compare(
        silent, sizes=(300,), brokers=(), subscriptions=1, events=1, strategies=("covering",)
    )
    assert [one.equal for one in found if one.baseline == "scan"] == [False]


def test_related_filters_cover_and_are_covered() -> None:
    table = next(one for one in WORKLOADS if one.name == "siena-3").filters(np.random.default_rng(5), 20)
    found = routing.related(table)
    assert all(one.covers(narrow) and narrow != one for one, narrow in zip(table, found[::2], strict=True))
    assert all(wide.covers(one) and wide != one for one, wide in zip(table, found[1::2], strict=True))


def test_covering_needs_fewer_messages_than_simple_routing_and_flooding() -> None:
    found = {
        strategy: routing_network.simulated(strategy, 12, 150, 40)
        for strategy in ("covering", "simple", "flooding")
    }
    assert found["simple"].control_messages == 11
    assert found["covering"].control_messages < 11
    assert found["flooding"].control_messages == 0
    assert found["flooding"].event_messages == 11
    assert 0 < found["covering"].event_messages < 11
    assert found["covering"].delivered == found["simple"].delivered == found["flooding"].delivered
    assert found["covering"].delivered.total() > 0


def test_planning_is_compared_with_plain_python_and_one_tree() -> None:
    found = planning.compare(silent, brokers=(40,), documents=600, plan_brokers=(40,), plan_events=(100,))
    assert checked(found) == {
        ("brokers", "plain Python"),
        ("brokers", "building each tree"),
        ("brokers", ""),
        ("brokers", "one tree"),
        ("brokers", "a Steiner tree for each event"),
        ("events", "planning one tree"),
    }
