"""Files that the lab can use and does not have: data sets of others, given by the user as a directory.

Some experiments are of a data set that may not be carried along. Their grids ask here whether a file of that name was
given, and have cells with its digest if so; without it they have a stand-in alone, and their rows say which. The
directory is that of `--data-files`, or of the environment variable COVEY_LAB_DATA. On Spark, the contents travel with
the cells: workers need no common disk.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from covey.errors import ConfigError

VARIABLE = "COVEY_LAB_DATA"
MOST_BYTES = 64 << 20

_supplied: dict[str, bytes] = {}  # in a worker: what came with its cells
_chosen: list[Path] = []  # the directory of the command line, if there is one


def directory() -> Path | None:
    """Return the directory that was given, None if none was; ConfigError if it is no directory."""
    text = os.environ.get(VARIABLE, "")
    path = _chosen[0] if _chosen else Path(text)
    if not (_chosen or text):
        return None
    if not path.is_dir():
        raise ConfigError(
            f"the lab's data {str(path)!r} is not a directory (hint: --data-files or {VARIABLE})"
        )
    return path


def use(path: Path | None) -> None:
    """Take files from this directory from now on; None is what the environment says."""
    _chosen[:] = [] if path is None else [path]
    directory()


def digest(name: str) -> str | None:
    """Return a digest of the file's content, None if no file of that name was given."""
    content = _read(name)
    return None if content is None else hashlib.sha256(content).hexdigest()[:12]


def content(name: str) -> bytes:
    """Return the content of a file; ConfigError if it was not given."""
    found = _read(name)
    if found is None:
        raise ConfigError(f"the lab has no data file {name!r:.80} (hint: --data-files or {VARIABLE})")
    return found


def given(names: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of those of the files that were given."""
    found = {name: _read(name) for name in names}
    return {name: content for name, content in found.items() if content is not None}


def supply(files: Mapping[str, bytes]) -> None:
    """Use these contents here, in a worker."""
    _supplied.update(files)


def _read(name: str) -> bytes | None:
    if name in _supplied:
        return _supplied[name]
    where = directory()
    if where is None or not (where / name).is_file():
        return None
    try:
        with (where / name).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {str(where / name)!r:.80}: {error.strerror or error}") from None
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{str(where / name)!r:.80} has more than {MOST_BYTES} bytes")
    return content
