"""The cells of the experiments at both scales. A cell has its whole reading (`world`), so that it stands for itself.

paper   500 to 5,000 brokers, 1,000 keywords, 10,000 documents, planned on 3 % of them: the paper's sizes
small   60 to 240 brokers, 150 keywords, 1,500 documents, planned on 10 % of them, so that the sample has one document
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
    readings: tuple[tuple[str, str, int, int], ...]  # topology, per, words, near, beside the judged one
    cyclic: tuple[str, ...]  # topologies of the aims


BASIC = (("TS", "keyword", 1, 1), ("TS", "broker", 1, 1), ("TSX2", "broker", 3, 1), ("TSX2", "keyword", 1, 1))
SIZES: dict[Scale, Sizes] = {
    "small": Sizes(
        {"keywords": 100, "documents": 1_000, "sample": 0.1},
        (150, 300),
        150,
        (1,),
        (150,),
        "0.02 0.1 0.5",
        BASIC,
        ("TSX2", "Flat8", "Geo12"),
    ),
    "paper": Sizes(
        {"keywords": 1_000, "documents": 10_000, "sample": SAMPLED},
        (500, 1_000, 2_000, 5_000),
        2_000,
        (1, 2, 3),
        (500, 2_000),
        "0.001 0.003 0.01 0.03 0.1 0.3 0.5",
        (
            *BASIC,
            ("TSX2", "broker", 1, 1),
            ("TSX2", "keyword", 3, 5),
            ("TSX2", "keyword", 5, 1),
            ("TS", "broker", 3, 1),
        ),
        ("TSX10", "TSX2", "Flat4", "Flat8", "Geo6", "Geo12"),
    ),
}


def cell(scale: Scale, **others: Value) -> Cell:
    """Return a cell of the judged reading with the sizes of a scale, unless told otherwise."""
    sizes = SIZES[scale]
    plain: Size = {"brokers": sizes.brokers[0], "data": "Localized1", "seed": 1}
    return {**JUDGED, **sizes.base, **plain, **others}


def sampling_cells(scale: Scale) -> list[Cell]:
    """Return figure 4: plans on more and more documents, costed on all."""
    sizes = SIZES[scale]
    return [
        cell(
            scale,
            brokers=sizes.middle,
            topology=topology,
            data=data,
            words=words,
            shares=sizes.shares,
            seed=seed,
        )
        for topology, words in (("TSX2", 3), ("TSX2", 1), ("TS", 3))
        for data in (DATA if words == 3 else ("Localized1",))
        for seed in (sizes.seeds[:2] if (topology, words) == ("TSX2", 3) else (1,))
    ]


def costs_cells(scale: Scale) -> list[Cell]:
    """Return figure 5: every scheme by size; and other readings, on the smallest network."""
    sizes = SIZES[scale]
    found = [
        cell(scale, brokers=brokers, data=data, seed=seed, topology=topology)
        for brokers in sizes.brokers
        for data in DATA
        for topology in ("TSX2", "TS")
        for seed in (sizes.seeds if topology == "TSX2" and brokers < 2_000 else (1,))
    ]
    found += [
        cell(scale, topology=topology, per=per, words=words, near=near, data=data)
        for topology, per, words, near in sizes.readings
        for data in DATA
    ]
    found += [
        cell(scale, brokers=brokers, topology=topology)
        for topology in TOPOLOGIES
        if topology in sizes.cyclic
        for brokers in (sizes.brokers[0], sizes.middle)
    ]
    return distinct(found)


def steps_cells(scale: Scale) -> list[Cell]:
    """Return figures 6 and 7: what every number of groups costs, on the smallest network. MULT2 for the judged one."""
    sizes = SIZES[scale]
    found = [cell(scale, seed=seed, by_saving=True) for seed in sizes.seeds]
    found += [
        cell(scale, topology=topology, per=per, words=words, near=near, by_saving=False)
        for topology, per, words, near in (("TS", "keyword", 3, 1), *sizes.readings)
    ]
    return found


def times_cells(scale: Scale) -> list[Cell]:
    """Return figure 8: MULT, MULT2 and the hybrid by size."""
    sizes = SIZES[scale]
    found = [
        cell(scale, brokers=brokers, data=data, seed=seed)
        for brokers in sizes.brokers
        for data in (DATA if brokers < 5_000 else ("Localized1",))
        for seed in (sizes.seeds[:2] if brokers < 2_000 else (1,))
    ]
    return [*found, cell(scale, per="broker", words=1)]


def stretch_cells(scale: Scale) -> list[Cell]:
    """Return what kinds of trees are worth, on every topology."""
    sizes = SIZES[scale]
    found = [
        cell(scale, topology=topology, data=data, words=words)
        for topology in TOPOLOGIES
        for data, words in (("Localized1", 1), ("Localized1", 5), ("Uniform", 3))
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
        for seed in sizes.seeds[: 2 if words == 3 else 1]
    ]


def regions_cells(scale: Scale) -> list[Cell]:
    """Return what the aim of being near Steiner trees without a sample is tried on: graphs with many cycles."""
    sizes = SIZES[scale]
    return [
        cell(scale, brokers=brokers, topology=topology, data=data, seed=seed)
        for brokers in sizes.aims
        for topology in sizes.cyclic
        for data in DATA
        for seed in sizes.seeds[: 3 if brokers < 2_000 else 2]
    ]


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells without repetitions."""
    return list({tuple(sorted(one.items(), key=str)): one for one in cells}.values())


def effort(cell: Cell) -> float:
    """Return about how many seconds a cell takes: what is done for one grows with the network."""
    return 3.0 * (integer(cell, "brokers") / 500) * integer(cell, "documents") / 10_000
