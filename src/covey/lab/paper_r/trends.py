"""Claims R7 to R12: how curves lie to each other, and what locality does.

The paper has curves and words where numbers are needed: what was taken for "close" or "clearly" stands here by name and
in the claim's reason. What is drawn at random differs a little from what is expected: where a curve must not rise or
fall, so much as NOISE is let pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from covey.lab.claim import Claim, Criterion, Reading, Verdict
from covey.lab.experiment import Results, Value
from covey.lab.paper_r.figures import DYNAMICS, LOCALITY, OVERHEAD, TABLES, factors, localities
from covey.lab.paper_r.numbers import at_sizes, number, whole

CLOSE = 1.25  # one curve is close to another: within this factor of it
CLEARLY = 1.10  # clearly above it: by more than this factor at every size
NOISE = 1.05
NO_HELP = 1.10  # advertisements no longer help
LASTING_HELP = 1.5

NOT_MEASURED = Verdict("not measured", holds=False, reason="rows are missing")


def _falls(values: Sequence[float], noise: float = NOISE) -> bool:
    """Return whether no value is above the one before it, but for noise, and the last is below the first."""
    return all(b <= a * noise for a, b in pairwise(values)) and values[-1] < values[0]


def judge_covering_of_intervals(results: Results) -> Verdict:
    """R7: intervals are harder to reduce by covering than quotes by identity, and hopeless for identity."""
    holds, texts = True, []
    for advertisements, words in ((True, "with"), (False, "without")):
        where: dict[str, Value] = {"advertisements": advertisements}
        quotes = at_sizes(results, TABLES, "entries", strategy="identity", kind="quotes", **where)
        covering = at_sizes(results, TABLES, "entries", strategy="covering", kind="intervals", **where)
        plain = at_sizes(results, TABLES, "entries", strategy="simple", kind="quotes", **where)
        identity = at_sizes(results, TABLES, "entries", strategy="identity", kind="intervals", **where)
        sizes = [size for size in quotes if size in covering]
        if len(sizes) < 2 or not identity:
            return NOT_MEASURED
        before, last = sizes[-2:]
        slower = covering[last] / covering[before] > quotes[last] / quotes[before]
        shares = [entries / plain[size] for size, entries in identity.items()]
        holds &= all(covering[size] > quotes[size] for size in sizes) and slower
        holds &= min(shares) > 0.95
        texts.append(
            f"{words} adv. {covering[last] / quotes[last]:.2f} times identity on quotes at the end; last step"
            f" ×{covering[last] / covering[before]:.2f} against ×{quotes[last] / quotes[before]:.2f}; identity on"
            f" intervals at least {min(shares):.3f} of simple"
        )
    return Verdict("; ".join(texts), holds)


def judge_merging_of_quotes(results: Results) -> Verdict:
    """R8: all quotes behind a link are one entry."""
    holds, texts = True, []
    for advertisements, factor in ((False, 2), (True, 1)):
        rows = results.rows(TABLES, strategy="merging", kind="quotes", advertisements=advertisements)
        if not rows:
            return NOT_MEASURED
        most = max(whole(row, "entries") for row in rows)
        bound = factor * (whole(rows[0], "brokers") - 1)
        holds &= most <= bound
        texts.append(f"at most {most} of {bound} {'with' if advertisements else 'without'} advertisements")
    return Verdict("; ".join(texts), holds)


def judge_merging_of_intervals(results: Results) -> Verdict:
    """R9: all intervals of a symbol behind a link are one entry, as all its quotes are under identity."""
    differences = compared = 0
    for advertisements in (True, False):
        where: dict[str, Value] = {"advertisements": advertisements}
        identity = at_sizes(results, TABLES, "entries", strategy="identity", kind="quotes", **where)
        merging = at_sizes(results, TABLES, "entries", strategy="merging", kind="intervals", **where)
        compared += len(merging)
        differences += sum(identity.get(size) != entries for size, entries in merging.items())
    return Verdict(f"{differences} differences in {compared} sizes", compared > 0 and not differences)


def _merging_to_covering(results: Results, advertisements: bool) -> dict[int, float]:
    """Return merging's overhead on intervals as a share of covering's, by consumers a local broker."""
    where: dict[str, Value] = {"kind": "intervals", "advertisements": advertisements}
    merger = str(results.reading.get("mergers", "merging-rebeca"))
    covering = at_sizes(results, OVERHEAD, "overhead", strategy="covering", **where)
    merging = at_sizes(results, OVERHEAD, "overhead", strategy=merger, **where)
    return {size: value / covering[size] for size, value in merging.items() if size in covering}


def judge_overhead(results: Results) -> Verdict:
    """R10: overhead of identity, covering and merging, and whether advertisements help."""
    identity = [
        list(at_sizes(results, OVERHEAD, "overhead", strategy="identity", advertisements=flag).values())
        for flag in (True, False)
    ]
    help_identity = factors(results, OVERHEAD, "overhead", ("identity", "quotes"))[1]
    help_covering = factors(results, OVERHEAD, "overhead", ("covering", "intervals"))[1]
    with_them, without = (list(_merging_to_covering(results, flag).values()) for flag in (True, False))
    if not all((*identity, help_identity, help_covering, with_them, without)):
        return NOT_MEASURED
    parts = {
        "identity falls with x": all(_falls(values) for values in identity),
        "advertisements stop helping identity": help_identity[-1] < NO_HELP,
        "they keep helping covering": help_covering[-1] > LASTING_HELP,
        "merging is close to covering with them": all(1 / CLOSE < ratio < CLOSE for ratio in with_them),
        "merging is clearly above covering without them": all(ratio > CLEARLY for ratio in without),
    }
    broken = [part for part, holds in parts.items() if not holds]
    reason = f"Not so: {'; '.join(broken)}." if broken else ""
    measured = (
        f"identity {identity[0][0]:.2f}→{identity[0][-1]:.2f} with and {identity[1][0]:.2f}→{identity[1][-1]:.2f}"
        f" without adv.; adv. help identity ×{help_identity[-1]:.2f} and covering ×{help_covering[-1]:.2f} at the end;"
        f" merging / covering {_span(with_them)} with and {_span(without)} without"
    )
    values = {
        "merging / covering with adv., at most": max(with_them),
        "without adv., at least": min(without),
        "without adv., at the end": without[-1],
        "adv. help covering": help_covering[-1],
    }
    return Verdict(measured, not broken, reason, values)


def _span(values: Sequence[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


def _bounds(results: Results) -> tuple[bool, bool]:
    """Return whether tables keep the paper's bounds; and so when the idle local broker's is counted, too."""
    kept = counted = True
    for row in results.rows(LOCALITY):
        symbols, window = whole(row, "symbols"), whole(row, "window")
        most = window if row["advertisements"] else 2 * (2 * symbols + window) / 3
        bound = most * (whole(row, "brokers") - 2)
        entries = whole(row, "entries")
        counted &= entries <= bound
        kept &= entries - whole(row, "entries_of_idle_local_brokers") <= bound
    return kept, counted


def _falls_with_locality(
    results: Results, experiment: str, measure: str, advertisements: bool
) -> dict[int, float]:
    """Return by which share a measure of identity falls at most from one d to the next, by size; 0 if never."""
    where: dict[str, Value] = {"strategy": "identity", "advertisements": advertisements}
    degrees = localities(results, experiment)
    curves = [at_sizes(results, experiment, measure, locality=d, **where) for d in degrees]
    return {
        size: max([0.0, *(1 - upper[size] / lower[size] for lower, upper in pairwise(curves) if lower[size])])
        for size in curves[0]
    }


def _from_where(falls: Mapping[int, float]) -> str:
    """Return in words from which size on a measure does not fall by more than chance."""
    late = [size for size, fall in falls.items() if fall >= NOISE - 1]
    sizes = [size for size in falls if size > max(late, default=0)]
    return f"from {min(sizes)} consumers a local broker on" if sizes else "nowhere"


def judge_locality(results: Results) -> Verdict:
    """R11: bounds of tables, what grows with d, and what payload is saved."""
    full = results.rows(LOCALITY, purpose="saturation", advertisements=True)
    if not full or not results.has((DYNAMICS,)):
        return NOT_MEASURED
    kept, counted = _bounds(results)
    tables = max(
        max(_falls_with_locality(results, LOCALITY, "entries", flag).values()) for flag in (True, False)
    )
    by_size = [_falls_with_locality(results, DYNAMICS, "overhead", flag) for flag in (True, False)]
    overhead = [max(falls.values()) for falls in by_size]
    ends = []
    exact = True
    for row in sorted(full, key=lambda found: number(found, "locality")):
        d = whole(row, "window") / whole(row, "symbols")
        links = whole(row, "brokers") - 1
        exact &= abs(number(row, "saved") - (1 - d * (links - 1) / links)) < 1e-12
        ends.append(f"{number(row, 'saved'):.3f} for 1-d = {1 - d:.3f}")
    reason = (
        "Saved payload ends at 1 - d(|V|-2)/(|V|-1): flooding also reaches the idle local broker of the root."
    )
    if not counted:
        reason += (
            " The bound without advertisements leaves out that broker's table, which can hold every symbol."
        )
    if max(tables, *overhead):
        reason += (
            f" A fall of up to {NOISE - 1:.0%} is taken for chance. Between thirds of the symbols more is not chance:"
            " three subnets' windows of a third, two thirds or all of the symbols, laid around the circle, share every"
            " symbol equally often; windows of a half or five sixths overlap unevenly, so that the symbols of the"
            " overlaps are asked for twice as often as others."
        )
    if max(overhead) >= NOISE - 1:
        reason += f" FFO without advertisements falls by less {_from_where(by_size[1])}."
    return Verdict(
        f"bounds {'kept' if kept else 'broken'}; from one d to the next RTS falls by {tables:.1%} at most, FFO by"
        f" {overhead[0]:.1%} with and {overhead[1]:.1%} without adv.; saved in the end {', '.join(ends)}",
        kept and max(tables, *overhead) < NOISE - 1 and exact,
        reason,
        {"RTS falls by": tables, "FFO falls by, with adv.": overhead[0], "without adv.": overhead[1]},
    )


def judge_dynamics(results: Results) -> Verdict:
    """R12: identity pays off in livelier systems the more subscriptions there are, simple routing in calmer ones."""
    holds, texts = results.has((DYNAMICS,)), []
    for strategy in ("identity", "simple"):
        for flag, words in ((True, "with"), (False, "without")):
            spans = []
            for d in localities(results, DYNAMICS):
                where: dict[str, Value] = {"strategy": strategy, "advertisements": flag, "locality": d}
                ratios = list(at_sizes(results, DYNAMICS, "break_even", **where).values())
                if len(ratios) < 2:
                    return NOT_MEASURED
                holds &= _falls(ratios if strategy == "identity" else ratios[::-1])
                spans.append(f"{ratios[0]:.3f}→{ratios[-1]:.3f}")
            texts.append(f"{strategy} {words} adv. {', '.join(spans)}")
    return Verdict(
        "; ".join(texts) + f" (by d = {_span(localities(results, DYNAMICS))})",
        holds,
        "Overhead and saved payload are read in one state, half of the consumers active, a quote of each symbol.",
    )


MERGERS = (
    Reading(
        "a merger is dissolved when a part cancels",
        "Entries of one destination are merged, and a cancelled part takes its merger with it: the other parts are told"
        " again (4.4).",
        {"mergers": "merging-rebeca"},
        "printed",
    ),
    Reading(
        "what is told is a function of what a neighbour must know",
        "Merging tells a neighbour a filter for several (4.4); how a merger shrinks is not said.",
        {"mergers": "merging"},
    ),
)
THIRDS = (1 / 3, 2 / 3, 1.0)
DEGREES = (
    Reading(
        "d in thirds",
        "Each of the three subnets asks for a share d of the symbols, d from 1/3 to 1 (5.4): in thirds all symbols are"
        " shared alike.",
        {"locality": THIRDS},
    ),
    Reading("d in sixths", "d is any number from 1/3 to 1 (5.4).", kind="printed"),
)

TREND_CLAIMS = (
    Claim(
        "R7",
        "R",
        "Covering on quote intervals keeps more and converges more slowly than identity on quotes; identity on"
        " intervals is close to simple.",
        (TABLES,),
        judge_covering_of_intervals,
        Criterion(
            "covering on intervals above identity on quotes at every size and growing more in the last step; "
            "identity on intervals at least 95 % of simple.",
            "5.2, figure 3",
        ),
    ),
    Claim(
        "R8",
        "R",
        "Merging on quotes: ΣR is at most 2(|V|-1), with advertisements |V|-1.",
        (TABLES,),
        judge_merging_of_quotes,
        Criterion("the bound in every row.", "5.2"),
    ),
    Claim(
        "R9",
        "R",
        "Merging on quote intervals has the RTS of identity on quotes.",
        (TABLES,),
        judge_merging_of_intervals,
        Criterion("no difference at any size.", "5.2, figure 3"),
    ),
    Claim(
        "R10",
        "R",
        "FFO falls with x for identity; advertisements stop helping it and keep helping covering; merging is close to"
        " covering with advertisements, clearly above without.",
        (OVERHEAD, TABLES),
        judge_overhead,
        Criterion(
            "FFO falls with every size for identity; at the end advertisements help identity by less than 1.1 and "
            "covering "
            "by more than 1.5; close is within a factor of 1.25 at every size, clearly above is more than 1.1 at "
            "every size.",
            "5.3, figures 5 to 7",
            after_looking=True,
        ),
        MERGERS,
        by_seed=True,
    ),
    Claim(
        "R11",
        "R",
        "Locality d: ΣR ≤ d·m(|V|-2) with advertisements, ≤ 2(2+d)/3·m(|V|-2) without; RTS and FFO grow with d; saved"
        " payload tends to 1-d.",
        (LOCALITY, DYNAMICS),
        judge_locality,
        Criterion(
            "the bounds in every row; RTS and FFO fall by less than 5 % from one d to the next, at every size; "
            "saved payload "
            "exactly 1 - d(|V|-2)/(|V|-1) where every symbol is asked for.",
            "5.4, figures 8 to 12",
            after_looking=True,
        ),
        DEGREES,
        "Between 1/3 and 1/2 the expectation itself falls: see the reason.",
        by_seed=True,
    ),
    Claim(
        "R12",
        "R",
        "The ratio of events to subscription changes at break-even falls with x for identity and rises for simple.",
        (DYNAMICS,),
        judge_dynamics,
        Criterion("falls, or rises, from every size to the next, but for 5 %.", "5.4, figures 13 to 16"),
    ),
)
