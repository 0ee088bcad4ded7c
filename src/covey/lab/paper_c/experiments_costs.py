"""What covering costs without unsubscriptions (V-A1, Table II): time in `Router.handle`, by kind of message.

The subscriptions of the burst are issued, then events are published; nobody leaves. The print splits a subscription
into matching and covering detection. Ours does both in one call, so the part of covering is what a subscription costs
more than it does without covering. Unsubscriptions are those by which brokers retract what became covered. Times are
this machine's processor times: they differ from day to day, and only their proportions compare with the print.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import even, integer, text
from covey.routing.messages import Link, Message, Pack, Publish, Subscribe, Unsubscribe
from covey.routing.outputs import Output
from covey.routing.router import Router
from covey.sim.library import Changes, load
from covey.sim.preparation import Prepared, prepare
from covey.sim.runner import Driver, before

STRATEGIES = ("covering", "covering-lazy", "simple")
KINDS: dict[type, str] = {
    Subscribe: "subscribe",
    Unsubscribe: "unsubscribe",
    Publish: "publish",
    Pack: "pack",
}
ROOTS = 20

SIZES: dict[Scale, dict[str, int]] = {
    "small": {"subscriptions": 2_400, "covered": 96, "broad": 5, "events": 2_000},
    "paper": {"subscriptions": 42_000, "covered": 501, "broad": 50, "events": 200_000},
}


class _Clock:
    """A router whose work is timed, by kind of message; everything else is the router's own."""

    def __init__(self, router: Router, spent_s: Counter[str], handled: Counter[str]) -> None:
        self._router = router
        self._spent_s: dict[str, Any] = cast("dict[str, Any]", spent_s)
        self._handled = handled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._router, name)

    def handle(self, message: Message, source: Link, now_s: float) -> list[Output]:
        """Let the router handle a message and take the time."""
        began = time.thread_time()
        outputs = self._router.handle(message, source, now_s)
        kind = KINDS.get(type(message), "other")
        self._spent_s[kind] += time.thread_time() - began
        self._handled[kind] += 1
        return outputs


def cells(scale: Scale) -> list[Cell]:
    """Return one cell for each strategy."""
    return [{"strategy": strategy, "seed": 1, **SIZES[scale]} for strategy in STRATEGIES]


def run(cell: Cell) -> list[Row]:
    """Subscribe and publish, and return the time by kind of message."""
    settings = [f"workload.{key}={integer(cell, key)}" for key in ("subscriptions", "covered", "broad")]
    settings += [
        f"workload.roots={ROOTS}",
        f"workload.events_before={integer(cell, 'events') // ROOTS}",
        "service.kind=zero",
        "run.judge=false",
    ]
    end_s = before(_prepared(cell, settings).phases["unsubscribe"])
    driver = Driver(_prepared(cell, [*settings, f"run.duration_s={end_s!r}"]))
    spent_s: Counter[str] = Counter()
    handled: Counter[str] = Counter()
    for node in driver.net.nodes.values():
        node.router = cast("Router", _Clock(node.router, spent_s, handled))
    driver.drive()
    tables = [len(node.router.remote_entries()) for node in driver.net.nodes.values()]
    return even(
        [
            {
                "kind": kind,
                "messages": handled[kind],
                "total_s": float(spent_s[kind]),
                "mean_ms": 1_000.0 * spent_s[kind] / handled[kind] if handled[kind] else 0.0,
                "table_max": max(tables),
            }
            for kind in ("subscribe", "unsubscribe", "publish")
        ]
    )


def _prepared(cell: Cell, settings: Sequence[str]) -> Prepared:
    changes = Changes(strategy=text(cell, "strategy"), seed=integer(cell, "seed"), settings=settings)
    return prepare(load("burst", changes))


def effort(cell: Cell) -> float:
    """Return the time compared with other cells."""
    return (integer(cell, "subscriptions") + integer(cell, "events")) / 200


COSTS = Experiment("c-costs", "C", "processing time without unsubscriptions", cells, run, effort=effort)
