"""How far each aggregation algorithm is from the optimum, and how long it takes on larger networks.

The first table is over random instances small enough for the integer program (`covey.lab.paper_w.instances`): uniform
and exponential ranges, equal and mixed sizes, boxes, sparse and dense, shallow and deep trees, both accountings, both
delays, a required share of the gain from 0.3 to 0.9. The gap is cost / optimum - 1, over the instances whose optimum is
above 0 and was proved; `missed` is in how many of those with an optimum of 0 the algorithm paid something; `total` is
the sum of costs over that of optima. The second table is on 49 brokers, with costs relative to `best`, and processor
seconds.

    .venv/bin/python benchmarks/aggregation.py [--instances 120] [--first 0] [--limit 60] [--sizes 60,120,250] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from covey.lab.paper_w.instances import large, small
from covey.planning.aggregation.model import Accounting
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.registry import aggregate

SMALL = ("aa", "spa", "dpa", "mefa", "mefa+", "best", "improved")
LARGE = SMALL


def gaps(first: int, instances: int, limit_s: float) -> dict[str, Any]:
    costs: dict[str, list[float]] = {name: [] for name in SMALL}
    optima: list[float] = []
    unproved = 0
    for number in range(first, first + instances):
        problem, share = small(number)
        target = problem.target(share)
        exact = optimum(problem, target, limit_s)
        if exact.gap > 0:
            unproved += 1
            continue
        optima.append(exact.cost)
        for name in SMALL:
            costs[name].append(aggregate(problem, theta=target, method=name).cost)
    truth = np.array(optima)
    paid = truth > 1e-9
    rows = {}
    for name in SMALL:
        found = np.array(costs[name])
        assert (found >= truth * (1 - 1e-6) - 1e-6).all(), "below the optimum: one of the two is wrong"
        gap = found[paid] / truth[paid] - 1
        rows[name] = {
            "mean_gap": float(gap.mean()),
            "max_gap": float(gap.max()),
            "exact": int((gap < 1e-6).sum()),
            "missed": int((found[~paid] > 1e-9).sum()),
            "total": float(found.sum() / truth.sum()),
        }
    return {"instances": len(optima), "paid": int(paid.sum()), "unproved": unproved, "methods": rows}


def scaling(sizes: list[int]) -> list[dict[str, Any]]:
    rows = []
    accountings: tuple[Accounting, ...] = ("cascade", "top")
    for count in sizes:
        for accounting in accountings:
            problem = large(count, 1, accounting)
            for name in LARGE:
                began = time.process_time()
                plan = aggregate(replace(problem), 0.5, method=name)
                spent = time.process_time() - began
                rows.append(
                    {
                        "n": count,
                        "accounting": accounting,
                        "method": name,
                        "cost": plan.cost,
                        "seconds": spent,
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Aggregation against the optimum.")
    parser.add_argument("--instances", type=int, default=120)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each integer program")
    parser.add_argument("--sizes", default="60,120,250")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = gaps(options.first, options.instances, options.limit)
    times = scaling([int(size) for size in options.sizes.split(",") if size])
    if options.json:
        print(json.dumps({"gaps": found, "scaling": times}))
        return
    console = Console()
    title = (
        f"{found['instances']} instances, {found['paid']} with a cost; {found['unproved']} left out, unproved"
    )
    columns = ("method", "mean gap", "largest", "exact", "missed", "total")
    table = Table(*columns, title=title)
    for name, row in found["methods"].items():
        table.add_row(
            name,
            f"{row['mean_gap']:.1%}",
            f"{row['max_gap']:.0%}",
            str(row["exact"]),
            str(row["missed"]),
            f"{row['total']:.3f}",
        )
    console.print(table)
    table = Table(
        "n", "accounting", "method", "cost", "of best", "seconds", title="49 brokers, f = 0.5, density 3"
    )
    for row in times:
        same = [r for r in times if (r["n"], r["accounting"]) == (row["n"], row["accounting"])]
        base = next(r["cost"] for r in same if r["method"] == "best")
        share = f"{row['cost'] / base:.2f}" if base else "-"
        table.add_row(
            str(row["n"]),
            row["accounting"],
            row["method"],
            f"{row['cost']:.0f}",
            share,
            f"{row['seconds']:.2f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
