"""Attribute filters that ask for more than values and ranges, and events for them.

    patterns     one LIKE pattern each, %word% with a word of three to eight letters, on one attribute; events have a
                 text of 40 letters that no other event has
    negations    `<>` or NOT IN, and by every fourth filter NOT BETWEEN, on one attribute, beside an equality that few
                 events satisfy
    adtargeting  20 attributes: twelve with five to 200 values each, half of them texts, of which filters name one to
                 five (IN), and eight numbers, of which they want ranges; one to three and one to two of them a filter.
                 Events have all attributes

Most events satisfy most negations, few satisfy a pattern, and what an advertiser wants is selective as a whole only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import (
    Constraint,
    between,
    compare,
    like,
    not_between,
    not_within,
    within,
)
from covey.core.attributes.filter import AttributeFilter, trusted
from covey.workloads.attributes import Event, Filters, Workload

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXT = 40
NEGATED = 1_000_000
RARE = 10_000
SIZES = (5, 8, 12, 20, 30, 40, 50, 60, 80, 100, 150, 200)  # of the domains of values
NUMBERS = 8
DOMAIN = 1_000


def _words(generator: np.random.Generator, lengths: np.ndarray) -> list[str]:
    drawn = generator.integers(0, len(LETTERS), int(lengths.sum())).tolist()
    text = "".join(LETTERS[k] for k in drawn)
    ends = np.cumsum(lengths).tolist()
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def _filter(*sides: tuple[str, Constraint]) -> AttributeFilter:
    return trusted((Conjunction(tuple(sorted(sides))),))


def pattern_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw filters of one pattern each."""
    words = _words(generator, generator.integers(3, 9, count))
    return [_filter(("text", like(f"%{word}%"))) for word in words]


def pattern_events(generator: np.random.Generator, count: int) -> list[Event]:
    """Draw events of one text each."""
    return [{"text": text} for text in _words(generator, np.full(count, TEXT))]


def negation_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw filters of one negation and one equality each."""
    result: Filters = []
    for number, values in enumerate(generator.integers(0, NEGATED, (count, 3)).tolist()):
        if number % 4 == 0:
            negation = (
                not_between(*sorted(values[:2])) if values[0] != values[1] else compare("<>", values[0])
            )
        elif number % 4 == 1:
            negation = not_within(values)
        else:
            negation = compare("<>", values[0])
        result.append(_filter(("value", negation), ("rare", compare("=", values[2] % RARE))))
    return result


def negation_events(generator: np.random.Generator, count: int) -> list[Event]:
    """Draw events of a value and a rare one."""
    return [
        {"value": value, "rare": rare}
        for value, rare in zip(
            generator.integers(0, NEGATED, count).tolist(),
            generator.integers(0, RARE, count).tolist(),
            strict=True,
        )
    ]


def _value(attribute: int, number: int) -> Any:
    return f"{attribute}-{number}" if attribute % 2 else number


def targeting_filters(generator: np.random.Generator, count: int) -> Filters:
    """Draw filters of advertisers: sets of values and ranges."""
    result: Filters = []
    for _ in range(count):
        sides: list[tuple[str, Constraint]] = []
        for attribute in generator.permutation(len(SIZES))[: generator.integers(1, 4)].tolist():
            most = min(5, SIZES[attribute] // 2)
            drawn = generator.integers(0, SIZES[attribute], generator.integers(1, most + 1)).tolist()
            sides.append((f"c{attribute}", within([_value(attribute, number) for number in drawn])))
        for attribute in generator.permutation(NUMBERS)[: generator.integers(1, 3)].tolist():
            low, width = generator.integers(0, DOMAIN), generator.integers(DOMAIN // 10, DOMAIN // 2)
            sides.append((f"n{attribute}", between(int(low), int(low + width))))
        result.append(_filter(*sides))
    return result


def targeting_events(generator: np.random.Generator, count: int) -> list[Event]:
    """Draw events of all attributes."""
    result: list[Event] = []
    for _ in range(count):
        event: Event = {
            f"c{attribute}": _value(attribute, int(generator.integers(0, size)))
            for attribute, size in enumerate(SIZES)
        }
        event |= {f"n{k}": value for k, value in enumerate(generator.integers(0, DOMAIN, NUMBERS).tolist())}
        result.append(event)
    return result


CONDITION_WORKLOADS = (
    Workload("patterns", pattern_filters, pattern_events),
    Workload("negations", negation_filters, negation_events),
    Workload("adtargeting", targeting_filters, targeting_events),
)
