"""What a job of planning is asked, what it tells on the way, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from covey.errors import ConfigError
from covey.pipeline.session import check_asked
from covey.planning.budget import Budget
from covey.planning.groups.registry import METHODS
from covey.planning.objective import Objective
from covey.planning.plan import Plan

BEST = "best"
BUDGET_S = 20.0
MOST_LOST = 10  # links and brokers that are named
NOT_INSTALLABLE = ("flooding", "opt")
MERGING = ("mefa", "mefa+", "dpa", "spa", "aa", "best", "quick", "improved")  # of paper W, and ours


@dataclass(frozen=True)
class Request:
    """What to plan, from what, and where to; ConfigError for a master, memory or settings that Spark cannot have.

    input_dir  has the tables topology, subscriptions, events (and may have advertisements, deliveries): Parquet, or
               .csv, .json, .jsonl files of the same names
    out_dir    gets plan.json, quarantine/, and stages/<name>/, used again if input and parameters are the same
    master     where Spark runs (`session`); None: the session that runs already, else as Spark is configured, else here
    method     one of `methods()`
    sample     the share of events that is looked at
    held_out   the share of these that nothing is fitted to; half of it chooses, half reports
    seed       for samples, and for whatever a method draws
    aggregate  whether to plan too what is merged where, on the trees that are chosen; None: if there are not too many
               interests and trees (`jobs.FEW_INTERESTS`, `jobs.FEW_TREES`)
    aggregation  the method by which brokers merge, one of `MERGING`: what is planned is installed with the plan.
               None: it is not, and what `aggregate` finds is advice
    max_excess the share of sampled events that a merger may let in and none of its members wants; 0: exact mergers
    known      plans' files that are to be compared too, by names that stand beside those of methods: what runs now
    log        what Spark prints; by default out_dir/spark.log
    epochs     columns of times that are numbers, with what these count since 1970: {"events.at": "ms"}; s, ms or us
    columns    where columns are that do not have their own names: {"events.at": "meta.time"}; a point goes into a
               struct, or into an object of JSON
    tables     tables of the session's catalogs in place of files: {"events": "catalog.db.events"}
    driver_memory  of Spark's driver, such as 4g; by default by the size of the input, if the driver is started for this
    conf       settings of Spark, which win over those that it is configured with
    objective  prices of what a plan uses, and limits: by these `best` chooses
    backups    whether to add trees so that some tree is left whichever link or broker fails (`planning.backup`)
    budget_s   how long each method may compute, in seconds that are estimated from counted work (`planning.budget`)
    """

    input_dir: Path
    out_dir: Path
    master: str | None = None
    method: str = BEST
    sample: float = 1.0
    held_out: float = 1 / 3
    seed: int = 1
    aggregate: bool | None = None
    known: Mapping[str, bytes] = field(default_factory=dict)
    log: Path | None = None
    epochs: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    driver_memory: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    objective: Objective = field(default_factory=Objective)
    budget_s: float = BUDGET_S
    backups: bool = False
    aggregation: str | None = None
    max_excess: float = 0.0

    def __post_init__(self) -> None:
        check_asked(self.master, self.driver_memory, self.conf)
        Budget(self.budget_s)
        if self.aggregation is not None and self.aggregation not in MERGING:
            raise ConfigError(
                f"there is no method {self.aggregation!r:.40} of aggregation (hint: one of {', '.join(MERGING)})"
            )
        if not 0 <= self.max_excess <= 1:
            raise ConfigError(f"the excess of mergers is a share from 0 to 1, not {self.max_excess}")

    @property
    def merging(self) -> dict[str, Any] | None:
        """What the plan is asked to install of aggregation."""
        if self.aggregation is None:
            return None
        return {"method": self.aggregation, "excess": self.max_excess}


@dataclass(frozen=True)
class Progress:
    """A stage begins (`seconds` is None), or has ended: place `number` of `count`, with a few words on what it found.

    `kept` says that it was not computed, because an earlier run with the same input and parameters had done it. A step
    with a `note` is neither: it tells in a line what users should know, such as a kept table that is damaged.
    """

    stage: str
    number: int
    count: int
    seconds: float | None = None
    kept: bool = False
    detail: str = ""
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    quarantined   for each table, how many rows were set aside for each reason
    alternatives  for each alternative, numbers by name; the same as plan.predictions
    stages        the seconds that each stage took
    explain       why this plan, in a few lines
    damaged       a line for each table of an earlier run that was damaged, and was computed again
    master        where Spark ran, as the session itself says
    reused        what of an earlier run was used again, and what planning again took, in a line; "" if nothing was
    """

    plan: Plan
    plan_file: Path
    quarantined: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    alternatives: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
    explain: str = ""
    damaged: tuple[str, ...] = ()
    master: str = ""
    reused: str = ""

    @property
    def quarantine(self) -> Path:
        """Where the rows are that were set aside, as Parquet."""
        return self.plan_file.parent / "quarantine"


def reuse(rows: Mapping[str, tuple[int, int]], stages: Sequence[str], seconds: float) -> str:
    """Return what was used again, in a line: rows of tables in parts, and whole stages."""
    partly = [
        f"{old:,} of {count:,} {'rows of ' if name.startswith('judged-') else ''}{name.removeprefix('judged-')}"
        for name, (old, count) in rows.items()
        if old
    ]
    others = [stage for stage in stages if stage not in rows]
    if not partly and not others:
        return ""
    return f"Used again: {', '.join([*partly, *others])}. Planning again took {seconds:,.1f} s."


def methods() -> tuple[str, ...]:
    """Return the methods by which can be planned: `best`, then those of planning whose plans brokers can install."""
    return (
        BEST,
        *(name for name in METHODS if name not in NOT_INSTALLABLE and not name.startswith("semcast")),
    )


def first_line(plan: Plan, seconds: float | None = None) -> str:
    """Return what was planned, in a sentence; `seconds` is how long that took, if it is known."""
    trees, brokers = len(plan.trees), len(plan.brokers)
    known = plan.basis.get("interests")
    filters = known if isinstance(known, int) else len(plan.groups)
    took = "" if seconds is None else f" in {seconds:,.1f} s"
    return (
        f"Planned {trees:,} dissemination tree{'s' * (trees != 1)} for {filters:,} filter{'s' * (filters != 1)}"
        f" on {brokers:,} broker{'s' * (brokers != 1)}{took} (method: {plan.method})."
    )


def failure_lines(plan: Plan) -> list[str]:
    """Return what a plan survives, in a sentence, if it was asked for."""
    lost = plan.basis.get("unsurvived")
    if not isinstance(lost, dict):
        return []
    count = len(plan.backups)
    said = f"With {count:,} backup tree{'s' * (count != 1)}, some tree is left whichever link or broker fails"
    names = [*lost.get("links", ()), *lost.get("brokers", ())]
    unused = []
    if plan.backups and plan.one_copy is None:
        unused = [f"Brokers do not use them under {plan.method}: each of its trees has a table of its own."]
    if not names:
        return [f"{said}.", *unused]
    more = f" and {len(names) - MOST_LOST:,} more" if len(names) > MOST_LOST else ""
    apart = f"{said}, but for these, without which the overlay falls apart"
    return [f"{apart}: {', '.join(names[:MOST_LOST])}{more}.", *unused]


def merging_lines(plan: Plan) -> list[str]:
    """Return what brokers merge by the plan, or why they do not, in a sentence; nothing if it was not asked for."""
    if plan.merging is None:
        if "aggregation" not in plan.basis:
            return []
        reason = (
            f"{plan.method} sends one copy of each event, and the publisher's broker must know every filter"
        )
        return [f"Brokers merge nothing: {reason} (hint: --method single)."]
    places = len({(block.tree, block.broker, block.towards) for block in plan.merging.blocks})
    loose = (
        f"letting in up to {plan.merging.excess:.3g} of sampled events" if plan.merging.excess else "exactly"
    )
    amount = f"{len(plan.merging.blocks)} blocks on {places} links"
    return [f"Brokers merge filters, {loose}: {amount} (method {plan.merging.method})."]


def explained(plan: Plan, seconds: float | None = None) -> str:
    """Return what was planned, and why this plan, in a few lines."""
    basis, numbers = plan.basis, plan.predictions
    lines = [
        first_line(plan, seconds),
        f"Why: {basis.get('reason', 'asked for')}.",
    ]
    stopped = basis.get("stopped")
    if isinstance(stopped, dict):
        lines += [f"{name} {clause}." for name, clause in stopped.items()]
    lines += [*failure_lines(plan), *merging_lines(plan)]
    part = "cost_fresh" if basis.get("fresh") else "cost_held_out" if basis.get("held_out") else "cost"
    mine, one, floor = (numbers.get(name, {}).get(part) for name in (plan.method, "single", "opt"))
    if mine is not None and one and floor:
        words = {"cost_fresh": "fresh events", "cost_held_out": "events held out", "cost": "all events"}[part]
        lines.append(
            f"On {words} it costs {mine:.10g}: {abs(1 - mine / one):.1%} {'less' if mine <= one else 'more'} than one"
            f" tree ({one:.10g}), and {mine / floor - 1:.1%} more than a Steiner tree for each event ({floor:.10g})."
        )
        if part == "cost_fresh" and basis.get("asked") == BEST:
            lines.append(
                "Nothing was fitted to these events; they decided only whether to fall back to one tree."
            )
    return "\n".join(lines)
