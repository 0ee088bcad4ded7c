"""A real cluster of two workers: planning by spark-submit, where and as that says, and the same bytes as here; in the
long run a figure of the lab too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from tests.spark.cluster import cluster, quick_java
from tests.spark.conftest import MASTER, ROOT
from tests.spark.test_pipeline_jobs import TABLES, write_parquet

from covey.pipeline import jobs
from covey.pipeline.session import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = Path(__file__).parent / "plan_job.py"


pytestmark = pytest.mark.skipif(
    MASTER.startswith("connect:"), reason="a cluster of its own is no matter of Spark Connect"
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cluster has its logs and work."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(directory: Path) -> Iterator[str]:
    with cluster(directory, workers=2) as address:
        yield address


def test_a_cluster_plans_what_this_process_plans(
    spark: SparkSession, tmp_path: Path, master: str, directory: Path
) -> None:
    # No more than the plan depends on.
    tables = {name: TABLES[name] for name in ("topology", "subscriptions", "events")}
    source = write_parquet(tmp_path / "input", tables)
    request = jobs.Request(source, tmp_path / "here", method="held-out", aggregate=False)
    before = spark.conf.getAll
    outcome = jobs.plan(request, spark=spark)
    assert (outcome.master, spark.conf.getAll) == (MASTER, before)
    here = outcome.plan_file.read_bytes()
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    asked = {
        "spark.ui.enabled": "true",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.app.name": "mine",
        "spark.sql.shuffle.partitions": "3",
    }
    quick = {
        "spark.ui.port": "0",
        "spark.driver.extraJavaOptions": quick_java(),
        "spark.executor.extraJavaOptions": quick_java(),
    }
    words = [word for key, value in (asked | quick).items() for word in ("--conf", f"{key}={value}")]
    told = run([submit, "--master", master, *words, str(SCRIPT), str(source), str(tmp_path / "submitted")])
    assert "On fresh events it costs" in told.stdout
    assert f"ran on {master}" in told.stdout
    for key, value in asked.items():
        assert f"{key} is {value}" in told.stdout
    assert worked(directory) == {"worker-0", "worker-1"}, "both workers worked"
    assert (tmp_path / "submitted" / "plan.json").read_bytes() == here


@pytest.mark.long  # minutes
def test_a_figure_is_computed_by_a_cluster(tmp_path: Path, master: str, directory: Path) -> None:
    before = set(directory.glob("worker-*/app-*"))
    done = run(
        [sys.executable, "-m", "covey", "lab", "run", "R", "--figure", "8", "--master", master], cwd=tmp_path
    )
    assert "12 of 12 cells" in done.stderr
    assert (tmp_path / "lab-results" / "figures-small" / "r-figure-8.png").is_file()
    assert set(directory.glob("worker-*/app-*")) - before, "the cluster had an application more"


def worked(directory: Path) -> set[str]:
    """Return the workers on which executors ran."""
    return {path.parents[2].name for path in directory.glob("worker-*/app-*/*/stderr")}


def run(command: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    # A session that other tests have is not for this process.
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    own = {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    own["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    done = subprocess.run(
        command,
        env=ours | own,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done
