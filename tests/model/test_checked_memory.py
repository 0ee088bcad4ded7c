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
