"""Checkpoints: tables that a job writes on its way, and finds again when it is started anew.

Beside each table is its manifest: the key (a digest of all that the table depends on, Covey's version included), the
number of rows, the schema, so that Spark runs no job to find it, what was measured of the rows while they were written
(`measures`: Spark's observed metrics, which take no job of their own), and every file with its size and a digest of its
content. The manifest is written last and removed first. A table is used again if its key is right and its files are
exactly those of the manifest. If a file is missing, changed, truncated or added, the table is computed again and the
caller is told why.

A table may be in parts (`parts`): each has a key and a manifest of its own, and is used again or computed again by
itself.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Container, Mapping, Sequence
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from covey import __version__
from covey.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

DIGEST_BYTES: Final = 16
WHOLE_BYTES: Final = 1_000_000  # of a table, up to which one task reads it
FORMAT: Final = 2  # of manifests
_PART: Final = "kept="  # as Spark writes the values of a column
Files = Mapping[str, Mapping[str, Any]]  # by path within the table: size and digest


class Checkpoints:
    """Tables in a directory, by name; `on_damage` gets a line for each table that is there and cannot be trusted.

    What is computed from rows of the tables `spread` is worth several tasks even where there are few of them.
    """

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        on_damage: Callable[[str], None] = lambda line: None,
        *,
        spread: Container[str] = (),
    ) -> None:
        self._spark = spark
        self._directory = directory
        self._on_damage = on_damage
        self._spread = spread
        self._verified: dict[tuple[str, str], bool] = {}  # reading all files once a run is enough
        self.seconds: dict[str, float] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def has(self, name: str, *basis: Any) -> bool:
        """Return whether the table is there, made from this, with every file as it was written."""
        key = _key(name, basis)
        if (name, key) not in self._verified:
            self._verified[name, key] = self._verify(name, key)
        return self._verified[name, key]

    def table(
        self,
        name: str,
        make: Callable[[], DataFrame],
        *basis: Any,
        measures: Mapping[str, Column] | None = None,
    ) -> DataFrame:
        """Return the table as it was written; it is made and written first unless it is there, made from this.

        `measures` are aggregates over all rows, counts and sums of whole numbers, which `measured` returns.
        """
        started_s = time.perf_counter()
        path = (self._directory / name).resolve()
        if not self.has(name, *basis):
            key = _key(name, basis)
            self._verified = {one: sound for one, sound in self._verified.items() if one[0] != name}
            self._manifest_file(name).unlink(missing_ok=True)
            made = make()
            found = _written(made, str(path), measures or {})
            files = _files_in(path)
            schema = made.schema.jsonValue()
            rows = _rows_in(path, files)
            manifest = {"key": key, "rows": rows, "schema": schema, "files": files, "measured": found(rows)}
            write_at_once(self._manifest_file(name), json.dumps(manifest, indent=1).encode())
            self._verified[name, key] = True
        frame = self._read(name, [name])
        self.seconds[name] = time.perf_counter() - started_s
        return frame

    def parts(
        self,
        name: str,
        makes: Mapping[str, Callable[[], DataFrame]],
        *basis: Any,
        measures: Mapping[str, Column] | None = None,
    ) -> DataFrame:
        """Return a table whose parts are these, each as `table` returns one; other parts of it are removed."""
        wanted = {_part(name, part) for part in makes}
        path = self._directory / name
        if path.exists() and not all(one.name.startswith(_PART) for one in path.iterdir()):
            self.drop(name)  # it was not in parts
        for part in self.parts_of(name):
            if _part(name, part) not in wanted:
                self.drop(_part(name, part))
        for part, make in makes.items():
            self.table(_part(name, part), make, part, *basis, measures=measures)
        # One reader of all: a union would be as many tasks as there are files, however small.
        return self._read(name, sorted(wanted))

    def part(self, name: str, part: str) -> DataFrame:
        """Return a part as it was written."""
        return self._read(name, [_part(name, part)])

    def _read(self, name: str, places: Sequence[str]) -> DataFrame:
        """Return what is in these places of a table.

        Of what is small, Spark is told that it is one partition: then grouping and joining take no shuffle.
        """
        manifests = [self._manifest(place) for place in places]
        paths = [str((self._directory / place).resolve()) for place in places]
        frame = self._spark.read.schema(self._schema(places[0])).parquet(*paths)
        size = sum(file["size"] for one in manifests for file in one["files"].values())
        return frame.coalesce(1) if size <= WHOLE_BYTES and name not in self._spread else frame

    def parts_of(self, name: str) -> list[str]:
        """Return the parts of a table that are there, whatever they were made from."""
        return sorted(path.name.removeprefix(_PART) for path in (self._directory / name).glob(f"{_PART}*"))

    def has_part(self, name: str, part: str, *basis: Any) -> bool:
        """Return whether a part is there, made from this, with every file as it was written."""
        return self.has(_part(name, part), part, *basis)

    def remember(self, name: str, part: str, told: Any) -> None:
        """Keep something that is known of a part with it, as JSON."""
        manifest = self._manifest(_part(name, part)) | {"told": told}
        write_at_once(self._manifest_file(_part(name, part)), json.dumps(manifest, indent=1).encode())

    def remembered(self, name: str, part: str) -> Any:
        """Return what is known of a part, None if nothing is."""
        return self._manifest(_part(name, part)).get("told")

    def rows(self, name: str, part: str | None = None) -> int:
        """Return how many rows a table, or a part, has that was returned before."""
        return int(self._manifest(name if part is None else _part(name, part))["rows"])

    def measured(self, name: str, part: str | None = None) -> dict[str, int]:
        """Return what was measured of a table, or a part, when it was written."""
        found: dict[str, int] = self._manifest(name if part is None else _part(name, part))["measured"]
        return found

    def drop(self, name: str) -> None:
        """Remove a table with all parts, if it is there: one that this input does not have, and nobody should find."""
        self._verified = {
            one: sound
            for one, sound in self._verified.items()
            if one[0].split("/")[0] != name and one[0] != name
        }
        for part in self.parts_of(name):
            self._manifest_file(_part(name, part)).unlink(missing_ok=True)
        self._manifest_file(name).unlink(missing_ok=True)
        shutil.rmtree(self._directory / name, ignore_errors=True)

    def _verify(self, name: str, key: str) -> bool:
        path = self._directory / name
        try:
            manifest = self._manifest(name)
            if manifest["key"] != key:
                return False
            self._schema(name)
            damage = _damage(path, manifest["files"])
        except FileNotFoundError:
            damage = "it has no manifest: the run that wrote it did not end" if path.exists() else None
            if damage is None:
                return False
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            damage = "its manifest cannot be read"
        if damage is not None:
            table, _, part = name.partition(f"/{_PART}")
            said = f"{'a part of ' * bool(part)}{self._directory.name}/{table}"
            self._on_damage(f"{said} is damaged ({damage}): computed again")
        return damage is None

    def _manifest(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._manifest_file(name).read_bytes())
        return found

    def _schema(self, name: str) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(self._manifest(name)["schema"])

    def _manifest_file(self, name: str) -> Path:
        # Beside the table, where no reader of it comes by.
        return self._directory / f"{name.replace(f'/{_PART}', '.')}.manifest.json"


def _part(name: str, part: str) -> str:
    return f"{name}/{_PART}{part}"


def write_at_once(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads it finds the old one or the new one."""
    beside = file.with_suffix(".new")
    beside.write_bytes(data)
    beside.replace(file)


def _written(frame: DataFrame, path: str, measures: Mapping[str, Column]) -> Callable[[int], dict[str, int]]:
    """Write a table; return what tells, given how many rows there are, what was measured of them."""
    from pyspark.sql import Observation

    observation = Observation()
    columns = [column.alias(name) for name, column in measures.items()]
    observed = frame.observe(observation, *columns) if columns else frame
    observed.write.mode("overwrite").parquet(path)

    def found(rows: int) -> dict[str, int]:
        # Of no rows, Spark may have found out that there is nothing to measure.
        values = observation.get if columns and rows else {}
        return {name: int(values.get(name) or 0) for name in measures}

    return found


def _key(name: str, basis: tuple[Any, ...]) -> str:
    return blake2b(
        json.dumps([name, __version__, FORMAT, *basis], sort_keys=True).encode(), digest_size=DIGEST_BYTES
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
