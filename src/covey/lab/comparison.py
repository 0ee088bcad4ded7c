"""All strategies on the papers' workloads, side by side: no paper's claims, but what somebody who chooses asks first.

A cell is one strategy on one workload, run twice. Counts (tables, messages, events that nobody wanted) are of a run in
which brokers take no time, so they follow from the algorithm alone. Queues and delays are of a run in which they take
Table II's times. Strategies of plug-ins, and those that a program registers, are compared like ours; what is kept of
one is computed anew when the text of its module changes.

Workloads are of papers R, C, X and M. Paper W has none: it judges a model of aggregation, without a network. Every
overlay is a tree, which all strategies can use; `trees`, `regions` and `aggregation` know no plan here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from statistics import mean
from typing import Any, NamedTuple

import covey.strategies  # noqa: F401 (registers them)
from covey.lab.experiment import Cell, Experiment, Results, Row, Scale
from covey.lab.figure import Figure, Grid, Paper
from covey.routing.strategy import names, registered
from covey.sim.result import Result
from covey.sim.runner import run as run_scenario
from covey.sim.scenario import read_scenario

KEY = "S"
NAME = "s-strategies"
BASE = "covering"  # the default, which others are compared with
SEEDS: dict[Scale, Sequence[int]] = {"small": (1,), "paper": (1, 2, 3)}


class Workload(NamedTuple):
    """What clients do, after a paper, and on which overlay; `small` and `paper` have the parameters of each scale."""

    paper: str
    title: str
    topology: Mapping[str, Any]
    kind: str
    small: Mapping[str, Any]
    paper_size: Mapping[str, Any]
    small_topology: Mapping[str, Any] | None = None

    def tables(self, scale: Scale) -> dict[str, Any]:
        """Return the tables of a scenario that say it."""
        is_small = scale == "small"
        topology = self.small_topology if is_small and self.small_topology else self.topology
        return {
            "topology": topology,
            "workload": {"kind": self.kind, **(self.small if is_small else self.paper_size)},
        }


QUOTES_SMALL = {
    "consumers": 4,
    "subscriptions": 5,
    "symbols": 50,
    "active": 0.5,
    "toggles": 60,
    "events": 100,
}
QUOTES = {"consumers": 10, "active": 0.5, "toggles": 200, "events": 200}
EXCHANGE, SMALL_EXCHANGE = {"kind": "rebeca"}, {"kind": "rebeca", "levels": 3}
ROUTERS = {"kind": "xroute64"}

# At `paper` scale overlays are the papers' own.
WORKLOADS: dict[str, Workload] = {
    "quotes": Workload(
        "R",
        "Quotes of one symbol each. Half of the consumers are there, random ones come and go, then a source publishes",
        EXCHANGE,
        "quotes",
        QUOTES_SMALL,
        QUOTES,
        SMALL_EXCHANGE,
    ),
    "quote intervals": Workload(
        "R",
        "Quotes of one symbol within a range of prices, likewise",
        EXCHANGE,
        "quote-intervals",
        QUOTES_SMALL,
        QUOTES,
        SMALL_EXCHANGE,
    ),
    "burst": Workload(
        "C",
        "Subscriptions that cover many others leave, one every half second",
        {"kind": "core-edge"},
        "covering-burst",
        {
            "subscriptions": 200,
            "roots": 5,
            "covered": 10,
            "broad": 1,
            "events_before": 20,
            "events_after": 100,
        },
        {
            "subscriptions": 1_000,
            "roots": 20,
            "covered": 12,
            "broad": 2,
            "events_before": 50,
            "events_after": 500,
        },
    ),
    "mobile": Workload(
        "C",
        "Commuters and wanderers between the cells of a city, in a rush hour",
        {"kind": "star", "count": 17},
        "commuters",
        {"subscribers": 150, "publishers": 10, "rush_s": 200.0},
        {"subscribers": 400, "publishers": 10, "rush_s": 600.0},
    ),
    "workflow": Workload(
        "C",
        "Business processes in four domains of ten brokers",
        {"kind": "domains"},
        "workflow",
        {"small": 2, "medium": 2, "large": 1, "duration_s": 40.0},
        {"small": 8, "medium": 8, "large": 4, "duration_s": 120.0},
    ),
    "tree patterns": Workload(
        "X",
        "XPath patterns over a newspaper's documents, 24 consumers' brokers around 64 routers",
        ROUTERS,
        "xpath",
        {"subscriptions": 200, "churn": 20, "events": 40},
        {"subscriptions": 2_000, "churn": 200, "events": 200},
    ),
    "keywords": Workload(
        "M",
        "Keywords asked for in neighbourhoods of the network",
        ROUTERS,
        "keywords",
        {"keywords": 40, "hosts": 5, "nearest": 0.1, "events": 100, "publishers": 10},
        {"keywords": 1_000, "nearest": 0.1, "events": 1_000, "publishers": 10},
    ),
}

# Where a merger dissolves at one broker, those that were made of it dissolve at the next ones, and messages multiply
# from broker to broker. What did not end in ten minutes at a tenth of the size is not run at `paper` scale.
TOO_DEAR = frozenset({("burst", "merging-rebeca"), ("keywords", "merging-rebeca")})


def cells(scale: Scale) -> list[Cell]:
    """Return every strategy that there is on every workload, but for those that are too dear."""
    return [
        {"workload": workload, "strategy": strategy, "code": code(strategy), "size": scale, "seed": seed}
        for workload in WORKLOADS
        for strategy in names()
        for seed in SEEDS[scale]
        if scale == "small" or (workload, strategy) not in TOO_DEAR
    ]


def code(strategy: str) -> str:
    """Return a digest of the text of the module that a strategy is from; empty for ours, which have a version."""
    make: Callable[..., object] = registered(strategy).make
    module = inspect.getmodule(make)
    if module is None or module.__name__.split(".")[0] == "covey":
        return ""
    try:
        text = inspect.getsource(make if module.__name__ == "__main__" else module)
    except (OSError, TypeError):  # typed in where nothing is kept
        return "unknown"
    return sha256(text.encode()).hexdigest()[:12]


def run(cell: Cell) -> list[Row]:
    """Run one strategy on one workload, without service times and with them."""
    counted, timed = _result(cell, "zero"), _result(cell, "table-ii")
    last = counted.last
    return [
        {
            "brokers": counted.brokers,
            "entries": last.remote_entries,
            "entries_max": last.remote_entries_max,
            "control_messages": last.control_messages,
            "triggered": last.triggered,
            "published": last.published_events,
            "forwarded": last.forwarded_events,
            "for_nobody": last.false_positives,
            "delivered": last.delivered_events,
            "queue_peak": max(figures.queue_peak for figures in timed.by_broker.values()),
            "delay_mean_s": timed.delays.mean_s,
            "delay_p99_s": timed.delays.p99_s,
            "delay_max_s": timed.delays.max_s,
        }
    ]


def _result(cell: Cell, service: str) -> Result:
    scale: Scale = "paper" if cell["size"] == "paper" else "small"
    tables = {
        "seed": cell["seed"],
        **WORKLOADS[str(cell["workload"])].tables(scale),
        "strategy": {"name": cell["strategy"]},
        "service": {"kind": service},
    }
    return run_scenario(read_scenario(tables, NAME))


def effort(cell: Cell) -> float:
    """Return about how long a cell takes."""
    hard = {"merging-rebeca": 50.0, "merging-imperfect": 4.0, "merging": 2.0}.get(str(cell["strategy"]), 1.0)
    return hard * (4.0 if cell["workload"] == "burst" else 1.0)


EXPERIMENT = Experiment(NAME, KEY, "Every strategy on every workload", cells, run, effort=effort)


# -- figures -----------------------------------------------------------------------------------------------------


def value(results: Results, workload: str, strategy: str, key: str) -> float | None:
    """Return a value of a strategy on a workload, the mean over seeds; None if there is no such cell."""
    rows = results.rows(NAME, workload=workload, strategy=strategy)
    found = [row[key] for row in rows]
    numbers = [float(one) for one in found if isinstance(one, int | float)]
    return mean(numbers) if numbers else None


def strategies_in(results: Results) -> list[str]:
    """Return the strategies that were compared, in the order of their cells."""
    return list(dict.fromkeys(str(row["strategy"]) for row in results.rows(NAME)))


def _relative(results: Results, workload: str, strategy: str, key: str) -> float | None:
    mine, base = value(results, workload, strategy, key), value(results, workload, BASE, key)
    return mine / base if mine is not None and base else None


def _share_for_nobody(results: Results, workload: str, strategy: str) -> float | None:
    wasted = value(results, workload, strategy, "for_nobody")
    forwarded = value(results, workload, strategy, "forwarded")
    return 100 * wasted / forwarded if wasted is not None and forwarded else None


MARKERS = ("o", "s", "^", "D", "v", "P", "X")
COLOURS = ("tab:blue", "tab:red", "tab:green", "tab:orange", "tab:purple", "tab:cyan", "tab:olive")


def _dots(results: Results, axes: Any, of: Callable[[str, str], float | None], label: str) -> None:
    """Draw a line for each strategy with a mark for each workload, a little apart where they are equal."""
    strategies = strategies_in(results)
    middle = len(WORKLOADS) // 2
    for number, (workload, marker, colour) in enumerate(zip(WORKLOADS, MARKERS, COLOURS, strict=True)):
        apart = 0.1 * (number - middle)
        points = [(of(workload, strategy), place + apart) for place, strategy in enumerate(strategies)]
        shown = [(x, y) for x, y in points if x is not None]
        axes.plot(
            [x for x, _ in shown],
            [y for _, y in shown],
            marker,
            color=colour,
            fillstyle="none",
            label=workload,
        )
    axes.set_yticks(range(len(strategies)), strategies, fontsize=7)
    axes.set_ylim(len(strategies) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.legend()


def _ratios(results: Results, axes: Any, key: str, label: str) -> None:
    """Draw how many times a value is that of covering; nothing at all is drawn at a hundredth and says so."""

    def of(workload: str, strategy: str) -> float | None:
        ratio = _relative(results, workload, strategy, key)
        return None if ratio is None else max(ratio, 0.01)

    _dots(results, axes, of, f"{label}, times those of {BASE} (0.01: that or less)")
    axes.set_xscale("log")
    axes.axvline(1.0, color="grey", linestyle=":", linewidth=1)


def draw_entries(results: Results, axes: Any) -> None:
    """Draw the routing entries of all brokers at the end."""
    _ratios(results, axes, "entries", "entries")


def draw_messages(results: Results, axes: Any) -> None:
    """Draw the control messages of the whole run."""
    _ratios(results, axes, "control_messages", "control messages")


def draw_for_nobody(results: Results, axes: Any) -> None:
    """Draw the share of transmissions of events that nobody behind the link wanted."""
    _dots(
        results,
        axes,
        lambda workload, strategy: _share_for_nobody(results, workload, strategy),
        "transmissions of events for nobody [%]",
    )
    axes.set_xlim(left=-2)


def draw_queues(results: Results, axes: Any) -> None:
    """Draw the longest input queue of any broker."""
    _dots(
        results,
        axes,
        lambda workload, strategy: value(results, workload, strategy, "queue_peak"),
        "longest input queue of a broker [messages]",
    )
    axes.set_xscale("log")


def draw_delays(results: Results, axes: Any) -> None:
    """Draw the delay that one delivery in a hundred exceeds."""
    _dots(
        results,
        axes,
        lambda workload, strategy: value(results, workload, strategy, "delay_p99_s"),
        "delay of deliveries, 99th percentile [s]",
    )
    axes.set_xscale("log")


COLUMNS: dict[str, str] = {
    "entries": "entries",
    "entries_max": "largest table",
    "control_messages": "control messages",
    "triggered": "triggered",
    "forwarded": "forwarded",
    "for_nobody": "for nobody",
    "queue_peak": "longest queue",
    "delay_p99_s": "delay p99, s",
    "delivered": "delivered",
}


def table_of(workload: str) -> Callable[[Results], Grid]:
    """Return what makes the table of a workload: a line for each strategy, means over seeds."""

    def grid(results: Results) -> Grid:
        lines: list[tuple[str | float, ...]] = []
        for strategy in strategies_in(results):
            found = [value(results, workload, strategy, key) for key in COLUMNS]
            lines.append((strategy, *("" if one is None else one for one in found)))
        return Grid(("strategy", *COLUMNS.values()), lines)

    return grid


COUNTED = "Counted without service times. "
TIMED = "With Table II's service times. "
EACH = "One mark for each workload; means over seeds."

FIGURES = (
    Figure(
        KEY,
        "1",
        "Routing entries",
        f"Entries of all brokers for other brokers when the run ends. {COUNTED}{EACH}",
        (NAME,),
        draw=draw_entries,
    ),
    Figure(
        KEY,
        "2",
        "Control messages",
        f"All messages between brokers that are not events, over the whole run. {COUNTED}{EACH}",
        (NAME,),
        draw=draw_messages,
    ),
    Figure(
        KEY,
        "3",
        "Events for nobody",
        f"Which share of the events that crossed a link was wanted by nobody behind it. {COUNTED}{EACH}",
        (NAME,),
        draw=draw_for_nobody,
    ),
    Figure(
        KEY,
        "4",
        "Longest queues",
        f"The most messages that waited at one broker at one time. {TIMED}{EACH}",
        (NAME,),
        draw=draw_queues,
    ),
    Figure(
        KEY,
        "5",
        "Delays",
        f"The time from publishing to the client that 99 of 100 deliveries keep to. {TIMED}{EACH}",
        (NAME,),
        draw=draw_delays,
    ),
    *(
        Figure(
            KEY,
            f"Table {number}",
            name.capitalize(),
            f"{workload.title}, after paper {workload.paper}. Queue and delay are with Table II's service times, "
            "all else is counted without.",
            (NAME,),
            table=table_of(name),
        )
        for number, (name, workload) in enumerate(WORKLOADS.items(), 1)
    ),
)

INTRODUCTION = (
    "Each strategy ran on each workload of the papers that a network can run, with the same clients, events and seeds. "
    "Entries and control messages are shown as multiples of what covering, the default, needs for the same."
)

PAPER = Paper(KEY, "All strategies on the papers' workloads", (EXPERIMENT,), FIGURES, (), INTRODUCTION)


def of(strategies: Collection[str], workloads: Collection[str] = tuple(WORKLOADS)) -> Paper:
    """Return the same page for some strategies on some workloads; what is kept of the whole page is used for it."""

    def some(scale: Scale) -> list[Cell]:
        wanted = (cell for cell in cells(scale) if cell["workload"] in workloads)
        return [cell for cell in wanted if cell["strategy"] in strategies]

    return PAPER._replace(experiments=(replace(EXPERIMENT, cells=some),))
