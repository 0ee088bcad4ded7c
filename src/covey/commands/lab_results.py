"""What the commands of `covey lab` share: results that are computed where they are missing, shown, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from covey.commands.output import progress_lines
from covey.errors import ConfigError

# What belongs to the lab is loaded by the functions that use it: it brings the compiler, Arrow and Spark.
if TYPE_CHECKING:
    from covey.lab.experiment import Scale
    from covey.lab.figure import Figure, Paper
    from covey.lab.outcome import Outcome
    from covey.lab.runner import Step, Task
    from covey.lab.scoreboard import Standing
    from covey.lab.store import Store


def about(paper: Paper) -> dict[str, Any]:
    """Return what there is of a paper."""
    return {
        "paper": paper.key,
        "title": paper.title,
        "figures": [{"number": figure.number, "title": figure.title} for figure in paper.figures],
        "experiments": [
            {
                "name": one.name,
                "title": one.title,
                "small": len(one.cells("small")),
                "paper": len(one.cells("paper")),
            }
            for one in paper.experiments
        ],
        "claims": [claim.id for claim in paper.claims],
    }


def where(on: str, paper: str, master: str | None) -> tuple[str | None, list[Paper]]:
    """Return where cells run, and what there is of a paper there; brokers run beside this process, without Spark."""
    from covey.lab.papers import chosen, on_brokers
    from covey.lab.runner import HERE

    if on == "simulator":
        return master, chosen(paper)
    if on != "brokers":
        raise ConfigError(f"expected --on simulator or --on brokers, not {on!r:.40}")
    if master not in (None, HERE):
        raise ConfigError("brokers are started on this machine (hint: --on brokers without --master)")
    return HERE, on_brokers(paper)


def figures_wanted(papers: Sequence[Paper], number: str | None) -> list[tuple[Paper, list[Figure]]]:
    """Return the papers with the figures to draw; ConfigError if no paper has that figure."""
    from covey.lab.papers import figures_of

    found = [(paper, figures_of(paper, number)) for paper in papers]
    if number is not None and not any(figures for _, figures in found):
        there = ", ".join(figure.number for paper in papers for figure in paper.figures)
        raise ConfigError(f"there is no figure {number!r:.40} (hint: {there[:300]})")
    return found


def use_data(directory: Path | None) -> None:
    """Take data files from a directory, if one is given."""
    from covey.lab import data

    data.use(directory)


def open_store(directory: Path) -> Store:
    """Return the store in a directory, which tells of damaged files on standard error."""
    from covey.lab.store import Store

    return Store(directory, lambda line: typer.echo(f"covey: {line}", err=True))


def complete(papers: Sequence[Paper], store: Store, master: str | None) -> list[Outcome]:
    """Compute at small scale what claims and figures of these papers lack; return the cells that failed."""
    from covey.lab.runner import tasks
    from covey.lab.scoreboard import needed

    experiments = [experiment for paper in papers for experiment in needed(paper, store)]
    return compute(store, tasks(store, experiments, "small"), master)


def compute(store: Store, todo: Sequence[Task], master: str | None) -> list[Outcome]:
    """Compute cells while showing how far it is; report those that failed on standard error and return them."""
    from covey.lab.runner import run as run_tasks

    with progress_lines("lab") as tell:
        failed = run_tasks(
            store, todo, master, lambda step: tell(step_text(step), step.done in (0, step.total))
        )
    for outcome in failed:
        parameters = ", ".join(f"{key}={value}" for key, value in outcome.cell.items())
        typer.echo(f"covey: {outcome.experiment} failed with {parameters}: {outcome.error}", err=True)
    return failed


def draw_all(
    paper: Paper, figures: Sequence[Figure], store: Store, scale: Scale, directory: Path, form: Any
) -> list[dict[str, Any]]:
    """Draw figures at one scale; return for each its file, or why there is none, and what its cells took."""
    from covey.lab.drawing import name_of, write_figure
    from covey.lab.scoreboard import Kept

    kept = Kept(paper, store)
    rows = []
    for figure in figures:
        outcomes = kept.outcomes(figure.experiments, scale)
        problem = kept.lacking(figure.experiments, scale)
        path = (
            None
            if problem
            else write_figure(figure, kept.results(figure.experiments, scale), directory, form)
        )
        rows.append(
            {
                "figure": f"{paper.key} {name_of(figure)}",
                "file": None if path is None else str(path),
                "problem": problem and f"{paper.key} {name_of(figure)}: {problem}",
                "cells": len(outcomes),
                "wall_s": sum(outcome.wall_s for outcome in outcomes),
            }
        )
    return rows


def failure_row(outcome: Outcome) -> dict[str, Any]:
    """Return a failed cell for JSON."""
    return {"experiment": outcome.experiment, "cell": outcome.cell, "error": outcome.error}


def step_text(step: Step) -> str:
    """Return a line of progress."""
    line = f"lab: {step.done} of {step.total} cells"
    outcome = step.outcome
    return line if outcome is None else f"{line}, last {outcome.experiment} in {outcome.wall_s:.1f} s"


def standing_row(row: Standing) -> dict[str, Any]:
    """Return a claim for JSON, its readings among it."""
    found = row._asdict()
    found["readings"] = [
        {**one._asdict(), "spread": {name: spread._asdict() for name, spread in one.spread.items()}}
        for one in row.readings
    ]
    return found


def scoreboard_table(rows: Sequence[Standing]) -> Table:
    """Return all claims as a table for a terminal."""
    found = Table(title=f"{sum(row.holds for row in rows)} of {len(rows)} claims hold", show_lines=True)
    for name in ("claim", "the paper says", "measured", "verdict", "reading", "why", "scale"):
        found.add_column(name)
    for row in rows:
        verdict = f"[green]{row.status}[/]" if row.holds else f"[red]{row.status}[/]"
        texts = map(escape, (row.claim, row.says, row.measured))
        found.add_row(*texts, verdict, escape(row.reading), escape(row.proof or row.reason), row.scale)
    return found
