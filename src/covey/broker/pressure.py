"""Pressure: what happens when a link's queue is full, beyond what the queue does itself.

With the policy `block` whoever feeds a full link waits until half of its queue is free: nothing it has sent is handled,
nothing more is read, and TCP slows it down in turn. On a tree that cannot end in a circle, as an event never goes back
to where it came from. A link that takes nothing for `stalled_s` meanwhile is ended.

With any policy, whoever reads too slowly is named: in the log once an episode, and in `slow`, how often.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from covey.broker.inbox import Inbox
from covey.broker.logs import say
from covey.protocol.connection import Connection
from covey.protocol.outbox import Verdict

log = logging.getLogger("covey.broker")

EPISODE_S: Final = 10.0  # of one slow link, during which it is named once
MAX_NAMED: Final = 1_000  # of whom is counted by name


class Pressure:
    """The full links of one broker, and who waits for them; `name_of` gives people's name of a link."""

    def __init__(
        self,
        inbox: Inbox,
        name_of: Callable[[Connection], str],
        counters: Counter[str],
        broker: str = "",
    ) -> None:
        self.slow: Counter[str] = Counter()
        self.source: Connection | None = None  # whose frames are being handled
        self._inbox = inbox
        self._name_of = name_of
        self._counters = counters
        self._broker = broker
        self._sources: dict[Connection, dict[Connection, None]] = {}  # that wait, by the full link
        self._full_since_s: dict[Connection, tuple[float, int]] = {}  # with the bytes that it had taken then
        self._named_s: dict[Connection, float] = {}
        self.now_s = 0.0

    def pressed(self, connection: Connection, verdict: Verdict) -> None:
        """A link's bounds are met."""
        self._counters[f"queue_{verdict.name.lower()}"] += 1
        self._name(connection, verdict)
        if verdict is not Verdict.FULL:
            return
        if connection not in self._full_since_s:
            self._full_since_s[connection] = (self.now_s, connection.sent_bytes)
        if self.source is not None:
            self.wait_for(connection, [self.source])

    def wait_for(self, connection: Connection, sources: Sequence[Connection]) -> None:
        """Let those who have filled a link wait until it has room."""
        for source in sources:
            if source is not connection:
                self._sources.setdefault(connection, {})[source] = None
                self._inbox.block(source)

    def _name(self, connection: Connection, verdict: Verdict) -> None:
        last_s = self._named_s.get(connection)
        if last_s is not None and self.now_s - last_s < EPISODE_S and verdict is not Verdict.LOST:
            return
        self._named_s[connection] = self.now_s
        name = self._name_of(connection)
        self._counters["slow_consumers"] += 1
        if name in self.slow or len(self.slow) < MAX_NAMED:
            self.slow[name] += 1
        consequence = {
            Verdict.FULL: "whoever sends to it waits",
            Verdict.DROPPED: "events for it are dropped",
            Verdict.LOST: "its link ends",
        }[verdict]
        say(
            log,
            logging.WARNING,
            "slow consumer",
            broker=self._broker,
            link=name,
            waiting=connection.lanes.count,
            consequence=consequence,
        )

    def drained(self, connection: Connection) -> None:
        """A full link has room again."""
        self._full_since_s.pop(connection, None)
        for source in self._sources.pop(connection, ()):
            if not any(source in others for others in self._sources.values()):
                self._inbox.unblock(source)

    def gone(self, connection: Connection) -> None:
        """A link is gone, full or waiting."""
        self._named_s.pop(connection, None)
        self.drained(connection)
        for others in self._sources.values():
            others.pop(connection, None)

    def tick(self, stalled_s: float) -> None:
        """End full links that take nothing."""
        for connection, (since_s, taken) in list(self._full_since_s.items()):
            if connection.sent_bytes != taken:
                self._full_since_s[connection] = (self.now_s, connection.sent_bytes)
            elif self.now_s - since_s > stalled_s:
                self._counters["stalled_links"] += 1
                connection.abort(f"it has taken nothing for {stalled_s:g} s")

    @property
    def full(self) -> dict[str, list[str]]:
        """Who waits for whom, by name."""
        return {
            self._name_of(connection): [self._name_of(source) for source in self._sources.get(connection, ())]
            for connection in self._full_since_s
        }
