"""Runs of papers R and C on real brokers, beside the simulator's: `covey lab run R --on brokers`.

A cell starts an overlay on this machine, a process a broker and a socket a link, and plays the workload that the
simulator plays: the same filters and events from the same seed, at the same places, in the same order and pace. Clients
are a connection a broker for all who subscribe there, and one for all who publish. Where a phase of the workload ends,
the live network comes to rest and is looked at: tables, control messages, events between brokers, queues and delays.

What follows from the algorithm alone should be the same: tables, events that cross links, and control messages as far
as the order in which brokers hear of things does not matter. Queues and delays are this machine's, which all brokers
share, and differ from run to run. The simulator takes the time that its own handlers take ("measured") and a tenth of a
millisecond for a link; it does not pause between phases, so what is late counts in the next one.

Cells run in the command's own process, one after the other: they would disturb each other, and no Spark worker forks.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import groupby
from pathlib import Path
from statistics import mean
from struct import Struct
from tempfile import TemporaryDirectory
from typing import Any, Final

from covey.broker.local import Brokers, Overlay
from covey.client.admin import Metrics, Pages, control_messages, metrics_of, total
from covey.client.client import Client, connect
from covey.client.subscription import Received, Subscription
from covey.lab.experiment import Cell, Experiment, Results, Row, Scale
from covey.lab.figure import Figure, Grid, Paper
from covey.sim.metrics import Histogram, Sample, since
from covey.sim.preparation import Prepared, prepare
from covey.sim.runner import run as run_scenario
from covey.sim.scenario import read_scenario
from covey.sim.workload import Action

BROKERS, SIMULATOR = "brokers", "simulator"
STAMP: Final = Struct("<q")
QUIET_S: Final = 0.3
TICK_S: Final = 0.02
LONGEST_S: Final = 120.0

COUNTS: Final = ("control_messages", "forwarded_events", "delivered_events")


def run(cell: Cell) -> list[Row]:
    """Return a row for each phase of the workload: what was counted in it, and tables at its end."""
    prepared = prepare(read_scenario(_tables(cell), str(cell["workload"])))
    return simulated(prepared) if cell["on"] == SIMULATOR else asyncio.run(Live(prepared).play())


# -- on brokers --------------------------------------------------------------------------------------------------


class Live:
    """One run of a prepared scenario on brokers of this machine."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._delays = Histogram()
        self._delivered = self._told = 0  # deliveries, and how many of them rows have told of
        self._subscriptions: dict[str, Subscription] = {}
        self._clients: dict[tuple[str, bool], Client] = {}
        self._stack = AsyncExitStack()

    async def play(self) -> list[Row]:
        """Start the brokers, play the workload, and end them."""
        scenario, topology = self._prepared.scenario, self._prepared.topology
        with TemporaryDirectory(prefix="covey-lab-") as directory:
            brokers = Brokers(Path(directory))
            overlay = Overlay(
                topology.brokers,
                topology.links,
                scenario.strategy.name,
                advertisements=scenario.strategy.advertisements,
            )
            try:
                brokers.start([overlay])
                async with self._stack:
                    return await self._phases(brokers)
            finally:
                brokers.stop()

    async def _phases(self, brokers: Brokers) -> list[Row]:
        pages = {name: Pages(url, brokers.token) for name, url in brokers.pages.items()}
        rows: list[Row] = []
        before = await self._at_rest(pages)
        for phase, actions in groupby(self._prepared.actions(), phase_of(self._prepared)):
            begun_s, count = time.monotonic() - self._prepared.phases[phase], 0
            for action in actions:
                await asyncio.sleep(max(0.0, begun_s + action.at_s - time.monotonic()))
                await self._do(action, brokers)
                count += 1
            after = await self._at_rest(pages)
            rows.append(self._row(phase, count, before, after))
            before = after
        return rows

    async def _client(self, broker: str, brokers: Brokers, *, publishes: bool) -> Client:
        client = self._clients.get((broker, publishes))
        if client is None:
            opening = connect(brokers.clients[broker], timeout_s=LONGEST_S)
            client = self._clients[broker, publishes] = await self._stack.enter_async_context(opening)
        return client

    async def _do(self, action: Action, brokers: Brokers) -> None:
        match action.op:
            case "advertise":
                client = await self._client(action.broker, brokers, publishes=True)
                await client.advertise(action.what)
            case "publish":
                client = await self._client(action.broker, brokers, publishes=True)
                await client.publish(action.what, STAMP.pack(time.monotonic_ns()))
            case "subscribe":
                client = await self._client(action.broker, brokers, publishes=False)
                self._subscriptions[action.name] = await client.subscribe(action.what, callback=self._take)
            case "unsubscribe":
                await self._subscriptions.pop(action.name).unsubscribe()
            case other:
                raise AssertionError(f"no workload of this page does {other}")

    def _take(self, event: Received) -> None:
        (published_ns,) = STAMP.unpack(event.data)
        self._delays.add((time.monotonic_ns() - published_ns) / 1e9)
        self._delivered += 1

    async def _at_rest(self, pages: Mapping[str, Pages]) -> dict[str, Metrics]:
        """Wait until everything said is in force and everything published has arrived; return what brokers count."""
        await asyncio.gather(*(client.flush(LONGEST_S) for client in self._clients.values()))
        seen, quiet_s = -1, 0.0
        while quiet_s < QUIET_S:
            await asyncio.sleep(TICK_S)
            quiet_s = quiet_s + TICK_S if self._delivered == seen else 0.0
            seen = self._delivered
        asked = (asyncio.to_thread(one.get_bytes, "/metrics") for one in pages.values())
        texts = await asyncio.gather(*asked)
        return {name: metrics_of(text.decode()) for name, text in zip(pages, texts, strict=True)}

    def _row(
        self, phase: str, actions: int, before: Mapping[str, Metrics], after: Mapping[str, Metrics]
    ) -> Row:
        entries = [int(mine["covey_table_entries"]["remote"]) for mine in after.values()]
        forwarded = "covey_events_forwarded_total"
        row: Row = {
            "phase": phase,
            "actions": actions,
            "control_messages": control_messages(after) - control_messages(before),
            "forwarded_events": total(after, forwarded) - total(before, forwarded),
            "delivered_events": self._delivered - self._told,
            "entries": sum(entries),
            "entries_max": max(entries),
            "queue_peak": max(int(mine["covey_inbox_longest_frames"][""]) for mine in after.values()),
            **_delays(self._delays),
        }
        self._delays, self._told = Histogram(), self._delivered
        return row


def _delays(delays: Histogram) -> Row:
    if not delays.count:
        return {"delay_mean_s": None, "delay_p99_s": None, "delay_max_s": None}
    found = delays.delays()
    return {"delay_mean_s": found.mean_s, "delay_p99_s": found.p99_s, "delay_max_s": found.max_s}


def phase_of(prepared: Prepared) -> Callable[[Action], str]:
    """Return what tells in which phase of its workload an action is."""
    names, begins = list(prepared.phases), list(prepared.phases.values())
    return lambda action: names[bisect_right(begins, action.at_s) - 1]


# -- simulated ---------------------------------------------------------------------------------------------------


def simulated(prepared: Prepared) -> list[Row]:
    """Run the same in the simulator."""
    samples = run_scenario(prepared.scenario).samples
    begins = [place for place, sample in enumerate(samples) if sample.phase]
    counts = Counter(map(phase_of(prepared), prepared.actions()))
    return [
        _simulated_row(samples[begin : end + 1], counts[samples[begin].phase])
        for begin, end in zip(begins, [*begins[1:], len(samples) - 1], strict=True)
        if samples[begin].phase in counts
    ]


def _simulated_row(samples: Sequence[Sample], actions: int) -> Row:
    first, *later = samples
    last = later[-1] if later else first
    counted = since(first, last)
    some = [sample.delays for sample in later if sample.delays.deliveries]
    deliveries = sum(one.deliveries for one in some)
    return {
        "phase": first.phase,
        "actions": actions,
        **{name: counted[name] for name in COUNTS},
        "entries": last.remote_entries,
        "entries_max": last.remote_entries_max,
        "queue_peak": max((sample.queue_peak for sample in samples), default=0),
        "delay_mean_s": sum(one.deliveries * one.mean_s for one in some) / deliveries if deliveries else None,
        "delay_p99_s": max((one.p99_s for one in some), default=None),
        "delay_max_s": max((one.max_s for one in some), default=None),
    }


# -- what is run -------------------------------------------------------------------------------------------------

# A core of five with two brokers at each; at paper scale, the 49 brokers of paper C.
SMALL_CORE = [
    *(["A", "B"], ["B", "C"], ["C", "D"], ["D", "E"]),
    *([core, f"{core}{number}"] for core in "ABCDE" for number in (1, 2)),
]
SIZES: dict[str, dict[Scale, Mapping[str, Any]]] = {
    "r-live": {
        "small": {
            "topology": {"kind": "rebeca", "levels": 2},
            "workload": {
                "kind": "quote-intervals", "consumers": 6, "subscriptions": 5, "symbols": 20, "active": 0.5,
                "toggles": 40, "events": 200, "pause_s": 0.1,
            },
        },
        "paper": {
            "topology": {"kind": "rebeca", "levels": 3},
            "workload": {
                "kind": "quote-intervals", "consumers": 20, "subscriptions": 10, "symbols": 100, "active": 0.5,
                "toggles": 100, "events": 1_000, "pause_s": 0.1,
            },
        },
    },
    "c-live": {
        "small": {
            "topology": {"links": SMALL_CORE},
            "workload": {
                "kind": "covering-burst", "subscriptions": 600, "roots": 5, "covered": 60, "broad": 5,
                "events_before": 200, "events_after": 300, "event_interval_ms": 3.0,
                "unsubscribe_interval_ms": 200.0, "pause_s": 0.1,
            },
        },
        "paper": {
            "topology": {"kind": "core-edge"},
            "workload": {
                "kind": "covering-burst", "subscriptions": 4_000, "roots": 20, "covered": 100, "broad": 5,
                "events_before": 300, "events_after": 1_000, "event_interval_ms": 5.0, "pause_s": 0.1,
            },
        },
    },
}  # fmt: skip
STRATEGIES = {
    "r-live": ("simple", "identity", "covering", "merging", "merging-rebeca"),
    "c-live": ("simple", "covering", "covering-lazy", "covering-packing", "incremental"),
}


def _tables(cell: Cell) -> dict[str, Any]:
    scale: Scale = "paper" if cell["size"] == "paper" else "small"
    return {
        "seed": cell["seed"],
        **SIZES[str(cell["workload"])][scale],
        "strategy": {"name": cell["strategy"]},
        "delays": {"kind": "constant", "mean_ms": 0.1},
        "service": {"kind": "measured"},
    }


def _cells(name: str) -> Callable[[Scale], list[Cell]]:
    def cells(scale: Scale) -> list[Cell]:
        return [
            {"workload": name, "strategy": strategy, "on": on, "size": scale, "seed": 1}
            for strategy in STRATEGIES[name]
            for on in (SIMULATOR, BROKERS)
        ]

    return cells


COLUMNS: Final = {
    "entries": "entries",
    "entries_max": "largest table",
    "control_messages": "control messages",
    "forwarded_events": "forwarded",
    "delivered_events": "delivered",
    "queue_peak": "longest queue",
    "delay_mean_s": "mean delay, ms",
    "delay_p99_s": "p99, ms",
}


def _table(name: str, phase: str) -> Callable[[Results], Grid]:
    """Return what makes the table of a phase: a line for each strategy on each of the two, delays in milliseconds."""

    def shown(results: Results, strategy: str, on: str, key: str) -> str | float:
        rows = results.rows(name, strategy=strategy, on=on, phase=phase)
        found = [row[key] for row in rows]
        values = [float(one) for one in found if isinstance(one, int | float)]
        if not values:
            return ""
        return 1_000 * mean(values) if key.endswith("_s") else mean(values)

    def grid(results: Results) -> Grid:
        lines = [
            (strategy, on, *(shown(results, strategy, on, key) for key in COLUMNS))
            for strategy in STRATEGIES[name]
            for on in (SIMULATOR, BROKERS)
        ]
        return Grid(("strategy", "on", *COLUMNS.values()), lines)

    return grid


def _live(key: str, title: str, phases: Mapping[str, str]) -> Paper:
    name = f"{key.lower()}-live"
    experiment = Experiment(name, key, title, _cells(name), run)
    figures = tuple(
        Figure(
            key,
            f"Live {number}",
            f"{title}: {what}",
            "The same workload in the simulator and on brokers of this machine, a process each. Messages and events "
            "are those of the phase, tables are those at its end; the longest queue is the longest until then.",
            (name,),
            table=_table(name, phase),
        )
        for number, (phase, what) in enumerate(phases.items(), 1)
    )
    return Paper(key, f"{title}, on real brokers", (experiment,), figures, ())


R = _live(
    "R",
    "REBECA's tables",
    {
        "subscribe": "consumers come",
        "toggle": "random consumers come and go",
        "publish": "a source publishes",
    },
)
C = _live(
    "C",
    "The burst",
    {"subscribe": "subscriptions come", "unsubscribe": "those leave that cover many others"},
)
LIVE = {"R": R, "C": C}
