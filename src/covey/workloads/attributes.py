"""Attribute filters and events as the literature draws them, each from one random generator.

    siena       filters of 1–10 constraints on 1,000 names by Zipf's law, 60% =, 20% <, 20% >, values 0–99;
                events of 1–19 attributes. One-constraint filters match almost every event and cover almost every
                other filter: look at `siena-3` beside it.
    siena-3     the same with 3–10 constraints
    quotes      symbol = s and price between 50 - t and 50 + u, with 1,000 symbols; events are quotes
    ranges      one two-sided range of a single attribute, up to 1% of its domain wide; values are floats

Those of the second list select poorly by each of their constraints, and well or not by all of them together:

    wide        ranges of ten attributes, each 70–95% of its domain wide
    middle      ranges of three attributes, 30–70% wide
    narrow      ranges of three attributes, 5–20% wide
    popular     equalities on two attributes with four values each, and ranges of three others, 30–70% wide

A workload makes filters in batches, because a million of them as objects would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, between, compare
from covey.core.attributes.filter import AttributeFilter, trusted

NAMES = 1_000
VALUES = 100
SYMBOLS = 1_000
DOMAIN = 1_000_000.0
POPULAR = 4

Filters = list[AttributeFilter]
Event = dict[str, Any]


class Workload(NamedTuple):
    """How to draw filters and events."""

    name: str
    filters: Callable[[np.random.Generator, int], Filters]
    events: Callable[[np.random.Generator, int], list[Event]]

    def batches(self, generator: np.random.Generator, count: int, size: int = 20_000) -> Iterator[Filters]:
        """Draw `count` filters, some at a time."""
        for start in range(0, count, size):
            yield self.filters(generator, min(size, count - start))


@lru_cache(maxsize=8)
def zipf_shares(count: int, skew: float = 1.0) -> np.ndarray:
    """Return the cumulated shares of `count` ranks under Zipf's law."""
    weights = 1.0 / np.arange(1, count + 1) ** skew
    shares = np.cumsum(weights / weights.sum())
    # Rounding must not leave a gap below 1, into which a draw could fall.
    shares[-1] = 1.0
    return shares


def distinct_names(generator: np.random.Generator, counts: np.ndarray, skew: float = 1.0) -> list[list[int]]:
    """Draw so many distinct names, by rank, for each filter or event."""
    shares = zipf_shares(NAMES, skew)
    drawn = np.searchsorted(shares, generator.random((len(counts), 3 * int(counts.max()))))
    result = []
    for row, count in zip(drawn.tolist(), counts.tolist(), strict=True):
        names = list(dict.fromkeys(row))[:count]
        while len(names) < count:
            name = int(np.searchsorted(shares, generator.random()))
            if name not in names:
                names.append(name)
        result.append(names)
    return result


@lru_cache(maxsize=1024)
def _comparison(op: str, value: int) -> Constraint:
    return compare(op, value)


def siena_filters(least: int, skew: float = 1.0) -> Callable[[np.random.Generator, int], Filters]:
    """Return the drawer of filters with `least` to 10 constraints, on names of that Zipf skew."""

    def draw(generator: np.random.Generator, count: int) -> Filters:
        names = distinct_names(generator, generator.integers(least, 11, count), skew)
        total = sum(map(len, names))
        ops = iter(generator.choice(["=", "<", ">"], total, p=[0.6, 0.2, 0.2]).tolist())
        values = iter(generator.integers(0, VALUES, total).tolist())
        filters = []
        for row in names:
            sides = {f"a{name:03}": _comparison(next(ops), next(values)) for name in row}
            filters.append(trusted((Conjunction(tuple(sorted(sides.items()))),)))
        return filters

    return draw


def siena_events(generator: np.random.Generator, count: int, skew: float = 1.0) -> list[Event]:
    """Draw events of 1–19 attributes."""
    names = distinct_names(generator, generator.integers(1, 20, count), skew)
    values = iter(generator.integers(0, VALUES, sum(map(len, names))).tolist())
    return [{f"a{name:03}": next(values) for name in row} for row in names]


def quote_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw `symbol = s and price between 50 - t and 50 + u`, t and u up to 50."""
    symbols = generator.integers(0, SYMBOLS, count).tolist()
    ends = (50.0 + generator.random((count, 2)) * (-50.0, 50.0)).tolist()
    return [
        trusted((Conjunction((("price", between(low, high)), ("symbol", compare("=", f"S{symbol:03}")))),))
        for symbol, (low, high) in zip(symbols, ends, strict=True)
    ]


def quote_events(generator: np.random.Generator, count: int, symbols: int = SYMBOLS) -> list[Event]:
    """Draw quotes with a symbol, a price and a volume."""
    drawn = generator.integers(0, symbols, count).tolist()
    prices = (generator.random(count) * 100.0).tolist()
    volumes = generator.integers(1, 10_000, count).tolist()
    return [
        {"symbol": f"S{symbol:03}", "price": price, "volume": volume}
        for symbol, price, volume in zip(drawn, prices, volumes, strict=True)
    ]


def range_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw ranges of `x`, each up to a hundredth of the domain wide."""
    lows = (generator.random(count) * DOMAIN).tolist()
    widths = (generator.random(count) * DOMAIN / 100.0).tolist()
    return [
        trusted((Conjunction((("x", between(low, low + width)),)),))
        for low, width in zip(lows, widths, strict=True)
    ]


def range_events(generator: np.random.Generator, count: int) -> list[Event]:
    """Draw values of `x`."""
    return [{"x": value} for value in (generator.random(count) * DOMAIN).tolist()]


def box_filters(
    attributes: int, least: float, most: float, popular: int = 0
) -> Callable[[np.random.Generator, int], Filters]:
    """Return the drawer of filters with ranges of so many attributes, shares of the domain wide, and of equalities on
    `popular` others."""
    names = [f"x{k}" for k in range(attributes)]

    def draw(generator: np.random.Generator, count: int) -> Filters:
        widths = generator.uniform(least, most, (count, attributes))
        lows = generator.random((count, attributes)) * (1.0 - widths)
        equal = generator.integers(0, POPULAR, (count, popular)).tolist()
        filters = []
        for row_lows, row_highs, values in zip(lows.tolist(), (lows + widths).tolist(), equal, strict=True):
            sides = [(f"e{k}", _comparison("=", value)) for k, value in enumerate(values)]
            ends = zip(names, row_lows, row_highs, strict=True)
            sides += [(name, between(low, high)) for name, low, high in ends]
            filters.append(trusted((Conjunction(tuple(sides)),)))
        return filters

    return draw


def box_events(attributes: int, popular: int = 0) -> Callable[[np.random.Generator, int], list[Event]]:
    """Return the drawer of events with a value for each of these attributes."""

    def draw(generator: np.random.Generator, count: int) -> list[Event]:
        values = generator.random((count, attributes)).tolist()
        equal = generator.integers(0, POPULAR, (count, popular)).tolist()
        return [
            {f"e{k}": value for k, value in enumerate(some)} | {f"x{k}": value for k, value in enumerate(row)}
            for row, some in zip(values, equal, strict=True)
        ]

    return draw


WORKLOADS = (
    Workload("siena", siena_filters(1), siena_events),
    Workload("siena-3", siena_filters(3), siena_events),
    Workload("quotes", quote_filters, quote_events),
    Workload("ranges", range_filters, range_events),
)
POOR_WORKLOADS = (
    Workload("wide", box_filters(10, 0.7, 0.95), box_events(10)),
    Workload("middle", box_filters(3, 0.3, 0.7), box_events(3)),
    Workload("narrow", box_filters(3, 0.05, 0.2), box_events(3)),
    Workload("popular", box_filters(3, 0.3, 0.7, popular=2), box_events(3, popular=2)),
)
