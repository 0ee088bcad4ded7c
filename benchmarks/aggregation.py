"""How far each aggregation algorithm is from the optimum, and how long it takes on larger networks.

The first table is over random instances small enough for the integer program: uniform and exponential ranges, equal
and mixed sizes, boxes, sparse and dense, shallow and deep trees, both accountings, both delays, a required share of
the gain from 0.3 to 0.9. The gap is cost / optimum - 1, over the instances whose optimum is above 0 and was proved;
`missed` is in how many of those with an optimum of 0 the algorithm paid something; `total` is the sum of costs over
that of optima. The second table is on 49 brokers, with costs relative to `best`, and processor seconds.

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

from covey.planning.aggregation.model import Accounting, Problem, Propagation
from covey.planning.aggregation.optimum import optimum
from covey.planning.aggregation.registry import aggregate
from covey.planning.aggregation.sample import Sample

SMALL = ("mefa", "mefa+", "best", "improved")
LARGE = ("aa", "spa", "dpa", "mefa", "mefa+", "best", "improved")
SHARES = (0.3, 0.5, 0.7, 0.9)
KINDS = ("uniform", "exponential", "equal", "boxes")
SIZE = 50.0


def filters(kind: str, count: int, density: float, rng: np.random.Generator) -> Sample:
    """Return random filters whose sizes add up to `density` times the domain."""
    domain = count * SIZE / density
    if kind == "boxes":
        side = domain * np.sqrt(density / count)
        low = rng.random((count, 2)) * domain
        high = low + side * (0.5 + rng.random((count, 2)))
        return Sample.of_boxes(low, high, rng.random((150, 2)) * domain)
    sizes = np.full(count, SIZE) if kind == "equal" else np.ceil(SIZE * (0.5 + rng.random(count)))
    if kind == "exponential":
        low = np.floor(rng.exponential(domain * 0.15, count))
    else:
        low = np.floor(rng.random(count) * domain)
    return Sample.of_ranges(low, low + sizes)


def tree(brokers: int, reach: int, rng: np.random.Generator) -> list[int]:
    """Return the parents of a random tree in which each broker hangs under one of the `reach` before it."""
    return [-1, *(int(rng.integers(max(0, v - reach), v)) for v in range(1, brokers))]


def small(number: int) -> tuple[Problem, float]:
    """Return an instance for the integer program and the share of the gain it asks for."""
    rng = np.random.default_rng((number, 20))
    count, brokers = int(rng.integers(6, 12)), int(rng.integers(1, 10))
    kind, density = KINDS[number % 4], float(rng.choice([0.75, 1.5, 3.0, 6.0]))
    parents = tree(brokers, int(rng.choice([2, 4, 9])), rng)
    propagation = Propagation(parents, rng.integers(brokers // 3, brokers, count))
    accounting: Accounting = "cascade" if number // 4 % 2 == 0 else "top"
    sample = filters(kind, count, density, rng)
    delay = "constant" if rng.random() < 0.2 else "access"
    return Problem(propagation, sample, accounting, delay), SHARES[number // 8 % 4]  # type: ignore[arg-type]


def large(count: int, seed: int, accounting: Accounting) -> Problem:
    """Return ranges on 49 brokers of which subscribers are at the outer ones."""
    rng = np.random.default_rng((seed, count))
    propagation = Propagation(tree(49, 12, rng), rng.integers(5, 49, count))
    return Problem(propagation, filters("uniform", count, 3.0, rng), accounting)


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
