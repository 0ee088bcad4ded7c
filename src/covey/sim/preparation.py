"""From a scenario to what a run needs: topology, script, network.

All that can be wrong with a scenario beyond its reading is found here, before time begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import merge
from typing import Any

from covey.errors import ConfigError
from covey.sim import service, topology, workload
from covey.sim.network import REMEMBERED_EVENTS, Network
from covey.sim.scenario import Named, Scenario
from covey.sim.scripted import check_places
from covey.sim.section import mistake, shown
from covey.sim.service import Times
from covey.sim.topology import TOPOLOGIES, Topology
from covey.sim.topology.catalogue import parameters_of
from covey.sim.workload import Action, Script

# Only these move clients; others need no memory of what a client got before it moved.
MOVING_WORKLOADS = frozenset({"commuters"})

MAX_SAMPLES = 10_000

# Parameters that are files, which are looked for beside the scenario.
_FILES = frozenset({"path", "dtd"})


@dataclass(frozen=True)
class Prepared:
    """A scenario whose parameters are complete, with what was built from it."""

    scenario: Scenario
    topology: Topology
    script: Script | None
    remembered_events: int

    def actions(self) -> Iterator[Action]:
        """Yield all actions in the order of time, drawn while they are read."""
        written = [one.action for one in self.scenario.actions]
        if self.script is None:
            return iter(written)
        return merge(self.script.actions, written, key=lambda action: action.at_s)

    @property
    def end_s(self) -> float:
        """The time at which the run is expected to end; a script may go on after its last phase."""
        scenario = self.scenario
        if scenario.run.duration_s is not None:
            return scenario.run.duration_s
        times = [one.action.at_s for one in scenario.actions]
        times += [fault.at_s if fault.until_s is None else fault.until_s for fault in scenario.faults]
        return max([0.0, *times, *self.phases.values()])

    @property
    def phases(self) -> Mapping[str, float]:
        """When the parts of the workload's script begin."""
        return {} if self.script is None else self.script.phases

    def network(self) -> Network:
        """Return a new network, at rest, in which nothing has happened yet."""
        scenario = self.scenario
        with naming(scenario.name, "strategy"):
            return Network(
                self.topology,
                _strategies(scenario, self.topology),
                advertisements=scenario.strategy.advertisements,
                reduce_advertisements=scenario.strategy.reduce_advertisements,
                seed=scenario.seed,
                options=scenario.strategy.options,
                delay=scenario.delays.kind,
                delay_ms=scenario.delays.parameters["mean_ms"],
                service_times=_service(scenario),
                judge=scenario.run.judge,
                keep=False,
                remembered_events=self.remembered_events,
            )


def prepare(scenario: Scenario) -> Prepared:
    """Build the topology and the script; ConfigError of one line for whatever does not fit together."""
    chosen = scenario.topology
    if "seed" in parameters_of(TOPOLOGIES[chosen.kind]) and "seed" not in chosen.parameters:
        chosen = Named(chosen.kind, {**chosen.parameters, "seed": scenario.seed})
    with naming(scenario.name, "topology"):
        built = topology.build(chosen.kind, **_located(chosen, scenario))
    _check_strategies(scenario, built)
    links = {frozenset(link) for link in built.links}
    check_places(scenario.faults, scenario.actions, set(built.brokers), links)
    script: Script | None = None
    load = scenario.workload
    if load is not None:
        with naming(scenario.name, "workload"):
            script = workload.build(load.kind, built, scenario.seed, **_located(load, scenario))
        complete = {key: value for key, value in script.parameters.items() if value is not None}
        load = Named(load.kind, {**complete, **load.parameters})
    remembered = scenario.run.remembered_events
    if remembered is None:
        moving = load is not None and load.kind in MOVING_WORKLOADS
        moving = moving or any(one.action.op == "move" for one in scenario.actions)
        remembered = REMEMBERED_EVENTS if moving else 0
    prepared = Prepared(replace(scenario, topology=chosen, workload=load), built, script, remembered)
    every_s = scenario.metrics.every_s
    if every_s is not None and prepared.end_s / every_s > MAX_SAMPLES:
        place = f"{scenario.name}: [metrics]"
        least = f"{prepared.end_s / MAX_SAMPLES:g} at least, for a run of {prepared.end_s:g} s"
        raise mistake(place, "every_s", f"expected {least}, not {every_s:g}")
    return prepared


@contextmanager
def naming(file: str, table: str) -> Iterator[None]:
    """Put file and table in front of the mistakes of what is built from them."""
    try:
        yield
    except ConfigError as error:
        raise mistake(f"{file}: [{table}]", "", str(error)) from None


def _located(named: Named, scenario: Scenario) -> dict[str, Any]:
    """Return the parameters, files found from the scenario's directory."""
    return {
        key: str(scenario.base / value) if key in _FILES and isinstance(value, str) and value else value
        for key, value in named.parameters.items()
    }


def _check_strategies(scenario: Scenario, built: Topology) -> None:
    for broker in scenario.strategy.brokers:
        if broker not in built.neighbours:
            place = f"{scenario.name}: [strategy.brokers]"
            raise mistake(place, shown(broker), "expected a broker of the topology")


def _strategies(scenario: Scenario, built: Topology) -> str | dict[str, str]:
    choice = scenario.strategy
    if not choice.brokers:
        return choice.name
    return {broker: choice.brokers.get(broker, choice.name) for broker in built.brokers}


def _service(scenario: Scenario) -> str | service.Service:
    """Return the model: by its name, so that each broker gets its strategy's times, unless the times are given."""
    chosen, strategy = scenario.service, scenario.strategy
    times = {key.removesuffix("_ms"): value for key, value in chosen.parameters.items()}
    if not times:
        return chosen.kind
    if strategy.brokers and "factor" in times:
        place = f"{scenario.name}: [service]"
        raise mistake(place, "factor", "expected none where strategies differ by broker")
    if strategy.brokers and len(times) < len(Times._fields):
        place = f"{scenario.name}: [service]"
        keys = ", ".join(f"{name}_ms" for name in Times._fields)
        raise mistake(place, "", f"expected all of {keys} or none, where strategies differ by broker")
    return service.build(chosen.kind, strategy.name, **times)
