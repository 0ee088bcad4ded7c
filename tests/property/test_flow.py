"""Events in batches have the outputs that they have one by one: the same bytes, over every link, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import special_values
from tests.oracles.cores import Client, Cores, Machine, links_of
from tests.oracles.one_by_one import OneByOne

from covey.broker import core as core_module
from covey.broker import effects
from covey.broker.core import BrokerCore
from covey.broker.fastpath import MOST_IN_CHUNK
from covey.broker.neighbours import pair
from covey.broker.scheduling import TURN
from covey.broker.security import Allowed, Permissions
from covey.core.event import MAX_ATTRIBUTES
from covey.core.families import parse
from covey.core.packing import pack
from covey.errors import ProtocolError
from covey.protocol.batches import FastSplitter
from covey.protocol.control import (
    BARE,
    AdvertiseRequest,
    FlushRequest,
    PlanState,
    Reply,
    SubscribeRequest,
    decode_reply,
    encode,
)
from covey.protocol.events import (
    ATTRIBUTES,
    KEPT,
    KEYWORDS,
    XPATH,
    delivery_of,
    encode_content,
    encode_event,
    envelope_of,
)
from covey.protocol.frames import Kind, Splitter, frame, framed
from covey.routing.plan import ONE_TREE, OneCopy, TreePlan
from covey.routing.router import Router
from covey.routing.strategy import Strategy, names, registered

# A star with a long arm, and a link that only planned trees use.
LINKS = [("a", "b"), ("b", "c"), ("b", "d")]
TREES = [LINKS, [("a", "b"), ("a", "c"), ("c", "d")]]
LIMIT = 1 << 24

FILTERS = [
    "n > 3",
    "n > 1 and n < 5",
    "s = 'x'",
    "s = 'y' and n >= 2",
    "s <> 'x'",
    "m is null",
    "s in ('x', 'z') or n = 7",
    "n is not null",
    "big > 2e19",
    "n = 0",
    "n in (0, '') and s = 'x'",
    "n between -0.0 and 0",
    "n = 9007199254740993 or n < -9007199254740992",
    "n = true or n = ''",
]
CONTENTS: list[Any] = [
    *({"n": n, "s": s} for n in (1, 2, 4, 7) for s in "xyz"),
    *({"n": value, "s": "x"} for value in special_values.VALUES),
    {"m": True},
    {},
    {"s": "é"},
    {"n": 3.5, "m": None},
    {"big": 2**70},
    {"nested": {"n": 4}},
    frozenset({"n", "word"}),
    "<n><word/></n>",
]


class Fixed(Random):
    """Draws one number."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self._number = number

    def getrandbits(self, k: int) -> int:
        return self._number


class Network(Cores):
    """Cores of one sort; what is under way on a stream arrives together, and streams take turns in one order."""

    def __init__(self, strategy: str, sort: type[BrokerCore]) -> None:
        kind = registered(strategy)
        plan: TreePlan = ONE_TREE
        if kind.trees:
            plan = (
                TreePlan(TREES, one_copy=OneCopy("nearest", ["b", "c"])) if kind.one_copy else TreePlan(TREES)
            )
        links = sorted({link for tree in TREES for link in tree}) if kind.trees else LINKS

        def router(name: str, planned: bytes) -> Router:
            if kind.trees and not planned:  # nothing is said in the overlay's own epoch
                return Router(name)
            return Router(name, strategy, plan=plan)

        self.joined: dict[int, Client] = {}
        plans = PlanState(1, "a", 1, {0: b"", 1: b"planned"}) if kind.trees else BARE
        super().__init__(links_of(links), kind=sort, make_router=router, plans=plans)
        self.settle()

    def feed(self, data: bytes) -> Sequence[bytes]:
        return FastSplitter(LIMIT).feed(data)

    def step(self, *, works: bool = True) -> bool:
        ends = [end for both in self.streams.values() for end in both]
        for end in ends:
            if end.is_due:
                some = [one for one in end.waiting if isinstance(one, bytes)]
                if some:
                    for one in some:
                        end.waiting.remove(one)
                    end.waiting.appendleft(b"".join(some))
                self._arrive(end)
        self._forget_streams()
        return any(end.is_due for end in ends) or self._ring_first()

    def _ring_first(self) -> bool:
        for machine in self.machines.values():
            due_s = machine.core.neighbours.deadline()
            if due_s is not None and due_s < self.now_s + 2.0:
                self._ring(machine, due_s)
                return True
        return False

    def join(self, broker: str, number: int, permissions: Permissions) -> None:
        with mock.patch.object(self.core(broker), "_random", Fixed(number)):
            self.joined[number] = Joined(self.machines[broker], permissions)

    def say(self, number: int, data: bytes) -> None:
        self.joined[number].say(data)
        self.settle()

    def heard_from(self, sender: str, receiver: str, data: bytes) -> bool:
        """Let a broker hear something from a neighbour; return whether it goes on listening."""
        end = next(
            one for one in self.streams[pair(sender, receiver)] if one.owner is self.machines[receiver]
        )
        self.machines[receiver].give(effects.Received(end.number, data))
        return end.is_open

    def heard(self) -> dict[str, Any]:
        """Return all that clients were sent, and what was counted."""
        return {
            "clients": {number: client.heard for number, client in self.joined.items()},
            "counted": {number: self.counted(number) for number in self.joined},
            "links": {
                (name, link): (neighbour.received, neighbour.sent)
                for name, machine in self.machines.items()
                for link, neighbour in machine.core.neighbours.records.items()
            },
            "routers": {name: dict(machine.router.counters) for name, machine in self.machines.items()},
        }

    def counted(self, number: int) -> tuple[int, int, int]:
        """Return how many events a client has published, was delivered, and was refused."""
        client = self.joined[number]
        assert isinstance(client, Joined)
        return client.known.published, client.known.delivered, client.known.refused


class Joined(Client):
    """A client, and what its broker knew of it, also when it is gone."""

    def __init__(self, machine: Machine, permissions: Permissions) -> None:
        super().__init__(machine, permissions=permissions)
        self.known = self.session


def request(kind: Any, *values: Any) -> bytes:
    return frame(Kind.REQUEST, encode(kind(1, *values)))


def event(content: Any, publisher: int, number: int, payload: bytes = b"", flags: int = 0) -> bytes:
    family, packed = encode_content(content)
    if isinstance(content, dict) and "nested" in content:
        packed = msgspec.msgpack.encode(content)
    one = encode_event(packed, payload, family=family, publisher=publisher, number=number, flags=flags)
    return framed(one)


def prepared(strategy: str, sort: type[BrokerCore], plan: list[tuple[str, int, str]]) -> Network:
    network = Network(strategy, sort)
    for place, number in (("a", 1), ("a", 2), ("c", 3), ("d", 4)):
        allowed = Allowed([parse("n > 1 or s = 'z'"), parse("word", "keywords")]) if number == 4 else None
        network.join(place, number, Permissions("somebody", publish=allowed))
    for what, number, filter in plan:
        sid = 1 + sum(1 for other in plan[: plan.index((what, number, filter))] if other[1] == number)
        kind = AdvertiseRequest if what == "advertise" else SubscribeRequest
        language = "keywords" if filter == "word" else "attributes"
        network.say(number, request(kind, sid, parse(filter, language).encode()))
    return network


steps = st.lists(
    st.tuples(
        st.sampled_from(["advertise", "subscribe", "subscribe"]),
        st.integers(1, 4),
        st.sampled_from([*FILTERS, "word"]),
    ),
    max_size=14,
    unique=True,
)
bursts = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.lists(st.tuples(st.sampled_from(CONTENTS), st.binary(max_size=5)), min_size=1, max_size=24),
    ),
    max_size=4,
)


@pytest.mark.parametrize("strategy", names())
@settings(max_examples=25)
@given(plan=steps, published=bursts, kept=st.booleans())
def test_batches_do_what_is_done_one_by_one(strategy: str, plan: Any, published: Any, kept: bool) -> None:
    # What is refused and what is delivered is in the order of turns: all that a publisher says is for one of them.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_module, "SPENT", 10 * TURN)
        fast, slow = (prepared(strategy, sort, plan) for sort in (BrokerCore, OneByOne))
        number = 0
        for publisher, contents in published:
            data = b""
            for content, payload in contents:
                number += 1
                flags = KEPT if kept and number % 5 == 0 else 0
                data += event(content, publisher, number, payload, flags)
            for network in (fast, slow):
                network.say(publisher, data)
            assert fast.heard() == slow.heard()


@pytest.mark.parametrize("sort", [BrokerCore, OneByOne])
def test_special_values_are_delivered_to_whom_they_match(sort: type[BrokerCore]) -> None:
    """One by one or in batches, at the broker of the publisher and at others."""
    filters = [filter for filter in special_values.filters() if filter.conjunctions]
    events = special_values.events()
    network = prepared("covering", sort, [("advertise", 1, "true")])
    for subscriber in (2, 3):
        for sid, filter in enumerate(filters, 1):
            network.say(subscriber, request(SubscribeRequest, sid, filter.encode()))
        network.joined[subscriber].take()
    network.say(1, b"".join(event(content, 1, number) for number, content in enumerate(events)))
    expected = {
        (number, sid)
        for number, content in enumerate(events)
        for sid, filter in enumerate(filters, 1)
        if filter.matches(content)
    }
    for subscriber in (2, 3):
        found = [delivery_of(one) for one in Splitter(LIMIT).feed(network.joined[subscriber].take())]
        assert {(envelope_of(one.event).number, sid) for one in found for sid in one.sids} == expected


@pytest.mark.parametrize("strategy", ["covering", "trees"])
def test_events_that_come_again_are_known(strategy: str) -> None:
    plan = [("advertise", 1, "n is not null"), ("subscribe", 3, "n > 3"), ("subscribe", 4, "s = 'x'")]
    networks = [prepared(strategy, sort, plan) for sort in (BrokerCore, OneByOne)]
    for network in networks:
        for machine in network.machines.values():
            machine.router.remember_events()
        for numbers in (range(20), range(10, 30), (1, 40, 2, 41, 40, 40)):
            network.say(1, b"".join(event({"n": n % 9, "s": "xyz"[n % 3]}, 1, n) for n in numbers))
    fast, slow = (network.heard() for network in networks)
    assert fast == slow
    assert sum(counters.get("duplicates_suppressed", 0) for counters in fast["routers"].values()) > 5


@pytest.mark.parametrize("strategy", ["covering", "trees"])
def test_much_is_handled_in_batches_and_something_is_delivered(strategy: str) -> None:
    plan = [("advertise", 1, "n is not null"), ("subscribe", 3, "n > 3"), ("subscribe", 4, "s = 'x'")]
    plan += [("subscribe", 2, "n > 1 and n < 5"), ("subscribe", 2, "s <> 'x'")]
    fast, slow = (prepared(strategy, sort, plan) for sort in (BrokerCore, OneByOne))
    data = b"".join(event({"n": n % 9, "s": "xyz"[n % 3]}, 1, n, b"payload") for n in range(1000))
    for network in (fast, slow):
        network.say(1, data)
    assert fast.heard() == slow.heard()
    for number in (2, 3, 4):
        client = fast.joined[number]
        assert sum(client.chunks) > 300
        assert max(client.chunks) == MOST_IN_CHUNK


def test_an_event_for_more_subscriptions_than_a_frame_can_name() -> None:
    networks = [prepared("covering", sort, []) for sort in (BrokerCore, OneByOne)]
    filter = parse("n > 3").encode()
    subscribing = b"".join(request(SubscribeRequest, sid, filter) for sid in range(1, 66_001))
    for network in networks:
        network.say(2, subscribing)
        network.joined[2].take()
        network.say(1, b"".join(event({"n": n}, 1, n) for n in (9, 2, 5, 1, 7)))
    fast, slow = networks
    assert fast.heard() == slow.heard()
    assert fast.counted(2)[1] == 6


@pytest.mark.parametrize(
    "bad",
    [
        encode_event(b"<n", b"", family=XPATH, publisher=2, number=9),
        encode_event(pack({"n": 5}), b"", family=ATTRIBUTES, publisher=2, number=9),
        encode_event(pack({"n": 5}), b"", family=ATTRIBUTES, publisher=1, number=9)[:-1],
        encode_event(pack({"n": 5}), b"", family=ATTRIBUTES, publisher=1, number=9, notes=b"\xc1"),
        b"\x20\0\0",
    ],
)
def test_what_comes_before_a_bad_event_is_delivered(bad: bytes) -> None:
    plan = [("advertise", 1, "n > 1"), ("subscribe", 3, "n > 3"), ("subscribe", 2, "n > 3")]
    data = b"".join(event({"n": 5}, 1, n) for n in range(8)) + framed(bad) + event({"n": 6}, 1, 10)
    heard = []
    for sort in (BrokerCore, OneByOne):
        network = prepared("covering", sort, plan)
        network.say(1, data)
        assert network.joined[1].goodbye
        assert not network.joined[1].is_open
        heard.append(network.heard())
    assert heard[0] == heard[1]
    assert heard[0]["counted"][3][1] == 8


NO_EVENTS = [
    (ATTRIBUTES, b"\x81\xa1n\xc1", "no packed event"),
    (ATTRIBUTES, b"\x81\xa1\xff\x01", "no packed event"),
    (ATTRIBUTES, b"\x81\xa1n\xa1\xff", "no packed event"),
    (ATTRIBUTES, b"\x81\x01\x02", "no packed event"),
    (ATTRIBUTES, pack({"n": []}), "'n' is of the type list"),
    (ATTRIBUTES, msgspec.msgpack.encode({"n": [1, {}]}), "'n' is of the type list"),
    (ATTRIBUTES, msgspec.msgpack.encode({"m": 5, "n": b"x"}), "'n' is of the type bytes"),
    (ATTRIBUTES, msgspec.msgpack.encode({"n": float("nan")}), "'n' is not a number"),
    (ATTRIBUTES, b"\x81\xa1n\xd6\xff\x00\x00\x00\x00", "'n' is of the type datetime"),
    (ATTRIBUTES, msgspec.msgpack.encode({"n": {"m": {1: 2}}}), "the name 1 in 'n.m'"),
    (ATTRIBUTES, b"\x81\xa1n" * 40 + b"\x05", "deeper than 32"),
    (ATTRIBUTES, b"\x81\xa1n" * 4_000 + b"\x05", "recursion"),
    (KEYWORDS, b"\xc1", "no words"),
    (KEYWORDS, b"\x91\x01", "no words"),
    (XPATH, b"<n", "not well-formed"),
    (3, b"", "no family 3"),
]


@pytest.mark.parametrize(("family", "content", "said"), NO_EVENTS, ids=range(len(NO_EVENTS)))
@pytest.mark.parametrize("flags", [0, KEPT])
def test_an_event_that_is_none_is_refused_alone(family: int, content: bytes, said: str, flags: int) -> None:
    plan = [("advertise", 1, "n > 1"), ("subscribe", 3, "n > 3")]
    bad = encode_event(content, b"", family=family, publisher=1, number=9, flags=flags)
    data = b"".join(event({"n": 5}, 1, n) for n in range(8)) + framed(bad) + event({"n": 6}, 1, 10)
    heard = []
    for sort in (BrokerCore, OneByOne):
        network = prepared("covering", sort, plan)
        network.joined[1].take()
        network.say(1, data)
        (reply,) = [decode_reply(one[1:]) for one in network.feed(network.joined[1].take())]
        assert (reply.request, reply.event) == (0, 9)
        assert said in reply.error
        assert "\n" not in reply.error
        assert len(reply.error) < 300
        heard.append(network.heard())
    assert heard[0] == heard[1]
    assert heard[0]["counted"][1] == (10, 0, 1)
    assert heard[0]["counted"][3][1] == 9


TOO_WIDE = pack({f"a{number}": number for number in range(MAX_ATTRIBUTES + 1)})


@pytest.mark.parametrize("flags", [0, KEPT])
@pytest.mark.parametrize("sort", [BrokerCore, OneByOne])
@pytest.mark.parametrize(
    ("family", "content"), [(XPATH, b"<n"), (ATTRIBUTES, TOO_WIDE)], ids=["no document", "too wide"]
)
def test_an_event_of_a_neighbour_that_no_broker_takes_ends_there(
    sort: type[BrokerCore], flags: int, family: int, content: bytes
) -> None:
    network = prepared("covering", sort, [("advertise", 1, "n > 1"), ("subscribe", 3, "n > 3")])
    bad = framed(encode_event(content, b"", family=family, publisher=1, number=9, flags=flags))
    # What another version of a broker has taken is carried on.
    other = framed(encode_event(pack({"n": 6, "m": []}), b"", family=ATTRIBUTES, publisher=1, number=11))
    data = b"".join(event({"n": 5}, 1, n) for n in range(8)) + bad + event({"n": 6}, 1, 10) + other
    network.heard_from("b", "c", data)
    assert network.core("c").counters["unreadable_events"] == 1
    assert network.counted(3)[1] == 10
    under_way = b"".join(one for one in network.under_way("c", "b") if isinstance(one, bytes))
    told = [one[0] for one in network.feed(under_way)]
    assert told == ([Kind.TAKEN] if flags else [])  # lest it is sent again for ever


def test_a_flush_of_one_broker_needs_no_other() -> None:
    network = prepared("covering", BrokerCore, [("subscribe", 3, "n > 3")])
    client = network.joined[1]
    client.take()
    answers = []
    for near in (False, True):
        asking = frame(Kind.REQUEST, encode(FlushRequest(7 + near, near)))
        client.say(asking)
        answers.append([decode_reply(one[1:]) for one in network.feed(client.take())])
    assert answers == [[], [Reply(8)]]
    network.settle()
    assert [decode_reply(one[1:]) for one in network.feed(client.take())] == [Reply(7)]


def test_a_strategy_that_answers_many_events_answers_each_of_them() -> None:
    """Whoever says anew where one event goes says it of many too."""
    plain = 0
    for name in names():
        kind = registered(name).make
        assert isinstance(kind, type)
        assert issubclass(kind, Strategy)
        if kind.forward is Strategy.forward and kind.next_hop_index is not Strategy.next_hop_index:
            plain += 1
            order = [one for one in kind.__mro__ if {"next_hops", "next_hop_index"} & set(vars(one))]
            assert {"next_hops", "next_hop_index"} <= set(vars(order[0])), name
    assert plain >= 5


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=30), st.lists(st.integers(1, 60), min_size=1))
def test_frames_are_cut_alike(bodies: list[bytes], steps: list[int]) -> None:
    data = b"".join(framed(body) for body in bodies)
    plain, fast, at, turn = Splitter(64), FastSplitter(64), 0, 0
    found: list[bytes] = []
    while at < len(data):
        piece = data[at : at + steps[turn % len(steps)]]
        at += len(piece)
        turn += 1
        ours, theirs = fast.feed(piece), plain.feed(piece)
        assert list(ours) == list(theirs)
        assert fast.waiting == plain.waiting
        if ours:
            others, pinged = fast.without_heartbeats(ours)
            others_, pinged_ = plain.without_heartbeats(theirs)
            assert (list(others), pinged) == (list(others_), pinged_)
        found += ours
    assert found == bodies


@pytest.mark.parametrize("splitter", [Splitter, FastSplitter])
def test_a_frame_too_long_or_empty_is_refused(splitter: type[Splitter]) -> None:
    with pytest.raises(ProtocolError, match="a frame of 65 bytes"):
        splitter(64).feed(frame(1, b"") + frame(1, b"x" * 64))
    with pytest.raises(ProtocolError, match="a frame of 0 bytes"):
        splitter(64).feed(b"\0\0\0\0")
    half = splitter(64)
    assert list(half.feed(b"\x40\0")) == []
    with pytest.raises(ProtocolError, match="16,777,280 bytes"):
        half.feed(b"\0\x01\0")
