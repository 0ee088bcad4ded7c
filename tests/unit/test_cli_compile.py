"""`covey compile`: afterwards whoever needs a kernel finds it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from covey import cli
from covey.commands.compiling import PARTS

# Looks at the kernels of all that was imported on the way, in a process in which nothing else was called.
IDLE = """
import sys
from covey.commands.compiling import FIRST, THEN, warm
from covey.matching.compile_cache import CompileCache

for task in FIRST + THEN:
    warm(task)
for name, module in list(sys.modules.items()):
    for value in list(vars(module).values()) if name.startswith("covey.") else ():
        if isinstance(getattr(value, "_cache", None), CompileCache) and not value.signatures:
            print(value.py_func.__module__, value.py_func.__qualname__)
"""


def test_every_part_is_compiled_or_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["compile", "--json"]) == 0
    captured = capsys.readouterr()
    assert list(json.loads(captured.out)["seconds"]) == list(PARTS)
    assert all(f"compile: {part}, " in captured.err for part in PARTS)


def test_no_kernel_of_a_network_or_a_plan_is_left_out() -> None:
    """All but what measures stretches, for the lab."""
    done = subprocess.run(
        [sys.executable, "-c", IDLE], capture_output=True, text=True, check=True, timeout=600
    )
    assert set(done.stdout.splitlines()) == {"covey.planning.tree _distances"}
