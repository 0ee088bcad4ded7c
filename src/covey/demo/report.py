"""The report: one page, pictures and all, that needs no other file; readable in the light and in the dark."""

from __future__ import annotations

from html import escape

from covey import __version__
from covey.advisor.page import figure, number, page, table
from covey.advisor.summary import entries_text
from covey.demo import drawing
from covey.demo.findings import Findings
from covey.demo.pictures import PICTURE, after_plan, before_plan, bursts, over_time, phases, svg

PAIR = """
.pair { display: flex; flex-wrap: wrap; justify-content: center; gap: 1rem; width: max-content; max-width: 100%;
  min-width: 460px; margin: 0 auto }
"""
MOST_TREES = 12


def report(found: Findings) -> str:
    """Return the page."""
    title = f"Covey: {found.brokers} brokers, {found.subscriptions:,} subscriptions, planned while they work"
    parts = [
        f'<p class="fine">Covey {escape(__version__)}, seed {found.seed}, {found.total_s:.0f} s in all.</p>',
        verdict(found),
        network_section(found),
        burst_section(found),
        latency_section(found),
        content_section(found),
        making_section(found),
    ]
    return page(title, parts, PAIR + PICTURE)


# -- sections ------------------------------------------------------------------------------------------------


def verdict(found: Findings) -> str:
    """Return whether all was as promised, and the figures that say most."""
    before, after = phases(found)
    covering, incremental = (found.bursts[name].messages for name in ("covering", "incremental"))
    shown = [
        (f"{-found.saving:+.1%}", "messages on links for each event"),
        (f"{before.cost:.2f} → {after.cost:.2f}", f"of them; predicted {-found.predicted_saving:+.1%}"),
        (f"{covering:,} / {incremental:,}", "control messages when covering subscriptions leave"),
        (f"{found.checked:,}", "deliveries, each of them checked"),
    ]
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{name}</span></div>' for value, name in shown)
    failures = "".join(f"<li>{escape(line)}</li>" for line in found.failures())
    said = (
        f'<p class="bad">Not as promised:</p><ul>{failures}</ul>'
        if failures
        else '<p class="good">Every delivery was right: each subscription got each event that it matches, once, and'
        " nothing else, also while the plan went in.</p>"
    )
    notes = "".join(f'<p class="fine">{escape(line)}.</p>' for line in found.warnings())
    plan = f"<p>{escape(result(found))}</p>"
    lead = f"{said}{plan}" if failures else f"{plan}{said}"
    return f'<section class="lead">{lead}{notes}</section><div class="cards">{boxes}</div>'


def result(found: Findings) -> str:
    """Return what the plan brought, in a sentence."""
    before, after = phases(found)
    word = "less" if found.saving >= 0 else "more"
    return (
        f"The plan needs {abs(found.saving):.0%} {word} traffic{entries_text(after.entries, before.entries)}."
    )


def network_section(found: Findings) -> str:
    """Return the network before and after, what changed, and the trees."""
    assert found.plan is not None
    before, after = phases(found)
    pictures = f'<div class="pair">{svg(before_plan(found))}{svg(after_plan(found))}</div>'
    rows = [
        ["messages on links for each event", number(round(before.cost, 3)), number(round(after.cost, 3))],
        ["predicted", number(round(found.predicted_before, 3)), number(round(found.predicted_cost, 3))],
        ["predicted for the best single tree", number(round(found.predicted_single, 3)), number(None)],
        [
            "least that the trees allow",
            *(number(round(p.needed / max(1, p.events), 3)) for p in (before, after)),
        ],
        [
            "messages for nobody (false positives)",
            number(before.false_positives),
            number(after.false_positives),
        ],
        ["links that carry events", *(number(sum(map(bool, p.links.values()))) for p in (before, after))],
        [
            "routing table entries of all brokers, for neighbours",
            number(before.entries),
            number(after.entries),
        ],
        ["events published meanwhile", number(before.events), number(after.events)],
    ]
    trees = [
        svg(drawing.tree(f"tree {place}, root {one.root}", one.links, one.root, place), small=True)
        for place, one in enumerate(found.plan.trees[:MOST_TREES])
    ]
    caption = (
        "A link is as wide as the messages that cross it for each event; dashed links carry none. Before, brokers"
        " route over one spanning tree of the overlay. The plan has several trees, and an event travels on the one"
        " that suits those who want it. While a plan is in use the tables of the overlay's own tree are kept, too."
    )
    return (
        f"<section><h2>The network, before and with the plan</h2>{figure(pictures, caption)}"
        f"{table(['', 'overlay’s tree', 'planned trees'], rows, copy=True)}"
        f"{figure(svg(over_time(found)), 'What brokers have sent to each other for each event, over time.')}"
        f"<details><summary>The {len(found.plan.trees)} trees</summary>{''.join(trees)}</details></section>"
    )


def burst_section(found: Findings) -> str:
    """Return what covering subscriptions cause that leave."""
    rows = [
        [
            escape(name),
            number(told.messages),
            number(told.events),
            number(told.forwarded),
            number(told.false_positives),
        ]
        for name, told in found.bursts.items()
    ]
    heads = [
        "strategy",
        "control messages",
        "events meanwhile",
        "messages on links for them",
        "of these for nobody",
    ]
    caption = (
        "Two equal rows of five brokers have the same subscriptions, events and departures. Under covering, what a"
        " broad subscription covered is told when it leaves, link by link. Under incremental the filter stays where"
        " nearly all of its events are wanted anyway, at the price of a few events that are for nobody."
    )
    return (
        f"<section><h2>Covering subscriptions leave</h2>{figure(svg(bursts(found)), caption)}"
        f"{table(heads, rows)}</section>"
    )


def latency_section(found: Findings) -> str:
    """Return how long deliveries took in each act."""
    rows = [
        [
            escape(name),
            number(one.events),
            number(one.deliveries),
            *(number(round(value, 1)) for value in (one.p50_ms, one.p99_ms, one.worst_ms)),
        ]
        for name, one in found.latency.items()
    ]
    said = (
        "From publishing to the subscriber’s program. All brokers, all clients and Spark share one machine: while Spark"
        " plans, events wait for a processor more than for brokers."
    )
    heads = ["act", "events", "deliveries", "p50 ms", "p99 ms", "worst ms"]
    return f"<section><h2>How long events take, by act</h2><p>{said}</p>{table(heads, rows)}</section>"


def content_section(found: Findings) -> str:
    """Return a few events, and who got them."""
    parts = []
    for example in found.examples:
        rows = [
            [escape(place), escape(whose), f"<code>{escape(text)}</code>"]
            for place, whose, text in example.takers
        ]
        parts.append(
            f"<h3>{escape(example.source)} publishes <code>{escape(example.content)}</code></h3>"
            f"{table(['arrives at', 'for', 'because of'], rows)}"
        )
    return f"<section><h2>Events arrive by their content</h2>{''.join(parts)}</section>"


def making_section(found: Findings) -> str:
    """Return how it was played: times, sizes, the plan's own words."""
    half, most, slowest = found.delays_ms
    facts = [
        ["brokers, links", f"{found.brokers}, {found.links}, and two rows of five"],
        ["clients, subscriptions", f"{found.clients}, {found.subscriptions:,}"],
        ["events, deliveries", f"{found.published:,}, {found.deliveries:,}"],
        [
            "from publishing to the program",
            f"half within {half:.1f} ms, 99 of 100 within {most:.0f}, all {slowest:.0f}",
        ],
        ["events sampled for the plan", number(found.sampled)],
        ["planning, installing", f"{found.plan_s:.1f} s, {found.install_s:.1f} s"],
        ["control messages to install the plan", number(found.install_messages)],
        *([f"act: {escape(name)}", f"{seconds:.1f} s"] for name, seconds in found.acts_s.items()),
    ]
    return f"<section><h2>How it was played</h2>{table(['', ''], facts)}<pre>{escape(found.explain)}</pre></section>"
