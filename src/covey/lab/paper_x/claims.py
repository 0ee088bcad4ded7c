"""Claims X1 to X7, judged from kept rows. X1, X2, X6 and X7 are exact; X3, X4 and X5 are of sizes of tables.

Sizes are judged at the largest number of subscriptions that was computed, for both readings of patterns (see
`population`). A seed is a topology and a population.
"""

from __future__ import annotations

from covey.lab.claim import Claim, Criterion, Reading, Verdict
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
        f"{pairs.last:.1f} (multiple) if pairs of link and filter are counted; simulated tables and messages equal "
        f"computed ones in {agreed} of {compared} cases",
        {"unique": unique.last, "multiple": multiple.last},
    )


def judge_max_gain(results: Results) -> Verdict:
    """X4."""
    simple, match_first = (max(max_gain(results, name).values) for name in ("identity", "match-first"))
    if results.reading.get("sides", "both") == "both":
        holds = _is_about(simple, MAX_GAIN_SIMPLE) and _is_about(match_first, MAX_GAIN_MATCH_FIRST)
    else:
        holds = simple >= MAX_GAIN_SIMPLE and match_first >= MAX_GAIN_MATCH_FIRST
    return Verdict(
        f"up to {simple:.0f} times smaller than simple, {match_first:.0f} than match-first",
        holds,
        f"{_scale(max_gain(results, 'identity'))}multiple sets. It depends on how much patterns cover each other: here "
        f"all are covered by {_left(results)}, which the producer's broker has",
        {"simple / XROUTE": simple, "match-first / XROUTE": match_first},
    )


def _is_about(value: float, printed: float) -> bool:
    return abs(value - printed) <= ABOUT * printed


def judge_imbalance(results: Results) -> Verdict:
    """X5."""
    used = results.reading.get("routers", "all") == "used"
    seeds = results.seeds([tables.NAME])
    by_seed = {
        seed: [
            imbalance(results.under({"seed": seed}), name, used=used).last for name in ("xroute", "identity")
        ]
        for seed in seeds
    }
    xroute, simple = (imbalance(results, strategy, used=used) for strategy in ("xroute", "identity"))
    below = [seed for seed, (ours, plain) in by_seed.items() if _is_balanced(ours, plain)]
    if results.reading.get("topologies", "all") == "one":
        holds = bool(below)
    else:
        holds = _is_balanced(xroute.last, simple.last)
    least = min(ours for ours, _ in by_seed.values())
    return Verdict(
        f"{xroute.last:.1f} with XROUTE, {simple.last:.1f} with simple at {_size(xroute)}; of {len(seeds)} networks "
        f"{len(below)} have both as in print, the least with XROUTE is {least:.1f}",
        holds,
        f"{_scale(xroute)}multiple sets. Simple routing's is given by the topology. What is substituted is kept where "
        "it came over different links, near the producer above all",
        {"largest / mean, XROUTE": xroute.last, "largest / mean, simple": simple.last},
    )


def _is_balanced(xroute: float, simple: float) -> bool:
    return xroute < IMBALANCE_XROUTE and _is_about(simple, IMBALANCE_SIMPLE)


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


def _left(results: Results) -> str:
    left = curve(results, "producer_filters", "xroute", unique=False).last
    return f"{left:.0f}"


EXACT = Criterion("exactly: one count against it anywhere and it does not hold.", "4.1, 5.2, 5.3")
FULL = "Patterns have a maximum height of 10, and no rule ends one before it (6.1)."
EVEN = "The parameter is a maximum height (6.1): patterns of all heights up to it."
INNER = "Sizes are those of the routing tables at the inner nodes (6.1)"
WALKS = (
    Reading("walks to the full height", FULL, {"walks": "full"}, "printed"),
    Reading("walks of even height", EVEN, {"walks": "even"}),
)
SIDES = (
    Reading(
        "about so many, full height",
        f"{FULL} It is up to 14 and up to 43 times (6.2).",
        {"walks": "full", "sides": "both"},
        "printed",
    ),
    Reading(
        "at least so many, full height",
        f"{FULL} The gain grows with the number of subscriptions (6.2): more of them, more gain.",
        {"walks": "full", "sides": "one"},
    ),
    Reading(
        "about so many, even height",
        f"{EVEN} It is up to 14 and up to 43 times (6.2).",
        {"walks": "even", "sides": "both"},
    ),
)
ROUTERS = (
    Reading(
        "one network, all 64 routers",
        "",
        {"walks": "full", "routers": "all", "topologies": "one"},
        "probe",  # one network out of many that passes is no evidence
    ),
    Reading(
        "mean over networks, all 64 routers",
        f"{INNER}, which are all 64 routers.",
        {"walks": "full", "routers": "all", "topologies": "all"},
        "printed",
    ),
    Reading(
        "one network, routers with consumers behind them",
        "",
        {"walks": "full", "routers": "used", "topologies": "one"},
        "probe",  # one network out of many that passes is no evidence
    ),
    Reading(
        "mean over networks, routers with consumers behind them",
        f"{INNER}; the others have empty tables.",
        {"walks": "full", "routers": "used", "topologies": "all"},
    ),
    Reading(
        "one network, all 64 routers, even height",
        "",
        {"walks": "even", "routers": "all", "topologies": "one"},
        "probe",  # one network out of many that passes is no evidence
    ),
)

CLAIMS = (
    Claim(
        "X1",
        "X",
        "Routing is perfect: an event gets to all consumers' brokers that are interested and to no others, whatever "
        "was registered and cancelled before",
        (properties.NAME,),
        judge_perfect_routing,
        EXACT,
    ),
    Claim(
        "X2",
        "X",
        "A registration that is cancelled leaves every table as if it had never been",
        (properties.NAME,),
        judge_cancelling,
        EXACT,
    ),
    Claim(
        "X3",
        "X",
        "The mean table is more than 5 times smaller than with simple routing at 50,000 subscriptions, and the gap "
        "widens with their number",
        (tables.NAME,),
        judge_mean_gain,
        Criterion(
            "more than 5 at the largest size, for both kinds of sets, and every size has a larger gain than the "
            "one before.",
            "6.2, figures 6 and 7",
        ),
        WALKS,
        by_seed=True,
    ),
    Claim(
        "X4",
        "X",
        "The largest table is up to 14 times smaller than with simple routing, and 43 times than with match-first",
        (tables.NAME,),
        judge_max_gain,
        Criterion(
            "the largest gain over sizes is within a quarter of 14 and of 43; or at least so many, where the "
            "reading says so.",
            "6.2, figures 8 and 9",
            after_looking=True,
        ),
        SIDES,
        by_seed=True,
    ),
    Claim(
        "X5",
        "X",
        "The largest table is less than 5 times the mean one, against about 10 times with simple routing",
        (tables.NAME,),
        judge_imbalance,
        Criterion(
            "below 5 with XROUTE and within a quarter of 10 with simple routing, at the largest size.",
            "6.2, figure 8",
        ),
        ROUTERS,
        by_seed=True,
    ),
    Claim("X6", "X", "The example of Figure 4, step by step", (example.NAME,), judge_example, EXACT),
    Claim(
        "X7",
        "X",
        "An entry counts all that it stands for (Property 5), and the neighbour upstream has that count (Property 6)",
        (properties.NAME,),
        judge_counts,
        EXACT,
    ),
)
