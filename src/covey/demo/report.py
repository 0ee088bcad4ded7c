"""The report: one page, pictures and all, that needs no other file; readable in the light and in the dark."""

from __future__ import annotations

from typing import Any

from covey.advisor.summary import entries_text
from covey.demo.findings import Example, Findings
from covey.demo.pictures import MOST_TREES, after_plan, before_plan, bursts, over_time, phases, trees
from covey.reports.page import Cell, Content, Table, page


def report(found: Findings) -> str:
    """Return the page."""
    return page(
        "demo.html",
        f"Covey: {found.brokers} brokers, {found.subscriptions:,} subscriptions, planned while they work",
        origin=f"seed {found.seed}, {found.total_s:.0f} s in all",
        first=result(found),
        failures=found.failures(),
        notes=found.warnings(),
        cards=cards(found),
        network=network_section(found),
        bursts={"picture": bursts(found), "table": burst_table(found)},
        latency=latency_table(found),
        examples=[(one.source, one.content, takers_table(one)) for one in found.examples],
        facts=facts(found),
        explain=found.explain,
    )


# -- sections ------------------------------------------------------------------------------------------------


def result(found: Findings) -> str:
    """Return what the plan brought, in a sentence."""
    before, after = phases(found)
    word = "less" if found.saving >= 0 else "more"
    return (
        f"The plan needs {abs(found.saving):.0%} {word} traffic{entries_text(after.entries, before.entries)}."
    )


def cards(found: Findings) -> list[tuple[str, str]]:
    """Return the figures that say most, each with what it is."""
    before, after = phases(found)
    covering, incremental = (found.bursts[name].messages for name in ("covering", "incremental"))
    return [
        (f"{-found.saving:+.1%}", f"messages on links for each event; predicted {-found.predicted_saving:+.1%}"),
        (f"{before.cost:.2f} → {after.cost:.2f}", "messages on links for each event, before and with the plan"),
        (
            f"{covering:,} / {incremental:,}",
            "control messages when covering subscriptions leave, under covering / incremental",
        ),
        (f"{found.checked:,}", "deliveries, each of them checked"),
    ]  # fmt: skip


def network_section(found: Findings) -> dict[str, Any]:
    """Return the network before and after, what changed, and the trees."""
    assert found.plan is not None
    before, after = phases(found)
    both = (before, after)
    rows: list[list[Content]] = [
        ["messages on links for each event", *(round(one.cost, 3) for one in both)],
        ["predicted", round(found.predicted_before, 3), round(found.predicted_cost, 3)],
        ["predicted for the best single tree", round(found.predicted_single, 3), None],
        ["least that the trees allow", *(round(one.needed / max(1, one.events), 3) for one in both)],
        ["messages for nobody (false positives)", *(one.false_positives for one in both)],
        ["links that carry events", *(sum(map(bool, one.links.values())) for one in both)],
        ["routing table entries of all brokers, for neighbours", *(one.entries for one in both)],
        ["events published meanwhile", *(one.events for one in both)],
    ]
    return {
        "pictures": [before_plan(found), after_plan(found)],
        "table": Table(["", "overlay’s tree", "planned trees"], rows, copy=True),
        "over_time": over_time(found),
        "trees": trees(found),
        "tree_count": len(found.plan.trees),
        "trees_left_out": max(0, len(found.plan.trees) - MOST_TREES),
    }


def burst_table(found: Findings) -> Table:
    """Return what covering subscriptions cause that leave."""
    heads = [
        "strategy",
        "control messages",
        "events meanwhile",
        "messages on links for them",
        "of these for nobody",
    ]
    rows: list[list[Content]] = [
        [name, told.messages, told.events, told.forwarded, told.false_positives]
        for name, told in found.bursts.items()
    ]
    return Table(heads, rows, copy=True)


def latency_table(found: Findings) -> Table:
    """Return how long deliveries took in each act."""
    rows: list[list[Content]] = [
        [
            name,
            one.events,
            one.deliveries,
            *(round(value, 1) for value in (one.p50_ms, one.p99_ms, one.worst_ms)),
        ]
        for name, one in found.latency.items()
    ]
    return Table(["act", "events", "deliveries", "p50 ms", "p99 ms", "worst ms"], rows, copy=True)


def takers_table(example: Example) -> Table:
    """Return who got an event, and because of what."""
    rows: list[list[Content]] = [
        [place, whose, Cell(text, is_code=True)] for place, whose, text in example.takers
    ]
    return Table(["arrives at", "for", "because of"], rows)


def facts(found: Findings) -> Table:
    """Return how it was played: times and sizes."""
    half, most, slowest = found.delays_ms
    rows: list[list[Content]] = [
        ["brokers, links", f"{found.brokers}, {found.links}, and two rows of five"],
        ["clients, subscriptions", f"{found.clients}, {found.subscriptions:,}"],
        ["events, deliveries", f"{found.published:,}, {found.deliveries:,}"],
        [
            "from publishing to the program",
            f"half within {half:.1f} ms, 99 of 100 within {most:.0f} ms, all within {slowest:.0f} ms",
        ],
        ["events sampled for the plan", found.sampled],
        ["planning, installing", f"{found.plan_s:.1f} s, {found.install_s:.1f} s"],
        ["control messages to install the plan", found.install_messages],
    ]
    rows += [[f"act: {name}", f"{seconds:.1f} s"] for name, seconds in found.acts_s.items()]
    return Table(["", ""], rows)
