"""What trials are made of: filters, announcements and events, and how long brokers work.

Filters and events are so few and so close that they often cover, overlap and match. Brokers work about as long on a
message as a link takes to carry it, so that whatever can come in between does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from covey.core.families import parse
from covey.core.filter import Filter
from covey.routing.aggregation import Aggregation, Block, Place
from covey.routing.messages import Message
from covey.routing.plan import TreePlan
from covey.sim import service
from covey.sim.delays import DEFAULT_MS
from covey.sim.overlay import Overlay
from covey.strategies.aggregation import block_of

VALUES = 12
WORDS = ("ash", "birch", "cedar", "elm")


class Material(NamedTuple):
    """Drawers of one family, or of several in turn."""

    filter: Callable[[], Filter]
    announcement: Callable[[], Filter]
    event: Callable[[], Any]


def material(random: Random) -> Material:
    """Return what a trial is made of."""
    kinds = [_ranges, _ranges, _boxes, _symbols, _paths, _words]
    first = random.choice(kinds)(random)
    if random.random() < 0.85:
        return first
    second = random.choice(kinds)(random)

    def either(name: str) -> Callable[[], Any]:
        return lambda: getattr(random.choice((first, second)), name)()

    return Material(either("filter"), either("announcement"), either("event"))


class AnyTime(service.Service):
    """Every message takes a time of its own, whatever it says: also those that no other model lets take any."""

    def __init__(self, random: Random) -> None:
        super().__init__("any", service.Times(DEFAULT_MS, DEFAULT_MS, DEFAULT_MS))
        self._random = random

    def time_s(self, message: Message, entries: int = 1) -> float:
        """Return a time drawn at random; often none."""
        return self._random.choice((0.0, self._random.expovariate(1000.0 / DEFAULT_MS)))


def planned_aggregation(random: Random, topology: Any, drawn: Material) -> TreePlan:
    """Return a plan that merges some of what a trial is made of, here and there; brokers may get all of it or none."""
    overlay = Overlay(topology, "trees", None)
    events = [drawn.event() for _ in range(random.choice((0, 8, 24)))]
    excess = random.choice((0.0, 0.0, 0.1, 0.5, 1.0))
    blocks: dict[Place, list[Block]] = {}
    for tree, links in enumerate(overlay.trees):
        for a, b in [*links, *((b, a) for a, b in links)]:
            if random.random() < 0.7:
                sizes = [random.randint(1, 5) for _ in range(random.randint(1, 3))]
                blocks[tree, a, b] = [
                    block_of([drawn.filter() for _ in range(size)], events, excess) for size in sizes
                ]
    return TreePlan(overlay.trees, aggregation=Aggregation(blocks, events, excess))


SLOW_SCAN = 1000.0  # small tables take milliseconds, with this factor


def draw_service_times(random: Random, strategy: str) -> service.Service:
    """Return a model of how long brokers work; no time at all, in half of the draws."""
    match random.choice(("zero", "zero", "zero", "table-ii", "linear", "any")):
        case "any":
            return AnyTime(random)
        case "linear":
            return service.build("linear", strategy, factor=SLOW_SCAN)
        case kind:
            return service.build(kind, strategy)


@lru_cache(maxsize=100_000)
def _parsed(text: str, language: str = "attributes") -> Filter:
    return parse(text, language=language)


def _range(random: Random, name: str, widest: int) -> str:
    low = random.randint(0, VALUES - 1)
    return f"{name} between {low} and {min(VALUES - 1, low + random.randint(0, widest))}"


def _ranges(random: Random) -> Material:
    """One attribute."""
    return Material(
        lambda: _parsed(_range(random, "x", 7)),
        lambda: _parsed("x >= 0" if random.random() < 0.4 else _range(random, "x", 9)),
        lambda: {"x": random.randint(0, VALUES - 1)},
    )


def _boxes(random: Random) -> Material:
    """Two attributes, of which a filter may leave one out."""

    def box(widest: int) -> Filter:
        sides = [_range(random, name, widest) for name in ("x", "y") if random.random() < 0.75]
        return _parsed(" and ".join(sides) or "x exists" if sides else _range(random, "x", widest))

    return Material(
        lambda: box(7),
        lambda: box(10),
        lambda: {"x": random.randint(0, VALUES - 1), "y": random.randint(0, VALUES - 1)},
    )


def _symbols(random: Random) -> Material:
    """Names, and for some a price: what merging is good at."""

    def filter() -> Filter:
        symbol = f"symbol = '{random.choice(WORDS)}'"
        return _parsed(symbol if random.random() < 0.4 else f"{symbol} and {_range(random, 'price', 6)}")

    return Material(
        filter,
        lambda: _parsed("price >= 0" if random.random() < 0.5 else f"symbol <> '{random.choice(WORDS)}'"),
        lambda: {"symbol": random.choice(WORDS), "price": random.randint(0, VALUES - 1)},
    )


PATHS = (
    "/a",
    "/a/b",
    "/a//c",
    "//c",
    "/a/*",
    "/a[b]",
    "/a[b]/c",
    "/a[b][c]",
    "//b",
    "/a/b/c",
    "/a[.//c]",
    "/*/c",
    "/a/c",
)
DOCUMENTS = (
    "<a/>",
    "<a><b/></a>",
    "<a><b/><c/></a>",
    "<a><b><c/></b></a>",
    "<a><c/></a>",
    "<b><c/></b>",
    "<a><d><c/></d></a>",
)


def _paths(random: Random) -> Material:
    """Tree patterns."""
    return Material(
        lambda: _parsed(random.choice(PATHS), "xpath"),
        lambda: _parsed(random.choice(("/a", "//c", "/*", "//b")), "xpath"),
        lambda: random.choice(DOCUMENTS),
    )


def _words(random: Random) -> Material:
    """Keywords."""

    def filter() -> Filter:
        words = random.sample(WORDS, random.randint(1, 3))
        return _parsed(random.choice((" or ", " and ")).join(words), "keywords")

    return Material(
        filter,
        lambda: _parsed(" or ".join(random.sample(WORDS, random.randint(1, 4))), "keywords"),
        lambda: frozenset(random.sample(WORDS, random.randint(1, 3))),
    )
