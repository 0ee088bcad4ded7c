"""A real Spark cluster for tests: a master and workers as processes of their own on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from covey.pipeline.java_archive import java_options
from covey.pipeline.session import java_home

STARTING_S = 180.0


def quick_java() -> str:
    """Return options of Javas that live for a minute: for them, compiling well takes longer than it saves."""
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {java_options(java_home())}"


@contextmanager
def cluster(directory: Path, workers: int = 1) -> Iterator[str]:
    """Start a standalone cluster whose logs and work are in a directory; yield its master's address; end it."""
    with ExitStack() as ending:
        log = _start(ending, directory, "master.Master", "--port", "0")
        address = _wait_for(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            work = directory / f"worker-{number}"
            log = _start(
                ending, work, "worker.Worker", "-c", "1", "-m", "1g", "--work-dir", str(work), address
            )
            _wait_for(log, r"Successfully registered with master (\S+)")
        yield address


def _start(ending: ExitStack, directory: Path, name: str, *arguments: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "log"
    home = Path(pyspark.__file__).parent
    program = str(home / "bin" / "spark-class")
    own = {"SPARK_HOME": str(home), "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    own |= {"SPARK_DAEMON_JAVA_OPTS": quick_java(), "SPARK_DAEMON_MEMORY": "256m"}
    with log.open("wb") as printed:
        process = subprocess.Popen(
            [
                program,
                f"org.apache.spark.deploy.{name}",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                *arguments,
            ],
            env=os.environ | own | {"PYSPARK_PYTHON": sys.executable},
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    ending.callback(process.wait)
    ending.callback(process.terminate)
    return log


def _wait_for(log: Path, pattern: str) -> str:
    """Return what the pattern's group finds in a log, as soon as it is there."""
    end_s = time.monotonic() + STARTING_S
    while time.monotonic() < end_s:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.2)
    raise TimeoutError(f"{pattern!r} is not in {log} after {STARTING_S:.0f} s")
