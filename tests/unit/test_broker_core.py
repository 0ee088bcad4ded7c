"""The core of a broker, step by step: greetings, deadlines, turns, settings, the end; and what it must not import."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

import covey.broker
from covey.broker import core as core_module
from covey.broker import effects
from covey.broker.admission import Place, Shown
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import GOING, LAST_WAIT_S, BrokerCore, Phase
from covey.broker.effects import Effect, Ending, Input, Instant
from covey.broker.security import Permissions, Security, hash_password, read_security
from covey.core.families import parse
from covey.errors import AccessError, BusyError
from covey.protocol.connection import GREETING_S
from covey.protocol.control import (
    BARE,
    FlushRequest,
    Goodbye,
    Hello,
    SubscribeRequest,
    Welcome,
    decode_life,
    decode_reply,
    encode,
)
from covey.protocol.events import delivery_of, encode_content, encode_event
from covey.protocol.frames import VERSION, Kind, Splitter, frame, framed

HORSE = hash_password("horse", log2_n=4)
USERS = {"users": [{"name": "ann", "password": str(HORSE)}]}
LINKS = (LinkConfig("x"), LinkConfig("y", "host", 7))


class One:
    """The core of the broker m, whose effects are kept by connection; the other ends are played by the test."""

    def __init__(self, users: dict[str, Any] | None = None, seed: int = 1, **settings: Any) -> None:
        settings = {"links": LINKS, "lease_s": 10.0, **settings}
        self.config = BrokerConfig("m", **settings)
        self.security = Security(read_security(users or {}), self.config.host)
        self.now_s = 0.0
        self.numbers = count(1)
        self.all: list[Effect] = []
        self.core = BrokerCore(
            self.config, self.security, BARE, incarnation=5, random=Random(seed), now=self.now()
        )
        self.all += self.core.start(self.now())

    def now(self) -> Instant:
        return Instant(self.now_s, 1e9 + self.now_s)

    def step(self, given: Input) -> list[Effect]:
        """Give an input; return the effects but those for the log."""
        found = self.core.step(given, self.now())
        self.all += found
        return [one for one in found if not isinstance(one, effects.Log)]

    def tick(self, span_s: float = 0.0) -> list[Effect]:
        """Let time pass, and the core do what is due; return the effects."""
        self.now_s += span_s
        found = self.step(effects.Tick())
        while self.core.scheduler.has_work or self.core.sessions.has_work:
            found += self.step(effects.Tick())
        return found

    def open(self, dialled: str = "", **how: Any) -> int:
        number = next(self.numbers)
        self.step(effects.Opened(number, f"peer {number}", "host", dialled=dialled, **how))
        return number

    def hear(self, number: int, kind: int, said: Any) -> list[Effect]:
        return self.step(effects.Received(number, frame(kind, encode(said))))

    def client(self, name: str = "") -> int:
        """Return the connection of a client that is welcome."""
        number = self.open()
        self.hear(number, Kind.HELLO, Hello(VERSION, "client", name))
        assert isinstance(self.lives(number)[0], Welcome)
        return number

    def neighbour(self, name: str, incarnation: int = 1) -> int:
        """Return the connection of a neighbour that has dialled."""
        number = self.open()
        self.hear(number, Kind.HELLO, Hello(VERSION, "broker", name, incarnation=incarnation))
        return number

    def frames(self, number: int) -> list[bytes]:
        """Return all that was written to a connection."""
        splitter = Splitter(1 << 24)
        return [one for chunk in self.written(number) for one in splitter.feed(chunk)]

    def written(self, number: int) -> list[bytes]:
        writes = [one for one in self.all if isinstance(one, effects.Write) and one.connection == number]
        return [chunk for one in writes for chunk in one.buffers]

    def lives(self, number: int) -> list[Any]:
        """Return the greetings and goodbyes that a connection was sent."""
        kinds = (Kind.HELLO, Kind.WELCOME, Kind.GOODBYE)
        return [decode_life(memoryview(one)[1:]) for one in self.frames(number) if one[0] in kinds]

    def goodbye(self, number: int) -> str:
        said = self.lives(number)[-1]
        assert isinstance(said, Goodbye)
        return said.reason

    def ending(self, number: int) -> Ending | None:
        """Return how a connection was ended last."""
        ends = [one.how for one in self.all if isinstance(one, effects.End) and one.connection == number]
        return ends[-1] if ends else None

    def said(self, event: str) -> list[dict[str, object]]:
        return [one.fields for one in self.all if isinstance(one, effects.Log) and one.event == event]

    def phase(self) -> Phase:
        return self.core.phase

    def links(self) -> dict[str, int]:
        """Return the connections of neighbours."""
        return {link: peer.number for link in self.core.linked if (peer := self.core.peer_at(link))}


def event(publisher: int, number: int, content: dict[str, Any], payload: bytes = b"") -> bytes:
    family, data = encode_content(content)
    return framed(encode_event(data, payload, family=family, publisher=publisher, number=number))


# -- greetings ---------------------------------------------------------------------------------------------------


def test_a_client_is_welcome() -> None:
    one = One()
    number = one.client("reader")
    (welcome,) = one.lives(number)
    assert (welcome.broker, welcome.incarnation, welcome.lease_s) == ("m", 5, 10.0)
    (session,) = one.core.clients.values()
    assert (session.number, session.name) == (welcome.number, "reader")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (frame(Kind.HELLO, encode(Hello(VERSION + 1, "client", newest=VERSION + 2))), "of the protocol"),
        (frame(Kind.HELLO, encode(Hello(VERSION, "broker", "z"))), "'z' is no neighbour of m"),
        (frame(Kind.HELLO, encode(Hello(VERSION, "client", "x" * 1_000))), "at most"),
        (frame(Kind.WELCOME, encode(Welcome(VERSION, "x", 0, 1, 1, 1.0))), "begins with a greeting"),
        (frame(Kind.HELLO, encode(Hello(VERSION, "cook"))), "begins with a greeting"),
        (frame(Kind.EVENT, b"?"), ""),
        (b"\0\0\0\0", "a frame of 0 bytes"),
        (b"\xff\xff\xff\x7f", "bytes"),
    ],
    ids=range(8),
)
def test_who_greets_wrongly_is_told_why_and_goes(first: bytes, reason: str) -> None:
    one = One()
    number = one.open()
    one.step(effects.Received(number, first))
    assert reason in one.goodbye(number)
    assert not one.lives(number)[-1].retry
    assert one.ending(number) is Ending.CLOSE
    assert not one.core.clients
    assert not one.core.linked
    one.step(effects.Closed(number))
    assert not one.core.peers


def test_who_wants_credentials_says_so() -> None:
    one = One(USERS)
    number = one.open()
    one.hear(number, Kind.HELLO, Hello(VERSION, "client"))
    assert "wants a token" in one.goodbye(number)
    assert [str(fields["reason"]) for fields in one.said("peer refused")] == [one.goodbye(number)]


def verifying(one: One, password: str = "horse") -> tuple[int, effects.Verify]:
    """Return the connection of somebody whose password is to be verified."""
    number = one.open()
    found = one.hear(number, Kind.HELLO, Hello(VERSION, "client", user="ann", password=password))
    (verify,) = [effect for effect in found if isinstance(effect, effects.Verify)]
    assert verify.password == password
    assert effects.Hold(number) in found, "it is not read meanwhile"
    assert not one.lives(number)
    return number, verify


def test_a_password_is_verified_outside() -> None:
    one = One(USERS)
    number, verify = verifying(one)
    assert verify.expected == HORSE
    body = encode(SubscribeRequest(1, 1, parse("n > 1").encode()))
    one.step(effects.Received(number, frame(Kind.REQUEST, body)))
    assert not one.core.scheduler.has_work, "it is not known who asks"
    found = one.step(effects.Verified(verify.check, True))
    assert effects.Resume(number) in found
    assert isinstance(one.lives(number)[0], Welcome)
    one.tick()
    (session,) = one.core.clients.values()
    assert session.permissions.name == "ann"
    assert list(session.keys) == [1], "what was said behind the greeting counts"


def test_a_wrong_password_is_refused() -> None:
    one = One(USERS)
    number, verify = verifying(one, "cow")
    one.step(effects.Verified(verify.check, False))
    assert "not those of anybody" in one.goodbye(number)
    assert not one.core.clients


@pytest.mark.parametrize("is_right", [False, True])
def test_users_that_change_while_a_password_is_verified(is_right: bool) -> None:
    one = One(USERS)
    _, verify = verifying(one)
    other = hash_password("cow", log2_n=4)
    changed = Security(read_security({"users": [{"name": "ann", "password": str(other)}]}))
    one.step(effects.Configured(one.config, changed))
    (again,) = one.step(effects.Verified(verify.check, True))
    assert isinstance(again, effects.Verify)
    assert again.expected == other, "by the hash that counts now"
    assert not one.core.clients
    one.step(effects.Verified(again.check, is_right))
    assert bool(one.core.clients) is is_right


def test_whoever_leaves_while_its_password_is_verified_takes_no_place() -> None:
    one = One(USERS)
    for _ in range(500):
        number, verify = verifying(one)
        one.step(effects.Closed(number))
        assert one.step(effects.Verified(verify.check, True)) == []
    assert not one.core.clients
    _, verify = verifying(one)
    one.step(effects.Verified(verify.check, True))
    assert len(one.core.clients) == 1


def test_a_neighbour_that_dials_is_welcome() -> None:
    one = One()
    number = one.neighbour("x", incarnation=9)
    (welcome,) = one.lives(number)
    assert (welcome.broker, welcome.incarnation) == ("m", 5)
    assert one.links() == {"x": number}
    assert one.core.neighbours.records["x"].incarnation == 9
    assert [fields["link"] for fields in one.said("link up")] == ["x"]


def dialled(one: One) -> int:
    """Return the connection to y, which was dialled."""
    found = one.tick()
    assert effects.Dial(LINKS[1]) in found, "it has an address"
    return one.open("y")


def test_a_neighbour_that_is_dialled_is_told_hello() -> None:
    one = One()
    number = dialled(one)
    (hello,) = one.lives(number)
    assert (hello.role, hello.name, hello.incarnation) == ("broker", "m", 5)
    assert not one.links()
    one.hear(number, Kind.WELCOME, Welcome(VERSION, "y", 0, 3, 1 << 20, 10.0))
    assert one.links() == {"y": number}


def test_somebody_else_at_a_neighbour_s_address_is_left() -> None:
    one = One()
    number = dialled(one)
    one.hear(number, Kind.WELCOME, Welcome(VERSION, "z", 0, 3, 1 << 20, 10.0))
    assert "is 'z', not y" in one.goodbye(number)
    assert not one.links()


def test_a_neighbour_that_is_not_reached_is_dialled_again() -> None:
    one = One()
    assert effects.Dial(LINKS[1]) in one.tick()
    one.step(effects.DialFailed("y", "nobody is there"))
    assert one.said("neighbour not reached") == [{"link": "y", "reason": "nobody is there"}]
    assert one.tick() == []
    due_s = one.core.deadline()
    assert due_s is not None
    assert one.now_s < due_s < one.now_s + 1.0
    assert effects.Dial(LINKS[1]) in one.tick(due_s - one.now_s)


@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("name", ["a", "y"])
def test_of_two_brokers_that_dial_each_other_at_once_both_keep_one_connection(
    name: str, crossing: bool
) -> None:
    """It is the one that was opened by the broker whose name sorts first, whichever is greeted first."""
    one = One(links=(LinkConfig(name, "host", 7),))
    one.tick()
    ours = one.open(name)
    welcome = Welcome(VERSION, name, 0, 3, 1 << 20, 10.0)
    if crossing:
        theirs = one.neighbour(name, incarnation=3)
        one.hear(ours, Kind.WELCOME, welcome)
    else:
        one.hear(ours, Kind.WELCOME, welcome)
        theirs = one.neighbour(name, incarnation=3)
    kept, ended = (theirs, ours) if name == "a" else (ours, theirs)
    assert one.links() == {name: kept}
    assert one.ending(kept) is None
    assert one.ending(ended) is not None


def test_a_neighbour_that_dials_again_has_lost_its_old_connection() -> None:
    one = One()
    old = one.neighbour("x", incarnation=1)
    new = one.neighbour("x", incarnation=1)
    assert one.links() == {"x": new}
    assert one.ending(old) is Ending.ABORT
    assert [ended.reason for ended in one.core.tally.ended] == ["the neighbour has dialled again"]
    one.step(effects.Closed(old, "reset"))
    assert one.links() == {"x": new}, "the end of the old one changes nothing"
    assert len(one.said("link down")) == 1


def test_there_is_room_for_so_many_clients() -> None:
    one = One(max_connections=2, links=())
    first, second = one.client(), one.client()
    third = one.open()
    one.hear(third, Kind.HELLO, Hello(VERSION, "client"))
    assert one.lives(third) == [Goodbye("the broker has no room for more connections", True)]
    one.step(effects.Closed(third))
    one.step(effects.Closed(first))
    number = one.client()
    assert one.ending(number) is None
    assert one.ending(second) is None


def test_strangers_make_room_for_those_who_come_after_them() -> None:
    one = One(max_unauthenticated_per_address=2, max_connections=3)
    first, second, client = one.open(), one.open(), one.client()
    assert one.ending(first) is Ending.ABORT
    third, neighbour = one.open(), one.neighbour("x")
    assert [one.ending(number) for number in (second, third, client, neighbour)] == [
        Ending.ABORT,
        None,
        None,
        None,
    ]
    assert one.links() == {"x": neighbour}
    http = next(one.numbers)
    one.step(effects.Knocked(http, "host"))
    one.open()
    assert one.ending(third) is Ending.ABORT
    one.open()
    assert one.ending(http) is Ending.ABORT, "also one that is none of our protocol"
    assert one.core.counters["refused_crowded"] == 4
    assert len(one.said("too many strangers")) == 1


def test_a_request_over_http_is_admitted_like_a_client() -> None:
    one = One(USERS, max_connections=1, links=())
    number = next(one.numbers)
    one.step(effects.Knocked(number, "host"))
    (verify,) = one.step(effects.Showed(number, "host", Shown("ann", "horse")))
    assert isinstance(verify, effects.Verify)
    (admitted,) = one.step(effects.Verified(verify.check, True))
    assert isinstance(admitted, effects.Admitted)
    assert (admitted.permissions.name, admitted.error) == ("ann", None)
    other = next(one.numbers)
    one.step(effects.Knocked(other, "host"))
    (full,) = one.step(effects.Showed(other, "host", Shown("ann", "horse")))
    assert isinstance(full, effects.Admitted)
    assert isinstance(full.error, BusyError)
    (wrong,) = one.step(effects.Showed(number, "host", Shown(token="guess")))
    assert isinstance(wrong, effects.Admitted)
    assert isinstance(wrong.error, AccessError)
    assert one.core.admission.counted(Place.STRANGER) == 2, "it is one again"


def test_a_client_in_this_process_needs_no_greeting() -> None:
    one = One(USERS)
    number = next(one.numbers)
    one.step(effects.Attached(number, "over HTTP", Permissions("bob")))
    (welcome,) = one.lives(number)
    (session,) = one.core.clients.values()
    assert (session.number, session.permissions.name) == (welcome.number, "bob")


# -- time --------------------------------------------------------------------------------------------------------


def due(one: One) -> float:
    """Let the core tick at its deadlines until it has ended a connection; return when that was."""
    for _ in range(1_000):
        deadline_s = one.core.deadline()
        assert deadline_s is not None
        one.now_s = max(one.now_s, deadline_s)
        if any(isinstance(effect, effects.End) for effect in one.step(effects.Tick())):
            return one.now_s
    raise AssertionError("nothing ends")


def test_who_does_not_greet_goes() -> None:
    one = One(links=(), lease_s=100.0)
    number = one.open()
    assert due(one) == pytest.approx(GREETING_S)
    assert one.ending(number) is Ending.CLOSE


def test_who_is_silent_is_dead_within_a_lease() -> None:
    one = One(links=())
    number = one.client()
    assert due(one) <= 10.0
    assert one.ending(number) is Ending.ABORT
    assert any(chunk == frame(Kind.PING, b"") for chunk in one.written(number))
    one.step(effects.Closed(number))
    assert "nothing was heard" in one.core.tally.ended[0].reason


def test_the_deadline_is_now_while_there_is_work() -> None:
    one = One(links=())
    number = one.client()
    one.tick()
    due_s = one.core.deadline()
    assert due_s is not None
    assert due_s > one.now_s
    one.hear(number, Kind.REQUEST, FlushRequest(1, True))
    assert one.core.deadline() == one.now_s
    one.tick()
    due_s = one.core.deadline()
    assert due_s is not None
    assert due_s > one.now_s


# -- turns -------------------------------------------------------------------------------------------------------


def test_a_turn_joins_connections_and_writes_once_to_each() -> None:
    one = One()
    clients = [one.client() for _ in range(4)]
    numbers = [session.number for session in one.core.clients.values()]
    one.hear(clients[3], Kind.REQUEST, SubscribeRequest(1, 1, parse("n > 0").encode()))
    one.tick()
    for client, number in zip(clients[:3], numbers[:3], strict=True):
        assert (
            one.step(effects.Received(client, event(number, 1, {"n": 1}) + event(number, 2, {"n": 2}))) == []
        )
    found = one.step(effects.Tick())
    (write,) = [effect for effect in found if isinstance(effect, effects.Write)]
    assert write.connection == clients[3]
    delivered = [delivery_of(frame) for frame in Splitter(1 << 20).feed(b"".join(write.buffers))]
    assert len(delivered) == 6
    assert not one.core.scheduler.has_work


def test_nothing_is_written_to_a_stream_that_holds_enough() -> None:
    one = One(links=())
    number = one.client()
    one.step(effects.Paused(number))
    one.hear(number, Kind.REQUEST, FlushRequest(1, True))
    assert one.tick() == []
    found = one.step(effects.Writable(number))
    assert [effect.connection for effect in found if isinstance(effect, effects.Write)] == [number]
    assert decode_reply(memoryview(one.frames(number)[-1])[1:]).request == 1


def test_what_a_client_has_said_before_it_went_counts() -> None:
    one = One()
    reader, writer = one.client(), one.client()
    number = list(one.core.clients.values())[1].number
    one.hear(reader, Kind.REQUEST, SubscribeRequest(1, 1, parse("n > 0").encode()))
    one.tick()
    one.step(effects.Received(writer, event(number, 1, {"n": 1})))
    one.step(effects.Closed(writer, "reset"))
    one.tick()
    assert one.frames(reader)[-1][0] == Kind.DELIVERY
    assert writer not in one.core.peers


def test_clients_that_come_and_go_leave_no_more_behind_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sends much and goes at once, before the broker has got far with any of it."""
    monkeypatch.setattr(core_module, "GONE_BYTES", 100_000)
    one = One()
    for _ in range(20):
        number = one.client()
        asked = b"".join(
            framed(bytes([Kind.REQUEST]) + encode(SubscribeRequest(n, n, parse(f"n > {n}").encode())))
            for n in range(1, 1_000)
        )
        one.step(effects.Received(number, asked))
        one.step(effects.Closed(number, "reset"))
        left = sum(one.core.scheduler.size_of(peer) for peer in one.core.peers)
        assert left <= 100_000 + len(asked)
    assert one.core.counters["refused_gone"] > 0
    said = [effect.event for effect in one.all if isinstance(effect, effects.Log)]
    assert said.count("requests dropped") == 1, "once; later ones are counted"
    for _ in range(2_000):
        one.tick()
    assert not one.core.peers
    assert one.core.router.local_size() == 0


def test_what_is_said_of_a_connection_that_is_gone_is_ignored() -> None:
    one = One()
    number = one.client()
    one.step(effects.Closed(number))
    later: list[Input] = [
        effects.Received(number, b"?"),
        effects.HeardEof(number),
        effects.Paused(number),
        effects.Writable(number),
        effects.Closed(number),
    ]
    for given in later:
        assert one.step(given) == []


def test_the_same_inputs_have_the_same_effects() -> None:
    def run() -> list[Effect]:
        one = One()
        reader = one.client("reader")
        one.neighbour("x")
        dialled(one)
        one.hear(reader, Kind.REQUEST, SubscribeRequest(1, 1, parse("n > 0").encode()))
        number = next(iter(one.core.clients.values())).number
        for turn in range(20):
            one.step(effects.Received(reader, event(number, turn, {"n": turn})))
            one.tick(0.3)
        one.step(effects.Drain(5.0))
        one.tick(6.0)
        return one.all

    assert run() == run()


# -- settings ----------------------------------------------------------------------------------------------------


def test_other_settings_are_taken_as_far_as_they_can_be() -> None:
    one = One()
    number = one.neighbour("x")
    config = replace(one.config, links=LINKS[1:], max_subscriptions=1, strategy="simple", calm_at=7)
    one.step(effects.Configured(config, one.security))
    assert one.goodbye(number) == "x is no neighbour of m any longer"
    assert list(one.core.neighbours.records) == ["y"]
    assert one.core.config.strategy == "covering", "that needs a restart"
    assert one.core.scheduler.calm_at == 7
    client = one.client()
    for sid in (1, 2):
        one.hear(client, Kind.REQUEST, SubscribeRequest(sid, sid, parse("n > 1").encode()))
    one.tick()
    replies = [decode_reply(memoryview(frame)[1:]) for frame in one.frames(client) if frame[0] == Kind.REPLY]
    assert [bool(reply.error) for reply in replies] == [False, True]
    (said,) = one.said("settings taken")
    assert said["settings"] == "links, max_subscriptions, calm_at"


def test_whose_credentials_are_void_loses_its_connection() -> None:
    one = One(USERS)
    number, verify = verifying(one)
    one.step(effects.Verified(verify.check, True))
    one.step(effects.Configured(one.config, Security(read_security({}), "0.0.0.0")))
    assert "not valid any longer" in one.goodbye(number)
    assert one.ending(number) is Ending.CLOSE


# -- the end -----------------------------------------------------------------------------------------------------


def test_a_broker_drains_phase_by_phase() -> None:
    one = One()
    client, neighbour = one.client(), one.neighbour("x")
    one.hear(client, Kind.REQUEST, FlushRequest(1, True))
    found = one.step(effects.Drain(5.0))
    assert effects.StopListening() in found
    assert one.phase() is Phase.EMPTYING, "what has come is handled first"
    late = one.open()
    assert one.goodbye(late) == GOING
    one.step(effects.Closed(late))
    one.tick()
    assert one.phase() is Phase.DISMISSING
    assert one.frames(client)[-2][0] == Kind.REPLY
    assert one.goodbye(client) == GOING
    assert one.ending(client) is Ending.SHUT
    assert one.ending(neighbour) is None, "neighbours go last"
    one.step(effects.Closed(client))
    assert one.phase() is Phase.PARTING
    assert one.goodbye(neighbour) == GOING
    assert effects.Stop() not in one.all
    assert effects.Stop() in one.step(effects.Closed(neighbour))
    assert one.phase() is Phase.ENDED
    assert one.core.deadline() is None
    assert one.said("link down") != []


def test_nobody_is_dialled_while_the_broker_drains() -> None:
    one = One()
    one.client()
    one.step(effects.Drain(5.0))
    assert not any(isinstance(effect, effects.Dial) for effect in one.tick(1.0))


def test_draining_ends_at_its_time() -> None:
    one = One()
    client = one.client()
    one.step(effects.Drain(3.0))
    assert one.phase() is Phase.DISMISSING
    deadline_s = one.core.deadline()
    assert deadline_s is not None
    assert deadline_s <= 3.0
    one.tick(2.9)
    assert one.phase() is Phase.DISMISSING
    one.tick(0.2)
    assert one.phase() is Phase.ABORTING
    assert one.ending(client) is Ending.ABORT
    assert effects.Stop() not in one.all
    one.tick(LAST_WAIT_S)
    assert one.phase() is Phase.ENDED, "though nobody has said that the connection is gone"
    assert effects.Stop() in one.all


def test_clients_are_sent_away_over_a_time() -> None:
    one = One(links=())
    clients = [one.client() for _ in range(4)]
    one.step(effects.Drain(5.0, spread_s=8.0))
    ended = []
    for _ in range(5):
        ended.append(sum(one.ending(client) is not None for client in clients))
        for client in clients:
            one.step(effects.Received(client, frame(Kind.PING, b"")))
        one.tick(2.0)
    assert ended == [1, 2, 3, 4, 4]
    for client in clients:
        one.step(effects.Closed(client))
    assert one.phase() is Phase.ENDED


@pytest.mark.parametrize("drains", [False, True])
def test_a_broker_can_be_aborted(drains: bool) -> None:
    one = One()
    numbers = [one.client(), one.neighbour("x"), one.open()]
    if drains:
        one.step(effects.Drain(60.0))
    one.step(effects.Abort())
    assert one.phase() is Phase.ABORTING
    assert {one.ending(number) for number in numbers} == {Ending.ABORT}
    for number in numbers:
        one.step(effects.Closed(number))
    assert one.phase() is Phase.ENDED
    assert sum(effect == effects.Stop() for effect in one.all) == 1


def test_a_broker_that_nobody_uses_ends_at_once() -> None:
    one = One()
    assert effects.Stop() in one.step(effects.Drain(5.0))
    assert one.phase() is Phase.ENDED
    assert one.step(effects.Drain(5.0)) == []


# -- what it is made of ------------------------------------------------------------------------------------------

PARTS = [
    "actions", "admission", "core", "effects", "fastpath", "neighbours", "plans", "sampling", "scheduling", "sessions",
    "durable/completeness", "durable/delivery", "durable/log", "durable/queues",
]  # fmt: skip
FORBIDDEN = {
    "asyncio", "concurrent", "multiprocessing", "secrets", "select", "selectors", "signal", "socket", "sqlite3", "ssl",
    "subprocess", "threading", "time", "uvloop",
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_no_sockets_clocks_threads_or_chance(part: str) -> None:
    """What is done with a part must follow from what it is given; `logging` is there for the numbers of levels."""
    tree = ast.parse((Path(covey.broker.__file__).parent / f"{part}.py").read_text())
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert not {name.partition(".")[0] for name in names} & FORBIDDEN, f"{part}: {names}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "logging":
                assert node.attr.isupper(), f"{part}, line {node.lineno}: a part logs by actions"
            assert node.value.id != "random", f"{part}, line {node.lineno}: randomness is given to it"
