"""The archive with which Spark's Java starts: which Java it is for, and that this Java takes it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.conftest import MASTER

from covey.pipeline import java_archive
from covey.pipeline.session import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.skipif(MASTER.startswith("connect:"), reason="of a Connect server, Java cannot be asked")
def test_java_takes_the_archive(spark: SparkSession) -> None:
    """The tests' own session has made it; with `-Xshare:on`, a Java that cannot use an archive does not start."""
    home = java_home()
    file = java_archive.file_for(home)
    if file is None or not (home / "release").exists():
        pytest.skip("this Java has no archive")
    assert java_archive.java_options(home).startswith(f"-XX:SharedArchiveFile={file} ")
    classes = spark._jvm.java.lang.System.getProperty("java.class.path")  # type: ignore[union-attr] # of classic Spark
    options = ["-Xshare:on", f"-XX:SharedArchiveFile={file}", "-XX:+UseSerialGC", "-cp", classes]
    started = subprocess.run(
        [home / "bin" / "java", *options, "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 0, started.stdout + started.stderr


def test_an_archive_is_for_one_java_in_a_safe_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "java"
    home.mkdir()
    assert java_archive.file_for(home) is None, "a Java that does not say what it is"
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    first = java_archive.file_for(home)
    assert first is not None
    assert first.is_relative_to(tmp_path / "cache")
    assert java_archive.java_options(home) == "", "nobody has made it"
    first.touch()
    assert f"={first} " in java_archive.java_options(home)
    (home / "release").write_text('JAVA_VERSION="17.0.2"')
    assert java_archive.file_for(home) != first
    first.parent.chmod(0o777)
    assert java_archive.file_for(home) is None, "others could put a file there"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    assert java_archive.file_for(home) is None, "Spark splits options at spaces"
