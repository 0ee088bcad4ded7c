"""The report: one HTML page with everything, figures and all, that needs no other file and no network.

For each paper its scoreboard, its figures and tables with captions, and its experiments with parameters, seeds,
failures and times. The template is `lab.html`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from covey.lab.document import holds_text, values_text
from covey.lab.drawing import SIZE_INCHES, cell_text, name_of, page_picture
from covey.lab.experiment import Experiment, Value
from covey.lab.figure import Figure, Paper
from covey.lab.outcome import Outcome
from covey.lab.scoreboard import Kept, Standing, standings
from covey.lab.store import Store
from covey.reports.drawing import PIXELS, Picture, address
from covey.reports.page import Cell, Content, Table, fragment, page
from covey.reports.words import counted

MAX_LISTED = 12


def report(papers: Iterable[Paper], store: Store) -> str:
    """Return the page."""
    kept = [Kept(paper, store) for paper in papers]
    boards = [standings(one) for one in kept]
    judged = [row for board in boards for row in board]
    return page(
        "lab.html",
        "The papers, reproduced" if judged else kept[0].paper.title,
        first=counts_text(judged) if judged else "",
        papers=[paper_section(one, board) for one, board in zip(kept, boards, strict=True)],
    )


def paper_section(kept: Kept, board: Sequence[Standing]) -> dict[str, Any]:
    """Return all of one paper."""
    paper = kept.paper
    names = [experiment.name for experiment in paper.experiments]
    failed = [*kept.failures(names, "small"), *kept.failures(names, "paper")]
    return {
        "key": paper.key,
        "title": paper.title,
        "introduction": paper.introduction,
        "counts": counts_text(board),
        "scoreboard": scoreboard_table(board) if board else None,
        "figures": [figure_section(one, kept) for one in paper.figures],
        "experiments": [experiment_section(experiment, kept) for experiment in paper.experiments],
        "failures": failures_table(failed) if failed else None,
    }


def counts_text(rows: Sequence[Standing]) -> str:
    """Return how many claims have which verdict, in one sentence."""
    counts = ", ".join(
        f"{sum(row.status == status for row in rows)} {status}"
        for status in dict.fromkeys(row.status for row in rows)
    )
    return f"Of {len(rows)} claims: {counts}."


def scoreboard_table(rows: Sequence[Standing]) -> Table:
    """Return the scoreboard of one paper, each claim with its readings folded below it."""
    lines: list[list[Content]] = [
        [
            row.claim,
            row.says,
            Cell(row.measured, below=readings(row)),
            Cell(row.status, tone="good" if row.holds else "bad"),
            row.reason,
            row.scale,
        ]
        for row in rows
    ]
    return Table(["claim", "the paper says", "measured", "verdict", "why", "scale"], lines, copy=True)


def readings(row: Standing) -> Any:
    """Return the criterion and all readings of a claim, folded."""
    lines = [
        [
            one.reading,
            one.kind,
            one.rests_on,
            values_text(one) or one.measured,
            holds_text(one),
            f"{one.holding_seeds} of {one.seeds}" if one.seeds else "",
        ]
        for one in row.readings
    ]
    return fragment(
        "readings.html",
        count=counted(len(lines), "reading"),
        page=row.page,
        criterion=row.criterion + (" It was set after results had been seen." if row.after_looking else ""),
        proof=row.proof,
        table=Table(["reading", "kind", "rests on", "values", "holds", "seeds"], lines),
    )


def figure_section(one: Figure, kept: Kept) -> dict[str, Any]:
    """Return one figure or table with its caption, its scale and what its experiments took."""
    scale = kept.scale(one.experiments)
    outcomes = kept.outcomes(one.experiments, scale)
    lacking = kept.lacking(one.experiments, scale)
    table = picture = None
    if lacking:
        pass
    elif one.table is not None:
        grid = one.table(kept.results(one.experiments, scale))
        table = Table(grid.columns, [list(map(cell, row)) for row in grid.rows])
    else:
        source = address(page_picture(one, kept.results(one.experiments, scale)), "svg")
        picture = Picture(source, one.title, round(SIZE_INCHES[0] * PIXELS))
    return {
        "name": f"{name_of(one)}. {one.title}.",
        "caption": one.caption,
        "origin": (
            f"Scale: {scale}; from {', '.join(one.experiments)}, {len(outcomes)} cells, {total_s(outcomes):,.1f} s."
        ),
        "lacking": lacking,
        "table": table,
        "picture": picture,
    }


def experiment_section(experiment: Experiment, kept: Kept) -> dict[str, Any]:
    """Return an experiment's parameters at the scale that is shown, seeds among them, and what it took."""
    scale = kept.scale([experiment.name])
    outcomes = kept.outcomes([experiment.name], scale)
    parameters: dict[str, dict[Value, None]] = {}
    for outcome in outcomes:
        for key, value in outcome.cell.items():
            parameters.setdefault(key, {})[value] = None
    versions = ", ".join(sorted({outcome.covey for outcome in outcomes}))
    return {
        "name": experiment.name,
        "title": experiment.title,
        "origin": (
            f"Scale {scale}, {counted(len(outcomes), 'cell')}, {total_s(outcomes):,.1f} s, version "
            f"{experiment.version} of the experiment, computed with Covey {versions}."
            if outcomes
            else "Not computed yet."
        ),
        "parameters": Table(
            ["parameter", "values"], [[key, listed(values)] for key, values in parameters.items()]
        )
        if parameters
        else None,
    }


def failures_table(outcomes: Sequence[Outcome]) -> Table:
    """Return the cells that failed."""
    return Table(
        ["experiment", "parameters", "error"],
        [[one.experiment, parameters_text(one.cell), one.error or ""] for one in outcomes],
    )


# -- small parts -------------------------------------------------------------------------------------------------


def cell(value: object) -> Cell:
    """Return a value as a cell, numbers to the right."""
    return Cell(cell_text(value), is_number=isinstance(value, int | float))


def listed(values: Iterable[Value]) -> str:
    """Return the values of a parameter, the first and last of many."""
    texts = [cell_text(value) if isinstance(value, float) else str(value) for value in values]
    if len(texts) > MAX_LISTED:
        half = MAX_LISTED // 2
        texts = [*texts[:half], f"… ({len(texts)} values) …", *texts[-half:]]
    return ", ".join(texts)


def parameters_text(cell: dict[str, Value]) -> str:
    """Return the parameters of a cell in one line."""
    return ", ".join(f"{key}={value}" for key, value in cell.items())


def total_s(outcomes: Iterable[Outcome]) -> float:
    """Return how long the cells took, together."""
    return sum(outcome.wall_s for outcome in outcomes)
