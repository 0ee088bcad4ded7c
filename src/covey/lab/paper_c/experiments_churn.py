"""Subscribers who move (V-B) and business processes (V-C), under active covering and incremental.

What the publication leaves open is settled in the workloads `commuters` and `workflow`. At paper scale the mobile case
has all 200,000 subscribers and 2,000 publishers, with their rates; what is reduced is the time: the first 60 s of the
rush hour of 7,200 s, since each of its 250 events a second is delivered 840 times. A client that moves leaves, then
arrives (the handover `plain`): roots are removed and reinserted, in the print's words. Workflows have the published
number of processes, for one of the administrators' intervals of ten minutes. At small scale times are compressed:
stays, triggers and the window of `incremental`.

    covering                      active covering, which names what it tells by the filter
    incremental without tiers     active covering as in print, by the subscription: nothing is ever kept
    incremental, least 20         as it is by default: fewer than 20 distances of a publisher are no evidence
    incremental, least 1          the print names no least number
"""

from __future__ import annotations

from typing import Final, NamedTuple

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import drive, integer, rows_of

ACTIVE, BY_KEY, DEFAULT, ONE = "active", "active by key", "incremental", "incremental, one sample"


class Variant(NamedTuple):
    """A contestant: its strategy, and how many distances are evidence; None where nothing is kept."""

    name: str
    strategy: str
    least_samples: int | None


VARIANTS: Final = (
    Variant(ACTIVE, "covering", 0),
    Variant(BY_KEY, "incremental", None),
    Variant(DEFAULT, "incremental", 20),
    Variant(ONE, "incremental", 1),
)

MOBILE: dict[Scale, dict[str, int]] = {
    "small": {
        "subscribers": 400,
        "publishers": 4,
        "rush_s": 200,
        "part_s": 0,
        "window_s": 17,
        "every_s": 5,
    },
    "paper": {
        "subscribers": 200_000,
        "publishers": 2_000,
        "rush_s": 7_200,
        "part_s": 60,
        "window_s": 600,
        "every_s": 10,
    },
}
PROCESSES: dict[Scale, dict[str, int]] = {
    "small": {
        "small": 12,
        "medium": 2,
        "large": 1,
        "trigger_interval_s": 20,
        "administrate_every_s": 30,
        "administrate_for_s": 15,
        "duration_s": 60,
        "window_s": 30,
        "every_s": 1,
    },
    "paper": {
        "small": 80,
        "medium": 80,
        "large": 40,
        "trigger_interval_s": 60,
        "administrate_every_s": 600,
        "administrate_for_s": 60,
        "duration_s": 700,
        "window_s": 600,
        "every_s": 15,
    },
}


def _cells(sizes: dict[str, int]) -> list[Cell]:
    return [
        {
            "variant": variant.name,
            "strategy": variant.strategy,
            "least_samples": variant.least_samples,
            "service": "table-ii",
            "seed": 1,
            **sizes,
        }
        for variant in VARIANTS
    ]


def _settings(cell: Cell, keys: dict[str, int]) -> list[str]:
    settings = [f"workload.{key}={integer(cell, key)}" for key in keys if key not in ("every_s", "window_s")]
    settings.append(f"metrics.every_s={integer(cell, 'every_s')}")
    if cell["least_samples"] is None:
        settings.append("strategy.options.tiers=[]")
    elif cell["strategy"] == "incremental":
        settings.append(f"strategy.options.minimum_samples={integer(cell, 'least_samples')}")
        settings.append(f"strategy.options.window_s={integer(cell, 'window_s')}")
    return settings


def mobile_cells(scale: Scale) -> list[Cell]:
    """Return a rush hour, or part of it, for each variant."""
    return _cells(MOBILE[scale])


def run_mobile(cell: Cell) -> list[Row]:
    """Run one rush hour, or its first part."""
    settings = [*_settings(cell, MOBILE["small"]), "run.handover=plain"]
    return rows_of(drive("mobile", cell, settings), "rush")


def workflow_cells(scale: Scale) -> list[Cell]:
    """Return the processes for each variant."""
    return _cells(PROCESSES[scale])


def run_workflow(cell: Cell) -> list[Row]:
    """Run the processes for their time."""
    return rows_of(drive("workflow", cell, _settings(cell, PROCESSES["small"])), "run")


def mobile_effort(cell: Cell) -> float:
    """Return the time compared with other cells."""
    deliveries = integer(cell, "subscribers") / 400 * integer(cell, "publishers") * played_s(cell)
    return (integer(cell, "subscribers") + deliveries) / 1_000


def played_s(cell: Cell) -> int:
    """Return how much of the rush hour is run."""
    return integer(cell, "part_s") or integer(cell, "rush_s")


def workflow_effort(cell: Cell) -> float:
    """Return the time compared with other cells."""
    return integer(cell, "small") * integer(cell, "duration_s") / 20


MOVING = Experiment(
    "c-mobile", "C", "commuters around a star of 17 brokers", mobile_cells, run_mobile, 2, mobile_effort
)
WORKFLOW = Experiment(
    "c-workflow",
    "C",
    "business processes in 4 domains of 10 brokers",
    workflow_cells,
    run_workflow,
    2,
    workflow_effort,
)
