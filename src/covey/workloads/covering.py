"""Filters that cover each other on purpose: roots, what they cover, and the events between.

A filter is a topic and an interval of integer values from 0 to VALUES - 1. A root asks for the whole range of its
topic. Below it are intervals of equal length at different places, so that none covers another; together they are
`overlap` ranges long and lie anywhere in the first `coverage` of the range. That is how much of the root's events they
want, a little less when they are few: chance leaves gaps, mostly at the two ends.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, between, compare
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.errors import ConfigError

VALUES = 10_000
OVERLAP = 8.0


@lru_cache(maxsize=4096)
def _topic(topic: str) -> Constraint:
    return compare("=", topic)


def topic_filter(topic: str, low: int = 0, high: int = VALUES - 1) -> AttributeFilter:
    """Return `topic = t and value between low and high`; without bounds it is a root."""
    return trusted((Conjunction((("topic", _topic(topic)), ("value", between(low, high)))),))


def draw_covered(
    generator: np.random.Generator, count: int, coverage: float, overlap: float = OVERLAP
) -> tuple[np.ndarray, int]:
    """Draw where `count` intervals of one root start, all different, and return that with their length.

    ConfigError when there are not so many places.
    """
    span = int(coverage * VALUES)
    # Few intervals would each be longer than the range: half of what they may use is enough to overlap.
    length = max(1, min(round(overlap * VALUES / max(1, count)), span // 2))
    places = span - length + 1
    if count > places:
        raise ConfigError(f"a root has room for {places} covered subscriptions, not {count}")
    return generator.choice(places, size=count, replace=False), length


def draw_topic_events(generator: np.random.Generator, topics: list[str]) -> list[dict[str, Any]]:
    """Draw an event for each of these topics, with values even over the range."""
    values = generator.integers(0, VALUES, len(topics)).tolist()
    return [{"topic": topic, "value": value} for topic, value in zip(topics, values, strict=True)]
