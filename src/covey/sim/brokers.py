"""BrokerNetwork: whole brokers in the simulator, with their sessions, links, plans and disks.

    net = BrokerNetwork([("a", "b"), ("b", "c")], strategy="covering")
    net.advertise("a", "price >= 0")
    subscription = net.subscribe("c", "price > 10")
    net.settle()
    net.publish("a", {"price": 12})
    net.settle()
    net.deliveries                          [(subscription, {"price": 12})]

It is used as `Network` is, and drives the cores of live brokers (`broker.core`) instead of routers alone: everything is
said in bytes over connections, with greetings, heartbeats and leases. Links may be redundant, confirmed events go to
simulated disks, and brokers can hang, be killed, and come back with what is on their disks. The same topology, calls
and seed give the same run, byte by byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

import covey.strategies  # noqa: F401 (registers them)
from covey.broker import effects
from covey.broker.config import BrokerConfig, LinkConfig
from covey.core.content import check_content
from covey.core.event import content_of
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import ConfigError
from covey.routing.advertisements import NONE
from covey.routing.messages import Link
from covey.sim import delays
from covey.sim.disk import Transaction
from covey.sim.engine import Engine
from covey.sim.machine import Clock, Machine, Observer
from covey.sim.overlay import Pair, links_of
from covey.sim.streams import RESET, End, Streams
from covey.sim.wire_clients import Advertisement, Client, Delivery, Published, Subscription

LEASE_S: Final = 10.0
QUIET: Final = (
    0.16  # of a lease, without anything but heartbeats: rest. Brokers look for what is due each tenth.
)
LONGEST_S: Final = 3_600.0  # that a network may take to come to rest
CONNECT_S: Final = 10.0  # after which a broker that gets no answer takes a neighbour for unreachable
STREAM_BYTES: Final = 1 << 16  # that may be under way on a connection before its writer has to wait


class BrokerNetwork:
    """See the module's text.

    topology        links between broker names, or one of `covey.sim.topology`; there may be cycles
    strategy        a strategy's name, or one for each broker
    options         settings of the strategy
    durable         whether brokers have disks, for confirmed events, durable subscriptions and plans
    delay, delay_ms a model of the delays of connections, by name; see `delays`
    priorities      of links: of several ways, the one with lower numbers is used; 1 unless it is given
    settings        other settings of every broker, as `BrokerConfig` has them
    drift           how much a broker's clock may be too fast or too slow: 0.01 is 1 %
    turn_ms         how long a broker gathers what arrives, and handles it as one input; 0: each read is one
    observer        hears all that goes into the brokers' cores and comes out of them
    """

    def __init__(
        self,
        topology: Any,
        strategy: str | Mapping[str, str] = "covering",
        *,
        advertisements: bool = True,
        reduce_advertisements: str = NONE,
        seed: int = 1,
        options: Mapping[str, Any] | None = None,
        durable: bool = False,
        delay: str = "constant",
        delay_ms: float = 1.0,
        priorities: Mapping[Pair, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        stream_bytes: int = STREAM_BYTES,
        drift: float = 0.0,
        turn_ms: float = 0.0,
        observer: Observer | None = None,
    ) -> None:
        self.links, self.brokers = links_of(topology)
        self.seed, self.stream_bytes = seed, stream_bytes
        self.engine = Engine()
        self.deliveries: list[tuple[Subscription, Any]] = []
        self.on_delivery: Callable[[Delivery], None] | None = None
        self.clients: dict[str, Client] = {}
        self._random = Random(f"brokers {seed}")
        self._delay = delays.build(delay, delay_ms, self._random)
        self._streams = Streams(self.engine, self._delay, stream_bytes, self._note_activity)
        self._down: set[frozenset[str]] = set()
        self._silent: set[frozenset[str]] = set()
        self._one_way: set[tuple[str, str]] = set()  # whose bytes do not arrive, and where
        self._active_s = 0.0
        self._last_client = 0
        given = dict(settings or {})
        self._quiet_s = float(given.setdefault("lease_s", LEASE_S)) * QUIET
        ranks = {frozenset(pair): priority for pair, priority in (priorities or {}).items()}
        self.machines: dict[str, Machine] = {}
        for name in self.brokers:
            config = BrokerConfig(
                name,
                links=tuple(
                    # One end of each link dials.
                    LinkConfig(other, other, 7400, rank) if name < other else LinkConfig(other, priority=rank)
                    for other in self.neighbours(name)
                    for rank in (ranks.get(frozenset((name, other)), 1),)
                ),
                strategy=strategy if isinstance(strategy, str) else strategy[name],
                advertisements=advertisements,
                reduce_advertisements=reduce_advertisements,
                options=dict(options or {}),
                data_dir=name if durable else "",
                **given,
            )
            randomness = Random(f"{name} {seed}")
            clock = Clock(1.0 + randomness.uniform(-drift, drift)) if drift else Clock()
            self.machines[name] = Machine(
                config,
                self.engine,
                self._streams,
                randomness,
                self._disk_s,
                self._dial,
                observer,
                clock,
                turn_ms / 1e3,
            )
        for machine in self.machines.values():
            machine.start()
        self.settle()

    def neighbours(self, broker: str) -> list[str]:
        """Return the brokers to which a broker has links."""
        return sorted({other for link in self.links if broker in link for other in link if other != broker})

    def _disk_s(self) -> float:
        return self._random.uniform(0.0002, 0.002)

    # -- clients ---------------------------------------------------------------------------------------------

    def client(self, broker: str, name: str = "", *, token: str = "", another: bool = False) -> Client:
        """Return the client of that name, or a new one, at the broker; ConfigError if it is at another one.

        `another` makes a new one that calls itself by a name that a client has already.
        """
        self.machine(broker)
        if not name:
            self._last_client += 1
            name = f"client {self._last_client}"
        key = name
        while another and key in self.clients:
            key += "'"
        known = self.clients.get(key)
        if known is None or known.is_over:
            known = Client(
                name, broker, self.engine, self._streams, self._dial_client, self._delivered, token
            )
            self.clients[key] = known
            known.connect()
        elif known.broker != broker:
            raise ConfigError(f"the client {name!r:.40} is at the broker {known.broker}")
        return known

    def _producer(self, broker: str, client: str | None) -> Client:
        return self.client(broker, client or f"producer at {broker}")

    def advertise(self, broker: str, filter: Filter | str, *, client: str | None = None) -> Advertisement:
        """Announce, for a producer at the broker, that it may publish what the filter matches."""
        who = self._producer(broker, client)
        made = Advertisement(parse(filter) if isinstance(filter, str) else filter, who)
        who.advertise(made)
        return made

    def unadvertise(self, advertisement: Advertisement) -> None:
        """Revoke an advertisement."""
        advertisement.client.unadvertise(advertisement)

    def subscribe(
        self, broker: str, filter: Filter | str, *, client: str | None = None, durable: str = ""
    ) -> Subscription:
        """Subscribe, for a consumer at the broker; each subscription is a client of its own unless one is named.

        A durable subscription has a name, and belongs to the client's name.
        """
        who = self.client(broker, client or "")
        made = Subscription(parse(filter) if isinstance(filter, str) else filter, who, durable)
        who.subscribe(made)
        return made

    def unsubscribe(self, subscription: Subscription) -> None:
        """Cancel a subscription; what a durable one has stored is deleted."""
        subscription.client.unsubscribe(subscription)

    def publish(
        self,
        broker: str,
        event: Any,
        payload: bytes = b"",
        *,
        client: str | None = None,
        confirm: bool = False,
    ) -> None:
        """Publish an event, for a producer at the broker; `confirm` as clients of live brokers do.

        EventError, naming the attribute, for what a network does not carry.
        """
        content = content_of(event)
        check_content(content)
        self._producer(broker, client).publish(Published(content, payload, confirm))

    def _delivered(self, delivery: Delivery) -> None:
        self.deliveries.append((delivery.subscription, delivery.content))
        if self.on_delivery is not None:
            self.on_delivery(delivery)

    def clear_deliveries(self) -> None:
        """Forget what was delivered."""
        self.deliveries.clear()

    # -- plans -----------------------------------------------------------------------------------------------

    def install(self, broker: str, plan: bytes) -> None:
        """Have a broker install a plan, its file, in the whole network; b"" is none. PlanError if it cannot."""
        self.machine(broker).do(effects.Install(plan))

    def roll_back(self, broker: str) -> None:
        """Have a broker take back the plan that was installed there last. PlanError if it cannot."""
        self.machine(broker).do(effects.RollBack())

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
        """Run until nothing but heartbeats is under way, and all links and clients are connected that can be.

        What waits for a broker that hangs or is down, or for a client that does not read, is not waited for.
        """
        until_s = self.engine.now_s + LONGEST_S
        self._note_activity()
        while self.engine.now_s < until_s:
            self.engine.run(self.engine.now_s + self._quiet_s / 4)
            is_quiet = self.engine.now_s - self._active_s >= self._quiet_s and self._streams.is_at_rest
            if is_quiet and self._is_connected():
                return
        raise AssertionError(f"the network does not come to rest within {LONGEST_S:g} s")

    def _note_activity(self) -> None:
        self._active_s = self.engine.now_s

    def _is_connected(self) -> bool:
        for a, b in self.links:
            here, there = self.machines[a], self.machines[b]
            can_be = _is_serving(here) and _is_serving(there) and not self._is_harmed(a, b)
            if can_be and not (here.core.neighbours.is_open(b) and there.core.neighbours.is_open(a)):
                return False
        return all(
            client.is_greeted and not client.is_waiting
            for client in self.clients.values()
            if not client.is_over and client.is_reading and _is_serving(self.machines[client.broker])
        )

    # -- connections -----------------------------------------------------------------------------------------

    def _dial(self, machine: Machine, link: LinkConfig) -> None:
        self.engine.at(self.engine.now_s + self._delay(), self._reach, machine, machine.life, link.name)

    def _reach(self, machine: Machine, life: int, other: str) -> None:
        if not machine.is_up or machine.life != life:
            return
        there, link = self.machines[other], frozenset((machine.name, other))
        if self._is_harmed(machine.name, other) and link not in self._down:
            self.engine.at(self.engine.now_s + CONNECT_S, self._not_reached, machine, life, other)
            return
        if not there.is_listening or link in self._down:
            machine.dial_failed(other, "nobody listens")
            return
        mine, theirs = self._streams.join(machine, machine.connect(), there, there.connect())
        there.opened(theirs, machine.name)
        machine.opened(mine, other, dialled=other)

    def _not_reached(self, machine: Machine, life: int, other: str) -> None:
        if machine.life == life:
            machine.dial_failed(other, "nobody answers")

    def _dial_client(self, client: Client) -> End | None:
        there = self.machines[client.broker]
        if not there.is_listening:
            return None
        mine, theirs = self._streams.join(client, client.connection(), there, there.connect())
        there.opened(theirs, client.name)
        return mine

    # -- faults ----------------------------------------------------------------------------------------------

    def _link(self, a: str, b: str) -> frozenset[str]:
        link = frozenset((a, b))
        if link not in map(frozenset, self.links):
            raise ConfigError(f"there is no link between {a!r:.40} and {b!r:.40}")
        return link

    def link_down(self, a: str, b: str) -> None:
        """Cut the link between two brokers: its connection is reset, and cannot be opened again."""
        self._down.add(self._link(a, b))
        for end in self._ends(a, b):
            self._streams.cut(end, RESET)

    def link_silent(self, a: str, b: str) -> None:
        """Let nothing arrive over the link between two brokers any more; neither is told."""
        self._silent.add(self._link(a, b))
        for end in self._ends(a, b):
            self._streams.silence(end)

    def link_one_way(self, a: str, b: str) -> None:
        """Let nothing arrive any more at the broker b of what a sends to it; neither is told."""
        self._link(a, b)
        self._one_way.add((a, b))
        for end in self._ends(a, b):
            self._streams.deafen(end.other)

    def link_stall(self, a: str, b: str, for_s: float) -> None:
        """Let what two brokers send to each other on their connection arrive after so many seconds."""
        self._link(a, b)
        for end in self._ends(a, b):
            self._streams.stall(end, for_s)
            self._streams.stall(end.other, for_s)

    def link_half_close(self, a: str, b: str) -> None:
        """Have something on the way end what a sends to b on their connection; only b hears of it."""
        self._link(a, b)
        for end in self._ends(a, b):
            self._streams.half_close(end)

    def link_reset(self, a: str, b: str) -> None:
        """Reset the connection between two brokers; they may open another one."""
        self._link(a, b)
        for end in self._ends(a, b):
            self._streams.cut(end, RESET)

    def link_up(self, a: str, b: str) -> None:
        """Restore the link between two brokers; a connection that fell silent is reset."""
        link = self._link(a, b)
        self._down.discard(link)
        if self._is_harmed(a, b):
            self._silent.discard(link)
            self._one_way -= {(a, b), (b, a)}
            self.link_reset(a, b)

    def _is_harmed(self, a: str, b: str) -> bool:
        return frozenset((a, b)) in self._down | self._silent or bool(self._one_way & {(a, b), (b, a)})

    def is_linked(self, a: str, b: str) -> bool:
        """Return whether two brokers run and have a link that nothing has harmed."""
        here, there = self.machines[a], self.machines[b]
        return (
            here.is_reading
            and there.is_reading
            and not self._is_harmed(a, b)
            and here.core.neighbours.is_open(b)
            and there.core.neighbours.is_open(a)
        )

    def client_silent(self, client: Client) -> None:
        """Let nothing arrive any more on a client's present connection; neither end is told."""
        if client.end is not None:
            self._streams.silence(client.end)

    def client_stall(self, client: Client, for_s: float) -> None:
        """Let what comes on a client's present connection, in both directions, come after so many seconds."""
        if client.end is not None:
            self._streams.stall(client.end, for_s)
            self._streams.stall(client.end.other, for_s)

    def client_half_close(self, client: Client) -> None:
        """Have something on the way end what a client sends on its present connection; only its broker hears of it."""
        if client.end is not None:
            self._streams.half_close(client.end)

    def _ends(self, a: str, b: str) -> list[End]:
        there = self.machines[b]
        return [end for end in self.machines[a].ends.values() if end.other.owner is there]

    def hang(self, broker: str) -> None:
        """Let a broker do nothing, while what comes for it waits."""
        self.machine(broker).hang()

    def go_on(self, broker: str) -> None:
        """Let a broker that hung go on."""
        self.machine(broker).go_on()

    def kill(self, broker: str, after: int = 0) -> None:
        """End a broker at once, or after so many more effects of its core, in the middle of a step.

        What is not on its disk is lost, and everyone connected notices.
        """
        self.machine(broker).kill(after)

    def drain(self, broker: str, within_s: float = 10.0, spread_s: float = 0.0) -> None:
        """End a broker in order: what waits is sent first, within a time."""
        self.machine(broker).do(effects.Drain(within_s, spread_s))

    def restart(self, broker: str) -> None:
        """Start a broker that has ended again, with what is on its disk."""
        machine = self.machine(broker)
        if not machine.is_up:
            machine.start()

    def power_cut(self, broker: str) -> list[Transaction]:
        """Take a broker's power, and with it what its disk has not written in truth, which is returned."""
        machine = self.machine(broker)
        machine.kill()
        machine.clock.reboot(self.engine.now_s, self._random.uniform(0.0, 1e6))
        return machine.disk.power_cut()

    # -- what is known ---------------------------------------------------------------------------------------

    def machine(self, broker: str) -> Machine:
        """Return a broker; ConfigError if there is none of that name."""
        if broker not in self.machines:
            raise ConfigError(f"there is no broker {broker!r:.40}")
        return self.machines[broker]

    @property
    def subscriptions(self) -> list[Subscription]:
        """The subscriptions that are not cancelled."""
        return [one for client in self.clients.values() for one in client.subscriptions]

    @property
    def tables(self) -> dict[str, list[tuple[Link, Filter]]]:
        """The remote entries of each broker that is up, as pairs of link and filter."""
        return {
            name: machine.core.router.remote_entries()
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
        return total

    @property
    def logs(self) -> Mapping[str, Sequence[effects.Log]]:
        """What each broker has logged."""
        return {name: machine.log for name, machine in self.machines.items()}


def _is_serving(machine: Machine) -> bool:
    return machine.is_listening and not machine.is_hung
