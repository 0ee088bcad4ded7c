"""Runs a scenario for the lab and turns what was sampled into rows.

Every row says its `kind`: `sample` (one moment), `core` (one broker of the core at one moment), `broker` (one broker of
the core, over the whole run) or `total` (the whole run). Times count from the beginning of the phase under study;
totals count from there too. Rows of one cell all have the same keys, None where a kind has no such value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from covey.lab.experiment import Cell, Row, Value
from covey.routing.messages import Publish
from covey.sim.handles import Subscription
from covey.sim.library import Changes, load
from covey.sim.metrics import Sample
from covey.sim.preparation import prepare
from covey.sim.result import Machine, Result
from covey.sim.runner import Driver

BEFORE_S = 10.0  # so much of the time before the phase under study is kept

Number = int | float


def integer(cell: Cell, key: str) -> int:
    """Return a parameter that is an integer."""
    value = cell[key]
    assert isinstance(value, int), f"{key} is {value!r}"
    return value


def text(cell: Cell, key: str) -> str:
    """Return a parameter that is a text."""
    value = cell[key]
    assert isinstance(value, str), f"{key} is {value!r}"
    return value


@dataclass(frozen=True)
class Outcome:
    """A result, deliveries that nobody had asked for, what routers counted, and when the phases began."""

    result: Result
    unasked: int
    counters: Mapping[str, int]
    phases: Mapping[str, float]


class _Watch:
    """Counts deliveries that the subscription does not match, and hands all on to who listened before."""

    def __init__(self, driver: Driver) -> None:
        self.unasked = 0
        self._next = driver.net.on_delivery
        driver.net.on_delivery = self._delivered

    def _delivered(self, subscription: Subscription, publish: Publish, delay_s: float) -> None:
        if not subscription.filter.matches(publish.event):
            self.unasked += 1
        if self._next is not None:
            self._next(subscription, publish, delay_s)


def drive(scenario: str, cell: Cell, settings: Sequence[str]) -> Outcome:
    """Run a scenario of Covey's with the strategy, service model and seed of a cell, and the settings."""
    changes = Changes(
        strategy=text(cell, "strategy"),
        seed=integer(cell, "seed"),
        settings=(f"service.kind={cell['service']}", "metrics.by_broker=true", *settings),
    )
    prepared = prepare(load(scenario, changes))
    driver = Driver(prepared)
    watch = _Watch(driver)
    driver.drive()
    machine = Machine(0.0, 0.0, 0.0, driver.net.engine.arrivals)
    return Outcome(driver.result(machine), watch.unasked, driver.net.router_counters(), prepared.phases)


def rows_of(outcome: Outcome, phase: str) -> list[Row]:
    """Return samples around and after the beginning of a phase, the core's brokers, and the total."""
    result, begin_s = outcome.result, outcome.phases[phase]
    first = next(sample for sample in result.samples if sample.phase == phase)
    after = [sample for sample in result.samples if sample.at_s > begin_s]
    shown = [sample for sample in result.samples if sample.at_s >= begin_s - BEFORE_S]
    names = list(result.by_broker)
    core = {broker: names.index(broker) for broker in result.core}
    rows = [_sample_row(sample, begin_s, result.brokers, core) for sample in shown]
    for broker, place in core.items():
        rows += [
            {
                "kind": "core",
                "broker": broker,
                "at_s": sample.at_s - begin_s,
                "queue": sample.queue_by_broker[place],
                "entries": sample.remote_by_broker[place],
            }
            for sample in shown
        ]
        rows.append(_broker_row(result, broker, first.remote_by_broker[place]))
    return even([*rows, _total_row(outcome, first, after, core)])


def _sample_row(sample: Sample, begin_s: float, brokers: int, core: Mapping[str, int]) -> Row:
    some = sample.delays.deliveries > 0
    return {
        "kind": "sample",
        "at_s": sample.at_s - begin_s,
        "delay_mean_s": sample.delays.mean_s if some else None,
        "delay_max_s": sample.delays.max_s if some else None,
        "queue_mean": sample.queued / brokers,
        "queue_peak": sample.queue_peak,
        "core_queue_peak": sample.core_queue_peak if core else None,
        "table_mean": float(sample.remote_entries_mean),
        "core_table_mean": _mean([sample.remote_by_broker[place] for place in core.values()]),
    }


def _broker_row(result: Result, broker: str, entries_before: int) -> Row:
    figures = result.by_broker[broker]
    return {
        "kind": "broker",
        "broker": broker,
        "triggered": figures.triggered,
        "entries": figures.remote_entries,
        "entries_before": entries_before,
    }


def _total_row(outcome: Outcome, first: Sample, after: Sequence[Sample], core: Mapping[str, int]) -> Row:
    result, last = outcome.result, outcome.result.last
    deliveries = sum(sample.delays.deliveries for sample in after)
    waited_s = sum(sample.delays.deliveries * sample.delays.mean_s for sample in after)
    largest = max((result.by_broker[broker].triggered for broker in core), default=0)
    others = [figures.triggered for broker, figures in result.by_broker.items() if broker not in core]
    return {
        "kind": "total",
        "triggered": last.triggered - first.triggered,
        "triggered_core": sum(result.by_broker[broker].triggered for broker in core),
        "triggered_core_max": largest,
        "triggered_other_max": max(others, default=0),
        "control_messages": last.control_messages - first.control_messages,
        "forwarded": last.forwarded_events - first.forwarded_events,
        "false_positives": last.false_positives - first.false_positives,
        "delivered": deliveries,
        "unasked": outcome.unasked,
        "kept": outcome.counters.get("kept", 0),
        "spared": outcome.counters.get("spared", 0),
        "delay_mean_s": waited_s / deliveries if deliveries else 0.0,
        "delay_max_s": max((sample.delays.max_s for sample in after), default=0.0),
        "queue_peak": max((sample.queue_peak for sample in after), default=0),
        "core_queue_peak": max((sample.core_queue_peak for sample in after), default=0),
        "queue_mean_max": max((sample.queued / result.brokers for sample in after), default=0.0),
        "table_mean": float(last.remote_entries_mean),
        "table_mean_before": float(first.remote_entries_mean),
        "core_table_mean": _mean([last.remote_by_broker[place] for place in core.values()]),
        "entries_max": max(after[-1].remote_by_broker) if after else 0,
        "drained_s": result.ended_s - outcome.phases[first.phase],
    }


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def even(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the same keys everywhere, None for what one has not."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return [{key: row.get(key) for key in keys} for row in rows]


def number(row: Mapping[str, Value], key: str) -> Number:
    """Return a value of a row that is a number."""
    value = row[key]
    assert isinstance(value, int | float), f"{key} is {value!r}"
    return value


def brief(value: Number) -> str:
    """Return a number in three digits, or whole from a hundred on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
