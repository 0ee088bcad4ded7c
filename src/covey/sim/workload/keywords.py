"""Keywords asked for in neighbourhoods, after Majumder, Shrivastava, Rastogi and Srinivasan,
"Scalable Content-Based Routing in Pub/Sub Systems".

For each keyword a broker is drawn; of the nearest share of all brokers at most `hosts` ask for it, drawn evenly. 2%,
15% and 100% are the publication's Localized1, Localized2 and Uniform. Its numbers of documents, keywords and documents
a keyword contradict each other, so how a document gets its words is a reading: a broker is drawn, and the words are
drawn from those that the `near` nearest brokers with any keyword ask for. Ties of distance are broken by chance.

A subscription is a broker's keyword (`per` "keyword") or all of a broker's keywords at once (`per` "broker"). Both are
readings of the publication, and results differ.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.normal import EVERYTHING
from covey.core.keywords.text import MAX_CONJUNCTIONS
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.action import Action
from covey.sim.workload.script import (
    MAX_ACTIONS,
    Script,
    Timeline,
    advertise_all,
    producer_brokers,
    streams,
    workload,
)
from covey.workloads.keywords import any_word_filter, word

MAX_KEYWORDS = 100_000


@workload("keywords")
def keywords(
    topology: Topology,
    seed: int,
    *,
    keywords: int = 1_000,
    nearest: float = 0.02,
    hosts: int = 10,
    per: Literal["keyword", "broker"] = "keyword",
    events: int = 10_000,
    words: int = 3,
    near: int = 1,
    skew: float = 0.0,
    publishers: int | None = None,
    subscribe_interval_ms: float = 10.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 1.0,
) -> Script:
    """Subscribe to `keywords` words, each at up to `hosts` of the `nearest` brokers, then publish documents.

    `nearest` is a share of all brokers. A document has `words` words, fewer when its neighbourhood has not so many;
    `skew` makes the first words likelier, by Zipf's law. Every broker publishes unless `publishers` says how many do.
    """
    check_range("keywords", keywords, 1, MAX_KEYWORDS)
    check_range("nearest", nearest, 0, 1)
    check_ranges(1, 1_000_000, hosts=hosts, words=words, near=near)
    check_range("events", events, 0, MAX_ACTIONS)
    check_range("skew", skew, 0, 10)
    choose, publish = streams(seed, 2)
    asked = _asked(topology, choose, keywords, max(1, round(nearest * len(topology.brokers))), hosts)
    subscriptions = _subscriptions(asked, 1 if per == "keyword" else MAX_CONJUNCTIONS)
    sources = topology.brokers
    if publishers is not None:
        sources = tuple(producer_brokers(topology, publishers, publish))
    timeline = Timeline(pause_s)
    advertise = timeline.phase("advertise", len(sources), subscribe_interval_ms / 1_000)
    subscribe = timeline.phase("subscribe", len(subscriptions), subscribe_interval_ms / 1_000)
    pace = timeline.phase("publish", events, event_interval_ms / 1_000)

    def draw() -> Iterator[Action]:
        _, _, order, contents = streams(seed, 4)
        yield from advertise_all(advertise, sources, KeywordFilter(EVERYTHING))
        for place, number in enumerate(order.permutation(len(subscriptions)).tolist()):
            broker, numbers = subscriptions[number]
            filter, client = any_word_filter(numbers), f"reader-{broker}"
            yield Action(subscribe.at(place), "subscribe", f"s{number}", broker, filter, client)
        documents = _Documents(topology, asked, words, near, skew, contents)
        for number in range(events):
            source = int(contents.integers(len(sources)))
            client = f"producer{source}"
            yield Action(pace.at(number), "publish", "", sources[source], documents.draw(), client)

    description = f"{keywords} keywords at the nearest {nearest:.0%} of brokers, {events} documents"
    return Script("keywords", description, timeline.end(), draw)


def _asked(
    topology: Topology, generator: np.random.Generator, keywords: int, nearest: int, hosts: int
) -> dict[str, list[int]]:
    """Draw the keywords for which each broker asks; brokers in the topology's order, none without a keyword."""
    brokers = topology.brokers
    asked: dict[str, list[int]] = {broker: [] for broker in brokers}
    for keyword in range(keywords):
        root = brokers[int(generator.integers(len(brokers)))]
        around = brokers if nearest == len(brokers) else nearest_brokers(topology, root, nearest, generator)
        for place in generator.permutation(len(around))[:hosts].tolist():
            asked[around[place]].append(keyword)
    return {broker: numbers for broker, numbers in asked.items() if numbers}


def _subscriptions(asked: Mapping[str, list[int]], together: int) -> list[tuple[str, list[int]]]:
    """Return the subscriptions as a broker and its keywords, so many at most in each."""
    return [
        (broker, numbers[start : start + together])
        for broker, numbers in asked.items()
        for start in range(0, len(numbers), together)
    ]


def nearest_brokers(
    topology: Topology,
    root: str,
    count: int,
    generator: np.random.Generator,
    among: Container[str] | None = None,
) -> list[str]:
    """Return the `count` brokers nearest to the root, itself included, ties broken by chance; only those `among`."""
    found: list[str] = []
    for ring in topology.rings(root):
        fitting = ring if among is None else [broker for broker in ring if broker in among]
        missing = count - len(found)
        if len(fitting) > missing:
            fitting = [fitting[place] for place in generator.permutation(len(fitting))[:missing].tolist()]
        found += fitting
        if len(found) == count:
            break
    return found


@dataclass(frozen=True)
class _Documents:
    """Draws documents from what a neighbourhood asks for."""

    topology: Topology
    asked: Mapping[str, list[int]]
    words: int
    near: int
    skew: float
    generator: np.random.Generator

    def draw(self) -> frozenset[str]:
        """Return the words of a document."""
        brokers = self.topology.brokers
        centre = brokers[int(self.generator.integers(len(brokers)))]
        around = nearest_brokers(self.topology, centre, self.near, self.generator, self.asked)
        numbers = sorted({number for broker in around for number in self.asked[broker]})
        weights = np.arange(1, len(numbers) + 1) ** -self.skew
        count = min(self.words, len(numbers))
        drawn = self.generator.choice(len(numbers), count, replace=False, p=weights / weights.sum())
        return frozenset(word(numbers[place]) for place in drawn.tolist())
