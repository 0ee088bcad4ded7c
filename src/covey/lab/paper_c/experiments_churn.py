"""Subscribers who move (V-B) and business processes (V-C), under active covering and incremental.

What the publication leaves open is settled in the workloads `commuters` and `workflow`. The mobile case keeps one
publisher for each hundred subscribers; its 200,000 subscribers are reduced to 4,000 at paper scale, as the time of
`incremental` grows faster than their number (200 s of rush hour took 1 s with 400 subscribers and 24 s with 1,600).
Workflows have the published number of processes at paper scale. At small scale times are compressed too: stays,
triggers and the window of `incremental`.

`incremental` runs twice: as it is by default, where fewer than 20 distances are no evidence, and with one as enough,
since the print names no least number. In these workloads few subscriptions live long enough to get 20 events from each
publisher.
"""

from __future__ import annotations

from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import drive, integer, rows_of

# Strategy, and the least number of distances that are evidence.
VARIANTS = (("covering", 0), ("incremental", 20), ("incremental", 1))

MOBILE: dict[Scale, dict[str, int]] = {
    "small": {"subscribers": 400, "publishers": 4, "rush_s": 200, "window_s": 17, "every_s": 5},
    "paper": {"subscribers": 4_000, "publishers": 40, "rush_s": 7_200, "window_s": 600, "every_s": 60},
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
        "duration_s": 1_800,
        "window_s": 600,
        "every_s": 15,
    },
}


def _cells(sizes: dict[str, int]) -> list[Cell]:
    return [
        {"strategy": strategy, "least_samples": samples, "service": "table-ii", "seed": 1, **sizes}
        for strategy, samples in VARIANTS
    ]


def _settings(cell: Cell, keys: dict[str, int]) -> list[str]:
    settings = [f"workload.{key}={integer(cell, key)}" for key in keys if key not in ("every_s", "window_s")]
    settings.append(f"metrics.every_s={integer(cell, 'every_s')}")
    if cell["strategy"] == "incremental":
        settings.append(f"strategy.options.minimum_samples={integer(cell, 'least_samples')}")
        settings.append(f"strategy.options.window_s={integer(cell, 'window_s')}")
    return settings


def mobile_cells(scale: Scale) -> list[Cell]:
    """Return a rush hour under both strategies."""
    return _cells(MOBILE[scale])


def run_mobile(cell: Cell) -> list[Row]:
    """Run one rush hour."""
    return rows_of(drive("mobile", cell, _settings(cell, MOBILE["small"])), "rush")


def workflow_cells(scale: Scale) -> list[Cell]:
    """Return the processes under both strategies."""
    return _cells(PROCESSES[scale])


def run_workflow(cell: Cell) -> list[Row]:
    """Run the processes for their time."""
    return rows_of(drive("workflow", cell, _settings(cell, PROCESSES["small"])), "run")


def mobile_effort(cell: Cell) -> float:
    """Return the time compared with other cells."""
    return (integer(cell, "subscribers") / 100) * (integer(cell, "subscribers") / 100)


def workflow_effort(cell: Cell) -> float:
    """Return the time compared with other cells."""
    return integer(cell, "small") * integer(cell, "duration_s") / 20


MOVING = Experiment(
    "c-mobile", "C", "commuters around a star of 17 brokers", mobile_cells, run_mobile, effort=mobile_effort
)
WORKFLOW = Experiment(
    "c-workflow",
    "C",
    "business processes in 4 domains of 10 brokers",
    workflow_cells,
    run_workflow,
    effort=workflow_effort,
)
