"""Incidents: what has gone wrong with a store since the broker started, for the log and for people who look later."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from covey.broker.actions import Say

MOST: Final = 200  # that are remembered; all are counted elsewhere


class Incident(NamedTuple):
    """One of them: when, by the monotonic clock, and what the log says."""

    at_s: float
    event: str
    fields: dict[str, object]


class Incidents:
    """The last incidents of a broker's store."""

    def __init__(self) -> None:
        self._last: deque[Incident] = deque(maxlen=MOST)

    def say(self, level: int, event: str, fields: dict[str, object], now_s: float) -> Say:
        """Remember an incident; return what logs it."""
        self._last.append(Incident(now_s, event, fields))
        return Say(level, event, fields)

    def all(self) -> Sequence[Incident]:
        """Return those that are remembered, the last one first."""
        return list(reversed(self._last))
