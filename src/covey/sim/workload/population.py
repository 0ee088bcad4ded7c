"""A population of subscriptions: all come, then some are replaced while events are published.

This is the plain course of a run, shared by the workloads that differ only in their filters and events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import Any

import numpy as np

from covey.core.filter import Filter
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.script import (
    BATCH,
    MAX_ACTIONS,
    MAX_INTERVAL_MS,
    Pace,
    Script,
    Timeline,
    advertise_all,
    batched,
    consumer_brokers,
    producer_brokers,
    streams,
)

DrawFilters = Callable[[np.random.Generator, np.ndarray], Sequence[Filter]]
"""Draws one filter for each place, the number of the broker at which it will be subscribed."""

DrawEvents = Callable[[np.random.Generator, int], Sequence[Any]]


@dataclass(frozen=True)
class Course:
    """How many subscriptions, replacements and events, from how many publishers, at which distances."""

    subscriptions: int
    churn: int
    events: int
    publishers: int
    subscribe_interval_ms: float
    churn_interval_ms: float
    event_interval_ms: float
    pause_s: float


@dataclass(frozen=True)
class Kind:
    """What is drawn: the filter of advertisements, and how to begin drawing filters and events."""

    family: str
    everything: Filter
    filters: Callable[[], DrawFilters]
    events: Callable[[], DrawEvents]


def population(topology: Topology, seed: int, kind: Kind, course: Course, description: str) -> Script:
    """Return the script: advertise, subscribe, then churn and publish side by side in the phase `run`."""
    check_range("subscriptions", course.subscriptions, 1, MAX_ACTIONS)
    check_ranges(0, MAX_ACTIONS, churn=course.churn, events=course.events)
    check_ranges(
        0,
        MAX_INTERVAL_MS,
        subscribe_interval_ms=course.subscribe_interval_ms,
        churn_interval_ms=course.churn_interval_ms,
        event_interval_ms=course.event_interval_ms,
    )
    publishers = producer_brokers(topology, course.publishers, streams(seed, 1)[0])
    timeline = Timeline(course.pause_s)
    advertise = timeline.phase("advertise", len(publishers), course.subscribe_interval_ms / 1_000)
    subscribe = timeline.phase("subscribe", course.subscriptions, course.subscribe_interval_ms / 1_000)
    longest = max(course.churn * course.churn_interval_ms, course.events * course.event_interval_ms) / 1_000
    timeline.phase("run", min(1, course.churn + course.events), longest)
    start_s = timeline.phases["run"]

    def draw() -> Iterator[Action]:
        _, places, filters, leavers, sources, contents = streams(seed, 6)
        arrivals = _arrivals(topology, kind.filters(), places, filters, course.subscriptions + course.churn)
        yield from advertise_all(advertise, publishers, kind.everything)
        for number in range(course.subscriptions):
            yield next(arrivals)._replace(at_s=subscribe.at(number))
        replacing = _replace(arrivals, leavers, course, Pace(start_s, course.churn_interval_ms / 1_000))
        publishing = _publish(
            kind.events(),
            contents,
            sources,
            publishers,
            course.events,
            Pace(start_s, course.event_interval_ms / 1_000),
        )
        yield from merge(replacing, publishing, key=attrgetter("at_s"))

    return Script(kind.family, description, timeline.end(), draw)


def _arrivals(
    topology: Topology,
    draw: DrawFilters,
    places: np.random.Generator,
    filters: np.random.Generator,
    count: int,
) -> Iterator[Action]:
    """Yield subscriptions s0, s1 … at random brokers, without their times."""
    brokers = consumer_brokers(topology)
    for start in range(0, count, BATCH):
        drawn = places.integers(0, len(brokers), min(BATCH, count - start))
        for offset, (place, filter) in enumerate(zip(drawn.tolist(), draw(filters, drawn), strict=True)):
            name = f"s{start + offset}"
            yield Action(0.0, "subscribe", name, brokers[place], filter, name)


def _replace(
    arrivals: Iterator[Action], leavers: np.random.Generator, course: Course, pace: Pace
) -> Iterator[Action]:
    """Yield for each replacement the departure of a random subscription and the arrival of a new one."""
    live = list(range(course.subscriptions))
    for number in range(course.churn):
        place = int(leavers.integers(len(live)))
        at_s = pace.at(number)
        yield Action(at_s, "unsubscribe", f"s{live[place]}", "")
        yield next(arrivals)._replace(at_s=at_s)
        live[place] = course.subscriptions + number


def _publish(
    draw: DrawEvents,
    contents: np.random.Generator,
    sources: np.random.Generator,
    publishers: Sequence[str],
    count: int,
    pace: Pace,
) -> Iterator[Action]:
    for number, content in enumerate(batched(lambda size: draw(contents, size), count)):
        source = int(sources.integers(len(publishers)))
        yield Action(pace.at(number), "publish", "", publishers[source], content, f"producer{source}")
