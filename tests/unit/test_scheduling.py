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
        work, _ = scheduler.turn()
        taken += sum(len(some) for _, some in work)
        turns += 1
    assert taken == seen == 5_000, "once each, however many turns it takes"
    assert turns > 5_000 * CONTROL / TURN / 2
    assert scheduler.count == 0


def test_a_burst_leaves_room_for_an_event() -> None:
    scheduler = Scheduler(1_000_000, 1)
    scheduler.put(1, frames(*[Kind.REQUEST] * 5_000))
    scheduler.put(2, frames(Kind.EVENT))
    work, _ = scheduler.turn()
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
    ((_, first),), _ = scheduler.turn()
    assert len(first) > 1_000
    scheduler.charge_events(1, len(first), 100.0 * len(first))  # each went to many
    ((_, second),), _ = scheduler.turn()
    assert len(second) <= TURN / 100 + 1
    scheduler.charge_events(1, len(second), 100.0 * len(second))
    ((_, third),), _ = scheduler.turn()
    assert len(third) <= 2 * TURN / 100
    sizes = []
    for _ in range(200):  # they go to nobody any longer
        scheduler.put(1, frames(*[Kind.EVENT] * 4_000))
        ((_, some), *_), _ = scheduler.turn()
        sizes.append(len(some))
    assert sizes[-1] > 1_000, "which is forgotten in time"
