"""Claims X1 to X7, judged from kept rows. X1, X2, X6 and X7 are exact; X3, X4 and X5 are of sizes of tables.

Sizes are judged at the largest number of subscriptions that was computed, for walks of full height; what the other
reading of patterns gives is said with it (see `population`).
"""

from __future__ import annotations

from covey.lab.claim import Claim, Verdict
from covey.lab.experiment import Results
from covey.lab.paper_x import example, properties, tables
from covey.lab.paper_x.curves import Curve, curve, imbalance, max_gain, mean_gain

PAPER_SIZE = 50_000
MEAN_GAIN = 5
MAX_GAIN_SIMPLE, MAX_GAIN_MATCH_FIRST = 14, 43
IMBALANCE_XROUTE, IMBALANCE_SIMPLE = 5, 10
ABOUT = 0.25  # "about" is within a quarter


def total(results: Results, column: str, **where: str) -> int:
    """Return the sum of a column over all random networks."""
    return sum(int(row[column] or 0) for row in results.rows(properties.NAME, **where))


def judge_perfect_routing(results: Results) -> Verdict:
    """X1."""
    faults = {
        column.replace("_", " "): total(results, column)
        for column in ("lost", "duplicates", "unwanted", "needless_hops")
    }
    found = ", ".join(f"{count} {what}" for what, count in faults.items())
    return Verdict(
        f"{total(results, 'events'):,} documents at {total(results, 'moments'):,} moments of rest: {found}",
        total(results, "events") > 0 and not any(faults.values()),
        "both forms of XROUTE, with the repairs of docs/strategies/xroute.md; as printed, it loses events",
    )


def judge_cancelling(results: Results) -> Verdict:
    """X2."""
    tried = total(results, "restorations", strategy="xroute")
    moved = total(results, "arrangement_changes", strategy="xroute")
    changed = total(results, "canonical_changes") + total(results, "left_over")
    return Verdict(
        f"filters, own counts and what was told: {changed} differences after {total(results, 'restorations')} "
        f"registrations cancelled at once; who stands for whom: {moved} of {tried} differ (xroute)",
        tried > 0 and changed == 0,
        "true of everything that routing depends on; not literally of Ptr, R and z, where one of several valid "
        "choices may be another one afterwards",
    )


def judge_mean_gain(results: Results) -> Verdict:
    """X3."""
    unique, multiple = (mean_gain(results, unique=kind) for kind in (True, False))
    pairs = mean_gain(results, unique=False, column="mean_entries")
    agreed, compared = agreement(results)
    return Verdict(
        f"{unique.last:.1f} times (unique), {multiple.last:.1f} (multiple) at {_size(unique)}; "
        f"from {unique.values[0]:.1f} and {multiple.values[0]:.1f} at {unique.sizes[0]:,}",
        min(unique.last, multiple.last) > MEAN_GAIN
        and unique.widens
        and multiple.widens
        and agreed == compared,
        f"{_scale(unique)}{'' if unique.widens and multiple.widens else 'not every step widens it; '}"
        f"{pairs.last:.1f} (multiple) if pairs of link and filter are counted; {_other_reading(results)}; "
        f"simulated tables and messages equal computed ones in {agreed} of {compared} cases",
    )


def judge_max_gain(results: Results) -> Verdict:
    """X4."""
    simple, match_first = (max_gain(results, strategy) for strategy in ("identity", "match-first"))
    even = [max(max_gain(results, s, walks="even").values) for s in ("identity", "match-first")]
    return Verdict(
        f"up to {max(simple.values):.0f} times smaller than simple, {max(match_first.values):.0f} than match-first "
        f"({simple.last:.0f} and {match_first.last:.0f} at {_size(simple)})",
        max(simple.values) >= MAX_GAIN_SIMPLE and max(match_first.values) >= MAX_GAIN_MATCH_FIRST,
        f"{_scale(simple)}multiple sets; read as at least so many. It depends on how much patterns cover each other: "
        f"here all are covered by {_left(results)}, which the producer's broker has. With walks of even height, where "
        f"the root alone is a common pattern, up to {even[0]:,.0f} and {even[1]:,.0f}",
    )


def judge_imbalance(results: Results) -> Verdict:
    """X5."""
    xroute, simple = (imbalance(results, strategy) for strategy in ("xroute", "identity"))
    used = [imbalance(results, strategy, used=True).last for strategy in ("xroute", "identity")]
    largest = curve(results, "max_filters", "xroute", unique=False).last
    is_about = abs(simple.last - IMBALANCE_SIMPLE) <= ABOUT * IMBALANCE_SIMPLE
    sizes = zip(xroute.sizes, xroute.values, strict=True)
    above = [f"{size:,}" for size, value in sizes if value >= IMBALANCE_XROUTE]
    return Verdict(
        f"{xroute.last:.1f} with XROUTE, {simple.last:.1f} with simple at {_size(xroute)}",
        xroute.last < IMBALANCE_XROUTE and is_about,
        f"{_scale(xroute)}multiple sets, means over all 64 routers; {_not_below(above)}over routers with consumers "
        f"behind them alone {used[0]:.1f} and {used[1]:.1f}. Simple routing's is given by the topology. XROUTE's "
        f"largest table has {largest:.0f} filters, though only {_left(results)} must be told to the producer's broker: "
        "what is substituted is kept where it came over different links, near the producer above all",
    )


def judge_example(results: Results) -> Verdict:
    """X6."""
    right = results.rows(example.NAME, reading="S0 above S3")
    printed = results.rows(example.NAME, reading="S1 above S3")
    same = sum(bool(row["same"]) for row in right)
    differing = sum(not row["same"] for row in printed)
    return Verdict(
        f"{same} of {len(right)} messages and tables as in the text",
        same == len(right) > 0,
        f"read with S0 above S3; with S1 above S3, as the caption has it, {differing} of {len(printed)} differ: the "
        "caption contradicts the text",
    )


def judge_counts(results: Results) -> Verdict:
    """X7."""
    checked = [total(results, f"property_{number}_checked") for number in (5, 6)]
    broken = [total(results, f"property_{number}_broken") for number in (5, 6)]
    return Verdict(
        f"Property 5 broken at {broken[0]} of {checked[0]:,} entries, Property 6 at {broken[1]} of {checked[1]:,}",
        min(checked) > 0 and not any(broken),
        "after every operation at rest, with the repairs of docs/strategies/xroute.md",
    )


def agreement(results: Results) -> tuple[int, int]:
    """Return in how many simulated cases tables and messages equal those from the reduction, and of how many."""
    compared = [row["agrees"] for row in results.rows(tables.NAME, computed_from="simulation")]
    return sum(bool(agrees) for agrees in compared), len(compared)


def _size(line: Curve) -> str:
    return f"{line.sizes[-1]:,}"


def _scale(line: Curve) -> str:
    return (
        "" if line.sizes[-1] >= PAPER_SIZE else f"computed up to {_size(line)} only, the paper's is 50,000; "
    )


def _other_reading(results: Results) -> str:
    unique, multiple = (mean_gain(results, unique=kind, walks="even") for kind in (True, False))
    return (
        f"with walks of even height {unique.last:.1f} (unique) and {multiple.last:,.0f} (multiple) at "
        f"{_size(unique)}, where the root alone is a common pattern"
    )


def _left(results: Results) -> str:
    left = curve(results, "producer_filters", "xroute", unique=False).last
    return f"{left:.0f}"


def _not_below(sizes: list[str]) -> str:
    return f"XROUTE's is 5 or more at {', '.join(sizes)}; " if sizes else ""


CLAIMS = (
    Claim(
        "X1",
        "X",
        "Routing is perfect: an event gets to all consumers' brokers that are interested and to no others, whatever "
        "was registered and cancelled before",
        (properties.NAME,),
        judge_perfect_routing,
    ),
    Claim(
        "X2",
        "X",
        "A registration that is cancelled leaves every table as if it had never been",
        (properties.NAME,),
        judge_cancelling,
    ),
    Claim(
        "X3",
        "X",
        "The mean table is more than 5 times smaller than with simple routing at 50,000 subscriptions, and the gap "
        "widens with their number",
        (tables.NAME,),
        judge_mean_gain,
    ),
    Claim(
        "X4",
        "X",
        "The largest table is up to 14 times smaller than with simple routing, and 43 times than with match-first",
        (tables.NAME,),
        judge_max_gain,
    ),
    Claim(
        "X5",
        "X",
        "The largest table is less than 5 times the mean one, against about 10 times with simple routing",
        (tables.NAME,),
        judge_imbalance,
    ),
    Claim("X6", "X", "The example of Figure 4, step by step", (example.NAME,), judge_example),
    Claim(
        "X7",
        "X",
        "An entry counts all that it stands for (Property 5), and the neighbour upstream has that count (Property 6)",
        (properties.NAME,),
        judge_counts,
    ),
)
