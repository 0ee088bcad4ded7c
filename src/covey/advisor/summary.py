"""What the alternatives are said to cost, and what that saves against what runs now: rows for tables and pictures.

What runs now is a strategy on one tree. All strategies but flooding send an event over the same links of a tree, up to
what imperfect ones waste, so `single` (one tree, the best that planning finds) stands for them, and the saving is not
flattered by a bad tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from covey.planning.plan import Plan
from covey.routing.strategy import registered

SINGLE, FLOODING, OPT = "single", "flooding", "opt"
COMPARED = (FLOODING, "spt")  # what alternatives are compared with, and nobody would choose
PARTS = (  # the number of a part, its title, and where the plan's basis says how many events it has
    ("cost_training", "training events", "training"),
    ("cost_held_out", "events held out", "held_out"),
    ("cost_fresh", "fresh events", "fresh"),
)
MEANINGS = {
    SINGLE: "one tree for all",
    "held-out": "groups by likeness, as many as cost least on events held out (MULT)",
    "mult": "groups by likeness of the events that they match (MULT)",
    "overlap": "groups by overlap of the events that they match",
    "mult2": "groups by what merging them saves (MULT2)",
    "hybrid": "groups by likeness first, then by what merging saves",
    "regions": "one copy of each event, on the tree of the region where it is wanted",
    "regions-cheapest": "one copy of each event, on the tree on which it costs least",
    "mixed": "one tree for most events, more trees for those that gain; one copy, where it costs least",
    "spt": "one tree of shortest paths from a broker drawn by chance",
    FLOODING: "one tree, every event over every link",
    "unicast": "a tree for each broker",
    OPT: "a Steiner tree for each event: about the least that is possible",
}


@dataclass(frozen=True)
class Row:
    """An alternative: cost of an event by part, and what else is known of it; `saving` is on the part that judges."""

    name: str
    meaning: str
    costs: Mapping[str, float]
    numbers: Mapping[str, float]
    saving: float | None
    chosen: bool
    floor: bool


@dataclass(frozen=True)
class Summary:
    """All alternatives, cheapest first, and by which part they are judged: fresh events, if there are enough."""

    rows: Sequence[Row]
    parts: Sequence[tuple[str, str]]
    judged: str
    now: str

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "now": self.now,
            "judged_on": dict(self.parts).get(self.judged, self.judged),
            "alternatives": [
                {
                    "name": row.name,
                    "chosen": row.chosen,
                    "cost_of_an_event": dict(row.costs),
                    "saving": row.saving,
                    **row.numbers,
                }
                for row in self.rows
            ],
        }


def summarise(plan: Plan, strategy: str) -> Summary:
    """Return the plan's alternatives beside what runs now; ConfigError if there is no strategy of that name."""
    now = FLOODING if registered(strategy).name == FLOODING else SINGLE
    counts = {key: float(plan.basis.get(part) or 0) for key, _, part in PARTS}
    present = [
        (key, title)
        for key, title, _ in PARTS
        if counts[key] and any(key in numbers for numbers in plan.predictions.values())
    ]
    if not present:
        present, counts = [("cost", "all events")], {"cost": float(plan.basis.get("sampled") or 1)}
    judged = present[-1][0]
    costs = {
        name: {key: numbers[key] / counts[key] for key, _ in present if key in numbers}
        for name, numbers in plan.predictions.items()
    }
    before = costs.get(now, {}).get(judged)
    rows = [
        Row(
            name,
            MEANINGS.get(name, ""),
            costs[name],
            numbers,
            1 - costs[name][judged] / before if before and judged in costs[name] else None,
            name == plan.method,
            name == OPT,
        )
        for name, numbers in plan.predictions.items()
    ]
    rows.sort(key=lambda row: (row.costs.get(judged, float("inf")), row.name))
    said = f"{registered(strategy).name} on one tree"
    return Summary(rows, present, judged, said)


def runner_up(summary: Summary) -> str:
    """Return in one line which alternative comes after the chosen one, and by how much."""
    chosen = next((row for row in summary.rows if row.chosen), None)
    others = [row for row in summary.rows if not (row.chosen or row.floor or row.name in COMPARED)]
    part = dict(summary.parts)[summary.judged]
    if chosen is None or not others or summary.judged not in chosen.costs:
        return "There was nothing to choose from."
    other = others[0]
    mine, theirs = chosen.costs[summary.judged], other.costs.get(summary.judged, 0.0)
    return f"Next: {other.name}, {theirs:.4g} an event on {part}, where {chosen.name} costs {mine:.4g}."


def saving_text(saving: float | None) -> str:
    """Return a saving as people read it: a loss has a minus."""
    if saving is None:
        return ""
    return f"{saving:+.1%}".replace("+", "") if abs(saving) >= 0.0005 else "0%"


def for_entries(summary: Summary) -> str:
    """Return how many table entries the chosen plan needs beside one tree, as the end of a sentence."""
    entries = {row.name: row.numbers.get("table_entries") for row in summary.rows}
    mine = next((entries[row.name] for row in summary.rows if row.chosen), None)
    return entries_text(mine, entries.get(SINGLE))


def entries_text(after: float | None, before: float | None) -> str:
    """Return how table entries change, as the end of a sentence; empty if that is not known."""
    if not after or not before:
        return ""
    if after == before:
        return ", with the same number of table entries"
    share = after / before
    if share >= 1.05:
        return f", for {share:.1f} times the table entries"
    return (
        f", with {1 - share:.0%} fewer table entries"
        if share < 0.995
        else ", with about as many table entries"
    )


def saved(summary: Summary) -> float | None:
    """Return what the chosen plan saves."""
    return next((row.saving for row in summary.rows if row.chosen), None)
