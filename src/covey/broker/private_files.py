"""Files of a broker that nobody else may read: events of clients, plans, samples of traffic.

Directories are made with mode 0700 and files with 0600, whatever the umask. A directory that exists already is not
changed: it may be one that the operator shares on purpose, or `/tmp`. The broker then says that others can read it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_directory(path: Path) -> None:
    """Make a directory, with those above it, that only this user can enter; one that exists is left as it is."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def shared_with_others(path: Path) -> str:
    """Return a line for the operator if others can enter this directory, else nothing."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        return f"{path} has mode {mode:04o}, so that others can enter it (hint: chmod 700 {path})"
    return ""


def opener(path: str, flags: int) -> int:
    """Open a file as `open(…, opener=opener)` does, so that a new one can be read by this user alone."""
    return os.open(path, flags, 0o600)


def close_to_others(paths: Iterable[Path]) -> None:
    """Take the permissions of others from files that are there; OSError if they are not ours."""
    for path in paths:
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & _OTHERS:
            path.chmod(0o600)
