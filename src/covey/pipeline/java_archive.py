"""Spark's Java starts with classes that were loaded and checked before: an archive of them, made once.

A Java that runs Spark loads some ten thousand classes from jars, and checks each. That is almost half of all it does
until the first small job is done. Java can write the classes that it has loaded into a file when it ends, and map that
file into memory when it starts again (class data sharing). `covey compile` makes the file, in ~/.cache/covey/java or
below XDG_CACHE_HOME; `session` uses it where it is. The file is for one Java and one PySpark: those that are another
size or date have another file. Java itself refuses a file that does not fit, and goes on without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

KEPT: Final = 3  # files, of the Javas and PySparks used last
LONGEST_S: Final = 600.0
# Java says on its standard output what it thinks of an archive; only errors are of interest.
QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


def java_options(home: Path) -> str:
    """Return the options with which the Java of this home starts with an archive, "" if it has none."""
    file = file_for(home)
    return f"-XX:SharedArchiveFile={file} {QUIET}" if file is not None and file.exists() else ""


def file_for(home: Path) -> Path | None:
    """Return where the archive of a Java is, or would be; None if there can be none."""
    import pyspark

    from covey.matching.compile_cache import why_unsafe

    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    directory = Path(cache, "covey", "java")
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        release = (home / "release").read_text(encoding="utf-8")  # one without it may be of any version
        names = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars.iterdir())
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if why_unsafe(directory) or any(character in str(directory) for character in " \"'\\"):
            return None
    except (OSError, ValueError):
        return None
    key = blake2b(repr((str(home), release, str(jars), names)).encode(), digest_size=8).hexdigest()
    return directory / f"{key}.jsa"


def make(home: Path) -> None:
    """Make the archive of a Java, unless it is there or there can be none; about half a minute of CPU time."""
    file = file_for(home)
    if file is None or file.exists():
        return
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="new-") as scratch:
        made = Path(scratch, file.name)
        # A process of its own, as Java writes the file when it ends. Without a file, Spark starts as it does today.
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-m", "covey.pipeline.java_exercise", str(made)],
                cwd=scratch,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                timeout=LONGEST_S,
                check=False,
            )
        with suppress(FileNotFoundError):
            made.replace(file)
    _forget_old(file.parent)


def _forget_old(directory: Path) -> None:
    files = sorted(directory.glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[KEPT:]:
        file.unlink(missing_ok=True)
