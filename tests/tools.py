"""Programs that tests run: where one is missing, a test is skipped and says why, or fails if all must be there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def tool(name: str, source: str) -> str:
    """Return the path of a program; `source` says who has it. With COVEY_ALL_TOOLS=1 a missing one is a failure."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        why = f"{name} is not installed; {source} has it"
        if os.environ.get("COVEY_ALL_TOOLS"):
            pytest.fail(why)
        pytest.skip(why)
    return found


def run_tool(*words: str | Path, limit_s: float = 120.0) -> str:
    """Run a program that has to succeed; return what it printed."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=limit_s, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout
