"""`covey demo`: a network of real brokers on this machine, planned while it works; every delivery is checked."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covey.commands.dashboard import beside
from covey.commands.options import Json, OutFile, Plot, Quick, Seed
from covey.commands.output import print_json
from covey.errors import ConfigError
from covey.extras import require

if TYPE_CHECKING:
    from covey.demo.findings import Findings


def demo(
    out: OutFile = Path("covey-demo.html"),
    plot: Plot = None,
    seed: Seed = 1,
    quick: Quick = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="A new directory for what is usually removed: samples, the plan, logs.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Show the network on a web page while it works, as covey dashboard does."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """See a network of real brokers at work, in less than three minutes.

    Twelve brokers, 4,000 subscriptions and live traffic; covering subscriptions that leave, under two strategies; a
    plan that Spark makes from the brokers' own samples, installed while events flow. Every delivery of every client is
    checked. Exit code 1 if anything was not as promised. The report is an HTML page; the picture of everything, if one
    is wanted, is an SVG file.
    """
    require("spark", "covey demo")
    if plot is not None and plot.suffix.lower() != ".svg":
        raise ConfigError(f"--plot {str(plot)!r:.80}: expected a file name that ends with .svg")
    # Loaded here: it brings the compiler, which takes half a second.
    from covey.demo.run import play
    from covey.demo.settings import QUICK, settings_of

    settings = settings_of(seed, QUICK) if quick else settings_of(seed)
    found = play(settings, keep, partial(beside, is_new=True) if watch else None)
    write(found, out, plot)
    if json:
        print_json({**found.as_dict(), "report": str(out)})
    else:
        show(found, out)
    raise typer.Exit(1 if found.failures() else 0)


def write(found: Findings, report: Path, picture: Path | None) -> None:
    """Write the report, and the picture if one is asked for."""
    from covey.demo.pictures import poster
    from covey.demo.report import report as report_of

    try:
        report.write_text(report_of(found), encoding="utf-8")
        if picture is not None:
            picture.write_text(poster(found), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the report: {error}") from None


def show(found: Findings, report: Path) -> None:
    """Print tables and the verdict."""
    from covey.demo.summary import show as show_summary

    console = Console()
    show_summary(found, console if console.is_terminal else Console(width=110))
    typer.echo(f"report  {report}")
