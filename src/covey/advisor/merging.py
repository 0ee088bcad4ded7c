"""The section of the report on aggregation: which filters are forwarded as one, where, and what that saves.

Rows are those of the table `aggregation`, as the plan's file has them. The file may come from a stranger: what is no
number where one should be counts as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from covey.advisor.contents import Contents
from covey.advisor.forecast import Comparison
from covey.reports.page import Table
from covey.reports.words import counted

MOST_MERGES = 20


def merging_section(contents: Contents) -> dict[str, Any] | None:
    """Return the merges that save most, and what all save together; None if none is planned."""
    rows = contents.plan.aggregation
    if not rows:
        return None
    order = sorted(rows, key=lambda row: (-_amount(row, "gain"), _amount(row, "cost"), _place(row)))
    shown = [
        [
            str(row.get("broker", "")),
            str(row.get("towards") or "publishers here"),
            _amount(row, "tree"),
            _members(row),
            _amount(row, "gain"),
            _amount(row, "cost"),
            None if row.get("held_out_cost") is None else _amount(row, "held_out_cost"),
        ]
        for row in order[:MOST_MERGES]
    ]
    heads = ["broker", "towards", "tree", "filters", "entries saved", "cost", "cost, held out"]
    return {
        "totals": totals(rows),
        "table": Table(heads, shown),
        "more": len(rows) - len(shown),
        "measured": None if contents.merged is None else comparison(contents.merged),
    }


def comparison(merged: Comparison) -> Table:
    """Return what was forecast of merging that brokers do, beside what a simulated network did."""
    titles = {
        "entries": "entries of routing tables",
        "for_nobody": "links crossed for nobody, by all events together",
        "departure": "control messages, for a subscription that leaves",
        "release": "links away that the last broker hears of it",
    }
    rows = [
        [title, *(getattr(one, name) for one in (merged.said, merged.done, merged.unmerged))]
        for name, title in titles.items()
    ]
    return Table(["", "forecast", "measured", "measured, nothing merged"], rows)


def totals(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what all merges are together, in a sentence."""
    trees = {row.get("tree") for row in rows}
    gain = sum(_amount(row, "gain") for row in rows)
    cost, held_out = (sum(_amount(row, key) for row in rows) for key in ("cost", "held_out_cost"))
    return (
        f"{counted(len(rows), 'merge')} on {counted(len(trees), 'tree')} together save"
        f" {counted(int(gain), 'entry')} of routing tables, at a cost of {cost:,.4g}, and of"
        f" {held_out:,.4g} by events held out."
    )


def _amount(row: Mapping[str, Any], key: str) -> float:
    value = row.get(key)
    return value if isinstance(value, int | float) else 0


def _members(row: Mapping[str, Any]) -> int:
    members = row.get("members")
    return len(members) if isinstance(members, list) else 0


def _place(row: Mapping[str, Any]) -> tuple[float, str, float]:
    return _amount(row, "tree"), str(row.get("broker", "")), _amount(row, "block")
