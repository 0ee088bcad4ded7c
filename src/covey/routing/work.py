"""Work that is done a little at a time: what jobs are made of.

A piece of work is a generator. It does a little between two of its values, each of which is how much that was, in units
of about a microsecond of processor time, and it may end with a result:

    found = yield from gathered(entries)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

_One = TypeVar("_One")
_Other = TypeVar("_Other")
Result = TypeVar("Result")

Job: TypeAlias = Iterator[int]
Work: TypeAlias = Generator[int, None, Result]  # a part of a job that has a result

RUN: Final = 256  # things that are sorted at a time
BATCH: Final = 8  # things that are handled between two values
LET_GO: Final = 4  # entries that are let go of in a unit of work
WHOLE: Final = 1 << 62  # as a BATCH: all of them


def batches(some: Iterable[_One], size: int) -> Iterator[list[_One]]:
    """Yield what there is, at most `size` at a time."""
    rest = iter(some)
    while batch := list(islice(rest, size)):
        yield batch


def taken(some: list[_One], size: int) -> Iterator[list[_One]]:
    """Yield what a list has, at most `size` at a time, and let go of it: nothing is left at the end."""
    some.reverse()
    while some:
        batch = some[-size:]
        del some[-size:]
        batch.reverse()
        yield batch


def as_they_are(entries: Mapping[_One, _Other]) -> Iterator[tuple[_One, _Other]]:
    """Return keys with values as they are now, whatever changes while one looks at them."""
    return zip(list(entries), list(entries.values()), strict=True)  # no pair for each until it is asked for


def emptied(entries: dict[Any, Any]) -> Job:
    """Take everything out of a dictionary that nobody needs any more: to let go of all at once takes long."""
    while entries:
        count = min(len(entries), RUN)
        for _ in range(count):
            entries.popitem()
        yield count // LET_GO


def gathered(some: Iterable[_One], units: int = 1) -> Work[list[_One]]:
    """Return what there is as a list; each costs so many units."""
    found: list[_One] = []
    for batch in batches(some, 64):
        found += batch
        yield units * len(batch)
    return found


def itself(one: Any) -> Any:
    """Return what is given: the order of things by themselves."""
    return one


def ordered(some: Iterable[_One], key: Callable[[_One], Any] = itself) -> Work[Iterator[_One]]:
    """Return what there is in order: some of it is sorted at a time, and the rest is done as it is asked for."""
    runs: list[list[_One]] = []
    for run in batches(some, RUN):
        run.sort(key=key)
        runs.append(run)
        yield len(run)
    return merge(*runs, key=key)


def result(work: Work[Result]) -> Result:
    """Do all of some work at once, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: Result = end.value
            return value
