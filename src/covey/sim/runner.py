"""Runs a scenario: clients act, faults come and go, samples are taken, until nothing is left to do.

Actions are drawn one by one: the next is put on the heap when the one before it is done, so that a long workload costs
no memory before its time. Samples are taken just before their moment, so that what happens at a moment counts after it.
After the last action the run goes on until nothing is under way, unless the scenario ends it earlier.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import covey
from covey.errors import ConfigError
from covey.sim.faults import Faults
from covey.sim.handles import Advertisement, Subscription
from covey.sim.metrics import Collector
from covey.sim.network import Network
from covey.sim.preparation import Prepared, prepare
from covey.sim.result import Machine, Result
from covey.sim.scenario import EXACT, Scenario
from covey.sim.section import shown
from covey.sim.workload import Action

SAMPLES = 50  # about so many, where a scenario does not say how often
ACTIONS_A_REPORT = 500

Progress = Callable[[float, float], None]  # the share that is done, the simulated time


def run(scenario: Scenario, progress: Progress | None = None) -> Result:
    """Run a scenario from its beginning to its end."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    driver = Driver(prepare(scenario), progress)
    driver.drive()
    machine = Machine(
        wall_s=round(time.perf_counter() - wall_s, 3),
        cpu_s=round(time.process_time() - cpu_s, 3),
        peak_memory_mb=round(peak_memory_mb(), 1),
        arrivals=driver.net.engine.arrivals,
    )
    return driver.result(machine)


def peak_memory_mb() -> float:
    """Return the most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


class Driver:
    """One run of a prepared scenario."""

    def __init__(self, prepared: Prepared, progress: Progress | None = None) -> None:
        self.net: Network = prepared.network()
        self._prepared = prepared
        self._scenario = prepared.scenario
        self._progress = progress
        self._core = prepared.topology.roles.get("core", ())
        self._collector = Collector(self.net, self._core, by_broker=self._scenario.metrics.by_broker)
        self._every_s = self._scenario.metrics.every_s or round_interval(prepared.end_s / SAMPLES)
        self._sampled = self._stopped = False
        self._late = 0
        self._last_s = 0.0
        self._feed = _Feed(self.net, prepared, self._report)
        self._faults = Faults(self.net, self._scenario.faults)

    def drive(self) -> None:
        """Run to the end."""
        settings = self._scenario.run
        for phase, begin_s in self._prepared.phases.items():
            if phase != "end" and begin_s <= self._prepared.end_s:
                self.net.at(before(begin_s), self._sample, begin_s, phase)
        if settings.duration_s is not None and not settings.settle:
            self.net.at(settings.duration_s, self._stop)
        self.net.at(before(self._every_s), self._tick, self._every_s)
        self._feed.begin()
        step, engine = self.net.engine.step, self.net.engine
        while not self._stopped and step():
            if self._sampled:
                self._sampled = False
            else:
                self._last_s = engine.now_s
        if not self._stopped:
            self.net.settle()
        # A phase in which nothing happens may begin after the last thing that did.
        last_s = max([self._last_s, *(sample.at_s for sample in self._collector.samples[-1:])])
        self._collector.sample(last_s)
        self._report(1.0)

    def _stop(self) -> None:
        self._stopped = True

    def _tick(self, at_s: float) -> None:
        """Take a regular sample, and come back as long as anything else is going to happen."""
        if not len(self.net.engine):
            self._sampled = True  # all is over since the last time, and the last sample says so
            return
        self._sample(at_s, "")
        if at_s > self._prepared.end_s:
            # Nobody knows how long queues take to drain: the longer, the more rarely we look.
            self._late += 1
            if self._late % SAMPLES == 0:
                self._every_s *= 2.0
        following_s = round(at_s + self._every_s, 9)
        self.net.at(before(following_s), self._tick, following_s)

    def _sample(self, at_s: float, phase: str) -> None:
        self._sampled = True
        self._collector.sample(at_s, phase)
        self._report()

    def _report(self, share: float | None = None) -> None:
        if self._progress is not None:
            now_s, end_s = self.net.now_s, self._prepared.end_s
            self._progress(min(now_s / end_s, 1.0) if share is None and end_s else share or 0.0, now_s)

    def result(self, machine: Machine) -> Result:
        """Return what came out."""
        scenario = self._scenario
        strategies = dict.fromkeys(self.net.overlay.strategy_of.values())
        return Result(
            scenario=scenario.name,
            title=scenario.title,
            version=covey.__version__,
            seed=scenario.seed,
            strategy=" + ".join(strategies),
            repeatable=scenario.service.kind != "measured",
            parameters=scenario.as_tables(),
            brokers=len(self.net.brokers),
            links=len(self.net.overlay.links),
            core=self._core,
            ended_s=self._last_s,
            settled=not len(self.net.engine),
            actions=self._feed.done,
            faults=self._faults.begun,
            delays=self._collector.delays.delays(),
            samples=self._collector.samples,
            by_broker=self._collector.brokers(),
            machine=machine,
        )


class _Feed:
    """Lets clients act, one action after the other, and knows what they hold by name."""

    def __init__(self, net: Network, prepared: Prepared, report: Callable[[], None]) -> None:
        self.done = 0
        self._net = net
        self._actions = prepared.actions()
        self._name = prepared.scenario.name
        self._exact = prepared.scenario.run.handover == EXACT
        self._until_s = math.inf
        if prepared.scenario.run.duration_s is not None:
            self._until_s = prepared.scenario.run.duration_s
        self._report = report
        self._subscriptions: dict[str, Subscription] = {}
        self._advertisements: dict[str, Advertisement] = {}

    def begin(self) -> None:
        """Put the first action on the heap."""
        self._follow()

    def _follow(self) -> None:
        action = next(self._actions, None)
        if action is not None and action.at_s <= self._until_s:
            self._net.at(action.at_s, self._act, action)

    def _act(self, action: Action) -> None:
        net = self._net
        # A workload knows nothing of the topology's names.
        client = f"client {action.client}" if action.client in net.nodes else action.client or None
        match action.op:
            case "subscribe":
                handle = net.subscribe(action.broker, action.what, client=client)
                self._subscriptions[action.name] = handle
            case "unsubscribe":
                net.unsubscribe(self._held(self._subscriptions.pop, action))
            case "publish":
                net.publish(action.broker, action.what, client=client)
            case "advertise":
                advertised = net.advertise(action.broker, action.what, client=client)
                self._advertisements[action.name] = advertised
            case "unadvertise":
                net.unadvertise(self._held(self._advertisements.pop, action))
            case "move":
                moving = self._held(self._subscriptions.get, action)
                net.move(moving, action.broker, exact=self._exact)
        self.done += 1
        if self.done % ACTIONS_A_REPORT == 0:
            self._report()
        self._follow()

    def _held(self, take: Callable[[str, None], Any], action: Action) -> Any:
        held = take(action.name, None)
        if held is None:
            raise ConfigError(
                f"{self._name}: to {action.op} {shown(action.name)} at {action.at_s:g} s, "
                "expected a name that is there then"
            )
        return held


def before(time_s: float) -> float:
    """Return the last moment before a time."""
    return math.nextafter(time_s, 0.0)


def round_interval(interval_s: float) -> float:
    """Return the next round number of seconds: 1, 2 or 5 times a power of ten; 1 for nothing."""
    if interval_s <= 0.0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(interval_s))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= interval_s)
