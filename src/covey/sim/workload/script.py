"""Scripts: the actions of a whole run in the order of time, drawn while they are read.

A workload is a function of a topology, a seed and keyword parameters that returns a script. It obeys three rules:

1. Reading a script again gives the same actions: everything comes from the arguments, never from hashing.
2. Actions are drawn in batches. What is kept is a few numbers a subscription, never its filter.
3. What is drawn for one purpose does not disturb the others: each purpose has its own stream of the seed, so more
   events leave the subscriptions as they were.

Phases say when a script's parts begin. All actions of a part lie before the beginning of the next, so a driver can
settle and read its counters there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action

BATCH = 1_000
MAX_ACTIONS = 100_000_000
MAX_INTERVAL_MS = 1e9

P = ParamSpec("P")
Builder = Callable[..., "Script"]


@dataclass(frozen=True)
class Script:
    """The actions of a run with what they were made from.

    `actions` can be read any number of times. `phases` has the beginning of each part in seconds, in their order.
    `family` is that of all filters; `parameters` has those of the workload, the defaults as well.
    """

    family: str
    description: str
    phases: Mapping[str, float]
    draw: Callable[[], Iterator[Action]] = field(repr=False)
    name: str = ""
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def actions(self) -> Iterator[Action]:
        """The actions in the order of time, from the first."""
        return self.draw()

    def __iter__(self) -> Iterator[Action]:
        return self.draw()


def workload(name: str) -> Callable[[Callable[P, Script]], Callable[P, Script]]:
    """Mark a function of topology, seed and parameters as the workload of that name; its script will know them."""

    def mark(builder: Callable[P, Script]) -> Callable[P, Script]:
        signature = inspect.signature(builder)

        @wraps(builder)
        def build(*args: P.args, **kwargs: P.kwargs) -> Script:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            _, seed, *_ = bound.arguments.values()
            check_range("seed", seed, 0)
            parameters = dict(list(bound.arguments.items())[2:])
            return replace(builder(*args, **kwargs), name=name, seed=seed, parameters=parameters)

        return build

    return mark


class Timeline:
    """Puts the parts of a script one after the other, with a pause after each that has actions."""

    def __init__(self, pause_s: float) -> None:
        check_range("pause_s", pause_s, 0, 1e6)
        self.pause_s = pause_s
        self.phases: dict[str, float] = {}
        self.now_s = 0.0

    def phase(self, name: str, count: float, interval_s: float) -> Pace:
        """Begin the part of that name, with so many actions at that distance."""
        check_range(f"the number of actions to {name}", count, 0, MAX_ACTIONS)
        check_range(f"the interval to {name}", interval_s, 0)
        pace = Pace(self.now_s, interval_s)
        self.phases[name] = self.now_s
        if count > 0:
            self.now_s += count * interval_s + self.pause_s
        return pace

    def end(self) -> dict[str, float]:
        """Return the phases, the end as the last."""
        return {**self.phases, "end": self.now_s}


@dataclass(frozen=True)
class Pace:
    """Times at even distances."""

    start_s: float
    interval_s: float

    def at(self, number: float) -> float:
        """Return the time of the action with that number, counted from 0."""
        return self.start_s + number * self.interval_s


def streams(seed: int, count: int) -> list[np.random.Generator]:
    """Return independent generators of one seed, one for each purpose."""
    return [np.random.default_rng([seed, purpose]) for purpose in range(count)]


def batched(draw: Callable[[int], Iterable[Any]], count: int) -> Iterator[Any]:
    """Yield `count` items that are drawn some at a time."""
    for start in range(0, count, BATCH):
        yield from draw(min(BATCH, count - start))


def consumer_brokers(topology: Topology) -> tuple[str, ...]:
    """Return where consumers sit: the subscribers, else local brokers, else the edge, else everywhere."""
    for role in ("subscribers", "local", "edge"):
        if topology.roles.get(role):
            return topology.roles[role]
    return topology.brokers


def producer_brokers(topology: Topology, count: int, generator: np.random.Generator) -> list[str]:
    """Return where so many producers sit: at the publishers in turn, else at brokers drawn evenly."""
    check_range("publishers", count, 1, 1_000_000)
    brokers = topology.roles.get("publishers")
    if not brokers:
        order = generator.permutation(len(topology.brokers)).tolist()
        brokers = tuple(topology.brokers[place] for place in order)
    return [brokers[number % len(brokers)] for number in range(count)]


def source_broker(topology: Topology, source: str) -> str:
    """Return the one broker from which all events come: the named one, else the first publisher, else the first."""
    if not source:
        return (topology.roles.get("publishers") or topology.brokers)[0]
    if source not in topology.neighbours:
        raise ConfigError(f"source must be a broker of the topology, not {source!r:.60}")
    return source


def advertise_all(pace: Pace, brokers: Iterable[str], what: Any) -> Iterator[Action]:
    """Yield one advertisement of the same filter for each producer."""
    for number, broker in enumerate(brokers):
        yield Action(pace.at(number), "advertise", f"ad{number}", broker, what, f"producer{number}")
