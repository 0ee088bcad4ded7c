"""The lab's part on XROUTE, on small cells: rows are right, figures are drawn, and claims are judged from rows alone.

R. Chand and P. A. Felber, A Scalable Protocol for Content-Based Routing in Overlay Networks (RR-03-074, Institut
Eurécom, 2003). The claims that are exact hold at any size and are asserted; of the others only that they are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from matplotlib.figure import Figure as Canvas
from tests.oracles.xroute_mutants import MUTANTS
from tests.papers.lab import check_grids, judged

from covey.lab.experiment import Cell, Results, Row, Value
from covey.lab.paper_x import example, properties, tables
from covey.lab.paper_x.paper import PAPER
from covey.lab.paper_x.population import population
from covey.lab.paper_x.steady import parents, steady_tables
from covey.sim.topology.random_graphs import xroute64
from covey.strategies.xroute.counted import XRoute

Cells = list[dict[str, Value]]

TABLE_CELLS: Cells = [
    {
        "subscriptions": size,
        "unique": unique,
        "walks": walks,
        "seed": 1,
        "simulated": size == 100,
        "doctype": "newspaper",
    }
    for size in (100, 400, 1_600)
    for unique in (True, False)
    for walks in ("full", "even")
]
PROPERTY_CELLS: Cells = [
    {"strategy": strategy, "networks": 8, "operations": 20, "seed": 1}
    for strategy in ("xroute", "xroute-sets")
]


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    grids: dict[str, Sequence[Cell]] = {
        "x-tables": TABLE_CELLS,
        "x-properties": PROPERTY_CELLS,
        "x-example": example.cells("small"),
    }
    return {
        experiment.name: [{**cell, **row} for cell in grids[experiment.name] for row in experiment.run(cell)]
        for experiment in PAPER.experiments
    }


# -- grids and rows ----------------------------------------------------------------------------------------------


def test_grids_are_plain_data_and_reach_the_size_of_the_paper() -> None:
    check_grids(PAPER)
    assert max(int(str(cell["subscriptions"])) for cell in tables.cells("paper")) == 50_000


def test_a_cell_gives_the_same_rows_again() -> None:
    cell = {**TABLE_CELLS[0], "simulated": False}
    assert tables.run(cell) == tables.run(cell)
    assert properties.run({**PROPERTY_CELLS[0], "networks": 2}) == properties.run(
        {**PROPERTY_CELLS[0], "networks": 2}
    )


@pytest.mark.parametrize("walks", ["full", "even"])
def test_a_smaller_population_is_the_beginning_of_a_larger_one(walks: str) -> None:
    for unique in (True, False):
        large = population(["a", "b"], 300, unique=unique, walks=walks, seed=7)
        filters = [filter for _, filter in population(["a", "b"], 100, unique=unique, walks=walks, seed=7)]
        assert filters == [filter for _, filter in large[:100]]
        assert not unique or len(set(filters)) == 100


def test_simulated_tables_and_messages_are_those_of_the_reduction(results: Results) -> None:
    compared = results.rows("x-tables", computed_from="simulation")
    assert len(compared) == 4 * len(tables.STRATEGIES)
    assert all(row["agrees"] for row in compared)


def test_section_6_1_simple_routing_has_the_distinct_filters_downstream() -> None:
    """A router's table has each filter once that consumers behind it want."""
    topology = xroute64(3)
    subscribed = population(topology.roles["subscribers"], 300, unique=False, walks="even", seed=3)
    parent = parents(topology, "p")
    behind: dict[str, set[Any]] = {broker: set() for broker in topology.brokers}
    for broker, filter in subscribed:
        while broker != "p":
            broker = parent[broker]
            behind[broker].add(filter)
    found = steady_tables(topology, "p", "identity", subscribed)
    assert {broker: {filter for _, filter in table} for broker, table in found.items()} == behind


def test_match_first_has_every_subscription_at_the_router_of_the_producer(results: Results) -> None:
    for row in results.rows("x-tables", strategy="match-first"):
        assert row["max_entries"] == row["producer_entries"] == row["subscriptions"]


# -- figures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["6", "7", "8", "9"])
def test_figures_are_drawn_with_axes_and_series(results: Results, number: str) -> None:
    figure = next(figure for figure in PAPER.figures if figure.number == number)
    assert figure.draw is not None
    axes = Canvas().subplots()
    figure.draw(results, axes)
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    legend = axes.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert any("XROUTE" in label for label in labels)
    assert any("simple" in label for label in labels)
    assert "NITF" in figure.caption


# -- claims ------------------------------------------------------------------------------------------------------


def test_all_claims_are_judged(results: Results) -> None:
    assert [claim.id for claim in PAPER.claims] == [f"X{number}" for number in range(1, 8)]
    for claim in PAPER.claims:
        for reading in claim.readings:
            found = judged(PAPER, results, claim.id, reading.name)
            assert found.measured
            assert isinstance(found.holds, bool)


@pytest.mark.parametrize("id", ["X1", "X2", "X6", "X7"])
def test_the_exact_claims_hold(results: Results, id: str) -> None:
    """Sections 4.1 (routing, cancelling), 5.2 (Properties 5 and 6) and 5.3 (Figure 4)."""
    found = judged(PAPER, results, id)
    assert found.holds, found.measured


def test_section_5_3_the_caption_of_figure_4_contradicts_the_text(results: Results) -> None:
    assert not all(row["same"] for row in results.rows("x-example", reading="S1 above S3"))


DOCTORED = {
    "X1": ("x-properties", "lost", 1),
    "X2": ("x-properties", "canonical_changes", 1),
    "X3": ("x-tables", "agrees", False),
    "X6": ("x-example", "same", False),
    "X7": ("x-properties", "property_6_broken", 1),
}


@pytest.mark.parametrize("id", DOCTORED)
def test_a_claim_does_not_hold_if_rows_speak_against_it(rows: dict[str, list[Row]], id: str) -> None:
    name, column, value = DOCTORED[id]
    first, *others = rows[name]
    assert not judged(PAPER, Results({**rows, name: [{**first, column: value}, *others]}), id).holds


def grown(rows: list[Row], strategy: str, factor: int) -> list[Row]:
    """Return rows in which the tables of a strategy grow with the number of subscriptions, by so much."""
    size = {
        "mean_filters": 1.0,
        "mean_entries": 1.0,
        "mean_used_filters": 2.0,
        "max_filters": 10,
        "max_entries": 10,
    }
    return [
        {**row, **{column: value * factor * row["subscriptions"] for column, value in size.items()}}  # type: ignore[operator]
        if row["strategy"] == strategy
        else row
        for row in rows
    ]


def as_printed(rows: list[Row]) -> list[Row]:
    """Return rows in which the largest tables are as many times larger than XROUTE's as in print."""
    largest: dict[str, Row] = {
        "xroute": {"max_filters": 10},
        "identity": {"max_filters": 140},
        "match-first": {"max_entries": 430},
    }
    return [{**row, **largest.get(str(row["strategy"]), {})} for row in rows]


def test_claims_of_size_are_judged_by_the_sizes(rows: dict[str, list[Row]]) -> None:
    flat = [
        {**row, "mean_filters": 1.0, "max_filters": 4} if row["strategy"] == "xroute" else row
        for row in rows["x-tables"]
    ]
    small = Results({**rows, "x-tables": grown(flat, "identity", 1)})
    assert [judged(PAPER, small, id).holds for id in ("X3", "X5")] == [True, True]
    at_least = "at least so many, full height"
    assert judged(PAPER, small, "X4", at_least).holds
    assert not judged(PAPER, small, "X4").holds, "far more than the print is not about as much"
    assert judged(PAPER, Results({**rows, "x-tables": as_printed(flat)}), "X4").holds
    large = Results({**rows, "x-tables": grown(flat, "xroute", 1)})
    assert [judged(PAPER, large, id).holds for id in ("X3", "X4", "X5")] == [False, False, False]


@pytest.mark.parametrize("name", ["D5", "D6", "D7"])
def test_the_experiment_sees_a_repair_undone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Wrong counts show as broken properties, and nothing else hides them."""
    for attribute, value in MUTANTS[name].items():
        monkeypatch.setattr(XRoute, attribute, value)
    monkeypatch.setattr(XRoute, "check", lambda self, link, after: None)
    (row,) = properties.run({"strategy": "xroute", "networks": 8, "operations": 20, "seed": 1})
    assert row["property_5_broken"] or row["property_6_broken"]
