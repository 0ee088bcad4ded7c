"""Workloads whose filters are as published: quotes, populations, the covering burst, keywords."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.scripts import REBECA, by_phase, published, small, subscribed

from covey.core.attributes.filter import AttributeFilter
from covey.core.filter import Filter
from covey.core.xpath.document import Document
from covey.errors import ConfigError
from covey.sim import topology as topologies
from covey.sim.workload import Script, build
from covey.sim.workload.keywords import nearest_brokers
from covey.workloads.attributes import DOMAIN
from covey.workloads.covering import VALUES

# --- quotes ---


def test_consumers_have_distinct_quotes_and_are_spread_evenly() -> None:
    """Mühl et al., section 2: consumers are equally distributed, each has 10 random but distinct subscriptions."""
    script = build("quotes", REBECA, 1, consumers=4)
    arrivals = [action for action in script if action.op == "subscribe"]
    assert len(arrivals) == 22 * 4 * 10
    assert set(Counter(action.broker for action in arrivals).values()) == {40}
    wanted: dict[str, set[Filter]] = {}
    for action in arrivals:
        wanted.setdefault(action.client, set()).add(action.what)
    assert {len(filters) for filters in wanted.values()} == {10}
    assert [action.broker for action in script if action.op == "advertise"] == ["r1"]


def test_toggling_keeps_about_half_active_and_brings_back_the_same_filters() -> None:
    script = small("quotes", toggles=300, events=0, locality=None)
    counts = by_phase(script)
    everybody = 22 * 3
    assert counts["subscribe", "subscribe"] == everybody * 10
    assert counts["halve", "unsubscribe"] == everybody // 2 * 10
    assert counts["toggle", "subscribe"] + counts["toggle", "unsubscribe"] == 3_000
    assert abs(counts["toggle", "subscribe"] - counts["toggle", "unsubscribe"]) < 500
    filters: dict[str, set[Filter]] = {}
    for name, filter in subscribed(script).items():
        filters.setdefault(name.rpartition(".")[0], set()).add(filter)
    assert {len(same) for same in filters.values()} == {1}
    halved = small("quotes", toggles=300, active=0.5, locality=None)
    assert by_phase(halved)["subscribe", "subscribe"] == everybody // 2 * 10
    assert by_phase(halved)["halve", "unsubscribe"] == 0


@pytest.mark.parametrize(("locality", "shared"), [(1 / 3, 0), (2 / 3, 30), (1.0, 90)])
def test_locality_says_what_subnets_have_in_common(locality: float, shared: int) -> None:
    """Mühl et al., section 5: interests are disjoint for d = 1/3 and identical for d = 1."""
    script = build("quotes", REBECA, 1, consumers=60, symbols=90, locality=locality)
    wanted: list[set[Filter]] = [set(), set(), set()]
    subnets = [set(REBECA.role(f"subnet-{i}")) for i in (1, 2, 3)]
    for action in script:
        if action.op == "subscribe":
            (subnet,) = (i for i in range(3) if action.broker in subnets[i])
            wanted[subnet].add(action.what)
    assert [len(filters) for filters in wanted] == [round(locality * 90)] * 3
    assert len(wanted[0] & wanted[1]) == len(wanted[1] & wanted[2]) == shared
    assert len(wanted[0] | wanted[1] | wanted[2]) == 90


def test_intervals_lie_around_the_mean_price_and_skew_favours_the_first_symbols() -> None:
    script = small("quote-intervals", skew=1.0, consumers=20)
    filters = list(subscribed(script).values())
    middle = [
        f.matches({"symbol": str(f).partition("'")[2].partition("'")[0], "price": 50.0}) for f in filters
    ]
    assert all(middle)
    assert not any(f.matches({"symbol": "S000", "price": -0.1}) for f in filters)
    first = sum("'S000'" in str(f) for f in filters)
    last = sum("'S900'" in str(f) for f in filters)
    assert first > 20 * (last + 1)


# --- populations ---


def test_siena_3_has_no_broad_filter() -> None:
    def sizes(kind: str) -> set[int]:
        filters = subscribed(small(kind, subscriptions=300)).values()
        return {len(f.conjunctions[0].constraints) for f in filters if isinstance(f, AttributeFilter)}

    assert sizes("siena-3") == set(range(3, 11))
    assert sizes("siena") == set(range(1, 11))


def test_churn_replaces_one_subscription_at_a_time() -> None:
    counts = by_phase(small("siena"))
    assert counts["subscribe", "subscribe"] == 150
    assert counts["run", "subscribe"] == counts["run", "unsubscribe"] == 60
    assert counts["run", "publish"] == 80


def test_ranges_are_placed_as_asked() -> None:
    def share_below(placement: str) -> float:
        script = small("ranges", subscriptions=1_000, churn=0, placement=placement, locality=0.0)
        starts = [float(str(f).split()[2]) / DOMAIN for f in subscribed(script).values()]
        return sum(start < 0.15 for start in starts) / len(starts)

    assert 0.11 < share_below("uniform") < 0.19
    assert 0.59 < share_below("exponential") < 0.68
    script = small("ranges", subscriptions=400, churn=0, locality=1.0)
    hosts = topologies.star(5).role("edge")
    for action in script:
        if action.op == "subscribe":
            start = float(str(action.what).split()[2]) / DOMAIN
            assert int(start * 4) == hosts.index(action.broker)


def test_patterns_differ_unless_told_and_documents_can_be_parsed() -> None:
    script = small("xpath", subscriptions=300, churn=0, parsed=True)
    assert len(set(subscribed(script).values())) == 300
    assert all(isinstance(action.what, Document) for action in script if action.op == "publish")
    repeated = small("xpath", subscriptions=300, churn=0, unique=False, height=2)
    assert len(set(subscribed(repeated).values())) < 300
    with pytest.raises(ConfigError, match="different patterns"):
        list(small("xpath", height=1, wildcard=0.0))


# --- the covering burst ---


@pytest.fixture(scope="module")
def burst() -> Script:
    return build("covering-burst", topologies.core_edge(), 5, subscriptions=8_000)


def test_the_burst_has_the_published_numbers(burst: Script) -> None:
    """Chen et al., section V.A: roots leave one every 0.5 s while an event is published every 10 ms."""
    counts = by_phase(burst)
    assert counts["subscribe", "subscribe"] == 8_000
    assert counts["before", "publish"] == 20 * 300
    assert counts["unsubscribe", "unsubscribe"] == 20
    assert counts["unsubscribe", "publish"] == 20 * 50
    assert counts["after", "publish"] == 1_000
    leaving = [action.at_s for action in burst if action.op == "unsubscribe"]
    assert np.allclose(np.diff(leaving), 0.5)
    full = build("covering-burst", topologies.core_edge(), 5)
    assert full.parameters["subscriptions"] == 80_000
    assert "20 roots with 955 covered" in full.description


def test_each_root_covers_its_own_and_those_do_not_cover_each_other(burst: Script) -> None:
    filters = subscribed(burst)
    roots = [name for name in filters if name.startswith("root") and "." not in name]
    assert len(roots) == 20
    for root in roots:
        covered = [f for name, f in filters.items() if name.startswith(f"{root}.")]
        assert len(covered) == 96
        assert all(filters[root].covers(f) and not f.covers(filters[root]) for f in covered)
        assert not any(f.covers(g) for f in covered for g in covered if f is not g)
        matched = [any(f.matches({"topic": root, "value": v}) for f in covered) for v in range(0, VALUES, 50)]
        assert 0.91 <= sum(matched) / len(matched) <= 1.0
    assert not any(filters[a].overlaps(filters[b]) for a in roots for b in roots if a != b)


def test_all_others_are_covered_at_their_broker_by_broad_ones_that_stay(burst: Script) -> None:
    place = {action.name: action.broker for action in burst if action.op == "subscribe"}
    gone = {action.name for action in burst if action.op == "unsubscribe"}
    filters = subscribed(burst)
    broad = [name for name in filters if name.startswith("broad")]
    assert Counter(place[name] for name in broad) == dict.fromkeys(
        topologies.core_edge().role("subscribers"), 50
    )
    assert gone == {f"root{number}" for number in range(20)}
    others = [name for name in filters if name.startswith("other")]
    assert len(others) == 8_000 - 20 * 97 - 30 * 50
    topics = {str(filters[name]).split("'")[1]: name for name in broad}
    for name in others:
        coverer = topics[str(filters[name]).split("'")[1]]
        assert place[coverer] == place[name]
        assert filters[coverer].covers(filters[name])


def test_roots_come_anywhere_in_the_order_and_events_are_even(burst: Script) -> None:
    arrivals = [action.name for action in burst if action.op == "subscribe"]
    places = sorted(arrivals.index(f"root{number}") for number in range(20))
    assert places[0] < 2_000
    assert places[-1] > 6_000
    before = published(burst, "before")
    assert set(Counter(a.what["topic"] for a in before).values()) == {300}
    assert set(Counter((a.what["topic"], a.broker) for a in before).values()) == {100}
    tenths = Counter(a.what["value"] * 10 // VALUES for a in before)
    assert set(tenths) == set(range(10))
    # Chi-squared with 9 degrees of freedom stays below 27.9 in 999 of 1,000 cases.
    assert sum((count - 600) ** 2 / 600 for count in tenths.values()) < 27.9
    later = Counter(a.what["topic"] for a in published(burst, "unsubscribe") + published(burst, "after"))
    assert len(later) == 20
    assert sum((count - 100) ** 2 / 100 for count in later.values()) < 43.8


# --- keywords ---


def test_keywords_are_asked_for_in_a_neighbourhood() -> None:
    """Majumder et al., section VII: at most 10 brokers, of the nearest x% around a random one, ask for a keyword."""
    graph = topologies.transit_stub(500, 3, extra=0.5)
    script = build("keywords", graph, 1, keywords=40, nearest=0.02, events=0)
    hosts: dict[Filter, list[str]] = {}
    for action in script:
        if action.op == "subscribe":
            hosts.setdefault(action.what, []).append(action.broker)
    assert len(hosts) == 40
    assert {len(brokers) for brokers in hosts.values()} == {10}
    reach = [
        min(max(graph.distances(root)[b] for b in brokers) for root in brokers) for brokers in hosts.values()
    ]
    assert max(reach) <= 4


def test_nearest_brokers_are_no_farther_than_any_other() -> None:
    graph = topologies.transit_stub(80, 3)
    generator = np.random.default_rng(1)
    hops = graph.distances("t1.1")
    found = nearest_brokers(graph, "t1.1", 20, generator)
    assert len(set(found)) == 20
    assert max(hops[b] for b in found) <= min(hops[b] for b in graph.brokers if b not in found)
    assert len(nearest_brokers(graph, "t1.1", 200, generator)) == 80
    assert nearest_brokers(graph, "t1.1", 3, generator, among={"s5.1"}) == ["s5.1"]


def test_documents_have_words_that_somebody_asks_for() -> None:
    script = small("keywords", words=4, near=2)
    filters = list(subscribed(script).values())
    documents = [action.what for action in script if action.op == "publish"]
    assert {len(document) for document in documents} <= {1, 2, 3, 4}
    assert all(any(f.matches(document) for f in filters) for document in documents)


def test_a_broker_can_ask_for_all_its_keywords_at_once() -> None:
    apart = small("keywords", keywords=400, nearest=1.0)
    together = small("keywords", keywords=400, nearest=1.0, per="broker")
    words: dict[str, set[str]] = {}
    for script in (apart, together):
        asked: dict[str, set[str]] = {}
        for action in script:
            if action.op == "subscribe":
                asked.setdefault(action.broker, set()).update(str(action.what).split(" or "))
        words = words or asked
        assert asked == words
    assert len(subscribed(apart)) == 4_000
    assert 60 <= len(subscribed(together)) <= 120
