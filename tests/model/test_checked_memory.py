"""Kernels on checked memory: no access outside an array, and the answers of the scan."""

from __future__ import annotations

import os
import subprocess
import sys


def test_kernels_stay_within_their_arrays() -> None:
    """In a process of its own: whether kernels are compiled is decided when they are imported."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.model.checked_index"],
        env=os.environ | {"COVEY_CHECKED_KERNELS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "checked"), done.stderr[-2_000:]


# Of the tests of turns those with few events: reads cut anywhere, several receivers, trees of a plan, more links than a
# mask has bits, and events that are passed through.
TURNS = "together_and_each or turn_changes or too_long or of_a_plan or more_neighbours or passed_through or judges"


def test_the_kernel_of_brokers_stays_within_its_arrays() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("tests/property/test_fastpath.py", "-k", TURNS),
        ],
        env=os.environ | {"COVEY_CHECKED_KERNELS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:]
