"""Garbage without long pauses: what a broker keeps is not looked through again and again.

Python's collector looks for circles among all objects, and with many subscriptions that takes longer than an event may
wait. What a broker holds for long is freed by its counts alone; circles are rare, of errors mostly. So what has lived
for some seconds is set aside, where the collector does not look, and everything is looked through once an hour.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

ASIDE_S: Final = 5.0
EVERYTHING_S: Final = 3_600.0
THRESHOLDS: Final = (
    5_000,
    10,
    50,
)  # at most 50,000 objects are looked through at once: two or three milliseconds


class Garbage:
    """The collector of one process; `close` gives it back as it was."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = gc.get_threshold()
        self._next_s = self._loop.time() + EVERYTHING_S
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()
        self._timer = self._loop.call_later(ASIDE_S, self._tick)

    def _tick(self) -> None:
        if self._loop.time() >= self._next_s:
            self._next_s = self._loop.time() + EVERYTHING_S
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        self._timer = self._loop.call_later(ASIDE_S, self._tick)

    def close(self) -> None:
        """Look at everything again."""
        self._timer.cancel()
        gc.unfreeze()
        gc.set_threshold(*self._before)
