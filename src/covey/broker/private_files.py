"""Files of a broker that nobody else may read: events of clients, plans, samples of traffic.

Directories are made with mode 0700 and files with 0600, whatever the umask. A data directory that exists already and
that others can enter is closed to them (0700) if it is the broker's own: it belongs to this user, and is empty or has a
store in it. Any other one, such as `/tmp` or a home directory, is refused and left as it is.

Small files are replaced as a whole (`replace_file`): whenever the process or the machine ends, the old contents or the
new ones are there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from covey.errors import ConfigError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
SUM: Final = 16  # bytes of the checksum that begins a file with one


def make_directory(path: Path) -> None:
    """Make a directory, with those above it, that only this user can enter; one that exists is left as it is."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def close_directory(path: Path, known: str) -> str:
    """Close a directory to others, if it is ours: empty, or with a file of the name `known` in it.

    Return a line for the operator if something was changed. ConfigError if others can enter it and it is not ours.
    """
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _OTHERS:
        return ""
    is_ours = found.st_uid == os.geteuid() and not mode & stat.S_ISVTX
    if not is_ours or not ((path / known).exists() or not any(path.iterdir())):
        raise ConfigError(
            f"others can enter the data directory {path}, which has mode {mode:04o} and is not only the broker's "
            f"(hint: name a directory of its own, or chmod 700 {path})"
        )
    path.chmod(0o700)
    return f"the data directory {path} had mode {mode:04o}; it has 0700 now, so that others cannot enter it"


def opener(path: str, flags: int) -> int:
    """Open a file as `open(…, opener=opener)` does, so that a new one can be read by this user alone."""
    return os.open(path, flags, 0o600)


def close_to_others(paths: Iterable[Path]) -> None:
    """Take the permissions of others from files that are there; OSError if they are not ours."""
    for path in paths:
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & _OTHERS:
            path.chmod(0o600)


def sync_directory(directory: Path) -> None:
    """Return when the names in a directory would survive a loss of power."""
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_file(path: Path, data: bytes) -> None:
    """Put data, as a whole and synced, in the place of what a file has; OSError if the disk does not take it."""
    beside = path.with_name(f"{path.name}.new")
    with open(beside, "wb", opener=opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(path.parent)


def with_sum(body: bytes) -> bytes:
    """Return a file's contents that begin with a checksum of the rest."""
    return blake2b(body, digest_size=SUM).digest() + body


def without_sum(data: bytes) -> bytes:
    """Return what follows the checksum; ValueError if the checksum is wrong."""
    body = data[SUM:]
    if blake2b(body, digest_size=SUM).digest() != data[:SUM]:
        raise ValueError("its checksum is wrong")
    return body
