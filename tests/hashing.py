"""What a program prints under other seeds of Python's hashing: results must not depend on the order of sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 300.0


def said_under_hash_seeds(program: str, *arguments: str) -> list[str]:
    """Return what a program prints, once for each of two seeds of hashing."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "4711")
    ]
    said = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return said
