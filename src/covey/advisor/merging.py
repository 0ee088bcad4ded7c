"""The section of the report on aggregation: which filters are forwarded as one, where, and what that saves.

Rows are those of the table `aggregation`, as the plan's file has them. The file may come from a stranger: what is no
number where one should be counts as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from covey.advisor.contents import Contents
from covey.advisor.forecast import Comparison
from covey.advisor.page import counted, number, table

MOST_MERGES = 20


def merging_section(contents: Contents) -> str:
    """Return the merges that save most, and what all save together; nothing if none is planned."""
    rows = contents.plan.aggregation
    if not rows:
        return ""
    order = sorted(rows, key=lambda row: (-_amount(row, "gain"), _amount(row, "cost"), _place(row)))
    shown = [
        [
            escape(str(row.get("broker", ""))),
            escape(str(row.get("towards") or "publishers here")),
            number(_amount(row, "tree")),
            number(_members(row)),
            number(_amount(row, "gain")),
            number(_amount(row, "cost")),
            number(None if row.get("held_out_cost") is None else _amount(row, "held_out_cost")),
        ]
        for row in order[:MOST_MERGES]
    ]
    heads = ["broker", "towards", "tree", "filters", "entries saved", "cost", "cost, held out"]
    measured = "" if contents.merged is None else comparison(contents.merged)
    more = len(rows) - len(shown)
    note = f'<p class="fine">and {more:,} more, which save less each</p>' if more else ""
    return (
        f"<section><h2>Filters forwarded as one</h2><p>{escape(totals(rows))}</p>{table(heads, shown)}{note}"
        '<p class="fine">Entries saved: filters that links towards producers no longer carry. Cost: for one departure '
        "of each filter merged, links crossed for nobody until brokers have learnt of it, for each event that the tree "
        f"carries; by the events planned with, and by those held out, which say what to expect.</p>{measured}</section>"
    )


def comparison(merged: Comparison) -> str:
    """Return what was forecast of merging that brokers do, beside what a simulated network did."""
    titles = {
        "entries": "entries of routing tables",
        "for_nobody": "links crossed for nobody, by all events together",
        "departure": "control messages, for a subscription that leaves",
        "release": "links away that the last broker hears of it",
    }
    rows = [
        [title, *(number(getattr(one, name)) for one in (merged.said, merged.done, merged.unmerged))]
        for name, title in titles.items()
    ]
    heads = ["", "forecast", "measured", "measured, nothing merged"]
    return (
        "<h3>Brokers merge them</h3><p>Forecast from filters alone, and measured in the simulator without"
        f" advertisements, on the traffic of the replay.</p>{table(heads, rows)}"
        '<p class="fine">Brokers keep what they merge, so they need not collect it again when a subscription leaves.'
        " What they tell is narrower as soon as the news has arrived: the cost above, of brokers that forget, is not"
        " paid. Merging is paid for by control messages.</p>"
    )


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
