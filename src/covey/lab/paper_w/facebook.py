"""Figure 7: what each algorithm's plan costs on 120 brokers of a network of friends.

Brokers are a snowball sample: a random person names friends, these name theirs, until there are 120. With a `depth`,
each names so many that the last wave ends at that depth, and who named whom is the tree; depth 0 is the tree of
shortest paths in the sample of people who name five each. The publisher is a friend of the first broker, which is the
root. Subscribers are drawn from the other friends of brokers: at depth 0 each is at the nearest to the publisher of
those it knows (the paper's SO). That is mostly somebody who knows all, next to the root, so depth would change nothing:
with a depth each is at any of those it knows.

Ranges are from the least to the greatest of ten numbers (the paper's: of the ten publications a person likes most, in
a trace that is not in the data set). `ids` says of what: of a person's friends, which are near each other, or of
anybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.errors import ConfigError
from covey.lab import data
from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_w.rows import kappa_of, methods_of, number, planned
from covey.lab.paper_w.social import FILE, People, people
from covey.planning.aggregation.model import Propagation
from covey.planning.aggregation.overlay import shortest_tree, so
from covey.planning.aggregation.sample import Sample

NAME = "w-facebook"
BROKERS, LIKED, NAMED = 120, 10, 5
SUBSCRIBERS, DEFAULT_SUBSCRIBERS = (40, 60, 80, 100), 60
DEPTHS = (2, 3, 4, 5)
SHARE = 0.5
SEEDS: dict[Scale, tuple[int, int]] = {"small": (5, 1), "paper": (10, 1)}
ATTEMPTS = 1_000


def graphs() -> list[Cell]:
    """Return the networks there are: the stand-in, and that of the file if it was given."""
    digest = data.digest(FILE)
    found: list[Cell] = [{"graph": "stand-in", "digest": ""}]
    return found if digest is None else [*found, {"graph": "file", "digest": digest}]


def points() -> list[Cell]:
    """Return the settings: by subscribers on shortest paths, by depth, and the other reading of ranges by depth."""
    usual = DEFAULT_SUBSCRIBERS
    by_count: list[Cell] = [{"subscribers": count, "depth": 0, "ids": "friends"} for count in SUBSCRIBERS]
    by_depth: list[Cell] = [
        {"subscribers": usual, "depth": depth, "ids": ids}
        for ids in ("friends", "anybody")
        for depth in DEPTHS
    ]
    return by_count + by_depth


def cells(scale: Scale) -> list[Cell]:
    """Return the grid: networks, settings and seeds."""
    seeds, networks = SEEDS[scale]
    return [
        {
            **graph,
            **point,
            "f": SHARE,
            "improved": scale == "paper" and point["ids"] == "friends",
            "seed": seed,
            "networks": networks,
        }
        for seed in range(1, seeds + 1)
        for graph in graphs()
        for point in points()
    ]


def run(cell: Cell) -> list[Row]:
    """Compute one cell: a row for each sample, accounting and algorithm."""
    graph = people(str(cell["graph"]), number(cell, "seed"))
    rows: list[Row] = []
    for network in range(number(cell, "networks")):
        rng = np.random.default_rng((number(cell, "seed"), network, BROKERS))
        tree, who = sampled(graph, number(cell, "depth"), number(cell, "subscribers"), rng)
        sample = liked(graph, who, str(cell["ids"]), rng)
        common: Row = {
            "network": network,
            "people": len(graph.friends),
            "friendships": graph.links,
            "kappa": kappa_of(sample, len(graph.friends)),
            "delay": "access",
            "deepest": int(tree.depths.max()) - 1,
            "mean_depth": float(tree.depths[tree.access].mean()) - 1,
        }
        rows += [{**common, **row} for row in planned(tree, sample, float(cell["f"] or 0), methods_of(cell))]
    return rows


def sampled(
    graph: People, depth: int, subscribers: int, rng: np.random.Generator
) -> tuple[Propagation, Sequence[int]]:
    """Return brokers with subscribers attached, and which people the subscribers are."""
    for _ in range(ATTEMPTS):
        named = snowball(graph, depth, rng)
        if len(named) < BROKERS:
            continue
        numbers = {person: broker for broker, person in enumerate(named)}
        root = next(iter(named))
        others = {friend for person in named for friend in graph.friends[person]} - named.keys()
        outside = [friend for friend in graph.friends[root] if friend not in named]
        publisher = int(rng.choice(outside)) if outside else None
        candidates = sorted(others - {publisher})
        if len(candidates) < subscribers:
            continue
        who = [int(person) for person in rng.choice(candidates, subscribers, replace=False)]
        if depth:
            parents = np.array([-1 if by is None else numbers[by] for by in named.values()], np.int32)
        else:
            known = [[numbers[f] for f in graph.friends[person] if f in numbers] for person in named]
            parents = shortest_tree(known, 0)
        reach = [[numbers[f] for f in graph.friends[person] if f in numbers] for person in who]
        if depth:
            reach = [[int(rng.choice(brokers))] for brokers in reach]
        return so(parents, reach), who
    raise ConfigError(f"{FILE}: found no {BROKERS} connected people with {subscribers} other friends")


def snowball(graph: People, depth: int, rng: np.random.Generator) -> dict[int, int | None]:
    """Return up to BROKERS people, each with who named it, the first one first."""
    first = int(rng.integers(len(graph.friends)))
    named: dict[int, int | None] = {first: None}
    each = names_for(depth) if depth else float(NAMED)
    inner: list[int] = []
    wave = [first]
    for _ in range(depth or BROKERS):
        inner += wave
        counts = [int(each) + bool(rng.random() < each % 1) for _ in wave]
        wave = [
            friend
            for person, count in zip(wave, counts, strict=True)
            for friend in _name(graph, named, person, count, rng)
        ]
    # Where friends were few, those within the last wave name more.
    for person in inner:
        _name(graph, named, person, BROKERS, rng)
    return named


def _name(
    graph: People, named: dict[int, int | None], person: int, count: int, rng: np.random.Generator
) -> list[int]:
    """Let a person name up to so many friends who are not there yet; return them."""
    fresh = [friend for friend in graph.friends[person] if friend not in named]
    count = min(count, len(fresh), BROKERS - len(named))
    chosen = [int(friend) for friend in rng.choice(fresh, count, replace=False)] if count else []
    named.update(dict.fromkeys(chosen, person))
    return chosen


def names_for(depth: int) -> float:
    """Return how many each must name for there to be BROKERS people after so many waves."""
    low, high = 1.0, float(BROKERS)
    while high - low > 1e-9:
        middle = (low + high) / 2
        enough = sum(middle**wave for wave in range(depth + 1)) >= BROKERS
        low, high = (low, middle) if enough else (middle, high)
    return high


def liked(graph: People, who: Sequence[int], ids: str, rng: np.random.Generator) -> Sample:
    """Return each person's range, from the least to the greatest of the numbers that it likes."""
    everybody = range(len(graph.friends))
    chosen = []
    for person in who:
        pool = graph.friends[person] if ids == "friends" else everybody
        chosen.append(rng.choice(pool, min(LIKED, len(pool)), replace=False))
    return Sample.of_ranges([some.min() for some in chosen], [some.max() + 1 for some in chosen])


FACEBOOK = Experiment(
    NAME,
    "W",
    "Cost of aggregation on 120 brokers of a network of friends",
    cells,
    run,
    effort=lambda cell: number(cell, "networks") * (10.0 if cell["improved"] else 1.0),
    inputs=(FILE,),
)
