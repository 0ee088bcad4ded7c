"""Joining: when the shell waits a moment before it reads again, so that one turn handles what many connections send.

A turn costs about as much as some events: the process wakes up, asks which sockets have something, steps the core and
writes to each receiver. Where many connections send single events, each finds a broker that sleeps, and pays for a turn
of its own. While they do, the shell pauses after each turn, for PAUSE_S at most, and what has come meanwhile is read
and handled together. An event waits half of that longer on average.

The rule is fixed and sees nothing but the time and how many small reads there were since the last turn:

    APART       turns follow each other at once. If, over a window, more than RATE reads a second were handled, and
                few of them together, pauses begin
    TOGETHER    there is a pause after each turn, until fewer than RATE reads a second come in

Clients that wait for an answer before they send more are slowed down by pauses, and nothing is gained. That shows:
fewer reads come in than without pauses. Then pauses end, and are tried again after AGAIN_S at the earliest.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

PAUSE_S: Final = 0.001  # from the beginning of one turn to the next
WINDOW_S: Final = (
    0.032  # over which reads are counted; clients that wait for answers lose one in a second by pauses
)
RATE: Final = 4_000  # reads a second that are worth pauses
SMALL: Final = 4_096  # bytes of a read that counts: who sends more gains nothing
FEW: Final = 8  # reads a turn, from which pauses gain little
LEAST_LEFT: Final = 0.75  # of the reads without pauses, that come in with pauses if nobody waits for answers
AGAIN_S: Final = 1.0  # after pauses that slowed clients down


class Mode(Enum):
    """Whether there are pauses; see the module's text."""

    APART = "turns follow each other at once"
    TOGETHER = "there is a pause after each turn"


class Joining:
    """The pauses of one broker; see the module's text."""

    def __init__(self) -> None:
        self.mode = Mode.APART
        self.reads = self.turns = 0  # since the present window began; the owner counts
        self.look_s = 0.0  # before which the owner need not ask for a pause
        self._since_s = 0.0
        self._before = 0.0  # reads a second without pauses
        self._again_s = 0.0

    def pause_s(self, began_s: float, now_s: float) -> float:
        """Return how long to pause after a turn that began then; 0 for not at all."""
        if now_s - self._since_s >= WINDOW_S:
            self._judge(now_s)
        if self.mode is Mode.APART:
            self.look_s = self._since_s + WINDOW_S
            return 0.0
        self.look_s = 0.0
        return max(0.0, began_s + PAUSE_S - now_s)

    def _judge(self, now_s: float) -> None:
        rate, joined = self.reads / (now_s - self._since_s), self.reads / self.turns
        if self.mode is Mode.APART:
            if rate >= RATE and joined < FEW and now_s >= self._again_s:
                self.mode, self._before = Mode.TOGETHER, rate
        elif (
            rate < LEAST_LEFT * self._before
        ):  # whether clients wait or have less to say cannot be told apart
            self.mode, self._again_s = Mode.APART, now_s + AGAIN_S
        elif rate < RATE:
            self.mode = Mode.APART
        self._since_s, self.reads, self.turns = now_s, 0, 0
