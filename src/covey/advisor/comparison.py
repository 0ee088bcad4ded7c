"""Sections of the report that compare: the alternatives, numbers of groups, and what was replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from covey.advisor import charts
from covey.advisor.advice import Advice, Tried
from covey.advisor.contents import Contents
from covey.advisor.summary import saving_text
from covey.reports.drawing import Picture
from covey.reports.page import Cell, Content, Kind, Table, Tag

NUMBERS = (
    ("trees", "trees"),
    ("table_entries", "entries"),
    ("false_positives", "false positives"),
    ("copies", "copies"),
    ("duplicates", "duplicates"),
)


def alternatives_section(contents: Contents) -> dict[str, Any] | None:
    """Return the alternatives compared, as a picture and a table; None if the plan has none."""
    summary = contents.summary
    if not summary.rows:
        return None
    rows: list[list[Content]] = []
    kinds: list[Kind] = []
    for row in summary.rows:
        tone: Any = "" if not row.saving else "good" if row.saving > 0 else "bad"
        rows.append(
            [
                Cell(row.name, [Tag("chosen")] if row.chosen else [], row.meaning),
                *(row.costs.get(key) for key, _ in summary.parts),
                Cell(saving_text(row.saving), tone=tone, is_number=True),
                row.numbers.get("price"),
                *(row.numbers.get(key) for key, _ in NUMBERS),
            ]
        )
        kinds.append("chosen" if row.chosen else "floor" if row.floor else "")
    heads = [
        "alternative",
        *(f"cost, {title}" for _, title in summary.parts),
        "saving",
        "price",
        *(title for _, title in NUMBERS),
    ]
    costs = {row.name: row.costs for row in summary.rows if row.name != "flooding"}
    return {
        "picture": charts.alternatives(
            costs, summary.parts, next((row.name for row in summary.rows if row.chosen), "")
        ),
        "table": Table(heads, rows, kinds, copy=True),
        "now": summary.now,
        "judged": dict(summary.parts)[summary.judged],
        "flooding_left_out": len(costs) < len(summary.rows),
    }


def curve_section(contents: Contents) -> Picture | None:
    """Return cost against the number of groups, if several were tried."""
    basis = contents.plan.basis
    points = basis.get("curve")
    if not isinstance(points, list) or len(points) < 2:
        return None
    good = [
        costed
        for point in points
        if isinstance(point, dict) and point.get("groups", 0) > 0 and len(costed := _per_event(point)) > 1
    ]
    if len(good) < 2:
        return None
    return charts.curve(good)


def _per_event(point: Mapping[str, Any]) -> dict[str, float]:
    """Return a point with costs by event, without those of no events."""
    found = {"groups": point["groups"]}
    for key, of in (("sample", "documents"), ("held_out", "others")):
        count = point.get(of)
        if isinstance(count, int) and count > 0 and isinstance(point.get(key), int | float):
            found[key] = point[key] / count
    return found


def advice_section(advice: Advice | None) -> dict[str, Any] | None:
    """Return what was replayed, as a picture and a table, cheapest first; None if nothing was."""
    if advice is None:
        return None
    whole = any(one.entries is not None for one in advice.tried)
    rows: list[list[Content]] = []
    kinds: list[Kind] = []
    for one in sorted(advice.tried, key=_cost):
        tags = [
            *([Tag("recommended")] if one is advice.best else []),
            *([Tag("runs now", is_quiet=True)] if one is advice.now else []),
        ]
        told = "with" if one.candidate.advertisements else "without"
        kinds.append("chosen" if one is advice.best else "now" if one is advice.now else "")
        row: list[Content] = [Cell(one.candidate.name, tags), told]
        measured = one.measured
        if measured is None:
            row.append(Cell(one.problem, tone="fine", span=7 + whole))
        else:
            row += [
                measured.cost / max(1, advice.events),
                measured.forwarded,
                measured.false_positives,
                measured.entries,
                measured.largest,
                measured.control,
                measured.delivered,
                *([one.entries] if whole else []),
            ]
        rows.append(row)
    heads = ["way of routing", "advertisements", "cost of an event", "transmissions", "false positives"]
    heads += ["entries", "largest table", "control messages", "deliveries"]
    heads += ["entries with all subscriptions"] if whole else []
    return {
        "sentence": advice.sentence,
        "picture": charts.tried(advice),
        "table": Table(heads, rows, kinds, copy=True),
        "notes": advice.notes,
    }


def _cost(one: Tried) -> tuple[float, int, int]:
    measured = one.measured
    if measured is None:
        return float("inf"), 0, 0
    return measured.cost, measured.entries, measured.control
