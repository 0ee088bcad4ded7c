"""The cells of the experiments at both scales. A cell has its whole reading (`world`), so that it stands for itself.

paper   500 to 5,000 brokers, 1,000 keywords, 10,000 documents, planned on 3 % of them: the paper's sizes
small   100 and 200 brokers, 100 keywords, 1,000 documents, planned on 10 % of them, so that the sample has one document
        for each keyword; the smallest that shows anything
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from covey.lab.experiment import Cell, Scale, Value
from covey.lab.paper_m.world import DATA, JUDGED, SAMPLED, TOPOLOGIES, integer

Size = dict[str, Value]


class Sizes(NamedTuple):
    """What differs between scales."""

    base: Size  # keywords, documents and the share sampled
    brokers: tuple[int, ...]  # the axis of figures 5 and 8
    middle: int  # brokers of figure 4
    seeds: tuple[int, ...]
    aims: tuple[int, ...]  # brokers of our own aims
    shares: str  # sampled, on the axis of figure 4
    many: Size  # documents, share and axis where the paper's 10,000 documents are the sample
    printed: tuple[int, ...]  # keywords of the problems on which the printed algorithms are timed
    cyclic: tuple[str, ...]  # topologies of the aims


SIZES: dict[Scale, Sizes] = {
    "small": Sizes(
        {"keywords": 100, "documents": 1_000, "sample": 0.1},
        (100, 200),
        100,
        (1, 2, 3, 4, 5),
        (150,),
        "0.02 0.1 0.5",
        {"documents": 6_000, "sample": 0.15, "shares": "0.15 0.5"},
        (4, 8, 16),
        ("TSX2", "Flat8", "Geo12"),
    ),
    "paper": Sizes(
        {"keywords": 1_000, "documents": 10_000, "sample": SAMPLED},
        (500, 1_000, 2_000, 5_000),
        2_000,
        (1, 2, 3, 4, 5),
        (500, 2_000),
        "0.001 0.003 0.01 0.03 0.1 0.3 0.5",
        {"documents": 60_000, "sample": 0.15, "shares": "0.15 0.5"},
        (8, 16, 32, 64),
        ("TSX10", "TSX2", "Flat4", "Flat8", "Geo6", "Geo12"),
    ),
}

# Readings beside what figures show: on the two smallest networks, for the data sets that claims judge under them.
CENTRE: Size = {"place": "centre"}
FLAT: Size = {"topology": "Flat4", "words": 1, "place": "centre"}
FLAT_ANYWHERE: Size = {"topology": "Flat4", "words": 1}
PLAIN: Size = {"topology": "TS"}
BROKERS: Size = {"per": "broker"}
PLAIN_BROKERS: Size = {"topology": "TS", "per": "broker", "words": 1}
LIGHT: Size = {"words": 1}
LONG: Size = {"words": 17, "near": 5}
LOCALIZED = ("Localized1", "Localized2")
READINGS: tuple[tuple[Size, tuple[str, ...]], ...] = (
    (CENTRE, LOCALIZED),
    (FLAT, LOCALIZED),
    (FLAT_ANYWHERE, LOCALIZED),
    (PLAIN, LOCALIZED),
    (LIGHT, LOCALIZED),
    (BROKERS, ("Uniform",)),
    (PLAIN_BROKERS, ("Uniform",)),
    (LONG, ("Localized1",)),
)


def cell(scale: Scale, **others: Value) -> Cell:
    """Return a cell of what figures show with the sizes of a scale, unless told otherwise."""
    sizes = SIZES[scale]
    plain: Size = {"brokers": sizes.brokers[0], "data": "Localized1", "seed": 1}
    return {**JUDGED, **sizes.base, **plain, **others}


def seeds_for(scale: Scale, brokers: int) -> tuple[int, ...]:
    """Return all seeds for small networks, one for those that take minutes."""
    return SIZES[scale].seeds if brokers < 2_000 else (1,)


def sampling_cells(scale: Scale) -> list[Cell]:
    """Return figure 4: plans on more and more documents, costed on all; and plans on the paper's 10,000 documents."""
    sizes = SIZES[scale]
    settings: list[Size] = [
        {"shares": sizes.shares, "ten_thousand": "all"},
        {"shares": sizes.shares, "ten_thousand": "all", **PLAIN},
        {"shares": sizes.shares, "ten_thousand": "all", **LIGHT},
        {**sizes.many, "ten_thousand": "sample"},
    ]
    return [
        cell(scale, **{"brokers": sizes.middle, **setting, "data": data, "seed": seed})
        for setting in settings
        for data in DATA
        for seed in seeds_for(scale, sizes.middle)
    ]


def costs_cells(scale: Scale) -> list[Cell]:
    """Return figure 5: every scheme by size; other readings on the two smallest networks."""
    sizes = SIZES[scale]
    found = [
        cell(scale, brokers=brokers, data=data, seed=seed)
        for brokers in sizes.brokers
        for data in DATA
        for seed in seeds_for(scale, brokers)
    ]
    found += [
        cell(scale, **{"brokers": brokers, **reading, "data": data, "seed": seed})
        for reading, some in READINGS
        for brokers in sizes.brokers[:2]
        for data in some
        for seed in seeds_for(scale, brokers)
    ]
    return distinct(found)


def steps_cells(scale: Scale) -> list[Cell]:
    """Return figures 6 and 7: what every number of groups costs, on the smallest network. MULT2 where it is judged."""
    sizes = SIZES[scale]
    found = [
        cell(scale, **reading, seed=seed, by_saving=True) for reading in ({}, CENTRE) for seed in sizes.seeds
    ]
    found += [
        cell(scale, **reading, seed=seed, by_saving=False)
        for reading in (PLAIN, LIGHT, BROKERS)
        for seed in sizes.seeds
    ]
    return found


def times_cells(scale: Scale) -> list[Cell]:
    """Return figure 8: MULT, MULT2 and the hybrid by size."""
    sizes = SIZES[scale]
    found = [
        cell(scale, brokers=brokers, data=data, seed=seed)
        for brokers in sizes.brokers
        for data in (DATA if brokers < 5_000 else ("Localized1",))
        for seed in seeds_for(scale, brokers)
    ]
    return found + [
        cell(scale, **reading, data=data, seed=seed)
        for reading in (CENTRE,)
        for data in DATA
        for seed in sizes.seeds
    ]


def printed_cells(scale: Scale) -> list[Cell]:
    """Return small problems of growing size, on which Algorithms 2 and 3 run as they are printed."""
    return [
        cell(scale, keywords=keywords, documents=10 * keywords, sample=1.0, seed=seed)
        for keywords in SIZES[scale].printed
        for seed in SIZES[scale].seeds
    ]


def stretch_cells(scale: Scale) -> list[Cell]:
    """Return what kinds of trees are worth, on every topology."""
    sizes = SIZES[scale]
    found = [
        cell(scale, topology=topology, data=data, words=words, seed=seed)
        for topology in TOPOLOGIES
        for data, words in (("Localized1", 1), ("Localized1", 5), ("Uniform", 3))
        for seed in sizes.seeds
    ]
    return found + [cell(scale, brokers=brokers, words=1) for brokers in sizes.brokers[1:]]


def fresh_cells(scale: Scale) -> list[Cell]:
    """Return what the aim of never being worse than one tree is tried on: every topology and data set."""
    sizes = SIZES[scale]
    return [
        cell(scale, topology=topology, data=data, per=per, words=words, seed=seed)
        for topology in (TOPOLOGIES if scale == "paper" else ("TS", *sizes.cyclic))
        for data in DATA
        for per in ("keyword", "broker")
        for words in ((1, 3) if scale == "paper" else (3,))
        for seed in sizes.seeds[: 2 if words == 3 and scale == "paper" else 1]
    ]


def regions_cells(scale: Scale) -> list[Cell]:
    """Return what the aim of being near Steiner trees without a sample is tried on: graphs with many cycles."""
    sizes = SIZES[scale]
    return [
        cell(scale, brokers=brokers, topology=topology, data=data, seed=seed)
        for brokers in sizes.aims
        for topology in sizes.cyclic
        for data in DATA
        for seed in sizes.seeds[: 1 if scale == "small" else 3 if brokers < 2_000 else 2]
    ]


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells without repetitions."""
    return list({tuple(sorted(one.items(), key=str)): one for one in cells}.values())


def effort(cell: Cell) -> float:
    """Return about how many seconds a cell takes: what is done for one grows with the network."""
    return 3.0 * (integer(cell, "brokers") / 500) * integer(cell, "documents") / 10_000
