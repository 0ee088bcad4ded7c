"""The report: one HTML page with everything, figures and all, that needs no other file and no network.

For each paper its scoreboard, its figures and tables with captions, and its experiments with parameters, seeds,
failures and times. All texts are escaped; pictures are SVG files inside the page, as data.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from covey import __version__
from covey.lab.drawing import cell_text, name_of, picture
from covey.lab.experiment import Experiment, Value
from covey.lab.figure import Figure, Paper
from covey.lab.outcome import LACKING, Outcome, describe
from covey.lab.scoreboard import Kept, Standing, standings
from covey.lab.store import Store

MAX_LISTED = 12
INTRODUCTION = (
    "What the papers report, beside what Covey's own code measures. Figures and claims are computed from kept results, "
    "at the papers' scale where all of them are kept and at a small scale otherwise; each says which."
)

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1, h2, h3 { line-height: 1.2 } h2 { margin-top: 3rem; border-bottom: 1px solid #bbb }
table { border-collapse: collapse; margin: .5rem 0 } td, th { padding: .25rem .6rem; text-align: left;
vertical-align: top; border-bottom: 1px solid #ddd } td.number { text-align: right }
.holds { color: #060; font-weight: bold } .not { color: #a00; font-weight: bold }
figure { display: inline-block; width: 34rem; max-width: 100%; margin: 1rem 1rem 1rem 0; vertical-align: top }
figure img { width: 100% } figcaption { font-size: .87rem } .fine { color: #666; font-size: .85rem }
"""


def report(papers: Iterable[Paper], store: Store) -> str:
    """Return the page."""
    kept = [Kept(paper, store) for paper in papers]
    links = " · ".join(f'<a href="#{escape(one.paper.key)}">{escape(one.paper.key)}</a>' for one in kept)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>Covey: the papers, reproduced</title><style>{STYLE}</style></head><body>",
            "<h1>The papers, reproduced</h1>",
            f"<p>{INTRODUCTION} Covey {escape(__version__)}. Papers: {links}</p>",
            *(paper_section(one) for one in kept),
            "</body></html>\n",
        ]
    )


def paper_section(kept: Kept) -> str:
    """Return all of one paper."""
    paper = kept.paper
    names = [experiment.name for experiment in paper.experiments]
    return "\n".join(
        [
            f'<h2 id="{escape(paper.key)}">{escape(paper.key)}: {escape(paper.title)}</h2>',
            "<h3>Scoreboard</h3>",
            scoreboard_table(standings(kept)),
            "<h3>Figures and tables</h3>",
            *(figure_section(figure, kept) for figure in paper.figures),
            "<h3>Experiments</h3>",
            *(experiment_section(experiment, kept) for experiment in paper.experiments),
            failures_section([*kept.failures(names, "small"), *kept.failures(names, "paper")]),
        ]
    )


def scoreboard_table(rows: Sequence[Standing]) -> str:
    """Return the scoreboard of one paper."""
    holding = sum(row.holds for row in rows)
    lines = [
        [
            escape(row.claim),
            escape(row.says),
            escape(row.measured),
            '<span class="holds">holds</span>' if row.holds else '<span class="not">does not hold</span>',
            escape(row.reason),
            escape(row.scale),
        ]
        for row in rows
    ]
    heads = ["claim", "the paper says", "measured", "verdict", "why", "scale"]
    return f"<p>{holding} of {len(rows)} claims hold.</p>" + table(heads, lines)


def figure_section(figure: Figure, kept: Kept) -> str:
    """Return one figure or table with its caption, its scale and what its experiments took."""
    scale = kept.scale(figure.experiments)
    results = kept.results(figure.experiments, scale)
    outcomes = kept.outcomes(figure.experiments, scale)
    try:
        if not results.has(figure.experiments):
            raise ValueError("there are no results for it")
        if figure.table is not None:
            grid = figure.table(results)
            content = table(
                [escape(head) for head in grid.columns], [list(map(cell, row)) for row in grid.rows]
            )
        else:
            data = b64encode(picture(figure, results, "svg")).decode()
            content = f'<img alt="{escape(figure.title)}" src="data:image/svg+xml;base64,{data}">'
    except LACKING as error:
        content = f'<p class="not">Not drawn: {escape(describe(error))}</p>'
    return (
        f"<figure>{content}<figcaption><b>{escape(name_of(figure))}. {escape(figure.title)}.</b> "
        f'{escape(figure.caption)} <span class="fine">Scale: {scale}; from {escape(", ".join(figure.experiments))}, '
        f"{len(outcomes)} cells, {total_s(outcomes):,.1f} s.</span></figcaption></figure>"
    )


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


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already."""
    head = "".join(f"<th>{text}</th>" for text in heads)
    body = "".join("<tr>" + "".join(map(in_cell, row)) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def in_cell(html: str) -> str:
    """Return HTML as a cell of a table, unless it is one."""
    return html if html.startswith("<td") else f"<td>{html}</td>"


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
