"""The longest steps of a broker while it does control work, by what was given to it: two brokers in the simulator.

    python benchmarks/steps.py [--subscriptions 20000] [--runs 3] [--limit 5] [--profile] [--json]

What one `BrokerCore.step` takes is what an event may have to wait for. A step is measured in CPU time, garbage
collections within it counted. On a machine that others use that varies by much; but the same seed gives the same steps,
so everything is done several times, each time in a process of its own, and the least of each step counts. Acts, one
after the other:

    link up      a neighbour comes, and hears all that clients want
    burst        a client makes many subscriptions at once
    unadvertise  the only producer of many subscriptions goes: brokers withdraw them from each other
    plan         a plan goes in: a second router is told what clients want, and tells the neighbour
    burst again  another client makes many subscriptions, while there are two epochs
    leaving      both clients end their connections

With --profile everything is done once more, and the functions in which the three longest steps of each act spent their
time are printed.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import io
import json
import pstats
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from typing import Final, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from covey.broker.core import BrokerCore
from covey.broker.effects import Effect, Input, Instant, Tick
from covey.broker.process import THRESHOLDS, TURNS
from covey.broker.warming import warm_up
from covey.planning.plan import Plan, PlannedTree
from covey.sim.brokers import BrokerNetwork

PLAN: Final = Plan(
    "steps", 1, ("a", "b"), (("a", "b", 1.0),), (PlannedTree("a", (("a", "b"),)),), one_copy="cheapest"
)
TOP: Final = 14  # functions that are printed of each step
SHOWN_MS: Final = 0.5  # a kind of step has a row if one of them took that long


def filter_of(number: int) -> str:
    """Return another filter for each number; few of them cover others."""
    return f"symbol = 'S{number % 5_000}' and price > {number % 97}.5 and volume < {number * 7 % 1_000 + 1}"


class Step(NamedTuple):
    """One step of a broker."""

    act: str
    input: str
    took_ms: float
    collecting_ms: float  # of it


class Watch:
    """Measures every step, and profiles those with certain numbers."""

    def __init__(self, profiled: Collection[int] = ()) -> None:
        self.steps: list[Step] = []
        self.act = "start"
        self._profiled = profiled
        self._turns = 0
        self._collecting_s = self._collected_s = 0.0
        self._step: Callable[[BrokerCore, Input, Instant], list[Effect]] = BrokerCore.step

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure meanwhile."""
        watch = self

        def measured(core: BrokerCore, given: Input, now: Instant) -> list[Effect]:
            return watch._measure(core, given, now)

        setattr(BrokerCore, "step", measured)  # noqa: B010 (a method is not assigned to otherwise)
        before = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collected)
        try:
            yield
        finally:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*before)
            setattr(BrokerCore, "step", self._step)  # noqa: B010

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            self._collected_s += time.thread_time() - self._collecting_s

    def _measure(self, core: BrokerCore, given: Input, now: Instant) -> list[Effect]:
        number, kind = len(self.steps), type(given).__name__
        profile = cProfile.Profile(time.thread_time) if number in self._profiled else None
        self._collected_s, begun_s = 0.0, time.thread_time()
        if profile is None:
            effects = self._step(core, given, now)
        else:
            effects = profile.runcall(self._step, core, given, now)
        if isinstance(given, Tick):  # as a broker's process does (`Garbage`)
            self._turns += 1
            if self._turns % TURNS == 0:
                gc.collect(1)
        took_ms = (time.thread_time() - begun_s) * 1e3
        if profile is not None:
            text = io.StringIO()
            pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(TOP)
            print(
                f"-- {self.act}: {kind} at {core.config.name}, step {number}\n{text.getvalue()}", flush=True
            )
        self.steps.append(Step(self.act, f"{kind} at {core.config.name}", took_ms, self._collected_s * 1e3))
        return effects


def run(subscriptions: int, watch: Watch) -> None:
    """Have two brokers do all acts."""
    net = BrokerNetwork([("a", "b")], seed=1)
    net.settle()
    producer = net.advertise("a", "price >= 0")

    def subscribe(client: str, first: int) -> None:
        for number in range(first, first + subscriptions):
            net.subscribe("b", filter_of(number), client=client)

    with watch.watching():
        watch.act = "burst"
        subscribe("first", 0)
        net.settle()
        watch.act = "link up"
        net.link_down("a", "b")
        net.run(net.now_s + 60)
        net.link_up("a", "b")
        net.settle()
        watch.act = "unadvertise"
        net.unadvertise(producer)
        net.settle()
        net.advertise("a", "price >= 0")
        net.settle()
        watch.act = "plan"
        net.install("a", PLAN.encode())
        net.settle()
        watch.act = "burst again"
        subscribe("second", subscriptions)
        net.settle()
        watch.act = "leaving"
        for client in ("first", "second"):
            net.client("b", client).disconnect()
        net.settle()


def in_a_process(subscriptions: int, profiled: Collection[int] = ()) -> list[Step]:
    """Run in a process that begins as this one is now, so that all runs are the same."""
    receiving, sending = Pipe(duplex=False)

    def work() -> None:
        watch = Watch(profiled)
        run(subscriptions, watch)
        sending.send(watch.steps)

    process = get_context("fork").Process(target=work)
    process.start()
    sending.close()
    steps: list[Step] = receiving.recv()
    process.join()
    return steps


def least(runs: Sequence[Sequence[Step]]) -> list[Step]:
    """Return each step as it was in the run in which it took least; ValueError if the runs are not the same."""
    if len({tuple(step[:2] for step in one) for one in runs}) > 1:
        raise ValueError("the same seed has given other steps")
    return [min(same, key=lambda step: step.took_ms) for same in zip(*runs, strict=True)]


def main() -> None:
    """Run, print, and perhaps profile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subscriptions", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=1.0, help="ms above which a step is counted")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    warm_up()
    steps = least([in_a_process(asked.subscriptions) for _ in range(asked.runs)])
    by_kind: dict[tuple[str, str], list[int]] = {}
    for number, step in enumerate(steps):
        by_kind.setdefault(step[:2], []).append(number)
    rows = []
    for (act, kind), numbers in sorted(by_kind.items()):
        took = np.array([steps[number].took_ms for number in numbers])
        longest = steps[numbers[int(took.argmax())]]
        above = int((took > asked.limit).sum())
        rows.append(
            (
                act,
                kind,
                len(took),
                took.sum(),
                float(np.percentile(took, 99)),
                longest.took_ms,
                longest.collecting_ms,
                above,
            )
        )
    heads = ("act", "input", "steps", "CPU ms", "p99 ms", "longest ms", "of it gc", f"above {asked.limit:g}")
    if asked.json:
        print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows], default=float))
    else:
        table = Table(*heads)
        for row in rows:
            if row[5] > SHOWN_MS:
                table.add_row(*(f"{one:.2f}" if isinstance(one, float) else str(one) for one in row))
        Console(width=120).print(table)
    if asked.profile:
        longest_of = {
            act: sorted(
                (number for number, step in enumerate(steps) if step.act == act),
                key=lambda number: -steps[number].took_ms,
            )[:3]
            for act in {step.act for step in steps}
        }
        in_a_process(asked.subscriptions, {number for numbers in longest_of.values() for number in numbers})


if __name__ == "__main__":
    main()
