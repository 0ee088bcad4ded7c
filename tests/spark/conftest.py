"""One Spark session for all tests here: starting one takes longer than any of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covey.lab.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two threads of this machine."""
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    running = session(MASTER, log)
    yield running
    running.stop()
