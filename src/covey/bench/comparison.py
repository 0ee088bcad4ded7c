"""What a benchmark found: one piece of work at one size, our cost beside that of another way, in the same run.

All figures are costs, of which less is better, so that every ratio reads alike: the other way's cost over ours. `equal`
says whether the two gave the same answers; a ratio between different answers means nothing. Work that could not be done
(no Java, no other server) is a comparison without figures whose `note` says why.

A run is saved as JSON, from which its tables, picture and document can be made again.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from covey.errors import ConfigError

FORMAT: Final = 1


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure of a live server is of, and what the machine kept from the processes while it was measured.

    case, figure                    the figures of one case have the other fields in common
    client                          what the programs at both ends were
    steal_ms                        how long the host ran others on this machine's CPUs, all CPUs together
    server_wait_ms, client_wait_ms  how long threads of these processes could run and had no CPU
    """

    case: str
    figure: str
    client: str
    steal_ms: float
    server_wait_ms: float
    client_wait_ms: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work, ours and another way.

    part, work    what was done: `matching`, `siena-3, all matches`
    axis, size    what grows along the sizes, and its number here: 10,000 filters
    ours, theirs  costs in `unit`; `theirs` is None if there is no other way to do it
    baseline      the other way's name
    equal         whether answers were the same; None if nothing was compared
    ours_under, theirs_under  under which circumstances the costs were measured, of live servers
    """

    part: str
    work: str
    unit: str = ""
    axis: str = ""
    size: int = 0
    ours: float | None = None
    baseline: str = ""
    theirs: float | None = None
    equal: bool | None = None
    note: str = ""
    ours_under: Circumstances | None = None
    theirs_under: Circumstances | None = None

    @property
    def ratio(self) -> float | None:
        """How many times our cost the other way has."""
        return self.theirs / self.ours if self.ours and self.theirs is not None else None

    @property
    def series(self) -> tuple[str, str, str]:
        """What comparisons of the same work at several sizes have in common."""
        return self.part, self.work, self.axis


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All comparisons of a run; when, where and at what load of the machine, before and after, they were made."""

    made: str
    machine: str
    quick: bool
    load_before: float
    load_after: float
    seconds: dict[str, float]  # that each part took, on the wall
    comparisons: list[Comparison]
    format: int = FORMAT

    @property
    def differing(self) -> list[Comparison]:
        """Those whose answers were not the same."""
        return [one for one in self.comparisons if one.equal is False]


def largest(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return of each work and baseline the comparison of the largest size, and all that could not be made."""
    found: dict[tuple[str, ...], Comparison] = {}
    for one in comparisons:
        key = (*one.series, one.baseline, one.note)
        if key not in found or found[key].size <= one.size:
            found[key] = one
    return list(found.values())


def machine() -> str:
    """Return in a few words what this machine is."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def save(run: Run, path: Path) -> None:
    """Write a run; ConfigError if that cannot be done."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r:.80}: {error.strerror or error}") from None


def load(path: Path) -> Run:
    """Return a run that was saved; ConfigError if the file has none."""
    try:
        run = msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r:.80}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(path)!r:.80} has no figures of `covey bench all`: {error!s:.120}") from None
    if run.format != FORMAT:
        raise ConfigError(f"{str(path)!r:.80} is of format {run.format}, and this program reads {FORMAT}")
    return run
