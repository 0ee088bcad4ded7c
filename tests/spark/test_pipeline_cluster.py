"""Planning on a real cluster of two workers, by spark-submit: where and as that says, and the same bytes as here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from tests.spark.cluster import cluster
from tests.spark.conftest import MASTER
from tests.spark.test_pipeline_jobs import TABLES, write_parquet

from covey.pipeline import jobs
from covey.pipeline.session import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = Path(__file__).parent / "plan_job.py"


@pytest.mark.skipif(
    MASTER.startswith("connect:"), reason="a cluster of its own is no matter of Spark Connect"
)
def test_a_cluster_plans_what_this_process_plans(spark: SparkSession, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "input", TABLES)
    request = jobs.Request(source, tmp_path / "here", method="held-out", aggregate=False)
    before = spark.conf.getAll
    outcome = jobs.plan(request, spark=spark)
    assert (outcome.master, spark.conf.getAll) == (MASTER, before)
    here = outcome.plan_file.read_bytes()
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    with cluster(tmp_path / "cluster", workers=2) as master:
        asked = {
            "spark.ui.enabled": "true",
            "spark.sql.session.timeZone": "Asia/Tokyo",
            "spark.app.name": "mine",
        }
        words = [word for key, value in asked.items() for word in ("--conf", f"{key}={value}")]
        words += ["--conf", "spark.ui.port=0"]
        told = run(
            [submit, "--master", master, *words, str(SCRIPT), str(source), str(tmp_path / "submitted")]
        )
        assert f"ran on {master}" in told
        for key, value in asked.items():
            assert f"{key} is {value}" in told
        for worker in ("worker-0", "worker-1"):
            assert list((tmp_path / "cluster" / worker).glob("app-*/*/stderr")), "both workers worked"
    assert (tmp_path / "submitted" / "plan.json").read_bytes() == here


def run(command: Sequence[str]) -> str:
    # A session that other tests have is not for this process.
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        command,
        env=ours
        | {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "On fresh events it costs" in done.stdout
    return done.stdout
