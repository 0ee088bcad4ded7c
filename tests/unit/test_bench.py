"""The benchmarks run, and compare equal answers; what they measure is nobody's test."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

import covey
from covey.bench import (
    cover,
    keywords,
    match,
    network,
    network_ends,
    network_peers,
    planning,
    routing,
    routing_network,
    xpath,
)
from covey.bench.comparison import Comparison
from covey.bench.network_peers import Peer
from covey.bench.timing import exponent
from covey.matching.counting import CountingIndex
from covey.matching.keywords import KeywordIndex
from covey.matching.scan import ScanIndex
from covey.workloads.attributes import WORKLOADS, Workload


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
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
        (workload.name, size) for workload in WORKLOADS for size in (200, 400)
    ]
    assert all(row["equal"] and row["ours_us"] > 0 and row["bytes_per_filter"] > 0 for row in rows)
    assert len(said) == len(rows)


def test_cover_measures_every_workload() -> None:
    rows = cover.run((300,), lambda _: None)
    assert [row["workload"] for row in rows] == [workload.name for workload in WORKLOADS]
    assert all(row["equal"] and 0 < row["roots"] <= 300 for row in rows)


def test_the_same_seed_gives_the_same_workload() -> None:
    for workload in WORKLOADS:
        first, second = (workload.filters(np.random.default_rng(3), 50) for _ in range(2))
        assert first == second
        assert workload.events(np.random.default_rng(4), 9) == workload.events(np.random.default_rng(4), 9)


def test_the_exponent_of_growth() -> None:
    rows = [{"size": 10, "x": 2.0}, {"size": 1000, "x": 20.0}]
    assert exponent(rows, "x") == pytest.approx(0.5)
    assert exponent(rows[:1], "x") is None


def test_the_network_is_measured_without_losing_events() -> None:
    (row,) = network.run(
        lambda _: None,
        events=2_000,
        filters=50,
        hops=(2,),
        subscribers=(),
        peers=False,
        floor=False,
        half_load_s=0.2,
    )
    assert (row["system"], row["hops"], row["lost"]) == ("covey", 2, 0)
    assert row["events_s"] > 0
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]


def test_a_filter_of_others_matches_no_event_that_is_measured() -> None:
    others = [covey.parse(network_ends.other_filter(number)) for number in range(1_000)]
    assert len(set(others)) == 1_000
    assert not any(
        one.matches(network_ends.content_of(number)) for one in others for number in range(0, 100, 9)
    )


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


def test_matching_is_compared_with_scan_and_counting() -> None:
    found = match.compare(silent, sizes={"siena": (100, 200), "quotes": (100,)})
    assert checked(found) == {("filters", "scan"), ("filters", "counting index")}
    assert [one.size for one in found] == [100, 100, 200, 200, 100, 100]


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


def test_the_forwarder_carries_all_events_over_hops_and_to_many() -> None:
    rows = network.run(
        silent, events=2_000, filters=10, hops=(1, 3), subscribers=(3,), peers=False, half_load_s=0.1
    )
    assert [(row["system"], row["hops"], row["subscribers"], row["lost"]) for row in rows] == [
        (system, hops, subscribers, 0)
        for hops, subscribers in ((1, 1), (3, 1), (1, 3))
        for system in ("covey", "forwarder")
    ]
    assert all(row["server_us"] >= 0 for row in rows)
    found = [one for one in network.compared(rows, 10) if "alone" not in one.work]
    assert [(one.axis, one.size, one.baseline, one.equal) for one in found] == [
        ("hops", 1, "forwarder", True),
        ("hops", 3, "forwarder", True),
        ("subscribers", 1, "forwarder", True),
        ("subscribers", 3, "forwarder", True),
    ]
    assert found[0].ours == pytest.approx(1e6 / rows[0]["events_s"])


def test_what_we_lose_is_a_wrong_answer_and_what_peers_lose_is_said() -> None:
    def measured(system: str, lost: int) -> dict[str, object]:
        return {
            "system": system,
            "hops": 1,
            "subscribers": 2,
            "events_s": 1_000,
            "lost": lost,
            "server_us": 0.0,
        }

    (one,) = network.compared([measured("covey", 1), measured("forwarder", 0)], 10)
    assert one.equal is False
    (one,) = network.compared([measured("covey", 0), measured("forwarder", 1)], 10)
    assert one.equal is False
    (one,) = network.compared([measured("covey", 0), measured("mosquitto", 1_200)], 10)
    assert (one.ours, one.equal, one.note) == (None, None, "it lost 1,200 events")
    (one,) = network.compared([measured("covey", 0), measured("mosquitto", 0)], 10)
    assert (one.ours, one.ratio, one.equal) == (1_000.0, 1.0, True)


def test_the_servers_own_cpu_time_stands_beside_what_clients_see() -> None:
    def measured(system: str, server_us: float) -> dict[str, object]:
        row = {"system": system, "hops": 1, "subscribers": 1, "events_s": 100_000, "lost": 0}
        return row | {"server_us": server_us}

    seen, own = network.compared([measured("covey", 1.2), measured("nats", 0.6)], 10)
    assert "clients in Python" in seen.work
    assert ("servers alone" in own.work, own.ours, own.theirs, own.ratio) == (True, 1.2, 0.6, 0.5)
    (seen,) = network.compared([measured("covey", 1.2), measured("rabbitmq headers", nan)], 10)
    assert "clients in Python" in seen.work


def test_a_peer_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Peer("gone", "gone-server", "gone_client", network_peers.nats, network_peers.NatsEnd)
    monkeypatch.setattr(network, "PEERS", (gone,))
    monkeypatch.setattr(network, "run", lambda *_, **__: [])
    (one,) = network.compare(silent, events=1, filters=1, peers=("gone",))
    assert (one.work, one.note) == ("beside gone", "gone-server or its client gone_client is not installed")
