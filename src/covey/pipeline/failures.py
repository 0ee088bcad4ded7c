"""What is said when Spark fails: one line, by whose fault it was.

A worker that raised one of our errors says it best. A Java that ended says nothing: the connection to it is gone, and
what it was is in Spark's log, if anywhere. Of everything else Spark's first line is told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from covey.errors import ConfigError, CoveyError, PlanError

SPARK_ERRORS: Final = (PySparkException, Py4JError, ConnectionError)
OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
TAIL: Final = 1 << 20  # bytes of a log that are looked at
_OURS: Final = re.compile(r"covey\.errors\.(\w+): (.*)")
_STOPPED: Final = "SparkContext was shut down"


def failure(error: Exception, what: str, log: Path | None = None) -> CoveyError:
    """Return the error to raise because `what` failed on Spark."""
    ours = _OURS.search(str(error))
    if ours:
        kind = ConfigError if ours[1] == "ConfigError" else PlanError
        return kind(ours[2].strip())
    where = f" (its log: {log})" if log else ""
    if OUT_OF_MEMORY in str(error) or (_ended(error) and OUT_OF_MEMORY in _tail(log)):
        return ConfigError(
            f"{what} failed: Spark's Java has no more memory (hint: --driver-memory with more than it has now; for a"
            f" session that is not Covey's, spark.driver.memory where it is started){where}"
        )
    if _ended(error):
        return PlanError(f"{what} failed: Spark's Java has ended{where}")
    return PlanError(f"{what} failed on Spark: {first_line(error)}{where}")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that says something, short."""
    lines = [line.strip(" :") for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    return said[0][:300] if said else type(error).__name__


def _ended(error: Exception) -> bool:
    if isinstance(error, Py4JNetworkError | ConnectionError) or _STOPPED in str(error):
        return True
    # Asked over a connection that broke, Py4J says no more than that it failed.
    process = getattr(SparkContext._gateway, "proc", None)
    return isinstance(error, Py4JError) and process is not None and process.poll() is not None


def _tail(log: Path | None) -> str:
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
