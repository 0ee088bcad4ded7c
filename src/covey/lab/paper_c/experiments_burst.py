"""The burst (V-A2, V-A3): of many subscriptions on 49 brokers, 20 that cover many others leave, one every half second.

The topology below the core and the filters are a reconstruction (see the workload `covering-burst`). "Triggered
subscriptions an unsubscription" is read as the sum over the core brokers A-E: 2,100 are 955 covered subscriptions for
each of the 20 roots. At small scale a tenth of the covered subscriptions, and fewer of those that never leave their
broker. Triggered subscriptions are counted under the service model `zero`. Delays and queues are those of two models:
`table-ii`, in which a message always takes its mean time in print, and `linear`, in which it takes the print's time for
each entry of the table that it meets. At small scale an entry counts as ten there, so that all takes a tenth as long.

Before the roots leave, each gets 300 events, a hundred from each publisher. Only `incremental` remembers them, so the
others get fewer. It needs that many: with 30, 60 and 100 from each publisher, 480, 288 and 96 were triggered at E at
small scale (seed 1), as a root that is 95% similar often shows less than 90% in a small sample. How many do is chance,
so `incremental` is counted with three seeds. Subscriptions come slowly enough for every strategy to have caught up when
the first root leaves. At paper scale events then come for 300 s (`linear`) or 200 s (`table-ii`), where the print goes
on for hours; a run ends when all has settled.
"""

from __future__ import annotations

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import drive, integer, rows_of

STRATEGIES = ("covering", "covering-lazy", "covering-packing", "incremental")
VARIED = ("covering", "incremental")
TRIGGERED = (700, 1_400, 2_100)

COVERED = 955  # for each root, where 2,100 are triggered an unsubscription
ROOTS = 20
MORE_SEEDS = (2, 3)

SIZES: dict[Scale, dict[str, int]] = {
    "small": {
        "subscriptions": 2_400,
        "broad": 5,
        "roots": ROOTS,
        "subscribe_ms": 50,
        "every_s": 1,
        "factor": 10,
    },
    "paper": {
        "subscriptions": 80_000,
        "broad": 50,
        "roots": ROOTS,
        "subscribe_ms": 20,
        "every_s": 10,
        "factor": 1,
    },
}
EVENTS_BEFORE = 300  # for each root
FEWER_BEFORE = 10  # for strategies that remember no events
EVENTS_AFTER: dict[Scale, dict[str, int]] = {
    "small": {"zero": 200, "table-ii": 500, "linear": 1_000},
    "paper": {"zero": 1_000, "table-ii": 20_000, "linear": 30_000},
}


def cells(scale: Scale) -> list[Cell]:
    """Return all strategies at 2,100 counted and timed, and some of them at fewer, under table-ii, with more seeds."""
    chosen = [(2_100, strategy, service, 1) for service in ("zero", "linear") for strategy in STRATEGIES]
    chosen += [(2_100, strategy, "table-ii", 1) for strategy in VARIED]
    chosen += [(triggered, strategy, "linear", 1) for triggered in TRIGGERED[:-1] for strategy in VARIED]
    chosen += [(2_100, "incremental", "zero", seed) for seed in MORE_SEEDS]
    return [
        {
            "strategy": strategy,
            "service": service,
            "triggered_each": triggered,
            "covered": round(COVERED * triggered / 2_100 / SIZES[scale]["factor"]),
            "events_before": EVENTS_BEFORE if strategy == "incremental" else FEWER_BEFORE,
            "events_after": EVENTS_AFTER[scale][service],
            "seed": seed,
            **SIZES[scale],
        }
        for triggered, strategy, service, seed in chosen
    ]


def run(cell: Cell) -> list[Row]:
    """Run one burst."""
    keys = ("subscriptions", "roots", "covered", "broad", "events_before", "events_after")
    settings = [f"workload.{key}={integer(cell, key)}" for key in keys]
    settings += [f"workload.subscribe_interval_ms={integer(cell, 'subscribe_ms')}.0", "workload.pause_s=1.0"]
    settings.append(f"metrics.every_s={integer(cell, 'every_s')}")
    if cell["service"] == "linear":
        settings.append(f"service.factor={integer(cell, 'factor')}.0")
    return rows_of(drive("burst", cell, settings), "unsubscribe")


def effort(cell: Cell) -> float:
    """Return what the time of a run grows with: subscriptions, and less with events."""
    return integer(cell, "subscriptions") / 100 + integer(cell, "events_after") / 200


BURST = Experiment("c-burst", "C", "20 covering subscriptions leave 49 brokers", cells, run, effort=effort)
