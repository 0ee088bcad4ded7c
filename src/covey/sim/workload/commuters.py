"""Subscribers who move: the mobile scenario of Chen, Hu, Muthusamy and Jacobsen, with SIENA's filters and events.

Brokers around a hub serve the parts of a city. In the rush hours most subscribers commute between home and office,
some stay, the others wander. What the publication leaves open is settled here: the parts of the city are the cells of
a square grid, row by row; homes and offices are drawn evenly and differ; a commuter leaves at a time drawn evenly from
the rush hours; a wanderer moves at random times, to the cell whose distance is drawn from a normal distribution in both
directions, and stays at the city's border. Rush hours follow each other; the quiet hours between are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace, merge
from itertools import takewhile
from math import isqrt
from operator import attrgetter

import numpy as np

from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.attributes import siena_kind
from covey.sim.workload.population import Kind
from covey.sim.workload.script import (
    BATCH,
    MAX_ACTIONS,
    Pace,
    Script,
    Timeline,
    advertise_all,
    consumer_brokers,
    producer_brokers,
    streams,
    workload,
)


@workload("commuters")
def commuters(
    topology: Topology,
    seed: int,
    *,
    subscribers: int = 2_000,
    publishers: int = 20,
    constraints: int = 1,
    skew: float = 1.0,
    commuting: float = 0.6,
    staying: float = 0.2,
    rushes: int = 1,
    rush_s: float = 7_200.0,
    part_s: float = 0.0,
    wander_interval_s: float = 900.0,
    wander_cells: float = 1.0,
    publish_least_s: float = 1.0,
    publish_most_s: float = 15.0,
    subscribe_interval_ms: float = 10.0,
    pause_s: float = 10.0,
) -> Script:
    """Subscribe at home, then move during `rushes` rush hours of `rush_s` while publishers publish.

    With `part_s`, the script ends so long after the first rush began: moves come as densely as in all of it.
    The publication has 200,000 subscribers and 2,000 publishers. Filters have `constraints` to 10 constraints on
    names of that `skew`. Of the subscribers, `commuting` change between home and office once in each rush, `staying`
    do not move, the others wander every `wander_interval_s` on average, `wander_cells` being the standard deviation.
    A publisher publishes again after `publish_least_s` to `publish_most_s`.
    """
    check_range("subscribers", subscribers, 1, 10_000_000)
    check_range("commuting", commuting, 0, 1)
    check_range("staying", staying, 0, 1 - commuting + 1e-9)
    check_range("rushes", rushes, 0, 1_000)
    check_ranges(1, 1e6, rush_s=rush_s, wander_interval_s=wander_interval_s)
    check_range("part_s", part_s, 0, rushes * rush_s)
    check_range("wander_cells", wander_cells, 0, 1e6)
    check_range("publish_least_s", publish_least_s, 0.001)
    check_range("publish_most_s", publish_most_s, publish_least_s, 1e6)
    kind = siena_kind(constraints, skew)
    city = _City(consumer_brokers(topology), subscribers, commuting, staying)
    places = producer_brokers(topology, publishers, streams(seed, 1)[0])
    timeline = Timeline(pause_s)
    advertise = timeline.phase("advertise", publishers, subscribe_interval_ms / 1_000)
    subscribe = timeline.phase("subscribe", subscribers, subscribe_interval_ms / 1_000)
    played_s = part_s or rushes * rush_s
    rush = Pace(timeline.phase("rush", 1 if played_s else 0, played_s).start_s, rush_s)
    end_s = rush.start_s + played_s
    wander = rush_s / wander_interval_s, wander_cells
    check_range("the number of moves", subscribers * rushes * wander[0], 0, MAX_ACTIONS)

    def draw() -> Iterator[Action]:
        _, filters, homes, moves, pauses, contents = streams(seed, 6)
        here = city.settle(homes)
        yield from advertise_all(advertise, places, kind.everything)
        yield from city.arrivals(subscribe, kind, filters, here)
        moving = (city.rush(moves, here, rush.at(number), rush_s, wander) for number in range(rushes))
        publishing = _publish(kind, places, rush, end_s, (publish_least_s, publish_most_s), pauses, contents)
        moves_made = takewhile(lambda move: move.at_s < end_s, (move for part in moving for move in part))
        yield from merge(moves_made, publishing, key=attrgetter("at_s"))

    description = f"{subscribers} moving subscribers, {publishers} publishers, {rushes} rush hours"
    return Script(kind.family, description, timeline.end(), draw)


@dataclass
class _Places:
    """Where each subscriber is and, for commuters, where it goes next; numbers of cells."""

    now: np.ndarray
    other: np.ndarray


@dataclass(frozen=True)
class _City:
    """The cells and who lives in them: commuters have the first numbers, then those who stay."""

    brokers: tuple[str, ...]
    subscribers: int
    commuting: float
    staying: float

    def __post_init__(self) -> None:
        if len(self.brokers) < 2:
            raise ConfigError("moving needs a topology with two brokers for subscribers at least")

    def settle(self, generator: np.random.Generator) -> _Places:
        """Draw homes and offices, which differ."""
        cells = len(self.brokers)
        home = generator.integers(0, cells, self.subscribers)
        office = (home + generator.integers(1, cells, self.subscribers)) % cells
        return _Places(home, office)

    def arrivals(
        self, pace: Pace, kind: Kind, generator: np.random.Generator, here: _Places
    ) -> Iterator[Action]:
        """Yield the subscriptions, each at its home."""
        draw = kind.filters()
        for start in range(0, self.subscribers, BATCH):
            part = here.now[start : start + BATCH]
            for offset, filter in enumerate(draw(generator, part)):
                name = f"s{start + offset}"
                broker = self.brokers[int(part[offset])]
                yield Action(pace.at(start + offset), "subscribe", name, broker, filter, name)

    def rush(
        self,
        generator: np.random.Generator,
        here: _Places,
        start_s: float,
        length_s: float,
        wander: tuple[float, float],
    ) -> Iterator[Action]:
        """Yield the moves of one rush; `wander` is the mean number of moves and the deviation in cells."""
        commuters = round(self.commuting * self.subscribers)
        first_wanderer = min(self.subscribers, commuters + round(self.staying * self.subscribers))
        often = generator.poisson(wander[0], self.subscribers - first_wanderer)
        movers = np.concatenate(
            [np.arange(commuters), np.repeat(np.arange(first_wanderer, self.subscribers), often)]
        )
        times = start_s + generator.random(len(movers)) * length_s
        steps = generator.normal(0.0, wander[1], (len(movers), 2))
        for place in np.argsort(times, kind="stable").tolist():
            mover = int(movers[place])
            if mover < commuters:
                goal = int(here.other[mover])
                here.other[mover] = here.now[mover]
            else:
                goal = self._step(int(here.now[mover]), steps[place])
            if goal != here.now[mover]:
                here.now[mover] = goal
                name = f"s{mover}"
                yield Action(float(times[place]), "move", name, self.brokers[goal], None, name)

    def _step(self, cell: int, step: np.ndarray) -> int:
        """Return the cell at that distance, or the last one in its direction."""
        side = isqrt(len(self.brokers) - 1) + 1
        row, column = divmod(cell, side)
        row = min(max(row + round(float(step[0])), 0), (len(self.brokers) - 1) // side)
        column = min(max(column + round(float(step[1])), 0), side - 1)
        return min(row * side + column, len(self.brokers) - 1)


def _publish(
    kind: Kind,
    places: list[str],
    pace: Pace,
    end_s: float,
    pause_s: tuple[float, float],
    pauses: np.random.Generator,
    contents: np.random.Generator,
) -> Iterator[Action]:
    """Yield the events of all publishers until the end, each after pauses of its own."""
    draw = kind.events()
    least_s, most_s = pause_s
    waiting = [(pace.start_s + float(pauses.random()) * most_s, number) for number in range(len(places))]
    heapify(waiting)
    events: list[object] = []
    while waiting[0][0] < end_s:
        at_s, number = waiting[0]
        if not events:
            events = list(reversed(draw(contents, BATCH)))
        yield Action(at_s, "publish", "", places[number], events.pop(), f"producer{number}")
        heapreplace(waiting, (at_s + float(pauses.uniform(least_s, most_s)), number))
