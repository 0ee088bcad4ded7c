"""The document: scoreboard, readings of every claim and all figures as one Markdown file, with pictures beside it.

Every figure comes with the command that makes it, the scale it was made at and the time its cells took. Every verdict
has the scale of the cells that it was computed from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from covey.lab.drawing import cell_text, drawn, file_name, markdown, name_of, write
from covey.lab.figure import Figure, Grid, Paper
from covey.lab.scoreboard import Judged, Kept, Standing, Status, standings
from covey.lab.store import Store

INTRODUCTION = """\
# The papers, reproduced

This page compares what the papers report with what Covey's own code measures. It is generated from stored results:

    covey lab run all
    covey lab document --out docs/papers.md

[The lab](lab.md) says how it works. A *cell* is one combination of an experiment's parameters. The time of a figure is
the sum over its cells, on one core each; figures that share experiments share their cells. Rows and figures name the
scale at which they were computed: `paper` has the papers' sizes, `small` has sizes that a laptop computes in minutes.

A claim is judged under every *reading* that we know: every way to understand the paper's text. A claim holds *as
printed*, or it holds *under a reading* that a sentence of the text supports, or it is *contradicted*. A *probe* has no
support in the text and does not affect the verdict. It shows how far the verdict depends on a parameter. A number with
a range is the value over all seeds, with the least and the greatest value of a single seed.
"""
STATUSES: tuple[Status, ...] = ("as printed", "under a reading", "contradicted", "not judged")


def write_document(papers: Iterable[Paper], store: Store, output: Path) -> list[str]:
    """Write the document and its pictures, to a directory of the same name; return what could not be drawn."""
    pictures = output.with_suffix("")
    problems: list[str] = []
    kept = [Kept(paper, store) for paper in papers]
    judged = [standings(one) for one in kept]
    parts = [INTRODUCTION, summary(judged)] if any(judged) else []
    for one, rows in zip(kept, judged, strict=True):
        parts += heading(one.paper, rows)
        parts += [readings_part(row) for row in rows]
        for figure in one.paper.figures:
            part, problem = figure_part(figure, one, pictures)
            parts.append(part)
            problems += [problem] if problem else []
    write(output, "\n".join(parts).encode())
    return problems


def heading(paper: Paper, rows: Sequence[Standing]) -> list[str]:
    """Return what a paper's part begins with: its scoreboard, or what it is if it has no claims."""
    if rows:
        return [f"## {paper.key}: {paper.title}\n", markdown(scoreboard_grid(rows))]
    command = f"    covey lab run {paper.key}\n    covey lab document --paper {paper.key}\n"
    return [f"# {paper.title}\n\n{paper.introduction}\n\n{command}"]


def summary(judged: Iterable[Iterable[Standing]]) -> str:
    """Return how many claims hold in which way, and which."""
    rows = [row for rows in judged for row in rows]
    lines = []
    for status in STATUSES:
        found = [row.claim for row in rows if row.status == status]
        lines.append((status, len(found), ", ".join(found)))
    return markdown(Grid(("verdict", f"of {len(rows)} claims", "which"), lines))


def scoreboard_grid(rows: Iterable[Standing]) -> Grid:
    """Return the scoreboard of one paper as a table."""
    return Grid(
        ("claim", "the paper says", "verdict", "measured", "scale"),
        [
            (
                row.claim,
                row.says,
                f"**{row.status}**" if not row.holds else row.status,
                row.measured,
                row.scale,
            )
            for row in rows
        ],
    )


def readings_part(row: Standing) -> str:
    """Return the criterion of a claim, all of its readings with their numbers, and the proof if there is one."""
    when = " It was set after results had been seen." if row.after_looking else ""
    best = row.best_supported
    lines = [
        f"**{row.claim}** ({row.page}): {row.status}. Criterion: {row.criterion}{when}",
        f"Best supported: *{best.reading}*. {best.rests_on}".rstrip(),
    ]
    lines += [f"Why: {row.reason}"] if row.reason else []
    lines += [f"Proof that it cannot hold: {row.proof}"] if row.proof else []
    return "\n\n".join([*lines, markdown(readings_grid(row.readings))])


def readings_grid(readings: Sequence[Judged]) -> Grid:
    """Return the readings of a claim: what each rests on, its values with their spread, and whether it holds there."""
    return Grid(
        ("reading", "kind", "rests on", "values", "holds", "seeds", "scale"),
        [
            (
                one.reading,
                one.kind,
                one.rests_on,
                values_text(one) or one.measured,
                holds_text(one),
                f"{one.holding_seeds} of {one.seeds}" if one.seeds else "",
                one.scale,
            )
            for one in readings
        ],
    )


def holds_text(one: Judged) -> str:
    """Return a verdict on one reading in a word."""
    return "not judged" if one.holds is None else "yes" if one.holds else "no"


def values_text(one: Judged) -> str:
    """Return the numbers that decide, with the least and greatest over seeds."""
    texts = []
    for name, (value, least, most) in one.spread.items():
        spread = f" ({cell_text(least)} to {cell_text(most)})" if one.seeds else ""
        texts.append(f"{name} {cell_text(value)}{spread}")
    return "; ".join(texts)


def figure_part(figure: Figure, kept: Kept, pictures: Path) -> tuple[str, str]:
    """Return a figure with caption and command, and what was wrong if it could not be drawn."""
    scale = kept.scale(figure.experiments)
    outcomes = kept.outcomes(figure.experiments, scale)
    results = kept.results(figure.experiments, scale)
    lines = [f"### {figure.paper} {name_of(figure)}: {figure.title}", ""]
    lacking = kept.lacking(figure.experiments, scale)
    problem = f"{figure.paper} {name_of(figure)}: {lacking}" if lacking else ""
    if problem:
        lines += [f"Not drawn: {problem}", ""]
    else:
        content, suffix = drawn(figure, results, "svg")
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
