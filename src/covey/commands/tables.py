"""`covey tables`: the routing table of a live broker, for reading."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from covey.client.admin import Pages
from covey.commands.options import AdminToken, Json, TlsCa
from covey.commands.output import print_json, wide_console


class What(StrEnum):
    """Parts of a routing table."""

    ALL = "all"
    ENTRIES = "entries"
    SUBSCRIPTIONS = "subscriptions"
    ADVERTISEMENTS = "advertisements"


def tables(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="A broker's admin pages, such as http://127.0.0.1:7401.")
    ],
    what: Annotated[
        What,
        typer.Option(
            "--what", metavar="PART", help=f"Which part of the table: {', '.join(one.value for one in What)}."
        ),
    ] = What.ALL,
    link: Annotated[str, typer.Option("--link", metavar="LINK", help="Of this link only.")] = "",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="At most so many rows of each part.")
    ] = 100,
    token: AdminToken = "",
    tls_ca: TlsCa = "",
    json: Json = False,
) -> None:
    """Show the routing table of a live broker: what neighbours and clients want, and what is advertised."""
    report = read_tables(Pages(url, token, tls_ca), what, link, limit)
    if json:
        print_json(report)
        return
    typer.echo(f"broker {report['broker']}, strategy {report['strategy']}")
    for part in (What.ENTRIES, What.SUBSCRIPTIONS, What.ADVERTISEMENTS):
        if part.value in report:
            print_part(part.value, report[part.value])


def read_tables(pages: Pages, what: What, link: str, limit: int) -> dict[str, Any]:
    """Return what `covey tables` reports."""
    varz = pages.get("/varz")
    report: dict[str, Any] = {"broker": varz["broker"], "strategy": varz["strategy"]}
    for part in (What.ENTRIES, What.SUBSCRIPTIONS, What.ADVERTISEMENTS):
        if what in (What.ALL, part):
            path, query = ("/subz", {}) if part is What.SUBSCRIPTIONS else ("/routez", {"what": part.value})
            total = pages.get(path, limit=0, link=link, **query)["total"]
            rows = list(pages.rows(path, limit, link=link, **query))
            report[part.value] = {"total": total, "rows": rows}
    return report


TITLES = {
    "entries": "What neighbours want",
    "subscriptions": "What clients here want",
    "advertisements": "What may be published, and where it comes from",
}


def print_part(name: str, part: dict[str, Any]) -> None:
    """Print one part of the table."""
    rows = part["rows"]
    typer.echo(f"\n{typer.style(TITLES[name], bold=True)} ({part['total']:,})")
    if not rows:
        return
    columns = [
        column for column in ("link", "tree", "key", "home", "publisher", "filter") if column in rows[0]
    ]
    table = Table(header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        prefix = "" if row.get("language", "attributes") == "attributes" else f"{row['language']}: "
        cells = [str(row.get(column, "")) for column in columns]
        table.add_row(*map(escape, [*cells[:-1], prefix + cells[-1]]))
    wide_console().print(table)
    if part["total"] > len(rows):
        typer.echo(f"… and {part['total'] - len(rows):,} more (--limit)")
