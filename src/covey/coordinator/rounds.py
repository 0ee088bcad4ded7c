"""Rounds: what happened in each, in a line for people, and in a file of lines of JSON for programs and pages."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FILE: Final = "rounds.jsonl"
MOST: Final = 2_000  # that are read again
MOST_REASONS: Final = 10  # of a table, as they have texts of strangers


@dataclass
class Round:
    """What happened in a round, in the order of its steps; `action` is what was done in the end, and why."""

    number: int
    at_s: float
    action: str = "wait"
    reason: str = ""
    brokers: int = 0
    away: dict[str, str] = field(default_factory=dict)
    joined: int = 0  # subscriptions that came, and went
    left: int = 0
    subscriptions: int = 0
    entries: int = 0
    sampled: dict[str, int] = field(default_factory=dict)
    rates: dict[str, int] = field(default_factory=dict)  # events of each broker in the last whole window
    events: int = 0  # in the window
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)  # rows left out, by table and reason
    quarantined: dict[str, dict[str, int]] = field(default_factory=dict)  # of the window, by the planner
    skew_s: dict[str, float] = field(default_factory=dict)  # how far each broker's clock is ahead of ours
    measured: float | None = None  # links that an event crossed since the last look
    planned: float | None = (
        None  # is predicted to cross under the new plan, under what is in use, and at best
    )
    installed: float | None = None
    floor: float | None = None
    method: str = ""
    trees: int = 0
    predicted_saving: float | None = None
    measured_saving: float | None = None
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def drop(self, dropped: Mapping[str, Mapping[str, int]]) -> None:
        """Note rows that were left out."""
        for table, reasons in dropped.items():
            mine = self.dropped.setdefault(table, {})
            for reason, count in reasons.items():
                mine[reason] = mine.get(reason, 0) + count

    def quarantine(self, quarantined: Mapping[str, Mapping[str, int]]) -> None:
        """Note rows that the planner has set aside: the most frequent reasons, and the others as one."""
        for table, reasons in quarantined.items():
            often = sorted(reasons, key=lambda reason: (-reasons[reason], reason))
            self.quarantined[table] = {reason: reasons[reason] for reason in often[:MOST_REASONS]}
            if len(often) > MOST_REASONS:
                self.quarantined[table]["other reasons"] = sum(map(reasons.__getitem__, often[MOST_REASONS:]))

    def line(self) -> str:
        """Return it in one line for people."""
        parts = [f"round {self.number}: {self.action}"]
        if self.reason:
            parts[0] += f", {self.reason}"
        parts.append(f"{self.events:,} events in the window, {self.subscriptions:,} subscriptions")
        if self.joined or self.left:
            parts.append(f"{self.joined:,} came and {self.left:,} went")
        left_out = Counter[str]()
        for reasons in self.dropped.values():
            left_out.update(reasons)
        left_out["quarantined"] = sum(sum(reasons.values()) for reasons in self.quarantined.values())
        if left_out.total():
            told = (f"{count:,} {reason}" for reason, count in left_out.most_common() if count)
            parts.append(f"rows left out: {', '.join(told)}")
        if self.measured is not None:
            parts.append(f"an event crosses {self.measured:.2f} links")
        if self.measured_saving is not None and self.predicted_saving is not None:
            parts.append(f"saves {self.measured_saving:.1%}, predicted were {self.predicted_saving:.1%}")
        if self.problems:
            more = f" and {len(self.problems) - 1} more" if len(self.problems) > 1 else ""
            parts.append(f"problems: {self.problems[0]}{more}")
        return f"{'; '.join(parts)} ({self.seconds:.1f} s)"


def read_rounds(directory: Path) -> list[dict[str, Any]]:
    """Return the rounds that were kept, the last ones if there are many; a line that is cut off is passed over."""
    found: list[dict[str, Any]] = []
    with (directory / FILE).open(encoding="utf-8") as log:
        for line in deque(log, MOST):
            with suppress(ValueError):
                found.append(json.loads(line))
    return found


def keep_round(directory: Path, told: Round) -> None:
    """Add a round to the file."""
    with (directory / FILE).open("a", encoding="utf-8") as log:
        log.write(json.dumps(vars(told)) + "\n")
