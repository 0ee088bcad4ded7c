"""What filters take of a broker's memory, measured: beside what `core.costs` charges for them.

Memory is what Python and NumPy have allocated (tracemalloc) for subscriptions at a router with one neighbour, which is
told all of them, once what the process remembers of the filters that it looked at last is dropped: that is bounded for
all filters together.
"""

from __future__ import annotations

import functools
import gc
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Final

import covey.strategies  # noqa: F401 (registers them)
from covey.bench.heavy_filters import FAMILIES
from covey.core.attributes.filter import forget_recent
from covey.core.families import decode, parse
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.core.xpath.filter import parse_xpath
from covey.routing.messages import Link, LinkUp, Message, Subscribe
from covey.routing.outputs import Send
from covey.routing.router import Router


def _fresh(parts: int, joint: str, constraint: str) -> Callable[[int], Filter]:
    """Return filters whose attributes no other filter has."""
    return lambda number: parse(joint.join(f"x{number}_{k} {constraint}" for k in range(parts)))


def _set_of(values: int, text: str) -> Callable[[int], Filter]:
    return lambda number: parse(f"v in ({', '.join(text.format(number * 1_000 + k) for k in range(values))})")


# Filters by kind: those of `heavy_filters`, short ones, and those of which nothing is shared with others.
KINDS: Final[dict[str, Callable[[int], Filter]]] = FAMILIES | {
    "equality": lambda number: parse(f"symbol = 'S{number}'"),
    "range": lambda number: parse(f"price between {number} and {number + 7}"),
    "prefix": lambda number: parse(f"name like 'abc{number}%'"),
    "20 numbers": _set_of(20, "{}"),
    "200 numbers": _set_of(200, "{}"),
    "20 texts": _set_of(20, "'t{}'"),
    "200 texts": _set_of(200, "'text{}'"),
    "or": lambda number: parse(" or ".join(f"a{k} = {number} and b{k} > {number}" for k in range(20))),
    "not": lambda number: parse(
        f"not name like '%q{number}%' and v <> {number} and x not in ({number}, {number + 1}, {number + 2})"
    ),
    "long names": lambda number: parse(" and ".join(f"{'n' * 100}{k}_{number} = 1" for k in range(10))),
    "fresh": _fresh(30, " and ", "= 1"),
    "fresh texts": _fresh(30, " and ", "= 'a'"),
    "fresh or": _fresh(30, " or ", "= 1"),
    "fresh short": _fresh(6, " or ", "= 1"),
    "fresh patterns": _fresh(12, " and ", "like '%a%'"),
    "fresh sets": _fresh(8, " and ", "in (1, 2)"),
    "fresh small set": _fresh(1, " and ", f"in ({', '.join(map(str, range(30)))})"),
    "fresh unequal": _fresh(12, " and ", "<> 1"),
}


OTHERS: Final[tuple[Callable[[int], Filter], ...]] = (
    lambda number: parse(f"other{number % 40} = {number} and level > {number}"),
    lambda number: parse(f"other_range between {number} and {number + 7}"),
    lambda number: parse(f"other_text like '%o{number}%'"),
    lambda number: parse_xpath(f"/other/o{number}[p]"),
    lambda number: KeywordFilter.any_of([[f"other{number}", "word"]]),
)
OTHERS_EACH: Final = 40


def linked_router() -> Router:
    """Return a router with a client `c` and a neighbour that wants everything."""
    routers = {name: Router(name, "covering", advertisements=False) for name in "ab"}
    routers["a"].handle(LinkUp(client=True), "c")
    waiting: list[tuple[Link, Link, Message]] = [("a", "b", LinkUp()), ("b", "a", LinkUp())]
    while waiting:
        at, source, message = waiting.pop(0)
        outputs = routers[at].handle(message, source)
        waiting += [(one.link, at, one.message) for one in outputs if isinstance(one, Send)]
    return routers["a"]


def memory_of(encoded: Sequence[bytes]) -> int:
    """Return the bytes that filters take at a router that has others, so that all of its tables are made."""
    router = linked_router()
    _subscribe(router, [one(number).encode() for one in OTHERS for number in range(OTHERS_EACH)], 1 << 20)
    forget()
    tracemalloc.start()
    _subscribe(router, encoded, 0)
    forget()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used


def _subscribe(router: Router, encoded: Sequence[bytes], first: int) -> None:
    for number, one in enumerate(encoded, first):
        data = bytes(bytearray(one))  # a copy, as a broker has one of what it has read
        router.handle(Subscribe(f"c/{number:x}", decode(data)), "c")
    router.local.attributes()


def forget() -> None:
    """Drop what the process remembers of filters that it has looked at."""
    forget_recent()
    for module in [module for name, module in sys.modules.items() if name.startswith("covey.")]:
        for value in vars(module).values():
            if type(value) is functools._lru_cache_wrapper and value.cache_parameters()["maxsize"]:
                value.cache_clear()
    gc.collect()
