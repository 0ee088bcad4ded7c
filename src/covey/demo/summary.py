"""The findings on the screen: three compact tables and a verdict."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from covey.demo.findings import Findings


def show(found: Findings, console: Console) -> None:
    """Print what was found."""
    console.print(plan_table(found))
    console.print(
        f"  One tree, the best that planning finds, would need {found.predicted_single:.2f} messages. Installing took"
        f" {found.install_s:.1f} s and {found.install_messages:,} control messages.\n",
        highlight=False,
    )
    console.print(burst_table(found))
    console.print(latency_table(found))
    half, most, _ = found.delays_ms
    console.print(
        f"{found.published:,} events in one network, {found.checked:,} deliveries in all; half of them within"
        f" {half:.1f} ms, 99 of 100 within {most:.0f} ms.",
        highlight=False,
    )
    for line in found.warnings():
        console.print(f"[yellow]Note:[/] {escape(line)}.", highlight=False)
    failures = found.failures()
    for line in failures:
        console.print(f"[bold red]Not as promised:[/] {escape(line)}.", highlight=False)
    if not failures:
        console.print(
            "[bold green]Every delivery was checked and right[/]: each subscription got each event that it matches,"
            f" once, and nothing else, also while the plan was installed. {found.total_s:.0f} s.",
            highlight=False,
        )


def plan_table(found: Findings) -> Table:
    """Return what the plan changed."""
    assert found.before is not None
    assert found.after is not None
    assert found.plan is not None
    before, after = found.before, found.after
    title = (
        f"{found.brokers} brokers, {found.links} links, {found.subscriptions:,} subscriptions: "
        "a plan made from samples goes in"
    )
    table = _table(title, "", "overlay's tree", "planned trees", "change", "predicted")
    table.add_row(
        "messages on links, for each event",
        f"{before.cost:.2f}",
        f"{after.cost:.2f}",
        f"{-found.saving:+.1%}",
        f"{-found.predicted_saving:+.1%}",
    )
    table.add_row("dissemination trees", "1", f"{len(found.plan.trees)}")
    table.add_row(
        "links that carry events", *(f"{sum(map(bool, p.links.values()))}" for p in (before, after))
    )
    change = after.entries / max(1, before.entries) - 1
    table.add_row(
        "routing table entries, all brokers", f"{before.entries:,}", f"{after.entries:,}", f"{change:+.0%}"
    )
    table.add_row(
        "false positives (messages for nobody)", f"{before.false_positives:,}", f"{after.false_positives:,}"
    )
    table.add_row("events while it was measured", f"{before.events:,}", f"{after.events:,}")
    return table


def burst_table(found: Findings) -> Table:
    """Return what brokers told each other when covering subscriptions left."""
    some = next(iter(found.bursts.values()))
    title = f"{len(some.departures_s)} covering subscriptions leave, {some.subscriptions - len(some.departures_s)} stay"
    table = _table(title, "strategy", "control messages", "events since", "messages on links", "for nobody")
    for name, told in found.bursts.items():
        table.add_row(
            name, f"{told.messages:,}", f"{told.events:,}", f"{told.forwarded:,}", f"{told.false_positives:,}"
        )
    return table


def latency_table(found: Findings) -> Table:
    """Return how long deliveries took, by act."""
    title = (
        "From publishing to the subscriber's program, on a machine that all brokers, clients and Spark share"
    )
    table = _table(title, "act", "events", "deliveries", "p50 ms", "p99 ms", "worst ms")
    for name, one in found.latency.items():
        table.add_row(
            name,
            f"{one.events:,}",
            f"{one.deliveries:,}",
            f"{one.p50_ms:.1f}",
            f"{one.p99_ms:.1f}",
            f"{one.worst_ms:.1f}",
        )
    return table


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table
