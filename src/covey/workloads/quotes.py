"""Quotes of a stock exchange, after Mühl, Fiege, Gärtner and Buchmann's evaluation of REBECA (2002).

    quote            symbol = s
    quote interval   symbol = s and price between 50 - t and 50 + u, with t and u even from 0 to 50

A consumer asks for several distinct symbols. Locality d says how much the interests of subnets have in common: each
has d of all symbols, 1/n of them when n subnets share nothing, all of them when d is 1. The publication does not say
which; here each subnet has a window of the symbols' circle, and the windows start at even distances.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import between, compare
from covey.core.attributes.filter import AttributeFilter, trusted

MEAN_PRICE = 50.0
ROWS_AT_ONCE = 256


@lru_cache(maxsize=1 << 14)
def quote_filter(symbol: int) -> AttributeFilter:
    """Return `symbol = s`; one object for each symbol, as consumers share few filters."""
    return trusted((Conjunction((("symbol", compare("=", f"S{symbol:03}")),)),))


def interval_filter(symbol: int, low: float, high: float) -> AttributeFilter:
    """Return `symbol = s and price between low and high`."""
    side = quote_filter(symbol).conjunctions[0].constraints[0]
    return trusted((Conjunction((("price", between(low, high)), side)),))


def draw_intervals(generator: np.random.Generator, count: int) -> np.ndarray:
    """Draw the two ends of so many price intervals, each around the mean price."""
    return MEAN_PRICE + generator.random((count, 2)) * (-MEAN_PRICE, MEAN_PRICE)


def distinct_ranks(
    generator: np.random.Generator, rows: int, ranks: int, count: int, skew: float = 0.0
) -> np.ndarray:
    """Draw `count` distinct ones of the first `ranks` numbers for each row, by Zipf's law of that skew.

    Each row is sorted. Keys with Gumbel noise order the ranks as drawing without replacement would.
    """
    weights = -skew * np.log(np.arange(1, ranks + 1))
    drawn = np.empty((rows, count), np.int64)
    for start in range(0, rows, ROWS_AT_ONCE):
        stop = min(rows, start + ROWS_AT_ONCE)
        keys = weights + generator.gumbel(size=(stop - start, ranks))
        drawn[start:stop] = np.argpartition(keys, ranks - count, axis=1)[:, ranks - count :]
    return np.sort(drawn, axis=1)


def local_window(subnet: int, subnets: int, symbols: int, locality: float) -> tuple[int, int]:
    """Return where the symbols of a subnet start on the circle of all, and how many they are."""
    return subnet * symbols // subnets, max(1, round(locality * symbols))
