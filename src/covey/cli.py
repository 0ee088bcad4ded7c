"""The `covey` program.

A command either succeeds, answers no (exit code 1, where its help says so), or fails with one line on
standard error and exit code 2. Nobody sees a traceback for a mistake in what they typed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from covey import __version__
from covey.commands import (
    backup,
    bench,
    broker,
    compiling,
    coordinator,
    dashboard,
    data,
    demo,
    explain,
    filters,
    install,
    lab,
    plan,
    pub,
    secrets,
    sim,
    sub,
    tables,
    top,
    trial,
    whatif,
)
from covey.commands.help import Application
from covey.errors import CoveyError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

app = Application(
    "Content-based publish/subscribe: every event to everyone who asked for it, by what it says."
)
app.add_typer(filters.app, name="filter")
app.add_typer(bench.app, name="bench")
app.add_typer(lab.app, name="lab")
app.add_typer(data.app, name="data")

app.command()(sim.sim)
app.command()(trial.trial)
app.command()(plan.plan)
app.command()(whatif.whatif)
app.command()(broker.broker)
app.command("check-config")(broker.check_config)
app.command()(broker.up)
app.command()(backup.backup)
app.command()(pub.pub)
app.command()(sub.sub)
app.command()(secrets.password)
app.command()(secrets.token)
app.command()(tables.tables)
app.command()(top.top)
app.command()(explain.explain)
app.command()(install.install)
app.command()(coordinator.coordinator)
app.command()(dashboard.dashboard)
app.command()(demo.demo)
app.command("compile")(compiling.compile_all)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"covey {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run the program with these arguments; return its exit code."""
    try:
        code = app(list(arguments), prog_name="covey", standalone_mode=False)
    except CoveyError as error:
        return _fail(str(error))
    except typer.TyperException as error:
        # Typed wrongly: an unknown command or option, a missing argument. Without a message, help was printed instead.
        context = getattr(error, "ctx", None)
        command = "covey" if context is None else context.command_path
        message = error.format_message()
        return _fail(f"{message} (try: {command} --help)") if message else EXIT_ERROR
    except SystemExit as ended:
        # What completes words in shells ends the process itself.
        return ended.code if isinstance(ended.code, int) else EXIT_ERROR
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def main() -> None:
    """Run the program with the process's arguments and end the process."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character must not turn an answer into a failure.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; leave nothing for the interpreter to flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_ERROR
    sys.exit(code)


def _fail(problem: str) -> int:
    line = " ".join(problem.split())
    print(f"covey: {line}", file=sys.stderr)
    return EXIT_ERROR
