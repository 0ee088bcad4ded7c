"""The pipeline's tests once more, on Spark Connect; in a process of its own, as one process is either or the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.conftest import MASTER

from covey.errors import ConfigError
from covey.pipeline import session

HERE = Path(__file__).parent


@pytest.mark.skipif(MASTER.startswith("connect:"), reason="this is that process")
@pytest.mark.parametrize(
    "names",
    [
        # The last one runs all stages from events to costs.
        [
            "match.py::test_all_families_match_as_the_scan_does",
            "plan.py::test_costs_are_those_of_trees_cut_by_hand",
        ],
        pytest.param(["ingest.py", "match.py", "plan.py"], marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_the_pipeline_on_spark_connect(names: list[str]) -> None:
    # COVEY_TEST_MASTER='connect:local[2]' runs any test of this directory; running them all would take minutes.
    tests = [str(HERE / f"test_pipeline_{name}") for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests],
        env=os.environ | {"COVEY_TEST_MASTER": "connect:local[2]"},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_masters_of_spark_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    assert session.connect_address("local[2]") is None
    assert session.connect_address("spark://host:7077") is None
    assert session.connect_address("connect:local[2]") == "local[2]"
    assert session.connect_address("connect:local") == "local[*]"
    assert session.connect_address("sc://host:15002/;token=x") == "sc://host:15002/;token=x"
    assert session.slots("connect:local[3]") == 3
    for master in ("sc://host:15002", "connect:local[2]", "sc://host"):
        session.check_master(master)
    for master in ("connect:spark://host:7077", "sc:/host", "connect:"):
        with pytest.raises(ConfigError, match="no Spark master"):
            session.check_master(master)
    with pytest.raises(ConfigError, match="answers at sc://127"):
        session.check_answer("sc://127.0.0.1:1")
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs Spark Connect \(hint: pip install"):
        session.connect_address("connect:local[2]")
