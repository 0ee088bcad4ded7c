"""Claims C10 and C11 judge rows as their text says; here on rows that were made up."""

from __future__ import annotations

import pytest

from covey.lab.claim import Verdict
from covey.lab.experiment import Results, Row
from covey.lab.paper_c.claims_churn import judge_mobile, judge_workflow
from covey.lab.paper_c.experiments_churn import ACTIVE, BY_KEY, DEFAULT, ONE

ROOTS: Row = {
    "kind": "total",
    "subscribers": 200_000,
    "roots": 2_409,
    "roots_of_many": 113,
    "covered_mean": 594.0,
    "triggered_mean": 0.9,
    "triggered_max": 11,
}


def mobile(grows: bool, incremental_s: float) -> Verdict:
    """Judge a run of the first 100 s, at whose end active delays are 20 s; half as long, or as long, at half time."""
    rows: list[Row] = []
    for variant in (ACTIVE, BY_KEY, DEFAULT, ONE):
        end_s = incremental_s if variant in (DEFAULT, ONE) else 20.0
        cell: Row = {
            "variant": variant,
            "subscribers": 200_000,
            "publishers": 2_000,
            "rush_s": 7_200,
            "part_s": 100,
        }
        for at_s, share in ((50.0, 0.5 if grows else 1.0), (100.0, 1.0)):
            rows.append({**cell, "kind": "sample", "at_s": at_s, "delay_max_s": share * end_s})
        total = dict.fromkeys(("queue_peak", "triggered", "control_messages", "kept", "spared"), 7)
        rows.append({**cell, "kind": "total", "delay_max_s": end_s, "table_mean": 3.0, **total})
    return judge_mobile(Results({"c-mobile": rows, "c-roots": [ROOTS]}))


def test_delays_that_grow_are_judged_at_the_end_of_the_rush_hour() -> None:
    assert mobile(grows=True, incremental_s=0.1).holds
    assert "active by key 1.44e+03 s" in mobile(grows=True, incremental_s=0.1).reason
    assert not mobile(grows=True, incremental_s=10.0).holds
    steady = mobile(grows=False, incremental_s=0.1)
    assert not steady.holds
    assert "Delays do not grow" in steady.reason


def test_the_reason_has_what_was_reduced_and_what_was_counted() -> None:
    reason = mobile(grows=True, incremental_s=0.1).reason
    for text in ("100 s of a rush hour of 7,200 s", "busy for 75%", "2,409 are roots", "0.90 on average"):
        assert text in reason


@pytest.mark.parametrize(("delay_s", "queued", "holds"), [(400.0, 18_400, True), (1.0, 150, False)])
def test_workflows_hold_if_there_is_congestion_and_incremental_has_none(
    delay_s: float, queued: int, holds: bool
) -> None:
    rows: list[Row] = []
    for variant in (ACTIVE, BY_KEY, DEFAULT, ONE):
        pruned = variant in (DEFAULT, ONE)
        counts = dict.fromkeys(
            ("kept", "spared", "triggered", "triggered_core_max", "triggered_other_max"), 9
        )
        cell: Row = {
            "variant": variant,
            "small": 80,
            "medium": 80,
            "large": 40,
            "duration_s": 1_200,
            "administrate_every_s": 600,
        }
        measured: Row = {
            "kind": "total",
            "delay_max_s": 0.5 if pruned else delay_s,
            "delay_mean_s": 0.2 if pruned else delay_s / 4,
            "core_queue_peak": 20 if pruned else queued,
            "table_mean": 9.0,
        }
        rows.append({**cell, **measured, **counts})
    verdict = judge_workflow(Results({"c-workflow": rows}))
    assert verdict.holds is holds
    assert "200 processes for 1,200 s, 8 visits" in verdict.reason
    assert "triggers 200 at a broker at most" in verdict.reason
