"""Checkpoints: tables that a job writes on its way, and finds again when it is started anew.

Beside each table is a file with its key: a digest of all that the table depends on, Covey's version included. The key
is written last and removed first, so a table with the right key is whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Checkpoints:
    """Tables in a directory, by name."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self.seconds: dict[str, float] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def has(self, name: str, *basis: Any) -> bool:
        """Return whether the table is there, made from this."""
        try:
            return self._key_file(name).read_text(encoding="utf-8") == _key(name, basis)
        except OSError:
            return False

    def table(self, name: str, make: Callable[[], DataFrame], *basis: Any) -> DataFrame:
        """Return the table as it was written; it is made and written first unless it is there, made from this."""
        started_s = time.perf_counter()
        path = str((self._directory / name).resolve())
        if not self.has(name, *basis):
            self._key_file(name).unlink(missing_ok=True)
            make().write.mode("overwrite").parquet(path)
            self._key_file(name).write_text(_key(name, basis), encoding="utf-8")
        frame = self._spark.read.parquet(path)
        self.seconds[name] = time.perf_counter() - started_s
        return frame

    def _key_file(self, name: str) -> Path:
        return self._directory / f"{name}.key"


def _key(name: str, basis: tuple[Any, ...]) -> str:
    return blake2b(
        json.dumps([name, __version__, *basis], sort_keys=True).encode(), digest_size=16
    ).hexdigest()
