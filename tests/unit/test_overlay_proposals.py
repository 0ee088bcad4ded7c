"""Proposed overlays: never dearer than what is there, within the bound on delay, and no failure parts them anew."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.traffic_tables import write_tables

import covey
from covey import cli
from covey.advisor.overlay import Bounds, demand, parting, promising, propose, with_links
from covey.advisor.traffic import Placed, Published, Traffic
from covey.advisor.whatif import planned
from covey.errors import ConfigError
from covey.planning.objective import Objective

FAST = ("single",)
TRAFFIC_ALONE = Objective(copy=0, trial=0, entry=0, memory=0, tree=0, migration=0)


def line(length: int = 8) -> Traffic:
    """Everything is published at one end of a line and wanted at the other."""
    brokers = tuple(f"b{number}" for number in range(length))
    links = tuple((brokers[n], brokers[n + 1], 1.0) for n in range(length - 1))
    placed = [Placed(brokers[-1], covey.parse("x >= 0"))]
    return Traffic(brokers, links, placed, [], [Published("b0", {"x": n}) for n in range(20)])


@st.composite
def networks(draw: st.DrawFn) -> Traffic:
    """A small connected network with some cycles, random interests and events."""
    random = Random(draw(st.integers(0, 2**32)))
    count = random.randint(2, 9)
    brokers = tuple(f"b{number}" for number in range(count))
    pairs = {(random.randrange(n), n) for n in range(1, count)}
    spare = [pair for pair in combinations(range(count), 2) if pair not in pairs]
    pairs |= set(random.sample(spare, min(len(spare), random.randint(0, 4))))
    links = tuple((brokers[a], brokers[b], random.choice([1.0, 1.0, 2.5])) for a, b in sorted(pairs))
    placed = [
        Placed(random.choice(brokers), covey.parse(f"x = {random.randrange(4)}"))
        for _ in range(random.randint(1, 10))
    ]
    events = [Published(random.choice(brokers), {"x": random.randrange(4)}) for _ in range(20)]
    return Traffic(brokers, links, placed, [], events)


def price(traffic: Traffic) -> float:
    return planned(traffic, np.ones(len(traffic.events)), TRAFFIC_ALONE, FAST).numbers["price"]


def test_the_ends_of_a_line_are_joined() -> None:
    found = propose(line(), Bounds(links=3), TRAFFIC_ALONE, FAST)
    assert [one.link for one in found.built] == [("b0", "b7")]
    assert found.comparison.before.numbers["cost"] == 7
    assert found.comparison.after.numbers["cost"] == 1
    assert found.sentences()[0] == "build b0–b7 (cost 1): 85.7% less traffic, p99 delay 7 → 1"


def test_a_link_has_to_pay_for_its_upkeep() -> None:
    assert propose(line(), Bounds(links=1, upkeep=5.9), TRAFFIC_ALONE, FAST).built
    stays = propose(line(), Bounds(links=1, upkeep=6.1), TRAFFIC_ALONE, FAST)
    assert (stays.built, stays.dropped) == ((), ())
    assert stays.sentences() == [
        "the overlay stays as it is: no link that is built or dropped saves anything"
    ]
    assert stays.comparison.before is stays.comparison.after


def test_what_is_dropped_is_used_by_nobody_and_needed_by_no_failure() -> None:
    brokers = tuple("abcd")
    links = tuple((a, b, 1.0) for a, b in combinations(brokers, 2))
    placed = [Placed(name, covey.parse("x > 0")) for name in brokers]
    traffic = Traffic(brokers, links, placed, [], [Published("a", {"x": 1})] * 5)
    found = propose(traffic, Bounds(links=0), TRAFFIC_ALONE, FAST)
    left = {pair[:2] for pair in found.comparison.after.links}
    assert found.sentences()[-1].startswith("drop 1 link that no event crosses and no failure needs: ")
    assert len(found.dropped) == 1  # a star of three links at a, and two more join the others
    assert not set(found.dropped) & left
    assert parting(4, {(brokers.index(a), brokers.index(b)) for a, b in left}) == (frozenset(), frozenset())
    assert found.comparison.after.numbers["cost"] == found.comparison.before.numbers["cost"]


@settings(max_examples=25, deadline=None)
@given(networks(), st.integers(0, 2), st.sampled_from([0.0, 0.2, 2.0]))
def test_a_proposal_is_never_dearer_and_parts_nothing(traffic: Traffic, links: int, upkeep: float) -> None:
    found = propose(traffic, Bounds(links, None, upkeep), TRAFFIC_ALONE, FAST)
    before, after = found.comparison.before.numbers, found.comparison.after.numbers
    assert len(found.built) <= links
    assert after["price"] + upkeep * len(found.built) <= before["price"] + 1e-9
    at = {broker: place for place, broker in enumerate(traffic.brokers)}
    old = parting(len(at), {(at[a], at[b]) for a, b, _ in traffic.links})
    new = parting(len(at), {(at[a], at[b]) for a, b, _ in found.comparison.after.links})
    assert new[0] <= old[0]
    assert new[1] <= old[1]


@settings(max_examples=25, deadline=None)
@given(networks())
def test_deliveries_take_no_longer_than_before_or_than_they_may(traffic: Traffic) -> None:
    strict, free = (propose(traffic, Bounds(2, delay=delay), TRAFFIC_ALONE, FAST) for delay in (None, 1e9))
    before = strict.comparison.before.numbers["delay"]
    assert all(one.after.numbers["delay"] <= before for one in strict.built)
    least = free.comparison.after.numbers["price"]
    assert len(strict.built) > 0 or least <= strict.comparison.after.numbers["price"]


@settings(max_examples=100, deadline=None)
@given(networks())
def test_what_parts_a_graph_is_found_as_by_trying(traffic: Traffic) -> None:
    count = len(traffic.brokers)
    at = {broker: place for place, broker in enumerate(traffic.brokers)}
    links = {(at[a], at[b]) for a, b, _ in traffic.links}

    def joined(nodes: set[int], some: set[tuple[int, int]]) -> bool:
        start = min(nodes)
        seen, new = {start}, {start}
        while new:
            new = {b for a, b in some | {(b, a) for a, b in some} if a in new and b in nodes} - seen
            seen |= new
        return seen == nodes

    everyone = set(range(count))
    bridges = {link for link in links if not joined(everyone, links - {link})}
    cuts = {node for node in everyone if count > 1 and not joined(everyone - {node}, links)}
    assert parting(count, links) == (frozenset(bridges), frozenset(cuts))


def test_promises_count_all_ways_that_a_link_shortens() -> None:
    traffic = line()
    assert demand(traffic)[0].tolist() == [0, 0, 0, 0, 0, 0, 0, 20]
    assert promising(traffic, 1.0)[0] == ("b0", "b7")
    assert promising(traffic, 7.0) == []
    shorter = with_links(traffic, [*traffic.links, ("b0", "b7", 1.0)])
    assert price(shorter) < price(traffic)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(links=21), "between 0 and 20 links"),
        (Bounds(cost=-1.0), "a link cannot cost -1"),
        (Bounds(cost=float("nan")), "a link cannot cost nan"),
        (Bounds(upkeep=float("inf")), "the upkeep of a link cannot be inf"),
        (Bounds(delay=0.0), "a delay cannot be bounded by 0"),
    ],
)
def test_bounds_that_cannot_be(bounds: Bounds, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        propose(line(), bounds)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tables(line(5), tmp_path)
    page = tmp_path / "page.html"
    assert cli.run(["whatif", str(tmp_path), "--overlay", "2", "--out", str(page)]) == 0
    out = capsys.readouterr().out
    assert "build b0–b4 (cost 1): 75.0% less traffic, p99 delay 4 → 1" in out
    assert "b0–b4" in page.read_text(encoding="utf-8")
    assert cli.run(["whatif", str(tmp_path), "--overlay", "2", "--link-upkeep", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["built"] == []
    assert cli.run(["whatif", str(tmp_path), "--overlay", "2", "--remove-broker", "b1"]) == 2
    assert "(hint: --overlay without other changes)" in capsys.readouterr().err
    assert cli.run(["whatif", str(tmp_path), "--link-upkeep", "1"]) == 2
    assert "(hint: --overlay 3)" in capsys.readouterr().err
