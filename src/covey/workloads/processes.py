"""Business processes: activities with sequential and parallel control flow and loops.

A flow is drawn by splitting its activities in two until each is alone; the two parts run one after the other, or side
by side with probability `parallel`; a part of several activities is a loop with probability `loop`, repeated up to
`rounds` times; loops do not nest. An activity starts when all before it have finished, and listens to their status.

    listens   for each activity those whose status it waits for; a loop's first ones also listen to its last ones
    unrolled  one execution: runs in an order in which each comes after those that it waits for
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

MAX_ACTIVITIES = 200
"""More could nest deeper than Python's recursion goes."""


class Run(NamedTuple):
    """One execution of an activity; `after` are places of earlier runs in the same list."""

    activity: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class Flow:
    """A part of a process: one activity, or two parts one after the other or side by side; perhaps a loop."""

    activity: int = -1
    parts: tuple[Flow, ...] = ()
    parallel: bool = False
    rounds: int = 1

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The activities with which it starts."""
        if not self.parts:
            return (self.activity,)
        parts = self.parts if self.parallel else self.parts[:1]
        return tuple(activity for part in parts for activity in part.first)

    @cached_property
    def last(self) -> tuple[int, ...]:
        """The activities with which it ends."""
        if not self.parts:
            return (self.activity,)
        parts = self.parts if self.parallel else self.parts[-1:]
        return tuple(activity for part in parts for activity in part.last)

    def listens(self) -> dict[int, tuple[int, ...]]:
        """Return for each activity, in order, those whose status it waits for, in order."""
        found: dict[int, set[int]] = {}
        self._listen(found)
        return {activity: tuple(sorted(found[activity])) for activity in sorted(found)}

    def _listen(self, found: dict[int, set[int]]) -> None:
        if not self.parts:
            found.setdefault(self.activity, set())
        for part in self.parts:
            part._listen(found)
        if self.parts and not self.parallel:
            _join(found, self.parts[0].last, self.parts[1].first)
        if self.rounds > 1:
            _join(found, self.last, self.first)

    def unrolled(self, generator: np.random.Generator) -> list[Run]:
        """Draw one execution, with each loop's number of rounds."""
        runs: list[Run] = []
        self._unroll((), runs, generator)
        return runs

    def _unroll(
        self, after: tuple[int, ...], runs: list[Run], generator: np.random.Generator
    ) -> tuple[int, ...]:
        """Append the runs of this part, which starts after the given ones; return those that end it."""
        for _ in range(int(generator.integers(1, self.rounds + 1)) if self.rounds > 1 else 1):
            if not self.parts:
                runs.append(Run(self.activity, after))
                after = (len(runs) - 1,)
            elif self.parallel:
                ends = [part._unroll(after, runs, generator) for part in self.parts]
                after = tuple(end for part in ends for end in part)
            else:
                for part in self.parts:
                    after = part._unroll(after, runs, generator)
        return after


def draw_flow(
    generator: np.random.Generator,
    activities: int,
    *,
    parallel: float = 0.3,
    loop: float = 0.1,
    rounds: int = 3,
) -> Flow:
    """Draw the control flow of a process with that many activities, at most MAX_ACTIVITIES."""

    def draw(start: int, stop: int, looping: bool) -> Flow:
        if stop - start == 1:
            return Flow(activity=start)
        repeated = rounds if generator.random() < loop and not looping else 1
        side_by_side = bool(generator.random() < parallel)
        cut = int(generator.integers(start + 1, stop))
        looping = looping or repeated > 1
        parts = (draw(start, cut, looping), draw(cut, stop, looping))
        return Flow(parts=parts, parallel=side_by_side, rounds=repeated)

    assert 1 <= activities <= MAX_ACTIVITIES
    return draw(0, activities, looping=False)


def _join(found: dict[int, set[int]], before: tuple[int, ...], after: tuple[int, ...]) -> None:
    for activity in after:
        found.setdefault(activity, set()).update(before)
