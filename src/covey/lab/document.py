"""The document: the scoreboard and all figures as one Markdown file, with the pictures beside it.

It is what the repository keeps of a run at the papers' scale. Every figure comes with the command that makes it, the
scale it was made at and the time its cells took.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from covey.lab.drawing import drawn, file_name, markdown, name_of, write
from covey.lab.figure import Figure, Grid, Paper
from covey.lab.outcome import LACKING, describe
from covey.lab.scoreboard import Kept, Standing, standings
from covey.lab.store import Store

INTRODUCTION = """\
# The papers, reproduced

What the papers report, beside what Covey's own code measures. Everything on this page is computed from kept results:

    covey lab run all --scale paper
    covey lab document --out docs/papers.md

[The lab](lab.md) says how it works, and how to read one figure at a small scale in a minute. Times are the sum over a
figure's cells on one core each; figures that share experiments share their cells.
"""


def write_document(papers: Iterable[Paper], store: Store, output: Path) -> list[str]:
    """Write the document and its pictures, to a directory of the same name; return what could not be drawn."""
    pictures = output.with_suffix("")
    problems: list[str] = []
    kept = [Kept(paper, store) for paper in papers]
    judged = [standings(one) for one in kept]
    parts = [INTRODUCTION, summary(judged)]
    for one, rows in zip(kept, judged, strict=True):
        parts.append(f"## {one.paper.key}: {one.paper.title}\n")
        parts.append(markdown(scoreboard_grid(rows)))
        for figure in one.paper.figures:
            part, problem = figure_part(figure, one, pictures)
            parts.append(part)
            problems += [problem] if problem else []
    write(output, "\n".join(parts).encode())
    return problems


def summary(judged: Iterable[Iterable[Standing]]) -> str:
    """Return how many claims hold, and which do not."""
    rows = [row for rows in judged for row in rows]
    failing = ", ".join(row.claim for row in rows if not row.holds)
    return f"{sum(row.holds for row in rows)} of {len(rows)} claims hold; {failing or 'none'} do not.\n"


def scoreboard_grid(rows: Iterable[Standing]) -> Grid:
    """Return the scoreboard of one paper as a table."""
    return Grid(
        ("claim", "the paper says", "measured", "holds", "why", "scale"),
        [
            (row.claim, row.says, row.measured, "yes" if row.holds else "**no**", row.reason, row.scale)
            for row in rows
        ],
    )


def figure_part(figure: Figure, kept: Kept, pictures: Path) -> tuple[str, str]:
    """Return a figure with caption and command, and what was wrong if it could not be drawn."""
    scale = kept.scale(figure.experiments)
    outcomes = kept.outcomes(figure.experiments, scale)
    results = kept.results(figure.experiments, scale)
    lines = [f"### {figure.paper} {name_of(figure)}: {figure.title}", ""]
    problem = ""
    try:
        content, suffix = drawn(figure, results, "svg")
    except LACKING as error:
        problem = f"{figure.paper} {name_of(figure)}: {describe(error)}"
        lines += [f"Not drawn: {problem}", ""]
    else:
        if figure.table is not None:
            lines.append(content.decode())
        else:
            name = file_name(figure, suffix)
            write(pictures / name, content)
            lines += [f"![{figure.title}]({pictures.name}/{name})", ""]
    number = f"'{figure.number}'" if " " in figure.number else figure.number
    total_s = sum(outcome.wall_s for outcome in outcomes)
    lines += [figure.caption, "", f"    covey lab run {figure.paper} --figure {number} --scale {scale}", ""]
    lines.append(f"{len(outcomes)} cells, {total_s:,.0f} s.\n")
    return "\n".join(lines), problem
