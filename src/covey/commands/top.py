"""`covey top`: rates of live brokers and their links, again and again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from covey.client.admin import Pages
from covey.commands.options import AdminToken, Every, JsonLines, TlsCa
from covey.commands.output import number_text, wide_console
from covey.errors import CoveyError

MAX_LINKS: Final = 200
BROKER_RATES: Final = ("events_published", "events_received", "events_forwarded", "events_delivered")
LINK_RATES: Final = ("received", "sent", "received_bytes", "sent_bytes")


def top(
    urls: Annotated[list[str], typer.Argument(metavar="URL", help="Brokers' admin pages.")],
    every: Every = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look twice, print what was between, and end.")
    ] = False,
    token: AdminToken = "",
    tls_ca: TlsCa = "",
    json: JsonLines = False,
) -> None:
    """Watch live brokers: events a second, queues, and who reads too slowly. Ends with Ctrl-C."""
    pages = [Pages(url, token, tls_ca) for url in urls]
    before = [look(one) for one in pages]
    if all("error" in one for one in before):
        raise CoveyError(before[0]["error"])
    if once or json:
        while True:
            time.sleep(every)
            now = [look(one) for one in pages]
            report = rates(before, now)
            if json:
                typer.echo(msgspec.json.encode(report).decode())
            else:
                wide_console().print(drawn(report))
            if once:
                return
            before = now
    with Live(drawn(rates(before, before)), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            now = [look(one) for one in pages]
            live.update(drawn(rates(before, now)), refresh=True)
            before = now


def look(pages: Pages) -> dict[str, Any]:
    """Return what one broker says now, or why it says nothing."""
    try:
        varz = pages.get("/varz")
        links = pages.get("/linkz", limit=MAX_LINKS)["rows"]
    except CoveyError as error:
        return {"url": pages.url, "error": str(error)}
    neighbours = {row["link"]: row for row in links if row["kind"] == "neighbour"}
    return {"url": pages.url, "at_s": time.monotonic(), "varz": varz, "links": neighbours}


def rates(before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each broker, with what it counted a second between the two looks."""
    return [_broker(one, two) for one, two in zip(before, now, strict=True)]


def _broker(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    if "error" in now:
        return {"url": now["url"], "error": now["error"]}
    varz = now["varz"]
    earlier = before if "error" not in before else now
    took_s = now["at_s"] - earlier["at_s"]
    row: dict[str, Any] = {
        "broker": varz["broker"],
        "url": now["url"],
        "uptime_s": varz["uptime_s"],
        "clients": varz["clients"],
        "subscriptions": varz["subscriptions"],
        "entries": varz["entries"],
        "inbox_frames": varz["inbox"]["frames"],
        "congested": varz["inbox"]["congested"],
        "dropped": varz["totals"]["events_dropped"],
        "slow": [one["name"] or one["link"] for one in varz["slow"]],
    }
    old = earlier["varz"]["totals"]
    for name in BROKER_RATES:
        row[f"{name}_per_s"] = _rate(old[name], varz["totals"][name], took_s)
    row["cpu"] = _rate(earlier["varz"]["cpu_s"], varz["cpu_s"], took_s)
    row["links"] = [
        _link(earlier["links"].get(name, link), link, took_s) for name, link in now["links"].items()
    ]
    return row


def _link(before: dict[str, Any], now: dict[str, Any], took_s: float) -> dict[str, Any]:
    rates = {f"{name}_per_s": _rate(before[name], now[name], took_s) for name in LINK_RATES}
    state = {name: now[name] for name in ("queue_events", "queue_bytes", "dropped", "entries")}
    return {"link": now["link"], "up": now["open"], **rates, **state}


def _rate(before: float, now: float, took_s: float) -> float:
    # A broker that was started again counts from nothing.
    return 0.0 if took_s <= 0 else round(max(0.0, now - before if now >= before else now) / took_s, 2)


# -- for people ----------------------------------------------------------------------------------------------


def drawn(report: Sequence[dict[str, Any]]) -> Group:
    """Return the report as tables: brokers, then links."""
    brokers = Table(header_style="bold", title="Brokers, events a second", title_justify="left")
    names = ("broker", "clients", "subs", "entries", "published", "received", "forwarded", "delivered")
    for name in (*names, "inbox", "dropped", "cpu", "slow"):
        brokers.add_column(name, justify="left" if name in ("broker", "slow") else "right")
    links = Table(header_style="bold", title="Links, a second", title_justify="left")
    for name in (
        "broker",
        "link",
        "up",
        "events in",
        "events out",
        "bytes in",
        "bytes out",
        "queue",
        "dropped",
    ):
        links.add_column(name, justify="left" if name in ("broker", "link") else "right")
    for row in report:
        if "error" in row:
            brokers.add_row(escape(row["url"]), escape(row["error"]))
            continue
        figures = [row[name] for name in ("clients", "subscriptions", "entries")]
        figures += [row[f"{name}_per_s"] for name in BROKER_RATES]
        figures += [row["inbox_frames"], row["dropped"]]
        cells = [*map(number_text, figures), f"{row['cpu']:.0%}", escape(", ".join(row["slow"]))]
        brokers.add_row(escape(row["broker"]), *cells)
        for link in row["links"]:
            figures = [link[f"{name}_per_s"] for name in LINK_RATES] + [link["queue_events"], link["dropped"]]
            up = "yes" if link["up"] else "no"
            links.add_row(escape(row["broker"]), escape(link["link"]), up, *map(number_text, figures))
    return Group(brokers, links)
