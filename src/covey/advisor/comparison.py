"""Sections of the report that compare: the alternatives, numbers of groups, and what was replayed."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from covey.advisor import charts
from covey.advisor.advice import Advice, Tried
from covey.advisor.contents import Contents
from covey.advisor.page import number, said, table
from covey.advisor.summary import saving_text


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
                number(row.numbers.get("price")),
                *(number(row.numbers.get(key)) for key, _ in NUMBERS),
            ]
        )
        kinds.append("chosen" if row.chosen else "floor" if row.floor else "")
    heads = [
        "alternative",
        *(f"cost, {escape(title)}" for _, title in summary.parts),
        "saving",
        "price",
        *(title for _, title in NUMBERS),
    ]
    costs = {row.name: row.costs for row in summary.rows if row.name != "flooding"}
    chosen = next((row.name for row in summary.rows if row.chosen), "")
    picture = charts.alternatives(costs, summary.parts, chosen)
    left_out = "" if len(costs) == len(summary.rows) else " Flooding is in the table only."
    return (
        f"<section><h2>Alternatives</h2>{picture}"
        f"{table(heads, rows, kinds, copy=True)}<p class='fine'>Saving: how much less an event costs than with "
        f"{escape(summary.now)}, predicted on {escape(dict(summary.parts)[summary.judged])}. Price: what an event "
        "costs with its share of tables, trees, publishing and the change, on all events. Entries: in the routing "
        "tables of all brokers, without advertisements; equal filters are one entry. False positives: what it costs to "
        "send events over links beyond which nobody wants them. Copies: how often an event starts on a tree."
        f"{left_out}</p></section>"
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
    basis = contents.plan.basis
    points = basis.get("curve")
    if not isinstance(points, list) or len(points) < 2:
        return ""
    good = [
        costed
        for point in points
        if isinstance(point, dict) and point.get("groups", 0) > 0 and len(costed := _per_event(point)) > 1
    ]
    if len(good) < 2:
        return ""
    return f"<section><h2>How many groups</h2>{charts.curve(good)}</section>"


def _per_event(point: Mapping[str, Any]) -> dict[str, float]:
    """Return a point with costs by event, without those of no events."""
    found = {"groups": point["groups"]}
    for key, of in (("sample", "documents"), ("held_out", "others")):
        count = point.get(of)
        if isinstance(count, int) and count > 0 and isinstance(point.get(key), int | float):
            found[key] = point[key] / count
    return found


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
    return (
        f"<section><h2>Every strategy, on your own traffic</h2><p>{said(advice.sentence)}</p>"
        f"{charts.tried(advice)}{table(heads, rows, kinds)}"
        f"<ul class='fine'>{items}</ul></section>"
    )


def _cost(one: Tried) -> tuple[float, int, int]:
    measured = one.measured
    if measured is None:
        return float("inf"), 0, 0
    return measured.cost, measured.entries, measured.control
