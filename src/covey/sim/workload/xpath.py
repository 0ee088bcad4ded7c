"""A population of XPath patterns over a document type, as in the evaluation of XROUTE (Chand and Felber)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.core.filter import Filter
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter, parse_xpath
from covey.errors import ConfigError
from covey.sim.topology.catalogue import check_range, check_ranges
from covey.sim.topology.graph import Topology
from covey.sim.workload.population import Course, DrawEvents, DrawFilters, Kind, population
from covey.sim.workload.script import Script, workload
from covey.workloads.dtd import DocumentType, newspaper, read_dtd
from covey.workloads.xpath import PatternOptions, XPathWorkload

MAX_FRUITLESS = 10_000


@workload("xpath")
def xpath(
    topology: Topology,
    seed: int,
    *,
    subscriptions: int = 1_000,
    unique: bool = True,
    churn: int = 0,
    events: int = 100,
    publishers: int = 1,
    height: int = 10,
    wildcard: float = 0.1,
    descendant: float = 0.1,
    branch: float = 0.1,
    skew: float = 1.0,
    attribute: float = 0.0,
    elements: int = 131,
    dtd: str = "",
    parsed: bool = True,
    subscribe_interval_ms: float = 10.0,
    churn_interval_ms: float = 10.0,
    event_interval_ms: float = 10.0,
    pause_s: float = 1.0,
) -> Script:
    """Subscribe with tree patterns, replace `churn` of them, publish `events` documents of about `elements` elements.

    With `unique` all patterns differ. `height`, `wildcard`, `descendant`, `branch` and `skew` are the publication's
    h, p*, p//, pλ and θ; `attribute` is the probability of a test on an attribute. `dtd` is the file of a document
    type, Covey's own newspaper unless given. Documents are parsed once here unless `parsed` is false, which gives XML.
    """
    check_range("height", height, 1, 30)
    check_range("skew", skew, 0, 10)
    check_range("elements", elements, 1, 10_000)
    check_ranges(0, 1, wildcard=wildcard, descendant=descendant, branch=branch, attribute=attribute)
    doctype = read_dtd(dtd) if dtd else newspaper()
    options = PatternOptions(height, wildcard, descendant, branch, skew, attribute)

    def filters() -> DrawFilters:
        return _Patterns(doctype, options, unique).draw

    def events_of() -> DrawEvents:
        def draw(generator: np.random.Generator, count: int) -> list[Document | str]:
            source = XPathWorkload(doctype, generator, options)
            texts = (source.document(elements) for _ in range(count))
            return [Document.parse(text) if parsed else text for text in texts]

        return draw

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
    kind = Kind("xpath", parse_xpath("/*"), filters, events_of)
    return population(topology, seed, kind, course, f"{subscriptions} XPath patterns, {events} documents")


class _Patterns:
    """Draws patterns and remembers which there were."""

    def __init__(self, doctype: DocumentType, options: PatternOptions, unique: bool) -> None:
        self.doctype = doctype
        self.options = options
        self.unique = unique
        self.seen: set[XPathFilter] = set()

    def draw(self, generator: np.random.Generator, places: np.ndarray) -> Sequence[Filter]:
        """Return a pattern for each place; ConfigError when no more different ones are found."""
        source = XPathWorkload(self.doctype, generator, self.options)
        if not self.unique:
            return [source.filter() for _ in range(len(places))]
        found: list[Filter] = []
        fruitless = 0
        while len(found) < len(places):
            drawn = source.filter()
            if drawn not in self.seen:
                self.seen.add(drawn)
                found.append(drawn)
                fruitless = 0
            elif fruitless == MAX_FRUITLESS:
                raise ConfigError(
                    f"only {len(self.seen)} different patterns were found: set unique to false, or another shape"
                )
            else:
                fruitless += 1
        return found
