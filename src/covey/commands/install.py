"""`covey install`: a plan goes into a running network, beside what runs, and takes over when it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from covey.client import admin
from covey.client.admin import Pages
from covey.commands.options import AdminToken, Json, Timeout, TlsCa
from covey.commands.output import print_json, print_pairs
from covey.errors import ConfigError


def install(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="The admin pages of any broker, such as http://127.0.0.1:7401."),
    ],
    plan: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN", help="A plan's file, such as plan.json of `covey plan`."),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no plan: the overlay's own tree.")] = False,
    roll_back: Annotated[bool, typer.Option("--roll-back", help="Take the last plan back.")] = False,
    timeout: Timeout = 60.0,
    token: AdminToken = "",
    tls_ca: TlsCa = "",
    json: Json = False,
) -> None:
    """Install a plan in a running network: nothing is lost, nothing comes twice, and it can be taken back.

    Waits until the plan is in use. After --timeout, which is an error, the network goes on installing it.
    """
    if (plan is not None) + none + roll_back != 1:
        raise ConfigError("install a PLAN, or --none, or --roll-back")
    pages = Pages(url, token, tls_ca)
    said = (
        admin.roll_back_plan(pages, timeout) if roll_back else admin.install_plan(pages, _read(plan), timeout)
    )
    if json:
        print_json(said)
        return
    installation = said["installation"] or {}
    current = next(one["epoch"] for one in said["epochs"] if one["current"])
    print_pairs(
        {"broker": said["broker"], "current epoch": current, "installation": installation.get("says", "")}
    )


def _read(plan: Path | None) -> bytes:
    if plan is None:
        return b""
    try:
        return plan.read_bytes()
    except OSError as error:
        raise ConfigError(f"the plan {str(plan)!r} cannot be read: {error.strerror or error}") from None
