"""What a subscription costs a broker, by the size of its table: it should not grow with the table.

One router with four open neighbours gets filters from one of them, then a sample of them is cancelled and subscribed
again, one at a time. The figures are microseconds of processor time for one `Router.handle`, best of three rounds;
`growth` is the ratio of the largest table to the smallest.

    .venv/bin/python benchmarks/routing.py [--sizes 1000,10000,100000] [--workload siena-3] [--strategies …] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import covey
from covey.core.filter import Filter
from covey.matching.index import warm_up
from covey.routing.messages import Greet, LinkUp, Subscribe, Sync, Unsubscribe
from covey.routing.router import Router
from covey.workloads.attributes import WORKLOADS

NEIGHBOURS = 4
SAMPLE = 300
STRATEGIES = ("simple", "identity", "covering", "covering-lazy", "incremental", "merging")


def open_router(strategy: str) -> Router:
    """Return a router whose neighbours are all open."""
    covey.strategies()
    router = Router("b", strategy, advertisements=False)
    for number in range(NEIGHBOURS):
        link = f"n{number}"
        router.handle(LinkUp(), link)
        dialect = router.trees[0].dialect
        router.handle(Greet(dialect, (), ()), link)
        router.handle(Sync("advertisements", 1, {}), link)
        router.handle(Sync("subscriptions", 1, {}), link)
    return router


def measure(strategy: str, filters: list[Filter], sample: list[int]) -> dict[str, float]:
    """Return the microseconds for one subscription and one cancellation at a full table."""
    router = open_router(strategy)
    for number, filter in enumerate(filters):
        router.handle(Subscribe(f"s{number}", filter), "n0")
    best = {"subscribe_us": float("inf"), "unsubscribe_us": float("inf")}
    for turn in range(3):
        spent = dict.fromkeys(best, 0.0)
        for number in sample:
            old, new = (f"s{number}" if turn == 0 else f"s{number}.{turn - 1}"), f"s{number}.{turn}"
            began = time.process_time()
            router.handle(Unsubscribe(old), "n0")
            middle = time.process_time()
            router.handle(Subscribe(new, filters[number]), "n0")
            spent["unsubscribe_us"] += middle - began
            spent["subscribe_us"] += time.process_time() - middle
        best = {name: min(best[name], spent[name] / len(sample) * 1e6) for name in best}
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--workload", default="siena-3", choices=[workload.name for workload in WORKLOADS])
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warm_up()
    workload = next(workload for workload in WORKLOADS if workload.name == arguments.workload)
    rows: list[dict[str, Any]] = []
    for strategy in arguments.strategies.split(","):
        for size in map(int, arguments.sizes.split(",")):
            generator = np.random.default_rng(1)
            filters: list[Filter] = [f for batch in workload.batches(generator, size) for f in batch]
            sample = np.random.default_rng(2).choice(size, min(SAMPLE, size), replace=False).tolist()
            rows.append({"strategy": strategy, "size": size, **measure(strategy, filters, sample)})
            if not arguments.json:
                row = rows[-1]
                print(
                    f"{strategy:20} {size:>9,} {row['subscribe_us']:9.1f} {row['unsubscribe_us']:9.1f}",
                    flush=True,
                )
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        mine = [row for row in rows if row["strategy"] == strategy]
        growth = {name: mine[-1][name] / mine[0][name] for name in ("subscribe_us", "unsubscribe_us")}
        print(f"{strategy:20}    growth {growth['subscribe_us']:9.1f} {growth['unsubscribe_us']:9.1f}")


if __name__ == "__main__":
    main()
