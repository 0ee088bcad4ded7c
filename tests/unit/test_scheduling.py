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
    assert [connection for connection, _ in work] == [1, 2]
    assert len(work[0][1]) * CONTROL <= scheduling.TURN / 2 + CONTROL, "half of the turn was for each"
