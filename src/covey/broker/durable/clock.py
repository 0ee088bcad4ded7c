"""The clock of a log: time that cannot jump, by which events grow old.

It shows seconds, goes on as the monotonic clock does while the broker runs, and stands still while it does not: an
event that waits in a broker that is down does not age. The clock on the wall is only watched. If it moves by
more than `TOLERANCE_S` against the monotonic clock, it has jumped, and people are told; nothing else follows from that.
"""

from __future__ import annotations

from typing import Final

from covey.broker.durable.log import Clock

TOLERANCE_S: Final = 5.0  # between two looks at the clocks; clocks that are set right slowly move by less


class LogClock:
    """See the module's text. `before` is what the log has remembered of its last life."""

    def __init__(self, before: Clock | None, now_s: float, wall_s: float) -> None:
        begin_s = wall_s if before is None else before.log_s
        self._ahead_s = begin_s - now_s
        self._wall_ahead_s = wall_s - now_s
        self.jumps = 0  # of the clock on the wall
        # How far the wall clock has gone back since the log was written last; forward, the broker may have been down.
        self._behind_s = 0.0 if before is None else before.wall_s - wall_s

    def read(self, now_s: float) -> float:
        """Return the log's time."""
        return now_s + self._ahead_s

    def remembered(self, now_s: float, wall_s: float) -> Clock:
        """Return what the log is to remember."""
        return Clock(self.read(now_s), wall_s)

    def jumped(self, now_s: float, wall_s: float) -> float:
        """Return by how many seconds the clock on the wall has jumped since it was looked at last; 0: it has not."""
        jump_s = wall_s - now_s - self._wall_ahead_s
        if self._behind_s > TOLERANCE_S:
            jump_s = -self._behind_s
        self._behind_s = 0.0
        self._wall_ahead_s = wall_s - now_s
        if abs(jump_s) <= TOLERANCE_S:
            return 0.0
        self.jumps += 1
        return jump_s
