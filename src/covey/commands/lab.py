"""`covey lab`: the papers' figures and claims from our own code, computed once, kept, and shown from what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from covey.commands.help import Application
from covey.commands.lab_results import (
    about,
    complete,
    compute,
    draw_all,
    failure_row,
    figures_wanted,
    open_store,
    scoreboard_table,
    standing_row,
    use_data,
    where,
)
from covey.commands.options import OUT_DIR, Json, MasterOrHere, OutFile, beginning
from covey.commands.output import print_json, wide_console
from covey.errors import ConfigError
from covey.extras import require

# What belongs to the lab is loaded by the functions that use it: it brings the compiler, Arrow and Spark.
if TYPE_CHECKING:
    from covey.lab.experiment import Experiment

app = Application("The papers' figures and claims, from our own code.")

Directory = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where results are kept.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data-files", metavar="DIR", help="Where data files of others are, if you have them (docs/lab.md)."
    ),
]
RESULTS = Path("lab-results")


def complete_paper(incomplete: str) -> list[str]:
    """Return the papers whose letters begin so."""
    from covey.lab.papers import BESIDE, MODULES  # the papers themselves bring the compiler

    return beginning((*MODULES, *BESIDE, "all"), incomplete)


def complete_scale(incomplete: str) -> list[str]:
    """Return the scales whose names begin so."""
    return beginning(("small", "paper"), incomplete)


OfPaper = Annotated[
    str,
    typer.Option(
        "--paper",
        metavar="PAPER",
        help="R, C, X, W, M, all of these, or S: strategies compared.",
        autocompletion=complete_paper,
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="small|paper",
        help="The sizes: small ones, or the papers' own.",
        autocompletion=complete_scale,
    ),
]


@app.command("list")
def list_(json: Json = False) -> None:
    """List papers, figures, experiments with their numbers of cells, and claims."""
    require("lab", "covey lab")
    from covey.lab.papers import everything

    found = [about(paper) for paper in everything()]
    if json:
        print_json(found)
        return
    for paper in found:
        typer.echo(typer.style(f"{paper['paper']}  {paper['title']}", bold=True))
        for figure in paper["figures"]:
            typer.echo(f"  {figure['number'].ljust(10)} {figure['title']}")
        for one in paper["experiments"]:
            typer.echo(f"  {one['name']}: {one['title']} (cells: {one['small']} small, {one['paper']} paper)")
        typer.echo(f"  claims: {', '.join(paper['claims']) or 'none'}\n")


@app.command()
def run(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="R, C, X, W, M, all of these, or S: strategies compared.",
            autocompletion=complete_paper,
        ),
    ],
    figure: Annotated[
        str | None,
        typer.Option("--figure", metavar="NUMBER", help="Only this figure or table: 7, 7a, 'Table II'."),
    ] = None,
    scale: Scale = "small",
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="simulator|brokers",
            help="With brokers: the runs of R and C that real brokers of this machine can play, beside the simulator.",
        ),
    ] = "simulator",
    master: MasterOrHere = None,
    results: Directory = RESULTS,
    out: Annotated[Path | None, OUT_DIR] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="png|svg", help="The format of figures that are drawn.")
    ] = "png",
    data: Data = None,
    json: Json = False,
) -> None:
    """Compute what is missing, keep it, and draw the figures from what is kept.

    Interrupted, it goes on where it stopped. Figures are drawn into a directory for the scale among the results, unless
    --out names another. Exit code 1 if a cell failed or a figure could not be drawn.
    """
    require("lab", "covey lab")
    from covey.lab.drawing import FORMATS
    from covey.lab.experiment import SCALES
    from covey.lab.papers import experiments_of
    from covey.lab.runner import tasks

    the_scale = next((one for one in SCALES if one == scale), None)
    the_format = next((one for one in FORMATS if one == form), None)
    if the_scale is None or the_format is None:
        raise ConfigError("expected --scale small or --scale paper, and --format png or --format svg")
    master, papers = where(on, paper, master)
    wanted = figures_wanted(papers, figure)
    use_data(data)
    store = open_store(results)
    experiments: list[Experiment] = []
    for one, drawn in wanted:
        names = [name for each in drawn for name in each.experiments]
        experiments += one.experiments if figure is None else experiments_of(one, names)
    failed = compute(store, tasks(store, experiments, the_scale), master)
    directory = out or results / f"figures-{the_scale}"
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
    json: Json = False, master: MasterOrHere = None, results: Directory = RESULTS, data: Data = None
) -> None:
    """Print every claim: what the paper says, what was measured, and whether it holds as printed or under a reading.

    From results at the papers' scale where they are all kept; else from small ones, computing those that are missing.
    Exit code 1 if a cell failed.
    """
    require("lab", "covey lab")
    from covey.lab.papers import papers
    from covey.lab.scoreboard import scoreboard as judge

    use_data(data)
    store = open_store(results)
    judged = papers()
    failed = complete(judged, store, master)
    rows = judge(judged, store)
    if json:
        print_json([standing_row(row) for row in rows])
    else:
        wide_console().print(scoreboard_table(rows))
    raise typer.Exit(1 if failed else 0)


@app.command()
def report(
    out: OutFile = Path("lab-report.html"),
    paper: OfPaper = "all",
    master: MasterOrHere = None,
    results: Directory = RESULTS,
    data: Data = None,
) -> None:
    """Write one self-contained HTML page: figures, tables, parameters, seeds and the scoreboard.

    Takes results as `scoreboard` does. Exit code 1 if a cell failed.
    """
    require("lab", "covey lab")
    from covey.lab.drawing import write
    from covey.lab.papers import chosen
    from covey.lab.report import report as page

    wanted = chosen(paper)
    use_data(data)
    store = open_store(results)
    failed = complete(wanted, store, master)
    write(out, page(wanted, store).encode())
    typer.echo(str(out))
    raise typer.Exit(1 if failed else 0)


@app.command()
def document(
    out: OutFile = Path("papers.md"),
    paper: OfPaper = "all",
    master: MasterOrHere = None,
    results: Directory = RESULTS,
    data: Data = None,
) -> None:
    """Write the scoreboard and all figures as Markdown, with pictures in a directory of the same name.

    Takes results as `scoreboard` does. Exit code 1 if a cell failed or a figure could not be drawn.
    """
    require("lab", "covey lab")
    from covey.lab.document import write_document
    from covey.lab.papers import chosen

    wanted = chosen(paper)
    use_data(data)
    store = open_store(results)
    failed = complete(wanted, store, master)
    problems = write_document(wanted, store, out)
    for problem in problems:
        typer.echo(f"covey: {problem}", err=True)
    typer.echo(str(out))
    raise typer.Exit(1 if failed or problems else 0)


@app.command()
def export(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="An experiment's name, as `list` prints it: r-tables.")
    ],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Where to write; standard output without it.")
    ] = None,
    scale: Scale = "small",
    results: Directory = RESULTS,
) -> None:
    """Write the kept rows of an experiment as CSV: a column for each parameter of its cells and each value.

    Nothing is computed. Exit code 1 if some cells are missing: their number is said on standard error.
    """
    require("lab", "covey lab")
    from covey.lab.drawing import write
    from covey.lab.experiment import SCALES
    from covey.lab.export import as_csv
    from covey.lab.papers import experiment_named

    the_scale = next((one for one in SCALES if one == scale), None)
    if the_scale is None:
        raise ConfigError("expected --scale small or --scale paper")
    found = experiment_named(experiment)
    store = open_store(results)
    text = as_csv(store.outcomes([found], the_scale))
    if csv is None:
        typer.echo(text, nl=False)
    else:
        write(csv, text.encode())
        typer.echo(str(csv))
    missing = len(store.missing(found, the_scale))
    if missing:
        typer.echo(f"covey: {missing} cells of {experiment} are missing at {the_scale} scale", err=True)
    raise typer.Exit(1 if missing else 0)
