"""What the demonstration found, as values: for the table on the screen, the report, programs, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from covey.demo.burst import Told
from covey.planning.plan import Plan

Pair = tuple[str, str]

LIMIT_S: Final = 180.0
QUIET: Final = 0.05  # of covering's messages: more than that under incremental is a burst
MOST_SHOWN: Final = 5


@dataclass(frozen=True)
class Phase:
    """A stretch of the traffic, from rest to rest.

    events     that were published, from number `first` on
    forwarded  messages that carried them over links, which brokers have counted; by link in `links`
    needed     the least that the trees in use allow; what was forwarded beyond that are false positives
    entries    of all routing tables at its end, for neighbours
    """

    first: int
    events: int
    forwarded: int
    needed: int
    entries: int
    links: Mapping[Pair, int]

    @property
    def cost(self) -> float:
        """Messages on links for each event."""
        return self.forwarded / max(1, self.events)

    @property
    def false_positives(self) -> int:
        """Messages that were not needed."""
        return self.forwarded - self.needed


@dataclass(frozen=True)
class Latency:
    """How long deliveries took, from publishing to the subscriber's program, of the events of one act.

    Half of them were faster than `p50_ms`, 99 of 100 faster than `p99_ms`, and all but the slowest than `worst_ms`.
    """

    events: int
    deliveries: int
    p50_ms: float
    p99_ms: float
    worst_ms: float

    @classmethod
    def of(cls, events: int, delays_ms: Sequence[float]) -> Latency:
        """Return the latency of so many events, whose deliveries took so long."""
        p50, p99, worst = np.percentile(np.array(delays_ms or [0.0]), [50, 99, 100]).tolist()
        return cls(events, len(delays_ms), p50, p99, worst)


@dataclass(frozen=True)
class Example:
    """An event that arrived: where it was published, and (where, whose, filter) of those that got it."""

    event: int
    source: str
    content: str
    takers: tuple[tuple[str, str, str], ...]


@dataclass
class Findings:
    """All of it."""

    seed: int
    brokers: int
    links: int
    subscriptions: int
    clients: int
    tree: frozenset[Pair] = frozenset()  # over which brokers route without a plan
    examples: list[Example] = field(default_factory=list)
    bursts: dict[str, Told] = field(default_factory=dict)
    plan: Plan | None = None
    explain: str = ""
    plan_s: float = 0.0
    sampled: int = 0
    predicted_cost: float = (
        0.0  # messages for an event under the plan, on events that its trees were not fitted to
    )
    predicted_single: float = 0.0  # the same on one tree, the best that planning finds
    predicted_before: float = 0.0  # and on the tree that is in use, for the sampled events
    install_s: float = 0.0
    install_messages: int = 0  # that brokers sent each other for it
    switched_s: float = 0.0  # when, on the clock of `points`
    before: Phase | None = None
    after: Phase | None = None
    points: list[tuple[float, int, int]] = field(default_factory=list)  # seconds, published, forwarded so far
    published: int = 0
    deliveries: int = 0
    delays_ms: tuple[float, float, float] = (0.0, 0.0, 0.0)  # half, 99 of 100, all are faster
    latency: dict[str, Latency] = field(default_factory=dict)  # by act, in which events were published
    wrong: list[str] = field(default_factory=list)
    acts_s: dict[str, float] = field(default_factory=dict)
    total_s: float = 0.0

    @property
    def saving(self) -> float:
        """The share of messages that the plan saves, measured."""
        if self.before is None or self.after is None:
            return 0.0
        return 1 - self.after.cost / max(1e-9, self.before.cost)

    @property
    def predicted_saving(self) -> float:
        """The same, as predicted."""
        return 1 - self.predicted_cost / max(1e-9, self.predicted_before)

    @property
    def checked(self) -> int:
        """How many deliveries were compared with what should have come."""
        return self.deliveries + sum(told.deliveries for told in self.bursts.values())

    def failures(self) -> list[str]:
        """Return what was not as promised, a line each."""
        found = []
        for where, wrong in (("", self.wrong), *((f" under {n}", t.wrong) for n, t in self.bursts.items())):
            if wrong:
                found.append(f"{len(wrong)} deliveries{where} were wrong: {'; '.join(wrong[:MOST_SHOWN])}")
        if self.saving <= 0:
            found.append(f"the plan saved nothing: {self.saving:.1%}")
        covering, incremental = (self.bursts[name].messages for name in ("covering", "incremental"))
        if not covering:
            found.append("there was no burst under covering")
        elif incremental > QUIET * covering:
            found.append(f"there was a burst under incremental: {incremental} messages")
        return found

    def warnings(self) -> list[str]:
        """Return what is worth knowing, and no mistake."""
        if self.total_s > LIMIT_S:
            return [
                f"it took {self.total_s:.0f} s, longer than {LIMIT_S:.0f} s: this machine is slow or busy"
            ]
        return []

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON, without the plan itself."""
        phases = {name: getattr(self, name) for name in ("before", "after")}
        known = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("plan", "points", "tree", "bursts", "examples", "latency", "wrong", *phases)
        }
        return {
            **known,
            "ok": not self.failures(),
            "failures": self.failures(),
            "warnings": self.warnings(),
            "tree": sorted(map(list, self.tree)),
            "trees": 0 if self.plan is None else len(self.plan.trees),
            "saving": self.saving,
            "predicted_saving": self.predicted_saving,
            "checked": self.checked,
            **{name: _phase(phase) for name, phase in phases.items()},
            "wrong": len(self.wrong),
            "bursts": {
                name: {**asdict(told), "wrong": len(told.wrong)} for name, told in self.bursts.items()
            },
            "latency": {name: asdict(one) for name, one in self.latency.items()},
            "examples": [asdict(example) for example in self.examples],
            "points": [list(point) for point in self.points],
        }


def _phase(phase: Phase | None) -> dict[str, Any]:
    if phase is None:
        return {}
    return {
        **{key: value for key, value in asdict(phase).items() if key != "links"},
        "cost": phase.cost,
        "false_positives": phase.false_positives,
        "links": {"–".join(pair): count for pair, count in sorted(phase.links.items())},
    }
