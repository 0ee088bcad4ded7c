"""What the paper on XROUTE says of it, section by section, in our words and as far as it is true.

R. Chand and P. A. Felber, A Scalable Protocol for Content-Based Routing in Overlay Networks (RR-03-074, Institut
Eurécom, 2003). Its population of consumers (x + y) is `own` here, its z and R are `others`, of what a link said and of
an entry; its Ptr is `above`; an interface is a link, an advertisement message an Update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.oracles.bit_filters import ALL, EVENTS, bits
from tests.oracles.xroute_checks import (
    behind,
    check_instances,
    check_mirror,
    check_population,
    check_rest,
    strategy_of,
)
from tests.oracles.xroute_runs import Run

from covey.core.filter import Filter
from covey.routing.messages import Message, Triple, Update
from covey.sim import Network
from covey.strategies.xroute.forest import Entry
from covey.strategies.xroute.instance import Instance
from covey.strategies.xroute.table import is_above

SEEDS = 8


def runs(**settings: Any) -> list[Run]:
    return [Run(seed, **settings) for seed in range(100, 100 + SEEDS)]


def test_section_4_1_routing_is_perfect() -> None:
    """Every broker with interested consumers gets an event, and no event crosses a link without need."""
    for run in runs():
        for _ in range(20):
            run.operation()
        run.net.settle()
        for broker in run.net.brokers:
            for event in EVENTS:
                run.net.publish(broker, event)
                run.net.settle()
                got = {subscription for subscription, _ in run.net.deliveries}
                assert got == {s for s in run.subscribed if s.filter.matches(event)}
                assert len(run.net.deliveries) == len(got)
                run.net.clear_deliveries()
        assert run.net.counters["false_positives"] == 0


Known = dict[tuple[str, str], set[tuple[Filter, int]]]


def known(net: Network) -> Known:
    """Return what is determined by who subscribed to what: for each link its filters and their own counts."""
    return {
        (broker, link): {(fact.filter, fact.counts[0]) for fact in strategy_of(net, broker).heard(link)}
        for broker in net.brokers
        for link in net.overlay.neighbours[broker]
    }


def arrangement(net: Network) -> dict[tuple[str, str], set[tuple[Filter, int, Filter | None]]]:
    """Return all the rest: who stands for whom, and how many that makes."""
    return {
        (broker, link): {
            (entry.filter, entry.others, entry.above and entry.above.filter)
            for entry in instance.entries.values()
        }
        for broker in net.brokers
        for link, instance in strategy_of(net, broker).instances.items()
    }


def test_section_4_1_cancelling_leaves_what_is_known_as_it_was() -> None:
    """As if the subscription had never been: true of filters and of their own counts, at every link."""
    for run in runs():
        for _ in range(15):
            run.operation()
        run.net.settle()
        before = known(run.net)
        for broker in run.net.brokers:
            for filter in ALL.values():
                handle = run.net.subscribe(broker, filter)
                run.net.settle()
                run.net.unsubscribe(handle)
                run.net.settle()
                assert known(run.net) == before


def test_section_4_1_cancelling_may_leave_another_arrangement() -> None:
    """Not true of who stands for whom: 001 may be below 101 or 011, and is below the other one afterwards."""
    net = Network([("P", "N"), ("N", "C1"), ("N", "C2")], "xroute")
    net.advertise("P", bits("111"))
    for broker, text in (("C1", "110"), ("C2", "101"), ("C2", "011"), ("C1", "001")):
        net.subscribe(broker, ALL[text])
        net.settle()
    was_known, was_arranged = known(net), arrangement(net)
    handle = net.subscribe("C1", ALL["011"])
    net.settle()
    net.unsubscribe(handle)
    net.settle()
    assert known(net) == was_known
    assert arrangement(net) != was_arranged
    moved = (ALL["001"], 0)
    assert (*moved, ALL["101"]) in was_arranged["N", "P"]
    assert (*moved, ALL["011"]) in arrangement(net)["N", "P"]
    check_instances(net)
    check_rest(net, EVENTS)


def test_section_4_4_a_filter_is_represented_at_its_link_and_substituted_between_links() -> None:
    """With S1 above S2: behind one link only S1 is kept; behind two, both are, and only S1 is told."""
    net = Network([("N3", "N1"), ("N1", "C1"), ("N1", "C2")], "xroute")
    net.advertise("N3", bits("111"))
    net.subscribe("C2", ALL["100"])
    net.subscribe("C1", ALL["110"])
    net.settle()
    assert {fact.filter for link in ("C1", "C2") for fact in strategy_of(net, "N1").heard(link)} == {
        ALL["110"],
        ALL["100"],
    }
    assert [(f.filter, f.counts) for f in strategy_of(net, "N3").heard("N1")] == [(ALL["110"], (1, 1))]


def test_section_5_1_a_link_counts_a_filter_as_often_as_it_is_held_behind_it() -> None:
    """For each filter that a link has; it has one only if somebody behind it holds that."""
    for run in runs():
        for _ in range(20):
            run.operation()
        run.net.settle()
        for broker in run.net.brokers:
            for link in run.net.overlay.neighbours[broker]:
                there = behind(run.net, broker, link)
                held = [s.filter for s in run.subscribed if s.broker in there]
                for fact in strategy_of(run.net, broker).heard(link):
                    assert fact.counts[0] == held.count(fact.filter) > 0


# -- 5.2: the properties -----------------------------------------------------------------------------------------


def watch(run: Run, look: Callable[[Any, str, tuple[Triple, ...]], None]) -> None:
    """Call `look` with the receiver's strategy before each message arrives."""

    def observe(sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Update):
            look(strategy_of(run.net, receiver), sender, message.triples)

    run.net.observer = observe


def test_properties_1_and_4_a_link_registers_nothing_below_what_it_has() -> None:
    """Property 1: what appears at a link is below nothing there. Property 4: nor is it what was represented there."""
    registered = 0

    def look(strategy: Any, link: str, triples: tuple[Triple, ...]) -> None:
        nonlocal registered
        first = triples[0]
        if first.own > 0:
            registered += 1
            assert not any(is_above(held.filter, first.filter) for held in strategy.table.of_link(link))

    for run in runs():
        watch(run, look)
        run.go()
    assert registered > 100


def test_properties_2_and_3_what_is_substituted_here_is_represented_upstream() -> None:
    """A neighbour has the tops and nothing that they stand for, and counts what they stand for."""
    for run in runs():
        for _ in range(20):
            run.operation()
            run.net.settle()
            for broker in run.net.brokers:
                for link, instance in strategy_of(run.net, broker).instances.items():
                    upstream = {held.filter for held in strategy_of(run.net, link).table.of_link(broker)}
                    for entry in instance.entries.values():
                        assert (entry.filter in upstream) == (entry.above is None)


def test_properties_5_and_6_counts_add_up_here_and_agree_upstream() -> None:
    """Property 5: an entry counts all it stands for. Property 6: the neighbour has that count of each top."""
    for run in runs(advertisements=True):
        for _ in range(25):
            run.operation()
            run.net.settle()
            check_instances(run.net)  # Property 5, after every operation
            for broker in run.net.brokers:
                for link in run.net.overlay.neighbours[broker]:
                    check_mirror(run.net, broker, link)


def test_property_5_all_tops_together_count_everyone() -> None:
    """Where every subscription is addressed to everyone, a neighbour knows how many there are."""
    for run in runs():
        for _ in range(20):
            run.operation()
            run.net.settle()
            check_population(run.net)


class Placing(Instance):
    """An instance that looks at Property 7 whenever an entry is placed."""

    substituted = 0

    def place(self, filter: Filter) -> Entry:
        tops = [top.filter for top in self.tops.values()]
        if any(is_above(top, filter) for top in tops):
            Placing.substituted += 1
            assert not any(is_above(filter, top) for top in tops)
        return super().place(filter)


def test_property_7_what_can_be_substituted_substitutes_no_top(monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed proof has S3 and S1 the wrong way round; the property holds, because covering is transitive."""
    monkeypatch.setattr("covey.strategies.xroute.counted.XRoute.instance_type", Placing)
    for run in runs():
        run.go()
    assert Placing.substituted > 50


# -- 5.3: the example --------------------------------------------------------------------------------------------


def test_example_2_with_s0_above_s3() -> None:
    """Figure 4 step by step. Its caption has S1 above S3, which contradicts the text; S0 above S3 agrees with it."""
    s0, s1, s2, s3 = bits("1110"), bits("1001"), bits("1000"), bits("0100")
    names = {s0: "S0", s1: "S1", s2: "S2", s3: "S3"}
    assert is_above(s0, s2)
    assert is_above(s0, s3)
    assert is_above(s1, s2)
    assert not any(is_above(f, g) for f, g in ((s0, s1), (s1, s0), (s2, s3), (s3, s2), (s1, s3)))
    net = Network([("P1", "N3"), ("N3", "N1"), ("N3", "C3"), ("N1", "C1"), ("N1", "C2")], "xroute")
    net.advertise("P1", bits("1111"))
    for broker, filter in (("C1", s1), ("C1", s3), ("C2", s2)):
        net.subscribe(broker, filter)
        net.settle()
    said: list[tuple[str, str, list[tuple[str, int, int]]]] = []

    def note(sender: str, receiver: str, message: Message) -> None:
        if isinstance(message, Update):
            said.append((sender, receiver, [(names[t.filter], t.own, t.others) for t in message.triples]))

    net.observer = note
    net.subscribe("C2", s0)
    net.settle()
    assert said[0] == ("C2", "N1", [("S0", 1, 0)])  # S2 is substituted by S0 at C2
    assert said[1] == ("N1", "N3", [("S0", 1, 1), ("S1", 0, -1)])

    def entries(broker: str, link: str) -> dict[str, tuple[int, int, str]]:
        found = strategy_of(net, broker).instances[link].entries.values()
        return {names[e.filter]: (e.own, e.others, names[e.above.filter] if e.above else "") for e in found}

    def heard(broker: str, link: str) -> dict[str, tuple[int, ...]]:
        return {names[fact.filter]: fact.counts for fact in strategy_of(net, broker).heard(link)}

    # At N1: S3 is substituted by S0, S2 is represented by S0 at the link to C2, and its entry is gone.
    assert entries("N1", "N3") == {"S1": (1, 0, ""), "S3": (1, 0, "S0"), "S0": (1, 2, "")}
    assert heard("N1", "C2") == {"S0": (1, 1)}
    assert heard("N1", "C1") == {"S1": (1, 0), "S3": (1, 0)}
    # At N3: S3 is represented by S0 at the link to N1, and its entry is gone.
    assert entries("N3", "P1") == {"S1": (1, 0, ""), "S0": (1, 2, "")}
    assert heard("N3", "N1") == {"S1": (1, 0), "S0": (1, 2)}


def test_section_5_3_further_triples_may_add_after_a_cancellation() -> None:
    """The text has them subtract; that is so after registrations only."""
    seen: set[tuple[bool, bool]] = set()

    def look(strategy: Any, link: str, triples: tuple[Triple, ...]) -> None:
        for triple in triples[1:]:
            if triple.own == 0:
                seen.add((triples[0].own > 0, triple.others > 0))

    for run in runs(operations=40):
        watch(run, look)
        run.go()
    assert (True, False) in seen
    assert (False, True) in seen
    assert (True, True) not in seen
