"""Business processes run by engines at the brokers: the workflow scenario of Chen, Hu, Muthusamy and Jacobsen.

A small process has 3 activities on one engine, a medium one 10 on engines of one domain, a large one 26 on engines
anywhere. Processes are triggered again and again; each instance has advertisements, subscriptions and events of its
own, which go when it ends:

    deployed      ad  kind = 'trigger' and process = p        sub the same, by the engines of the first activities
    an instance   ad  kind = 'status' and process = p and instance = i and activity = a     by the engine of a
                  sub the same for each activity before a                                   by the engine of a
    a monitor     sub kind = 'status' and process = p         for a share of the processes, throughout
    administrator sub kind = 'trigger'                        for a minute every ten minutes

What the publication leaves open is settled here: control flow is drawn as covey.workloads.processes says; the first
trigger of a process falls anywhere in its interval; an activity takes an exponentially distributed time; times do not
depend on when events arrive; administrators and monitors sit at random brokers and sample at random phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import compare
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.script import Pace, Script, Timeline, streams, workload
from covey.workloads.processes import MAX_ACTIVITIES, Flow, draw_flow


@workload("workflow")
def workflow(
    topology: Topology,
    seed: int,
    *,
    small: int = 80,
    medium: int = 80,
    large: int = 40,
    small_activities: int = 3,
    medium_activities: int = 10,
    large_activities: int = 26,
    parallel: float = 0.3,
    loop: float = 0.1,
    rounds: int = 3,
    monitored: float = 0.3,
    administrators: int = 4,
    administrate_every_s: float = 600.0,
    administrate_for_s: float = 60.0,
    trigger_interval_s: float = 60.0,
    activity_s: float = 0.5,
    setup_s: float = 1.0,
    duration_s: float = 1_800.0,
    subscribe_interval_ms: float = 10.0,
    pause_s: float = 10.0,
) -> Script:
    """Deploy so many processes of each class, then trigger each every `trigger_interval_s` for `duration_s`.

    `parallel`, `loop` and `rounds` shape the control flow; `activity_s` is the mean time of an activity. An instance
    advertises and subscribes within `setup_s` after its trigger and leaves as long after its last event.
    The phase `drain` begins when no process is triggered any more; the last instances end in it.
    """
    classes = ((small, small_activities), (medium, medium_activities), (large, large_activities))
    for _, activities in classes:
        check_range("the number of activities", activities, 1, MAX_ACTIVITIES)
    check_ranges(0, 100_000, small=small, medium=medium, large=large, administrators=administrators)
    check_ranges(0, 1, parallel=parallel, loop=loop, monitored=monitored)
    check_ranges(0.1, 1e6, administrate_every_s=administrate_every_s, trigger_interval_s=trigger_interval_s)
    check_ranges(0, 1e6, activity_s=activity_s, setup_s=setup_s, duration_s=duration_s)
    check_range("administrate_for_s", administrate_for_s, 0, administrate_every_s)
    check_range("rounds", rounds, 1, 100)
    deployment = _deploy(topology, streams(seed, 1)[0], classes, (parallel, loop, rounds))
    processes = deployment.processes
    timeline = Timeline(pause_s)
    statics = sum(1 + len(process.listeners) for process in processes) + round(monitored * len(processes))
    deploy = timeline.phase("deploy", statics, subscribe_interval_ms / 1_000)
    run = timeline.phase("run", 1, duration_s)
    phases = timeline.phases | {"drain": run.start_s + duration_s}

    def draw() -> Iterator[Action]:
        _, monitors, times, inspectors = streams(seed, 4)
        yield from _deployed(deployment, monitors, round(monitored * len(processes)), deploy)
        instances = _Instances(times, trigger_interval_s, activity_s, setup_s, phases["drain"])
        pace = Pace(run.start_s, administrate_every_s)
        visits = (
            _administrate(number, topology, inspectors, pace, administrate_for_s, phases["drain"])
            for number in range(administrators)
        )
        yield from merge(instances.actions(processes, run.start_s), *visits, key=attrgetter("at_s"))

    description = f"{len(processes)} processes, {administrators} administrators, {duration_s:g} s"
    return Script("attributes", description, phases, draw)


@dataclass(frozen=True)
class _Process:
    """A process with its control flow, the broker of each activity's engine, and that of its trigger."""

    name: str
    flow: Flow
    engines: tuple[str, ...]
    trigger: str

    @property
    def listeners(self) -> tuple[str, ...]:
        """The brokers of the engines that wait for the trigger."""
        return tuple(dict.fromkeys(self.engines[activity] for activity in self.flow.first))


@dataclass(frozen=True)
class _Deployment:
    processes: list[_Process]
    brokers: tuple[str, ...]


def _deploy(
    topology: Topology,
    generator: np.random.Generator,
    classes: tuple[tuple[int, int], ...],
    shape: tuple[float, float, int],
) -> _Deployment:
    """Draw control flows and engines of all processes: one engine, one domain's engines, all engines."""
    engines = topology.roles.get("engines") or topology.brokers
    hosting = set(engines)
    members = [brokers for role, brokers in topology.roles.items() if role.startswith("domain-")]
    domains = [tuple(b for b in brokers if b in hosting) for brokers in members] or [engines]
    parallel, loop, rounds = shape
    processes: list[_Process] = []
    for size, (count, activities) in enumerate(classes):
        for _ in range(count):
            pool = engines
            if size == 0:
                pool = (engines[int(generator.integers(len(engines)))],)
            elif size == 1:
                pool = domains[int(generator.integers(len(domains)))]
            chosen = tuple(pool[place] for place in generator.integers(0, len(pool), activities).tolist())
            flow = draw_flow(generator, activities, parallel=parallel, loop=loop, rounds=rounds)
            trigger = engines[int(generator.integers(len(engines)))]
            processes.append(_Process(f"p{len(processes):03}", flow, chosen, trigger))
    return _Deployment(processes, topology.brokers)


def _deployed(
    deployment: _Deployment, generator: np.random.Generator, monitored: int, pace: Pace
) -> Iterator[Action]:
    """Yield what stays throughout: triggers, those who wait for them, and monitors."""
    processes, brokers = deployment.processes, deployment.brokers
    step = 0
    for process in processes:
        filter = _filter(kind="trigger", process=process.name)
        name, client = f"{process.name}.trigger", f"starter-{process.name}"
        yield Action(pace.at(step), "advertise", name, process.trigger, filter, client)
        step += 1
        for broker in process.listeners:
            listener = f"{name}@{broker}"
            yield Action(pace.at(step), "subscribe", listener, broker, filter, f"engine-{broker}")
            step += 1
    for place in sorted(generator.permutation(len(processes))[:monitored].tolist()):
        filter = _filter(kind="status", process=processes[place].name)
        name = f"monitor-{processes[place].name}"
        broker = brokers[int(generator.integers(len(brokers)))]
        yield Action(pace.at(step), "subscribe", name, broker, filter, name)
        step += 1


class _Instances:
    """Runs processes: one heap of coming triggers and of the actions of instances under way."""

    def __init__(
        self,
        generator: np.random.Generator,
        interval_s: float,
        activity_s: float,
        setup_s: float,
        end_s: float,
    ) -> None:
        self.generator = generator
        self.interval_s = interval_s
        self.activity_s = activity_s
        self.setup_s = setup_s
        self.end_s = end_s

    def actions(self, processes: list[_Process], start_s: float) -> Iterator[Action]:
        """Yield the actions of all instances until the last has ended."""
        phases = (start_s + self.generator.random(len(processes)) * self.interval_s).tolist()
        # The second field keeps the order of actions at one time and is never equal.
        heap: list[tuple[float, int, Action | tuple[_Process, int]]] = [
            (at_s, order, (process, 0))
            for order, (at_s, process) in enumerate(zip(phases, processes, strict=True))
        ]
        heapify(heap)
        order = len(heap)
        while heap:
            at_s, _, item = heappop(heap)
            if isinstance(item, Action):
                yield item
                continue
            if at_s >= self.end_s:
                continue
            process, number = item
            for action in self._instance(process, number, at_s):
                heappush(heap, (action.at_s, order, action))
                order += 1
            heappush(heap, (at_s + self.interval_s, order, (process, number + 1)))
            order += 1

    def _instance(self, process: _Process, number: int, at_s: float) -> Iterator[Action]:
        """Yield the actions of one instance, in an order that may be kept at equal times."""
        content = {"kind": "trigger", "process": process.name, "instance": number}
        yield Action(at_s, "publish", "", process.trigger, content, f"starter-{process.name}")
        prefix = f"{process.name}.{number}"
        clients = [f"engine-{broker}" for broker in process.engines]
        listens = process.flow.listens()
        filters = [_filter(kind="status", process=process.name, instance=number, activity=a) for a in listens]
        early_s, late_s = at_s + self.setup_s / 3, at_s + self.setup_s * 2 / 3
        for activity, broker in enumerate(process.engines):
            name = f"{prefix}.{activity}"
            yield Action(early_s, "advertise", name, broker, filters[activity], clients[activity])
        for activity, others in listens.items():
            broker, client = process.engines[activity], clients[activity]
            for other in others:
                name = f"{prefix}.{activity}<{other}"
                yield Action(late_s, "subscribe", name, broker, filters[other], client)
        end_s = at_s
        for event in self._execution(process, number, at_s + self.setup_s):
            end_s = max(end_s, event.at_s)
            yield event
        end_s += self.setup_s
        for activity, others in listens.items():
            for other in others:
                name = f"{prefix}.{activity}<{other}"
                yield Action(end_s, "unsubscribe", name, "", None, clients[activity])
        for activity in listens:
            yield Action(end_s, "unadvertise", f"{prefix}.{activity}", "", None, clients[activity])

    def _execution(self, process: _Process, number: int, start_s: float) -> Iterator[Action]:
        """Yield the status events, each when its activity has finished."""
        finished: list[float] = []
        times: dict[int, int] = {}
        for activity, after in process.flow.unrolled(self.generator):
            begun = max((finished[run] for run in after), default=start_s)
            finished.append(begun + float(self.generator.exponential(self.activity_s)))
            times[activity] = times.get(activity, 0) + 1
            content = {
                "kind": "status",
                "process": process.name,
                "instance": number,
                "activity": activity,
                "round": times[activity],
            }
            broker = process.engines[activity]
            yield Action(finished[-1], "publish", "", broker, content, f"engine-{broker}")


def _administrate(
    number: int,
    topology: Topology,
    generator: np.random.Generator,
    pace: Pace,
    length_s: float,
    end_s: float,
) -> Iterator[Action]:
    """Yield the visits of one administrator, at a broker and a phase of its own."""
    broker = topology.brokers[int(generator.integers(len(topology.brokers)))]
    phase = float(generator.random())
    client = f"administrator{number}"
    visit = 0
    while pace.at(visit + phase) < end_s:
        at_s = pace.at(visit + phase)
        name = f"{client}.{visit}"
        yield Action(at_s, "subscribe", name, broker, _filter(kind="trigger"), client)
        yield Action(at_s + length_s, "unsubscribe", name, "", None, client)
        visit += 1


def _filter(**values: str | int) -> AttributeFilter:
    """Return the filter in which each attribute has this value."""
    return trusted((Conjunction(tuple((name, compare("=", values[name])) for name in sorted(values))),))
