"""The lab on a cluster: its cells run in the cluster's own processes, and results come back to the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.cluster import cluster


@pytest.mark.long  # test_pipeline_cluster starts a cluster in every run, test_lab_runner computes figures
def test_a_figure_is_computed_by_a_standalone_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as master:
        done = subprocess.run(
            [sys.executable, "-m", "covey", "lab", "run", "R", "--figure", "8", "--master", master],
            cwd=tmp_path,
            # A session that other tests have is not for this process.
            env={
                key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "12 of 12 cells" in done.stderr
    assert (tmp_path / "lab-results" / "figures-small" / "r-figure-8.png").is_file()
    assert list((tmp_path / "cluster" / "worker-0").glob("app-*/*/stderr"))
