"""Acknowledging: what a program is done with of its durable subscriptions, told to the broker in few frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from covey.client.link import Link
from covey.protocol.events import MOST_CONFIRMED, encode_acknowledge
from covey.protocol.frames import Kind


class Acknowledgements:
    """Positions that wait to be told; those of a link that is gone are told on the next one."""

    def __init__(self, link: Callable[[], Link | None]) -> None:
        self._link = link
        self._single: dict[int, list[int]] = {}
        self._until: dict[int, int] = {}
        self._scheduled = False

    def put(self, sid: int, position: int, all_before: bool) -> None:
        """Take one."""
        if all_before:
            self._until[sid] = max(position, self._until.get(sid, 0))
        else:
            self._single.setdefault(sid, []).append(position)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._scheduled = False
        self.flush()

    def forget(self, sid: int) -> None:
        """The subscription has ended."""
        self._single.pop(sid, None)
        self._until.pop(sid, None)

    def flush(self) -> None:
        """Tell what there is, if there is a link."""
        link = self._link()
        if link is None or not link.is_open:
            return
        for sid, position in self._until.items():
            link.connection.send(Kind.ACKNOWLEDGE, encode_acknowledge(sid, [position], cumulative=True))
        for sid, positions in self._single.items():
            for first in range(0, len(positions), MOST_CONFIRMED):
                some = positions[first : first + MOST_CONFIRMED]
                link.connection.send(Kind.ACKNOWLEDGE, encode_acknowledge(sid, some, cumulative=False))
        self._until.clear()
        self._single.clear()
