"""The heart of the simulator: a heap of arrivals, in order of time and, at one time, of their making.

Nothing here knows what arrives. Time is a number of seconds that only the heap moves.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[..., object]


class Engine:
    """A clock and what is to happen when it gets there."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.arrivals = 0  # how many there have been
        self.observer: Callable[[], object] | None = None  # called after everything that happens
        self._heap: list[tuple[float, int, Action, tuple[Any, ...]]] = []
        self._counter = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, time_s: float, action: Action, *arguments: Any) -> None:
        """Call the action at that time, after everything that is to happen then already; never in the past."""
        self._counter += 1
        heappush(self._heap, (max(time_s, self.now_s), self._counter, action, arguments))

    def step(self) -> bool:
        """Let the next thing happen; return whether there was one."""
        if not self._heap:
            return False
        self.now_s, _, action, arguments = heappop(self._heap)
        self.arrivals += 1
        action(*arguments)
        if self.observer is not None:
            self.observer()
        return True

    def run(self, until_s: float | None = None) -> None:
        """Let things happen until nothing is left, or until that time, which it is then."""
        if until_s is None:
            while self.step():
                pass
            return
        while self._heap and self._heap[0][0] <= until_s:
            self.step()
        self.now_s = max(self.now_s, until_s)
