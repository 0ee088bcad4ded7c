"""The report: one HTML page with everything, figures and all, that needs no other file and no network.

For each paper its scoreboard, its figures and tables with captions, and its experiments with parameters, seeds,
failures and times. All texts are escaped; pictures are SVG files inside the page, as data.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from covey import __version__
from covey.advisor.page import figure, page, table
from covey.lab.document import holds_text, values_text
from covey.lab.drawing import cell_text, name_of, page_picture
from covey.lab.experiment import Experiment, Value
from covey.lab.figure import Figure, Paper
from covey.lab.outcome import Outcome
from covey.lab.scoreboard import Kept, Standing, standings
from covey.lab.store import Store

MAX_LISTED = 12
INTRODUCTION = (
    "What the papers report, beside what Covey's own code measures. Figures and claims are computed from kept results, "
    "at the papers' scale where all of them are kept and at a small scale otherwise; each says which."
)

STYLE = """
td .picture, figure { margin: .6rem 0 }
td details { min-width: 14rem; font-weight: 400 }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1rem }
.figures img { width: 100%; max-width: 38rem }
.verdict { font-weight: 600 }
"""


def report(papers: Iterable[Paper], store: Store) -> str:
    """Return the page."""
    kept = [Kept(paper, store) for paper in papers]
    boards = [standings(one) for one in kept]
    links = " · ".join(f'<a href="#{escape(one.paper.key)}">{escape(one.paper.title)}</a>' for one in kept)
    judged = [row for board in boards for row in board]
    first = counts_text(judged) if judged else " ".join(one.paper.introduction for one in kept)
    lead = (
        f'<section class="lead"><p>{escape(first)}</p>'
        f"<p>{INTRODUCTION if judged else ''} Covey {escape(__version__)}.</p><p>{links}</p></section>"
    )
    sections = [paper_section(one, board) for one, board in zip(kept, boards, strict=True)]
    return page("The papers, reproduced" if judged else kept[0].paper.title, [lead, *sections], STYLE)


def paper_section(kept: Kept, board: Sequence[Standing]) -> str:
    """Return all of one paper."""
    paper = kept.paper
    names = [experiment.name for experiment in paper.experiments]
    return "\n".join(
        [
            f'<section><h2 id="{escape(paper.key)}">{escape(paper.key)}: {escape(paper.title)}</h2>',
            "<h3>Scoreboard</h3>" + scoreboard_table(board) if board else "",
            '<h3>Figures and tables</h3><div class="figures">',
            *(figure_section(one, kept) for one in paper.figures),
            "</div><h3>Experiments</h3>",
            *(experiment_section(experiment, kept) for experiment in paper.experiments),
            failures_section([*kept.failures(names, "small"), *kept.failures(names, "paper")]),
            "</section>",
        ]
    )


def counts_text(rows: Sequence[Standing]) -> str:
    """Return how many claims have which verdict, in one sentence."""
    counts = ", ".join(
        f"{sum(row.status == status for row in rows)} {status}"
        for status in dict.fromkeys(row.status for row in rows)
    )
    return f"Of {len(rows)} claims: {counts}."


def scoreboard_table(rows: Sequence[Standing]) -> str:
    """Return the scoreboard of one paper, each claim with its readings folded below it."""
    lines = [
        [
            escape(row.claim),
            escape(row.says),
            escape(row.measured) + readings_table(row),
            f'<span class="verdict {"good" if row.holds else "bad"}">{escape(row.status)}</span>',
            escape(row.reason),
            escape(row.scale),
        ]
        for row in rows
    ]
    heads = ["claim", "the paper says", "measured", "verdict", "why", "scale"]
    return f"<p>{escape(counts_text(rows))}</p>" + table(heads, lines, copy=True)


def readings_table(row: Standing) -> str:
    """Return the criterion and all readings of a claim, folded."""
    when = " It was set after results had been seen." if row.after_looking else ""
    proof = f"<p>Proof that it cannot hold: {escape(row.proof)}</p>" if row.proof else ""
    lines = [
        [
            escape(one.reading),
            escape(one.kind),
            escape(one.rests_on),
            escape(values_text(one) or one.measured),
            escape(holds_text(one)),
            f"{one.holding_seeds} of {one.seeds}" if one.seeds else "",
        ]
        for one in row.readings
    ]
    heads = ["reading", "kind", "rests on", "values", "holds", "seeds"]
    return (
        f"<details><summary>{len(row.readings)} readings</summary><p>{escape(row.page)}: "
        f"{escape(row.criterion + when)}</p>{proof}{table(heads, lines)}</details>"
    )


def figure_section(one: Figure, kept: Kept) -> str:
    """Return one figure or table with its caption, its scale and what its experiments took."""
    scale = kept.scale(one.experiments)
    outcomes = kept.outcomes(one.experiments, scale)
    lacking = kept.lacking(one.experiments, scale)
    if lacking:
        content = f'<p class="bad">Not drawn: {escape(lacking)}</p>'
    elif one.table is not None:
        grid = one.table(kept.results(one.experiments, scale))
        content = table([escape(head) for head in grid.columns], [list(map(cell, row)) for row in grid.rows])
    else:
        drawn = b64encode(page_picture(one, kept.results(one.experiments, scale))).decode()
        content = f'<img alt="{escape(one.title)}" src="data:image/svg+xml;base64,{drawn}">'
    caption = (
        f"<b>{escape(name_of(one))}. {escape(one.title)}.</b> {escape(one.caption)} Scale: {scale}; "
        f"from {escape(', '.join(one.experiments))}, {len(outcomes)} cells, {total_s(outcomes):,.1f} s."
    )
    return figure(content, caption)


def experiment_section(experiment: Experiment, kept: Kept) -> str:
    """Return an experiment's parameters at the scale that is shown, seeds among them, and what it took."""
    scale = kept.scale([experiment.name])
    outcomes = kept.outcomes([experiment.name], scale)
    parameters: dict[str, dict[Value, None]] = {}
    for outcome in outcomes:
        for key, value in outcome.cell.items():
            parameters.setdefault(key, {})[value] = None
    versions = ", ".join(sorted({outcome.covey for outcome in outcomes})) or "none"
    return (
        f"<h4>{escape(experiment.name)}: {escape(experiment.title)}</h4>"
        f'<p class="fine">Scale {scale}, {len(outcomes)} cells, {total_s(outcomes):,.1f} s, version '
        f"{experiment.version} of the experiment, computed with Covey {escape(versions)}.</p>"
        + table(
            ["parameter", "values"], [[escape(key), listed(values)] for key, values in parameters.items()]
        )
    )


def failures_section(outcomes: Sequence[Outcome]) -> str:
    """Return the cells that failed, if any did."""
    if not outcomes:
        return ""
    lines = [
        [escape(one.experiment), escape(parameters_text(one.cell)), escape(one.error or "")]
        for one in outcomes
    ]
    return "<h3>Cells that failed</h3>" + table(["experiment", "parameters", "error"], lines)


# -- small parts -------------------------------------------------------------------------------------------------


def cell(value: object) -> str:
    """Return a value as a cell, numbers to the right."""
    kind = ' class="number"' if isinstance(value, int | float) else ""
    return f"<td{kind}>{escape(cell_text(value))}</td>"


def listed(values: Iterable[Value]) -> str:
    """Return the values of a parameter, the first and last of many."""
    texts = [escape(cell_text(value) if isinstance(value, float) else str(value)) for value in values]
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
