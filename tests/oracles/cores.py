"""Whole brokers without sockets, one arrival at a time: cores joined by streams in memory, with simulated disks.

    net = Cores(links_of([("a", "b"), ("b", "c")]), seed=1)
    client = net.client("a")
    client.subscribe(parse("x > 1"))
    net.step()                  one chunk arrives somewhere, one disk commits, one timer rings …
    net.settle()                until nothing is under way

Streams deliver in order, whenever they like, and a disk commits when it likes: which of all that can happen next does
happen is drawn from one seed. Time is what the harness says: a little passes with each step, and more with `pass_time`.
Leases are so long that nobody is considered dead, and a broker looks around (`TICKS` in a lease) when it is told to.

What can happen to brokers: one hangs (it does nothing while the others go on, and notices only afterwards which of its
links are lost), a link is lost with all that is under way on it, a broker is killed and comes back with what was on
disk. Greetings are the only thing that is carried at once: a link that comes up is one that both ends know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final
from unittest import mock

import covey.strategies  # noqa: F401 (registers them)
from covey.broker import core as core_module
from covey.broker import effects
from covey.broker.actions import Action, Actions
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import BrokerCore
from covey.broker.durable.log import Fetch
from covey.broker.effects import Effect, Ending, Input, Instant
from covey.broker.neighbours import Pair, pair
from covey.broker.plans import Installation, router_maker
from covey.broker.security import Permissions, Security
from covey.broker.sessions import Session
from covey.core.filter import Filter
from covey.protocol.control import (
    BARE,
    AdvertiseRequest,
    FlushRequest,
    Goodbye,
    Hello,
    PlanState,
    Reply,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
    decode_life,
    decode_reply,
    encode,
)
from covey.protocol.events import (
    KEPT,
    Name,
    decode_taken,
    delivery_of,
    encode_content,
    encode_event,
    envelope_of,
    link_of,
)
from covey.protocol.frames import VERSION, Kind, Splitter, frame, framed
from covey.routing.messages import Link
from covey.routing.router import Router
from covey.sim.disk import Disk, DiskLog

WALL_S: Final = 1e9  # what clocks on the wall show in the beginning
LEASE_S: Final = 1e6  # nobody's silence is noticed
SOON_S: Final = 2.0  # timers beyond that are rung by nobody but `pass_time`
BIG: Final = 1 << 28
MOST_STEPS: Final = 200_000

MakeRouter = Callable[[str, bytes], Router]  # of a broker's name and a plan


def links_of(links: Iterable[Pair], on_tree: Iterable[Pair] | None = None) -> dict[Pair, int]:
    """Return priorities by which the overlay's tree is the given one; without one it is the overlay's choice."""
    wanted = None if on_tree is None else {pair(*one) for one in on_tree}
    return {pair(*one): int(wanted is not None and pair(*one) not in wanted) for one in links}


@dataclass(eq=False)
class End:
    """One end of a stream: what is under way to it, in order; an `Ending` is how the other end has ended."""

    owner: Machine | Client
    number: int
    other: End = field(init=False)
    waiting: deque[bytes | Ending] = field(default_factory=deque)
    is_open: bool = True
    is_held: bool = False
    is_paused: bool = False  # its owner may not write

    @property
    def is_due(self) -> bool:
        """Whether something can arrive."""
        return bool(self.waiting) and self.is_open and not self.is_held


class Machine:
    """One broker: its core while it runs, and what outlives it."""

    def __init__(self, net: Cores, config: BrokerConfig, kind: type[BrokerCore]) -> None:
        self.net, self.config, self.kind = net, config, kind
        self.name = config.name
        self.disk = Disk()
        self.plans: PlanState = BARE
        self.core: BrokerCore
        self.log: DiskLog | None = None
        self.is_up = self.is_hung = False
        self.ends: dict[int, End] = {}
        self.said: list[effects.Log] = []
        self._inputs: deque[Input] = deque()
        self._is_stepping = self._may_work = False
        self._life = self._connections = 0

    def start(self) -> None:
        """Begin a life with what is on disk."""
        self._life += 1
        self.is_up, self.is_hung = True, False
        self.ends, self._inputs = {}, deque()
        random = Random(f"{self.net.seed} {self.name} {self._life}")
        config = self.config

        def make(_: BrokerConfig) -> Callable[[bytes], Router]:
            assert self.net.make_router is not None
            made = self.net.make_router
            return lambda plan: made(config.name, plan)

        maker = make if self.net.make_router is not None else router_maker
        with mock.patch.object(core_module, "router_maker", maker):
            self.core = self.kind(
                config,
                Security(config.security, config.host),
                self.plans,
                incarnation=random.getrandbits(63),
                random=random,
                now=self.now(),
            )
        for part in (self.core.sessions, self.core.plans):
            self._gate(part)
        if self.net.has_disks:
            self.log = DiskLog(self.disk)
            self.carry_out(self.core.recovered(self.log.open(), self.now()))
        self.carry_out(self.core.start(self.now()))

    def _gate(self, part: Any) -> None:
        """Have a part do long work when the harness says so, and not whenever there is a turn."""
        work = part.work

        def gated() -> Actions:
            if self._may_work:
                yield from work()

        part.work = gated

    def now(self) -> Instant:
        """Return what its clocks show."""
        return Instant(self.net.now_s, WALL_S + self.net.now_s)

    # -- inputs ----------------------------------------------------------------------------------------------

    def give(self, given: Input) -> None:
        """Give the core an input and let it handle what it has heard; while it hangs, the input waits."""
        self._inputs.append(given)
        self.go()

    def go(self) -> None:
        """Take what waits."""
        if self._is_stepping or self.is_hung or not self.is_up:
            return
        self._is_stepping = True
        try:
            while self._inputs:
                self.carry_out(self.core.step(self._inputs.popleft(), self.now()))
                while (self.core.scheduler.has_work or self.core._unsent) and not self._inputs:
                    self.carry_out(self.core.step(effects.Tick(), self.now()))
        finally:
            self._is_stepping = False
        if not self.net.is_sliced:
            while self.has_work:
                self.work()

    @property
    def has_work(self) -> bool:
        """Whether there is long work."""
        return self.is_up and not self.is_hung and self.core._has_jobs

    def work(self) -> None:
        """Do a slice of long work."""
        self._may_work = True
        try:
            self.carry_out(self.core.step(effects.Tick(), self.now()))
        finally:
            self._may_work = False
        self.go()

    def do(self, asked: Iterable[Action]) -> None:
        """Have the core perform what a part asks for, as in a step."""
        self.core.now = self.now()
        try:
            self.core.perform(asked)
        finally:
            self.carry_out(self.core._finish())
            self.go()

    def install(self, plan: bytes, **times: float) -> Installation:
        """Begin to install a plan; PlanError if that cannot be."""
        self.give(effects.Install(plan, **times))
        assert self.core.plans.installation is not None
        return self.core.plans.installation

    def roll_back(self) -> None:
        """Take back the plan that was installed here last."""
        self.give(effects.RollBack())

    def look_around(self) -> None:
        """Let the broker look for what has taken too long."""
        self.core._next_tick_s = self.net.now_s
        self.give(effects.Tick())

    # -- effects ---------------------------------------------------------------------------------------------

    def carry_out(self, some: list[Effect]) -> None:
        """Do what the core asks for."""
        for effect in some:
            _CARRY_OUT[type(effect)](self, effect)
        if any(isinstance(effect, effects.KeepPlans) for effect in some):
            self._inputs.append(effects.PlansKept())  # after what its streams have said of these effects

    def _write(self, effect: effects.Write) -> None:
        end = self.ends.get(effect.connection)
        if end is None or not end.is_open:
            return
        assert not end.is_paused, "who is paused writes nothing"
        if isinstance(end.other.owner, Client):
            end.other.owner.hear(effect.buffers)
            return
        if end.other.is_open:
            end.other.waiting += effect.buffers
            if self.net.pauses and self.net.random.random() < self.net.pauses:
                end.is_paused = True
                self._inputs.append(effects.Paused(end.number))

    def _hold(self, effect: effects.Hold) -> None:
        if effect.connection in self.ends:
            self.ends[effect.connection].is_held = True

    def _resume(self, effect: effects.Resume) -> None:
        if effect.connection in self.ends:
            self.ends[effect.connection].is_held = False

    def _end(self, effect: effects.End) -> None:
        end = self.ends.get(effect.connection)
        if end is None or not end.is_open:
            return
        if isinstance(end.other.owner, Client):
            end.other.is_open = False
        elif end.other.is_open:
            if effect.how is Ending.ABORT:
                end.other.waiting.clear()
            end.other.waiting.append(effect.how)
        if effect.how is not Ending.SHUT:
            self.close(end, "")

    def close(self, end: End, reason: str) -> None:
        """An end of a stream is gone."""
        if end.is_open:
            end.is_open = False
            end.waiting.clear()
            self.give(effects.Closed(end.number, reason))

    def _commit(self, effect: effects.Commit) -> None:
        assert self.log is not None
        self.log.submit([effect.batch])

    def _fetch(self, effect: Fetch) -> None:
        assert self.log is not None
        self.log.submit([effect])

    def _keep_plans(self, effect: effects.KeepPlans) -> None:
        self.plans = effect.state

    def _log_event(self, effect: effects.Log) -> None:
        self.said.append(effect)

    def _nothing(self, effect: Effect) -> None:
        pass

    def add_end(self) -> End:
        """Return the end of a new stream."""
        self._connections += 1
        end = self.ends[self._connections] = End(self, self._connections)
        return end

    def commit(self) -> None:
        """Let the disk answer."""
        assert self.log is not None
        self.give(effects.Answered(tuple(self.log.answers())))

    # -- what tests look at ----------------------------------------------------------------------------------

    @property
    def router(self) -> Router:
        """The router of the epoch in which events set out."""
        return self.core.router

    @property
    def durable(self) -> Any:
        """Its durable delivery."""
        return self.core.durable

    def reasons(self, event: str) -> list[str]:
        """Return the reasons that its log gives for an event."""
        return [str(one.fields["reason"]) for one in self.said if one.event == event]


_CARRY_OUT: Final[dict[type, Callable[[Machine, Any], None]]] = {
    effects.Write: Machine._write,
    effects.Hold: Machine._hold,
    effects.Resume: Machine._resume,
    effects.End: Machine._end,
    effects.Commit: Machine._commit,
    Fetch: Machine._fetch,
    effects.KeepPlans: Machine._keep_plans,
    effects.Log: Machine._log_event,
    effects.StopListening: Machine._nothing,
    effects.Stop: Machine._nothing,
}


class Client:
    """A client of one broker. What it says is handled at once, and it reads at once what it is sent."""

    def __init__(self, machine: Machine, name: str = "", permissions: Permissions | None = None) -> None:
        self.machine, self.broker = machine, machine.name
        self.end = machine.add_end()
        self.end.other = End(self, 0)
        self.end.other.other = self.end
        self.number = self.requests = self.published = self.sids = 0
        self.delivered: list[tuple[int, int, int]] = []  # as (sid, publisher, number)
        self._heard = bytearray()  # all but the welcome
        self.chunks: list[int] = []  # how many frames came in each
        self.replies: dict[int, Reply] = {}
        self.refusals: list[Reply] = []
        self.taken: list[Name] = []  # its events that were confirmed
        self.goodbye = ""
        self.advertised: dict[int, Filter] = {}
        self._splitter = Splitter(BIG)
        where = f"client of {self.broker}"
        if permissions is not None:
            machine.give(effects.Attached(self.end.number, where, permissions))
        else:
            machine.give(effects.Opened(self.end.number, where, where))
            self.say(frame(Kind.HELLO, encode(Hello(VERSION, "client", name))))
        assert self.number, "it is welcome"

    @property
    def link(self) -> Link:
        """By which routers know it."""
        return link_of(self.number)

    @property
    def session(self) -> Session:
        """What its broker knows of it."""
        return self.machine.core.clients[self.link]

    @property
    def is_open(self) -> bool:
        """Whether its broker still talks to it."""
        return self.end.is_open and self.end.other.is_open

    def say(self, data: bytes) -> None:
        """Send bytes."""
        if self.end.is_open:
            self.machine.give(effects.Received(self.end.number, data))

    def leave(self) -> None:
        """Close the connection."""
        self.machine.close(self.end, "")

    def hear(self, buffers: list[bytes]) -> None:
        """Read what the broker has written."""
        for chunk in buffers:
            frames = self._splitter.feed(chunk)
            self.chunks.append(len(frames))
            for one in frames:
                self._heard_one(one)

    def take(self) -> bytes:
        """Return what it was sent since it was asked last, but the welcome."""
        taken, self._heard = self.heard, bytearray()
        return taken

    @property
    def heard(self) -> bytes:
        """What it was sent since `take` was called last."""
        return bytes(self._heard)

    def _heard_one(self, one: bytes) -> None:
        match one[0]:
            case Kind.WELCOME:
                said = decode_life(memoryview(one)[1:])
                assert isinstance(said, Welcome)
                self.number = said.number
                return
            case Kind.GOODBYE:
                last = decode_life(memoryview(one)[1:])
                assert isinstance(last, Goodbye)
                self.goodbye = last.reason
            case Kind.REPLY:
                reply = decode_reply(memoryview(one)[1:])
                if reply.request:
                    self.replies[reply.request] = reply
                else:
                    self.refusals.append(reply)
            case Kind.TAKEN:
                self.taken += decode_taken(one[1:])
            case Kind.DELIVERY:
                delivery = delivery_of(one)
                envelope = envelope_of(delivery.event)
                self.delivered += [(sid, envelope.publisher, envelope.number) for sid in delivery.sids]
        self._heard += framed(one)

    # -- what it asks for ------------------------------------------------------------------------------------

    def ask(self, kind: Any, *values: Any) -> int:
        """Make a request."""
        self.requests += 1
        self.say(frame(Kind.REQUEST, encode(kind(self.requests, *values))))
        return self.requests

    def subscribe(self, filter: Filter, durable: str = "") -> int:
        """Return the number of a new subscription."""
        self.sids += 1
        self.ask(SubscribeRequest, self.sids, filter.encode(), durable)
        return self.sids

    def unsubscribe(self, sid: int) -> None:
        """End a subscription."""
        self.ask(UnsubscribeRequest, sid)

    def advertise(self, filter: Filter) -> int:
        """Return the number of a new advertisement."""
        aid = self.requests + 1
        self.advertised[aid] = filter
        self.ask(AdvertiseRequest, aid, filter.encode())
        return aid

    def unadvertise(self, aid: int) -> None:
        """End an advertisement."""
        del self.advertised[aid]
        self.ask(UnadvertiseRequest, aid)

    def flush(self) -> int:
        """Return the request that is answered when all is in force."""
        return self.ask(FlushRequest)

    def publish(self, content: Any, *, confirmed: bool = False) -> int:
        """Return the number of an event."""
        self.published += 1
        family, data = encode_content(content)
        flags = KEPT if confirmed else 0
        one = encode_event(
            data, b"", family=family, publisher=self.number, number=self.published, flags=flags
        )
        self.say(framed(one))
        return self.published


class Cores:
    """Brokers, the streams between them, and what happens to them; see the module's text.

    `links` are those that there should be, with their priorities. `pauses` is how often a stream holds enough after
    something was written to it; `is_sliced` makes each slice of long work a step of its own.
    """

    def __init__(
        self,
        links: Mapping[Pair, int],
        *,
        seed: object = 0,
        names: Iterable[str] = (),
        strategy: str = "covering",
        step_s: float = 0.001,
        forget_after_s: float = 86_400.0,
        has_disks: bool = False,
        is_sliced: bool = False,
        reconnects: bool = False,
        pauses: float = 0.0,
        kind: type[BrokerCore] = BrokerCore,
        make_router: MakeRouter | None = None,
        plans: PlanState = BARE,
        connects: bool = True,
        **settings: Any,
    ) -> None:
        self.seed, self.random = seed, Random(f"{seed}")
        self.links = dict(links)
        self.now_s, self.step_s = 0.0, step_s
        self.has_disks, self.is_sliced, self.reconnects = has_disks, is_sliced, reconnects
        self.pauses, self.make_router = pauses, make_router
        self.clients: list[Client] = []
        self.streams: dict[Pair, tuple[End, End]] = {}
        self.machines: dict[str, Machine] = {}
        for name in sorted({*names, *(end for link in links for end in link)}):
            near = tuple(
                LinkConfig(b if a == name else a, priority=priority)
                for (a, b), priority in self.links.items()
                if name in (a, b)
            )
            config = BrokerConfig(
                name,
                links=near,
                strategy=strategy,
                lease_s=LEASE_S,
                forget_after_s=forget_after_s,
                **settings,
            )
            self.machines[name] = Machine(self, config, kind)
            self.machines[name].plans = plans
        for machine in self.machines.values():
            machine.start()
        if connects:
            for link in self.links:
                self.connect(*link)
            self.settle()

    @property
    def alive(self) -> dict[str, Machine]:
        """The brokers that run, hung or not."""
        return {name: machine for name, machine in self.machines.items() if machine.is_up}

    def core(self, name: str) -> BrokerCore:
        """Return the core of a broker."""
        return self.machines[name].core

    # -- links -----------------------------------------------------------------------------------------------

    def is_connected(self, a: str, b: str) -> bool:
        """Return whether there is a stream between two brokers, known to both or to one."""
        return pair(a, b) in self.streams

    def connect(self, a: str, b: str) -> None:
        """Let a link come up, if it can."""
        link = pair(a, b)
        dialling, listening = (self.machines[end] for end in link)
        if link in self.streams or any(not one.is_up or one.is_hung for one in (dialling, listening)):
            return
        near, far = dialling.add_end(), listening.add_end()
        near.other, far.other = far, near
        self.streams[link] = near, far
        pauses, self.pauses = self.pauses, 0.0
        listening.give(effects.Opened(far.number, dialling.name, dialling.name))
        dialling.give(effects.Opened(near.number, listening.name, listening.name, dialled=listening.name))
        self._arrive(far)  # hello
        self._arrive(near)  # welcome
        self.pauses = pauses

    def lose(self, a: str, b: str) -> None:
        """Lose a link with all that is under way on it; who hangs misses it later."""
        for end in self.streams.pop(pair(a, b), ()):
            assert isinstance(end.owner, Machine)
            end.owner.close(end, "the link is lost")

    def under_way(self, sender: str, receiver: str) -> deque[bytes | Ending]:
        """Return what is under way from one broker to another."""
        ends = self.streams[pair(sender, receiver)]
        return ends[receiver > sender].waiting

    def arrive(self, sender: str, receiver: str) -> None:
        """Let the next chunk arrive that is under way from one broker to another, which may hang otherwise."""
        machine = self.machines[receiver]
        is_hung, machine.is_hung = machine.is_hung, False
        self._arrive(self.streams[pair(sender, receiver)][receiver > sender])
        machine.is_hung = is_hung

    def _arrive(self, end: End) -> None:
        owner = end.owner
        assert isinstance(owner, Machine)
        one = end.waiting.popleft()
        if isinstance(one, bytes):
            owner.give(effects.Received(end.number, one))
        elif one is Ending.SHUT:
            owner.give(effects.HeardEof(end.number))
        else:
            owner.close(end, "")

    def _forget_streams(self) -> None:
        for link, ends in list(self.streams.items()):
            if not any(end.is_open for end in ends):
                del self.streams[link]
                if self.reconnects:
                    self.connect(*link)

    # -- faults ----------------------------------------------------------------------------------------------

    def hang(self, name: str) -> None:
        """Let a broker do nothing for a while."""
        self.machines[name].is_hung = True

    def go_on(self, name: str) -> None:
        """A broker that hung goes on."""
        self.machines[name].is_hung = False
        self.machines[name].go()

    def kill(self, name: str) -> None:
        """End a broker at once; what its disk has not committed is lost."""
        machine = self.machines[name]
        machine.is_up = False
        self.clients = [client for client in self.clients if client.machine is not machine]
        for link in [link for link in self.streams if name in link]:
            self.lose(*link)

    def start(self, name: str) -> None:
        """Start a broker again with what is on its disk."""
        self.machines[name].start()

    def heal(self) -> None:
        """Let all brokers run, all disks have room, all links come up, and all that was under way arrive."""
        for name, machine in self.machines.items():
            machine.disk.is_full = False
            if not machine.is_up:
                self.start(name)
            self.go_on(name)
        for link in self.links:
            self.connect(*link)
        for _ in range(3):
            self.settle()
            for machine in self.machines.values():
                machine.look_around()
        self.settle()

    # -- clients ---------------------------------------------------------------------------------------------

    def client(self, broker: str, name: str = "", permissions: Permissions | None = None) -> Client:
        """Return a new client of a broker."""
        client = Client(self.machines[broker], name, permissions)
        self.clients.append(client)
        return client

    def leave(self, client: Client) -> None:
        """Let a client close its connection."""
        self.clients.remove(client)
        client.leave()

    # -- time ------------------------------------------------------------------------------------------------

    def step(self, *, works: bool = True) -> bool:
        """Let one thing happen; return whether there was any. Without `works` it is no slice of long work."""
        can = list(self._possible(works))
        if not can:
            return False
        self.now_s += self.step_s
        self.random.choice(can)()
        self._forget_streams()
        return True

    def _possible(self, works: bool) -> Iterable[Callable[[], None]]:
        awake = [one for one in self.machines.values() if one.is_up and not one.is_hung]
        for ends in self.streams.values():
            for end in ends:
                if end.is_due and end.owner in awake:
                    yield lambda end=end: self._arrive(end)  # type: ignore[misc]
                if end.is_paused and end.owner in awake:
                    yield lambda end=end: self._let_write(end)  # type: ignore[misc]
        for machine in awake:
            if machine.log is not None and not machine.log.is_idle:
                yield machine.commit
            if works and machine.has_work:
                yield machine.work
            due_s = machine.core.neighbours.deadline()
            if due_s is not None and due_s <= self.now_s + SOON_S:
                yield lambda machine=machine, due_s=due_s: self._ring(machine, due_s)  # type: ignore[misc]

    def _let_write(self, end: End) -> None:
        end.is_paused = False
        assert isinstance(end.owner, Machine)
        end.owner.give(effects.Writable(end.number))

    def _ring(self, machine: Machine, due_s: float) -> None:
        self.now_s = max(self.now_s, due_s)
        machine.give(effects.Tick())

    def settle(self) -> None:
        """Let everything arrive."""
        for _ in range(MOST_STEPS):
            if not self.step():
                return
        raise AssertionError("it does not come to rest")

    def pass_time(self, span_s: float) -> None:
        """Let time pass, and all brokers look around."""
        self.now_s += span_s
        for machine in self.machines.values():
            if machine.is_up and not machine.is_hung:
                machine.look_around()
        self._forget_streams()

    def configure(self, name: str, **settings: Any) -> None:
        """Give a broker other settings."""
        machine = self.machines[name]
        machine.config = replace(machine.config, **settings)
        machine.give(
            effects.Configured(machine.config, Security(machine.config.security, machine.config.host))
        )
