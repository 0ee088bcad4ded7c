"""What to use: every strategy and plan replayed on the same traffic, one recommended, with the numbers for it.

The choice, in this order: events first, as they are what a network is for; a way of routing within CLOSE of the
cheapest is as good. Of these, the one with the smallest tables; within CLOSE of that, the one with the fewest control
messages; then the cheaper one; then the one that comes first, which is the simpler one. What runs now stays if it
measures the same as that one.

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
from covey.reports.words import counted
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
    """What was tried, what runs now, what is recommended, why in a sentence and its figures, and what to know of it."""

    tried: Sequence[Tried]
    now: Tried
    best: Tried
    headline: str
    figures: str
    notes: Sequence[str]
    events: int
    subscriptions: int

    @property
    def sentence(self) -> str:
        """The recommendation with its figures."""
        return f"{self.headline} {self.figures}"

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
    if here.measured is not None and best.measured is not None and here.measured.as_good(best.measured):
        best = here  # a change would gain nothing
    return Advice(
        tried,
        here,
        best,
        headline(best, here),
        figures(best, here, len(traffic.events)),
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


def headline(best: Tried, now: Tried) -> str:
    """Return the recommendation in one sentence: what is gained first, then what to do."""
    assert best.measured is not None
    if now.measured is None:
        return f"Use {best.candidate.phrase}: {now.candidate.phrase}, which runs now, cannot run here ({now.problem})."
    if best is now:
        return f"Stay with {now.candidate.phrase}: nothing that was replayed does better."
    gained = gain(best.measured, now.measured)
    if not gained:
        return f"Almost nothing is gained by {best.candidate.phrase} instead of {now.candidate.phrase}."
    return f"{gained}: use {best.candidate.phrase} instead of {now.candidate.phrase}."


def gain(best: Measured, now: Measured) -> str:
    """Return what the better way gains, and at which price, as the beginning of a sentence; "" if hardly anything."""
    traffic = amount(best.cost, now.cost, "less", "more", "traffic")
    tables = amount(best.entries, now.entries, "smaller", "larger", "routing tables")
    control = amount(best.control, now.control, "fewer", "more", "control messages")
    if " less " in traffic:
        return f"{traffic} {'and' if ' smaller ' in tables else 'for'} {tables}"
    if " smaller " in tables:
        return f"{tables} for {traffic}"
    if " fewer " in control:
        return f"{control} for {traffic} and {tables}"
    return ""


def figures(best: Tried, now: Tried, events: int) -> str:
    """Return the figures for the recommendation, in a sentence."""
    assert best.measured is not None
    mine, before = best.measured, now.measured
    instead, entries, control = "", "", ""
    if before is not None and best is not now:
        if before.cost != mine.cost:
            instead = f" instead of {before.cost / max(1, events):,.2f}"
        entries = f" ({change(mine.entries, before.entries, 'fewer')})"
        control = f" ({change(mine.control, before.control, 'fewer')})"
    return (
        f"In the replay an event costs {mine.cost / max(1, events):,.2f} on average{instead}, all routing tables"
        f" together have {counted(mine.entries, 'entry')}{entries}, and {counted(mine.control, 'control message')}"
        f"{' sets' if mine.control == 1 else ' set'} them up{control}."
    )


def change(value: float, before: float, fewer: str = "less") -> str:
    """Return by how much a value differs from the one before, in words."""
    if value == before:
        return "no difference"
    if before == 0:
        return f"{value:,.0f} instead of none"
    share = value / before - 1
    return f"{abs(share):.0%} {fewer if share < 0 else 'more'}" if abs(share) >= 0.005 else "almost no change"


def amount(value: float, before: float, lower: str, higher: str, thing: str) -> str:
    """Return how much of a thing there is compared with before: 22% less traffic, the same routing tables."""
    if value == before:
        return f"the same {thing}"
    if before and abs(value / before - 1) < 0.005:
        return f"almost the same {thing}"
    return (
        f"{abs(value / before - 1):.0%} {lower if value < before else higher} {thing}"
        if before
        else f"more {thing}"
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
