"""What processes use of the machine and what the machine keeps from them, by Linux's own accounts.

    CPU time      how long the threads of a process ran: `/proc/PID/task/*/schedstat`, in nanoseconds
    waiting       how long these threads could run and had no CPU: the same files
    steal         how long the CPUs of this machine could not run at all, because its host ran others: `/proc/stat`

A percentile that was measured while a process waited or the host stole says more about the machine than about the
program. A system without these files has no figures: they are NaN, and every sum and difference with them is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from math import nan
from pathlib import Path
from typing import Final, NamedTuple

_STEAL: Final = 8  # the field of the line `cpu`, whose name is field 0


class Usage(NamedTuple):
    """The CPU time and the waiting of some processes, all threads together, or the difference of two such readings."""

    cpu_s: float
    waited_s: float


Reading = dict[tuple[int, int], tuple[int, int]]
"""By process and thread: nanoseconds on a CPU and nanoseconds of waiting for one, since the thread began."""


def reading(pids: Iterable[int]) -> Reading:
    """Return the present accounts of these processes; empty where the system keeps none."""
    found: Reading = {}
    for pid in pids:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError):  # a thread that has just ended
                    ran, waited, _ = (task / "schedstat").read_text(encoding="ascii").split()
                    found[pid, int(task.name)] = (int(ran), int(waited))
    return found


def between(before: Reading, after: Reading) -> Usage:
    """Return what was used between two readings; a thread that ended in between is not counted."""
    if not after:
        return Usage(nan, nan)
    ran = sum(one[0] - before.get(key, (0, 0))[0] for key, one in after.items())
    waited = sum(one[1] - before.get(key, (0, 0))[1] for key, one in after.items())
    return Usage(ran / 1e9, waited / 1e9)


def steal_s() -> float:
    """Return how long the host has kept all CPUs together from this machine since it was started."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            return int(stat.readline().split()[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return nan
