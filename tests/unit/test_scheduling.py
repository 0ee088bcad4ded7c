"""Whose frames are handled next: what a credit pays for, and that a long queue is not looked through each time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from covey.broker import scheduling
from covey.broker.scheduling import CONTROL, CONTROL_BYTE, EVENT, TURN, Scheduler, affordable
from covey.protocol.batches import Frames
from covey.protocol.frames import Kind


def frames(*kinds: Kind, length: int = 10) -> Frames:
    return Frames.of([bytes([kind]).ljust(length, b"x") for kind in kinds])


def test_a_credit_pays_for_frames_in_their_order() -> None:
    request = CONTROL + 10 * CONTROL_BYTE
    some = frames(*[Kind.REQUEST] * 5)
    for credit, paid in ((2.5 * request, 3), (100 * request, 5), (0.1, 1)):  # something is always done
        count, cost = affordable(some, credit)
        assert count == paid
        assert cost == pytest.approx(paid * request)
    mixed = frames(Kind.EVENT, Kind.REQUEST, Kind.EVENT)
    count, cost = affordable(mixed, request)
    assert count == 2
    assert EVENT + request < cost < 2 * EVENT + request
    count, cost = affordable(frames(*[Kind.EVENT] * 100), 10 * EVENT)
    assert count == 10
    assert cost == pytest.approx(10 * EVENT, rel=0.01)


def test_a_turn_looks_only_at_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    outlines = Frames.outlines

    def counted(self: Frames) -> Iterator[tuple[int, int]]:
        nonlocal seen
        for one in outlines(self):
            seen += 1
            yield one

    monkeypatch.setattr(Frames, "outlines", counted)
    scheduler = Scheduler(1_000_000, 1)
    scheduler.put(1, frames(*[Kind.REQUEST] * 5_000))
    taken = turns = 0
    while scheduler.has_work:
        work, *_ = scheduler.turn()
        taken += sum(len(some) for _, some in work)
        turns += 1
    assert taken == seen == 5_000, "once each, however many turns it takes"
    assert turns > 5_000 * CONTROL / TURN / 2
    assert scheduler.count == 0


def test_a_burst_leaves_room_for_an_event() -> None:
    scheduler = Scheduler(1_000_000, 1)
    scheduler.put(1, frames(*[Kind.REQUEST] * 5_000))
    scheduler.put(2, frames(Kind.EVENT))
    work, *_ = scheduler.turn()
    assert [connection for connection, _ in work] == [2, 1], "what is soon done comes first"
    assert len(work[1][1]) * CONTROL <= scheduling.TURN / 2 + CONTROL, "half of the turn was for each"


def test_little_does_not_share_every_turn_with_much() -> None:
    scheduler = Scheduler(1_000_000, 1)
    scheduler.put(1, frames(*[Kind.REQUEST] * 5_000))
    turns = []
    for _ in range(10):  # somebody else sends an event during each turn
        scheduler.put(2, frames(Kind.EVENT))
        turns.append({connection for connection, _ in scheduler.turn()[0]})
    assert turns[0] == {1, 2}
    assert turns[1::2] == [{2}] * 5, "what is sent goes out when its turn ends"
    assert all(1 in one for one in turns[::2]), "and who has much gets its share"
    assert {connection for connection, _ in scheduler.turn()[0]} >= {1}
    taken = sum(len(some) for _, some in scheduler.turn()[0])
    assert taken > TURN / (CONTROL + 11 * CONTROL_BYTE) / 2, (
        "who has much is not slowed down when it is alone"
    )


def test_events_are_expected_to_cost_what_those_before_them_did() -> None:
    scheduler = Scheduler(1_000_000, 1)
    scheduler.put(1, frames(*[Kind.EVENT] * 8_000))
    ((_, first),), *_ = scheduler.turn()
    assert len(first) > 0.9 * TURN
    scheduler.charge_events(1, len(first), 100.0 * len(first))  # each went to many
    ((_, second),), *_ = scheduler.turn()
    assert len(second) <= TURN / 100 + 1
    scheduler.charge_events(1, len(second), 100.0 * len(second))
    ((_, third),), *_ = scheduler.turn()
    assert len(third) <= 2 * TURN / 100
    sizes = []
    for _ in range(200):  # they go to nobody any longer
        scheduler.put(1, frames(*[Kind.EVENT] * 4_000))
        ((_, some), *_), *_ = scheduler.turn()
        sizes.append(len(some))
    assert sizes[-1] > 0.9 * TURN, "which is forgotten in time"


def test_long_work_shares_a_turn_neither_with_much_nor_with_little_that_came_meanwhile() -> None:
    scheduler = Scheduler(1_000_000, 1)
    scheduler.put(1, frames(*[Kind.REQUEST] * 5_000))
    turns = []
    for number in range(40):
        if number % 2:
            scheduler.put(2, frames(Kind.EVENT))  # during every second turn
        work, _, does_jobs = scheduler.turn(has_jobs=True)
        turns.append(({connection for connection, _ in work}, does_jobs))
    assert all(not (1 in who and does_jobs) for who, does_jobs in turns)
    assert all(who == {2} and not does_jobs for who, does_jobs in turns[1::2]), (
        "nothing long after a long turn"
    )
    long = [does_jobs for _, does_jobs in turns[::2]]
    assert long == [True, False] * 10, "jobs and frames by turns"
    work, _, does_jobs = scheduler.turn()
    assert work, "without jobs nothing is left out for them"
    assert not does_jobs


def test_jobs_are_done_when_nothing_waits() -> None:
    scheduler = Scheduler(1_000_000, 1)
    assert [scheduler.turn(has_jobs=True)[2] for _ in range(3)] == [True] * 3
    assert not scheduler.turn()[2]


def test_who_says_little_comes_before_many_who_say_much() -> None:
    scheduler = Scheduler(1_000_000, 1)
    for connection in range(1, 101):
        scheduler.put(connection, frames(*[Kind.REQUEST] * 50, length=1_000))
    scheduler.turn()
    for _ in range(20):
        scheduler.put(0, frames(Kind.EVENT))
        assert 0 in {connection for connection, _ in scheduler.turn()[0]}, "in the next turn"
    waiting = [scheduler._waiting[connection].count for connection in range(1, 101)]
    assert sum(waiting) < 5_000 - 20, "which get their turns all the same"


def test_connections_that_say_little_do_not_keep_others_from_their_turns() -> None:
    scheduler = Scheduler(1_000_000, 1)
    scheduler.put(0, frames(*[Kind.EVENT] * 100_000))
    scheduler.turn()
    before = scheduler._waiting[0].count
    for _ in range(20):
        for connection in range(1, 9):  # of which nothing waits, each time; together they have half of a turn
            scheduler.put(connection, frames(*[Kind.EVENT] * 60))
        scheduler.turn()
    assert (before - scheduler._waiting[0].count) * EVENT >= 0.9 * 20 * TURN / 9


def test_a_dear_connection_does_not_come_first_again_and_again() -> None:
    for length in (10, 1_000):  # all that a connection has sent is handed out at once, or one frame at a time
        scheduler = Scheduler(1_000_000, 1)
        for connection in (1, 2, 3):
            scheduler.put(connection, frames(*[Kind.REQUEST] * 10, length=length))
        done = {1: 0, 2: 0, 3: 0}
        for _ in range(12):  # each frame is so dear that a turn does one of them
            ((first, some), *others), *_ = scheduler.turn()
            done[first] += 1
            _, rest = some.split(1)
            left = [(first, rest)] if len(rest) else []
            scheduler.put_back([*left, *others], {first})
        assert max(done.values()) - min(done.values()) <= 2
