"""Populations of attribute filters: SIENA's, SIENA's without the very broad ones, and ranges of one attribute.

siena     1–10 constraints on names by Zipf's law: Carzaniga and Wolf, "Forwarding in a Content-Based Network" (2003)
siena-3   the same with 3–10 constraints; few of its filters cover another
ranges    one range of one attribute, placed evenly or exponentially
"""

from __future__ import annotations

from functools import partial

import numpy as np

from covey.core.attributes.filter import TRUE, AttributeFilter
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.population import Course, DrawEvents, DrawFilters, Kind, population
from covey.sim.workload.script import Script, consumer_brokers, workload
from covey.workloads.attributes import siena_events, siena_filters
from covey.workloads.ranges import Placement, draw_places, placed_events, placed_ranges

MAX_SKEW = 2.0
"""Beyond it a few names are almost all, and ten distinct ones are hard to draw."""


@workload("siena")
def siena(
    topology: Topology,
    seed: int,
    *,
    subscriptions: int = 1_000,
    churn: int = 0,
    events: int = 1_000,
    publishers: int = 1,
    constraints: int = 1,
    skew: float = 1.0,
    subscribe_interval_ms: float = 10.0,
    churn_interval_ms: float = 10.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 1.0,
) -> Script:
    """Subscribe with filters of `constraints` to 10 constraints, replace `churn` of them, publish `events`.

    `skew` is that of Zipf's law for the names in filters and events.
    """
    kind = siena_kind(constraints, skew)
    course = Course(
        subscriptions,
        churn,
        events,
        publishers,
        subscribe_interval_ms,
        churn_interval_ms,
        event_interval_ms,
        pause_s,
    )
    return population(topology, seed, kind, course, f"{subscriptions} SIENA subscriptions, {events} events")


@workload("siena-3")
def siena_3(
    topology: Topology,
    seed: int,
    *,
    subscriptions: int = 1_000,
    churn: int = 0,
    events: int = 1_000,
    publishers: int = 1,
    skew: float = 1.0,
    subscribe_interval_ms: float = 10.0,
    churn_interval_ms: float = 10.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 1.0,
) -> Script:
    """Do as `siena` does with 3 to 10 constraints."""
    return siena(
        topology,
        seed,
        subscriptions=subscriptions,
        churn=churn,
        events=events,
        publishers=publishers,
        constraints=3,
        skew=skew,
        subscribe_interval_ms=subscribe_interval_ms,
        churn_interval_ms=churn_interval_ms,
        event_interval_ms=event_interval_ms,
        pause_s=pause_s,
    )


def siena_kind(constraints: int, skew: float) -> Kind:
    """Return SIENA's filters and events, as a population and moving subscribers draw them."""
    check_range("constraints", constraints, 1, 10)
    check_range("skew", skew, 0, MAX_SKEW)
    draw = siena_filters(constraints, skew)

    def filters(generator: np.random.Generator, places: np.ndarray) -> list[AttributeFilter]:
        return draw(generator, len(places))

    def events() -> DrawEvents:
        return partial(siena_events, skew=skew)

    return Kind("attributes", TRUE, lambda: filters, events)


@workload("ranges")
def ranges(
    topology: Topology,
    seed: int,
    *,
    subscriptions: int = 1_000,
    churn: int = 0,
    events: int = 1_000,
    publishers: int = 1,
    placement: Placement = "uniform",
    event_placement: Placement = "uniform",
    mean: float = 0.15,
    width: float = 0.01,
    locality: float = 0.0,
    subscribe_interval_ms: float = 10.0,
    churn_interval_ms: float = 10.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 1.0,
) -> Script:
    """Subscribe with ranges, each up to `width` of the domain wide, replace `churn` of them, publish `events`.

    `placement` says where ranges start, `event_placement` where events are; `mean` is that of exponential placement,
    as a share of the domain. With probability `locality` a range starts instead in its broker's own part of the domain,
    which all consumers' brokers divide evenly.
    """
    check_range("mean", mean, 0.001, 1)
    check_ranges(0, 1, width=width, locality=locality)
    hosts = len(consumer_brokers(topology))

    def filters() -> DrawFilters:
        def draw(generator: np.random.Generator, places: np.ndarray) -> list[AttributeFilter]:
            anywhere = draw_places(generator, len(places), placement, mean)
            near = (places + generator.random(len(places))) / hosts
            starts = np.where(generator.random(len(places)) < locality, near, anywhere)
            return placed_ranges(generator, starts, width)

        return draw

    def events_of() -> DrawEvents:
        return lambda generator, count: placed_events(draw_places(generator, count, event_placement, mean))

    course = Course(
        subscriptions,
        churn,
        events,
        publishers,
        subscribe_interval_ms,
        churn_interval_ms,
        event_interval_ms,
        pause_s,
    )
    kind = Kind("attributes", TRUE, filters, events_of)
    return population(topology, seed, kind, course, f"{subscriptions} {placement} ranges, {events} events")
