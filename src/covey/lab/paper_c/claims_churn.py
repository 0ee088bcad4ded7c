"""Claims C10 and C11, of the scenarios that churn, judged from kept rows.

Delays and queues are those of the service model `table-ii`, whose times are fixed; verdicts say so. Where only the
first part of the rush hour was run and delays still grow at its end, they are judged by what they come to at this rate
when it is over; where they do not grow, as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from covey.lab.claim import PRINTED, Claim, Criterion, Verdict
from covey.lab.experiment import Results, Row
from covey.lab.paper_c.driving import brief, number
from covey.lab.paper_c.experiments_churn import ACTIVE, BY_KEY, DEFAULT, ONE, VARIANTS, played_s
from covey.sim.service import ACTIVE as TIMES

FACTOR: Final = 2.0
PAUSE_S: Final = 8.0  # a publisher publishes once every 1 s to 15 s
GROWS: Final = 1.5  # delays grow if they are so many times longer at the end than at half time
PRINTED_QUEUE: Final = 18_400
FEW: Final = 10  # triggered subscriptions for which incremental does nothing: its lowest tier

Rows = Mapping[str, Row]  # by variant


def _totals(results: Results, experiment: str) -> Rows:
    rows = {str(row["variant"]): row for row in results.rows(experiment, kind="total")}
    return {variant.name: rows[variant.name] for variant in VARIANTS}


def _compared(rows: Rows, *keys: tuple[str, str]) -> str:
    return "; ".join(
        f"{name}: " + ", ".join(f"{label} {brief(number(row, key))}" for key, label in keys)
        for name, row in rows.items()
    )


def _kept(rows: Rows) -> str:
    """Return in words how much was kept."""
    texts = []
    for name in (DEFAULT, ONE):
        kept, spared = number(rows[name], "kept"), number(rows[name], "spared")
        texts.append(f"{name}: {kept:,} kept, which spared {spared:,} triggered subscriptions")
    return "; ".join(texts).capitalize() + "."


def _equal(rows: Rows) -> str:
    """Return in words what it means to name what is told by the filter or by the subscription."""
    ours, printed = (number(rows[name], "triggered") for name in (ACTIVE, BY_KEY))
    return (
        f"Our active covering names what it tells by the filter, so that one of several equal subscriptions can leave "
        f"without a message, and triggers {ours:,}; named by the subscription, as in print and in incremental, it "
        f"triggers {printed:,}."
    )


def _delay_at(results: Results, variant: str, at_s: float) -> float:
    """Return the longest delay of the last sample up to a time that has deliveries."""
    samples = results.rows("c-mobile", kind="sample", variant=variant)
    found = [row for row in samples if 0 < number(row, "at_s") <= at_s and row["delay_max_s"] is not None]
    return number(max(found, key=lambda row: number(row, "at_s")), "delay_max_s") if found else 0.0


def _whole_rush(results: Results, row: Row) -> tuple[float, bool]:
    """Return the longest delay of the whole rush hour, measured or projected, and whether delays grow."""
    variant, part_s = str(row["variant"]), played_s(row)
    half_s, end_s = (_delay_at(results, variant, share * part_s) for share in (0.5, 1.0))
    longest_s = number(row, "delay_max_s")
    if end_s <= GROWS * half_s:
        return longest_s, False
    return longest_s * number(row, "rush_s") / part_s, True


def _projected(whole: Mapping[str, tuple[float, bool]], row: Row) -> str:
    if not any(grows for _, grows in whole.values()):
        return "Delays do not grow with time."
    texts = [
        f"{name} {delay_s:,.3g} s" if grows else f"{name} does not grow"
        for name, (delay_s, grows) in whole.items()
    ]
    part_s, rush_s = played_s(row), number(row, "rush_s")
    if part_s == rush_s:
        return f"Delays grow until the end: {'; '.join(texts)}."
    return f"Delays grow; at the rate of these {part_s:,} s, after all {rush_s:,} s they are: {'; '.join(texts)}."


def _burst_text(roots: Row) -> str:
    """Return in words what that means where it is so."""
    no_burst = number(roots, "triggered_mean") < FEW
    return (
        ": the removal of a root is no burst in this population, and queues are those of the load"
        if no_burst
        else ""
    )


def judge_mobile(results: Results) -> Verdict:
    """Compare the worst delays of the rush hour."""
    rows = _totals(results, "c-mobile")
    [roots] = results.rows("c-roots", kind="total")
    row = rows[ACTIVE]
    whole = {name: _whole_rush(results, of_one) for name, of_one in rows.items()}
    keys = (
        ("delay_max_s", "worst s"),
        ("queue_peak", "queued"),
        ("triggered", "triggered"),
        ("control_messages", "control messages"),
        ("table_mean", "entries"),
    )
    publishers = number(row, "publishers")
    busy = publishers / PAUSE_S * TIMES.publish / 1_000
    reason = (
        f"Service model table-ii; {number(row, 'subscribers'):,} subscribers and {publishers:,} publishers (print "
        f"200,000 and 2,000), {played_s(row):,} s of a rush hour of {number(row, 'rush_s'):,} s (print 7,200 s). "
        f"Events alone keep the hub busy for {busy:.0%} of the time. {_projected(whole, row)} Of "
        f"{number(roots, 'subscribers'):,} such subscriptions {number(roots, 'roots'):,} are roots (print 1,600), "
        f"which cover {number(roots, 'covered_mean'):,.0f} on average, {number(roots, 'roots_of_many'):,} of them "
        f"more than 2,000 (print: each). One that leaves triggers {number(roots, 'triggered_mean'):.2f} on average and "
        f"{number(roots, 'triggered_max'):,} at most, since the next broadest cover what it covered"
        f"{_burst_text(roots)}. {_kept(rows)} {_equal(rows)} How often the 20% "
        "wander is ours: every 900 s."
    )
    active = whole[BY_KEY][0]
    pruned = min(whole[name][0] for name in (DEFAULT, ONE))
    holds = active >= 1_200 / FACTOR and pruned <= 17 * FACTOR
    return Verdict(_compared(rows, *keys), holds, reason)


def judge_workflow(results: Results) -> Verdict:
    """Compare spikes and queues of the business processes."""
    rows = _totals(results, "c-workflow")
    row = rows[BY_KEY]
    keys = (
        ("delay_max_s", "worst s"),
        ("delay_mean_s", "mean s"),
        ("core_queue_peak", "queued at the core"),
        ("triggered", "triggered"),
        ("table_mean", "entries"),
    )
    queued = number(row, "core_queue_peak")
    holds = (
        number(row, "delay_max_s") >= 400 / FACTOR
        and PRINTED_QUEUE / FACTOR <= queued <= PRINTED_QUEUE * FACTOR
        and number(rows[ONE], "delay_mean_s") <= 0.24 * FACTOR
    )
    processes = sum(int(number(row, size)) for size in ("small", "medium", "large"))
    most = max(int(number(row, key)) for key in ("triggered_core_max", "triggered_other_max"))
    visits = 4 * int(number(row, "duration_s") / number(row, "administrate_every_s"))
    reason = (
        f"Service model table-ii; {processes:,} processes for {number(row, 'duration_s'):,} s, {visits} visits of "
        f"administrators. Whoever subscribes to all trigger messages covers one filter for each process, so a "
        f"departure triggers {processes:,} at a broker at most, and a broker that tells them all works on them for "
        f"{processes * TIMES.subscribe / 1_000:,.1f} s; the print's queue of {PRINTED_QUEUE:,} needs "
        f"{PRINTED_QUEUE / processes:,.0f} times as many, which the text as it stands cannot give. "
        f"Measured: {most:,} triggered at one broker in the whole run, {number(row, 'triggered'):,} at all. "
        f"{_kept(rows)} {_equal(rows)}"
    )
    return Verdict(_compared(rows, *keys), holds, reason)


CHURN_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "C10",
        "C",
        "Moving subscribers: the worst delay is 1,200 s active and 17 s incremental.",
        ("c-mobile", "c-roots"),
        judge_mobile,
        Criterion("active at least half of 1,200 s, incremental at most twice 17 s.", "V-B, figure 9"),
        (PRINTED,),
        "Subscriptions of SIENA's kind are so many and so alike that the next broadest cover what a root covered: "
        "one that"
        " leaves triggers less than one on average (`c-roots`), so there is no burst for either strategy to avoid, and "
        "the queues are those of the load, which is the same for both.",
    ),
    Claim(
        "C11",
        "C",
        "Workflows: spikes of 400 s and queues of 18,400 active; about 0.24 s on average and no congestion "
        "incremental.",
        ("c-workflow",),
        judge_workflow,
        Criterion(
            "active: a spike of at least 200 s and a queue within a factor of 2 of 18,400; incremental: at most "
            "twice 0.24 s on average.",
            "V-C, figure 11",
        ),
        (PRINTED,),
        "An administrator's filter covers one filter for each process, so its departure triggers as many at a "
        "broker as there "
        "are processes, 200: a queue of 18,400 needs 92 times as many, and the text names nothing else that is "
        "covered.",
    ),
)
