"""A turn of a broker is bounded in counted work (`core.work`), whatever its clients send, and others get theirs."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.unit.test_broker_core import One, event

from covey.bench.heavy_filters import words
from covey.broker import effects, neighbours, scheduling
from covey.broker.actions import Release
from covey.broker.config import LinkConfig
from covey.broker.plans import LONGEST_HOLD_S
from covey.broker.scheduling import TURN
from covey.broker.sessions import SLICE_UNITS
from covey.core.costs import cost_of
from covey.core.event import MAX_ATTRIBUTES
from covey.core.families import parse
from covey.core.work import ACCOUNT
from covey.errors import EventError
from covey.matching.attributes.checking import count_values
from covey.protocol.control import AdvertiseRequest, SubscribeRequest, decode_reply
from covey.protocol.events import delivery_of, encode_content, encode_event, envelope_of
from covey.protocol.frames import Kind, framed

FILTERS = [words(number, 40).encode() for number in range(60)]
DEAREST = max(cost_of(data).units for data in FILTERS)


def replies(one: One, number: int) -> list[str]:
    found = [decode_reply(memoryview(frame)[1:]) for frame in one.frames(number) if frame[0] == Kind.REPLY]
    return [reply.error for reply in found]


def deliveries(one: One, number: int) -> int:
    return sum(len(delivery_of(frame).sids) for frame in one.frames(number) if frame[0] == Kind.DELIVERY)


def worked(one: One, given: Any) -> float:
    """Give an input; return how much work it took."""
    before = ACCOUNT.units
    one.step(given)
    return ACCOUNT.units - before


def stormy() -> tuple[One, int, int, int]:
    """Return a broker with a neighbour, a subscriber, a publisher with its number; many dear filters wait there."""
    one = One(links=())
    reader, writer, *stormers = (one.client() for _ in range(7))
    number = list(one.core.clients.values())[1].number
    one.hear(reader, Kind.REQUEST, SubscribeRequest(1, 1, parse("n > 0").encode()))
    one.hear(writer, Kind.REQUEST, AdvertiseRequest(1, 1, parse("n > 0").encode()))
    one.tick()
    for stormer in stormers:
        for sid, data in enumerate(FILTERS, 1):
            one.hear(stormer, Kind.REQUEST, SubscribeRequest(sid, sid, data))
    return one, reader, writer, number


def test_a_turn_ends_when_its_work_is_done_and_nothing_is_lost() -> None:
    one, _, _, _ = stormy()
    stormers = list(one.core.peers)[2:]
    turns = []
    while one.core.scheduler.has_work:
        turns.append(worked(one, effects.Tick()))
        assert len(turns) < 5_000
    assert max(turns) <= TURN + 3 * DEAREST, "at most one request is begun when a turn is nearly over"
    for stormer in stormers:
        assert replies(one, stormer) == [""] * len(FILTERS)


def test_events_of_others_do_not_wait_for_dear_filters() -> None:
    one, reader, writer, number = stormy()
    for turn in range(1, 60):
        one.step(effects.Received(writer, event(number, turn, {"n": turn})))
        one.step(effects.Tick())
        one.step(effects.Tick())
        assert deliveries(one, reader) == turn, "within two turns, though hundreds of filters wait"
    assert one.core.scheduler.count > 50


def test_a_client_with_dear_filters_leaves_in_slices() -> None:
    one = One(links=())
    client, other = one.client(), one.client()
    for sid, data in enumerate(FILTERS, 1):
        one.hear(client, Kind.REQUEST, SubscribeRequest(sid, sid, data))
    one.tick()
    assert replies(one, other) == []
    most = worked(one, effects.Closed(client))
    slices = 0
    while one.core.sessions.has_work:
        most = max(most, worked(one, effects.Tick()))
        slices += 1
    assert slices >= len(FILTERS) // 4
    assert most <= SLICE_UNITS + 3 * DEAREST
    assert not one.core.router.local


def crowd(receivers: int) -> tuple[One, int, int, list[int]]:
    """Return a broker, a publisher with its number, and many who want all that it publishes."""
    one = One(links=())
    writer = one.client()
    (number,) = (client.number for client in one.core.clients.values())
    one.hear(writer, Kind.REQUEST, AdvertiseRequest(1, 1, parse("n > 0").encode()))
    readers = [one.client() for _ in range(receivers)]
    for reader in readers:
        one.hear(reader, Kind.REQUEST, SubscribeRequest(1, 1, parse("n > 0").encode()))
    one.tick()
    return one, writer, number, readers


def test_events_for_many_are_handled_a_few_at_a_time_and_others_do_not_wait() -> None:
    one, writer, number, readers = crowd(100)
    calm = one.client()
    calm_number = list(one.core.clients.values())[-1].number
    one.hear(calm, Kind.REQUEST, AdvertiseRequest(1, 1, parse("m > 0").encode()))
    one.hear(calm, Kind.REQUEST, SubscribeRequest(2, 1, parse("m > 0").encode()))
    one.tick()
    flood = b"".join(event(number, k, {"n": k}, payload=bytes(2_000)) for k in range(1, 401))
    one.step(effects.Received(writer, flood))
    turns = [worked(one, effects.Tick())]  # the first one does not know yet what they cost
    for turn in range(1, 6):
        one.step(effects.Received(calm, event(calm_number, turn, {"m": turn})))
        turns += [worked(one, effects.Tick()), worked(one, effects.Tick())]
        assert deliveries(one, calm) == turn, "within two turns"
    assert one.core.scheduler.count > 100, "while the flood waits"
    while one.core.scheduler.has_work:
        turns.append(worked(one, effects.Tick()))
    assert max(turns) <= 2 * TURN, "one flush beyond the end of a turn"
    assert len(turns) > 20
    assert [deliveries(one, reader) for reader in readers] == [400] * 100


def test_what_a_client_had_sent_before_it_left_is_handled_in_turns() -> None:
    one, writer, number, readers = crowd(100)
    one.step(
        effects.Received(
            writer, b"".join(event(number, k, {"n": k}, payload=bytes(2_000)) for k in range(1, 201))
        )
    )
    turns = [worked(one, effects.Closed(writer))]
    assert one.core.admission.has(writer), "its place is taken as long as its events are here"
    while one.core.scheduler.has_work:
        turns.append(worked(one, effects.Tick()))
    assert max(turns) <= 2 * TURN
    assert [deliveries(one, reader) for reader in readers] == [200] * 100
    assert writer not in one.core.peers
    assert not one.core.admission.has(writer)
    assert len(one.core.clients) == 100


def test_who_comes_back_finds_done_what_it_had_said() -> None:
    one = One(links=())
    first = one.client("ann")
    for sid in range(1, 500):
        one.hear(first, Kind.REQUEST, SubscribeRequest(sid, sid, parse(f"n > {sid}").encode()))
    one.step(effects.Closed(first))
    assert one.core.scheduler.waits(first)
    one.client("ann")
    assert not one.core.scheduler.waits(first)
    assert first not in one.core.peers
    assert len(one.core.clients) == 1


# -- wide events -------------------------------------------------------------------------------------------------


def wide(count: int, *, nested: bool = False) -> dict[str, Any]:
    inner = {f"a{number}": number for number in range(count - 1)}
    return {"n": 1, "x": inner} if nested else {"n": 1, **inner}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("extra", [0, 1])
def test_an_event_has_so_many_attributes_and_no_more(extra: int, nested: bool) -> None:
    content = wide(MAX_ATTRIBUTES + extra, nested=nested)
    if extra:
        with pytest.raises(EventError, match="at most 4,096 attributes"):
            encode_content(content)
    else:
        encode_content(content)


@pytest.mark.parametrize("nested", [False, True])
def test_a_wider_event_is_refused_before_it_is_decoded_and_the_client_stays(nested: bool) -> None:
    one = One(links=())
    reader, writer = one.client(), one.client()
    number = list(one.core.clients.values())[1].number
    one.hear(reader, Kind.REQUEST, SubscribeRequest(1, 1, parse("n > 0").encode()))
    one.hear(writer, Kind.REQUEST, AdvertiseRequest(1, 1, parse("n > 0").encode()))
    one.tick()
    data = msgspec.msgpack.encode(wide(40_000, nested=nested))
    one.step(effects.Received(writer, framed(encode_event(data, b"", family=0, publisher=number, number=1))))
    assert worked(one, effects.Tick()) < TURN
    assert "at most 4,096 attributes" in replies(one, writer)[-1]
    one.step(effects.Received(writer, event(number, 2, wide(MAX_ATTRIBUTES))))
    one.tick()
    assert deliveries(one, reader) == 1


def test_values_of_bytes_are_counted_as_they_are_decoded() -> None:
    content = {
        "a": 1,
        "b": [1, -1, 300, 70_000, 1 << 40, -300, -70_000, -(1 << 40), 1.5],
        "c": "x" * 40,
        "d": "y" * 300,
        "e": {"f": None, "g": True, "h": b"z" * 70_000},
        "i": msgspec.msgpack.Ext(1, b"abcd"),
        "j": msgspec.msgpack.Ext(2, b"k" * 300),
        "l": list(range(40)),
        "m": {str(number): number for number in range(20)},
    }

    def values(one: object) -> int:
        if isinstance(one, dict):
            return 1 + sum(1 + values(inner) for inner in one.values())
        return 1 + sum(map(values, one)) if isinstance(one, list) else 1

    data = np.frombuffer(msgspec.msgpack.encode(content), np.uint8)
    assert count_values(data, 0, len(data), 10_000) == values(content)
    assert count_values(data, 0, len(data), 30) == 31
    for end in range(0, len(data), 97):
        assert count_values(data, 0, end, 10_000) <= values(content)


# -- what has to wait --------------------------------------------------------------------------------------------


def holds(one: One, number: int) -> list[type]:
    """Return when the shell was told not to read a connection, and to read it again."""
    kinds = (effects.Hold, effects.Resume)
    return [type(each) for each in one.all if isinstance(each, kinds) and each.connection == number]


def test_what_clients_say_while_a_plan_switches_is_bounded_and_comes_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduling, "HELD_AT", 50)
    one = One(links=())
    reader, writer, other = one.client(), one.client(), one.client()
    number = list(one.core.clients.values())[1].number
    one.hear(reader, Kind.REQUEST, SubscribeRequest(1, 1, parse("n > 0").encode()))
    one.hear(writer, Kind.REQUEST, AdvertiseRequest(1, 1, parse("n > 0").encode()))
    one.tick()
    one.core.plans._holds["probe"], one.core.plans._held_until_s = 0, 1e9
    for turn in range(1, 101):
        one.step(effects.Received(writer, event(number, turn, {"n": turn})))
        one.tick()
    assert deliveries(one, reader) == 0
    assert len(one.core._held) == 1, "the rest waits in the inbox, which has a bound"
    assert holds(one, writer) == [effects.Hold]
    assert holds(one, other) == []
    one.core.plans._holds.clear()
    one.core.perform([Release()])
    one.tick()
    frames = [delivery_of(each) for each in one.frames(reader) if each[0] == Kind.DELIVERY]
    assert [envelope_of(each.event).number for each in frames] == list(range(1, 101))
    assert holds(one, writer) == [effects.Hold, effects.Resume]
    assert one.core._held == []


def test_a_busy_neighbour_is_not_read_while_too_much_of_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "MOST_WAITING_BYTES", 2_000)
    one = One(links=(LinkConfig("x"),))
    number = one.neighbour("x")
    core, body = one.core, b"." * 500
    core.neighbours._waiting["x", 0] = deque()
    for count in range(1, 7):
        core.neighbours._waiting["x", 0].append(body)
        core.neighbours._waiting_bytes["x"] += len(body)
        core._hold_if_busy("x")
        one.all.extend(core._finish())
        assert (effects.Hold in holds(one, number)) == (count > 4)
    core.neighbours._drop_waiting(core.neighbours.records["x"], [0])
    core._hold_if_busy("x")
    one.all.extend(core._finish())
    assert holds(one, number) == [effects.Hold, effects.Resume]
    assert core.neighbours._waiting_bytes["x"] == 0


def test_a_neighbour_whose_words_are_dropped_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routers of the overlay forget it while too much of it waits: nothing else would have it read again."""
    monkeypatch.setattr(neighbours, "MOST_WAITING_BYTES", 2_000)
    one = One(links=(LinkConfig("x"),))
    number = one.neighbour("x")
    core = one.core
    core.neighbours._waiting["x", 0] = deque([b"." * 3_000])
    core.neighbours._waiting_bytes["x"] += 3_000
    core._hold_if_busy("x")
    core.perform(core.neighbours._withdraw(core.neighbours.records["x"]))
    one.all.extend(core._finish())
    assert not core.peers[number].connection.holds
    assert core.neighbours._waiting_bytes["x"] == 0


def test_clients_that_are_held_are_released_in_time_however_long_a_lease_is() -> None:
    one = One(links=(), lease_s=86_400.0)
    core = one.core
    one.tick()
    core.perform(core.plans._hold(0, one.now_s))
    core.plans._holds["lost"] = 0  # whose echo never comes
    due_s = core.deadline()
    assert core.is_holding
    assert due_s is not None
    assert due_s <= one.now_s + LONGEST_HOLD_S
    one.now_s = due_s
    one.step(effects.Tick())
    assert not core.is_holding
