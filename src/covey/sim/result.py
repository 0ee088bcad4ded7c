"""The result of a run: what was asked for, what was measured, and, apart from that, what it cost this machine.

Everything under `run` follows from the scenario and its seed and is the same wherever it is run again, byte by byte,
unless service times were measured. `machine` differs from run to run. `run.parameters` are tables of a scenario: read
again they give the same run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from covey.sim.metrics import KINDS, BrokerFigures, Delays, Sample, since


@dataclass(frozen=True)
class Machine:
    """What a run cost. The peak is the process's since it began, not this run's alone."""

    wall_s: float
    cpu_s: float
    peak_memory_mb: float
    arrivals: int


@dataclass(frozen=True)
class Result:
    """See the module's text."""

    scenario: str
    title: str
    version: str
    seed: int
    strategy: str
    repeatable: bool
    parameters: Mapping[str, Any]
    brokers: int
    links: int
    core: Sequence[str]
    ended_s: float  # when the last thing happened
    settled: bool  # whether nothing was under way any more
    actions: int
    faults: int
    delays: Delays
    samples: Sequence[Sample]
    by_broker: Mapping[str, BrokerFigures]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values: the repeatable part, and the machine's."""
        values = asdict(self)
        machine = values.pop("machine")
        values["phases"] = self.phases()
        return {"run": values, "machine": machine}

    @property
    def last(self) -> Sample:
        """The sample at the end."""
        return self.samples[-1]

    def phases(self) -> list[dict[str, Any]]:
        """Return what was counted in each part of the workload: from its beginning to that of the next, or the end."""
        begins = [sample for sample in self.samples if sample.phase]
        ends = [*begins[1:], self.last] if begins else []
        return [
            {"phase": begin.phase, "begin_s": begin.at_s, "end_s": end.at_s, **since(begin, end)}
            for begin, end in zip(begins, ends, strict=True)
            if end is not begin
        ]

    def summary(self) -> list[tuple[str, Any]]:
        """Return the figures for people, name and value, None for what there is not; times in seconds."""
        last = self.last
        peaks = {broker: figures.queue_peak for broker, figures in self.by_broker.items()}
        rows: list[tuple[str, Any]] = [
            ("simulated s", self.ended_s),
            ("remote entries", last.remote_entries),
            ("remote entries, mean", last.remote_entries_mean),
            ("remote entries, largest", last.remote_entries_max),
            ("local entries", last.local_entries),
            ("control messages", last.control_messages),
            *((f"  {kind}", last.control_by_kind.get(kind)) for kind in KINDS.values()),
            ("events published", last.published_events),
            ("events forwarded", last.forwarded_events),
            ("  false positives", last.false_positives if self.parameters["run"]["judge"] else None),
            ("events delivered", last.delivered_events),
            ("duplicates suppressed", last.duplicates_suppressed),
            ("triggered subscriptions", last.triggered),
            ("delay s, median", self.delays.p50_s),
            ("delay s, p99", self.delays.p99_s),
            ("delay s, longest", self.delays.max_s),
            ("delay s, mean", self.delays.mean_s),
            ("longest queue", max(peaks.values())),
        ]
        if self.core:
            rows.append(("longest queue, core", max(peaks[broker] for broker in self.core)))
        return rows

    def core_rows(self) -> list[dict[str, Any]]:
        """Return the figures of the core brokers, where the topology names some."""
        return [{"broker": broker, **asdict(self.by_broker[broker])} for broker in self.core]
