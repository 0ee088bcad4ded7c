"""Feed: what one consumer has not confirmed, sent to it in order from the store, with a window of it under way.

A consumer is a neighbour broker (what is in its outbox) or a durable subscription (its queue). While it is away the
feed only knows that something waits; when it is back, everything that is not confirmed is sent again from the first.
New events go out as they come while the consumer keeps up, without being read from the disk again; once more waits
than the window takes, the feed is *behind* and reads on from where it was as confirmations make room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from covey.broker.store import Store
from covey.broker.store_operations import Release
from covey.errors import CoveyError, StoreError

log = logging.getLogger("covey.broker")

AT_ONCE: Final = 256  # events that are read at a time

Transmit = Callable[[int, bytes], None]  # a position and the event's frame


class Feed:
    """One consumer's events; see the module's text."""

    def __init__(self, store: Store, owner: int, window: int, window_bytes: int) -> None:
        self.owner = owner
        self._store = store
        self._most, self._most_bytes = window, window_bytes
        self._transmit: Transmit | None = None
        self._under_way: dict[int, tuple[int, float]] = {}  # position: size, and when it was sent
        self._under_way_bytes = 0
        self._cursor = 0  # all up to here was sent to this consumer since it came
        self._behind = False
        self._released_ones: set[int] = set()  # confirmed, and still on disk for a moment

    @property
    def is_attached(self) -> bool:
        """Whether the consumer is there."""
        return self._transmit is not None

    @property
    def under_way(self) -> int:
        """How many events were sent and are not confirmed."""
        return len(self._under_way)

    def attach(self, transmit: Transmit, now_s: float) -> None:
        """The consumer is there: send it all that is not confirmed, from the first."""
        self.detach()
        self._transmit = transmit
        self._cursor, self._behind = 0, True
        self.pump(now_s)

    def detach(self) -> None:
        """The consumer is gone."""
        self._transmit = None
        self._cursor = 0
        self._under_way.clear()
        self._under_way_bytes = 0

    def offer(self, position: int, frame: bytes, now_s: float) -> None:
        """Note an event that is on disk now."""
        if self._transmit is None or position <= self._cursor:
            return  # it is read from the store in its turn, or was already
        if self._behind or not self._has_room():
            self._behind = True
        else:
            self._send(position, frame, now_s)

    def pump(self, now_s: float) -> None:
        """Send on from where the feed was, as far as the window allows."""
        try:
            self._pump(now_s)
        except StoreError as error:  # what cannot be read is tried again with the next confirmation or tick
            log.error("%s", error)

    def _pump(self, now_s: float) -> None:
        while self._transmit is not None and self._behind and self._has_room():
            limit = min(AT_ONCE, self._most - len(self._under_way))
            rows = self._store.read(self.owner, self._cursor, limit)
            for position, frame in rows:
                if self._transmit is None or not self._has_room():
                    return
                if position in self._released_ones:
                    self._cursor = position
                else:
                    self._send(position, frame, now_s)
            if len(rows) < limit:
                self._behind = False

    def confirm(self, positions: Iterable[int], now_s: float, gone: Callable[[], None] | None = None) -> None:
        """The consumer is done with these; `gone` is told when the disk is, too."""
        positions = tuple(positions)
        for position in positions:
            self._drop(position)
        if positions:
            self._released_ones.update(positions)
            self._store.submit(Release(self.owner, positions), self._released(positions, gone))
        self.pump(now_s)

    def _released(
        self, positions: tuple[int, ...], gone: Callable[[], None] | None
    ) -> Callable[[CoveyError | None], None]:
        def done(error: CoveyError | None) -> None:
            if error is not None:
                # A full disk: it is tried until it works, or the events come again after a restart.
                self._store.submit_later(Release(self.owner, positions), self._released(positions, gone))
                return
            self._released_ones.difference_update(positions)
            if gone is not None:
                gone()

        return done

    def confirm_up_to(self, position: int, now_s: float) -> None:
        """The consumer is done with all up to a position, also with what it got before it came again."""
        done = [one for one in self._under_way if one <= position]
        while self._cursor < position:
            rows = self._store.positions(self.owner, self._cursor, position, AT_ONCE)
            done += rows
            self._cursor = rows[-1] if len(rows) == AT_ONCE else min(position, self._store.committed)
            if len(rows) < AT_ONCE:
                break
        self.confirm(done, now_s)

    def redeliver(self, before_s: float, now_s: float) -> None:
        """Send again what was sent before a time and is not confirmed."""
        late = [position for position, (_, sent_s) in self._under_way.items() if sent_s <= before_s]
        for position in late:
            rows = self._store.read(self.owner, position - 1, 1)
            if self._transmit is None:
                break
            if rows and rows[0][0] == position:
                self._under_way[position] = (self._under_way[position][0], now_s)
                self._transmit(position, rows[0][1])
            else:
                self._drop(position)

    def _has_room(self) -> bool:
        return len(self._under_way) < self._most and self._under_way_bytes < self._most_bytes

    def _send(self, position: int, frame: bytes, now_s: float) -> None:
        assert self._transmit is not None
        self._cursor = position
        self._under_way[position] = (len(frame), now_s)
        self._under_way_bytes += len(frame)
        self._transmit(position, frame)

    def _drop(self, position: int) -> None:
        size, _ = self._under_way.pop(position, (0, 0.0))
        self._under_way_bytes -= size
