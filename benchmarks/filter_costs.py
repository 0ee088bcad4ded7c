"""What filters cost beside what `core.costs` says they cost: memory and CPU time, by family.

    python benchmarks/filter_costs.py [--count 12] [--json]

Memory is as `covey.bench.filter_memory` measures it; CPU time is that of decoding, of insertion and of removal.
`counted` is what was counted while they were inserted and compared with each other (`core.work`). Ratios of CPU time to
units should be about the same in all rows: that is the factor within which units follow CPU time.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from covey.bench.filter_memory import KINDS, linked_router, memory_of
from covey.core.costs import cost_of
from covey.core.families import decode
from covey.core.work import ACCOUNT
from covey.matching.index import Index, warm_up
from covey.routing.messages import Subscribe

MANY = 300  # of filters that are small


def measured(family: str, count: int) -> dict[str, Any]:
    """Return what filters of one family cost."""
    encoded = [KINDS[family](number).encode() for number in range(1, count + 1)]
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
    memory = memory_of(encoded) / count
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
    parser.add_argument("--family", action="append", choices=list(KINDS), help="only this; repeatable")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warm_up()
    measured("words", 3)
    rows = [
        measured(family, MANY if len(KINDS[family](1).encode()) < 64 else options.count)
        for family in options.family or KINDS
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
