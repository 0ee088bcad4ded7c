"""`covey compile`: all kernels, now, instead of each at its first use, and the archive with which Spark's Java starts
sooner: for installations and images of machines.

The work is cut into tasks, which run in as many processes as there are cores. Tasks that would compile the same
kernels are not run at the same time: those of `FIRST` have no kernel in common, and those of `THEN`, which need kernels
of the first, find them compiled.
"""

from __future__ import annotations

import gc
import os
import time
from importlib import import_module
from typing import Final, NamedTuple

from covey.commands.options import Json
from covey.commands.output import print_json, print_pairs, progress_lines
from covey.extras import installed, require


class Task(NamedTuple):
    """A function that calls kernels with the types that they are called with in use."""

    part: str
    module: str
    function: str = "warm_up"


# In the order of the time they take, the longest first.
FIRST: Final = (
    Task("brokers", "covey.matching.index", "warm_up_attributes"),
    Task("planning", "covey.planning.warming", "warm_up_groups"),
    Task("planning", "covey.planning.warming", "warm_up_aggregation"),
    Task("brokers", "covey.matching.index", "warm_up_documents"),
)
THEN: Final = (
    Task("brokers", "covey.broker.warming"),
    Task("pipeline", "covey.pipeline.warming"),
    Task("java", "covey.pipeline.java_exercise"),
)
PARTS: Final = ("brokers", "planning", "pipeline", "java")
EXTRAS: Final = {
    "brokers": "broker",
    "planning": "spark",
    "pipeline": "spark",
    "java": "spark",
}  # without which a part is left out

GARBAGE_THRESHOLD: Final = (
    200_000  # objects; what the compiler makes lives long, and to look through it takes a tenth
)


def compile_all(json: Json = False) -> None:
    """Compile everything that is compiled, or see that it was: about a minute of CPU time once, seconds after that.

    It is kept in ~/.cache/covey (or XDG_CACHE_HOME). Otherwise whoever comes first waits for it: the first broker, the
    first plan.
    """
    require("broker", "covey compile")
    # Loaded here: every command loads this module.
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    took_s = {part: 0.0 for part in PARTS if installed(EXTRAS[part])}
    left = {part: sum(task.part == part for task in FIRST + THEN) for part in took_s}
    with (
        progress_lines("compile") as tell,
        ProcessPoolExecutor(_cores(), get_context("spawn")) as pool,
    ):
        tell(f"compile: {', '.join(took_s)}", False)
        for tasks in (FIRST, THEN):
            working = {pool.submit(warm, task): task.part for task in tasks if task.part in took_s}
            for done in as_completed(working):
                part = working[done]
                took_s[part] += done.result()
                left[part] -= 1
                tell(f"compile: {part}, {took_s[part]:.1f} s", not left[part])
    if json:
        print_json({"seconds": {part: round(spent_s, 1) for part, spent_s in took_s.items()}})
    else:
        print_pairs({part: f"{spent_s:.1f} s" for part, spent_s in took_s.items()})


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warm(task: Task) -> float:
    """Do a task; return how long that took, in seconds."""
    began_s = time.monotonic()
    gc.set_threshold(GARBAGE_THRESHOLD)
    getattr(import_module(task.module), task.function)()
    return time.monotonic() - began_s
