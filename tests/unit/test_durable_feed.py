"""A feed sends what is not confirmed, from the first, whenever its consumer comes; and nothing that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracles.logs import Store

from covey.broker.actions import Action, Actions, Commit, Say, SendEvent
from covey.broker.durable.log import (
    Answer,
    Batch,
    Committed,
    Entry,
    Fetch,
    Found,
    Keep,
    Operation,
    Owner,
    Read,
    Release,
)
from covey.broker.durable.queues import AT_ONCE, UNREPAIRED, Feed, Repair, Tickets
from covey.protocol.events import Name
from covey.sim.disk import Disk, DiskLog

OWNER = Owner(1, "subscription", "ann", "reader", "mine")


def transmit(position: int, frame: bytes) -> Action:
    return SendEvent("reader", 0, bytes([position % 256]))


@pytest.mark.parametrize("up_to", [False, True])
def test_what_is_confirmed_does_not_come_again_though_the_disk_has_it_still(
    tmp_path: Path, up_to: bool
) -> None:
    async def main() -> None:
        store = Store(tmp_path / "store.db", "a")
        store.start()
        store.submit(OWNER)
        for number in (1, 2, 3):
            entries = (Entry(OWNER.id),)
            store.submit(Keep(store.tickets.next_position(), 7, number, b"event", 0.0, entries, seen=False))
        await store.settle()
        feed = Feed(store.tickets, OWNER.id, 100, 1 << 20)

        def sent() -> list[int]:
            return [action.body[0] for action in store.performed if isinstance(action, SendEvent)]

        async def attach() -> None:
            store.perform(feed.attach(transmit))
            await store.fetch(OWNER.id, 0, 1)  # behind what the feed reads

        await attach()
        assert sent() == [1, 2, 3]
        # In one turn of the loop: the log has not deleted anything when the consumer comes again.
        store.perform(feed.attach(transmit))
        store.perform(feed.confirm_up_to(2, 0.0) if up_to else feed.confirm([1, 2], 0.0))
        await store.settle()
        await attach()
        assert sent() == [1, 2, 3, 3, 3]
        await store.close()

    asyncio.run(main())


class Simulated:
    """A feed over a simulated log, with what it sends."""

    def __init__(self, events: int, window: int = 100, size: int = 5, *, is_repaired: bool = False) -> None:
        self.disk = Disk()
        self.log = DiskLog(self.disk)
        keeps = [
            Keep(number, 7, number, b"x" * size, 0.0, (Entry(OWNER.id),), seen=False)
            for number in range(1, events + 1)
        ]
        self.write(OWNER, *keeps)
        self.tickets = Tickets(self.log.open())
        self.copies: dict[Name, list[Callable[[bytes | None, float], Actions]]] = {}  # that are looked for

        def seek(name: Name, then: Callable[[bytes | None, float], Actions], now_s: float) -> Actions:
            self.copies.setdefault(name, []).append(then)
            return iter(())

        repair = Repair("the reader", seek, lambda frame: frame) if is_repaired else UNREPAIRED
        self.feed = Feed(self.tickets, OWNER.id, window, 1 << 20, repair)
        self.sent: list[int] = []
        self.said: list[Say] = []

    def write(self, *operations: Operation) -> None:
        """Change what is on disk without the feed."""
        log = DiskLog(self.disk)
        log.submit([Batch(1, operations)])
        log.answers()

    def perform(self, actions: Actions) -> None:
        """Do what the feed asks for."""
        for action in actions:
            if isinstance(action, Commit | Fetch):
                self.log.submit([action.batch if isinstance(action, Commit) else action])
            elif isinstance(action, SendEvent):
                self.sent.append(action.body[0])
            else:
                assert isinstance(action, Say)
                self.said.append(action)

    def step(self, now_s: float = 0.0) -> None:
        """Let the log answer until it has nothing to do."""
        while not self.log.is_idle:
            for answer in self.log.answers():
                if isinstance(answer, Committed):
                    self.perform(self.tickets.answered(answer, now_s))
                else:
                    assert isinstance(answer, Read | Found)
                    self.perform(self.tickets.read(answer, now_s))


@pytest.mark.parametrize("up_to", [False, True])
def test_what_is_confirmed_while_it_is_read_does_not_come_again(up_to: bool) -> None:
    one = Simulated(5)
    one.perform(one.feed.attach(transmit))
    answers = one.log.answers()  # the disk has read all five, and nobody has heard of that
    one.perform(one.feed.confirm_up_to(2, 0.0) if up_to else one.feed.confirm([1, 2], 0.0))
    for answer in answers:
        assert isinstance(answer, Read)
        one.perform(one.tickets.read(answer, 0.0))
    assert one.sent == [3, 4, 5]


def test_what_was_read_for_a_consumer_that_has_gone_is_for_nobody() -> None:
    one = Simulated(3)
    one.perform(one.feed.attach(transmit))
    one.feed.detach()
    one.step()
    assert one.sent == []
    one.perform(one.feed.attach(transmit))
    one.feed.detach()
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1, 2, 3], "once"


def test_a_window_at_a_time() -> None:
    one = Simulated(10, window=4)
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1, 2, 3, 4]
    one.perform(one.feed.confirm([2], 0.0))
    one.step()
    assert one.sent == [1, 2, 3, 4, 5]
    one.perform(one.feed.confirm_up_to(1_000, 0.0))
    one.step()
    assert one.disk.positions(OWNER.id) == []
    assert one.sent == [1, 2, 3, 4, 5], "it is done with all that there is"


def test_large_events_are_read_a_few_at_a_time() -> None:
    one = Simulated(10, size=400_000)
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1, 2, 3], "the window's bytes"
    one.perform(one.feed.redeliver(0.0))
    one.step(1.0)
    assert one.sent == [1, 2, 3, 1, 2, 3]
    one.sent.clear()
    for position in range(1, 11):
        one.perform(one.feed.confirm([position], 1.0))
        one.step(1.0)
    assert one.sent == [4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("how", ["confirmed", "confirmed up to", "dropped"])
def test_what_was_read_ahead_and_is_gone_is_not_sent(how: str) -> None:
    one = Simulated(10, window=2)
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1, 2]
    if how == "confirmed":  # by a connection that had them before
        one.perform(one.feed.confirm([1, 2, 3, 4, 9], 0.0))
    elif how == "confirmed up to":
        one.perform(one.feed.confirm_up_to(4, 0.0))
    else:
        one.write(Release(OWNER.id, (1, 2, 3, 4)))
        one.perform(one.feed.dropped((1, 2, 3, 4), 0.0))
    one.step()
    assert one.sent == [1, 2, 5, 6]
    one.perform(one.feed.confirm([5, 6], 0.0))
    one.step()
    one.perform(one.feed.confirm([7, 8], 0.0))
    one.step()
    assert one.sent == [1, 2, 5, 6, 7, 8, *([10] if how == "confirmed" else [9, 10])]


def test_what_is_not_confirmed_in_time_is_sent_again() -> None:
    one = Simulated(600, window=600)
    one.perform(one.feed.attach(transmit))
    one.step(1.0)
    assert one.sent == [number % 256 for number in range(1, 601)]
    one.perform(one.feed.confirm(range(2, 600), 0.0))
    one.sent.clear()
    one.perform(one.feed.redeliver(0.5))
    one.step(2.0)
    assert one.sent == []
    one.write(Release(OWNER.id, (1,)))  # it is gone from the queue without the feed
    one.perform(one.feed.redeliver(1.5))
    one.perform(one.feed.redeliver(1.5))
    one.step(2.0)
    assert one.sent == [600 % 256]
    assert one.feed.under_way == 1
    one.perform(one.feed.redeliver(1.5))
    one.step(3.0)
    assert one.sent == [600 % 256], "it was sent again already"


def test_a_damaged_event_is_counted_said_and_never_sent() -> None:
    one = Simulated(5)
    for position in (2, 5):
        one.disk.damage(position)
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1, 3, 4]
    assert (one.tickets.damaged, one.tickets.unrepaired) == (2, 2)
    assert [(say.event, say.fields["id"]) for say in one.said] == [
        ("event damaged", "7.2"),
        ("event lost", "7.2"),
        ("event damaged", "7.5"),
        ("event lost", "7.5"),
    ]
    assert one.disk.positions(OWNER.id) == [1, 3, 4]
    one.disk.damage(3)
    one.perform(one.feed.redeliver(0.0))
    one.step()
    assert one.sent == [1, 3, 4, 1, 4]
    assert one.tickets.damaged == 3
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1, 3, 4, 1, 4, 1, 4]
    assert one.tickets.damaged == 3


def test_those_behind_a_damaged_event_wait_for_its_copy() -> None:
    one = Simulated(5, is_repaired=True)
    for position in (2, 4):
        one.disk.damage(position)
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1]
    one.perform(one.feed.attach(transmit))  # its client comes again meanwhile
    one.step()
    assert one.sent == [1, 1]
    assert one.tickets.damaged == 2
    assert sorted(one.copies) == [(7, 2), (7, 4)], "both are looked for at once"
    (second,) = one.copies[7, 2]
    one.perform(second(b"a copy", 0.0))
    one.step()
    assert one.sent == [1, 1, 2, 3]
    (fourth,) = one.copies[7, 4]
    one.perform(fourth(None, 0.0))
    one.step()
    assert one.sent == [1, 1, 2, 3, 5]
    assert [say.event for say in one.said[2:]] == ["event repaired", "event lost"]
    assert one.said[-1].fields == {"id": "7.4", "position": 4, "of": "the reader"}
    assert one.disk.positions(OWNER.id) == [1, 2, 3, 5]
    one.perform(one.feed.attach(transmit))
    one.step()
    assert one.sent == [1, 1, 2, 3, 5, 1, 2, 3, 5], "the copy is in the store now"
    assert (one.tickets.damaged, one.tickets.repaired, one.tickets.unrepaired) == (2, 1, 1)


@pytest.mark.parametrize("how", ["confirmed", "confirmed up to", "dropped"])
def test_what_is_gone_before_its_copy_is_there_is_not_lost(how: str) -> None:
    one = Simulated(3, is_repaired=True)
    one.disk.damage(2)
    one.perform(one.feed.attach(transmit))
    one.step()
    if how == "confirmed":  # by a connection that had it before
        one.perform(one.feed.confirm([2], 0.0))
    elif how == "confirmed up to":
        one.perform(one.feed.confirm_up_to(2, 0.0))
    else:
        one.write(Release(OWNER.id, (2,)))
        one.perform(one.feed.dropped((2,), 0.0))
    one.step()
    assert one.sent == [1, 3]
    one.perform(one.copies[7, 2][0](None, 0.0))
    one.step()
    assert one.sent == [1, 3]
    assert one.tickets.unrepaired == 0
    assert [say.event for say in one.said] == ["event damaged"]


def test_a_copy_is_sent_again_where_the_damaged_event_is_under_way() -> None:
    one = Simulated(3, is_repaired=True)
    one.perform(one.feed.attach(transmit))
    one.step()
    one.disk.damage(2)
    one.perform(one.feed.redeliver(0.0))
    one.step()
    assert one.sent == [1, 2, 3, 1, 3]
    one.perform(one.copies[7, 2][0](b"a copy", 1.0))
    assert one.sent == [1, 2, 3, 1, 3, 2]


@pytest.mark.parametrize("size", [10, 60_000])
def test_the_log_reads_on_while_what_it_has_read_is_sent_and_no_more_than_that(size: int) -> None:
    """At most two reads are in memory, whatever the size of the events, and everything comes once, in order."""
    events = 3 * AT_ONCE if size == 10 else 100
    one = Simulated(events, window=8, size=size)
    reads: list[int] = []
    positions: list[int] = []

    def note(position: int, frame: bytes) -> Action:
        positions.append(position)
        return transmit(position, frame)

    one.perform(one.feed.attach(note))
    waited = 0  # turns in which the consumer could take more and nothing was read
    before: list[Answer] = []
    while len(positions) < events:
        before, answers = list(one.log.answers()), before  # the log takes a turn for its answers
        for answer in answers:
            if isinstance(answer, Read):
                reads.append(len(answer.rows))
                one.perform(one.tickets.read(answer, 0.0))
            else:
                assert isinstance(answer, Committed)
                one.perform(one.tickets.answered(answer, 0.0))
        held = sum(reads) - len(positions)
        assert held <= sum(reads[-2:]), "two reads at most"
        waited += held == 0 and 0 < len(positions) < events
        one.perform(one.feed.confirm(positions[-8:], 0.0))
    assert positions == list(range(1, events + 1))
    assert len(reads) > 2
    assert waited == 0
