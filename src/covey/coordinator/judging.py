"""Decisions: when a plan is installed, and whether it has kept what it promised. No clock, no network, no Spark.

A plan is worth its installation if it saves at least the threshold on fresh events, against what is in use now on the
same events. After it has been in use for a while, what events really cross is compared with what they would have
crossed under the plan before:

    baseline   what the plan before is predicted to cost on the events of the window of now, times how much more or less
               than predicted was measured while it was in use
    saving     1 - measured / baseline

So a change of the traffic itself is not taken for a fault of the plan, nor what no prediction knows of (confirmed
events, control) for its cost. If the saving is below minus the tolerance, the plan is taken back; and each time that
happens in a row, the next plan has to promise twice as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from covey.coordinator.looking import Traffic
from covey.planning.plan import Plan

INSTALLED: Final = "installed"  # the names under which plans are compared that exist already
BEFORE: Final = "before"
MOST_CAUTION: Final = 4  # times that the threshold is doubled


@dataclass(frozen=True)
class Costs:
    """Links that an event is predicted to cross, on events that nothing was fitted to; None where nobody knows."""

    planned: float
    installed: float | None
    before: float | None
    floor: float | None  # a Steiner tree for each event

    @classmethod
    def of(cls, plan: Plan) -> Costs:
        """Return what a plan says of itself and of what it was compared with."""
        fresh = int(plan.basis.get("fresh", 0) or 0)
        part, events = ("cost_fresh", fresh) if fresh else ("cost", int(plan.basis.get("sampled", 0) or 1))

        def per_event(name: str) -> float | None:
            value = plan.predictions.get(name, {}).get(part)
            return None if value is None else value / events

        return cls(per_event(plan.method) or 0.0, per_event(INSTALLED), per_event(BEFORE), per_event("opt"))

    @property
    def saving(self) -> float | None:
        """The share of what is in use now that the plan is predicted to save."""
        if self.installed is None:
            return None
        return 1 - self.planned / self.installed if self.installed > 0 else 0.0


@dataclass(frozen=True)
class Probation:
    """A plan that was installed and is not yet judged: what was predicted, and what was measured before it."""

    predicted: float  # the saving
    predicted_before: float | None  # links that an event crosses under the plan before
    measured_before: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return dict(vars(self))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Probation:
        """Return what `as_dict` gave."""
        return cls(*(values[name] for name in ("predicted", "predicted_before", "measured_before")))


@dataclass(frozen=True)
class Verdict:
    """What is to be done: "keep" what is in use, "install" the new plan, "confirm" or "take back" the last one."""

    action: str
    reason: str
    predicted: float | None = None  # savings, as shares
    measured: float | None = None


def propose(costs: Costs, threshold: float, caution: int = 0) -> Verdict:
    """Return whether the new plan is to be installed; `caution` counts plans in a row that were taken back."""
    saving = costs.saving
    if saving is None:
        return Verdict("install", "what is in use does not fit the overlay any longer")
    asked = min(1.0, threshold * 2 ** min(caution, MOST_CAUTION))
    said = f"it would save {saving:.1%} on fresh events, and {asked:.1%} are asked for"
    enough = saving > 0 and saving >= asked - 1e-12
    return Verdict("install" if enough else "keep", said, saving)


def judge(probation: Probation, costs: Costs, after: Traffic, tolerance: float) -> Verdict:
    """Return whether the plan on probation stays."""
    measured = after.per_event
    if measured is None:
        return Verdict("keep", "nothing was published since", probation.predicted)
    ratio = 1.0
    if probation.measured_before is not None and probation.predicted_before:
        ratio = probation.measured_before / probation.predicted_before
    baseline = probation.measured_before if costs.before is None else costs.before * ratio
    if not baseline:
        return Verdict("confirm", "nothing is known to compare it with", probation.predicted)
    saving = 1 - measured / baseline
    said = f"an event crosses {measured:.3g} links, and would cross {baseline:.3g} under the plan before"
    action = "take back" if saving < -tolerance else "confirm"
    return Verdict(action, said, probation.predicted, saving)
