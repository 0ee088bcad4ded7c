"""The inbox: turns, order, bounds, blocked links and congestion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from covey.broker.inbox import Inbox

from covey.broker import inbox as module
from covey.protocol.connection import Connection


class Link:
    """As much of a connection as an inbox sees."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds: set[str] = set()

    def hold(self, why: str) -> None:
        self.holds.add(why)

    def go_on(self, why: str) -> None:
        self.holds.discard(why)


class Box:
    """An inbox, and what it hands on."""

    def __init__(self, congested_at: int = 1_000, calm_at: int = 10) -> None:
        self.handled: list[tuple[str, bytes]] = []
        self.together: list[int] = []  # how many links were handled at once
        self.congestion: list[bool] = []
        self.inbox = Inbox(self.handle, self.congestion.append, congested_at, calm_at)
        self.on_frame: Any = None

    def handle(self, taken: Sequence[tuple[Connection, Sequence[bytes]]]) -> None:
        self.together.append(len(taken))
        for link, frames in taken:
            for one in frames:
                self.handled.append((cast(Any, link).name, one))
                if self.on_frame is not None:
                    self.on_frame(link, one)

    def put(self, link: Link, *frames: bytes) -> None:
        self.inbox.put(cast(Connection, link), frames)


async def rest() -> None:
    """Let the loop run."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_links_take_turns_and_keep_their_order() -> None:
    async def main() -> None:
        box, a, b = Box(), Link("a"), Link("b")
        for number in range(5):
            box.put(a, b"%d" % number, b"%d'" % number)
        box.put(b, b"x")
        box.put(b, b"y")
        await rest()
        assert [one for name, one in box.handled if name == "a"] == [
            b"0", b"0'", b"1", b"1'", b"2", b"2'", b"3", b"3'", b"4", b"4'",
        ]  # fmt: skip
        assert [name for name, _ in box.handled][:6] == ["a", "a", "b", "a", "a", "b"]
        assert box.inbox.count == 0
        assert box.inbox.longest == 12
        assert box.together == [2, 2, 1, 1, 1]

    asyncio.run(main())


def test_a_blocked_link_waits_and_others_do_not() -> None:
    async def main() -> None:
        box, a, b = Box(), Link("a"), Link("b")
        blocked = cast(Connection, a)
        box.on_frame = lambda link, one: box.inbox.block(link) if one == b"stop" else None
        box.put(a, b"1")
        box.put(a, b"stop")
        box.put(a, b"2")
        box.put(b, b"3")
        await rest()
        assert box.handled == [("a", b"1"), ("b", b"3"), ("a", b"stop")]
        assert a.holds == {module.BLOCKED}
        box.put(b, b"4")
        await rest()
        assert box.handled[-1] == ("b", b"4")
        box.inbox.unblock(blocked)
        await rest()
        assert box.handled[-1] == ("a", b"2")
        assert not a.holds
        assert not box.inbox.waits(blocked)

    asyncio.run(main())


def test_a_link_of_which_much_waits_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_AT", 10)
    monkeypatch.setattr(module, "HELD_BYTES", 1_000)

    async def main() -> None:
        box, a, b = Box(), Link("a"), Link("b")
        for _ in range(11):
            box.put(a, b".")
        box.put(b, b"." * 1_001)
        assert a.holds == b.holds == {module.FULL}
        await rest()
        assert not a.holds
        assert not b.holds
        assert len(box.handled) == 12

    asyncio.run(main())


def test_congestion_is_told_when_it_begins_and_ends() -> None:
    async def main() -> None:
        box, a = Box(congested_at=20, calm_at=5), Link("a")
        for _ in range(21):
            box.put(a, b".")
        await rest()
        assert box.congestion == [True, False]
        box.put(a, b".")
        await rest()
        assert box.congestion == [True, False]

    asyncio.run(main())


def test_what_a_link_that_is_gone_had_sent_is_handled_at_once_or_forgotten() -> None:
    async def main() -> None:
        box, a, b = Box(), Link("a"), Link("b")
        box.put(a, b"1")
        box.put(b, b"2")
        box.inbox.finish(cast(Connection, a))
        assert box.handled == [("a", b"1")]
        box.inbox.forget(cast(Connection, b))
        assert box.inbox.count == 0
        await rest()
        assert box.handled == [("a", b"1")]

    asyncio.run(main())
