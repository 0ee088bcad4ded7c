"""Checkpoints: tables that a job writes on its way, and finds again when it is started anew.

Beside each table is its manifest: the key (a digest of all that the table depends on, Covey's version included), the
number of rows, and every file with its size and a digest of its content. The manifest is written last and removed
first. A table is used again if its key is right and its files are exactly those of the manifest. If a file is missing,
changed, truncated or added, the table is computed again and the caller is told why.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from covey import __version__
from covey.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIGEST_BYTES: Final = 16
Files = Mapping[str, Mapping[str, Any]]  # by path within the table: size and digest


class Checkpoints:
    """Tables in a directory, by name; `on_damage` gets a line for each table that is there and cannot be trusted."""

    def __init__(
        self, spark: SparkSession, directory: Path, on_damage: Callable[[str], None] = lambda line: None
    ) -> None:
        self._spark = spark
        self._directory = directory
        self._on_damage = on_damage
        self._verified: dict[tuple[str, str], bool] = {}  # reading all files once a run is enough
        self.seconds: dict[str, float] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def has(self, name: str, *basis: Any) -> bool:
        """Return whether the table is there, made from this, with every file as it was written."""
        key = _key(name, basis)
        if (name, key) not in self._verified:
            self._verified[name, key] = self._verify(name, key)
        return self._verified[name, key]

    def table(self, name: str, make: Callable[[], DataFrame], *basis: Any) -> DataFrame:
        """Return the table as it was written; it is made and written first unless it is there, made from this."""
        started_s = time.perf_counter()
        path = (self._directory / name).resolve()
        if not self.has(name, *basis):
            key = _key(name, basis)
            self._verified = {one: sound for one, sound in self._verified.items() if one[0] != name}
            self._manifest_file(name).unlink(missing_ok=True)
            make().write.mode("overwrite").parquet(str(path))
            files = _files_in(path)
            manifest = {"key": key, "rows": _rows_in(path, files), "files": files}
            write_at_once(self._manifest_file(name), json.dumps(manifest, indent=1).encode())
            self._verified[name, key] = True
        frame = self._spark.read.parquet(str(path))
        self.seconds[name] = time.perf_counter() - started_s
        return frame

    def drop(self, name: str) -> None:
        """Remove a table, if it is there: one that this input does not have, and that nobody should find."""
        self._verified = {one: sound for one, sound in self._verified.items() if one[0] != name}
        self._manifest_file(name).unlink(missing_ok=True)
        shutil.rmtree(self._directory / name, ignore_errors=True)

    def _verify(self, name: str, key: str) -> bool:
        path = self._directory / name
        try:
            manifest = json.loads(self._manifest_file(name).read_bytes())
            if manifest["key"] != key:
                return False
            damage = _damage(path, manifest["files"])
        except FileNotFoundError:
            damage = "it has no manifest: the run that wrote it did not end" if path.exists() else None
            if damage is None:
                return False
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            damage = "its manifest cannot be read"
        if damage is not None:
            self._on_damage(f"{self._directory.name}/{name} is damaged ({damage}): computed again")
        return damage is None

    def _manifest_file(self, name: str) -> Path:
        return self._directory / f"{name}.manifest.json"


def write_at_once(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads it finds the old one or the new one."""
    beside = file.with_suffix(".new")
    beside.write_bytes(data)
    beside.replace(file)


def _key(name: str, basis: tuple[Any, ...]) -> str:
    return blake2b(
        json.dumps([name, __version__, *basis], sort_keys=True).encode(), digest_size=DIGEST_BYTES
    ).hexdigest()


def _files_in(directory: Path) -> dict[str, dict[str, Any]]:
    """Return every file of a table, Spark's own checksums included: a wrong one makes the table unreadable."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): _identity(path) for path in paths}


def _identity(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = file_digest(file, lambda: blake2b(digest_size=DIGEST_BYTES)).hexdigest()
    return {"size": path.stat().st_size, "digest": digest}


def _rows_in(directory: Path, files: Files) -> int:
    from pyarrow import parquet

    parts = [name for name in files if not _is_hidden(name)]
    if not parts:
        raise ConfigError(
            f"Spark wrote {directory.name}, and no file is in {str(directory)!r:.200} (hint: the output directory must"
            " be the same one for this process and all of Spark's workers)"
        )
    return sum(parquet.read_metadata(directory / name).num_rows for name in parts)


def _damage(directory: Path, expected: Files) -> str | None:
    """Return what is wrong with the first file that is not as it was written, and with how many others."""
    found = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    wrong: list[str] = []
    for name in sorted(expected.keys() | found, key=lambda name: (_is_hidden(name), name)):
        said = _difference(directory / name, expected.get(name), name in found)
        if said is not None:
            wrong.append(f"{name} {said}")
    if not wrong:
        return None
    return wrong[0] if len(wrong) == 1 else f"{wrong[0]}, and {len(wrong) - 1} more files are not as written"


def _difference(path: Path, expected: Mapping[str, Any] | None, found: bool) -> str | None:
    if not found:
        return "is missing"
    if expected is None:
        return "was added"
    try:
        size = path.stat().st_size
        if size != expected["size"]:
            return f"has {size} bytes and not {expected['size']}"
        return None if _identity(path) == expected else "has changed"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def _is_hidden(name: str) -> bool:
    """Return whether Spark reads no rows from such a file."""
    return Path(name).name.startswith((".", "_"))
