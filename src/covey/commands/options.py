"""Options that several commands have: one name, one type, one text and one check for each meaning.

An option that a single command has is declared there. One that a second command comes to need moves here, so that it
looks and works the same in both; what it means for one command in particular is said in the command's own help. A test
(`tests/unit/test_help.py`) holds all commands against this vocabulary.

Names in capitals are options whose type differs, because they may be left out in one command and not in another.
What completes words in a shell is at the end; it loads nothing that takes long.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from covey.core.families import LANGUAGES
from covey.errors import ConfigError
from covey.extras import require

# == completion ==============================================================================================

# The registries of these are behind the compiler, which takes a second to load. A test compares.
STRATEGIES: Final = (
    "flooding", "simple", "identity", "covering", "covering-lazy", "covering-packing", "merging",
    "merging-imperfect", "merging-rebeca", "match-first", "xroute", "xroute-sets", "incremental", "trees", "regions",
    "aggregation",
)  # fmt: skip
METHODS: Final = (
    "best", "single", "spt", "unicast", "mult", "overlap", "mult2", "hybrid", "held-out", "regions",
    "regions-cheapest", "mixed",
)  # fmt: skip


def complete_strategy(incomplete: str) -> list[str]:
    """Return the strategies whose names begin so."""
    return beginning(STRATEGIES, incomplete)


def complete_method(incomplete: str) -> list[str]:
    """Return the methods of planning whose names begin so."""
    return beginning(METHODS, incomplete)


def complete_language(incomplete: str) -> list[str]:
    """Return the languages whose names begin so."""
    return beginning(LANGUAGES, incomplete)


def beginning(names: tuple[str, ...] | list[str], incomplete: str) -> list[str]:
    """Return the names that begin so, as a shell wants them."""
    return [name for name in names if name.startswith(incomplete)]


# == output ==================================================================================================


def writable(ctx: typer.Context, param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Return the path of a file; ConfigError, before anything is computed, if no file can be written there."""
    if value is None or ctx.resilient_parsing:
        return value
    problem = ""
    if not value.parent.is_dir() or value.is_dir():
        problem = "expected a file in a directory that is there"
    elif not os.access(value if value.exists() else value.parent, os.W_OK):
        problem = "it cannot be written"
    if problem:
        raise ConfigError(f"{param.opts[0]} {str(value)!r:.200}: {problem}")
    return value


def drawable(ctx: typer.Context, param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Return the path of a picture's file, as `writable` does; ConfigError if what draws is not installed."""
    if value is not None and not ctx.resilient_parsing:
        require("lab", param.opts[0])
    return writable(ctx, param, value)


OUT_FILE = typer.Option("--out", metavar="FILE", help="Write the result to this file.", callback=writable)
OUT_DIR = typer.Option("--out", metavar="DIR", help="Write the result into this directory.")
PLOT = typer.Option(
    "--plot", metavar="FILE", help="Draw a picture of the result, such as FILE.svg.", callback=drawable
)

OutFile = Annotated[Path, OUT_FILE]
Plot = Annotated[Path | None, PLOT]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="NAME=VALUE",
        help="A price by which plans are compared: entry, memory, tree, copy, trial, migration, traffic, in events over"
        " a link; period, in events. May be repeated.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON, an object a line.")]
List = Annotated[bool, typer.Option("--list", help="List what there is to choose from, and end.")]

# == what is done, and how much ==============================================================================

SEED = typer.Option(
    "--seed", metavar="N", min=0, help="Begin random numbers here: the same seed gives the same result."
)
STRATEGY = typer.Option(
    "--strategy",
    "-s",
    metavar="NAME",
    help="A routing strategy, such as covering; `covey sim --list` lists them.",
    autocompletion=complete_strategy,
)
ADVERTISEMENTS = typer.Option(
    "--advertisements/--no-advertisements",
    help="Whether subscriptions follow advertisements, or go everywhere.",
)
COUNT = typer.Option("--count", "-n", metavar="N", min=1, help="How many, and then end.")
TIMEOUT = typer.Option(
    "--timeout", metavar="SECONDS", min=0.001, help="How long to wait before giving up, in seconds."
)
HOST = typer.Option("--host", metavar="HOST", help="The address to listen on; 127.0.0.1 unless set.")
PORT = typer.Option(
    "--port",
    metavar="PORT",
    min=0,
    max=65_535,
    help="The port, 0 for a free one; 7400 unless set, for a dashboard 7480.",
)
NAME = typer.Option("--name", metavar="NAME", help="The name of this broker or client.")

Seed = Annotated[int, SEED]
Count = Annotated[int, COUNT]
Timeout = Annotated[float, TIMEOUT]
Events = Annotated[int, typer.Option("--events", metavar="N", min=0, help="How many events.")]
Every = Annotated[
    float,
    typer.Option(
        "--every", metavar="SECONDS", min=0.1, max=604_800, help="Seconds from one round to the next."
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="At small sizes, in less time.")]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        help=f"How to group: {', '.join(METHODS)}.",
        autocompletion=complete_method,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any other setting, as in --set a.b=1 for b in [a]; repeatable."
    ),
]
Language = Annotated[
    str,
    typer.Option(
        "--language",
        "-l",
        metavar="NAME",
        help=f"The language of filters and events: {', '.join(LANGUAGES)}.",
        autocompletion=complete_language,
    ),
]

# == brokers, and who asks them ==============================================================================

Url = Annotated[
    str,
    typer.Option(
        "--url",
        "-u",
        metavar="URL",
        envvar="COVEY_URL",
        help="A broker's address; several with commas between them.",
    ),
]
Token = Annotated[
    str,
    typer.Option("--token", metavar="TOKEN", envvar="COVEY_TOKEN", help="A token to authenticate with."),
]
AdminToken = Annotated[
    str,
    typer.Option(
        "--token",
        metavar="TOKEN",
        envvar="COVEY_ADMIN_TOKEN",
        help="A token to authenticate with.",
    ),
]
User = Annotated[
    str,
    typer.Option("--user", metavar="NAME", envvar="COVEY_USER", help="A user's name."),
]
Password = Annotated[
    str,
    typer.Option(
        "--password",
        metavar="TEXT",
        envvar="COVEY_PASSWORD",
        help="The user's password.",
    ),
]
TlsCa = Annotated[
    str, typer.Option("--tls-ca", metavar="FILE", help="Use TLS, and trust the authorities in this file.")
]
TlsCertificate = Annotated[
    str, typer.Option("--tls-cert", metavar="FILE", help="Use TLS, and show the certificate in this file.")
]
TlsKey = Annotated[str, typer.Option("--tls-key", metavar="FILE", help="The certificate's key.")]

# == where Spark runs, and with what =========================================================================

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where Spark runs: local, local[2], spark://host:7077, sc://host:15002. Default: the session that runs "
        "already, else what Spark is configured with, else local.",
    ),
]
MasterOrHere = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where cells run: local, local[2], spark://host:7077; or here, in this process without Spark. Default: "
        "what Spark is configured with, else local.",
    ),
]
DriverMemory = Annotated[
    str | None,
    typer.Option(
        "--driver-memory",
        metavar="SIZE",
        help="Memory of Spark's driver, such as 4g. Default: by the size of the input.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark, such as spark.executor.memory=4g; may be given several times.",
    ),
]
