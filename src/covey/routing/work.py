"""Work that is done a little at a time: what jobs are made of.

A piece of work is a generator. It does a little between two of its values, each of which is how much that was, in units
of about a microsecond of processor time, and it may end with a result:

    found = yield from gathered(entries)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias, TypeVar

_One = TypeVar("_One")
Result = TypeVar("Result")

Job: TypeAlias = Iterator[int]
Work: TypeAlias = Generator[int, None, Result]  # a part of a job that has a result

BATCH: Final = 8  # things that are handled between two values
WHOLE: Final = 1 << 62  # as a BATCH: all of them


def batches(some: Iterable[_One], size: int) -> Iterator[list[_One]]:
    """Yield what there is, at most `size` at a time."""
    rest = iter(some)
    while batch := list(islice(rest, size)):
        yield batch


def gathered(some: Iterable[_One], units: int = 1) -> Work[list[_One]]:
    """Return what there is as a list; each costs so many units."""
    found: list[_One] = []
    for batch in batches(some, 64):
        found += batch
        yield units * len(batch)
    return found


def result(work: Work[Result]) -> Result:
    """Do all of some work at once, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            value: Result = end.value
            return value
