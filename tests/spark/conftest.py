"""One Spark session for all tests of a process: starting one takes longer than most of them.

`COVEY_TEST_MASTER` says where it runs; test_connect.py sets it to run the pipeline's tests on Spark Connect.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey.pipeline import java_archive
from covey.pipeline.session import java_home, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
MASTER = os.environ.get("COVEY_TEST_MASTER", "local[2]")
# Tables of twenty rows need no two hundred tasks, nor queries that are compiled and adapted while they run. What tests
# start as a process of its own has Spark's settings as users have them.
FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two threads of this machine."""
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with alone():
        prepare_java()
        running = session(MASTER, log)
        for name, value in FOR_FEW_ROWS.items():
            running.conf.set(name, value)
        yield running
        running.stop()


def prepare_java() -> None:
    """Make the archive with which every Java of these tests starts sooner, once for all processes on this machine."""
    with locked("covey-tests-java.lock"):
        java_archive.make(java_home())


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other run of the tests on this machine has a Connect server: PySpark gives them all one port."""
    if not MASTER.startswith("connect:"):
        yield
        return
    with locked("covey-tests-connect.lock"):
        yield


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Wait until no other process on this machine has a lock."""
    with open(Path(tempfile.gettempdir(), name), "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
