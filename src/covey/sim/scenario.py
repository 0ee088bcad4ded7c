"""Scenarios: a whole run as data. Topology, strategy, workload, delays, service times, faults and what is measured.

    title = "Three brokers"          [topology]  kind, its parameters · or links · or file
    seed = 1                         [strategy]  name, advertisements, [strategy.options], [strategy.brokers]
                                     [workload]  kind, its parameters
                                     [delays]    kind, mean_ms
    [[actions]]  see `scripted`      [service]   kind, subscribe_ms, unsubscribe_ms, publish_ms, factor
    [[faults]]   see `scripted`      [run]       duration_s, settle, handover, judge, remembered_events
                                     [metrics]   every_s, by_broker

Reading is pure: text in, a value out, or a ConfigError of one line. What there is by name (topologies, strategies,
workloads, models) and which parameters it has is checked here; what needs the topology is checked by `preparation`.
`as_tables` gives back tables that read as an equal scenario: that is how results say what they are results of.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import covey.strategies  # noqa: F401 (registers them)
from covey.errors import ConfigError
from covey.routing.advertisements import NONE, WAYS
from covey.routing.strategy import names, registered
from covey.sim.delays import DEFAULT_MS, DELAYS
from covey.sim.scripted import Fault, Written, check_names, read_action, read_fault
from covey.sim.section import Section, hint, shown
from covey.sim.service import Times
from covey.sim.topology import TOPOLOGIES
from covey.sim.topology.catalogue import parameters_of
from covey.sim.workload import WORKLOADS

MAX_BYTES = 1 << 20
DEFAULT_STRATEGY = "covering"
EXACT, PLAIN = HANDOVERS = ("exact", "plain")
SERVICES = ("zero", "table-ii", "linear", "measured")


@dataclass(frozen=True)
class Named:
    """Something that is built by name, with its parameters."""

    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def as_table(self) -> dict[str, Any]:
        """Return the table that reads as this."""
        return {"kind": self.kind, **self.parameters}


@dataclass(frozen=True)
class StrategyChoice:
    """Which strategy, with which options; `brokers` has those that use another one."""

    name: str = DEFAULT_STRATEGY
    advertisements: bool = True
    reduce_advertisements: str = NONE
    options: Mapping[str, Any] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSettings:
    """How long, and how exactly."""

    duration_s: float | None = None  # until all actions are done, if not given
    settle: bool = True
    handover: str = EXACT
    judge: bool = True
    remembered_events: int | None = None  # as many as moving clients need, if not given


@dataclass(frozen=True)
class MetricSettings:
    """How often, and how much."""

    every_s: float | None = None  # some fifty times, if not given
    by_broker: bool = False


@dataclass(frozen=True)
class Scenario:
    """See the module's text. `name` is how it was found, `base` the directory of the files that it names."""

    name: str
    title: str
    seed: int
    topology: Named
    strategy: StrategyChoice
    workload: Named | None
    delays: Named
    service: Named
    run: RunSettings
    metrics: MetricSettings
    faults: tuple[Fault, ...]
    actions: tuple[Written, ...]  # in the order of time
    base: Path
    tables: Mapping[str, Any] = field(repr=False, default_factory=dict)  # what it was read from

    def as_tables(self) -> dict[str, Any]:
        """Return tables that read as this scenario, defaults written out; what has no value is left out."""
        tables: dict[str, Any] = {
            "title": self.title,
            "seed": self.seed,
            "topology": self.topology.as_table(),
            "strategy": _given(vars(self.strategy)),
            "delays": self.delays.as_table(),
            "service": self.service.as_table(),
            "run": _given(vars(self.run)),
            "metrics": _given(vars(self.metrics)),
        }
        if self.workload is not None:
            tables["workload"] = self.workload.as_table()
        return tables | {key: self.tables[key] for key in ("faults", "actions") if self.tables.get(key)}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != {}}


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the tables of a scenario's text."""
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{name}: a scenario has at most {MAX_BYTES:,} characters, not {len(text):,}")
    try:
        return tomllib.loads(text)
    except ValueError as error:  # what is not TOML, and numbers that Python does not read
        raise ConfigError(f"{name}: this is not TOML: {error!s:.200}") from None
    except RecursionError:
        raise ConfigError(f"{name}: this is not a scenario: it nests too deeply") from None


def read_scenario(tables: Mapping[str, Any], name: str, base: Path | None = None) -> Scenario:
    """Return the scenario that the tables describe; ConfigError for the first mistake."""
    top = Section(name, "", tables)
    scenario = Scenario(
        name=name,
        title=top.text("title", name),
        seed=top.integer("seed", 1),
        topology=_topology(top),
        strategy=_strategy(top),
        workload=_workload(top),
        delays=_delays(top),
        service=_service(top),
        run=_run(top),
        metrics=_metrics(top),
        faults=tuple(read_fault(section) for section in top.tables("faults")),
        actions=_actions(top),
        base=base or Path(),
        tables=dict(tables),
    )
    top.done()
    if scenario.workload is None:
        if not scenario.actions:
            top.fail("", "a scenario has a [workload], or [[actions]], or both")
        check_names(scenario.actions)
    return scenario


def _table(top: Section, key: str) -> Section:
    """Return a table that may be left out."""
    return top.table(key) or Section(top.file, key, {})


def _topology(top: Section) -> Named:
    section = top.table("topology")
    if section is None:
        top.fail("topology", "expected a table with a kind, links or a file, and it is missing")
    given = [key for key in ("kind", "links", "file") if section.has(key)]
    if len(given) != 1 and not (given == ["kind", "links"] and section.choice("kind", TOPOLOGIES) == "links"):
        section.fail("", f"expected one of kind, links and file, not {' and '.join(given) or 'none of them'}")
    if given[-1] == "links":
        links = section.take("links", None, "a list of links", lambda value: isinstance(value, list))
        section.done()
        return Named("links", {"links": links})
    if given == ["file"]:
        file = section.text("file")
        section.done()
        return Named("edges", {"path": file})
    kind = section.choice("kind", TOPOLOGIES)
    return Named(kind, section.rest(parameters_of(TOPOLOGIES[kind])))


def _strategy(top: Section) -> StrategyChoice:
    section = _table(top, "strategy")
    name = _strategy_name(section, "name", DEFAULT_STRATEGY)
    options = section.table("options")
    brokers = section.table("brokers")
    advertisements = section.flag("advertisements", True)
    reduced = section.choice("reduce_advertisements", WAYS, NONE)
    section.done()
    given = {} if options is None else options.rest(registered(name).options)
    others: dict[str, str] = {}
    if brokers is not None:
        others = {broker: _strategy_name(brokers, broker) for broker in brokers.rest()}
    if given and others:
        section.fail("options", "expected none where [strategy.brokers] gives brokers different strategies")
    return StrategyChoice(name, advertisements, reduced, given, others)


def _strategy_name(section: Section, key: str, default: str | None = None) -> str:
    value = section.text(key, default) if default else section.text(key)
    try:
        return registered(value).name
    except ConfigError:
        section.fail(key, f"expected one of {', '.join(names())}, not {shown(value)}{hint(value, names())}")


def _workload(top: Section) -> Named | None:
    section = top.table("workload")
    if section is None:
        return None
    kind = section.choice("kind", WORKLOADS)
    return Named(kind, section.rest(parameters_of(WORKLOADS[kind], skipped=2)))


def _delays(top: Section) -> Named:
    section = _table(top, "delays")
    kind = section.choice("kind", DELAYS, "constant")
    mean_ms = section.number("mean_ms", DEFAULT_MS)
    section.done()
    return Named(kind, {"mean_ms": mean_ms})


def _service(top: Section) -> Named:
    section = _table(top, "service")
    kind = section.choice("kind", SERVICES, "zero")
    keys = [f"{field}_ms" for field in Times._fields]
    times = {key: section.number(key) for key in keys if section.has(key)}
    factor = {"factor": section.number("factor")} if section.has("factor") else {}
    section.done()
    if factor and kind != "linear":
        section.fail("factor", f"expected no factor for the kind {kind}: only linear has one")
    if times and kind != "table-ii":
        section.fail(next(iter(times)), f"expected no times for the kind {kind}: only table-ii has some")
    return Named(kind, {**times, **factor})


def _run(top: Section) -> RunSettings:
    section = _table(top, "run")
    settings = RunSettings(
        duration_s=section.number("duration_s", None),
        settle=section.flag("settle", True),
        handover=section.choice("handover", HANDOVERS, EXACT),
        judge=section.flag("judge", True),
        remembered_events=section.integer("remembered_events", None),
    )
    section.done()
    return settings


def _metrics(top: Section) -> MetricSettings:
    section = _table(top, "metrics")
    settings = MetricSettings(section.number("every_s", None, above=True), section.flag("by_broker", False))
    section.done()
    return settings


def _actions(top: Section) -> tuple[Written, ...]:
    written = [read_action(section) for section in top.tables("actions")]
    return tuple(sorted(written, key=lambda one: one.action.at_s))
