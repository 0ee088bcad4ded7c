"""Memory: what a coordinator knows from one round to the next, and from one process to the next.

Small values are one JSON file, replaced as a whole; plans are files beside it. One process at a time has the directory.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from covey.coordinator.judging import Probation
from covey.coordinator.looking import Traffic
from covey.errors import ConfigError

FILE: Final = "coordinator.json"
VERSION: Final = 1


@dataclass
class Memory:
    """What is remembered.

    rounds     how many there were
    counts     what brokers had counted at the last look: published and forwarded events
    traffic    since the plan in use was switched to
    probation  the plan that is in use is not judged yet
    caution    plans in a row that were taken back
    fetched    the files of samples that were taken from each address, and when each was written
    installed  the digest of the plan that this coordinator had installed last, "" for the overlay's own tree
    at         the address at which it was
    """

    rounds: int = 0
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    probation: Probation | None = None
    caution: int = 0
    fetched: dict[str, dict[str, int]] = field(default_factory=dict)
    installed: str = ""
    at: str = ""

    def save(self, directory: Path) -> None:
        """Keep it in place of what was kept before."""
        values = {
            **vars(self),
            "version": VERSION,
            "traffic": [self.traffic.published, self.traffic.forwarded],
            "probation": None if self.probation is None else self.probation.as_dict(),
        }
        write_whole(directory / FILE, json.dumps(values, indent=1).encode())

    @classmethod
    def load(cls, directory: Path) -> Memory:
        """Return what was kept there, or a new one; ConfigError if it cannot be read."""
        file = directory / FILE
        try:
            values: dict[str, Any] = json.loads(file.read_bytes())
            if values.pop("version") != VERSION:
                raise ConfigError(f"{file} is of another version of Covey (hint: another data directory)")
            return cls(
                **{
                    **values,
                    "counts": {name: (int(one), int(two)) for name, (one, two) in values["counts"].items()},
                    "traffic": Traffic(*map(int, values["traffic"])),
                    "probation": None if values["probation"] is None else Probation.of(values["probation"]),
                }
            )
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"{file} cannot be read: {error!s:.120} (hint: remove it to begin anew)"
            ) from None


def write_whole(file: Path, data: bytes) -> None:
    """Write a file so that it is the old one or the new one, also after a crash."""
    beside = file.with_name(f".{file.name}.new")
    with beside.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)


def lock(directory: Path) -> IO[bytes]:
    """Return what keeps other coordinators out of the directory while it is open; ConfigError if one is in."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / "lock").open("ab")
    except OSError as error:
        raise ConfigError(f"{directory} cannot be used: {error.strerror or error}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(f"another coordinator uses {directory}") from None
    return file
