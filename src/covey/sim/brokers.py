"""BrokerNetwork: whole brokers in the simulator, with their sessions, links, plans and disks.

    net = BrokerNetwork([("a", "b"), ("b", "c")], strategy="covering")
    net.advertise("a", "price >= 0")
    subscription = net.subscribe("c", "price > 10")
    net.settle()
    net.publish("a", {"price": 12})
    net.settle()
    net.deliveries                          [(subscription, {"price": 12})]

It is used as `Network` is, and drives the cores of live brokers (`broker.core`) instead of routers alone: everything is
said in bytes over connections, with greetings, heartbeats and leases; confirmed events go to simulated disks; brokers can
hang, be killed, and come back with what was on disk. The same topology, calls and seed give the same run, byte by byte.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import covey.strategies  # noqa: F401 (registers them)
from covey.broker import effects
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import BrokerCore
from covey.broker.effects import Effect, Ending, Input, Instant
from covey.broker.security import Security
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.protocol.connection import Closing, Connection
from covey.protocol.control import BARE, PlanState
from covey.protocol.events import (
    ENVELOPE,
    KEPT,
    decode_content,
    decode_taken,
    delivery_of,
    encode_acknowledge,
    encode_content,
    encode_event,
    envelope_of,
    family_of,
)
from covey.protocol.frames import VERSION, Kind, frame
from covey.protocol.outbox import Bounds
from covey.routing.messages import Link
from covey.sim.disk import Disk, DiskLog
from covey.sim.engine import Engine
from covey.sim.overlay import Overlay

WALL_S: Final = 1.8e9  # what a clock on the wall shows when a simulation begins
QUIET_S: Final = 0.6  # without anything but heartbeats, after which a network is at rest
LONGEST_S: Final = 3_600.0  # that it may take to come to rest

_HEARTBEATS: Final = (frame(Kind.PING, b""), frame(Kind.PONG, b""))


@dataclass(eq=False)
class End:
    """One end of a stream: what arrives here, in order."""

    owner: Machine | Client
    number: int
    other: End = field(init=False)
    is_open: bool = True
    is_held: bool = False
    arrives_s: float = 0.0  # when the last thing arrives that is under way to this end
    waiting: deque[bytes] = field(default_factory=deque)  # while it is held


class Machine:
    """One broker: its core while it runs, and the disk that outlives it."""

    def __init__(self, net: BrokerNetwork, config: BrokerConfig, security: Security) -> None:
        self.net, self.config, self.security = net, config, security
        self.disk = Disk()
        self.plans: PlanState = BARE
        self.core: BrokerCore
        self.is_up = self.is_hung = self.is_listening = False
        self.ends: dict[int, End] = {}
        self.log: list[tuple[float, int, str, dict[str, object]]] = []
        self.life = 0
        self._disk_log: DiskLog | None = None
        self._inputs: deque[Input] = deque()
        self._is_stepping = False
        self._timer_s: float | None = None
        self._connections = 0

    def start(self) -> None:
        """Begin a life with what is on disk."""
        net = self.net
        self.life += 1
        self.is_up, self.is_listening, self.is_hung = True, True, False
        self.ends, self._inputs, self._timer_s = {}, deque(), None
        seed = f"{net.seed} {self.config.name} {self.life}"
        randomness = Random(seed)
        self.core = BrokerCore(
            self.config,
            self.security,
            self.plans,
            incarnation=randomness.getrandbits(63),
            randomness=randomness,
            now=self.now(),
        )
        if self.config.data_dir:
            self._disk_log = DiskLog(self.disk)
            self._carry_out(self.core.recovered(self._disk_log.open(), self.now()))
        self._carry_out(self.core.start(self.now()))

    def now(self) -> Instant:
        """Return what its clocks show."""
        return Instant(self.net.engine.now_s, WALL_S + self.net.engine.now_s)

    def give(self, given: Input, life: int) -> None:
        """Give the core an input, unless it was for an earlier life; while it hangs, the input waits."""
        if not self.is_up or life != self.life:
            return
        self._inputs.append(given)
        self.go()

    def go(self) -> None:
        """Take what waits."""
        if self._is_stepping or self.is_hung:
            return
        self._is_stepping = True
        try:
            while self._inputs and self.is_up:
                self._carry_out(self.core.step(self._inputs.popleft(), self.now()))
        finally:
            self._is_stepping = False

    def _carry_out(self, some: list[Effect]) -> None:
        for effect in some:
            if self.is_up:
                _CARRY_OUT[type(effect)](self, effect)
        self._set_timer()

    def _set_timer(self) -> None:
        deadline_s = self.core.deadline() if self.is_up else None
        if deadline_s is None:
            return
        due_s = max(deadline_s, self.net.engine.now_s)
        if self._timer_s is None or due_s < self._timer_s:
            self._timer_s = due_s
            self.net.engine.at(due_s, self._tick, due_s, self.life)

    def _tick(self, due_s: float, life: int) -> None:
        if self._timer_s == due_s and life == self.life:
            self._timer_s = None
            if not any(isinstance(one, effects.Tick) for one in self._inputs):
                self.give(effects.Tick(), life)

    # -- effects ---------------------------------------------------------------------------------------------

    def _write(self, effect: effects.Write) -> None:
        end = self.ends.get(effect.connection)
        if end is not None:
            self.net.carry(end, b"".join(effect.buffers))

    def _hold(self, effect: effects.Hold) -> None:
        if effect.connection in self.ends:
            self.ends[effect.connection].is_held = True

    def _resume(self, effect: effects.Resume) -> None:
        end = self.ends.get(effect.connection)
        if end is not None and end.is_held:
            end.is_held = False
            while end.waiting:
                self.give(effects.Received(end.number, end.waiting.popleft()), self.life)

    def _end(self, effect: effects.End) -> None:
        end = self.ends.get(effect.connection)
        if end is not None:
            self.net.end(end, effect.how)

    def _dial(self, effect: effects.Dial) -> None:
        self.net.dial(self, effect.link)

    def _verify(self, effect: effects.Verify) -> None:
        raise AssertionError("simulated clients show no passwords")

    def _commit(self, effect: effects.Commit) -> None:
        assert self._disk_log is not None
        self._disk_log.submit(effect.batch)
        self.net.engine.at(self.net.engine.now_s + self.net.disk_s(), self._answer, self._disk_log, self.life)
        self.net.note_activity()

    def _fetch(self, effect: effects.Fetch) -> None:
        assert self._disk_log is not None
        self._disk_log.fetch(effect)
        self.net.engine.at(self.net.engine.now_s + self.net.disk_s(), self._answer, self._disk_log, self.life)

    def _answer(self, log: DiskLog, life: int) -> None:
        if life == self.life and self.is_up:
            answers = log.answers()
            if answers:
                self.give(effects.Answered(tuple(answers)), life)

    def _keep_plans(self, effect: effects.KeepPlans) -> None:
        self.plans = effect.state

    def _write_samples(self, effect: effects.WriteSamples) -> None:
        self.give(effects.SamplesWritten(), self.life)

    def _stop_listening(self, effect: effects.StopListening) -> None:
        self.is_listening = False

    def _stop(self, effect: effects.Stop) -> None:
        self.is_up = False

    def _log_event(self, effect: effects.Log) -> None:
        self.log.append((self.net.engine.now_s, effect.level, effect.event, effect.fields))

    def next_connection(self) -> int:
        """Return a number that no connection of it has had."""
        self._connections += 1
        return self._connections


_CARRY_OUT: Final[dict[type, Callable[[Machine, Any], None]]] = {
    effects.Write: Machine._write,
    effects.Hold: Machine._hold,
    effects.Resume: Machine._resume,
    effects.End: Machine._end,
    effects.Dial: Machine._dial,
    effects.Verify: Machine._verify,
    effects.Commit: Machine._commit,
    effects.Fetch: Machine._fetch,
    effects.KeepPlans: Machine._keep_plans,
    effects.WriteSamples: Machine._write_samples,
    effects.StopListening: Machine._stop_listening,
    effects.Stop: Machine._stop,
    effects.Log: Machine._log_event,
}


@dataclass(eq=False)
class Subscription:
    """A consumer's interest; a durable one has a name."""

    filter: Filter
    client: Client
    durable: str = ""
    sid: int = 0  # on the present connection
    refused: str = ""  # why it is not granted

    @property
    def broker(self) -> str:
        """The broker where it is."""
        return self.client.broker

    def __repr__(self) -> str:
        return f"<subscription at {self.broker}: {self.filter}>"


@dataclass(eq=False)
class Advertisement:
    """A producer's announcement."""

    filter: Filter
    client: Client
    aid: int = 0

    @property
    def broker(self) -> str:
        """The broker where it is."""
        return self.client.broker


class Client:
    """A client of one broker, which says again what it wants when it is connected again."""

    def __init__(self, net: BrokerNetwork, name: str, broker: str) -> None:
        self.net, self.name, self.broker = net, name, broker
        self.subscriptions: list[Subscription] = []
        self.advertisements: list[Advertisement] = []
        self.unconfirmed: dict[int, Any] = {}  # events by number, on the present connection
        self.confirmed = self.refused = 0
        self.acknowledges = True
        self.is_over = False
        self.number = 0  # that it writes on its events, once it has been greeted
        self._connection: Connection | None = None
        self._end: End | None = None
        self._closing = Closing.NOTHING
        self._requests: dict[int, Callable[[str], None]] = {}
        self._behind: list[Callable[[], None]] = []  # until it is greeted
        self._last_request = self._last_id = self._last_event = 0
        self._timer_s: float | None = None

    # -- what it is told to do -------------------------------------------------------------------------------

    def connect(self) -> None:
        """Dial its broker, again and again."""
        if self.is_over or self._end is not None:
            return
        end = self.net.dial_client(self)
        if end is None:
            self.net.engine.at(self.net.engine.now_s + AGAIN_S, self.connect)
            return
        self._end, self._closing = end, Closing.NOTHING
        self._connection = Connection(Bounds(), self.net.lease_s, self.net.engine.now_s)
        hello = Hello(VERSION, "client", self.name)
        self._connection.send(Kind.HELLO, encode(hello))
        self._flush()

    def disconnect(self, *, for_good: bool = True) -> None:
        """End the connection; unless it is for good, it comes back."""
        self.is_over = for_good
        if self._end is not None:
            end, self._end, self._connection = self._end, None, None
            self.net.end(end, Ending.CLOSE)
        if not for_good:
            self.net.engine.at(self.net.engine.now_s + AGAIN_S, self.connect)

    def ask(self, make: Callable[[int], Any], answered: Callable[[str], None] = lambda error: None) -> None:
        """Make a request once it can be made; `answered` hears the error, or nothing."""

        def say() -> None:
            self._last_request += 1
            self._requests[self._last_request] = answered
            self._send(Kind.REQUEST, encode(make(self._last_request)))

        self._when_greeted(say)

    def _when_greeted(self, say: Callable[[], None]) -> None:
        if self.number:
            say()
        else:
            self._behind.append(say)

    def next_id(self) -> int:
        """Return a number that no subscription or advertisement of it had on this connection."""
        self._last_id += 1
        return self._last_id

    def publish(self, content: Any, payload: bytes, *, confirm: bool) -> None:
        """Publish an event; one that is to be confirmed is said again until it is."""

        def say() -> None:
            self._last_event += 1
            if confirm:
                self.unconfirmed[self._last_event] = (content, payload)
            family, packed = encode_content(content)
            one = encode_event(
                packed,
                payload,
                family=family,
                publisher=self.number,
                number=self._last_event,
                flags=KEPT if confirm else 0,
            )
            self._send(Kind.EVENT, one[1:])

        self._when_greeted(say)

    def subscribe(self, subscription: Subscription) -> None:
        """Ask for what a subscription wants."""

        def make(request: int) -> SubscribeRequest:
            subscription.sid = self.next_id()
            return SubscribeRequest(
                request, subscription.sid, subscription.filter.encode(), subscription.durable
            )

        def answered(error: str) -> None:
            subscription.refused = error

        self.ask(make, answered)

    def advertise(self, advertisement: Advertisement) -> None:
        """Announce what it may publish."""

        def make(request: int) -> AdvertiseRequest:
            advertisement.aid = self.next_id()
            return AdvertiseRequest(request, advertisement.aid, advertisement.filter.encode())

        self.ask(make)

    # -- what it hears ---------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Hear what has come."""
        connection = self._connection
        if connection is not None:
            for one in connection.receive(data, self.net.engine.now_s):
                self._hear(one)
            self._flush()

    def _hear(self, one: bytes) -> None:
        kind = one[0]
        if kind == Kind.WELCOME:
            self._welcome(one)
        elif kind == Kind.REPLY:
            reply = decode_reply(memoryview(one)[1:])
            if reply.event:
                self.refused += 1
                self.unconfirmed.pop(reply.event, None)
            else:
                self._requests.pop(reply.request, lambda error: None)(reply.error)
        elif kind == Kind.TAKEN:
            for _, number in decode_taken(one[1:]):
                if self.unconfirmed.pop(number, None) is not None:
                    self.confirmed += 1
        elif kind == Kind.DELIVERY:
            self._delivered(one)

    def _welcome(self, one: bytes) -> None:
        said = decode_life(memoryview(one)[1:])
        assert isinstance(said, Welcome) and self._connection is not None
        self.number = said.number
        self._connection.greeted(MAX_LINK_FRAME, said.lease_s, self.net.engine.now_s)
        again, self.unconfirmed = list(self.unconfirmed.values()), {}
        behind, self._behind = self._behind, []
        if self._last_request:  # it was here before
            for advertisement in self.advertisements:
                self.advertise(advertisement)
            for subscription in self.subscriptions:
                self.subscribe(subscription)
        for content, payload in again:
            self.publish(content, payload, confirm=True)
        for say in behind:
            say()

    def _delivered(self, one: bytes) -> None:
        delivery = delivery_of(one)
        envelope = envelope_of(delivery.event)
        last = ENVELOPE.size + envelope.content_length
        content = decode_content(family_of(envelope), delivery.event[ENVELOPE.size : last])
        for subscription in self.subscriptions:
            if subscription.sid in delivery.sids:
                self.net.delivered(subscription, content, delivery.event[last + envelope.notes_length :])
        if delivery.position is not None and self.acknowledges:
            body = encode_acknowledge(delivery.sids[0], [delivery.position], cumulative=False)
            self._send(Kind.ACKNOWLEDGE, body)

    def lost(self, reason: str) -> None:
        """Its connection is gone: it comes back."""
        if self._end is not None:
            self._end = self._connection = None
            self.number = 0
            self._requests.clear()
            if not self.is_over:
                self.net.engine.at(self.net.engine.now_s + AGAIN_S, self.connect)

    # -- bytes and time --------------------------------------------------------------------------------------

    def _send(self, kind: int, body: bytes) -> None:
        if self._connection is not None:
            self._connection.send(kind, body, barrier=True)
            self._flush()

    def _flush(self) -> None:
        connection, end = self._connection, self._end
        if connection is None or end is None:
            return
        while chunks := connection.to_send(self.net.engine.now_s):
            self.net.carry(end, b"".join(chunks))
        if connection.closing > self._closing:
            self._closing = connection.closing
            self.net.end(end, _ENDINGS[connection.closing])
        due_s = connection.next_timeout()
        if due_s is not None and (self._timer_s is None or due_s < self._timer_s):
            self._timer_s = due_s
            self.net.engine.at(due_s, self._on_timer, due_s)

    def _on_timer(self, due_s: float) -> None:
        if self._timer_s == due_s:
            self._timer_s = None
            if self._connection is not None:
                self._connection.on_timeout(self.net.engine.now_s)
                self._flush()


class BrokerNetwork:
    """See the module's text.

    topology        links between broker names, or one of `covey.sim.topology`
    strategy        a strategy's name, or one for each broker
    options         settings of the strategy
    durable         whether brokers have a store, for confirmed events and durable subscriptions
    delay, delay_ms a model of the links' delays by name; see `delays`
    settings        other settings of every broker, as `BrokerConfig` has them
    """

    def __init__(
        self,
        topology: Any,
        strategy: str | Mapping[str, str] = "covering",
        *,
        advertisements: bool = True,
        seed: int = 1,
        options: Mapping[str, Any] | None = None,
        durable: bool = False,
        delay: str = "constant",
        delay_ms: float = 1.0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.overlay = Overlay(topology, strategy, None)
        self.seed = seed
        self.engine = Engine()
        self.deliveries: list[tuple[Subscription, Any]] = []
        self.on_delivery: Callable[[Subscription, Any, bytes], None] | None = None
        self.clients: dict[str, Client] = {}
        self._random = Random(f"brokers {seed}")
        self._delay = delays.build(delay, delay_ms, self._random)
        self._down: set[frozenset[str]] = set()
        self._active_s = 0.0
        self._clients = 0
        known = {"lease_s": 10.0, **(settings or {})}
        self.lease_s = float(known["lease_s"])
        self.machines: dict[str, Machine] = {}
        for name in self.overlay.brokers:
            links = tuple(
                # One end of each link dials: with both, every start would be a race.
                LinkConfig(other, host=other if name < other else "", port=1 if name < other else 0)
                for other in sorted(self.overlay.neighbours[name])
            )
            config = BrokerConfig(
                name,
                strategy=self.overlay.strategy_of[name],
                advertisements=advertisements,
                options=dict(options or {}),
                links=links,
                data_dir=name if durable else "",
                **known,
            )
            self.machines[name] = Machine(self, config, Security(config.security, config.host))
        for machine in self.machines.values():
            machine.start()
        self.settle()

    # -- clients ---------------------------------------------------------------------------------------------

    def client(self, broker: str, name: str = "") -> Client:
        """Return the client of that name, or a new one, at the broker."""
        self.machine(broker)
        if not name:
            self._clients += 1
            name = f"client {self._clients}"
        known = self.clients.get(name)
        if known is None:
            known = self.clients[name] = Client(self, name, broker)
            known.connect()
        elif known.broker != broker:
            raise ConfigError(f"the client {name!r:.40} is at the broker {known.broker}")
        return known

    def advertise(self, broker: str, filter: Filter | str, *, client: str | None = None) -> Advertisement:
        """Announce, for a producer at the broker, that it may publish what the filter matches."""
        who = self.client(broker, client or f"producer at {broker}")
        made = Advertisement(parse(filter) if isinstance(filter, str) else filter, who)
        who.advertisements.append(made)
        who.advertise(made)
        return made

    def unadvertise(self, advertisement: Advertisement) -> None:
        """Revoke an advertisement."""
        who = advertisement.client
        who.advertisements.remove(advertisement)
        who.ask(lambda request: UnadvertiseRequest(request, advertisement.aid))

    def subscribe(
        self, broker: str, filter: Filter | str, *, client: str | None = None, durable: str = ""
    ) -> Subscription:
        """Subscribe, for a consumer at the broker; each subscription is a client of its own unless one is named."""
        who = self.client(broker, client or "")
        made = Subscription(parse(filter) if isinstance(filter, str) else filter, who, durable)
        who.subscriptions.append(made)
        who.subscribe(made)
        return made

    def unsubscribe(self, subscription: Subscription) -> None:
        """Cancel a subscription; what a durable one has stored is deleted."""
        who = subscription.client
        who.subscriptions.remove(subscription)
        who.ask(lambda request: UnsubscribeRequest(request, subscription.sid, bool(subscription.durable)))

    def publish(
        self,
        broker: str,
        event: Any,
        payload: bytes = b"",
        *,
        client: str | None = None,
        confirm: bool = False,
    ) -> None:
        """Publish an event, for a producer at the broker; `confirm` as clients of live brokers do."""
        check_content(content_of(event))
        self.client(broker, client or f"producer at {broker}").publish(event, payload, confirm=confirm)

    def delivered(self, subscription: Subscription, content: Any, payload: bytes) -> None:
        """Note that an event has arrived."""
        self.deliveries.append((subscription, content))
        if self.on_delivery is not None:
            self.on_delivery(subscription, content, payload)

    # -- plans -----------------------------------------------------------------------------------------------

    def install(self, broker: str, plan: bytes) -> None:
        """Have a broker install a plan, its file, in the whole network; b"" is none."""
        machine = self.machine(broker)
        machine.give(effects.Install(plan), machine.life)

    def roll_back(self, broker: str) -> None:
        """Have a broker take back the plan that it has installed last."""
        machine = self.machine(broker)
        machine.give(effects.RollBack(), machine.life)

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """The time in the simulation."""
        return self.engine.now_s

    def run(self, until_s: float) -> None:
        """Run until that time."""
        self.engine.run(until_s)

    def at(self, time_s: float, call: Callable[..., object], *arguments: Any) -> None:
        """Make a call at that time."""
        self.engine.at(time_s, call, *arguments)

    def settle(self) -> None:
        """Run until nothing but heartbeats is under way, and every link that can be there is open."""
        until_s = self.engine.now_s + LONGEST_S
        self.note_activity()
        while self.engine.now_s < until_s:
            self.engine.run(self.engine.now_s + QUIET_S / 2)
            if self.engine.now_s - self._active_s >= QUIET_S and self._are_links_open():
                return
        raise AssertionError(f"the network does not come to rest within {LONGEST_S:g} s")

    def _are_links_open(self) -> bool:
        for a, b in self.overlay.links:
            here, there = self.machines[a], self.machines[b]
            can_be = here.is_up and there.is_up and frozenset((a, b)) not in self._down
            if can_be and not (here.is_hung or there.is_hung):
                if not (here.core.neighbours.is_open(b) and there.core.neighbours.is_open(a)):
                    return False
        return True

    def note_activity(self) -> None:
        """Note that something has happened that is no heartbeat."""
        self._active_s = self.engine.now_s

    def disk_s(self) -> float:
        """Return how long a disk takes."""
        return self._random.uniform(0.0002, 0.002)

    # -- streams ---------------------------------------------------------------------------------------------

    def carry(self, end: End, data: bytes) -> None:
        """Have what one end writes arrive at the other."""
        if data not in _HEARTBEATS:
            self.note_activity()
        other = end.other
        other.arrives_s = max(other.arrives_s, self.engine.now_s + self._delay())
        self.engine.at(other.arrives_s, self._arrive, other, data)

    def _arrive(self, end: End, data: bytes) -> None:
        if not end.is_open:
            return
        if isinstance(end.owner, Client):
            end.owner.receive(data)
        elif end.is_held:
            end.waiting.append(data)
        else:
            end.owner.give(effects.Received(end.number, data), end.owner.life)

    def end(self, end: End, how: Ending) -> None:
        """End a stream as one end asks for; the other hears of it behind what was written before."""
        other = end.other
        other.arrives_s = max(other.arrives_s, self.engine.now_s + self._delay())
        if how is Ending.SHUT:
            self.engine.at(other.arrives_s, self._hear_eof, other)
            return
        self._drop(end, "")
        self.engine.at(
            other.arrives_s, self._drop, other, "" if how is Ending.CLOSE else "the connection was reset"
        )

    def _hear_eof(self, end: End) -> None:
        if end.is_open:
            self.end(end, Ending.CLOSE)

    def _drop(self, end: End, reason: str) -> None:
        if end.is_open:
            end.is_open = False
            self.note_activity()
            owner = end.owner
            if isinstance(owner, Client):
                owner.lost(reason)
            else:
                owner.ends.pop(end.number, None)
                owner.give(effects.Closed(end.number, reason), owner.life)

    def dial(self, machine: Machine, link: LinkConfig) -> None:
        """Dial a neighbour for a broker."""
        name, life = machine.config.name, machine.life
        self.engine.at(self.engine.now_s + self._delay(), self._answer, machine, life, name, link.name)

    def _answer(self, machine: Machine, life: int, name: str, other: str) -> None:
        if not machine.is_up or machine.life != life:
            return
        there = self.machines[other]
        if not there.is_up or not there.is_listening or frozenset((name, other)) in self._down:
            machine.give(effects.DialFailed(other, "nobody listens"), life)
            return
        mine, theirs = self._join(machine, there)
        there.give(effects.Opened(theirs.number, name, name), there.life)
        machine.give(effects.Opened(mine.number, other, other, dialled=other), life)

    def dial_client(self, client: Client) -> End | None:
        """Return a client's end of a new connection to its broker; None if the broker does not listen."""
        there = self.machines[client.broker]
        if not there.is_up or not there.is_listening:
            return None
        mine, theirs = self._join(client, there)
        there.give(effects.Opened(theirs.number, client.name, client.name), there.life)
        return mine

    def _join(self, here: Machine | Client, there: Machine) -> tuple[End, End]:
        ends = []
        for owner in (here, there):
            number = owner.next_connection() if isinstance(owner, Machine) else 0
            end = End(owner, number)
            ends.append(end)
            if isinstance(owner, Machine):
                owner.ends[number] = end
        ends[0].other, ends[1].other = ends[1], ends[0]
        return ends[0], ends[1]

    # -- faults ----------------------------------------------------------------------------------------------

    def _link(self, a: str, b: str) -> frozenset[str]:
        link = frozenset((a, b))
        if not any(link == frozenset(pair) for pair in self.overlay.links):
            raise ConfigError(f"there is no link between {a!r:.40} and {b!r:.40}")
        return link

    def link_down(self, a: str, b: str) -> None:
        """Cut the link between two brokers: its connection is reset, and cannot be opened again."""
        self._down.add(self._link(a, b))
        here, there = self.machines[a], self.machines[b]
        for end in list(here.ends.values()):
            if end.other.owner is there:
                other = end.other
                self._drop(end, "the link was cut")
                self._drop(other, "the link was cut")

    def link_up(self, a: str, b: str) -> None:
        """Restore the link between two brokers."""
        self._down.discard(self._link(a, b))

    def hang(self, broker: str) -> None:
        """Let a broker do nothing, while what comes for it waits."""
        self.machine(broker).is_hung = True

    def go_on(self, broker: str) -> None:
        """Let a broker that hung go on."""
        machine = self.machine(broker)
        machine.is_hung = False
        machine.go()

    def kill(self, broker: str) -> None:
        """End a broker at once; what is not on its disk is lost, and everyone connected notices."""
        machine = self.machine(broker)
        machine.is_up = machine.is_hung = False
        for end in list(machine.ends.values()):
            end.is_open = False
            self.engine.at(
                self.engine.now_s + self._delay(), self._drop, end.other, "the connection was reset"
            )
        machine.ends.clear()

    def restart(self, broker: str) -> None:
        """Start a broker again that was killed, with what is on its disk."""
        machine = self.machine(broker)
        if not machine.is_up:
            machine.start()

    # -- what is known ---------------------------------------------------------------------------------------

    def machine(self, broker: str) -> Machine:
        """Return a broker; ConfigError if there is none of that name."""
        if broker not in self.machines:
            raise ConfigError(f"there is no broker {broker!r:.40}")
        return self.machines[broker]

    @property
    def brokers(self) -> Sequence[str]:
        """The names of all brokers."""
        return self.overlay.brokers

    @property
    def subscriptions(self) -> list[Subscription]:
        """The subscriptions that are not cancelled."""
        return [one for client in self.clients.values() for one in client.subscriptions]

    @property
    def tables(self) -> dict[str, list[tuple[Link, Filter]]]:
        """The remote entries of each broker that is up, as pairs of link and filter."""
        return {
            name: machine.core.epochs.router.remote_entries()
            for name, machine in self.machines.items()
            if machine.is_up
        }

    @property
    def counters(self) -> Counter[str]:
        """What brokers and their routers have counted, summed over those that are up."""
        total: Counter[str] = Counter()
        for machine in self.machines.values():
            if machine.is_up:
                total.update(machine.core.counted())
        total["control_messages"] = sum(n for name, n in total.items() if name.startswith("control_in_"))
        return total

    def clear_deliveries(self) -> None:
        """Forget what was delivered."""
        self.deliveries.clear()
