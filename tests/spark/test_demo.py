"""The demonstration as a whole, small: real brokers, real Spark, a plan that goes in; and Ctrl-C in the midst of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from covey.demo.planner import compile_documents, rehearse
from covey.planning.plan import Plan

MARK = "COVEY_DEMO_MARK"


def started(tmp_path: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    """Start `covey demo`; return it, and what all its processes have in their environment."""
    mark = uuid4().hex
    (tmp_path / "tmp").mkdir()
    program = subprocess.Popen(
        [sys.executable, "-m", "covey", "demo", "--quick", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, MARK: mark, "TMPDIR": str(tmp_path / "tmp")},
    )
    return program, mark


def alive(mark: str) -> list[str]:
    """Return the processes that are left of a demonstration."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended meanwhile
    return found


def nothing_is_left(tmp_path: Path, mark: str) -> bool:
    until_s = time.monotonic() + 20
    while alive(mark) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert alive(mark) == []
    assert list((tmp_path / "tmp").iterdir()) == []
    return True


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at /proc")
def test_a_small_demo_is_right_and_leaves_nothing(tmp_path: Path) -> None:
    program, mark = started(tmp_path, "--json", "--out", "r.html", "--plot", "p.svg", "--keep", "kept")
    output, errors = program.communicate(timeout=600)
    assert program.returncode == 0, errors + output
    found = json.loads(output)
    assert found["ok"]
    assert found["failures"] == []
    assert found["checked"] > 1_000
    assert found["saving"] > 0.0  # how much depends on the traffic of a few seconds
    assert found["bursts"]["covering"]["messages"] > 20 * found["bursts"]["incremental"]["messages"]
    assert found["before"]["false_positives"] == found["after"]["false_positives"] == 0
    assert list(found["latency"]) == ["calm", "burst", "planning", "plan going in", "planned"]
    assert all(0 < one["p50_ms"] <= one["p99_ms"] for one in found["latency"].values() if one["deliveries"])
    assert found["latency"]["calm"]["deliveries"] > 0
    assert "publishes" in errors
    assert "prefers-color-scheme" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (tmp_path / "p.svg").stat().st_size < 150_000
    assert (tmp_path / "kept" / "samples" / "events").is_dir()
    assert nothing_is_left(tmp_path, mark)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at /proc")
@pytest.mark.parametrize(
    ("number", "after"),
    [
        (signal.SIGINT, "compiling"),
        (signal.SIGTERM, "publishes"),
        pytest.param(signal.SIGINT, "publishes", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_ends_everything(tmp_path: Path, number: signal.Signals, after: str) -> None:
    program, mark = started(tmp_path)
    assert program.stderr is not None
    for line in program.stderr:
        if after in line:
            break
    program.send_signal(number)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 130, errors
    assert "Traceback" not in errors
    assert nothing_is_left(tmp_path, mark)


@pytest.mark.long
def test_the_planner_rehearses(spark: SparkSession, tmp_path: Path) -> None:
    compile_documents()
    rehearse(tmp_path)
    plan = Plan.decode((tmp_path / "rehearsed" / "plan.json").read_bytes())
    assert plan.basis["interests"] > 0
