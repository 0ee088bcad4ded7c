"""Paper M in the lab: A. Majumder et al., *Scalable Content-Based Routing in Pub/Sub Systems*.

The small scale's cells on tiny networks: rows are right, every figure is drawn, and every claim is judged from rows
alone, either way. The exact claims hold at any size: M1 and M2 (see also `test_m_examples`), what M8 says of
duplicates, and the bound of M11.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from tests.papers.lab import check_grids, judged, of_one_seed

from covey.lab.drawing import drawn
from covey.lab.experiment import Cell, Results, Row, Value
from covey.lab.figure import Figure
from covey.lab.outcome import plain_row
from covey.lab.paper_m import costs, steps, stretch
from covey.lab.paper_m.grids import cell, steps_cells
from covey.lab.paper_m.paper import PAPER
from covey.lab.paper_m.steps import likeness_as_printed, saving_as_printed
from covey.lab.paper_m.world import DATA, TOPOLOGIES, World, integer, real, world
from covey.planning.groups.costing import Costing
from covey.planning.groups.model import Problem, members_of
from covey.planning.groups.mult import mult
from covey.planning.groups.mult2 import mult2
from covey.planning.subscriptions import Matches

TINY: dict[str, Value] = {"keywords": 30, "documents": 150, "sample": 0.2}
BROKERS = {100: 60, 150: 60, 200: 90}


def tiny(cell: Cell) -> Cell:
    """Return a cell of the small scale with a tiny network."""
    if "brokers" not in cell:
        return cell
    shares = {"shares": "0.05 0.2 0.5"} if "shares" in cell else {}
    if cell["sample"] == 1.0:  # the printed algorithms, whose sizes are small as they are
        return {
            **cell,
            "brokers": BROKERS[integer(cell, "brokers")],
            "keywords": integer(cell, "keywords") // 2,
        }
    return {**cell, **TINY, "brokers": BROKERS[integer(cell, "brokers")], **shares}


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for experiment in PAPER.experiments:
        for one in map(tiny, of_one_seed(experiment)):
            found.setdefault(experiment.name, []).extend(
                {**one, **plain_row(row)} for row in experiment.run(one)
            )
    return found


# -- grids and data ----------------------------------------------------------------------------------------------


def test_grids_are_plain_data_and_reach_the_sizes_of_the_paper() -> None:
    check_grids(PAPER)
    published = [
        one for experiment in PAPER.experiments for one in experiment.cells("paper") if "brokers" in one
    ]
    assert {real(one, "brokers") for one in published} == {500, 1_000, 2_000, 5_000}
    planned = {
        (one["keywords"], one["documents"], one["sample"])
        for one in published
        if one["sample"] != 1.0 and one.get("ten_thousand") != "sample"
    }
    assert planned == {(1_000, 10_000, 0.03)}
    assert {one["data"] for one in published} == set(DATA)
    assert {one["topology"] for one in published} == set(TOPOLOGIES)


def example(**others: Value) -> World:
    return world({**cell("small"), **TINY, "brokers": 100, **others})


def test_a_world_is_the_same_again_and_differs_by_seed() -> None:
    one, same, other = example(), example(), example(seed=2)
    for name in ("hosts", "publishers", "offsets", "subscriptions"):
        assert np.array_equal(getattr(one.matches, name), getattr(same.matches, name))
    assert not np.array_equal(one.matches.publishers, other.matches.publishers)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_topologies_are_connected_and_have_their_degree(topology: str) -> None:
    graph = example(topology=topology).paths.graph
    assert (graph.nodes, graph.component_count) == (100, 1)
    degree = {"Flat4": 4, "Flat8": 8, "Geo6": 6, "Geo12": 12}.get(topology)
    if degree:
        assert degree <= 2 * len(graph.ends) / 100 <= 1.05 * degree


@pytest.mark.parametrize("data", DATA)
def test_a_keyword_is_at_ten_of_the_nearest_brokers_at_most(data: str) -> None:
    found = example(data=data)
    nearest = max(1, round(DATA[data] * 100))
    for keyword in range(30):
        hosts = found.matches.hosts[[words == {keyword} for words in found.words]]
        assert len(hosts) == len(set(hosts.tolist())) == min(10, nearest)
        # Around one broker at least, all of them are among the nearest, ties included.
        ranked = np.sort(found.paths.distance, axis=1)[:, nearest - 1]
        assert (found.paths.distance[:, hosts] <= ranked[:, None]).all(axis=1).any()


@pytest.mark.parametrize(("words", "near"), [(1, 1), (3, 1), (3, 5)])
def test_both_readings_of_a_subscription_have_the_same_documents(words: int, near: int) -> None:
    by_keyword, by_broker = (
        example(per=per, words=words, near=near, data="Localized2") for per in ("keyword", "broker")
    )
    assert len(set(by_broker.matches.hosts.tolist())) == by_broker.matches.subscription_count
    one, other = by_keyword.matches.documents, by_broker.matches.documents
    for name in ("publishers", "offsets", "hosts"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    for number in range(150):
        matched = by_keyword.matches.subscriptions[slice(*by_keyword.matches.offsets[number : number + 2])]
        asked = {word for subscription in matched for word in by_keyword.words[subscription]}
        assert 1 <= len(asked) <= words
        hosts = set(other.hosts_of(number).tolist())
        wanting = {int(by_broker.matches.hosts[s]) for s, mine in enumerate(by_broker.words) if mine & asked}
        assert hosts == wanting


# -- rows --------------------------------------------------------------------------------------------------------


def test_steiner_trees_are_cheapest_and_flooding_crosses_every_link(results: Results) -> None:
    for one in {
        tuple((key, row[key]) for key in ("seed", *cell("small"))) for row in results.rows(costs.COSTS)
    }:
        by_scheme = {str(row["scheme"]): row for row in results.rows(costs.COSTS, **dict(one))}
        least = real(by_scheme["opt"], "all_cost")
        assert all(real(row, "all_cost") >= 0.95 * least for row in by_scheme.values()), (
            "up to the heuristic's error"
        )
        assert real(by_scheme["flooding"], "all_cost") == real(by_scheme["opt"], "brokers") - 1
        assert real(by_scheme["spt"], "all_cost") <= real(by_scheme["flooding"], "all_cost")
        if "semcast merge" in by_scheme:
            plain, filtered = (
                real(by_scheme[f"semcast merge{end}"], "all_cost") for end in ("", " filtered")
            )
            assert filtered <= plain


def test_section_7_d_duplicates_never_rise_as_groups_merge(results: Results) -> None:
    for one in map(tiny, of_one_seed(steps.EXPERIMENTS[0])):
        for scheme in ("mult", "mult2"):
            curve = results.rows(steps.STEPS, **{**one, "scheme": scheme})
            trees = [real(row, "trees") for row in curve]
            assert trees == sorted(trees, reverse=True)
            for column in ("duplicates", "copies"):
                values = [real(row, column) for row in curve]
                assert all(b <= a + 1e-9 for a, b in pairwise(values)), (
                    one,
                    scheme,
                    column,
                )
            if scheme == "mult2":
                spent = [real(row, "sample_cost") for row in curve]
                assert all(b < a for a, b in pairwise(spent)), "every merge saves"
            else:
                assert (trees[-1], curve[-1]["duplicates"]) == (1, 0)


def test_the_printed_algorithms_evaluate_what_the_text_says_and_find_what_ours_find() -> None:
    """Algorithm 2 looks at all pairs and ends no worse than ours; Algorithm 3 computes 2n - 1 trees at most."""
    problem, _ = example(keywords=6).problem(1.0, 1)
    subscriptions = problem.sample.subscription_count
    costing = Costing(problem)
    likeness_as_printed(problem, costing)
    assert subscriptions <= costing.computed <= 2 * subscriptions - 1
    costing = Costing(problem)
    groups = saving_as_printed(problem, costing)
    assert costing.computed >= subscriptions + subscriptions * (subscriptions - 1) // 2
    ours = mult2(problem, collapse=False)
    assert ours.group is not None
    mine = costing.point(members_of(ours.group)).sample
    assert costing.point(groups).sample <= mine * (1 + 1e-9)


def test_section_7_c_with_the_same_interests_everywhere_mult_ends_with_one_group() -> None:
    """What M7 says of Uniform, where it is exact: nothing is gained by parting subscriptions that match alike."""
    data = example(data="Uniform")
    hosts = np.unique(data.matches.hosts)
    matches = Matches.of(hosts, [(node, range(len(hosts))) for node in range(20)])
    found = mult(Problem(data.paths.graph, data.paths, matches))
    assert len(found.trees) == 1


# -- figures -----------------------------------------------------------------------------------------------------


def test_figures_4_to_8_and_our_own_are_there() -> None:
    numbers = {figure.number for figure in PAPER.figures}
    assert numbers >= {"4a", "4b", "5a", "5b", "5c", "6", "7", "8", "Ours 1", "Ours 2"}


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.number)
def test_every_figure_is_drawn_and_says_how_the_data_was_read(figure: Figure, results: Results) -> None:
    content, suffix = drawn(figure, results, "svg")
    assert len(content) > 300
    if suffix == "svg":
        assert "TSX2" in figure.caption
        assert b"MULT" in content
    if figure.number.startswith("Ours"):
        assert "not in the paper" in figure.caption


# -- claims ------------------------------------------------------------------------------------------------------


def test_all_claims_are_judged(results: Results) -> None:
    assert [claim.id for claim in PAPER.claims] == [f"M{number}" for number in range(1, 12)]
    for claim in PAPER.claims:
        for reading in claim.readings:
            found = judged(PAPER, results, claim.id, reading.name)
            assert found.measured
            assert isinstance(bool(found.holds), bool)


@pytest.mark.parametrize("id", ["M1", "M2"])
def test_the_exact_claims_hold(results: Results, id: str) -> None:
    """Examples I.2 and I.3."""
    found = judged(PAPER, results, id)
    assert found.holds, found.measured


Doctor = Callable[[Row], Row]


def scheme_costs(**factors: float) -> Doctor:
    """Return what makes a scheme cost so much, whatever it is planned on."""
    by_scheme = {name.replace("_", " ").replace("plus", "+"): value for name, value in factors.items()}

    def change(row: Row) -> Row:
        cost = by_scheme.get(str(row.get("scheme")))
        return row if cost is None else {**row, "all_cost": cost, "sample_cost": cost}

    return change


def searches(gain: float, fewer: float) -> Doctor:
    def change(row: Row) -> Row:
        two = row["scheme"] == "mult2"
        return {
            **row,
            "sample_cost": 1 - gain * two,
            "all_cost": 1 - gain * two,
            "trees": 100 * (1 - fewer * two),
        }

    return change


def timed(power: float) -> Doctor:
    """Return what makes MULT2 take as many times as long as MULT as there are keywords, to a power."""
    return lambda row: {**row, "seconds": real(row, "keywords") ** power if row["scheme"] == "mult2" else 1.0}


def trees_cost(chosen: float, stretch: float) -> Doctor:
    """Return what makes COMPUTETREE cost so much, and the low-stretch tree stretch so much; others have 2 of both."""

    def change(row: Row) -> Row:
        over = chosen if row["tree"] == "COMPUTETREE" else 2.0
        stretched = stretch if row["tree"] == "low stretch (star)" else 2.0
        return {**row, "over": over, "stretch": stretched, "within": True}

    return change


def grown(factor: float) -> Doctor:
    """Return what makes SPT cost more than SINGLE, the more the larger the network is."""

    def change(row: Row) -> Row:
        return {**row, "all_cost": factor * real(row, "brokers") if row["scheme"] == "flooding" else 1.0}

    return change


# Claim -> experiment, what makes it hold, what does not.
DOCTORED: dict[str, tuple[str, Doctor, Doctor]] = {
    "M3": (
        costs.SAMPLING,
        lambda row: {**row, "all_cost": 1.0},
        lambda row: {**row, "all_cost": 1 - real(row, "share")},
    ),
    "M4": (
        costs.COSTS,
        scheme_costs(mult=1.0, semcast_merge=2.0, semcast_merge_filtered=1.4),
        scheme_costs(mult=1.0, semcast_merge=2.0, semcast_merge_filtered=2.0),
    ),
    "M5": (
        costs.COSTS,
        grown(0.1),
        lambda row: {**row, "all_cost": 10.0 if row["scheme"] == "flooding" else 1.0},
    ),
    "M6": (
        costs.COSTS,
        scheme_costs(opt=0.35, single=1.0, mult=0.38),
        scheme_costs(opt=0.35, single=1.0, mult=0.5),
    ),
    "M7": (
        costs.COSTS,
        lambda row: {**row, "trees": 1, "all_cost": 1.0},
        lambda row: {**row, "trees": 2, "all_cost": 1.0},
    ),
    "M9": (steps.TIMES, searches(0.04, 0.15), searches(0.0, 0.15)),
    "M10": (steps.PRINTED, timed(1.0), timed(0.1)),
    "M11": (stretch.NAME, trees_cost(1.0, 1.0), trees_cost(3.0, 1.0)),
}


@pytest.mark.parametrize("id", DOCTORED)
def test_a_claim_is_judged_by_its_rows(rows: dict[str, list[Row]], id: str) -> None:
    name, holding, failing = DOCTORED[id]
    for change, holds in ((holding, True), (failing, False)):
        found = judged(PAPER, Results({**rows, name: [change(row) for row in rows[name]]}), id)
        assert found.holds == holds, found.measured


def test_a_low_stretch_tree_with_a_high_stretch_speaks_against_m11(rows: dict[str, list[Row]]) -> None:
    change = trees_cost(1.0, 3.0)
    found = judged(PAPER, Results({**rows, stretch.NAME: [change(row) for row in rows[stretch.NAME]]}), "M11")
    assert not found.holds


def test_the_number_of_trees_is_judged_by_the_lowest_point(rows: dict[str, list[Row]]) -> None:
    def curve(lowest: int, rising: bool = False) -> Results:
        found: list[Row] = []
        for one in map(tiny, steps_cells("small")):
            for scheme in ("mult", "mult2"):
                for trees in range(300, 0, -1):
                    duplicates = -trees if rising else trees
                    cost = 1 + abs(trees - lowest) / 100
                    line: Row = {"scheme": scheme, "trees": trees, "sample_cost": cost, "fresh_cost": cost}
                    found.append({**one, **line, "duplicates": duplicates, "keywords": 1_000})
        return Results({**rows, steps.STEPS: found})

    assert judged(PAPER, curve(90), "M8").holds
    assert not judged(PAPER, curve(140), "M8").holds, "the least is elsewhere"
    assert not judged(PAPER, curve(1), "M8").holds, "it is no U"
    assert not judged(PAPER, curve(90, rising=True), "M8").holds, "duplicates rise"


@pytest.mark.parametrize(("id", "experiment"), [("M1", "m-examples"), ("M2", "m-examples")])
def test_one_wrong_number_is_enough(rows: dict[str, list[Row]], id: str, experiment: str) -> None:
    example = {"M1": "I.2", "M2": "I.3"}[id]
    place = next(place for place, row in enumerate(rows[experiment]) if row["example"] == example)
    wrong = [{**row, "found": 0.0} if at == place else row for at, row in enumerate(rows[experiment])]
    assert not judged(PAPER, Results({**rows, experiment: wrong}), id).holds
