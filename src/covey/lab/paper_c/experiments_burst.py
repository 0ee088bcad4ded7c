"""The burst (V-A2, V-A3): of many subscriptions on 49 brokers, 20 that cover many others leave, one every half second.

The topology below the core and the filters are a reconstruction (see the workload `covering-burst`). "Triggered
subscriptions an unsubscription" is read as the sum over the core brokers A-E: 2,100 are 955 covered subscriptions for
each of the 20 roots. At small scale a tenth of the covered subscriptions, and fewer of those that never leave their
broker. Triggered subscriptions are counted under the service model `zero`; delays and queues are those of `table-ii`.

Before the roots leave, each gets 300 events, a hundred from each publisher. Only `incremental` remembers them, so at
small scale the others get fewer. It needs that many: with 30, 60 and 100 from each publisher, 480, 288 and 96 were
triggered at E at small scale (seed 1), as a root that is 95% similar often shows less than 90% in a small sample.
Subscriptions come slowly enough for every strategy to have caught up when the first root leaves.
"""

from __future__ import annotations

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import drive, integer, rows_of

STRATEGIES = ("covering", "covering-lazy", "covering-packing", "incremental")
VARIED = ("covering", "incremental")
SERVICES = ("zero", "table-ii")
TRIGGERED = (700, 1_400, 2_100)

COVERED = 955  # for each root, where 2,100 are triggered an unsubscription
ROOTS = 20

SIZES: dict[Scale, dict[str, int]] = {
    "small": {"subscriptions": 2_400, "broad": 5, "roots": ROOTS, "subscribe_ms": 50, "every_s": 1},
    "paper": {"subscriptions": 80_000, "broad": 50, "roots": ROOTS, "subscribe_ms": 20, "every_s": 10},
}
SHARE: dict[Scale, float] = {"small": 0.1, "paper": 1.0}
EVENTS_BEFORE = 300  # for each root
FEWER_BEFORE: dict[Scale, int] = {"small": 20, "paper": EVENTS_BEFORE}
MORE_SEEDS: dict[Scale, tuple[int, ...]] = {
    "small": (2, 3),
    "paper": (),
}  # how many roots are kept depends on it
EVENTS_AFTER: dict[Scale, dict[str, int]] = {
    "small": {"zero": 200, "table-ii": 1_000},
    "paper": {"zero": 1_000, "table-ii": 30_000},
}


def cells(scale: Scale) -> list[Cell]:
    """Return all strategies at 2,100 under both models, and active covering and incremental at fewer, timed."""
    chosen = [(2_100, strategy, service, 1) for strategy in STRATEGIES for service in SERVICES]
    chosen += [(triggered, strategy, "table-ii", 1) for triggered in TRIGGERED[:-1] for strategy in VARIED]
    chosen += [(2_100, strategy, "zero", seed) for strategy in VARIED for seed in MORE_SEEDS[scale]]
    return [
        {
            "strategy": strategy,
            "service": service,
            "triggered_each": triggered,
            "covered": round(COVERED * SHARE[scale] * triggered / 2_100),
            "events_before": EVENTS_BEFORE if strategy == "incremental" else FEWER_BEFORE[scale],
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
    return rows_of(drive("burst", cell, settings), "unsubscribe")


def effort(cell: Cell) -> float:
    """Return the number of subscriptions: the time of a run grows with it."""
    return integer(cell, "subscriptions") / 100


BURST = Experiment("c-burst", "C", "20 covering subscriptions leave 49 brokers", cells, run, effort=effort)
