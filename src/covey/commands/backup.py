"""`covey backup`: copy what a broker keeps, while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from covey.commands.options import Json
from covey.commands.output import print_json, progress


def backup(
    data_dir: Annotated[
        Path,
        typer.Argument(metavar="DATA_DIR", help="The data_dir of a broker on this machine.", file_okay=False),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="A directory for the copy that is not there yet.", file_okay=False
        ),
    ],
    json: Json = False,
) -> None:
    """Copy what a broker keeps (confirmed events, durable subscriptions, plans) while it runs, and check the copy.

    The copy is the store as it was at one moment; all its checksums are read. Nothing is overwritten. To restore it,
    end the broker, put the copy in the place of its data_dir, and start the broker. What was confirmed after the copy
    was made is not in it. The answer is no (exit code 1) if events were found damaged, which are copied as they are.
    """
    # Loaded here: SQLite takes its time.
    from covey.broker.durable.backup import back_up

    with progress("Backup") as tell:
        made = back_up(data_dir, out, tell)
    for warning in made.warnings:
        typer.echo(f"covey: {warning}", err=True)
    if json:
        print_json(made._asdict() | {"path": str(made.path)})
    else:
        judged = f"{made.damaged:,} rows are damaged" if made.damaged else "all checksums are right"
        typer.echo(
            f"{made.path}: broker {made.broker}, {made.events:,} events for {made.queues:,} queues, "
            f"{'plans, ' if made.has_plans else ''}{made.size / (1 << 20):,.1f} MiB; {judged}"
        )
    if made.damaged:
        raise typer.Exit(1)
