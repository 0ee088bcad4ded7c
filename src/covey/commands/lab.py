"""`covey lab`: the papers' figures and claims from our own code, computed once, kept, and shown from what is kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from covey.commands.output import print_json
from covey.errors import ConfigError

# What belongs to the lab is loaded by the functions that use it: it brings the compiler, Arrow and Spark.
if TYPE_CHECKING:
    from covey.lab.experiment import Experiment, Scale
    from covey.lab.figure import Figure, Paper
    from covey.lab.outcome import Outcome
    from covey.lab.runner import Progress, Step, Task
    from covey.lab.store import Store

QUIET_S = 5.0  # between lines of progress where there is no terminal

app = typer.Typer(help="The papers' figures and claims, from our own code.", no_args_is_help=True)

Jobs = Annotated[
    str,
    typer.Option(
        metavar="MASTER", help="Where cells run: local, local[2], spark://host:7077; here is without Spark."
    ),
]
Directory = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where results are kept.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where data files of others are, if you have them (docs/lab.md)."),
]
RESULTS = Path("lab-results")


@app.command("list")
def list_(json: Json = False) -> None:
    """List papers, figures, experiments with their numbers of cells, and claims."""
    from covey.lab.papers import papers

    found = [about(paper) for paper in papers()]
    if json:
        print_json(found)
        return
    for paper in found:
        typer.echo(typer.style(f"{paper['paper']}  {paper['title']}", bold=True))
        for figure in paper["figures"]:
            typer.echo(f"  {figure['number'].ljust(10)} {figure['title']}")
        for one in paper["experiments"]:
            typer.echo(f"  {one['name']}: {one['title']} (cells: {one['small']} small, {one['paper']} paper)")
        typer.echo(f"  claims: {', '.join(paper['claims'])}\n")


@app.command()
def run(
    paper: Annotated[str, typer.Argument(help="R, C, X, W, M, or all.")],
    figure: Annotated[str | None, typer.Option(help="Only this figure or table: 7, 7a, 'Table II'.")] = None,
    scale: Annotated[str, typer.Option(help="small, or paper for the papers' sizes.")] = "small",
    jobs: Jobs = "local",
    results: Directory = RESULTS,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to draw; by default, figures-<scale> among results."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="png or svg.")] = "png",
    data: Data = None,
    json: Json = False,
) -> None:
    """Compute what is missing, keep it, and draw the figures from what is kept.

    Interrupted, it goes on where it stopped. Exit code 1 if a cell failed or a figure could not be drawn.
    """
    from covey.lab.drawing import FORMATS
    from covey.lab.experiment import SCALES
    from covey.lab.papers import chosen, experiments_of
    from covey.lab.runner import tasks

    the_scale = next((one for one in SCALES if one == scale), None)
    the_format = next((one for one in FORMATS if one == form), None)
    if the_scale is None or the_format is None:
        raise ConfigError("expected --scale small or --scale paper, and --format png or --format svg")
    wanted = figures_wanted(chosen(paper), figure)
    use_data(data)
    store = open_store(results)
    experiments: list[Experiment] = []
    for one, drawn in wanted:
        names = [name for each in drawn for name in each.experiments]
        experiments += one.experiments if figure is None else experiments_of(one, names)
    failed = compute(store, tasks(store, experiments, the_scale), jobs)
    directory = figures or results / f"figures-{the_scale}"
    rows = [
        row for one, drawn in wanted for row in draw_all(one, drawn, store, the_scale, directory, the_format)
    ]
    if json:
        print_json({"figures": rows, "failed": [failure_row(outcome) for outcome in failed]})
    else:
        for row in rows:
            typer.echo(
                f"{row['file'] or 'not drawn: ' + row['problem']}  ({row['cells']} cells, {row['wall_s']:,.1f} s)"
            )
    raise typer.Exit(1 if failed or any(row["problem"] for row in rows) else 0)


@app.command()
def scoreboard(
    json: Json = False, jobs: Jobs = "local", results: Directory = RESULTS, data: Data = None
) -> None:
    """Print every claim: what the paper says, what was measured, whether it holds, and why.

    From results at the papers' scale where they are all kept; else from small ones, computing those that are missing.
    Exit code 1 if a cell failed.
    """
    from covey.lab.papers import papers
    from covey.lab.scoreboard import scoreboard as judge

    use_data(data)
    store = open_store(results)
    failed = complete(store, jobs)
    rows = judge(papers(), store)
    if json:
        print_json([row._asdict() for row in rows])
    else:
        table = Table(title=f"{sum(row.holds for row in rows)} of {len(rows)} claims hold", show_lines=True)
        for name in ("claim", "the paper says", "measured", "holds", "why", "scale"):
            table.add_column(name)
        for row in rows:
            holds = "[green]yes[/]" if row.holds else "[red]no[/]"
            texts = map(escape, (row.claim, row.says, row.measured))
            table.add_row(*texts, holds, escape(row.reason), row.scale)
        console = Console()
        (console if console.is_terminal else Console(width=200)).print(table)
    raise typer.Exit(1 if failed else 0)


@app.command()
def report(
    output: Annotated[Path, typer.Option(metavar="FILE", help="The page.")] = Path("lab-report.html"),
    jobs: Jobs = "local",
    results: Directory = RESULTS,
    data: Data = None,
) -> None:
    """Write one self-contained HTML page: figures, tables, parameters, seeds and the scoreboard.

    Takes results as `scoreboard` does. Exit code 1 if a cell failed.
    """
    from covey.lab.drawing import write
    from covey.lab.papers import papers
    from covey.lab.report import report as page

    check_output(output)
    use_data(data)
    store = open_store(results)
    failed = complete(store, jobs)
    write(output, page(papers(), store).encode())
    typer.echo(str(output))
    raise typer.Exit(1 if failed else 0)


@app.command()
def document(
    output: Annotated[Path, typer.Option(metavar="FILE", help="The page, in Markdown.")] = Path("papers.md"),
    jobs: Jobs = "local",
    results: Directory = RESULTS,
    data: Data = None,
) -> None:
    """Write the scoreboard and all figures as Markdown, with pictures in a directory of the same name.

    Takes results as `scoreboard` does. Exit code 1 if a cell failed or a figure could not be drawn.
    """
    from covey.lab.document import write_document
    from covey.lab.papers import papers

    check_output(output)
    use_data(data)
    store = open_store(results)
    failed = complete(store, jobs)
    problems = write_document(papers(), store, output)
    for problem in problems:
        typer.echo(f"covey: {problem}", err=True)
    typer.echo(str(output))
    raise typer.Exit(1 if failed or problems else 0)


# -- the work ------------------------------------------------------------------------------------------------


def check_output(output: Path) -> None:
    """Raise ConfigError, before anything is computed, if no file can be written there."""
    if not output.parent.is_dir() or output.is_dir():
        raise ConfigError(f"--output {str(output)!r:.80}: expected a file in a directory that is there")


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


def complete(store: Store, jobs: str) -> list[Outcome]:
    """Compute at small scale what claims and figures lack; return the cells that failed."""
    from covey.lab.papers import papers
    from covey.lab.runner import tasks
    from covey.lab.scoreboard import needed

    experiments = [experiment for paper in papers() for experiment in needed(paper, store)]
    return compute(store, tasks(store, experiments, "small"), jobs)


def compute(store: Store, todo: Sequence[Task], jobs: str) -> list[Outcome]:
    """Compute cells while showing how far it is; report those that failed on standard error and return them."""
    from covey.lab.runner import run as run_tasks

    with shown() as tell:
        failed = run_tasks(store, todo, jobs, tell)
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
        path, problem = write_figure(figure, kept.results(figure.experiments, scale), directory, form)
        rows.append(
            {
                "figure": f"{paper.key} {name_of(figure)}",
                "file": None if path is None else str(path),
                "problem": problem,
                "cells": len(outcomes),
                "wall_s": sum(outcome.wall_s for outcome in outcomes),
            }
        )
    return rows


def failure_row(outcome: Outcome) -> dict[str, Any]:
    """Return a failed cell for JSON."""
    return {"experiment": outcome.experiment, "cell": outcome.cell, "error": outcome.error}


@contextmanager
def shown() -> Iterator[Progress]:
    """Show on standard error how far a run is: in place on a terminal, otherwise a line now and then."""
    console = Console(stderr=True)
    said_s = time.monotonic()

    with console.status("lab") as status:

        def tell(step: Step) -> None:
            nonlocal said_s
            line = step_text(step)
            if console.is_terminal:
                status.update(escape(line))
            elif step.done in (0, step.total) or time.monotonic() - said_s > QUIET_S:
                said_s = time.monotonic()
                print(line, file=sys.stderr, flush=True)

        yield tell


def step_text(step: Step) -> str:
    """Return a line of progress."""
    line = f"lab: {step.done} of {step.total} cells"
    outcome = step.outcome
    return line if outcome is None else f"{line}, last {outcome.experiment} in {outcome.wall_s:.1f} s"
