"""Business processes whose engines subscribe once, for all instances: a population that a table can hold.

The simulator's `workflow` subscribes anew for every instance, so that tables of it would describe the past. Here

    ad    kind = 'trigger' and process = p                       at the broker that starts p
          kind = 'status' and process = p and activity = a       at the broker of the engine of a
    sub   kind = 'trigger' and process = p                       by the engines of the first activities
          kind = 'status' and process = p and activity = a       by the engines of the activities after a
          kind = 'status' and process = p                        by a monitor, for a share of the processes

and an instance is a number in its events. Two in five processes are small, on one engine; two are medium and one is
large, on engines anywhere.

A process is drawn from a generator of its own, by its number, and drawn again when it runs: nothing is kept of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import compare
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.script import MAX_ACTIONS, Script, Timeline, streams, workload
from covey.workloads.processes import MAX_ACTIVITIES, Flow, draw_flow

CLASSES = ("small", "small", "medium", "medium", "large")


@workload("processes")
def processes(
    topology: Topology,
    seed: int,
    *,
    subscriptions: int = 1_000,
    events: int = 1_000,
    small: int = 3,
    medium: int = 10,
    large: int = 26,
    parallel: float = 0.3,
    loop: float = 0.1,
    rounds: int = 3,
    monitored: float = 0.3,
    event_interval_ms: float = 10.0,
) -> Script:
    """Deploy processes until there are `subscriptions`, then run them, one drawn after the other, for `events`.

    `small`, `medium` and `large` are numbers of activities; `parallel`, `loop` and `rounds` shape the control flow.
    """
    check_ranges(1, MAX_ACTIVITIES, small=small, medium=medium, large=large)
    check_ranges(0, 1, parallel=parallel, loop=loop, monitored=monitored)
    check_range("rounds", rounds, 1, 100)
    check_range("subscriptions", subscriptions, 1, MAX_ACTIONS)
    check_range("events", events, 0, MAX_ACTIONS)
    factory = _Factory(topology, seed, (small, medium, large), (parallel, loop, rounds), monitored)
    timeline = Timeline(0.0)
    timeline.phase("deploy", 1, 1.0)
    pace = timeline.phase("publish", events, event_interval_ms / 1_000)

    def draw() -> Iterator[Action]:
        left, deployed = subscriptions, 0
        while left:
            for action in factory.build(deployed).deployed():
                if action.op == "subscribe":
                    if not left:
                        break
                    left -= 1
                yield action
            deployed += 1
        _, chosen, times = streams(seed, 3)
        published = 0
        for instance in count():
            if published >= events:
                return
            process = factory.build(int(chosen.integers(deployed)))
            for broker, content in process.run(instance, times):
                if published < events:
                    yield Action(pace.at(published), "publish", "", broker, content, f"engine-{broker}")
                    published += 1

    description = f"{subscriptions} subscriptions of processes, {events} events"
    return Script("attributes", description, timeline.end(), draw)


@dataclass(frozen=True)
class _Factory:
    """Draws processes by number."""

    topology: Topology
    seed: int
    sizes: tuple[int, int, int]
    shape: tuple[float, float, int]
    monitored: float

    def build(self, number: int) -> _Process:
        """Return the process of that number, the same whenever it is asked for."""
        generator = np.random.default_rng([self.seed, 0, number])
        brokers = self.topology.roles.get("engines") or self.topology.brokers
        size = CLASSES[int(generator.integers(len(CLASSES)))]
        activities = dict(zip(("small", "medium", "large"), self.sizes, strict=True))[size]
        pool = [brokers[int(generator.integers(len(brokers)))]] if size == "small" else brokers
        engines = [pool[place] for place in generator.integers(0, len(pool), activities).tolist()]
        parallel, loop, rounds = self.shape
        flow = draw_flow(generator, activities, parallel=parallel, loop=loop, rounds=rounds)
        trigger, watcher = (brokers[place] for place in generator.integers(0, len(brokers), 2).tolist())
        monitor = watcher if generator.random() < self.monitored else None
        return _Process(f"p{number:06}", flow, tuple(engines), trigger, monitor)


@dataclass(frozen=True)
class _Process:
    name: str
    flow: Flow
    engines: tuple[str, ...]
    trigger: str
    monitor: str | None

    def deployed(self) -> Iterator[Action]:
        """Yield the advertisements and subscriptions that stay."""
        triggered = _filter(kind="trigger", process=self.name)
        listens = self.flow.listens()
        yield Action(0.0, "advertise", f"{self.name}.trigger", self.trigger, triggered)
        for activity in listens:
            name = f"{self.name}.{activity}"
            yield Action(0.0, "advertise", name, self.engines[activity], self._status(activity))
        for broker in dict.fromkeys(self.engines[activity] for activity in self.flow.first):
            yield Action(0.0, "subscribe", f"{self.name}.trigger@{broker}", broker, triggered)
        for activity, others in listens.items():
            for other in sorted(others):
                name = f"{self.name}.{activity}<{other}"
                yield Action(0.0, "subscribe", name, self.engines[activity], self._status(other))
        if self.monitor is not None:
            watched = _filter(kind="status", process=self.name)
            yield Action(0.0, "subscribe", f"{self.name}.monitor", self.monitor, watched)

    def run(self, instance: int, generator: np.random.Generator) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events of one instance, each with its broker."""
        yield self.trigger, {"kind": "trigger", "process": self.name, "instance": instance}
        for activity, _ in self.flow.unrolled(generator):
            status = {"kind": "status", "process": self.name, "instance": instance, "activity": activity}
            yield self.engines[activity], status

    def _status(self, activity: int) -> AttributeFilter:
        return _filter(kind="status", process=self.name, activity=activity)


def _filter(**values: str | int) -> AttributeFilter:
    """Return the filter in which each attribute has this value."""
    return trusted((Conjunction(tuple((name, compare("=", values[name])) for name in sorted(values))),))
