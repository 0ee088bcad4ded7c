"""The figures of paper C and its Table II, drawn from kept rows beside what is printed.

Time counts from the first departure (the burst), the rush hour or the run of the processes. A delay or a queue is that
of a service model: `linear`, whose times grow with the table, or `table-ii`, whose times are fixed and do not give
hours of congestion. Triggered subscriptions and table sizes are counts of `zero`, in which no message waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from covey.lab.experiment import Results, Value
from covey.lab.figure import Figure
from covey.lab.paper_c.driving import number
from covey.lab.paper_c.experiments_burst import BASE
from covey.lab.paper_c.table_ii import TABLE_2

NAMES = {
    "covering": "active covering",
    "covering-lazy": "lazy covering",
    "covering-packing": "packing",
    "incremental": "incremental",
    "simple": "no covering",
}
ALL = ("covering", "covering-lazy", "covering-packing", "incremental")
TWO = ("covering", "incremental")
CHURN = (("active covering", 0), ("incremental, 20 samples", 20), ("incremental, 1 sample", 1))
COLOURS = {"covering": "C0", "covering-lazy": "C1", "covering-packing": "C2", "incremental": "C3"}
COUNTED_RUN: dict[str, Value] = {"service": "zero", "triggered_each": 2_100, "seed": 1}
CORE = ("A", "B", "C", "D", "E")

BURST_TEXT = (
    "49 brokers; 20 roots leave, one every 0.5 s; three publishers, an event every 10 ms; threshold 90%, tiers at "
    "M >= 10 and M >= 5,012. 2,100 triggered an unsubscription (955 covered for each root) with 80,000 subscriptions "
    "at paper scale, a tenth of the covered and 2,400 subscriptions at small scale; everything below the core is a "
    "reconstruction. "
)
TIMED = "Service model: table-ii (fixed times for each message). "
GROWING = "Service model: linear (times for each entry of the table, after Table II; at small scale it counts as ten). "
BOTH = GROWING + "Dashed: table-ii (fixed times for each message). "
MODELS = (("linear", "-", ALL), ("table-ii", "--", TWO))
COUNTED = "A count, without service times (model zero); seed 1. "


def _labels(axes: Any, x: str, y: str, *, log: bool = False) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if log:
        axes.set_yscale("log")
    axes.legend()


def _curves(
    results: Results,
    axes: Any,
    *,
    experiment: str,
    y: str,
    label: str,
    x: str,
    strategies: Sequence[str],
    log: bool = False,
    **where: str | int,
) -> None:
    """Draw a curve of samples for each strategy."""
    for strategy in strategies:
        xs, ys = results.series(experiment, "at_s", y, kind="sample", strategy=strategy, **where)
        axes.plot(xs, ys, label=NAMES[strategy], color=COLOURS[strategy])
    _labels(axes, x, label, log=log)


SINCE_LEAVING = "time since the first unsubscription [s]"

_burst = partial(_curves, experiment="c-burst", x=SINCE_LEAVING, service="linear")


def draw_models(results: Results, axes: Any, *, y: str, label: str, log: bool = False) -> None:
    """Draw a curve of the burst for each strategy under linear, and for two of them under table-ii."""
    where: dict[str, Value] = {"kind": "sample", "triggered_each": 2_100}
    for service, style, strategies in MODELS:
        for strategy in strategies:
            xs, ys = results.series("c-burst", "at_s", y, strategy=strategy, service=service, **where)
            name = f"{NAMES[strategy]}, {service}"
            axes.plot(xs, ys, style, label=name, color=COLOURS[strategy])
    _labels(axes, SINCE_LEAVING, label, log=log)


def draw_figure_1(results: Results, axes: Any) -> None:
    """Draw the queues of the core brokers under active covering."""
    for broker in CORE:
        where: dict[str, Value] = {"strategy": "covering", "service": "linear", "triggered_each": 2_100}
        xs, ys = results.series("c-burst", "at_s", "queue", kind="core", broker=broker, **where)
        axes.plot(xs, ys, label=f"broker {broker}")
    _labels(axes, SINCE_LEAVING, "input queue [messages]")


def draw_triggered(results: Results, axes: Any) -> None:
    """Draw triggered subscriptions by core broker, as bars; log scale, with zero shown as nothing."""
    for place, strategy in enumerate(ALL):
        rows = results.rows("c-burst", kind="broker", strategy=strategy, **COUNTED_RUN)
        counts = {row["broker"]: number(row, "triggered") for row in rows}
        places = [at + 0.2 * place for at in range(len(CORE))]
        heights = [counts[broker] for broker in CORE]
        axes.bar(places, heights, 0.2, label=NAMES[strategy], color=COLOURS[strategy])
    axes.set_xticks([at + 0.3 for at in range(len(CORE))], CORE)
    _labels(axes, "core broker", "triggered subscriptions", log=True)


def draw_tables(results: Results, axes: Any) -> None:
    """Draw the mean routing table of the core brokers at the end, as bars."""
    for place, strategy in enumerate(ALL):
        [row] = results.rows("c-burst", kind="total", strategy=strategy, **COUNTED_RUN)
        height = number(row, "core_table_mean")
        axes.bar([place], [height], label=NAMES[strategy], color=COLOURS[strategy])
    axes.set_xticks(range(len(ALL)), [NAMES[strategy] for strategy in ALL])
    _labels(axes, "strategy", "mean routing table at A-E [entries]")


def _figure(
    number: str, title: str, caption: str, experiment: str, draw: Callable[[Results, Any], None]
) -> Figure:
    """Return a figure of the first seed, a burst's under the reading that its text has."""
    shown = {**(BASE if experiment == "c-burst" else {}), "seed": 1}
    return Figure(
        "C", number, title, caption, (experiment,), lambda results, axes: draw(results.under(shown), axes)
    )


def _figures_6() -> list[Figure]:
    delay = partial(draw_models, y="delay_mean_s", label="mean delay [s]", log=True)
    queue = partial(draw_models, y="core_queue_peak", label="longest core queue [messages]")
    return [
        _figure("6a", "Delay of events over time", BURST_TEXT + BOTH, "c-burst", delay),
        _figure("6b", "Queues at the core over time", BURST_TEXT + BOTH, "c-burst", queue),
        _figure("6c", "Triggered subscriptions at the core", BURST_TEXT + COUNTED, "c-burst", draw_triggered),
        _figure("6d", "Routing tables at the core", BURST_TEXT + COUNTED, "c-burst", draw_tables),
    ]


def _figures_7() -> list[Figure]:
    figures = []
    kinds = (
        ("abc", "Delay of events", "delay_mean_s", "mean delay [s]", True),
        ("def", "Queues at the core", "core_queue_peak", "longest core queue [messages]", False),
    )
    for letters, title, y, label, log in kinds:
        for letter, triggered in zip(letters, (700, 1_400, 2_100), strict=True):
            draw = partial(_burst, y=y, label=label, log=log, strategies=TWO, triggered_each=triggered)
            named = f"{title}, {triggered:,} triggered an unsubscription"
            said = f"{triggered:,} triggered, summed over A-E, at paper scale. "
            figures.append(_figure(f"7{letter}", named, said + BURST_TEXT + GROWING, "c-burst", draw))
    return figures


MOBILE_TEXT = (
    "Star of 17 brokers; SIENA's filters of 1 to 10 constraints; 60% commute, 20% stay, 20% wander. 200,000 "
    "subscribers and 2,000 publishers, as in print, for the first 60 s of the rush hour at paper scale; 400 and 4 for "
    "200 s, in which all commuters move, at small. "
)
WORKFLOW_TEXT = (
    "Four domains of ten brokers; four administrators subscribe to all triggers for a minute every ten minutes. 80 "
    "small, 80 medium and 40 large processes for 20 minutes at paper scale; 12, 2 and 1 for a minute, administrators "
    "for 15 s every 30 s, at small. "
)


def _churn_curves(results: Results, axes: Any, *, experiment: str, y: str, label: str, x: str) -> None:
    """Draw a curve of samples for each variant."""
    for name, samples in CHURN:
        xs, ys = results.series(experiment, "at_s", y, kind="sample", least_samples=samples)
        axes.plot(xs, ys, label=name)
    _labels(axes, x, label)


def _churn(experiment: str, number: str, caption: str, x: str, queue: tuple[str, str]) -> list[Figure]:
    curves = (
        ("a", "Delay of events over time", "delay_max_s", "longest delay [s]"),
        ("b", "Queues over time", *queue),
        ("c", "Routing tables over time", "table_mean", "mean routing table [entries]"),
    )
    return [
        _figure(
            number + letter,
            title,
            caption + TIMED,
            experiment,
            partial(_churn_curves, experiment=experiment, y=y, label=label, x=x),
        )
        for letter, title, y, label in curves
    ]


FIGURES: tuple[Figure, ...] = (
    _figure(
        "1",
        "Queues after 20 unsubscriptions, active covering",
        BURST_TEXT + GROWING,
        "c-burst",
        draw_figure_1,
    ),
    *_figures_6(),
    *_figures_7(),
    *_churn(
        "c-mobile",
        "9",
        MOBILE_TEXT,
        "time in the rush hour [s]",
        ("queue_peak", "longest queue [messages]"),
    ),
    *_churn(
        "c-workflow", "10", WORKFLOW_TEXT, "time [s]", ("queue_mean", "mean queue of a broker [messages]")
    ),
    TABLE_2,
)
