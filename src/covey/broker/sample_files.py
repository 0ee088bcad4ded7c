"""The files of samples, as those outside may have them: listed, and one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from covey.errors import ConfigError

TABLES: Final = ("events", "deliveries", "subscriptions", "advertisements", "topology")
ENDING: Final = ".parquet"


def listed(directory: Path | None) -> list[dict[str, Any]]:
    """Return the files that are whole: table, name, bytes, and when each was written, in nanoseconds."""
    found = []
    for table in TABLES if directory is not None else ():
        assert directory is not None
        for path in sorted((directory / table).glob(f"[!.]*{ENDING}")):
            try:
                state = path.stat()
            except FileNotFoundError:
                continue  # it has left meanwhile
            found.append(
                {"table": table, "name": path.name, "bytes": state.st_size, "written_ns": state.st_mtime_ns}
            )
    return found


def path_of(directory: Path | None, table: str, name: str) -> Path:
    """Return the file of that name; ConfigError if there is none."""
    if directory is None:
        raise ConfigError("this broker takes no samples (hint: its settings sample and data_dir)")
    # Names come from outside: only what is listed is given away.
    if not any((table, name) == (one["table"], one["name"]) for one in listed(directory)):
        raise ConfigError(f"there is no file {name!r:.80} of samples of {table!r:.40}")
    return directory / table / name
