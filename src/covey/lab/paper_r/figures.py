"""Figures 2 to 16 and Table 3: curves over the number of active subscriptions, as the paper has them.

Figures 2 to 4, 8, 10 and 12 show all consumers active; the others half of them on average, and the number of active
subscriptions is then half of all. The factor by which advertisements help is what is measured without them divided by
what is measured with them, for the same consumers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from covey.lab.experiment import Results, Row, Value
from covey.lab.figure import Figure, Grid

SETUP = (
    " Paper scale: 107 brokers, 1,000 symbols, 10 subscriptions a consumer, 1 to 200 consumers a local broker. Small"
    " scale: 35 brokers (three levels of routers), 48 symbols, 10 subscriptions a consumer, 1 to 10 consumers a local"
    " broker."
)
TABLES, OVERHEAD, LOCALITY, DYNAMICS = "r-tables", "r-overhead", "r-locality", "r-dynamics"
SUBSCRIPTIONS = "active subscriptions x"
RTS, FFO = "RTS: remote entries of all brokers", "FFO: control messages a change"
RATIO = "events a subscription change at break-even"

Curve = tuple[str, str]  # strategy, kind of subscription
WITH = ((True, "with adv.", "-"), (False, "without adv.", "--"))
MARKERS = ("o", "s", "^", "D", "v")


def _finish(axes: Any, ylabel: str, *, log: bool) -> None:
    axes.set_xlabel(SUBSCRIPTIONS)
    axes.set_ylabel(ylabel)
    axes.set_xlim(left=0)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if axes.lines:
        axes.legend()


def _draw_strategies(
    results: Results, axes: Any, *, experiment: str, y: str, ylabel: str, curves: tuple[Curve, ...]
) -> None:
    """Draw curves with and without advertisements."""
    for number, (strategy, kind) in enumerate(curves):
        for advertisements, words, line in WITH:
            where: dict[str, Value] = {
                "purpose": "curve",
                "strategy": strategy,
                "kind": kind,
                "advertisements": advertisements,
            }
            points = results.series(experiment, "x", y, **where)
            label = f"{strategy}, {kind}, {words}"
            axes.plot(*points, line, color=f"C{number}", marker=MARKERS[number], label=label)
    _finish(axes, ylabel, log=True)


def factors(results: Results, experiment: str, y: str, curve: Curve) -> tuple[list[float], list[float]]:
    """Return by how much advertisements reduce a measure, by active subscriptions."""
    strategy, kind = curve
    xs, plain = results.series(
        experiment, "x", y, purpose="curve", strategy=strategy, kind=kind, advertisements=False
    )
    helped = dict(
        zip(
            *results.series(
                experiment, "x", y, purpose="curve", strategy=strategy, kind=kind, advertisements=True
            ),
            strict=True,
        )
    )
    pairs = [(x, value / helped[x]) for x, value in zip(xs, plain, strict=True) if helped.get(x)]
    return [x for x, _ in pairs], [factor for _, factor in pairs]


def _draw_factors(results: Results, axes: Any, *, experiment: str, y: str, curves: tuple[Curve, ...]) -> None:
    for number, curve in enumerate(curves):
        points = factors(results, experiment, y, curve)
        axes.plot(*points, "-", color=f"C{number}", marker=MARKERS[number], label=", ".join(curve))
    _finish(axes, "without / with advertisements", log=True)


def localities(results: Results, experiment: str) -> list[float]:
    """Return the degrees of locality that were measured."""
    return sorted({float(row["locality"]) for row in results.rows(experiment) if row["locality"] is not None})


def _draw_localities(
    results: Results,
    axes: Any,
    *,
    experiment: str,
    y: str,
    ylabel: str,
    advertisements: bool,
    strategy: str = "identity",
    log: bool = False,
) -> None:
    """Draw one curve for each degree of locality."""
    for number, locality in enumerate(localities(results, experiment)):
        points = results.series(
            experiment,
            "x",
            y,
            purpose="curve",
            strategy=strategy,
            advertisements=advertisements,
            locality=locality,
        )
        axes.plot(*points, "-", color=f"C{number}", marker=MARKERS[number], label=f"d = {locality:.2f}")
    _finish(axes, ylabel, log=log)


def _table_3(results: Results) -> Grid:
    """Return mean tables of routers by level, as shares of the subscriptions."""
    rows = results.rows(TABLES, purpose="published size", strategy="simple", advertisements=True)
    row: Row = max(rows, key=lambda found: float(found["x"] or 0))
    active = float(row["x"] or 1)
    routers = {1: 1, 2: 3, 3: 9, 4: 27}
    published = {1: 1.0, 2: 0.33, 3: 0.10, 4: 0.03}
    shares = {level: float(row[f"level_{level}"] or 0) / active for level in routers}
    return Grid(
        ("level", "routers", "table / x", "published"),
        [(level, count, round(shares[level], 4), published[level]) for level, count in routers.items()],
    )


def _figure(
    number: str, title: str, caption: str, experiment: str, draw: Callable[[Results, Any], None]
) -> Figure:
    return Figure("R", number, title, caption + SETUP, (experiment,), draw=draw)


TWO = (("simple", "quotes"), ("identity", "quotes"))
THREE = (("covering", "intervals"), ("merging", "intervals"), ("identity", "quotes"))
FOUR = (*TWO, ("covering", "intervals"), ("merging", "intervals"))

_rts = partial(_draw_strategies, experiment=TABLES, y="entries", ylabel=RTS)
_ffo = partial(_draw_strategies, experiment=OVERHEAD, y="overhead", ylabel=FFO)
_local_rts = partial(_draw_localities, experiment=LOCALITY, y="entries", ylabel=RTS)
_local_ffo = partial(_draw_localities, experiment=DYNAMICS, y="overhead", ylabel=FFO)
_ratio = partial(_draw_localities, experiment=DYNAMICS, y="break_even", ylabel=RATIO, log=True)

FIGURES = (
    _figure(
        "2",
        "Simple vs. identity (RTS)",
        "Simple routing's tables grow with every subscription, identity's end at one entry a symbol and link. Simple is"
        " simulated at two sizes, checked to be exactly proportional, and drawn in proportion.",
        TABLES,
        partial(_rts, curves=TWO),
    ),
    _figure(
        "3",
        "Covering vs. merging (RTS)",
        "On quote intervals; identity on quotes is added, on which merging's curves lie.",
        TABLES,
        partial(_rts, curves=THREE),
    ),
    Figure(
        "R",
        "Table 3",
        "RTS for simple routing with advertisements",
        "Mean table of the routers of a level, as a share of the active subscriptions, on 107 brokers at either scale.",
        (TABLES,),
        table=_table_3,
    ),
    _figure(
        "4",
        "Effect of advertisements (RTS)",
        "How many times smaller tables are with advertisements: a constant for simple routing, falling to 2 for"
        " identity, more slowly for covering.",
        TABLES,
        partial(_draw_factors, experiment=TABLES, y="entries", curves=FOUR),
    ),
    _figure(
        "5",
        "Simple vs. identity (FFO)",
        "Control messages that brokers process for a subscription or cancellation; half of the consumers are active on"
        " average.",
        OVERHEAD,
        partial(_ffo, curves=TWO),
    ),
    _figure(
        "6",
        "Covering vs. merging (FFO)",
        "On quote intervals, half of the consumers active; identity on quotes is added for comparison.",
        OVERHEAD,
        partial(_ffo, curves=THREE),
    ),
    _figure(
        "7",
        "Effect of advertisements (FFO)",
        "How many times fewer control messages there are with advertisements: for identity the help ends, for covering"
        " it lasts.",
        OVERHEAD,
        partial(_draw_factors, experiment=OVERHEAD, y="overhead", curves=FOUR),
    ),
    _figure(
        "8",
        "Identity (RTS with adv.)",
        "Tables by degree of locality d; nobody at the root's local broker, as in figures 9 to 16.",
        LOCALITY,
        partial(_local_rts, advertisements=True),
    ),
    _figure(
        "9",
        "Identity (FFO with adv.)",
        "Overhead by degree of locality d, half of the consumers active.",
        DYNAMICS,
        partial(_local_ffo, advertisements=True),
    ),
    _figure(
        "10",
        "Identity (RTS without adv.)",
        "Tables by degree of locality d.",
        LOCALITY,
        partial(_local_rts, advertisements=False),
    ),
    _figure(
        "11",
        "Identity (FFO without adv.)",
        "Overhead by degree of locality d, half of the consumers active.",
        DYNAMICS,
        partial(_local_ffo, advertisements=False),
    ),
    _figure(
        "12",
        "Saved payload cf. flooding",
        "Share of the event messages of flooding that filtering does not send, one quote of each symbol published at"
        " the root router. It is the same for all exact strategies.",
        LOCALITY,
        partial(
            _draw_localities,
            experiment=LOCALITY,
            y="saved",
            ylabel="saved share of payload",
            advertisements=True,
        ),
    ),
    _figure(
        "13",
        "Dynamics ratio, identity (with adv.)",
        "Events a subscription change above which filtering saves more messages than it costs.",
        DYNAMICS,
        partial(_ratio, advertisements=True),
    ),
    _figure(
        "14",
        "Dynamics ratio, identity (without adv.)",
        "As figure 13, without advertisements.",
        DYNAMICS,
        partial(_ratio, advertisements=False),
    ),
    _figure(
        "15",
        "Dynamics ratio, simple (with adv.)",
        "As figure 13, for simple routing, whose overhead does not fall; beyond two sizes it is taken as the constant"
        " it was, and payload from who is interested.",
        DYNAMICS,
        partial(_ratio, advertisements=True, strategy="simple", log=False),
    ),
    _figure(
        "16",
        "Dynamics ratio, simple (without adv.)",
        "As figure 15, without advertisements.",
        DYNAMICS,
        partial(_ratio, advertisements=False, strategy="simple", log=False),
    ),
)
