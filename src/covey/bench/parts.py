"""The whole system in one run: all parts in order, each at the sizes of a quick run or of a thorough one.

A part is a module with `compare(progress, **sizes)`, which returns comparisons. One that cannot run here says why in a
comparison without figures, and the others go on. The pipeline is last, because processes are forked before it, and
forking is for programs without Java's threads.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, NamedTuple

from covey.bench.comparison import Comparison, Run, machine
from covey.errors import ConfigError, CoveyError

Progress = Callable[[str], None]


class Part(NamedTuple):
    """A part: the module that measures it, and its sizes for both kinds of run."""

    module: str
    quick: dict[str, Any]
    thorough: dict[str, Any]


PARTS: Final[dict[str, Part]] = {
    "matching": Part(
        "match",
        {"sizes": {"siena": (1_000, 5_000, 25_000), "siena-3": (1_000, 5_000, 25_000)}},
        {
            "sizes": {
                "siena": (10_000, 100_000, 1_000_000),
                "siena-3": (10_000, 100_000, 1_000_000),
                "quotes": (10_000, 50_000, 250_000),
                "ranges": (10_000, 50_000, 250_000),
                "wide": (10_000, 30_000, 100_000),
                "middle": (10_000, 30_000, 100_000),
                "narrow": (10_000, 30_000, 100_000),
                "popular": (10_000, 30_000, 100_000),
            }
        },
    ),
    "covering": Part("cover", {"sizes": (1_000, 3_000, 9_000)}, {"sizes": (5_000, 20_000, 80_000)}),
    "xpath": Part(
        "xpath", {"sizes": (500, 1_500, 5_000), "documents": 8}, {"sizes": (5_000, 15_000, 50_000)}
    ),
    "keywords": Part("keywords", {"sizes": (500, 2_000, 8_000)}, {"sizes": (2_000, 20_000, 200_000)}),
    "routing": Part(
        "routing",
        {
            "sizes": (250, 1_000, 4_000),
            "brokers": (8, 16, 32),
            "subscriptions": 200,
            "events": 50,
            "strategies": ("covering",),
        },
        {"sizes": (1_000, 5_000, 25_000), "brokers": (16, 64, 256), "subscriptions": 600, "events": 300},
    ),
    "network": Part(
        "network",
        {"seconds": 0.2, "filters": 2_000, "peers": ("forwarder", "nats", "zenoh")},
        {"seconds": 2.0, "filters": 10_000},
    ),
    "planning": Part(
        "planning",
        {
            "brokers": (60, 120, 240),
            "documents": 2_000,
            "plan_brokers": (60, 120, 240),
            "plan_events": (500, 1_000, 2_000),
        },
        {
            "brokers": (125, 500, 2_000),
            "documents": 20_000,
            "plan_brokers": (125, 250, 500),
            "plan_events": (1_000, 3_000, 10_000),
        },
    ),
    "pipeline": Part(
        "pipeline",
        {"filters": 500, "events": (500, 1_000, 2_000), "subscriptions": (300, 600, 1_200), "rounds": 1},
        {"filters": 2_000, "events": (2_000, 8_000, 32_000), "subscriptions": (5_000, 10_000, 20_000)},
    ),
}


def measured(name: str, progress: Progress, *, quick: bool) -> list[Comparison]:
    """Return the comparisons of one part, or one that says why there are none."""
    if name not in PARTS:
        raise ConfigError(f"there is no part {name!r:.40} (hint: one of {', '.join(PARTS)})")
    part = PARTS[name]
    compare: Any = import_module(f"covey.bench.{part.module}").compare
    try:
        found: list[Comparison] = compare(progress, **(part.quick if quick else part.thorough))
    except (CoveyError, OSError) as error:
        return [Comparison(part=name, work="could not run", note=" ".join(str(error).split())[:160])]
    return found


def run(names: Sequence[str], progress: Progress, *, quick: bool) -> Run:
    """Measure these parts, one after the other; `progress` is told what is being done."""
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    before = os.getloadavg()[0]
    comparisons: list[Comparison] = []
    seconds: dict[str, float] = {}
    for name in names:
        began = time.monotonic()

        def say(step: str, name: str = name) -> None:
            progress(f"{name}: {step}")

        comparisons += measured(name, say, quick=quick)
        seconds[name] = round(time.monotonic() - began, 1)
        gc.collect()  # what one part leaves behind must not be in the next one's processes
    return Run(
        made=made,
        machine=machine(),
        quick=quick,
        load_before=before,
        load_after=os.getloadavg()[0],
        seconds=seconds,
        comparisons=comparisons,
    )
