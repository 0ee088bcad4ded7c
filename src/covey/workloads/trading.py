"""Attribute filters with values of several types, and with more than one conjunction; events for them.

    floats      ranges of one to three of twenty attributes with floats, up to a fifth of their domain wide and some
                with one end only, and equalities on one or two of ten attributes with 200 strings each, some far more
                popular than others; events have eight and four of them
    ticker      quotes of 1,000 symbols, some far more popular than others: a symbol with a price above or below a
                limit, a symbol with a volume, or all of an exchange that have moved by some percent
    mixed       OR and NOT: a topic with a price outside an interval, or another topic that does not come from a region,
                or any of several topics above a level

Like those of `attributes`, each is drawn from one generator.
"""

from __future__ import annotations

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, between, compare, not_between, within
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.workloads.attributes import Event, Filters, Workload, zipf_shares

FLOATS, STRINGS, WORDS = 20, 10, 200
SYMBOLS, EXCHANGES = 1_000, 5
TOPICS, REGIONS = 400, 8


def _popular(generator: np.random.Generator, count: int, shape: int | tuple[int, ...]) -> np.ndarray:
    """Draw ranks below `count` by Zipf's law."""
    return np.searchsorted(zipf_shares(count), generator.random(shape))


def _filter(sides: dict[str, Constraint]) -> AttributeFilter:
    return trusted((Conjunction(tuple(sorted(sides.items()))),))


def _range(low: float, width: float, kind: float) -> Constraint:
    """Return a range, by `kind` with both ends or one of them."""
    if kind < 0.2:
        return compare(">", 1.0 - width)
    return compare("<", width) if kind < 0.4 else between(low * (1.0 - width), low * (1.0 - width) + width)


def float_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw filters on floats and strings."""
    filters = []
    for _ in range(count):
        sides: dict[str, Constraint] = {}
        for name in generator.choice(FLOATS, generator.integers(1, 4), replace=False).tolist():
            low, width, kind = generator.random(3).tolist()
            sides[f"f{name:02}"] = _range(low, width / 5.0, kind)
        names = generator.choice(STRINGS, generator.integers(1, 3), replace=False).tolist()
        for name, word in zip(names, _popular(generator, WORDS, len(names)).tolist(), strict=True):
            sides[f"s{name}"] = compare("=", f"word-{word}")
        filters.append(_filter(sides))
    return filters


def float_events(generator: np.random.Generator, count: int) -> list[Event]:
    """Draw events with eight floats and four strings."""
    events: list[Event] = []
    for _ in range(count):
        floats = generator.choice(FLOATS, 8, replace=False).tolist()
        event: Event = {f"f{name:02}": generator.random() for name in floats}
        names = generator.choice(STRINGS, 4, replace=False).tolist()
        words = _popular(generator, WORDS, 4).tolist()
        events.append(event | {f"s{name}": f"word-{word}" for name, word in zip(names, words, strict=True)})
    return events


def _price_of(symbol: int) -> float:
    """Return what a symbol mostly costs: from 5 to 500, without an order."""
    return float(5.0 * 100.0 ** ((symbol * 0.618034) % 1.0))


def ticker_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw limits on prices, on volumes, and on how far whole exchanges have moved."""
    kinds, symbols = generator.random(count).tolist(), _popular(generator, SYMBOLS, count).tolist()
    moves, sizes = generator.normal(0.0, 0.05, count).tolist(), generator.pareto(1.0, count).tolist()
    filters = []
    for kind, symbol, move, size in zip(kinds, symbols, moves, sizes, strict=True):
        if kind < 0.1:
            exchange = compare("=", f"X{symbol % EXCHANGES}")
            change = compare(">", abs(move)) if move > 0 else compare("<", -abs(move))
            filters.append(_filter({"exchange": exchange, "change": change}))
            continue
        limit = _price_of(symbol) * (1.0 + move)
        sides = {"symbol": compare("=", f"S{symbol:03}")}
        if kind < 0.7:
            sides["price"] = compare(">", limit) if move > 0 else compare("<", limit)
        else:
            sides |= {"volume": compare(">", 100.0 * size), "price": between(limit * 0.9, limit * 1.1)}
        filters.append(_filter(sides))
    return filters


def ticker_events(generator: np.random.Generator, count: int) -> list[Event]:
    """Draw quotes."""
    symbols, moves = _popular(generator, SYMBOLS, count).tolist(), generator.normal(0.0, 0.03, count).tolist()
    volumes = (100.0 * generator.pareto(1.0, count)).tolist()
    return [
        {
            "symbol": f"S{symbol:03}",
            "exchange": f"X{symbol % EXCHANGES}",
            "price": _price_of(symbol) * (1.0 + move),
            "change": move,
            "volume": volume,
        }
        for symbol, move, volume in zip(symbols, moves, volumes, strict=True)
    ]


def mixed_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw filters of one or two conjunctions, with negations."""
    topics = _popular(generator, TOPICS, (count, 4)).tolist()
    lows, widths = generator.random((2, count)).tolist()
    regions, kinds = generator.integers(0, REGIONS, count).tolist(), generator.random(count).tolist()
    filters = []
    for (one, other, *more), low, width, region, kind in zip(
        topics, lows, widths, regions, kinds, strict=True
    ):
        first = _filter({"topic": compare("=", f"t{one}"), "price": not_between(low, low + width / 4.0)})
        second = _filter({"topic": compare("=", f"t{other}"), "region": compare("<>", f"r{region}")})
        if kind < 0.3:
            filters.append(first)
        elif kind < 0.7:
            filters.append(AttributeFilter.any_of([first, second]))
        else:
            values = {f"t{topic}" for topic in (one, other, *more)}
            filters.append(
                _filter({"topic": within(sorted(values)), "price": compare(">", 1.0 - width / 4.0)})
            )
    return filters


def mixed_events(generator: np.random.Generator, count: int) -> list[Event]:
    """Draw events with a topic, a region and a price."""
    topics, regions = (
        _popular(generator, TOPICS, count).tolist(),
        generator.integers(0, REGIONS, count).tolist(),
    )
    return [
        {"topic": f"t{topic}", "region": f"r{region}", "price": price}
        for topic, region, price in zip(topics, regions, generator.random(count).tolist(), strict=True)
    ]


TYPED_WORKLOADS = (
    Workload("floats", float_filters, float_events),
    Workload("ticker", ticker_filters, ticker_events),
)
MIXED_WORKLOADS = (Workload("mixed", mixed_filters, mixed_events),)
