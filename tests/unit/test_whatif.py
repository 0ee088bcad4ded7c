"""What-if: changes done to tables by hand, costs against a fresh plan of the changed network, and the command."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.traffic_tables import write_tables

import covey
from covey import cli
from covey.advisor.traffic import Placed, Published, Traffic
from covey.advisor.whatif import Changes, changed, link_changes, planned, what_if
from covey.advisor.whatif_report import kind_of, whatif_page
from covey.errors import ConfigError, PlanError
from covey.planning.objective import Objective

BROKERS = "abcdefgh"
EVIL = "<b>&"


def ring() -> Traffic:
    """A ring with a chord; each broker asks for its own number, and for what is above 5."""
    links = [*pairwise(BROKERS), ("a", "h"), ("b", "f")]
    placed = [Placed(name, covey.parse(f"x = {number}")) for number, name in enumerate(BROKERS)]
    placed += [Placed(name, covey.parse("x > 5")) for name in "ace"]
    events = [Published(BROKERS[number % 3], {"x": number % 8}) for number in range(64)]
    return Traffic(tuple(BROKERS), tuple((a, b, 1.0) for a, b in links), placed, [], events)


def test_nothing_but_a_broker_changes() -> None:
    traffic = ring()
    later, rates, notes = changed(traffic, Changes(removed_brokers=["d"]))
    assert later.brokers == tuple("abcefgh")
    assert all("d" not in link[:2] for link in later.links)
    assert [one.broker for one in later.subscriptions if one.broker == "d"] == []
    assert len(later.events) == len(traffic.events) == len(rates)
    assert notes == ["With brokers, 1 subscriptions and 0 sampled events go away."]


def test_clients_move_before_their_broker_goes() -> None:
    later, _, notes = changed(ring(), Changes(moved=[("a", "c")], removed_brokers=["a"]))
    assert len(later.subscriptions) == 11
    assert len(later.events) == 64
    assert notes == []
    assert {event.broker for event in later.events} == {"b", "c"}


def test_rates_multiply_what_matches() -> None:
    two = (covey.parse("x > 5"), 2.0), (covey.parse("x = 7"), 3.0)
    _, rates, notes = changed(ring(), Changes(faster=two))
    assert np.bincount(rates.astype(int)).tolist() == [0, 48, 8, 0, 0, 0, 8]
    assert notes[0] == "16 of 64 sampled events match x > 5."


def test_before_and_after_are_plans_of_both_networks() -> None:
    traffic = ring()
    changes = Changes(added=[("c", "g", 0.5)], faster=[(covey.parse("x = 6"), 2.0)])
    found = what_if(traffic, changes)
    assert (
        found.before.numbers
        == planned(traffic, np.ones(64), Objective(), ["single", "held-out", "mixed"]).numbers
    )
    later, rates, _ = changed(traffic, changes)
    assert found.after.numbers == planned(later, rates, Objective(), ["single", "held-out", "mixed"]).numbers
    assert found.after.numbers["events"] == 72
    for state in (found.before, found.after):
        costs = [cost for *_, cost in state.links]
        assert float(state.loads.links @ costs) / 64 == pytest.approx(state.numbers["cost"])
        assert state.busiest_link[1] == state.loads.links.max()
        assert state.numbers["over_steiner"] >= -0.05, "up to the error of the heuristic"
    rows = link_changes(found)
    assert (("c", "g"), None, found.after.load_of(("c", "g"))) in rows
    assert {kind_of(before, after) for _, before, after in rows} >= {"added"}


def test_a_plan_that_can_stay_is_costed_as_it_is() -> None:
    traffic = ring()
    found = what_if(traffic, Changes(added=[("c", "g", 1.0)]), methods=["single"])
    assert found.kept is not None
    assert found.kept.numbers["cost"] == found.before.numbers["cost"], (
        "the old tree does not use the new link"
    )
    assert found.after.numbers["cost"] <= found.kept.numbers["cost"]
    gone = found.before.plan.trees[0].links.tolist()[0]
    a, b, _ = found.before.links[gone]
    assert what_if(traffic, Changes(removed_links=[(a, b)]), methods=["single"]).kept is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (Changes(removed_brokers=["z"]), "no broker 'z'"),
        (Changes(removed_links=[("a", "c")]), "no link a–c"),
        (Changes(added=[("y", "z", 1.0)]), "does not join"),
        (Changes(added=[("a", "c", -1.0)]), "positive and finite"),
        (Changes(moved=[("a", "z")]), "no broker 'z'"),
        (Changes(faster=[(covey.parse("x = 1"), 0.0)]), "above 0"),
        (Changes(removed_brokers=list("abcdefg")), "nothing reaches h"),
    ],
)
def test_what_cannot_be_is_one_line(changes: Changes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        changed(ring(), changes)


def test_a_network_that_falls_apart_is_an_error() -> None:
    with pytest.raises(PlanError, match="not connected"):
        changed(ring(), Changes(removed_links=[("a", "b"), ("b", "c"), ("b", "f")], added=[("b", EVIL, 1.0)]))


def test_changes_are_told_in_sentences() -> None:
    few = Changes(removed_links=[("a", "b"), ("c", "d")], added=[("a", "d", 2.0)])
    assert few.lines() == [
        "The link a–b goes away.",
        "The link c–d goes away.",
        "A link a–d of cost 2 is built.",
    ]
    many = Changes(removed_links=[("a", f"b{n}") for n in range(10)])
    assert many.lines() == ["10 links go away: a–b0, a–b1, a–b2, a–b3, a–b4, a–b5, a–b6, a–b7 and 2 more."]


def test_the_page_escapes_names() -> None:
    found = what_if(ring(), Changes(added=[("c", EVIL, 1.0)]), methods=["single"])
    page = whatif_page(found)
    assert EVIL not in page
    assert "Links whose load changes most" in page
    data = re.search(r"data:image/svg\+xml;base64,([^\"]+)", page)
    assert data is not None
    names = re.findall(r">([^<>]+)</text>", b64decode(data[1]).decode())
    assert {*BROKERS} <= set(names)  # there is room for all of them
    lead = page.partition('<section class="lead">')[2].partition("<p>")[2].partition("</p>")[0]
    assert "A link c–&lt;" in page  # what changes is said, and names are only names
    assert re.fullmatch(r"After the change an event needs .* traffic.*\.", lead), lead


def test_the_command_says_what_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traffic = ring()
    write_tables(traffic, tmp_path)
    page = tmp_path / "page.html"
    words = ["--add-link", "c,g,0.5", "--rate-x2", "x = 6", "--json", "--out", str(page)]
    assert cli.run(["whatif", str(tmp_path), *words]) == 0
    told = json.loads(capsys.readouterr().out)
    direct = what_if(traffic, Changes(added=[("c", "g", 0.5)], faster=[(covey.parse("x = 6"), 2.0)]))
    assert told["after"]["cost"] == pytest.approx(direct.after.numbers["cost"])
    assert told["before"]["busiest_link_load"] == direct.before.busiest_link[1]
    assert "<h2>Before and after</h2>" in page.read_text()
    assert cli.run(["whatif", str(tmp_path), "--remove-link", "b,f"]) == 0
    assert "busiest broker" in capsys.readouterr().out
    for words in (["--add-link", "c"], ["--rate", "x = 6"], ["--move-clients", "a"], []):
        assert cli.run(["whatif", str(tmp_path), *words]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
