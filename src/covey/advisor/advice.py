"""What to use: every strategy and plan replayed on the same traffic, one recommended, with the numbers for it.

The choice, in this order: events first, as they are what a network is for; a way of routing within CLOSE of the
cheapest is as good. Of these, the one with the smallest tables; within CLOSE of that, the one with the fewest control
messages; then the cheaper one; then the one that comes first, which is the simpler one.

Strategies that need an overlay without cycles run on the best single tree of one that has some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import covey.strategies
from covey.advisor.replay import Candidate, Measured, attempt
from covey.advisor.traffic import Traffic
from covey.planning.plan import Plan
from covey.routing.strategy import registered

CLOSE = 0.02

OnCandidate = Callable[
    [Candidate, int, int], None
]  # which one begins, its number from 1, and how many there are


@dataclass(frozen=True)
class Tried:
    """A candidate with what was measured, or why it could not run.

    `entries` is how many all tables would have with all subscriptions, if that is known.
    """

    candidate: Candidate
    measured: Measured | None
    problem: str = ""
    entries: int | None = None


@dataclass(frozen=True)
class Advice:
    """What was tried, what runs now, what is recommended, why in one sentence, and what to know about it all."""

    tried: Sequence[Tried]
    now: Tried
    best: Tried
    sentence: str
    notes: Sequence[str]
    events: int
    subscriptions: int

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON; the same for the same traffic."""
        return {
            "recommended": self.best.candidate.label,
            "now": self.now.candidate.label,
            "sentence": self.sentence,
            "notes": list(self.notes),
            "events": self.events,
            "subscriptions": self.subscriptions,
            "tried": [
                {
                    "name": one.candidate.name,
                    "strategy": one.candidate.strategy,
                    "advertisements": one.candidate.advertisements,
                    **({"problem": one.problem} if one.measured is None else one.measured.as_dict()),
                    "entries_of_all": one.entries,
                }
                for one in self.tried
            ],
        }


def candidates(plans: Mapping[str, Plan]) -> list[Candidate]:
    """Return every strategy and every plan, with advertisements and without."""
    found = [
        Candidate(f"{name} (unplanned)" if registered(name).trees else name, name, told)
        for name in covey.strategies()
        for told in (True, False)
    ]
    for name, plan in plans.items():
        strategy = plan.to_tree_plan().strategy
        found += [Candidate(f"plan {name}", strategy, told, plan) for told in (True, False)]
    return found


def advise(
    traffic: Traffic,
    plans: Mapping[str, Plan],
    *,
    now: str = "covering",
    advertisements: bool = True,
    on_candidate: OnCandidate = lambda candidate, number, count: None,
    only: Iterable[str] | None = None,
    entries: Mapping[tuple[str, bool], int] | None = None,
) -> Advice:
    """Replay the traffic under every strategy and plan and recommend one.

    `now` is the strategy that runs now, with advertisements or without; `only` restricts strategies, for tests;
    `entries` are sizes of all tables with all subscriptions, by strategy and advertisements, where they are known.
    ConfigError if there is no strategy of that name.
    """
    running = registered(now).name
    if "single" in plans and not traffic.is_tree:
        # The tree that was planned: one for the replayed events themselves would be fitted to them.
        traffic = replace(traffic, single=plans["single"].trees[0].links)
    every = candidates(plans)
    if only is not None:
        chosen = {running, *only}
        every = [one for one in every if one.plan is not None or one.strategy in chosen]
    tried: list[Tried] = []
    for number, candidate in enumerate(every, start=1):
        on_candidate(candidate, number, len(every))
        result = attempt(traffic, candidate)
        measured = result if isinstance(result, Measured) else None
        whole = (entries or {}).get((candidate.strategy, candidate.advertisements))
        if registered(candidate.strategy).trees:
            whole = None  # that is the size on one tree, and the candidate has others
        tried.append(Tried(candidate, measured, result if isinstance(result, str) else "", whole))
    here = next(
        one
        for one in tried
        if one.candidate.strategy == running
        and one.candidate.plan is None
        and one.candidate.advertisements == advertisements
    )
    best = choose(tried)
    return Advice(
        tried,
        here,
        best,
        sentence(best, here, len(traffic.events)),
        notes(traffic),
        len(traffic.events),
        len(traffic.subscriptions),
    )


def choose(tried: Sequence[Tried]) -> Tried:
    """Return the one that is recommended; see the module's text for the rule."""
    able = [one for one in tried if one.measured is not None]
    assert able, "flooding runs on every overlay"
    for quantity in ("cost", "entries", "control"):
        least = min(getattr(one.measured, quantity) for one in able)
        able = [one for one in able if getattr(one.measured, quantity) <= least * (1 + CLOSE)]
    return min(able, key=lambda one: one.measured.cost if one.measured else 0.0)


def sentence(best: Tried, now: Tried, events: int) -> str:
    """Return the recommendation in one sentence."""
    assert best.measured is not None
    per_event = best.measured.cost / max(1, events)
    facts = (
        f"an event costs {per_event:,.2f} on average, tables have {best.measured.entries:,} entries, "
        f"{best.measured.control:,} control messages set them up"
    )
    if now.measured is None:
        return f"Use {best.candidate.label}: {facts}; what runs now cannot run here: {now.problem}."
    if best is now:
        return f"Stay with {best.candidate.label}: {facts}, and nothing that was tried does better."
    return (
        f"Use {best.candidate.label} instead of {now.candidate.label}: {facts}; that is "
        f"{change(best.measured.cost, now.measured.cost)} in traffic, "
        f"{change(best.measured.entries, now.measured.entries)} in tables and "
        f"{change(best.measured.control, now.measured.control)} in control messages."
    )


def change(value: float, before: float) -> str:
    """Return by how much a value differs from the one before, in words."""
    if value == before:
        return "no difference"
    if before == 0:
        return f"{value:,.0f} instead of none"
    share = value / before - 1
    return (
        f"{abs(share):.0%} {'less' if share < 0 else 'more'}" if abs(share) >= 0.005 else "almost no change"
    )


def notes(traffic: Traffic) -> list[str]:
    """Return what to know about the replay, a sentence each."""
    of_subscriptions = traffic.totals.get("subscriptions", len(traffic.subscriptions))
    of_events = traffic.totals.get("events", len(traffic.events))
    sample = (
        f"Replayed: {len(traffic.subscriptions):,} of {of_subscriptions:,} subscriptions and "
        f"{len(traffic.events):,} of {of_events:,} events, drawn by their names, on all {len(traffic.brokers):,} "
        "brokers; tables and control messages are of these subscriptions, so compare them with each other, not with "
        "the whole network."
    )
    found = [sample, "Every way of routing delivered exactly what the filters ask for."]
    if not traffic.is_tree:
        found.append("The overlay has cycles: strategies that need a tree were run on its best single tree.")
    return [*found, *traffic.notes]
