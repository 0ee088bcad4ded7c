"""Filters by bit sets: "110" is the filter of the events 0 and 1, so that one covers another exactly as its bits say.

They are real attribute filters, `bit IN (...)`, because indexes take no others. An event is one bit.
"""

from __future__ import annotations

from itertools import product

import covey
from covey.core.filter import Filter


def bits(text: str) -> Filter:
    """Return the filter of the bits that are set."""
    return covey.conjunction([("bit", "in", [place for place, bit in enumerate(text) if bit == "1"])])


def event(place: int) -> dict[str, int]:
    """Return the event of one bit."""
    return {"bit": place}


WIDTH = 3
TEXTS = ["".join(text) for text in product("01", repeat=WIDTH) if "1" in text]
ALL = {text: bits(text) for text in TEXTS}
NAMES = {filter: text for text, filter in ALL.items()}
EVENTS = [event(place) for place in range(WIDTH)]


def name(filter: Filter) -> str:
    """Return the bits of a filter."""
    return NAMES[filter]
