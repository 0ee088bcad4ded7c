"""`covey demo`: a network of real brokers on this machine, planned while it works; every delivery is checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covey.commands.output import print_json
from covey.errors import ConfigError

if TYPE_CHECKING:
    from covey.demo.findings import Findings


def demo(
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes, an HTML page.")] = Path(
        "covey-demo.html"
    ),
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where one picture of everything goes, as SVG.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Other subscriptions and events of the same kind.", min=0)] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer subscriptions and events, and less time.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A new directory for what is usually removed: samples, the plan, logs.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """See a network of real brokers at work, in less than three minutes.

    Twelve brokers, 4,000 subscriptions and live traffic; covering subscriptions that leave, under two strategies; a
    plan that Spark makes from the brokers' own samples, installed while events flow. Every delivery of every client is
    checked. Exit code 1 if anything was not as promised.
    """
    for file in (report, picture):
        if file is not None:
            check_writable(file)
    # Loaded here: it brings the compiler, which takes half a second.
    from covey.demo.run import play
    from covey.demo.settings import QUICK, settings_of

    found = play(settings_of(seed, QUICK) if quick else settings_of(seed), keep)
    write(found, report, picture)
    if json:
        print_json({**found.as_dict(), "report": str(report)})
    else:
        show(found, report)
    raise typer.Exit(1 if found.failures() else 0)


def check_writable(file: Path) -> None:
    """Raise ConfigError, before anything is started, if a file cannot be written."""
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError(f"cannot write {str(file)!r:.200}")


def write(found: Findings, report: Path, picture: Path | None) -> None:
    """Write the report, and the picture if one is asked for."""
    from covey.demo.pictures import picture as picture_of
    from covey.demo.report import report as report_of

    try:
        report.write_text(report_of(found), encoding="utf-8")
        if picture is not None:
            picture.write_text(picture_of(found), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the report: {error}") from None


def show(found: Findings, report: Path) -> None:
    """Print tables and the verdict."""
    from covey.demo.summary import show as show_summary

    console = Console()
    show_summary(found, console if console.is_terminal else Console(width=110))
    typer.echo(f"report  {report}")
