"""Figures 6 to 9: mean and largest tables, and how many times they are smaller with XROUTE.

A full marker is a simulation, a hollow one the reduction (`tables`). Dotted lines are what the paper says in words; its
figures' own points are not in print as numbers.
"""

from __future__ import annotations

from typing import Any

from covey.lab.experiment import Results
from covey.lab.figure import Figure
from covey.lab.paper_x.curves import Curve, curve, max_gain, mean_gain, size_of
from covey.lab.paper_x.tables import NAME

SETUP = (
    "Transit-stub network of 64 routers, 24 consumers' brokers and 1 producer, reduced to the tree of shortest paths "
    "from the producer. Tree patterns of height up to 10, p* = p// = 0.1, pλ = 0.1, θ = 1, each walk to its full "
    "height, over Covey's newspaper document type (123 elements, 513 attributes), which stands in for NITF. Tables of "
    "the 64 routers, in distinct filters. Full markers are simulated, hollow ones computed from the strategy's "
    "reduction, which claim X3 compares with every simulation."
)
NAMES = {"xroute": "XROUTE", "identity": "simple", "match-first": "match-first"}
COLOURS = {"xroute": "tab:blue", "identity": "tab:red", "match-first": "tab:green"}


def draw_mean_sizes(results: Results, axes: Any) -> None:
    """Draw Figure 6."""
    for strategy in ("identity", "xroute"):
        for unique in (True, False):
            line = curve(results, "mean_filters", strategy, unique=unique)
            _plot(axes, line, f"{NAMES[strategy]}, {_set(unique)}", COLOURS[strategy], _style(unique))
    _finish(axes, "mean table size (filters)", logarithmic=True)


def draw_mean_gain(results: Results, axes: Any) -> None:
    """Draw Figure 7."""
    for unique in (True, False):
        line = mean_gain(results, unique=unique)
        _plot(axes, line, f"simple / XROUTE, {_set(unique)}", COLOURS["xroute"], _style(unique))
    _said(axes, 5, "paper: more than 5")
    _finish(axes, "ratio of mean table sizes")


def draw_largest_sizes(results: Results, axes: Any) -> None:
    """Draw Figure 8."""
    for strategy, name in NAMES.items():
        line = curve(results, size_of(strategy), strategy, unique=False)
        _plot(axes, line, name, COLOURS[strategy], "-")
    _finish(axes, "largest table size (filters)", logarithmic=True)


def draw_largest_gain(results: Results, axes: Any) -> None:
    """Draw Figure 9."""
    for strategy in ("match-first", "identity"):
        line = max_gain(results, strategy)
        _plot(axes, line, f"{NAMES[strategy]} / XROUTE", COLOURS[strategy], "-")
    _said(axes, 43, "paper: up to 43 (match-first)", COLOURS["match-first"])
    _said(axes, 14, "paper: up to 14 (simple)", COLOURS["identity"])
    _finish(axes, "ratio of largest table sizes")


def _set(unique: bool) -> str:
    return "unique" if unique else "multiple"


def _style(unique: bool) -> str:
    return "-" if unique else "--"


def _plot(axes: Any, line: Curve, label: str, colour: str, style: str) -> None:
    axes.plot(line.sizes, line.values, style, color=colour, label=label)
    for size, value, simulated in zip(*line, strict=True):
        axes.plot([size], [value], "o", color=colour, markersize=4, fillstyle="full" if simulated else "none")


def _said(axes: Any, value: float, label: str, colour: str = "grey") -> None:
    axes.axhline(value, color=colour, linestyle=":", linewidth=1, label=label)


def _finish(axes: Any, label: str, *, logarithmic: bool = False) -> None:
    axes.set_xlabel("number of subscriptions")
    axes.set_ylabel(label)
    if logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)


FIGURES = (
    Figure(
        "X",
        "6",
        "Mean size of routing tables",
        f"XROUTE and simple routing, unique and multiple sets; sizes on a logarithmic axis. {SETUP}",
        (NAME,),
        draw=draw_mean_sizes,
    ),
    Figure(
        "X",
        "7",
        "Mean sizes: simple by XROUTE",
        f"How many times the mean table is smaller with XROUTE, unique and multiple sets. {SETUP}",
        (NAME,),
        draw=draw_mean_gain,
    ),
    Figure(
        "X",
        "8",
        "Largest routing tables",
        "XROUTE, simple and match-first routing, multiple sets; sizes on a logarithmic axis. Match-first has an entry "
        f"for each subscription, at the router next to the producer. {SETUP}",
        (NAME,),
        draw=draw_largest_sizes,
    ),
    Figure(
        "X",
        "9",
        "Largest tables: match-first and simple by XROUTE",
        f"How many times the largest table is smaller with XROUTE, multiple sets. {SETUP}",
        (NAME,),
        draw=draw_largest_gain,
    ),
)
