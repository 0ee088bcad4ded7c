"""How commands are told whose admin pages to ask, and with what."""

from __future__ import annotations

from typing import Annotated

import typer

Token = Annotated[
    str,
    typer.Option(
        "--token", envvar="COVEY_ADMIN_TOKEN", help="The token of the admin pages.", show_default=False
    ),
]
Authority = Annotated[
    str, typer.Option("--authority", metavar="FILE", help="Who signs the certificates of https:// pages.")
]
