"""Ranges of one attribute, placed evenly or where most of the interest is.

The attribute is `x`, from 0 to DOMAIN. A range has its low end placed by a distribution and is up to `width` of the
domain wide. Exponential placement has its mean at `mean` of the domain and is cut off at the domain's end.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import between
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.workloads.attributes import DOMAIN

Placement = Literal["uniform", "exponential"]


def draw_places(
    generator: np.random.Generator, count: int, placement: Placement = "uniform", mean: float = 0.15
) -> np.ndarray:
    """Draw so many places of the domain, as shares of it from 0 to 1."""
    places: np.ndarray = generator.random(count)
    if placement == "exponential":
        # The inverse of the distribution function, which reaches 1 at the end of the domain.
        places = np.minimum(1.0, -mean * np.log1p(places * np.expm1(-1.0 / mean)))
    return places


def placed_ranges(
    generator: np.random.Generator, places: np.ndarray, width: float = 0.01
) -> list[AttributeFilter]:
    """Draw for each place a range that starts there, up to `width` of the domain wide."""
    lows = places * DOMAIN
    highs = np.minimum(DOMAIN, lows + generator.random(len(places)) * width * DOMAIN)
    return [
        trusted((Conjunction((("x", between(low, high)),)),))
        for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
    ]


def placed_events(places: np.ndarray) -> list[dict[str, Any]]:
    """Return an event for each place."""
    return [{"x": value} for value in (places * DOMAIN).tolist()]
