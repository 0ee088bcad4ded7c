"""Scheduling: turns, order, shares of work, bounds, blocked connections, congestion; and full outboxes."""

from __future__ import annotations

from collections import Counter

import pytest

from covey.broker import scheduling as module
from covey.broker.scheduling import EPISODE_S, TURN, Pressure, Scheduler, affordable
from covey.protocol.batches import Frames
from covey.protocol.frames import Kind
from covey.protocol.outbox import Verdict

A, B, C = 1, 2, 3


def control(*bodies: bytes) -> Frames:
    return Frames.of([bytes([Kind.REQUEST]) + body for body in bodies])


def events(count: int, size: int = 40) -> Frames:
    return Frames.of([bytes([Kind.EVENT]) + b"." * (size - 1)] * count)


def cost_of(frames: Frames) -> float:
    """Return the work of all these frames."""
    return affordable(frames, 1e12)[1]


class Box:
    """A scheduler, and what it hands on."""

    def __init__(self, congested_at: int = 1_000, calm_at: int = 10) -> None:
        self.scheduler = Scheduler(congested_at, calm_at)
        self.handled: list[tuple[int, bytes]] = []
        self.turns: list[list[int]] = []  # which connections were handled together
        self.resumed: list[int] = []
        self.stops: bytes = b"?"  # who says that is blocked

    def put(self, connection: int, *bodies: bytes) -> bool:
        return self.scheduler.put(connection, control(*bodies))

    def turn(self) -> Counter[int]:
        """Handle a turn; return how many frames of each connection there were."""
        work, resumed, _ = self.scheduler.turn()
        self.turns.append([connection for connection, _ in work])
        self.resumed += resumed
        found: Counter[int] = Counter()
        for connection, frames in work:
            for one in frames:
                self.handled.append((connection, one[1:]))
                found[connection] += 1
                if one[1:] == self.stops:
                    self.scheduler.block(connection)
        return found

    def rest(self) -> None:
        for _ in range(100_000):
            if not self.scheduler.has_work:
                return
            self.turn()
        raise AssertionError("it does not come to rest")


# -- turns -------------------------------------------------------------------------------------------------------


def test_connections_take_turns_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN", 4 * cost_of(control(b"0")))  # two frames of two connections
    box = Box()
    for number in range(5):
        box.put(A, b"%d" % number)
        box.put(A, b"%d" % number)
    box.put(B, b"x")
    box.put(B, b"y")
    box.rest()
    assert [one for name, one in box.handled if name == A] == [b"%d" % (n // 2) for n in range(10)]
    assert [one for name, one in box.handled if name == B] == [b"x", b"y"]
    assert [name for name, _ in box.handled][:4] == [A, A, B, B], "what one has sent delays nobody else"
    assert box.scheduler.count == 0
    assert box.scheduler.longest == 12


def test_what_all_connections_have_sent_is_handled_together() -> None:
    box = Box()
    for connection in (A, B, C):
        box.put(connection, b"1", b"2")
    assert box.turn() == {A: 2, B: 2, C: 2}
    assert box.turns == [[A, B, C]]
    assert not box.scheduler.has_work


def test_a_chunk_larger_than_a_turn_is_cut() -> None:
    box = Box()
    box.scheduler.put(A, events(20_000))
    found = []
    while box.scheduler.has_work:
        found.append(box.turn()[A])
    assert sum(found) == 20_000
    assert max(found) <= 1.01 * TURN / cost_of(events(1))
    assert len(found) <= 1.1 * cost_of(events(20_000)) / TURN + 1, "and a turn is used"


def test_shares_are_of_work_and_not_of_frames() -> None:
    box = Box()
    box.scheduler.put(A, events(100_000))
    for _ in range(1_000):
        box.put(B, b"." * 69)
    turns = [box.turn() for _ in range(10)]
    for connection, cost in ((A, cost_of(events(1))), (B, cost_of(control(b"." * 69)))):
        done = sum(found[connection] for found in turns) * cost
        assert done == pytest.approx(10 * TURN / 2, rel=0.1), "each does half of the work"


def test_a_heavy_connection_does_not_starve_others() -> None:
    box = Box()
    for _ in range(50):
        box.put(A, b"." * 200_000)  # each is the work of many turns
    box.scheduler.put(B, events(40_000))
    turns = [box.turn() for _ in range(20)]
    assert turns[0][A] == 1
    assert sum(found[A] for found in turns) <= 1, "it waits until its share has grown again"
    assert all(found[B] for found in turns[1:])


def test_when_all_have_used_more_than_their_share_work_goes_on() -> None:
    box = Box()
    for connection in (A, B):
        for _ in range(10):
            box.put(connection, b"." * 1_000_000)
    for _ in range(20):
        assert box.turn(), "no turn is empty while something waits"
    assert not box.scheduler.has_work
    assert Counter(name for name, _ in box.handled) == {A: 10, B: 10}
    assert [name for name, _ in box.handled[:4]] in ([A, B, A, B], [A, B, B, A])


def test_who_is_alone_waits_for_nobody() -> None:
    box = Box()
    for _ in range(5):
        box.put(A, b"." * 100_000)
    for _ in range(5):
        assert box.turn() == {A: 1}
    assert not box.scheduler.has_work


def test_many_connections_get_something_all_the_same() -> None:
    box = Box()
    for connection in range(500):
        box.scheduler.put(connection, events(1_000))
    found: Counter[int] = Counter()
    turns = 0
    while len(found) < 500:
        found += box.turn()
        turns += 1
    assert turns <= 500 * module.LEAST / TURN + 1
    assert max(found.values()) <= 2 * min(found.values())


# -- costs -------------------------------------------------------------------------------------------------------


def test_a_subscription_costs_more_than_an_event_and_large_things_more_than_small_ones() -> None:
    assert cost_of(control(b"." * 30)) > 20 * cost_of(events(1))
    assert cost_of(events(1, 1 << 20)) > 100 * cost_of(events(1))
    assert cost_of(control(b"." * 1_000)) > 5 * cost_of(control(b"." * 30))


def test_costs_add_up() -> None:
    mixed = Frames.of([*events(3), *control(b"a", b"bc"), *events(2, 9_000)])
    for frames in (mixed, events(7), control(b"a", b"b", b"c")):
        for count in range(1, len(frames)):
            first, rest = frames.split(count)
            assert cost_of(first) + cost_of(rest) == pytest.approx(cost_of(frames))


def test_what_work_has_cost_is_charged_when_it_is_done() -> None:
    box = Box()
    box.put(A, b"dear")
    assert box.turn() == {A: 1}
    box.scheduler.charge(A, 10 * TURN)
    box.put(A, b"next")
    box.scheduler.put(B, events(100_000))
    turns = [box.turn() for _ in range(40)]
    first = next(number for number, found in enumerate(turns) if found[A])
    assert first >= 9, "it waits while others have work, until its share has grown again"
    assert all(found[B] for found in turns[:first])


def test_who_owes_much_goes_on_at_once_if_nobody_else_has_work() -> None:
    box = Box()
    box.put(A, b"dear")
    box.turn()
    box.scheduler.charge(A, 1e12)
    box.put(A, b"next")
    assert box.turn() == {A: 1}


def test_no_debt_is_for_ever() -> None:
    box = Box()
    box.put(A, b"dear")
    box.turn()
    box.scheduler.charge(A, 1e12)
    box.put(A, b"next")
    for _ in range(int(2 * module.MOST_CHARGED / TURN) + 10):
        box.scheduler.put(B, events(5_000))
        if box.turn()[A]:
            return
    raise AssertionError("it waits for ever")


def test_what_a_turn_has_not_come_to_is_handled_first_in_a_later_one() -> None:
    box = Box()
    for body in (b"1", b"2", b"3"):
        box.put(A, body)
    work, *_ = box.scheduler.turn()
    assert box.scheduler.count == 0
    box.scheduler.put_back(work, ())
    assert box.scheduler.count == 3
    box.put(A, b"4")
    box.rest()
    assert [one for _, one in box.handled] == [b"1", b"2", b"3", b"4"]


def test_the_rest_of_frames() -> None:
    frames = Frames.of([*control(b"a", b"bc"), *events(2)])
    first, others = frames.split(1)
    rest = frames.rest(first.end)
    assert list(rest) == list(others)
    assert (len(rest), rest.size) == (len(others), others.size)
    assert len(frames.rest(frames.end)) == 0


# -- blocked, held, congested, gone ------------------------------------------------------------------------------


def test_a_blocked_connection_waits_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN", 2.0)
    monkeypatch.setattr(module, "LEAST", 1.0)  # one frame a turn
    box = Box()
    box.stops = b"stop"
    box.put(A, b"1")
    box.put(A, b"stop")
    box.put(A, b"2")
    box.put(B, b"3")
    box.rest()
    assert [one for name, one in box.handled if name == A] == [b"1", b"stop"]
    assert (B, b"3") in box.handled
    assert box.scheduler.is_blocked(A)
    assert box.scheduler.waits(A)
    assert not box.scheduler.block(A), "it is blocked already"
    box.put(B, b"4")
    box.put(A, b"5")
    box.rest()
    assert box.handled[-1] == (B, b"4")
    box.scheduler.unblock(A)
    box.rest()
    assert box.handled[-2:] == [(A, b"2"), (A, b"5")]
    assert not box.scheduler.is_blocked(A)
    assert not box.scheduler.waits(A)


def test_a_connection_of_which_much_waits_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_AT", 10)
    monkeypatch.setattr(module, "HELD_BYTES", 1_000)
    box = Box()
    assert [box.put(A, b".") for _ in range(12)] == [False] * 10 + [True, False], "it is held once"
    assert box.put(B, b"." * 1_001)
    box.rest()
    assert sorted(box.resumed) == [A, B]
    assert len(box.handled) == 13
    assert not box.put(A, b".")


def test_congestion_is_told_when_it_begins_and_ends() -> None:
    box = Box(congested_at=20, calm_at=5)
    for number in range(21):
        assert box.scheduler.congestion() is None, number
        box.put(A, b".")
    assert box.scheduler.congestion() is True
    assert box.scheduler.congestion() is None
    box.rest()
    assert box.scheduler.congestion() is False
    box.put(A, b".")
    assert box.scheduler.congestion() is None


def test_congestion_ends_when_little_waits_and_not_before() -> None:
    box = Box(congested_at=20, calm_at=5)
    for connection in range(21):
        box.put(connection, b".")
    assert box.scheduler.congestion() is True
    for connection in range(15):
        box.scheduler.finish(connection)
        assert box.scheduler.congestion() is None
    box.scheduler.finish(15)
    assert box.scheduler.congestion() is False


def test_what_a_connection_that_is_gone_had_sent_is_handed_back_and_forgotten() -> None:
    box = Box()
    box.put(A, b"1")
    box.put(A, b"2")
    box.put(B, b"3")
    box.scheduler.block(A)
    assert [one[1:] for frames in box.scheduler.finish(A) for one in frames] == [b"1", b"2"]
    assert box.scheduler.count == 1
    assert not box.scheduler.is_blocked(A)
    assert not box.scheduler.waits(A)
    box.rest()
    assert box.handled == [(B, b"3")]
    assert box.scheduler.finish(A) == []
    assert box.scheduler.count == 0


# -- pressure ----------------------------------------------------------------------------------------------------


def test_those_who_fill_an_outbox_wait_until_it_has_room() -> None:
    pressure = Pressure()
    assert not pressure.is_felt
    assert pressure.pressed(C, Verdict.FULL, 0, [A, B, C], 0.0) == [A, B], "nobody waits for itself"
    assert pressure.is_felt
    assert pressure.full == {C: [A, B]}
    assert pressure.drained(C) == [A, B]
    assert not pressure.is_felt
    assert pressure.full == {}


@pytest.mark.parametrize("verdict", [Verdict.DROPPED, Verdict.LOST, Verdict.TAKEN])
def test_nobody_waits_for_an_outbox_that_drops_or_ends(verdict: Verdict) -> None:
    pressure = Pressure()
    assert pressure.pressed(C, verdict, 0, [A, B], 0.0) == []
    assert not pressure.is_felt


def test_who_waits_for_two_goes_on_when_both_have_room() -> None:
    pressure = Pressure()
    pressure.pressed(B, Verdict.FULL, 0, [A], 0.0)
    pressure.pressed(C, Verdict.FULL, 0, [A], 0.0)
    assert pressure.drained(B) == []
    assert pressure.gone(C) == [A]


def test_who_waits_and_is_gone_is_forgotten() -> None:
    pressure = Pressure()
    pressure.pressed(C, Verdict.FULL, 0, [A, B], 0.0)
    assert pressure.gone(A) == []
    assert pressure.drained(C) == [B]


def test_a_full_connection_that_takes_nothing_is_found() -> None:
    pressure = Pressure()
    pressure.pressed(A, Verdict.FULL, 100, [], 0.0)
    pressure.pressed(B, Verdict.FULL, 100, [], 0.0)
    assert pressure.stalled({A: 100, B: 100}, 5.0, 5.0) == []
    assert pressure.stalled({A: 100, B: 101}, 5.0, 5.1) == [A], "the other one has taken something"
    assert pressure.stalled({A: 100, B: 101}, 5.0, 10.0) == [A]
    assert pressure.stalled({A: 100, B: 101}, 5.0, 10.2) == [A, B]
    pressure.drained(A)
    pressure.gone(B)
    assert pressure.stalled({}, 5.0, 100.0) == []


def test_a_slow_connection_is_named_once_an_episode() -> None:
    pressure = Pressure()
    assert pressure.is_news(A, Verdict.DROPPED, "ann", 0.0)
    assert not pressure.is_news(A, Verdict.FULL, "ann", EPISODE_S - 0.1)
    assert pressure.is_news(A, Verdict.LOST, "ann", EPISODE_S - 0.1), "the end of a link is news"
    assert pressure.is_news(A, Verdict.DROPPED, "ann", 2 * EPISODE_S)
    assert pressure.is_news(B, Verdict.DROPPED, "bob", 2 * EPISODE_S)
    assert pressure.slow == {"ann": 3, "bob": 1}


def test_not_everybody_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NAMED", 2)
    pressure = Pressure()
    for number in range(5):
        assert pressure.is_news(number, Verdict.DROPPED, f"client {number}", 0.0)
    assert pressure.is_news(0, Verdict.DROPPED, "client 0", EPISODE_S)
    assert pressure.slow == {"client 0": 2, "client 1": 1}
