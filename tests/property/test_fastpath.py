"""Turns: what several links have sent, handled together, has the outputs that it has one event after the other.

One broker with two epochs, six clients and three neighbours; each side gets the same bytes, and what it sends, counts
and samples is compared. Among the frames are all that the kernel leaves to Python, in any place.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import special_values
from tests.oracles.one_by_one import OneByOne
from tests.property.test_flow import FILTERS, Fixed

from covey.broker import actions, effects
from covey.broker import core as core_module
from covey.broker.actions import Actions
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import BrokerCore
from covey.broker.effects import Instant
from covey.broker.fastpath import FastPath, Read
from covey.broker.neighbours import LONGEST_S, Neighbour
from covey.broker.sampling import Sampler
from covey.broker.scheduling import Scheduler
from covey.broker.security import Allowed, Permissions, Security, SecurityConfig
from covey.broker.sessions import Session
from covey.core.families import parse
from covey.matching import relay
from covey.matching.attributes import view
from covey.matching.jit import address_of_bytes
from covey.protocol import events as wire
from covey.protocol.control import (
    AdvertiseRequest,
    Attach,
    BrokerLinks,
    FlushRequest,
    Hello,
    PlanState,
    Request,
    States,
    SubscribeRequest,
    UnsubscribeRequest,
    encode,
    encode_overlaid,
    encode_routed,
)
from covey.protocol.events import (
    ATTRIBUTES,
    FLOODED,
    KEPT,
    Notes,
    delivery_of,
    encode_content,
    encode_event,
    envelope_of,
    link_of,
)
from covey.protocol.frames import VERSION, Kind, Splitter, frame, framed
from covey.protocol.outbox import Verdict
from covey.routing.digest import Fact
from covey.routing.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Greet, Message, Sync
from covey.routing.plan import OneCopy, TreePlan
from covey.routing.router import Router

CHARGE = Scheduler.charge  # as it is, where it is not replaced
NEIGHBOURS = ("x", "y", "z")
LIMIT = 1 << 24
EPOCHS = PlanState(0, "", 0, {0: b"", 1: b""})

CONTENTS: list[Any] = [
    {"n": 4, "s": "x"},
    {"n": 2, "s": "y", "m": True},
    *({"n": value, "s": "x"} for value in special_values.VALUES),
    {},
    {"s": "é", "big": 2**70},
    frozenset({"n", "word"}),
    "<n><word/></n>",
]


# Plans of one copy for this broker, its neighbours and two more behind them, and where those neighbours' clients are.
ONE_COPY = [
    [("b", "x"), ("b", "y"), ("b", "z"), ("x", "p"), ("y", "q")],
    [("b", "y"), ("y", "p"), ("y", "x"), ("p", "z"), ("z", "q")],
    [("b", "z"), ("z", "x"), ("x", "p"), ("p", "y"), ("y", "q")],
]
HOMES = {"x": ["x", "p"], "y": ["q", "y", "b"], "z": ["z"]}


def router_of(name: str, strategy: str) -> Router:
    strategy, _, rule = strategy.partition("-")
    if not rule:
        return Router(name, strategy)
    costs = {("b", "x"): 2.5, ("z", "q"): 0.25}
    return Router(name, strategy, plan=TreePlan(ONE_COPY, one_copy=OneCopy(rule, ["x", "y", "z"], costs)))


class Wire:
    """What a connection was written, and how many frames there were in each chunk."""

    def __init__(self) -> None:
        self.waiting = bytearray()
        self.counts: list[int] = []

    def take(self) -> bytes:
        data = bytes(self.waiting)
        self.waiting.clear()
        self.counts.clear()
        return data


class Broker:
    """One core with all its links, and a few things that may happen in the middle of a turn."""

    def __init__(self, sort: type[BrokerCore], strategy: str, directory: Path, share: float) -> None:
        names = [*NEIGHBOURS, *(f"l{number}" for number in range(150))]
        config = BrokerConfig("b", links=tuple(map(LinkConfig, names)), lease_s=1e6)
        self.now_s = 0.0

        def make(config: BrokerConfig) -> Callable[[bytes], Router]:
            return lambda plan: router_of(config.name, strategy)

        with mock.patch.object(core_module, "router_maker", make):
            self.core = sort(
                config,
                Security(SecurityConfig()),
                EPOCHS,
                incarnation=1,
                random=Random(1),
                now=self.now(),
            )
        self.core.sampler = Sampler("b", directory, share) if share else None
        self.wires: dict[str, Wire] = {}
        self.peers: dict[str, Session | Neighbour] = {}
        self.numbers: dict[str, int] = {}  # of connections
        self.failures: list[tuple[str, str]] = []
        self.filled: list[tuple[str, list[str]]] = []
        self.carry_out(self.core.start(self.now()))
        for number in range(1, 7):
            allowed = [parse("n > 1 or s = 'z'"), parse("word", "keywords")] if number == 4 else []
            publish = Allowed(allowed) if number in (4, 5) else None
            link = self._connected(link_of(number))
            with mock.patch.object(self.core, "_random", Fixed(number)):
                self.step(effects.Attached(self.numbers[link], link, Permissions("c", None, publish)))
            self.peers[link] = self.core.clients[link]
        for link in NEIGHBOURS:
            self.link(link)
        vars(self.core)["failed"] = lambda read, error: self.failures.append((read.link, str(error)))
        vars(self.core)["full"] = lambda link, sources: self.filled.append((link, list(sources)))
        handle = self.core.sessions.request

        def asked(session: Session, request: Request, stored_bytes: int) -> Actions:
            is_happening = isinstance(request, FlushRequest)
            yield from (
                self.happen(request.request) if is_happening else handle(session, request, stored_bytes)
            )

        vars(self.core.sessions)["request"] = asked

    def now(self) -> Instant:
        return Instant(self.now_s, 1e9)

    def _connected(self, link: str) -> str:
        self.wires[link] = Wire()
        self.numbers[link] = len(self.numbers) + 1
        return link

    def step(self, given: effects.Input) -> None:
        self.carry_out(self.core.step(given, self.now()))

    def carry_out(self, some: list[effects.Effect]) -> None:
        links = {number: link for link, number in self.numbers.items()}
        for effect in some:
            if isinstance(effect, effects.Write):
                wire = self.wires[links[effect.connection]]
                wire.waiting += b"".join(effect.buffers)
                wire.counts += [len(Splitter(LIMIT).feed(chunk)) for chunk in effect.buffers]

    def work(self) -> None:
        """Have the core handle what it has."""
        self.step(effects.Tick())
        while self.core.scheduler.has_work or self.core.sessions.has_work:
            self.step(effects.Tick())

    def hear(self, link: str, *frames: bytes) -> None:
        for one in frames:
            self.step(effects.Received(self.numbers[link], one))
        self.work()

    def link(self, link: str) -> None:
        """Let a neighbour come, attach its link, and say what it wants."""
        self._connected(link)
        self.step(effects.Opened(self.numbers[link], link, link))
        states = States((BrokerLinks(link, 1, {"b": (1, True)}),))
        self.hear(
            link,
            frame(Kind.HELLO, encode(Hello(VERSION, "broker", link))),
            frame(Kind.OVERLAY, encode_overlaid(states)),
            frame(Kind.OVERLAY, encode_overlaid(Attach())),
        )
        self.now_s += LONGEST_S
        self.work()
        assert link in self.core.neighbours.attached
        self.peers[link] = self.core.linked[link]
        dialect = self.core.router.trees[0].dialect
        filters = FILTERS[NEIGHBOURS.index(link) :: 3] if link in NEIGHBOURS else [f"n = {link[1:]}"]
        homes = HOMES[link] if dialect.startswith("regions") else [""]
        facts = tuple(
            Fact(f"{link}{at}", parse(text), homes[at % len(homes)]) for at, text in enumerate(filters)
        )
        said: list[Message] = []
        for tree in self.core.router.trees:
            if self.core.router.plan.has_link(tree, "b", link):
                is_told = tree == 0 and not dialect.startswith("flooding")
                said += [Greet(dialect, (), (), tree), Sync(ADVERTISEMENTS, 1, {}, tree)]
                said.append(Sync(SUBSCRIPTIONS, 1, {0: facts} if is_told else {}, tree))
        self.hear(
            link,
            *(frame(Kind.ROUTE, encode_routed(message, epoch)) for epoch in EPOCHS.plans for message in said),
        )

    def happen(self, what: int) -> Actions:
        """In the middle of a turn: permissions are cut, clients or links go, the network switches, or is there."""
        core = self.core
        if what == 1:
            session = self.peers[link_of(2)]
            assert isinstance(session, Session)
            session.permissions = Permissions("cut", None, Allowed([parse("n = 4")]))
        elif what == 2 and link_of(3) in core.clients:
            yield from core.sessions.depart(link_of(3))
        elif what == 3 and "z" in core.linked:
            others = [one.config for one in core.neighbours.records.values() if one.link != "z"]
            yield from core.neighbours.configure(others, self.now_s)
        elif what == 4:
            core.plans._holds["somebody"], core.plans._held_until_s = 0, 1e12
        elif what == 5:
            core.plans._holds.clear()
            yield actions.Release()
        elif what == 6:
            core.router.remember_events()

    def turn(self, said: list[tuple[str, bytes]]) -> None:
        for link, data in said:
            self.step(effects.Received(self.numbers[link], data))
        self.work()

    def arrive(self, said: dict[str, bytes]) -> None:
        """Let all of it arrive in one turn of the shell's loop, while nothing else is to be done."""
        self.core.deadline()
        self.step(effects.Arrived({self.numbers[link]: data for link, data in said.items()}))
        self.work()

    def handle(self, reads: list[Read]) -> None:
        """Give reads to the fast path itself."""
        self.core.fastpath.handle(reads, self.core, self.now_s)
        self.step(effects.Tick())

    def heard(self) -> dict[str, Any]:
        sampler = self.core.sampler
        return {
            "wires": {link: bytes(wire.waiting) for link, wire in self.wires.items()},
            "counts": {
                link: (peer.published, peer.delivered, peer.refused)
                if isinstance(peer, Session)
                else (peer.received, peer.sent)
                for link, peer in self.peers.items()
            },
            "failures": self.failures,
            "counters": dict(self.core.counters),
            "routers": [dict(router.counters) for router in self.core.epochs.routers.values()],
            "samples": None if sampler is None else (sampler._events.rows, sampler._deliveries.rows),
            "held": [(read.link, bytes(read.data[read.at : read.end])) for read in self.core._held],
        }


@pytest.fixture(autouse=True, scope="module")
def whole_turns() -> Iterator[None]:
    """Let turns have no bound of work, and nobody be charged: connections would take other turns than one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_module, "SPENT", 1e12)
        patch.setattr(Scheduler, "charge", lambda scheduler, connection, units: None)
        yield


def request(kind: Any, number: int, *values: Any) -> bytes:
    return frame(Kind.REQUEST, encode(kind(number, *values)))


NOTES = wire._encode(Notes(2.0))

names = st.lists(st.sampled_from(["x", "y", "z", "p", "q", "b"]), max_size=7).map(tuple)
ADDRESSES = st.one_of(
    st.builds(lambda names, detours: wire._encode(Notes(0.0, names, detours)), names, st.integers(0, 4)),
    st.builds(lambda names, detours: wire._encode(Notes(0.0, names, detours)), names, st.integers(0, 4)),
    st.sampled_from(
        [
            wire._encode(Notes(0.0, ("x", "nobody"), 0)),
            wire._encode(Notes(0.0, ("x", "é" * 20), 101)),
            wire._encode(Notes(1.0, ("x",), 0)),
            wire._encode(Notes(-0.0, ("x",), 0)),
            wire._encode(Notes(0.0, None, 2)),
            wire._encode(Notes(0.0, ("x",) * 20, 1)),
            wire._encode(Notes(0.0, ("x", "p"), 1)) + b"\0",
            wire._encode(Notes(0.0, ("x", "p"), 1))[:-1],
            wire._encode([0.0, ["x"]]),
            b"\x93\xcb" + bytes(8) + b"\xdc\0\2\xd9\1x\xda\0\1q\2",
            b"\x93\xcb" + bytes(8) + b"\x91\xa3x",
            b"\x93\xcb" + bytes(8) + b"\x91\xa1\xff\0",
        ]
    ),
)
carried = st.builds(
    lambda content, number, payload, flags, epoch, tree, notes: (
        "event", content, number, payload, flags, epoch, tree, notes, False,
    ),
    st.sampled_from(CONTENTS),
    st.integers(0, 40),
    st.binary(max_size=5),
    st.sampled_from([0] * 12 + [FLOODED, KEPT]),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(0, 2),
    ADDRESSES,
)  # fmt: skip
published = st.builds(
    lambda content, number, payload, flags, epoch, tree, notes, lie: (
        "event", content, number, payload, flags, epoch, tree, notes, lie,
    ),
    st.sampled_from(CONTENTS),
    st.integers(0, 40),
    st.binary(max_size=5),
    st.sampled_from([0, 0, 0, 0, FLOODED, KEPT]),
    st.sampled_from([0, 0, 0, 1, 7]),
    st.sampled_from([0] * 20 + [3]),
    st.sampled_from([b""] * 9 + [NOTES]),
    st.sampled_from([False] * 40 + [True]),
)  # fmt: skip
asked = st.one_of(
    st.tuples(st.just("subscribe"), st.integers(1, 9), st.sampled_from(FILTERS)),
    st.tuples(st.just("unsubscribe"), st.integers(1, 9)),
    st.tuples(st.just("advertise"), st.integers(1, 9), st.sampled_from([*FILTERS, "true"])),
    st.tuples(st.just("happen"), st.integers(1, 6)),
)
links = [link_of(number) for number in range(1, 7)]
of_client = st.tuples(
    st.sampled_from(links), st.lists(st.one_of(published, published, published, asked), max_size=8)
)


def turns_of(neighbours: Any) -> Any:
    of_neighbour = st.tuples(st.sampled_from(NEIGHBOURS), st.lists(neighbours, max_size=8))
    reads = st.lists(st.one_of(of_client, of_neighbour), min_size=1, max_size=6, unique_by=lambda one: one[0])
    return st.lists(reads, min_size=1, max_size=4)


# Events that are addressed to brokers are among those of neighbours.
turns = st.one_of(turns_of(published), turns_of(st.one_of(carried, carried, carried, published)))
STRATEGIES = ["covering", "flooding", "incremental", "regions-nearest", "regions-cheapest"]


def bytes_of(link: str, one: tuple[Any, ...]) -> bytes:
    what, *values = one
    if what == "event":
        content, number, payload, flags, epoch, tree, notes, lie = values
        publisher = int(link[1:], 16) if link in links else 77
        family, data = encode_content(content)
        return framed(
            encode_event(
                data, payload, family=family, publisher=publisher + lie, number=number, flags=flags,
                epoch=epoch, tree=tree, notes=notes,
            )
        )  # fmt: skip
    if what == "happen":
        return request(FlushRequest, values[0])
    if what == "unsubscribe":
        return request(UnsubscribeRequest, 1, values[0])
    kind = SubscribeRequest if what == "subscribe" else AdvertiseRequest
    return request(kind, 1, values[0], parse(values[1]).encode())


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60)
@given(turns=turns, share=st.sampled_from([0.0, 0.0, 0.3, 1.0]))
def test_turns_do_what_is_done_one_by_one(strategy: str, turns: Any, share: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        fast, slow = (Broker(sort, strategy, Path(directory), share) for sort in (BrokerCore, OneByOne))
        for turn in turns:
            said = [(link, b"".join(bytes_of(link, one) for one in some)) for link, some in turn]
            fast.turn(said)
            slow.turn(said)
            assert fast.heard() == slow.heard()


def without_happenings(some: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [one for one in some if one[0] != "happen"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60)
@given(turns=turns, share=st.sampled_from([0.0, 0.3]), spent=st.sampled_from([1.0, 60.0, 200.0]))
def test_turns_that_end_early_change_the_order_of_connections_alone(
    strategy: str, turns: Any, share: float, spent: float
) -> None:
    """What bounded turns have handled, in that order but one by one, has the same outcome for every strategy."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        fast, slow = (Broker(sort, strategy, Path(directory), share) for sort in (BrokerCore, OneByOne))
        patch.setattr(core_module, "SPENT", spent)
        patch.setattr(Scheduler, "charge", CHARGE)
        handle, handled = fast.core.fastpath.handle, list[list[tuple[str, bytes]]]()

        def noted(reads: list[Read], desk: Any, now_s: float) -> None:
            before = [read.at for read in reads]
            handle(reads, desk, now_s)
            found = zip(reads, before, strict=True)
            handled.append(
                [(read.link, bytes(read.data[at : read.at])) for read, at in found if read.at > at]
            )

        vars(fast.core.fastpath)["handle"] = noted
        for turn in turns:
            said = [(link, without_happenings(some)) for link, some in turn]
            fast.turn([(link, b"".join(bytes_of(link, one) for one in some)) for link, some in said])
            for some in handled:
                reads = [
                    Read(link, slow.peers[link], piece, address_of_bytes(piece), 0, len(piece))
                    for link, piece in some
                ]
                slow.handle(reads)
            handled.clear()
            assert fast.heard() == slow.heard()


def by_lane(heard: dict[str, Any]) -> dict[str, Any]:
    """Return what was heard with events, and all else, of each wire by itself: in an outbox, what is said to a
    neighbour may overtake events that are not written yet, and events that are passed through are written at once."""
    wires = {link: Splitter(LIMIT).feed(data) for link, data in heard["wires"].items()}
    events = {
        link: [one for one in some if one[0] in (Kind.EVENT, Kind.DELIVERY)] for link, some in wires.items()
    }
    others = {
        link: [one for one in some if one[0] not in (Kind.EVENT, Kind.DELIVERY)]
        for link, some in wires.items()
    }
    return heard | {"wires": (events, others)}


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60)
@given(
    turns=turns, share=st.sampled_from([0.0, 0.0, 0.3, 1.0]), cuts=st.lists(st.integers(0, 300), max_size=8)
)
def test_what_arrives_together_is_handled_as_if_it_had_waited_for_a_turn(
    strategy: str, turns: Any, share: float, cuts: list[int]
) -> None:
    """Events are passed through, also those before something else, and those of which a part comes later."""
    with tempfile.TemporaryDirectory() as directory:
        passing, waiting = (Broker(BrokerCore, strategy, Path(directory), share) for _ in range(2))
        for turn in turns:
            # One connection after the other: which of several is first would be another question.
            for number, (link, some) in enumerate(turn):
                data = b"".join(bytes_of(link, one) for one in some)
                at = cuts[number] if number < len(cuts) else len(data)
                for part in (data[:at], data[at:]):
                    passing.arrive({link: part})
                    waiting.turn([(link, part)])
                    passing.core.fastpath.count_tables()
                    assert by_lane(passing.heard()) == by_lane(waiting.heard())


def test_events_are_passed_through_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = ready(tmp_path)
    broker.arrive({link_of(1): event(1, 0)})  # now the kernel knows whose subscription it meets
    calm_s = broker.core.deadline()
    monkeypatch.setattr(Scheduler, "put", None)  # no event takes this way
    for turn in range(1, 4):
        reads = {broker.numbers[link_of(one)]: event(one, turn) for one in (1, 3, 6)}
        found = broker.core.step(effects.Arrived(reads), broker.now())
        writes = [one for one in found if isinstance(one, effects.Write)]
        assert len(found) == len(writes) == len({one.connection for one in writes})
        (chunks,) = [one.buffers for one in writes if one.connection == broker.numbers[link_of(2)]]
        assert numbers(b"".join(chunks)) == [(one, turn) for one in (1, 3, 6)]
        assert broker.core.deadline() == broker.core.calm_until_s == calm_s


def test_events_wait_where_something_waits_before_them(tmp_path: Path) -> None:
    broker = ready(tmp_path)
    reader = broker.numbers[link_of(2)]
    broker.step(effects.Paused(reader))
    broker.arrive({link_of(1): event(1, 1)})
    broker.arrive({link_of(1): event(1, 2)})
    assert not broker.wires[link_of(2)].waiting
    broker.step(effects.Writable(reader))
    broker.arrive({link_of(1): event(1, 3)})
    assert numbers(broker.wires[link_of(2)].take()) == [(1, 1), (1, 2), (1, 3)]


def test_events_do_not_overtake_those_of_a_blocked_connection(tmp_path: Path) -> None:
    broker = ready(tmp_path)
    writer = broker.numbers[link_of(1)]
    broker.core.scheduler.block(writer)
    broker.arrive({link_of(1): event(1, 1), link_of(3): event(3, 1)})
    assert numbers(broker.wires[link_of(2)].take()) == [(3, 1)]
    broker.core.scheduler.unblock(writer)
    broker.arrive({link_of(1): event(1, 2)})
    assert numbers(broker.wires[link_of(2)].take()) == [(1, 1), (1, 2)]


def test_events_are_no_reason_to_put_off_what_is_due(tmp_path: Path) -> None:
    broker = ready(tmp_path)
    due_s = broker.core.deadline()
    assert due_s is not None
    broker.now_s = due_s
    broker.step(effects.Arrived({broker.numbers[link_of(1)]: event(1, 1)}))
    later_s = broker.core.deadline()
    assert later_s is not None
    assert later_s > due_s


@pytest.mark.parametrize("rule", ["nearest", "cheapest"])
def test_events_of_a_plan_need_no_lane_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    fast, slow = (ready(tmp_path, sort, f"regions-{rule}") for sort in (BrokerCore, OneByOne))
    monkeypatch.setattr(FastPath, "_event", None)  # no event takes this way
    content = encode_content({"n": 5, "s": "x"})[1]
    for tree, names in ((0, ("b", "p", "y")), (1, ("x", "z", "q")), (2, ("q",))):
        for broker in (fast, slow):
            notes = wire._encode(Notes(0.0, names, 0))
            one = encode_event(
                content, b"x", family=ATTRIBUTES, publisher=77, number=tree, tree=tree, notes=notes
            )
            broker.turn([(link_of(1), event(1, tree)), ("xyz"[tree], framed(one))])
    assert fast.heard() == slow.heard()
    assert sum(map(len, fast.heard()["wires"].values())) > 500


def ready(tmp_path: Path, sort: type[BrokerCore] = BrokerCore, strategy: str = "covering") -> Broker:
    """A broker whose client 1 has advertised everything, and whose client 2 wants n > 3."""
    broker = Broker(sort, strategy, tmp_path, 0.0)
    broker.turn([(link_of(1), request(AdvertiseRequest, 1, 1, parse("true").encode()))])
    broker.turn([(link_of(2), request(SubscribeRequest, 1, 1, parse("n > 3").encode()))])
    for one in broker.wires.values():
        one.take()
    return broker


def event(publisher: int, number: int, payload: bytes = b"", n: int = 5) -> bytes:
    content = encode_content({"n": n})[1]
    return framed(encode_event(content, payload, family=ATTRIBUTES, publisher=publisher, number=number))


def numbers(data: bytes) -> list[tuple[int, int]]:
    found = [envelope_of(delivery_of(one).event) for one in Splitter(LIMIT).feed(data)]
    return [(one.publisher, one.number) for one in found]


def test_links_are_handled_together_and_each_receiver_gets_one_chunk(tmp_path: Path) -> None:
    broker = ready(tmp_path)
    broker.turn([(link_of(one), event(one, 1) + event(one, 2)) for one in (1, 3, 6)])
    assert broker.wires[link_of(2)].counts == [6]
    assert numbers(broker.wires[link_of(2)].take()) == [(one, k) for one in (1, 3, 6) for k in (1, 2)]


def test_what_a_turn_changes_holds_for_the_reads_behind_it(tmp_path: Path) -> None:
    content = encode_content({"n": 5})[1]
    kept = framed(encode_event(content, b"", family=ATTRIBUTES, publisher=1, number=1, flags=KEPT))
    subscribe = request(SubscribeRequest, 1, 1, parse("n > 0").encode())
    brokers = [ready(tmp_path, sort) for sort in (BrokerCore, OneByOne)]
    for broker in brokers:
        broker.turn([(link_of(1), event(1, 2) + kept), (link_of(3), subscribe), (link_of(6), event(6, 1))])
    fast, slow = (broker.heard() for broker in brokers)
    assert fast == slow
    assert fast["counts"][link_of(3)] == (0, 1, 0)


def test_what_is_not_complete_waits(tmp_path: Path) -> None:
    broker = ready(tmp_path)
    data = event(1, 1) + event(1, 2)
    for cut in range(1, len(event(1, 2))):
        some = data[:-cut]
        read = Read(link_of(1), broker.peers[link_of(1)], some, address_of_bytes(some), 0, len(some))
        broker.handle([read])
        assert not broker.failures
        assert read.at == len(event(1, 1))
        assert numbers(broker.wires[link_of(2)].take()) == [(1, 1)]


def test_a_frame_that_is_too_long_ends_its_link_alone(tmp_path: Path) -> None:
    broker = ready(tmp_path)
    reads = []
    for number, data in ((1, event(1, 1)), (3, event(3, 1) + b"\0\0\0\0" + event(3, 2)), (6, event(6, 1))):
        peer = broker.peers[link_of(number)]
        reads.append(Read(peer.link, peer, data, address_of_bytes(data), 0, len(data), 1_000))
    broker.handle(reads)
    assert broker.failures == [(link_of(3), "a frame of 0 bytes; from 1 to 1,000 are allowed")]
    assert numbers(broker.wires[link_of(2)].take()) == [(1, 1), (3, 1), (6, 1)]


def test_those_who_fill_a_link_are_named_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = ready(tmp_path)
    session = broker.core.clients[link_of(2)]

    def full(chunk: bytes, count: int = 1) -> Verdict:
        return Verdict.FULL

    monkeypatch.setattr(session.outlet, "send_events", full)
    broker.turn([(link_of(one), event(one, 1, n=n)) for one, n in ((1, 5), (3, 1), (6, 7))])
    assert broker.filled == [(link_of(2), [link_of(1), link_of(6)])]


@pytest.mark.parametrize("sort", [BrokerCore, OneByOne])
def test_large_payloads(tmp_path: Path, sort: type[BrokerCore]) -> None:
    """They are written to memory of their own, after it is known how much there is."""
    broker = ready(tmp_path, sort)
    payloads = [bytes([k]) * (relay.MOST_WRITTEN // 2 * k + k) for k in range(5)]
    broker.turn([(link_of(1), b"".join(event(1, k, payload) for k, payload in enumerate(payloads)))])
    found = [delivery_of(one).event for one in Splitter(LIMIT).feed(broker.wires[link_of(2)].take())]
    content = encode_content({"n": 5})[1]
    assert [one[relay.HEAD + len(content) :] for one in found] == payloads


def test_more_neighbours_than_a_mask_has_bits(tmp_path: Path) -> None:
    brokers = [Broker(sort, "covering", tmp_path, 0.0) for sort in (BrokerCore, OneByOne)]
    for broker in brokers:
        for number in range(150):
            broker.link(f"l{number}")
        broker.turn([(link_of(1), request(AdvertiseRequest, 1, 1, parse("true").encode()))])
        for n in (0, 61, 62, 63, 64, 149):
            broker.turn([(link_of(1), event(1, n, n=n)), ("l3", event(77, n, n=n) + event(78, n, n=3))])
    fast, slow = (broker.heard() for broker in brokers)
    assert fast == slow
    assert sum(map(len, fast["wires"].values())) > 0


@pytest.mark.parametrize("most", [0, 3])
def test_values_that_python_judges_may_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(view, "MOST_LEARNT", most)
    broker = ready(tmp_path)
    subscribe = request(SubscribeRequest, 1, 2, parse("s <> 'a' and s not like '%9'").encode())
    broker.turn([(link_of(2), subscribe)])
    broker.wires[link_of(2)].take()
    data = b""
    for number in range(50):
        content = encode_content({"s": f"t{number}"})[1]
        data += framed(encode_event(content, b"", family=ATTRIBUTES, publisher=1, number=number))
    broker.turn([(link_of(1), data)])
    assert numbers(broker.wires[link_of(2)].take()) == [(1, k) for k in range(50) if k % 10 != 9]


def test_offsets_are_those_of_the_frames() -> None:
    """A kernel is compiled anew only when its own package changes: so it has them written down again."""
    envelope = wire.Envelope(0x11, 0x12, 0x1413, 0x15161718, 0x21 << 56, 0x22 << 56, 0x2423, 0x2625)
    data = wire.ENVELOPE.pack(*envelope)
    assert len(data) == relay.HEAD
    for at, size, value in (
        (relay.FLAGS_AT, 1, envelope.flags),
        (relay.TREE_AT, 2, envelope.tree),
        (relay.CONTENT_LENGTH_AT, 4, envelope.content_length),
        (relay.PUBLISHER_AT, 8, envelope.publisher),
        (relay.NUMBER_AT, 8, envelope.number),
        (relay.EPOCH_AT, 2, envelope.epoch),
        (relay.NOTES_LENGTH_AT, 2, envelope.notes_length),
    ):
        assert int.from_bytes(data[at : at + size], "little") == value
    assert (relay.EVENT_KIND, relay.DELIVERY_KIND) == (Kind.EVENT, Kind.DELIVERY)
    assert (relay.FLOODED, relay.KEPT) == (FLOODED, KEPT)
    assert relay.FAMILY == 3 << wire.FAMILY_SHIFT
    assert relay.ATTRIBUTES == ATTRIBUTES << wire.FAMILY_SHIFT
