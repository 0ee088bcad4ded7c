"""What filters cost beside what `core.costs` says they cost: memory and CPU time, by family.

    python benchmarks/filter_costs.py [--count 12] [--json]

Memory is what Python and NumPy have allocated (tracemalloc) for subscriptions at a router with one neighbour, which is
told all of them; CPU time is that of decoding, of insertion and of removal. `counted` is what was counted while they
were inserted and compared with each other (`core.work`). Ratios of CPU time to units should be about the same in
all rows: that is the factor within which units follow CPU time.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
from typing import Any

from rich.console import Console
from rich.table import Table

import covey.strategies  # noqa: F401 (registers them)
from covey.bench.heavy_filters import FAMILIES
from covey.core.costs import cost_of
from covey.core.families import decode
from covey.core.work import ACCOUNT
from covey.matching.index import Index, warm_up
from covey.routing.messages import Link, LinkUp, Message, Subscribe
from covey.routing.outputs import Send
from covey.routing.router import Router

MANY = 300  # of filters that are small


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


def memory_of(encoded: list[bytes]) -> float:
    """Return the bytes that each filter takes at a router, without what the first few take for all."""
    router, few = linked_router(), len(encoded) // 3
    for number, data in enumerate(encoded[:few]):
        router.handle(Subscribe(f"c/{number:x}", decode(data)), "c")
    router.local.attributes()
    gc.collect()
    tracemalloc.start()
    for number, data in enumerate(encoded[few:], few):
        router.handle(Subscribe(f"c/{number:x}", decode(bytes(bytearray(data)))), "c")
    router.local.attributes()
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / (len(encoded) - few)


def measured(family: str, count: int) -> dict[str, Any]:
    """Return what filters of one family cost."""
    encoded = [FAMILIES[family](number).encode() for number in range(1, count + 1)]
    wire = sum(map(len, encoded)) / count
    costs = [cost_of(data) for data in encoded]
    begun_s = time.thread_time()
    filters = [decode(data) for data in encoded]
    decoding_s = time.thread_time() - begun_s
    index = Index()
    begun_s = time.thread_time()
    for number, filter in enumerate(filters):
        index.add(number, filter.compact())
        index.attributes()
    for number in range(count):
        index.remove(number)
        index.attributes()
    changing_s = time.thread_time() - begun_s
    router = linked_router()
    before, begun_s = ACCOUNT.units, time.thread_time()
    for number, data in enumerate(encoded):
        router.handle(Subscribe(f"c/{number:x}", decode(data)), "c")
    telling_s, counted = time.thread_time() - begun_s, ACCOUNT.units - before
    memory = memory_of(encoded)
    work_us = (decoding_s + changing_s) / count * 1e6
    return {
        "family": family,
        "wire_bytes": round(wire),
        "memory_bytes": round(memory),
        "model_bytes": round(sum(one.bytes for one in costs) / count),
        "times_wire": round(memory / wire, 1),
        "work_us": round(work_us),
        "work_units": round(sum(one.work for one in costs) / count),
        "us_a_unit": round(work_us / (sum(one.work for one in costs) / count), 2),
        "subscribe_us": round(telling_s / count * 1e6),
        "counted_units": round(counted / count),
        "us_a_counted": round(telling_s * 1e6 / counted, 2) if counted else None,
    }


def main() -> None:
    """Measure all families."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=12, help="filters of a family; of small ones many more")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="only this; repeatable")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warm_up()
    measured("words", 3)
    rows = [
        measured(family, MANY if family in ("plain", "pattern") else options.count)
        for family in options.family or FAMILIES
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    table = Table(title="Filters", show_edge=False)
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "family" else "right", overflow="fold")
    for row in rows:
        table.add_row(*(f"{one:,}" if isinstance(one, int) else str(one) for one in row.values()))
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
