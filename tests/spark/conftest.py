"""One Spark session for all tests of a process: starting one takes longer than most of them.

`COVEY_TEST_MASTER` says where it runs; test_connect.py sets it to run the pipeline's tests on Spark Connect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = os.environ.get("COVEY_TEST_MASTER", "local[2]")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two threads of this machine."""
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    running = session(MASTER, log)
    # Tables of twenty rows need no two hundred tasks.
    running.conf.set("spark.sql.shuffle.partitions", "3")
    yield running
    running.stop()
