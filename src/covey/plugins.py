"""Plug-ins: strategies, workloads and topologies that other installed packages bring, by entry points.

A package names what it brings in its `pyproject.toml`, and is then known wherever one of ours is named:

    [project.entry-points."covey.strategies"]
    hysteresis = "covey_hysteresis:Hysteresis"

Nothing of it is imported before somebody asks for that name. What cannot be used is refused in one line that says
which package it comes from: a name that Covey or another package has, what cannot be loaded, and what is not what it
should be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Generic, TypeVar

from covey.errors import ConfigError

T = TypeVar("T")

STRATEGIES: Final = "covey.strategies"
WORKLOADS: Final = "covey.workloads"
TOPOLOGIES: Final = "covey.topologies"


class Catalogue(Mapping[str, T], Generic[T]):
    """What we have by name, and after that what plug-ins bring; those are loaded when they are asked for.

    `kind` is the word for such a thing in errors. `take` makes of what was loaded, under its name, what is asked for;
    it raises ConfigError if that cannot be. `reserved` are names that plug-ins may not have beside those of `own`.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        own: Mapping[str, T],
        take: Callable[[str, object], T],
        reserved: Mapping[str, object] | None = None,
    ) -> None:
        self._kind, self._group, self._own, self._take = kind, group, own, take
        self._reserved: Mapping[str, object] = {} if reserved is None else reserved
        self._loaded: dict[EntryPoint, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self._own:
            return self._own[name]
        point = self._brought()[name]
        if point not in self._loaded:
            self._loaded[point] = self._load(point)
        return self._loaded[point]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._brought()

    def __len__(self) -> int:
        return len(self._own) + len(self._brought())

    def _brought(self) -> dict[str, EntryPoint]:
        """Return the entry points by name, in the order of names; ConfigError if a name is taken."""
        found: dict[str, EntryPoint] = {}
        for point in _points(self._group, tuple(sys.path)):
            if point.name in self._own or point.name in self._reserved:
                raise ConfigError(f"{self._said(point)} has the name of one that Covey has")
            other = found.setdefault(point.name, point)
            if (other.value, _package(other)) != (point.value, _package(point)):
                raise ConfigError(f"{self._said(point)} has the name of one of {_package(other)}")
        return found

    def _load(self, point: EntryPoint) -> T:
        try:
            loaded = point.load()
        except Exception as error:  # whatever a stranger's module does when it is imported
            what = f"{type(error).__name__}: {error!s:.200}"
            raise ConfigError(f"{self._said(point)} cannot be loaded: {what}") from error
        try:
            return self._take(point.name, loaded)
        except ConfigError as error:
            raise ConfigError(f"{self._said(point)} cannot be used: {error}") from None

    def _said(self, point: EntryPoint) -> str:
        return f"the {self._kind} {point.name!r:.60} of the package {_package(point)}"


@lru_cache(maxsize=16)
def _points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, by name and package; to find them takes as long as to make many brokers."""
    return tuple(sorted(entry_points(group=group), key=lambda one: (one.name, _package(one))))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "of no name"


def builder(name: str, loaded: object) -> Callable[..., object]:
    """Take what was loaded for a function; ConfigError if it is none."""
    if not callable(loaded):
        raise ConfigError(f"{type(loaded).__name__} is not a function")
    return loaded
