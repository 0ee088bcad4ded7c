"""What people have configured Spark with, wherever they did: it wins over everything that we would set.

    spark-submit            it starts Python with a Java that knows the whole configuration
    SPARK_REMOTE, MASTER    where Spark runs, in the environment
    PYSPARK_SUBMIT_ARGS     arguments of the spark-submit that PySpark itself starts
    spark-defaults.conf     in SPARK_CONF_DIR, or in the directory conf of Spark's home

The last three are read here, because Java must be started with what we add, and then it is too late to ask it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from covey.errors import ConfigError

MASTER: Final = "spark.master"
REMOTE: Final = "spark.remote"
MEMORY: Final = "spark.driver.memory"
GATEWAY: Final = "PYSPARK_GATEWAY_PORT"  # in the environment: spark-submit has started this process
OPTIONS: Final = {  # of spark-submit, and the settings that they stand for
    "--master": MASTER,
    "--remote": REMOTE,
    "--name": "spark.app.name",
    "--driver-memory": MEMORY,
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
OWN_OPTIONS: Final = {MASTER: "--master", REMOTE: "--master", MEMORY: "--driver-memory"}
_KEY: Final = re.compile(r"spark\.[A-Za-z0-9_.\-]{1,200}")
_LINE: Final = re.compile(r"\s*(spark\.[^\s=:]+)\s*[=:\s]\s*(.*?)\s*")


def parse_conf(given: Iterable[str]) -> dict[str, str]:
    """Return settings of Spark from texts KEY=VALUE; ConfigError in one line for what is none, or there twice."""
    settings: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--conf {text!r:.80}: expected KEY=VALUE (hint: spark.executor.memory=4g)")
        if key in settings:
            raise ConfigError(f"--conf {key:.80} is given twice")
        settings[key] = value
    check_conf(settings)
    return settings


def check_conf(settings: Mapping[str, str]) -> None:
    """Raise ConfigError if these are no settings of Spark, or have an option of their own."""
    for key in settings:
        if not _KEY.fullmatch(key):
            raise ConfigError(f"{key!r:.80} is no setting of Spark (hint: names begin with spark.)")
        if key in OWN_OPTIONS:
            raise ConfigError(f"{key} has an option of its own (hint: {OWN_OPTIONS[key]})")


def configured(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what is configured already, by names of Spark's settings."""
    if "SPARK_REMOTE" in environ:
        return {REMOTE: environ["SPARK_REMOTE"]}
    if GATEWAY in environ:
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()  # lets SparkConf ask Java
        return dict(SparkConf().getAll())
    found = dict(_from_environment(environ))
    file, arguments = submit_arguments(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    return found | read_properties(file or _defaults_file(environ)) | arguments


def submit_arguments(text: str) -> tuple[Path | None, dict[str, str]]:
    """Return the properties file that arguments of spark-submit name, and the settings that they stand for."""
    settings: dict[str, str] = {}
    file: Path | None = None
    words = iter(shlex.split(text))
    for word in words:
        name, equals, value = word.partition("=")
        if name not in (*OPTIONS, "--conf", "-c", "--properties-file"):
            continue
        given = value if equals else next(words, "")
        if name == "--properties-file":
            file = Path(given)
        elif name in OPTIONS:
            settings[OPTIONS[name]] = given
        else:
            key, _, value = given.partition("=")
            settings[key] = value
    return file, settings


def read_properties(file: Path | None) -> dict[str, str]:
    """Return the settings in a file such as spark-defaults.conf; none if there is no such file."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace") if file else ""
    except OSError:
        return {}
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match[1]: match[2] for match in found if match}


def _from_environment(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, key in (("MASTER", MASTER), ("SPARK_DRIVER_MEMORY", MEMORY)):
        if environ.get(name):
            yield key, environ[name]


def _defaults_file(environ: Mapping[str, str]) -> Path | None:
    directory = environ.get("SPARK_CONF_DIR")
    if not directory:
        from pyspark.find_spark_home import _find_spark_home

        directory = os.path.join(environ.get("SPARK_HOME") or _find_spark_home(), "conf")
    return Path(directory) / "spark-defaults.conf"
