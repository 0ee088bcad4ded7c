"""A network of six brokers with twenty subscriptions and some events, as tables and as plain Python."""

from __future__ import annotations

import hashlib
import json
import random
from itertools import pairwise
from typing import Any

Rows = list[tuple[Any, ...]]

# A ring of twelve brokers with a chord; costs in tenths, so that sums are not exact in binary.
BROKERS = "abcdefghijkl"
LINKS: Rows = [
    *[(a, b, (7 + place % 4) / 10) for place, (a, b) in enumerate(pairwise(BROKERS))],
    ("l", "a", None),
    ("b", "a", 0.9),  # once more, dearer
    ("a", "l", 1.5),
    ("d", "j", 1.7),
]
WORDS = ["ant", "bee", "cat", "dog"]
# Each word is asked for in a part of the ring; one that is in no event, some twice, some with others.
SUBSCRIPTIONS: Rows = [
    (f"s{place}", broker, "keywords", text)
    for place, (broker, text) in enumerate(
        [
            *[("a", "ant"), ("a", "ant"), ("b", "ant"), ("c", "ant"), ("l", "ant or eel")],
            *[("d", "bee"), ("e", "bee"), ("f", "bee"), ("e", "bee or eel"), ("f", "eel")],
            *[("g", "cat"), ("h", "cat"), ("h", "cat"), ("i", "cat"), ("f", "cat and bee")],
            *[("j", "dog"), ("k", "dog"), ("l", "dog"), ("k", "dog"), ("j", "dog or cat")],
        ]
    )
]


def event_rows(count: int, seed: int = 13) -> Rows:
    """Return so many events of up to two words, published anywhere."""
    generator = random.Random(seed)
    return [
        (
            f"e{place}",
            generator.choice(BROKERS),
            "keywords",
            json.dumps(generator.sample(WORDS, generator.randrange(3))),
        )
        for place in range(count)
    ]


def part_of(event: str, held_out: float, fresh: float, seed: int) -> str:
    """Say to which part an event belongs."""
    digest = hashlib.md5(f"{seed}:part:{event}".encode()).hexdigest()
    place = int(digest[:15], 16) / 16**15
    return "fresh" if place < fresh else "held-out" if place < fresh + held_out else "training"
