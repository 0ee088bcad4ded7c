"""The plan in use: its trees, what was predicted for each alternative, and the rounds of a coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from covey.advisor.summary import summarise
from covey.coordinator.rounds import read_rounds
from covey.errors import CoveyError
from covey.planning.plan import Plan

MAX_ROUNDS: Final = 200
_SHOWN: Final = (
    "number", "at_s", "action", "reason", "measured", "planned", "installed", "floor", "method", "trees",
    "predicted_saving", "measured_saving", "events", "subscriptions", "seconds", "problems",
)  # fmt: skip


def describe(data: bytes, strategy: str) -> dict[str, Any] | None:
    """Return what a plan's file says, None if it is empty; CoveyError if it is none.

    `alternatives` have their cost, the links that an event crosses, and their table entries, where those are known.
    """
    if not data:
        return None
    plan = Plan.decode(data)
    summary = summarise(plan, strategy)
    return {
        "method": plan.method,
        "brokers": len(plan.brokers),
        "trees": [{"root": tree.root, "links": len(tree.links)} for tree in plan.trees],
        "groups": len(plan.groups),
        "aggregated": len(plan.aggregation),
        "one_copy": plan.one_copy,
        "basis": {name: value for name, value in plan.basis.items() if isinstance(value, int | float | str)},
        "judged_on": dict(summary.parts).get(summary.judged, ""),
        "alternatives": [
            {
                "name": row.name,
                "meaning": row.meaning,
                "cost": row.costs.get(summary.judged),
                "entries": row.numbers.get("table_entries"),
                "trees": row.numbers.get("trees"),
                "saving": row.saving,
                "chosen": row.chosen,
                "floor": row.floor,
            }
            for row in summary.rows
        ],
    }


def rounds(directory: Path | None) -> list[dict[str, Any]]:
    """Return the last rounds of a coordinator, from its data directory; nothing without one, or before the first."""
    if directory is None:
        return []
    try:
        found = read_rounds(directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CoveyError(f"the rounds in {directory} cannot be read: {error.strerror or error}") from None
    return [_shown(one) for one in found[-MAX_ROUNDS:] if isinstance(one, dict)]


def _shown(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.get(name) for name in _SHOWN}


def crossed(totals: Mapping[str, float]) -> float | None:
    """Return how many links an event crosses, by rates; None while nothing is published."""
    return totals["forwarded"] / totals["published"] if totals["published"] else None
