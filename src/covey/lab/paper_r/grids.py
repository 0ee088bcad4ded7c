"""The cells of the experiments at both scales.

    paper   107 brokers, 1,000 symbols, 10 subscriptions a consumer, 1 to 200 consumers a local broker
    small   35 brokers (three levels of routers), 48 symbols, 10 subscriptions a consumer, 1 to 10 consumers a local
            broker: as many subscriptions for each symbol at a local broker as in the paper, at the end of a curve

`purpose` says what a cell is for: `curve` cells are drawn; those of the `published size` are on the paper's topology at
either scale, with few subscriptions; in `saturation` somebody at each local broker asks for each symbol, which is
where identity's curves end.
"""

from __future__ import annotations

from typing import NamedTuple

from covey.lab.experiment import Cell, Scale, Value

SEEDS = (1, 2, 3, 4, 5)


class Size(NamedTuple):
    """What differs between scales. Sizes are consumers a local broker."""

    levels: int
    symbols: int
    curve: str
    few: str  # what simple routing is simulated at
    rest: str  # the sizes of the curve that are not among the few
    localities: tuple[float, ...]
    rounds: int  # of toggling at each local broker
    rounds_of_identity: int  # under locality, where they are cheap


SIZES: dict[Scale, Size] = {
    "small": Size(3, 48, "1 2 4 10", "1 2", "4 10", (1 / 3, 1 / 2, 2 / 3, 5 / 6, 1.0), 1, 6),
    "paper": Size(
        4,
        1_000,
        "1 2 5 10 20 50 100 150 200",
        "1 2",
        "5 10 20 50 100 150 200",
        (1 / 3, 1 / 2, 2 / 3, 5 / 6, 1.0),
        2,
        4,
    ),
}

# Strategy and kind of subscription, as the paper draws them.
CURVES = (
    ("simple", "quotes"),
    ("identity", "quotes"),
    ("covering", "quotes"),
    ("covering", "intervals"),
    ("merging", "intervals"),
    ("merging-rebeca", "intervals"),
)

# Not drawn: merging of quotes is at its bound with the first consumers, identity of intervals is as costly as simple.
FEW = (("merging", "quotes"), ("identity", "intervals"))


def _cell(scale: Scale, strategy: str, advertisements: bool, **others: Value) -> Cell:
    """Return a cell with the scale's settings; simple routing is simulated at few sizes."""
    size = SIZES[scale]
    simple = strategy == "simple"
    # Without advertisements a dissolved merger is told again all over the network.
    curve = size.curve if strategy != "merging-rebeca" or scale == "paper" else "1 2 4"
    return {
        "purpose": "curve",
        "strategy": strategy,
        "advertisements": advertisements,
        "kind": "quotes",
        "levels": size.levels,
        "symbols": size.symbols,
        "subscriptions": 10,
        "sizes": size.few if simple else curve,
        "extrapolated_sizes": size.rest if simple else "",
        "locality": None,
        "payload": False,
        "seed": SEEDS[0],
        **others,
    }


def _published_size(advertisements: bool) -> dict[str, Value]:
    return {
        "purpose": "published size",
        "levels": 4,
        "symbols": 1_000,
        "subscriptions": 1,
        "sizes": "1 3" if advertisements else "1 2",
        "extrapolated_sizes": "",
    }


def _few(scale: Scale, strategy: str, advertisements: bool) -> dict[str, Value]:
    """Return few sizes. Every broker then tells every neighbour all symbols asked for in one filter, again at each
    subscription: without advertisements three a consumer are enough of that."""
    if strategy == "merging" and not advertisements and scale == "paper":
        return {"subscriptions": 3, "sizes": "1"}
    return {"sizes": SIZES[scale].few}


def tables_cells(scale: Scale) -> list[Cell]:
    """Return strategies, with and without advertisements."""
    size = SIZES[scale]
    cells = []
    for advertisements in (True, False):
        cells += [_cell(scale, strategy, advertisements, kind=kind) for strategy, kind in CURVES]
        cells += [
            _cell(scale, strategy, advertisements, kind=kind, **_few(scale, strategy, advertisements))
            for strategy, kind in FEW
        ]
        published = _published_size(advertisements)
        cells.append(_cell(scale, "simple", advertisements, **published))
        cells.append(_cell(scale, "identity", advertisements, **{**published, "sizes": "1"}))
        full: dict[str, Value] = {
            "purpose": "saturation",
            "levels": 4,
            "subscriptions": size.symbols,
            "sizes": "1",
        }
        cells.append(_cell(scale, "identity", advertisements, **full))
    return cells


def overhead_cells(scale: Scale) -> list[Cell]:
    """Return strategies, with and without advertisements."""
    rounds: dict[str, Value] = {"rounds": SIZES[scale].rounds}
    cells = []
    for advertisements in (True, False):
        cells += [
            _cell(scale, strategy, advertisements, kind=kind, seed=seed, **rounds)
            for strategy, kind in CURVES
            for seed in SEEDS
        ]
        once: dict[str, Value] = {**_published_size(advertisements), "rounds": 1}
        cells.append(_cell(scale, "simple", advertisements, **once))
    return cells


def locality_cells(scale: Scale) -> list[Cell]:
    """Return degrees of locality for identity routing, all consumers active; also with every symbol asked for."""
    size = SIZES[scale]
    cells = []
    for advertisements in (True, False):
        for locality in size.localities:
            there: dict[str, Value] = {"locality": locality, "payload": True}
            cells += [_cell(scale, "identity", advertisements, **there, seed=seed) for seed in SEEDS]
            full: dict[str, Value] = {
                **there,
                "purpose": "saturation",
                "subscriptions": max(1, round(locality * size.symbols)),
                "sizes": "1",
                "seed": None,  # whoever draws: every symbol is asked for
            }
            cells.append(_cell(scale, "identity", advertisements, **full))
    return cells


def dynamics_cells(scale: Scale) -> list[Cell]:
    """Return degrees of locality for identity and simple routing, half of the consumers active."""
    size = SIZES[scale]
    rounds = {"identity": size.rounds_of_identity, "simple": 1}
    return [
        _cell(
            scale,
            strategy,
            advertisements,
            locality=locality,
            payload=True,
            rounds=rounds[strategy],
            seed=seed,
        )
        for strategy in rounds
        for advertisements in (True, False)
        for locality in size.localities
        for seed in (SEEDS if strategy == "identity" else SEEDS[:1])
    ]


def paths_cells(scale: Scale) -> list[Cell]:
    """Return both places of the source, on the paper's topology at either scale."""
    return [{"levels": 4, "source": source} for source in ("root", "leaf")]
