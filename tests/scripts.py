"""A small script of every workload, and what tests look for in scripts."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from covey.core.filter import Filter
from covey.sim import topology as topologies
from covey.sim.topology import Topology
from covey.sim.workload import Action, Script, build

REBECA = topologies.rebeca(3)

SMALL: dict[str, tuple[Topology, dict[str, Any]]] = {
    "quotes": (REBECA, {"consumers": 3, "toggles": 40, "events": 50, "locality": 0.5}),
    "quote-intervals": (REBECA, {"consumers": 3, "toggles": 40, "events": 50}),
    "siena": (topologies.random_tree(12, 1), {"subscriptions": 150, "churn": 60, "events": 80}),
    "siena-3": (topologies.line(4), {"subscriptions": 50, "churn": 20, "events": 40, "publishers": 3}),
    "ranges": (topologies.star(5), {"subscriptions": 80, "churn": 30, "events": 60, "locality": 0.5}),
    "covering-burst": (
        topologies.core_edge(),
        {"subscriptions": 900, "roots": 4, "covered": 50, "broad": 3, "events_before": 30, "events_after": 40},
    ),
    "workflow": (
        topologies.domains(),
        {"small": 6, "medium": 5, "large": 3, "duration_s": 200.0, "administrate_every_s": 60.0,
         "administrate_for_s": 20.0},
    ),
    "commuters": (topologies.star(), {"subscribers": 200, "publishers": 4, "rush_s": 600.0, "rushes": 2}),
    "keywords": (
        topologies.transit_stub(60, 1, extra=0.5),
        {"keywords": 60, "nearest": 0.1, "events": 80, "publishers": 5, "skew": 0.5},
    ),
    "xpath": (
        topologies.xroute64(1),
        {"subscriptions": 60, "churn": 20, "events": 5, "parsed": False},
    ),
}  # fmt: skip


def small(kind: str, seed: int = 3, **parameters: Any) -> Script:
    topology, usual = SMALL[kind]
    return build(kind, topology, seed, **{**usual, **parameters})


def written(action: Action) -> str:
    """Return an action as text that does not depend on the order of sets."""
    what = sorted(action.what) if isinstance(action.what, frozenset) else str(action.what)
    return f"{action._replace(what=None)!r} {what}"


def digest() -> str:
    """Return a digest of all small scripts, for the comparison between processes."""
    text = "\n".join(written(action) for kind in SMALL for action in small(kind))
    return hashlib.sha256(text.encode()).hexdigest()


def subscribed(script: Script) -> dict[str, Filter]:
    return {action.name: action.what for action in script if action.op == "subscribe"}


def phase_of(script: Script, at_s: float) -> str:
    return [name for name, start_s in script.phases.items() if start_s <= at_s][-1]


def by_phase(script: Script) -> Counter[tuple[str, str]]:
    return Counter((phase_of(script, action.at_s), action.op) for action in script)


def published(script: Script, phase: str) -> list[Action]:
    return [a for a in script if a.op == "publish" and phase_of(script, a.at_s) == phase]
