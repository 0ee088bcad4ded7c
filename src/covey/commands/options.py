"""Options that several commands share: one name, one meaning and one check each."""

from __future__ import annotations

from typing import Annotated

import typer

# -- where Spark runs, and with what ---------------------------------------------------------------------------

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where Spark runs: local, local[2], spark://host:7077, sc://host:15002. Default: the session that runs "
        "already, else what Spark is configured with, else local.",
        show_default=False,
    ),
]
MasterOrHere = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where cells run: local, local[2], spark://host:7077; or here, in this process without Spark. Default: "
        "what Spark is configured with, else local.",
        show_default=False,
    ),
]
DriverMemory = Annotated[
    str | None,
    typer.Option(
        "--driver-memory",
        metavar="SIZE",
        help="Memory of Spark's driver, such as 4g. Default: by the size of the input.",
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark, such as spark.executor.memory=4g; may be given several times.",
        show_default=False,
    ),
]
