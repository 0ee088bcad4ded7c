"""Claims M1, M2 and M8 to M11: the examples, the number of trees, MULT2, times, and the bound of COMPUTETREE."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import log
from statistics import median

from covey.lab.claim import PRINTED as AS_PRINTED
from covey.lab.claim import Claim, Criterion, Reading, Verdict
from covey.lab.experiment import Cell, Results, Row, Value
from covey.lab.paper_m import examples, grids, stretch
from covey.lab.paper_m.claims_costs import ANYWHERE, AT_CENTRE, under
from covey.lab.paper_m.numbers import dimensions, listed, values
from covey.lab.paper_m.steps import PRINTED, STEPS, TIMES
from covey.lab.paper_m.world import DATA, real

KEYWORDS, SUBSCRIBERS = 1_000, 10  # of the paper, subscribers a keyword
FEWEST, MOST = 80, 100  # M8: trees at the minimum
FLAT = 1.02  # M8: so near to the least cost the number of trees says little
UP = 1.1  # M8: both ends of a U are so much above its minimum
BETTER = (0.02, 0.07)  # M9: 3 to 5 % better
FEWER = 0.1  # M9: up to 20 % fewer trees is read as at least half of that, somewhere
ORDERS = 100  # M10: orders of magnitude are at least two
LOW_STRETCH = "low stretch (star)"  # M11
OBLIVIOUS = ("shortest paths, random root", "minimum spanning, ties by chance")  # M11: look at no document
EQUAL = 1.02  # M11: what rounding and ties may add
MOSTLY = 0.95  # M11: share of networks


def judge_example(results: Results, example: str, why: str) -> Verdict:
    """M1 and M2: every printed number, exactly."""
    rows = results.rows(examples.NAME, example=example)
    if not rows:
        raise LookupError(f"there are no rows of example {example}")
    same = [row for row in rows if row["printed"] == row["found"]]
    largest = max(real(row, "n") for row in rows)
    shown = ", ".join(f"{row['what']} {real(row, 'found'):,g}" for row in rows if row["n"] == largest)
    return Verdict(
        f"{len(same)} of {len(rows)} numbers as printed; n = {largest:g}: {shown}",
        len(same) == len(rows),
        why,
    )


def judge_u_shape(results: Results) -> Verdict:
    """M8."""
    where = dimensions(results)
    curves = [results.rows(STEPS, scheme="mult", seed=seed, **where) for seed in _seeds(results)]
    every = [
        results.rows(STEPS, scheme=scheme, seed=seed, **where)
        for scheme in ("mult", "mult2")
        for seed in _seeds(results)
    ]
    lowest = [min(curve, key=_sample) for curve in curves]
    trees = [int(real(row, "trees")) for row in lowest]
    starts = [_sample(curve[0]) / _sample(low) for curve, low in zip(curves, lowest, strict=True)]
    ends = [_sample(curve[-1]) / _sample(low) for curve, low in zip(curves, lowest, strict=True)]
    falling = all(_falls(curve) for curve in every if curve)
    flat = [
        sorted(int(real(row, "trees")) for row in curve if _sample(row) <= FLAT * _sample(low))
        for curve, low in zip(curves, lowest, strict=True)
    ]
    # The text counts trees of 1,000 keywords; a smaller world has them in proportion.
    share = real(curves[0][0], "keywords") / KEYWORDS
    in_range = FEWEST * share <= median(trees) <= MOST * share
    return Verdict(
        f"least at {listed(trees, 'd')} trees by MULT (one a seed); all groups cost {listed(starts)} and one tree "
        f"{listed(ends)} times that; duplicates {'never rise' if falling else 'rise somewhere'}",
        min(*starts, *ends) >= UP and falling and in_range,
        f"{FEWEST * share:g} to {MOST * share:g} trees are looked for, with {KEYWORDS * share:g} keywords. Within "
        f"{FLAT - 1:.0%} of the least are {', '.join(f'{some[0]} to {some[-1]}' for some in flat)} trees. Cost on the "
        "sample, which is what each step of the algorithm looks at.",
        {
            "trees at the least": float(median(trees)),
            "all groups / least": min(starts),
            "one tree / least": min(ends),
        },
    )


def _sample(row: Cell) -> float:
    return real(row, "sample_cost")


def _seeds(results: Results) -> list[int]:
    return sorted(
        {int(real(row, "seed")) for row in results.rows(STEPS, scheme="mult", **dimensions(results))}
    )


def _falls(curve: Iterable[Row]) -> bool:
    """Return whether duplicates never rise from many trees to few."""
    ordered = sorted(curve, key=lambda row: -real(row, "trees"))
    return all(real(b, "duplicates") <= real(a, "duplicates") + 1e-9 for a, b in pairwise(ordered))


def judge_true_cost(results: Results) -> Verdict:
    """M9."""

    def gain(column: str, data: str) -> float:
        pairs = _pairs(results, column, data=data)
        return sum(1 - two / one for one, two in pairs) / len(pairs)

    gains = {data: gain("sample_cost", data) for data in DATA}
    on_all = {data: gain("all_cost", data) for data in DATA}
    fewer = [1 - two / one for data in DATA for one, two in _pairs(results, "trees", data=data)]
    return Verdict(
        f"{_by_data(gains)} cheaper than MULT on the sample; from {max(fewer):.0%} fewer trees to {-min(fewer):.0%} "
        "more",
        all(BETTER[0] <= share <= BETTER[1] for share in gains.values()) and max(fewer) >= FEWER,
        f"The sample is what both minimise. On all documents {_by_data(on_all)}.",
        {f"better, {data}": share for data, share in gains.items()} | {"fewer trees, at most": max(fewer)},
    )


def _by_data(shares: dict[str, float]) -> str:
    return ", ".join(f"{share:.1%} ({data})" for data, share in shares.items())


def _pairs(results: Results, column: str, **where: Value) -> list[tuple[float, float]]:
    """Return a column of MULT and of MULT2 for each network and seed."""
    one, two = (values(results, TIMES, column, scheme=scheme, **where) for scheme in ("mult", "mult2"))
    return list(zip(one, two, strict=True))


def judge_times(results: Results) -> Verdict:
    """M10."""
    printed = results.reading["algorithms"] == "printed"
    experiment, by = (PRINTED, "subscriptions") if printed else (TIMES, "brokers")
    found: dict[float, list[float]] = {}
    for row in results.rows(experiment, scheme="mult2", data="Localized1", **dimensions(results)):
        where = {key: row[key] for key in ("brokers", "keywords", "seed")}
        [one] = results.rows(experiment, scheme="mult", data="Localized1", **dimensions(results, **where))
        size = real(row, "keywords") * SUBSCRIBERS if printed else real(row, "brokers")
        found.setdefault(size, []).append(real(row, "seconds") / real(one, "seconds"))
    factors = {size: sum(some) / len(some) for size, some in sorted(found.items())}
    (small, first), (large, last) = min(factors.items()), max(factors.items())
    power = log(last / first) / log(large / small)
    whole = last * (KEYWORDS * SUBSCRIBERS / large) ** power if printed else last
    text = ", ".join(f"{factor:.1f} at {size:,.0f}" for size, factor in factors.items())
    reason = f"Processor time, {by} as sizes. "
    if printed:
        reason += (
            f"The factor grows with the power {power:.2f} of the size; at {KEYWORDS * SUBSCRIBERS:,} subscriptions it "
            f"would be {whole:,.0f}."
        )
    return Verdict(
        f"MULT2 takes so many times as long as MULT: {text}",
        whole >= ORDERS and power > 0,
        reason,
        {"at the largest size measured": last, "power of its growth": power, "at the paper's size": whole},
    )


def judge_bound(results: Results) -> Verdict:
    """M11."""
    rows = results.rows(stretch.NAME)
    by_world: dict[tuple[Value, ...], dict[str, Row]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("topology", "data", "words", "brokers", "seed"))
        by_world.setdefault(key, {})[str(row["tree"])] = row
    within = all(bool(row["within"]) for row in rows)
    chosen = [
        real(trees["COMPUTETREE"], "over") / min(real(row, "over") for row in trees.values())
        for trees in by_world.values()
    ]
    lower = sum(
        all(real(trees[LOW_STRETCH], "stretch") <= real(trees[kind], "stretch") * EQUAL for kind in OBLIVIOUS)
        for trees in by_world.values()
    )
    worst = max(rows, key=lambda row: real(row, "stretch"))
    kinds = dict.fromkeys(str(row["tree"]) for row in rows)
    means = {kind: _mean(results.rows(stretch.NAME, tree=kind), "stretch") for kind in kinds}
    costs = {kind: _mean(results.rows(stretch.NAME, tree=kind), "over") for kind in kinds}
    table = "; ".join(f"{kind} {means[kind]:.2f}, {costs[kind]:.2f}" for kind in kinds)
    share = lower / len(by_world)
    return Verdict(
        f"cost ≤ M × stretch for {'all' if within else 'not all'} {len(rows)} trees; COMPUTETREE costs at most "
        f"{max(chosen):.2f} times the cheapest kind; the low-stretch tree has the least stretch of the kinds that "
        f"do not "
        f"look at documents on {lower} of {len(by_world)} networks",
        within and max(chosen) <= EQUAL and share >= MOSTLY,
        f"Mean stretch and cost / OPT over all networks, on all documents: {table}. The bound log² n log log n itself "
        f"decides nothing: the worst tree, {worst['tree']}, has a stretch of {real(worst, 'stretch'):.1f} where it is "
        f"{real(worst, 'theory'):.0f}.",
        {"COMPUTETREE / cheapest kind": max(chosen), "networks with the least stretch": share},
    )


def _mean(rows: list[Row], column: str) -> float:
    return sum(real(row, column) for row in rows) / len(rows)


PLACES = (
    Reading("published at the centre", AT_CENTRE, under(grids.CENTRE)),
    Reading("published anywhere", ANYWHERE, under({}), "printed"),
)
STEP_READINGS = (
    *PLACES,
    Reading(
        "documents of one keyword",
        "On average each keyword is in around 5 documents (VII-A): few keywords a document.",
        under(grids.LIGHT),
    ),
    Reading(
        "a broker's keywords are its subscription",
        "A keyword is added to the subscriptions of up to 10 brokers (VII-A).",
        under(grids.BROKERS),
    ),
    Reading("plain transit-stub graph", "Networks were generated with GT-ITM (VII-A).", under(grids.PLAIN)),
)
ALGORITHMS = (
    Reading(
        "as printed: every subscription a group at first, all pairs",
        "Algorithm 2 looks at all pairs of groups and computes a tree for each (V); Algorithm 3 computes none to "
        "merge.",
        under({}, algorithms="printed"),
        "printed",
    ),
    Reading(
        "as built: pairs that share a document, classes of subscriptions",
        "Groups that share no document gain nothing from one tree (V), and need not be looked at.",
        under({}, algorithms="built"),
    ),
)

CLAIMS = (
    Claim(
        "M1",
        "M",
        "Example I.2: the Steiner tree costs Σ(i·x + 1), the tree of shortest paths n(x + 2) - 1.",
        (examples.NAME,),
        lambda results: judge_example(
            results,
            "I.2",
            "The first direct path is no better than the way over the horizontal one: hence the 1 that is taken "
            "off. No tree is cheaper than that of shortest paths, and COMPUTETREE finds one as cheap.",
        ),
        Criterion("every printed number exactly.", "I, example I.2"),
    ),
    Claim(
        "M2",
        "M",
        "Example I.3: one tree costs 3n/2 - 1, two cost n.",
        (examples.NAME,),
        lambda results: judge_example(
            results,
            "I.3",
            "Every spanning tree of the circle costs the same if the node opposite to the publisher has both "
            "subscriptions.",
        ),
        Criterion("every printed number exactly.", "I, example I.3"),
    ),
)
MORE_CLAIMS = (
    Claim(
        "M8",
        "M",
        "Cost against the number of trees is U-shaped with its least at 80 to 100 trees (500 brokers, Localized1); "
        "duplicates fall as groups merge.",
        (STEPS,),
        judge_u_shape,
        Criterion(
            "the median over seeds of the number of trees at the least cost is 80 to 100, in proportion to 1,000 "
            "keywords; both ends cost at least 10 % more; duplicates never rise.",
            "VII-D, figures 6 and 7",
            after_looking=True,
        ),
        STEP_READINGS,
        by_seed=True,
    ),
    Claim(
        "M9",
        "M",
        "MULT2 is 3 to 5 % better than MULT, with up to 20 % fewer trees.",
        (TIMES,),
        judge_true_cost,
        Criterion(
            "3 to 5 % is 2 to 7 % on each data set on average, up to 20 % fewer trees is at least 10 % somewhere.",
            "VII-D",
            after_looking=True,
        ),
        PLACES,
        by_seed=True,
    ),
    Claim(
        "M10",
        "M",
        "MULT is several orders of magnitude faster than MULT2 and scales better with the network.",
        (TIMES, PRINTED),
        judge_times,
        Criterion(
            "MULT2 takes at least 100 times as long as MULT at the paper's size, measured or by the growth that "
            "was measured, and the factor grows with the size.",
            "VII-D, figure 8",
        ),
        ALGORITHMS,
        by_seed=True,
    ),
    Claim(
        "M11",
        "M",
        "The tree of COMPUTETREE is within O(log² n log log n) of the optimum, by the average stretch of the "
        "low-stretch tree.",
        (stretch.NAME,),
        judge_bound,
        Criterion(
            "cost ≤ M × stretch for every tree; COMPUTETREE at most 2 % above the cheapest kind; the low-stretch "
            "tree has the least stretch of the kinds that do not look at documents on 95 % of networks.",
            "IV, theorem IV.1",
            after_looking=True,
        ),
        (AS_PRINTED,),
        by_seed=True,
    ),
)
