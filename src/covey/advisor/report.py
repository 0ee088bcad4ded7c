"""The report of a plan: one HTML page with everything, pictures and all, that needs no other file and no network.

Every text that comes from the input (names of brokers, reasons, methods) is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape
from typing import Any

from covey import __version__
from covey.advisor import pictures
from covey.advisor.advice import Advice, Tried
from covey.advisor.page import STYLE, figure, number, table
from covey.advisor.summary import Summary, saved, saving_text
from covey.planning.plan import Plan

MOST_REASONS = 40
MOST_TREES = 200


@dataclass(frozen=True)
class Contents:
    """What a report tells of."""

    plan: Plan
    summary: Summary
    hosted: Mapping[str, int]
    quarantined: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
    explain: str = ""
    advice: Advice | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def report(contents: Contents) -> str:
    """Return the page."""
    plan = contents.plan
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>A plan for {len(plan.brokers):,} brokers</title><style>{STYLE}</style></head><body><main>",
        f"<h1>A plan for {len(plan.brokers):,} brokers</h1>",
        f'<p class="fine">Covey {escape(__version__)}. Method <b>{escape(plan.method)}</b>, seed {plan.seed}.</p>',
        cards(contents),
        lead(contents),
        warnings_section(contents),
        network_section(contents),
        alternatives_section(contents),
        curve_section(contents),
        advice_section(contents.advice),
        data_section(contents),
        making_section(contents),
        "</main></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


# -- sections ------------------------------------------------------------------------------------------------


def cards(contents: Contents) -> str:
    """Return the figures that say most."""
    plan, basis = contents.plan, contents.plan.basis
    shown: list[tuple[str, str]] = [
        (saving_text(saved(contents.summary)) or "unknown", "less traffic than what runs now"),
        (f"{len(plan.trees):,}", "tree" if len(plan.trees) == 1 else "trees"),
        (f"{len(plan.brokers):,} / {len(plan.links):,}", "brokers / links"),
    ]
    for key, title in (("subscriptions", "subscriptions"), ("interests", "different filters at a broker")):
        if isinstance(basis.get(key), int):
            shown.append((f"{basis[key]:,}", title))
    if isinstance(basis.get("events"), int):
        sampled = basis.get("sampled")
        of = f", {sampled:,} sampled" if isinstance(sampled, int) and sampled != basis["events"] else ""
        shown.append((f"{basis['events']:,}", f"events{of}"))
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{title}</span></div>' for value, title in shown)
    return f'<div class="cards">{boxes}</div>'


def lead(contents: Contents) -> str:
    """Return what to do, in a sentence or two."""
    advice = contents.advice
    said = contents.explain.splitlines()[0] if contents.explain else f"{contents.plan.method} was planned."
    if advice is None:
        return f'<section class="lead"><h2>In short</h2><p>{escape(said)} Nothing was replayed.</p></section>'
    return (
        f'<section class="lead"><h2>In short</h2><p>{escape(advice.sentence)}</p>'
        f'<p class="fine">{escape(said)}</p></section>'
    )


def warnings_section(contents: Contents) -> str:
    """Return what may be wrong with the data or the plan, if anything may."""
    found = warnings(contents)
    if not found:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in found)
    return f'<section class="warning"><h2>To know</h2><ul>{items}</ul></section>'


def warnings(contents: Contents) -> list[str]:
    """Return what may be wrong with the data or the plan, a sentence each."""
    basis, found = contents.plan.basis, []
    for name, reasons in contents.quarantined.items():
        rows = sum(reasons.values())
        if rows:
            found.append(f"{rows:,} rows of the table {name} could not be used and were set aside.")
    if not basis.get("fresh"):
        found.append(
            "There were too few events to keep some fresh: the figures are of events that chose the plan."
        )
    saving = saved(contents.summary)
    if saving is not None and saving <= 0:
        found.append("The plan saves nothing against one tree: nothing need be installed.")
    if not any(contents.hosted.values()):
        found.append("No broker hosts a subscription.")
    return found


def network_section(contents: Contents) -> str:
    """Return the network drawn, its trees, and a table of them."""
    plan = contents.plan
    sizes = pictures.group_sizes(plan)
    caption = (
        "The main tree around its root, brokers by their number of links from it; larger ones host more "
        "subscriptions. Grey links are not on this tree. "
    )
    if len(plan.trees) > 1:
        caption += "Darker links are on more trees. A star is a root."
    figures = [figure(pictures.network(plan, contents.hosted, "the network"), caption)]
    if len(plan.trees) > 1:
        shown = min(len(plan.trees), pictures.MOST_PANELS)
        which = "All trees" if shown == len(plan.trees) else f"The {shown} trees with the most filters"
        caption = f"{which}, each around its own root; dots are brokers whose filters belong to the tree."
        if plan.one_copy is not None:
            caption += " Every tree serves all subscriptions: an event travels on one of them."
        figures.append(figure(pictures.trees(plan, sizes, "trees"), caption))
    order = sorted(range(len(plan.trees)), key=lambda tree: (-sizes[tree], tree))[:MOST_TREES]
    rows = [[number(tree), escape(plan.trees[tree].root), number(sizes[tree])] for tree in order]
    more = len(plan.trees) - len(order)
    note = f'<p class="fine">and {more:,} more</p>' if more else ""
    trees = f"<details><summary>Trees</summary>{table(['tree', 'root', 'filters'], rows)}{note}</details>"
    return f"<section><h2>The network</h2>{''.join(figures)}{trees}</section>"


def alternatives_section(contents: Contents) -> str:
    """Return the alternatives compared, as a picture and a table."""
    summary = contents.summary
    if not summary.rows:
        return ""
    rows, kinds = [], []
    for row in summary.rows:
        tags = '<span class="tag">chosen</span>' if row.chosen else ""
        meaning = f'<br><span class="fine">{escape(row.meaning)}</span>' if row.meaning else ""
        good = "" if not row.saving else ' class="good"' if row.saving > 0 else ' class="bad"'
        rows.append(
            [
                f"{escape(row.name)}{tags}{meaning}",
                *(number(row.costs.get(key)) for key, _ in summary.parts),
                f'<td class="number"><span{good}>{saving_text(row.saving)}</span></td>',
                *(number(row.numbers.get(key)) for key, _ in NUMBERS),
            ]
        )
        kinds.append("chosen" if row.chosen else "floor" if row.floor else "")
    heads = [
        "alternative",
        *(f"cost, {escape(title)}" for _, title in summary.parts),
        "saving",
        *(title for _, title in NUMBERS),
    ]
    costs = {row.name: row.costs for row in summary.rows if row.name != "flooding"}
    chosen = next((row.name for row in summary.rows if row.chosen), "")
    picture = pictures.alternatives(costs, summary.parts, chosen, "the alternatives compared")
    caption = (
        "What an event costs on average: links crossed, each at its cost. Training events are those that a plan was "
        "fitted to; those held out chose between plans; fresh ones did neither, and say what to expect. Flooding is "
        "left out of the picture."
    )
    return (
        f"<section><h2>Alternatives</h2>{figure(picture, caption)}"
        f"{table(heads, rows, kinds)}<p class='fine'>Saving: against {escape(summary.now)}, by "
        f"{escape(dict(summary.parts)[summary.judged])}. Entries: of all brokers' tables, equal filters as one, "
        "without advertisements. False positives: cost of crossing links beyond which nobody wants the event. "
        "Copies: how often an event sets out on a tree.</p></section>"
    )


NUMBERS = (
    ("trees", "trees"),
    ("table_entries", "entries"),
    ("false_positives", "false positives"),
    ("copies", "copies"),
    ("duplicates", "duplicates"),
)


def curve_section(contents: Contents) -> str:
    """Return cost against the number of groups, if several were tried."""
    points = contents.plan.basis.get("curve")
    if not isinstance(points, list) or len(points) < 2:
        return ""
    good = [point for point in points if isinstance(point, dict) and point.get("groups", 0) > 0]
    if len(good) < 2:
        return ""
    caption = "What events cost with so many groups, each with a tree of its own; rings mark the least."
    picture = figure(pictures.curve(good, "cost by number of groups"), caption)
    return f"<section><h2>How many groups</h2>{picture}</section>"


def advice_section(advice: Advice | None) -> str:
    """Return what was replayed, as a picture and a table, cheapest first."""
    if advice is None:
        return ""
    order = sorted(advice.tried, key=_cost)
    whole = any(one.entries is not None for one in advice.tried)
    rows, kinds = [], []
    for one in order:
        tags = '<span class="tag">recommended</span>' if one is advice.best else ""
        tags += '<span class="tag grey">runs now</span>' if one is advice.now else ""
        name = escape(one.candidate.name) + tags
        told = "with" if one.candidate.advertisements else "without"
        kinds.append("chosen" if one is advice.best else "now" if one is advice.now else "")
        if one.measured is None:
            rows.append([name, told, f'<td colspan="{7 + whole}" class="fine">{escape(one.problem)}</td>'])
            continue
        measured = one.measured
        rows.append(
            [
                name,
                told,
                number(measured.cost / max(1, advice.events)),
                number(measured.forwarded),
                number(measured.false_positives),
                number(measured.entries),
                number(measured.largest),
                number(measured.control),
                number(measured.delivered),
                *([number(one.entries)] if whole else []),
            ]
        )
    heads = ["way of routing", "advertisements", "cost of an event", "transmissions", "false positives"]
    heads += ["entries", "largest table", "control messages", "deliveries"]
    heads += ["entries with all subscriptions"] if whole else []
    items = "".join(f"<li>{escape(text)}</li>" for text in advice.notes)
    caption = (
        f"Left is smaller tables, down is less traffic. What costs more than {pictures.FAR:g} times the cheapest is "
        "left out."
    )
    return (
        f"<section><h2>Every strategy, on your own traffic</h2><p>{escape(advice.sentence)}</p>"
        f"{figure(pictures.tried(advice, 'traffic against tables'), caption)}{table(heads, rows, kinds)}"
        f"<ul class='fine'>{items}</ul></section>"
    )


def _cost(one: Tried) -> tuple[float, int, int]:
    measured = one.measured
    if measured is None:
        return float("inf"), 0, 0
    return measured.cost, measured.entries, measured.control


def data_section(contents: Contents) -> str:
    """Return what the plan was made from, and what could not be used."""
    basis = contents.plan.basis
    facts = [
        [
            escape(str(key).replace("_", " ")),
            number(value) if isinstance(value, int | float) else escape(str(value)),
        ]
        for key, value in basis.items()
        if key not in ("reason", "quarantined", "curve")
    ]
    hosts = sorted((count, name) for name, count in contents.hosted.items() if count)
    if hosts:
        facts.append(["brokers that host subscriptions", number(len(hosts))])
        facts.append(["most subscriptions at a broker", f"{hosts[-1][0]:,} at {escape(hosts[-1][1])}"])
    bad = [
        [escape(name), escape(reason), number(rows)]
        for name, reasons in contents.quarantined.items()
        for reason, rows in list(reasons.items())[:MOST_REASONS]
    ]
    aside = (
        f"<h3>Set aside</h3>{table(['table', 'reason', 'rows'], bad)}"
        if bad
        else '<p class="fine">No row was set aside.</p>'
    )
    return f"<section><h2>The data</h2>{table(['', ''], facts)}{aside}</section>"


def making_section(contents: Contents) -> str:
    """Return why this plan, how long each stage took, with which parameters, and the checksum of the file."""
    digest = blake2b(contents.plan.encode(), digest_size=16).hexdigest()
    stages = [[escape(name), number(round(seconds, 2))] for name, seconds in contents.stages.items()]
    asked = [[escape(str(key)), escape(str(value))] for key, value in contents.parameters.items()]
    explain = f"<pre>{escape(contents.explain)}</pre>" if contents.explain else ""
    return (
        f"<section><h2>How it was made</h2>{explain}"
        + (table(["stage", "seconds"], stages) if stages else "")
        + (table(["parameter", "value"], asked) if asked else "")
        + f'<p class="fine">Digest of plan.json: <code>{digest}</code></p></section>'
    )
