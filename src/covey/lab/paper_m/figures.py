"""Figures 4 to 8, drawn under the judged reading, and the tables beside them: other readings, counts, and our own aims.

The paper's points are not in print as numbers; what it says in words is on the scoreboard.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from covey.lab.experiment import Results, Value
from covey.lab.figure import Figure
from covey.lab.paper_m import beyond, costs, steps, stretch
from covey.lab.paper_m.tables import counts_table, fresh_table, readings_table, regions_table, stretch_table
from covey.lab.paper_m.world import DATA, JUDGED, READING

SETUP = (
    f" Reading: {READING}. Paper scale: 1,000 keywords at up to 10 brokers each, 10,000 documents, links cost 1. "
    "Small scale: 150 and 300 brokers, 100 keywords, 1,000 documents, a sample of 10 %."
)
COST = "links crossed a document"
SCHEMES = {
    "flooding": ("SPT, flooding", "tab:gray"),
    "spt": ("SPT", "tab:brown"),
    "semcast merge+split": ("SemCast", "tab:purple"),
    "semcast merge+split filtered": ("SemCast, filtering", "tab:pink"),
    "single": ("SINGLE", "tab:red"),
    "mult": ("MULT", "tab:blue"),
    "opt": ("OPT", "tab:green"),
}
COLOURS = dict(zip(DATA, ("tab:blue", "tab:orange", "tab:green"), strict=True))


def draw_sampling(results: Results, axes: Any, *, topology: str) -> None:
    """Draw figure 4: MULT and SINGLE by the share that is sampled."""
    where: dict[str, Value] = {**JUDGED, "topology": topology, "ten_thousand": "all"}
    for data, colour in COLOURS.items():
        for scheme, style in (("mult", "o-"), ("single", "s--")):
            points = results.series(costs.SAMPLING, "share", "all_cost", scheme=scheme, data=data, **where)
            axes.plot(*points, style, color=colour, label=f"{scheme.upper()}, {data}")
        least = results.series(costs.SAMPLING, "share", "all_cost", scheme="opt", data=data, **where)[1]
        axes.axhline(least[0], color=colour, linestyle=":", linewidth=1, label=f"OPT, {data}")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    _finish(axes, "share of the documents that the plan was made with", f"{COST}, all documents")


def draw_costs(results: Results, axes: Any, *, data: str) -> None:
    """Draw figure 5: every scheme by the size of the network."""
    for scheme, (name, colour) in SCHEMES.items():
        where: dict[str, Value] = {**JUDGED, "scheme": scheme, "data": data}
        axes.plot(
            *results.series(costs.COSTS, "brokers", "all_cost", **where), "o-", color=colour, label=name
        )
        if scheme == "mult":
            sample = results.series(costs.COSTS, "brokers", "sample_cost", **where)
            axes.plot(*sample, "x--", color=colour, label="MULT, on its sample alone")
    axes.set_yscale("log")
    _finish(axes, "brokers", f"{COST}, all documents")


def draw_steps(results: Results, axes: Any, *, column: str, label: str) -> None:
    """Draw figures 6 and 7: a line for each seed, from all groups to one."""
    lines: tuple[tuple[str, ...], ...] = (
        ("mult", column, "MULT", "tab:blue", "-"),
        ("mult2", column, "MULT2", "tab:orange", "-"),
    )
    if column == "sample_cost":
        lines = (*lines, ("mult", "fresh_cost", "MULT, fresh documents", "tab:cyan", "--"))
    for scheme, drawn, name, colour, style in lines:
        rows = results.rows(steps.STEPS, scheme=scheme, **JUDGED)
        for number, seed in enumerate(dict.fromkeys(row["seed"] for row in rows)):
            points = results.series(steps.STEPS, "trees", drawn, scheme=scheme, seed=seed, **JUDGED)
            axes.plot(*points, style, color=colour, linewidth=1, label=None if number else name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    _finish(axes, "trees (merging goes to the left)", label)


def draw_times(results: Results, axes: Any) -> None:
    """Draw figure 8."""
    where: dict[str, Value] = {**JUDGED, "data": "Localized1"}
    for scheme, colour in (("mult2", "tab:orange"), ("hybrid", "tab:green"), ("mult", "tab:blue")):
        points = results.series(steps.TIMES, "brokers", "seconds", scheme=scheme, **where)
        axes.plot(
            *points, "o-", color=colour, label=f"{scheme.upper() if scheme != 'hybrid' else scheme}, seconds"
        )
        trees = results.series(steps.TIMES, "brokers", "evaluations", scheme=scheme, **where)
        thousands = [value / 1_000 for value in trees[1]]
        axes.plot(trees[0], thousands, "x:", color=colour, label=f"{scheme}, thousands of trees computed")
    axes.set_yscale("log")
    _finish(axes, "brokers", "processor seconds, thousands of trees")


def _finish(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend()


def _sampling(letter: str, topology: str, words: str) -> Figure:
    return Figure(
        "M",
        f"4{letter}",
        f"Effect of sampling on the communication cost, {topology}",
        f"Planned on a share of the documents, costed on all of them; {words}. The paper's figure has 2,000 "
        f"brokers.{SETUP}",
        (costs.SAMPLING,),
        draw=partial(draw_sampling, topology=topology),
    )


def _costs(letter: str, data: str, words: str) -> Figure:
    return Figure(
        "M",
        f"5{letter}",
        f"Communication cost of various schemes, {data}",
        f"{words} SPT is drawn twice: documents go only where they are wanted, and everywhere. SemCast is a "
        "reconstruction that merges and splits channels. Crosses: MULT's cost on the documents that it was planned "
        f"on.{SETUP}",
        (costs.COSTS,),
        draw=partial(draw_costs, data=data),
    )


FIGURES = (
    _sampling("a", "TSX2", "one tree hardly gains beyond 3 %, groups do"),
    _sampling("b", "TS", "without extra links there is little to gain for anybody"),
    _costs("a", "Localized1", "Keywords at up to 10 of the nearest 2 % of brokers."),
    _costs("b", "Localized2", "Keywords at up to 10 of the nearest 15 % of brokers."),
    _costs("c", "Uniform", "Keywords at 10 brokers anywhere."),
    Figure(
        "M",
        "Table of readings",
        "Figure 5 under other readings of the data",
        "The smallest network; cost on all documents as a multiple of OPT, in brackets on the sample. A "
        "subscription is a broker's or a keyword's; SemCast merges and splits, and filters in the column after it. "
        "Held-out, ours: groups and trees by two thirds of the sample, their number by the last third, before "
        "trees are fitted to all of it.",
        (costs.COSTS,),
        table=readings_table,
    ),
    Figure(
        "M",
        "6",
        "Variation of cost with number of trees",
        "Cost on the sample at every step of MULT and MULT2, a line for each seed; 500 brokers, Localized1. MULT2 "
        f"ends at its least. Dashed, ours: MULT's groups and trees on the documents that were not sampled.{SETUP}",
        (steps.STEPS,),
        draw=partial(draw_steps, column="sample_cost", label=f"{COST}, sample"),
    ),
    Figure(
        "M",
        "7",
        "Variation of number of duplicates with number of trees",
        f"How often a broker gets a sampled document again, on average; 500 brokers, Localized1.{SETUP}",
        (steps.STEPS,),
        draw=partial(draw_steps, column="duplicates", label="duplicates a document, sample"),
    ),
    Figure(
        "M",
        "8",
        "Comparison of running times for various schemes",
        "Processor time of one core, and how many groups a tree was computed for. MULT tries every number of "
        f"groups; MULT2 looks only at pairs that share a document. Localized1.{SETUP}",
        (steps.TIMES,),
        draw=draw_times,
    ),
    Figure(
        "M",
        "Table of counts",
        "Trees computed by MULT, MULT2 and the hybrid",
        "As built, and as printed (every subscription a group at first, all pairs); what each ends with, cost a "
        f"document on the sample and on all.{SETUP}",
        (steps.TIMES,),
        table=counts_table,
    ),
    Figure(
        "M",
        "Table of trees",
        "Stretch and cost of kinds of spanning trees",
        "Average stretch by multiplicity, and in brackets cost over that of the documents' Steiner trees; for all "
        "documents, smallest network (500 brokers at paper scale), a subscription for each (broker, keyword), near "
        "1.",
        (stretch.NAME,),
        table=stretch_table,
    ),
    Figure(
        "M",
        "Ours 1",
        "Fresh documents: plans chosen on documents held out, against one tree",
        "Ours, not in the paper. Cost on documents that no plan has seen, over that of one tree planned on the "
        "same sample; mean and, in brackets, the worst of all readings (a subscription is a broker's or a "
        "keyword's; 1 or 3 words) and seeds. Above 1 is worse than one tree. The paper's MULT takes the number of "
        "groups that is best on its own sample; held-out and regions choose on a third of the sample, and keep one "
        "tree if it is as good there. 500 brokers and a sample of 300 of 10,000 documents at paper scale.",
        (beyond.FRESH,),
        table=fresh_table,
    ),
    Figure(
        "M",
        "Ours 2",
        "One copy by region, planned without a sample, against Steiner trees",
        "Ours, not in the paper. Cost on all documents over that of their Steiner trees, worst of the seeds; the "
        "aim is 1.25. Single and MULT are planned on 3 %, regions from hosts alone. A subscription for each "
        "(broker, keyword), 3 words of one broker.",
        (beyond.REGIONS,),
        table=regions_table,
    ),
)
