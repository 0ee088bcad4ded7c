"""A covering subscription leaves: what brokers then tell each other, under active covering and under incremental.

Two equal rows of brokers, one under each strategy, get the same subscriptions, the same events and the same departures
at the same time. A feed is at one end. At the other end are desks: at each of them many subscriptions want intervals of
a topic, nearly all of it together, and at the first, one wants the whole topic: the root. The roots leave one after the
other; everybody else stays.

Under `covering` all that a root covered is told, link by link. Under `incremental` the root stays in the tables where
nearly all of its events are wanted anyway. The price is events that nobody wants any more and that cross a link.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from covey.broker.local import Overlay
from covey.client.admin import control_messages, total
from covey.core.filter import Filter
from covey.demo.admin import Admin
from covey.demo.crossings import OneTree, needed
from covey.demo.oracle import Asking, differences
from covey.demo.traffic import Record, Traffic
from covey.errors import CoveyError
from covey.workloads.covering import VALUES, topic_filter

STRATEGIES: Final = ("covering", "incremental")
LENGTH: Final = 5  # brokers in a row
DESKS: Final = 3  # of them have subscribers
COVERAGE: Final = 0.97  # of a topic's range, which intervals cover
OVERLAP: Final = 8.0  # intervals that an event matches
GOLDEN: Final = (5**0.5 - 1) / 2
POLL_S: Final = 0.05


@dataclass(frozen=True)
class Sizes:
    """How much there is: topics, intervals of each at each desk, events before, and how departures are spaced."""

    topics: int = 4
    intervals: int = 60
    events: int = 320
    rate: float = 60.0
    apart_s: float = 1.0


@dataclass
class Told:
    """What came of it under one strategy. `points` are (seconds, control messages so far); see `Departures`."""

    strategy: str
    points: list[tuple[float, int]] = field(default_factory=list)
    departures_s: list[float] = field(default_factory=list)
    messages: int = 0  # that the departures caused
    subscriptions: int = 0
    events: int = 0  # published after the first departure
    forwarded: int = 0  # messages on links for these
    false_positives: int = 0  # of them for nobody
    deliveries: int = 0
    wrong: list[str] = field(default_factory=list)


def names(strategy: str) -> list[str]:
    """Return the brokers of a row, the desks first, the feed's last."""
    return [f"{strategy}-{number}" for number in range(1, LENGTH + 1)]


def rows() -> list[Overlay]:
    """Return the two rows of brokers."""
    return [Overlay(names(strategy), list(pairwise(names(strategy))), strategy) for strategy in STRATEGIES]


class Departures:
    """The act under one strategy."""

    def __init__(self, strategy: str, addresses: Mapping[str, str], sizes: Sizes, seed: int) -> None:
        self.told = Told(strategy)
        self._brokers = names(strategy)
        self._sizes = sizes
        self._roots, self._covered = _wishes(sizes, seed)
        self._traffic = Traffic(addresses, self._event)

    def _event(self, number: int) -> tuple[str, Any]:
        # Values of a topic are even over the range after any number of them, so that shares are not left to chance.
        place, topic = divmod(number, self._sizes.topics)
        return self._brokers[-1], {"topic": f"topic{topic}", "value": int(place * GOLDEN % 1 * VALUES)}

    async def run(self, admin: Admin) -> Told:
        """Play it; the admin pages are those of this row's brokers."""
        try:
            leaving = await self._prepare()
            before = await self._traffic.at_rest(admin.metrics)
            first = self._traffic.published
            watching = asyncio.get_running_loop().create_task(self._watch(admin, control_messages(before)))
            self._traffic.flow(self._sizes.rate)
            begun_s = time.monotonic()
            for place, root in enumerate(leaving, start=1):
                await asyncio.sleep(max(0.0, begun_s + place * self._sizes.apart_s - time.monotonic()))
                self.told.departures_s.append(time.monotonic() - begun_s)
                await root.unsubscribe()
            await asyncio.sleep(1.5 * self._sizes.apart_s)
            after = await self._traffic.at_rest(admin.metrics, ends=True)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._judge(first, before, after)
        finally:
            await self._traffic.close()
        return self.told

    async def _prepare(self) -> list[Any]:
        """Subscribe, and publish so much that brokers know how similar filters are; return the roots."""
        traffic = self._traffic
        await traffic.feed(self._brokers[-1], [topic_filter(f"topic{n}") for n in range(self._sizes.topics)])
        leaving = []
        for place, broker in enumerate(self._brokers[:DESKS]):
            client = await traffic.client(broker)
            if place == 0:
                leaving = await traffic.subscribe(client, list(self._roots.items()))
            mine = [(number, filter) for number, (desk, filter) in self._covered.items() if desk == place]
            await traffic.subscribe(client, mine)
        await traffic.in_force()
        await traffic.publish(self._sizes.events)
        return leaving

    async def _watch(self, admin: Admin, start: int) -> None:
        begun_s = time.monotonic()
        while True:
            with suppress(CoveyError):  # a page that comes too late leaves a gap in a curve, and nothing else
                so_far = control_messages(await admin.metrics()) - start
                self.told.points.append((time.monotonic() - begun_s, so_far))
            await asyncio.sleep(POLL_S)

    # -- afterwards ------------------------------------------------------------------------------------------

    def _judge(self, first: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        told, record = self.told, self._traffic.record
        told.messages = control_messages(after) - control_messages(before)
        told.subscriptions = len(self._roots) + len(self._covered)
        told.events = self._traffic.published - first
        told.forwarded = _forwarded(after) - _forwarded(before)
        told.deliveries = len(record)
        staying = {number: filter for number, (_, filter) in self._covered.items()}
        asking = Asking(staying)
        answers = [asking.wanting(content) for content in record.contents]
        left, stayed = _parted(record, self._roots)
        told.wrong = differences(stayed, answers) + _root_differences(left, self._roots, first)
        wanted = [
            [(self._brokers[self._covered[number][0]], staying[number]) for number in numbers]
            for numbers in answers[first:]
        ]
        for event, number in zip(left.events, left.subscriptions, strict=True):
            if event >= first:  # a root is there until it leaves
                wanted[event - first].append((self._brokers[0], self._roots[number]))
        crossed = needed(OneTree(pairwise(self._brokers)), [self._brokers[-1]] * len(wanted), wanted)
        told.false_positives = told.forwarded - sum(crossed.values())


def _wishes(sizes: Sizes, seed: int) -> tuple[dict[int, Filter], dict[int, tuple[int, Filter]]]:
    """Return the roots, and the intervals with their desks, by number."""
    generator = np.random.default_rng([seed, 2])
    roots: dict[int, Filter] = {topic: topic_filter(f"topic{topic}") for topic in range(sizes.topics)}
    covered: dict[int, tuple[int, Filter]] = {}
    for topic in range(sizes.topics):
        for desk in range(DESKS):
            for low, high in _intervals(generator, sizes.intervals):
                covered[len(roots) + len(covered)] = desk, topic_filter(f"topic{topic}", low, high)
    return roots, covered


def _intervals(generator: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """Draw intervals of equal length, one after the other, that cover the first COVERAGE of the range."""
    length = round(OVERLAP * VALUES * COVERAGE / (count + OVERLAP))
    apart = (VALUES * COVERAGE - length) / (count - 1)
    starts = np.rint(np.arange(count) * apart).astype(int)
    starts[1:-1] += generator.integers(0, int(apart / 2), count - 2)
    return [(start, start + length - 1) for start in starts.tolist()]


def _forwarded(metrics: Mapping[str, Any]) -> int:
    return total(metrics, "covey_events_forwarded_total")


def _parted(record: Record, roots: Mapping[int, Filter]) -> tuple[Record, Record]:
    """Return what came to roots, and what came to all others."""
    left, stayed = Record(), Record()
    for event, number in zip(record.events, record.subscriptions, strict=True):
        into = left if number in roots else stayed
        into.events.append(event)
        into.subscriptions.append(number)
    stayed.garbled, left.contents = record.garbled, record.contents
    return left, stayed


def _root_differences(left: Record, roots: Mapping[int, Filter], first: int) -> list[str]:
    """Return what is wrong with what roots got: all until the first event of the act, and what was under way later."""
    counts = Counter(zip(left.events, left.subscriptions, strict=True))
    found = [f"event {event} reached root {number} again" for (event, number), n in counts.items() if n > 1]
    for number, root in roots.items():
        due = {event for event, content in enumerate(left.contents[:first]) if root.matches(content)}
        got = {event for event, whose in counts if whose == number}
        found += [f"event {event} did not reach root {number}" for event in sorted(due - got)]
        found += [
            f"event {event} reached root {number}, which does not want it"
            for event in sorted(got)
            if not root.matches(left.contents[event])
        ]
    return found
