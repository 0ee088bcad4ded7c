"""Groups of subscriptions: how far plans are from Steiner trees on fresh documents, and how long planning takes.

    .venv/bin/python benchmarks/groups.py [--parts quality,plan,large] [--seeds 1,2,3] [--json]

The overlay is a transit-stub graph with half a random link more for each broker (TSX2); links cost 1. Keywords have a
random root and subscribers among the brokers nearest to it. Documents take their keywords from one random broker's
subscriptions (for `large`: from keywords with roots near it) and are published anywhere.

    quality   500 brokers, 1,000 keywords with up to 10 subscribers among the nearest 2 % (Localized1), a subscription
              for each (broker, keyword), 10,000 documents of 3 keywords. Planned on 3 % of them, costed on all. `over`
              is cost over that of Steiner trees for each document (OPT); `trees`, `copies` and `duplicates` a document
              as in `covey.planning.groups.model`. `regions` needs all subscriptions in the tables of each tree
    plan      2,000 brokers, the same data otherwise, planned on all 10,000 documents
    large     2,000 brokers, 50,000 subscriptions of 1 to 3 of 5,000 local keywords, 100,000 documents of 3 keywords

`seconds` are of processor time for the plan alone: the matches and all paths are there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from covey.bench.planning_quality import localized, overlay
from covey.planning.groups.costing import traffic
from covey.planning.groups.model import Grouping, Problem, Traffic, Words
from covey.planning.groups.regions import replayed
from covey.planning.groups.registry import METHODS
from covey.planning.paths import AllPaths
from covey.planning.steiner import steiner_costs
from covey.planning.subscriptions import Matches

SAMPLED = 0.03
QUALITY = ("single", "mult", "hybrid", "mult2", "held-out", "regions", "regions cheapest")
PLANNED = ("single", "mult", "held-out", "regions")

Row = dict[str, Any]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parts", default="quality,plan", help="of quality, plan and large, with commas between"
    )
    parser.add_argument("--seeds", default="1,2,3", help="for quality; the others take the first")
    parser.add_argument("--methods", default="", help="instead of those that a part measures")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    methods = tuple(arguments.methods.split(",")) if arguments.methods else None
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "quality": lambda: (row for seed in seeds for row in quality(seed, methods or QUALITY)),
        "plan": lambda: plan(seeds[0], methods or PLANNED),
        "large": lambda: large(seeds[0], methods or PLANNED),
    }
    warm_up()
    rows = []
    for name in arguments.parts.split(","):
        for row in parts[name]():
            rows.append({"part": name, **row})
            if not arguments.json:
                print("  ".join(f"{key} {value:8}" for key, value in rows[-1].items()), flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 0


def quality(seed: int, methods: tuple[str, ...]) -> Iterator[Row]:
    """Yield for each method what all documents cost when planned on some of them."""
    paths = AllPaths(overlay(500, seed))
    matches, words = localized(paths, 0.02, 1_000, 10_000, seed)
    sample, _ = matches.split(SAMPLED, seed)
    problem = Problem(paths.graph, paths, sample, words=words, seed=seed)
    least = float(steiner_costs(paths, matches.documents).sum())
    for name in methods:
        found, seconds = timed(name, problem)
        everything = cost_of(problem, found, matches)
        yield {"seed": seed, **row_of(name, found, seconds, everything, least)}


def plan(seed: int, methods: tuple[str, ...]) -> Iterator[Row]:
    """Yield for each method what planning on all documents takes."""
    paths = AllPaths(overlay(2_000, seed))
    matches, words = localized(paths, 0.02, 1_000, 10_000, seed)
    yield from on_all(Problem(paths.graph, paths, matches, words=words, seed=seed), methods)


def large(seed: int, methods: tuple[str, ...]) -> Iterator[Row]:
    """Yield the same for many more subscriptions and documents."""
    paths = AllPaths(overlay(2_000, seed))
    matches, words = many(paths, 50_000, 5_000, 100_000, seed)
    yield from on_all(Problem(paths.graph, paths, matches, words=words, seed=seed), methods)


def on_all(problem: Problem, methods: tuple[str, ...]) -> Iterator[Row]:
    least = float(steiner_costs(problem.paths, problem.sample.documents).sum())
    for name in methods:
        found, seconds = timed(name, problem)
        everything = cost_of(problem, found, problem.sample)
        yield row_of(name, found, seconds, everything, least)


def timed(name: str, problem: Problem) -> tuple[Grouping, float]:
    start = time.process_time()
    found = METHODS[name](problem)
    return found, time.process_time() - start


def cost_of(problem: Problem, found: Grouping, matches: Matches) -> Traffic:
    if found.one_copy is not None:
        return replayed(problem, found, matches)
    assert found.group is not None, "there are groups"
    return traffic(matches, found.group, found.trees)


def row_of(name: str, found: Grouping, seconds: float, everything: Traffic, least: float) -> Row:
    return {
        "method": name,
        "trees": len(found.trees),
        "sample": round(found.sample.per_document, 2),
        "all": round(everything.per_document, 2),
        "over": round(everything.cost / least, 3),
        "copies": round(everything.copies / everything.documents, 2),
        "duplicates": round(everything.duplicates / everything.documents, 2),
        "seconds": round(seconds, 1),
    }


def many(paths: AllPaths, subscriptions: int, keywords: int, count: int, seed: int) -> tuple[Matches, Words]:
    """Return subscriptions of 1 to 3 keywords with roots near their host, and documents of 3 such keywords."""
    random = np.random.default_rng(seed)
    nodes = paths.graph.nodes
    roots = random.integers(nodes, size=keywords)
    near = np.argsort(paths.distance, axis=1, kind="stable")[:, : nodes // 50]
    local = [np.flatnonzero(np.isin(roots, near[node])) for node in range(nodes)]
    hosts = random.choice([node for node in range(nodes) if len(local[node]) >= 3], subscriptions)
    words = [
        frozenset(random.choice(local[host], size, replace=False).tolist())
        for host, size in zip(hosts, random.integers(1, 4, subscriptions), strict=True)
    ]
    members: list[list[int]] = [[] for _ in range(keywords)]
    for subscription, mine in enumerate(words):
        for keyword in mine:
            members[keyword].append(subscription)
    rows = [
        np.unique(np.concatenate([members[k] for k in random.choice(local[centre], 3, replace=False)]))
        for centre in random.choice(np.unique(hosts), count)
    ]
    offsets = np.cumsum([0, *map(len, rows)])
    publishers = random.integers(nodes, size=count)
    return Matches(hosts, publishers, offsets, np.concatenate(rows)), words


def warm_up() -> None:
    """Compile: plan for a small overlay, once by estimates too."""
    from covey.planning.groups.likeness import dendrogram

    paths = AllPaths(overlay(60, 1))
    matches, words = localized(paths, 0.2, 30, 200, 1)
    problem = Problem(paths.graph, paths, matches, words=words)
    for name in {*QUALITY, *PLANNED}:
        METHODS[name](problem)
    dendrogram(matches, exact_words=100)


if __name__ == "__main__":
    raise SystemExit(main())
