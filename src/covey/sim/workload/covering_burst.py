"""Covering on purpose, then a burst: the controlled scenario of Chen, Hu, Muthusamy and Jacobsen.

Roots cover many subscriptions each; when a root leaves, what it covered must be told to brokers that did not know it.
The publication gives the numbers of subscriptions and departures; the rest here is a reconstruction:

    root      the whole range of its topic, at a random broker, anywhere in the order of arrival; it leaves
    covered   955 for each root at 80,000 subscriptions: equal intervals, none covering another, at random brokers or
              all at their root's (`placement`), in the first c of the range, c even from `coverage` to 1 for each root;
              together they are `overlap` ranges long
    broad     the whole range of a topic of its own; `broad` of them at each broker of subscribers; they stay
    other     all that remains: an interval of a broad one's topic at the same broker, so it never leaves that broker

Events have a root's topic and a value even over the range. Before the departures every root's topic gets the same
number of them, in turn from all publishers. Roots leave in random order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import cycle, islice
from operator import attrgetter
from typing import Any

import numpy as np

from covey.core.attributes.filter import TRUE
from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.script import (
    MAX_ACTIONS,
    Pace,
    Script,
    Timeline,
    advertise_all,
    batched,
    consumer_brokers,
    producer_brokers,
    streams,
    workload,
)
from covey.workloads.covering import OVERLAP, VALUES, draw_covered, draw_topic_events, topic_filter

SUBSCRIPTIONS = 80_000
COVERED = 955
WIDEST_OTHER = VALUES // 10
PLACEMENTS = ("random", "root")


@workload("covering-burst")
def covering_burst(
    topology: Topology,
    seed: int,
    *,
    subscriptions: int = SUBSCRIPTIONS,
    roots: int = 20,
    covered: int | None = None,
    coverage: float = 0.95,
    overlap: float = OVERLAP,
    placement: str = "random",
    broad: int = 50,
    publishers: int = 3,
    events_before: int = 300,
    events_after: int = 1_000,
    background: bool = True,
    subscribe_interval_ms: float = 10.0,
    unsubscribe_interval_ms: float = 500.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 10.0,
) -> Script:
    """Subscribe in random order, publish, then let the roots leave one by one.

    `covered` is the number below each root, 955 scaled with `subscriptions` unless given. `coverage` is the least
    similarity of a root to what it covers, `overlap` how many of the covered an event matches. `placement` says where
    they are: at a `random` broker, or at that of their `root`. `events_before` counts for each root, `events_after` in
    all. With `background`, events also go on while the roots leave, one every `event_interval_ms`.
    """
    if covered is None:
        covered = round(COVERED * subscriptions / SUBSCRIPTIONS)
    check_ranges(1, MAX_ACTIONS, subscriptions=subscriptions, roots=roots)
    check_ranges(0, MAX_ACTIONS, covered=covered, broad=broad)
    check_ranges(0, MAX_ACTIONS, events_before=events_before, events_after=events_after)
    check_range("coverage", coverage, 0.01, 1)
    check_range("overlap", overlap, 0.01, MAX_ACTIONS)
    if placement not in PLACEMENTS:
        raise ConfigError(f"there is no placement {placement!r:.40} (hint: {', '.join(PLACEMENTS)})")
    at_root = placement == "root"
    burst = _Burst(
        consumer_brokers(topology), subscriptions, roots, covered, coverage, overlap, at_root, broad
    )
    sources = producer_brokers(topology, publishers, streams(seed, 1)[0])
    event_s = event_interval_ms / 1_000
    timeline = Timeline(pause_s)
    advertise = timeline.phase("advertise", publishers, subscribe_interval_ms / 1_000)
    subscribe = timeline.phase("subscribe", subscriptions, subscribe_interval_ms / 1_000)
    before = timeline.phase("before", roots * events_before, event_s)
    leave = timeline.phase("unsubscribe", roots, unsubscribe_interval_ms / 1_000)
    during = Pace(leave.start_s, event_s)
    events_during = int(roots * leave.interval_s / event_s) if background and event_s else 0
    after = timeline.phase("after", events_after, event_s)

    def draw() -> Iterator[Action]:
        _, order, hosts, intervals, leaving, contents = streams(seed, 6)
        publish = partial(burst.publish, contents, sources)
        yield from advertise_all(advertise, sources, TRUE)
        yield from burst.arrivals(order, hosts, intervals, subscribe)
        yield from publish(before, roots * events_before, in_turn=True)
        departing = burst.departures(leaving, leave)
        yield from merge(departing, publish(during, events_during), key=attrgetter("at_s"))
        yield from publish(after, events_after)

    description = f"{subscriptions} subscriptions, {roots} roots with {covered} covered each leave"
    return Script("attributes", description, timeline.end(), draw)


@dataclass(frozen=True)
class _Burst:
    """The subscriptions by number: roots first, then covered ones root by root, broad ones, others."""

    brokers: tuple[str, ...]
    subscriptions: int
    roots: int
    covered: int
    coverage: float
    overlap: float
    at_root: bool  # the covered are at their root's broker
    broad: int

    def __post_init__(self) -> None:
        needed = self.roots * (1 + self.covered) + self.broad * len(self.brokers)
        if needed > self.subscriptions:
            raise ConfigError(
                f"{self.roots} roots with {self.covered} covered each and {self.broad} broad ones at each of "
                f"{len(self.brokers)} brokers are {needed} subscriptions, more than {self.subscriptions}"
            )
        if needed < self.subscriptions and not self.broad:
            raise ConfigError(f"{self.subscriptions - needed} subscriptions are left and none is broad")

    def arrivals(
        self,
        order: np.random.Generator,
        hosts: np.random.Generator,
        intervals: np.random.Generator,
        pace: Pace,
    ) -> Iterator[Action]:
        """Yield all subscriptions in random order."""
        host = hosts.integers(0, len(self.brokers), self.subscriptions)
        if self.at_root:
            host[self.roots : self._first_broad] = np.repeat(host[: self.roots], self.covered)
        kind = hosts.integers(0, max(1, self.broad), self.subscriptions)
        starts, lengths = self._intervals(intervals)
        for place, number in enumerate(order.permutation(self.subscriptions).tolist()):
            interval = int(starts[number]), int(starts[number] + lengths[number] - 1)
            name, topic, broker = self._names(number, int(host[number]), int(kind[number]))
            filter = topic_filter(topic) if topic == name else topic_filter(topic, *interval)
            yield Action(pace.at(place), "subscribe", name, broker, filter, name)

    def _intervals(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw where the interval of each subscription starts and how long it is; roots and broad have none."""
        starts = np.zeros(self.subscriptions, np.int64)
        lengths = np.zeros(self.subscriptions, np.int64)
        coverages = self.coverage + generator.random(self.roots) * (1 - self.coverage)
        for root in range(self.roots):
            first = self.roots + root * self.covered
            part = slice(first, first + self.covered)
            starts[part], lengths[part] = draw_covered(
                generator, self.covered, float(coverages[root]), self.overlap
            )
        rest = slice(self._first_other, self.subscriptions)
        lengths[rest] = generator.integers(1, WIDEST_OTHER + 1, self.subscriptions - self._first_other)
        starts[rest] = generator.integers(0, VALUES - lengths[rest] + 1)
        return starts, lengths

    @property
    def _first_broad(self) -> int:
        return self.roots * (1 + self.covered)

    @property
    def _first_other(self) -> int:
        return self._first_broad + self.broad * len(self.brokers)

    def _names(self, number: int, host: int, kind: int) -> tuple[str, str, str]:
        """Return name, topic and broker of a subscription; roots and broad ones are called as their topics."""
        if number < self.roots:
            return _root(number), _root(number), self.brokers[host]
        if number < self._first_broad:
            root, place = divmod(number - self.roots, self.covered)
            return f"{_root(root)}.{place}", _root(root), self.brokers[host]
        if number < self._first_other:
            host, kind = divmod(number - self._first_broad, self.broad)
        broker = self.brokers[host]
        topic = f"broad-{broker}-{kind}"
        return topic if number < self._first_other else f"other{number}", topic, broker

    def departures(self, generator: np.random.Generator, pace: Pace) -> Iterator[Action]:
        """Yield the departures of the roots, in random order."""
        for place, root in enumerate(generator.permutation(self.roots).tolist()):
            yield Action(pace.at(place), "unsubscribe", _root(root), "", None, _root(root))

    def publish(
        self,
        generator: np.random.Generator,
        sources: list[str],
        pace: Pace,
        count: int,
        *,
        in_turn: bool = False,
    ) -> Iterator[Action]:
        """Yield events of the roots' topics, which come in turn or are drawn evenly."""
        turn = cycle(range(self.roots))

        def draw(size: int) -> list[dict[str, Any]]:
            topics = islice(turn, size) if in_turn else generator.integers(0, self.roots, size).tolist()
            return draw_topic_events(generator, [_root(topic) for topic in topics])

        for number, content in enumerate(batched(draw, count)):
            # A publisher serves every topic once before the next one does.
            place = number // self.roots % len(sources)
            yield Action(pace.at(number), "publish", "", sources[place], content, f"producer{place}")


def _root(number: int) -> str:
    return f"root{number}"
