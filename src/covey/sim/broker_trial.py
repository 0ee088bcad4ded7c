"""A trial of whole brokers: a script is run on a simulated network, and every promise is checked.

    outcome = BrokerTrial.of_seed(17).run()
    outcome.findings                     what was broken; nothing, if all is well
    shrink(outcome.trial)                a smaller script that breaks something too

The clients of a trial tell the checker (`promises`) what they do and see. At a *rest* all that is broken is mended, and
the network comes to rest; then nothing confirmed may be missing, links must be back, and queues empty. At the end every
publisher publishes again and everybody must get it, a plan must go in and out, and when everyone has left nobody may
know anything.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from covey.broker import effects
from covey.broker.config import Queue, QueueLimits
from covey.broker.durable.delivery import KIND as OUTBOX
from covey.broker.durable.log import Keep, Owner, Renew
from covey.broker.durable.mark import EVERY_S
from covey.broker.durable.queues import OVERHEAD, PER_ENTRY
from covey.broker.effects import Effect, Input
from covey.broker.plans import GONE_S
from covey.broker.security import NeighboursConfig, SecurityConfig, TokenConfig, hash_token
from covey.core.families import decode, parse, parse_content
from covey.core.filter import Filter
from covey.errors import CoveyError
from covey.planning.aggregation.installed import PlannedBlock, PlannedMerging
from covey.planning.plan import Plan, PlannedTree
from covey.protocol.control import OURS, Versions
from covey.protocol.events import (
    ENVELOPE,
    Name,
    decode_content,
    decode_taken,
    envelope_of,
    family_of,
    name_of,
)
from covey.protocol.frames import LENGTH, OLDEST, Kind
from covey.sim import broker_checkers
from covey.sim.broker_script import FILTERS, SETTINGS, Actor, Script, Step, draw
from covey.sim.brokers import STREAM_BYTES, BrokerNetwork
from covey.sim.disk import Transaction
from covey.sim.machine import Machine, Observer
from covey.sim.promises import Event, Promises, Rights, Wanted
from covey.sim.wire_clients import Advertisement, Client, Delivery, Published, Subscription
from covey.strategies.aggregation import block_of

QUEUE: Final = "queue"  # the name of every reader's durable subscription
FINAL_EVENTS: Final = 2  # of each publisher at the end, of each kind
CROWDED_BYTES: Final = 400  # that a connection holds where queues are short, so that they are filled
# How long a broker with a neighbour takes at most to tell it how far its log has come: about a second, and its way.
TOLD_S: Final = 2.5
RELEASES: Final = {"before": Versions(OLDEST, OLDEST), "today": OURS}  # by the versions that they speak
LONGEST_S: Final = 40.0  # for which a link may seem to be well that is not


@dataclass(frozen=True)
class Outcome:
    """What a trial found, and how much happened in it."""

    trial: BrokerTrial
    findings: tuple[str, ...]
    published: int
    confirmed: int
    delivered: int
    faults: Mapping[str, int]  # how many of each kind


@dataclass(frozen=True)
class BrokerTrial:
    """A script that is run on simulated brokers; `is_drawn` says that it is that of its seed."""

    script: Script
    is_drawn: bool = False

    @classmethod
    def of_seed(cls, seed: int) -> BrokerTrial:
        """Return the trial that a seed draws."""
        return cls(draw(seed), is_drawn=True)

    @property
    def command(self) -> str:
        """The command that runs exactly this trial, if it is that of a seed."""
        return f"covey trial --brokers --seed {self.script.seed}"

    def run(self, observer: Observer | None = None) -> Outcome:
        """Run it, and return what was found; the observer hears all that goes into brokers and comes out of them."""
        return _Run(self, observer).run()


def shrink(trial: BrokerTrial, budget: int = 400) -> BrokerTrial:
    """Return a trial with less in it that breaks the same promise first, after so many runs at most.

    The same trial always shrinks to the same one. A trial that breaks nothing is returned as it is.
    """
    return _Shrinking(trial, budget).shrunk()


class _Shrinking:
    """Takes things away from a script as long as it breaks the same promise."""

    def __init__(self, trial: BrokerTrial, budget: int) -> None:
        self._trial, self._left = trial, budget
        self._script = trial.script
        self._broken = self._promise(trial.script)

    def shrunk(self) -> BrokerTrial:
        if not self._broken:
            return self._trial
        before: Script | None = None
        while self._script != before and self._left > 0:
            before = self._script
            self._take_steps()
            self._take_actors()
            self._take_links()
            self._take_settings()
        return BrokerTrial(self._script)

    def _promise(self, script: Script) -> str:
        """Return which promise a script breaks first; "" if none."""
        self._left -= 1
        findings = BrokerTrial(script).run().findings
        return findings[0].partition(":")[0] if findings else ""

    def _take(self, fewer: Script) -> bool:
        """Go on with a smaller script, if it breaks the promise too."""
        if fewer == self._script or self._left <= 0 or self._promise(fewer) != self._broken:
            return False
        self._script = fewer
        return True

    def _take_steps(self) -> None:
        size = max(1, len(self._script.steps) // 2)
        while size:
            first = 0
            while first < len(self._script.steps) and self._left > 0:
                steps = self._script.steps
                if not self._take(self._script.without([*steps[:first], *steps[first + size :]])):
                    first += size
            size //= 2

    def _take_actors(self) -> None:
        for actor in self._script.actors:
            self._take(
                replace(self._script, actors=tuple(one for one in self._script.actors if one != actor))
            )

    def _take_links(self) -> None:
        needed = {actor.broker for actor in self._script.actors}
        for link in self._script.links:
            fewer = replace(self._script, links=tuple(one for one in self._script.links if one != link))
            if needed <= set(fewer.brokers) and _is_connected(fewer):
                self._take(fewer)

    def _take_settings(self) -> None:
        plain = Script(self._script.seed)
        for name in (*SETTINGS, "final"):
            self._take(replace(self._script, **{name: getattr(plain, name)}))


def _is_connected(script: Script) -> bool:
    reached, more = set(script.brokers[:1]), True
    while more:
        near = {name for link in script.links if reached & set(link) for name in link}
        more = not near <= reached
        reached |= near
    return reached == set(script.brokers)


class _Topology(NamedTuple):
    links: tuple[tuple[str, str], ...]
    brokers: tuple[str, ...]


class _Witnessed(NamedTuple):
    """A disk has lost its end, of which only neighbours know: they tell the broker in its next life."""

    broker: str
    life: int
    neighbours: Mapping[str, int]  # with their lives: in others they do not know it


class _Jumped(NamedTuple):
    """A clock on a wall was set while its broker ran."""

    life: int
    ahead_s: float  # how far it was ahead before
    lines: int  # of the log, before


# -- clients -----------------------------------------------------------------------------------------------------


class _Client:
    """A client of a trial, with the connections that it has had under its name."""

    def __init__(self, actor: Actor, client: Client) -> None:
        self.actor, self.client = actor, client
        self.others: list[Client] = []  # connections from which another one has taken over
        self.elsewhere: list[Client] = []  # that read, at the end, what it left at other brokers
        self.advertisement: Advertisement | None = None
        self.is_ready = True  # all that it has announced is in force

    @property
    def all(self) -> list[Client]:
        return [self.client, *self.others, *self.elsewhere]


class _Run:
    """One run of a script."""

    def __init__(self, trial: BrokerTrial, observer: Observer | None = None) -> None:
        script = self.script = trial.script
        self.trial = trial
        self.observer = observer
        self.random = Random(f"trial of brokers {script.seed}")
        self.promises = Promises()
        settings: dict[str, Any] = {
            "durable": QueueLimits(window=script.window, again_after_s=script.again_after_s),
            "max_store_bytes": script.store_bytes,
        }
        if script.queue_events:
            settings["client_bounds"] = Queue(events=script.queue_events, policy=script.policy)
        self.users = sorted(actor.name for actor in script.actors) if script.users else []
        if self.users:
            settings["security"] = self._security("")
        self.net = BrokerNetwork(
            _Topology(script.links, tuple(script.brokers)),
            script.strategy,
            advertisements=script.advertisements,
            reduce_advertisements=script.reduce_advertisements,
            seed=script.seed,
            durable=True,
            delay="exponential",
            delay_ms=script.delay_ms,
            drift=script.drift,
            turn_ms=script.turn_ms,
            settings=settings,
            stream_bytes=CROWDED_BYTES if script.queue_events else STREAM_BYTES,
            observer=self._observe,
        )
        self.net.on_delivery = self._delivered
        self.of_published: dict[Published, Event] = {}
        self.wanted: dict[Subscription, Wanted] = {}
        self.durable: dict[tuple[str, str], Wanted] = {}  # by broker and client
        self.last_s: dict[tuple[Client, int], float] = {}  # after which nothing may come on a connection
        self.clients: dict[str, _Client] = {}
        self.calm = True  # nothing fails
        self.installer = ""  # the last broker that has installed something since the last rest
        self.delivered = self.disturbances = 0
        self.faults: Counter[str] = Counter()
        self.step = ""  # the name of the one that is done
        self.unacknowledged: dict[tuple[Client, int], set[int]] = {}  # positions, by connection
        self.acknowledged: dict[Wanted, set[int]] = {}  # on any connection
        self.filters: dict[
            tuple[str, str], list[Filter]
        ] = {}  # that durable subscriptions have had, by place
        # Where durable subscriptions have ended or have another filter, as far as clients know that have no answer, or
        # were refused: what is on disk is in force.
        self.unheard: set[tuple[str, str]] = set()
        self.witnessed: list[_Witnessed] = []
        self.lied_s: dict[str, float] = {}  # when a broker ran last before its disk began to lie
        # Whose marks were lost with the power: the life of a broker, and up to when the older mark is current.
        self.unmarked: dict[str, tuple[int, float]] = {}
        self.jumped: dict[str, _Jumped] = {}
        self.touched_s = dict.fromkeys(
            self.net.brokers, -inf
        )  # when a step had to do with a broker, or its links
        self.heard: dict[str, int] = dict.fromkeys(self.net.brokers, 0)  # lines of logs that were read
        self.kept: dict[str, dict[Name, float]] = {}  # confirmed events, by broker: when each was to be kept
        self.numbers: dict[Name, int] = {}  # of events, by name
        self.damaged_s: dict[
            tuple[str, object], float
        ] = {}  # when brokers have said that, by an event's name
        self.cuts: list[tuple[str, str, list[Wanted]]] = []  # permissions that brokers have not heard of yet
        self.harmed_s = -inf  # when a step had to do with anything but clients
        # Events that were damaged while their brokers were about to say that they had them.
        self.unclear: set[tuple[str, int]] = set()
        self.plans = _plans(script)
        self.actions: dict[str, Callable[..., None]] = {
            name.removeprefix("_do_").replace("_", "-"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_do_")
        }

    # -- the run ---------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Do what the script says, until something is found."""
        try:
            self._begin()
            for step in self.script.steps:
                self._do(step)
                if self.promises.findings:
                    break
            else:
                self._end()
        except Exception as error:  # noqa: BLE001 (a broker that raises anything breaks every promise)
            self._find(f"crash: {type(error).__name__}: {error}")
        confirmed = sum(one.is_confirmed for one in self.of_published)
        self.faults["torn write"] = sum(machine.torn for machine in self.net.machines.values())
        return Outcome(
            self.trial,
            tuple(self.promises.findings),
            len(self.of_published),
            confirmed,
            self.delivered,
            dict(sorted((+self.faults).items())),
        )

    def _find(self, text: str) -> None:
        self.promises.findings.append(text)

    def _begin(self) -> None:
        for actor in self.script.actors:
            made = self.clients[actor.name] = _Client(actor, self._connect(actor.name, actor.broker))
            filter = _filter(self.random.choice(["n>=0", "n>=0", "x>=2&x<=6", "x<>5"]))
            if actor.role == "reader":
                self._subscribe(made, filter, QUEUE)
            elif actor.role == "listener":
                self._subscribe(made, filter)
            elif self.random.random() < 0.5:
                self._do_advertise(actor.name, "n>=0")
        self.net.settle()
        self._in_force()

    def _do(self, step: Step) -> None:
        self.net.run(self.net.now_s + step.wait_s)
        self.promises.findings += broker_checkers.memory(self.net)
        action = self.actions.get(step.name)
        if action is None:
            raise CoveyError(f"there is no step {step.name!r:.40}")
        self.step = step.name
        action(*step.words)
        if step.name not in _HARMLESS:
            self.harmed_s = self.net.now_s + (LONGEST_S if step.name in ("stall", "half-close") else 0.0)
        for broker in self.touched_s.keys() & set(step.words):
            # A connection that stalls or is half closed may seem to be well for some time.
            lasting_s = LONGEST_S if step.name in ("stall", "half-close") else 0.0
            self.touched_s[broker] = max(self.touched_s[broker], self.net.now_s + lasting_s)

    def _connect(self, name: str, broker: str, *, another: bool = False) -> Client:
        client = self.net.client(broker, name, token=f"token of {name}", another=another)
        client.on_answer, client.on_send = self._answered, self._sent
        return client

    # -- what clients tell the checker -----------------------------------------------------------------------

    def _user(self, name: str) -> str:
        return name if self.users else ""

    def _subscribe(self, one: _Client, filter: Filter, durable: str = "") -> None:
        client = one.client
        subscription = Subscription(filter, client, durable)
        if durable:
            self._wants_durable(client, filter)
        else:
            self.wanted[subscription] = self._asked(client, filter)
        client.subscribe(subscription)

    def _asked(self, client: Client, filter: Filter, *, is_durable: bool = False) -> Wanted:
        kind = QUEUE if is_durable else str(filter)
        title = f"{client.name} at {client.broker} ({kind})"
        return self.promises.asked(
            title, filter, client.broker, self._user(client.name), is_durable=is_durable
        )

    def _wants_durable(self, client: Client, filter: Filter) -> Wanted:
        """Return the durable subscription of a client at its broker, as the checker knows it; a new one if it ended."""
        place = client.broker, client.name
        known = self.durable.get(place)
        had = self.filters.setdefault(place, [])
        if known is None or known.is_over:
            known = self.durable[place] = self._asked(client, filter, is_durable=True)
            if self.promises.is_rolled_back or place in self.unheard:
                known.before += had  # an older one of this name may be back, with what it had stored
        elif known.filter != filter:
            self.promises.changed(known, filter)
        had.append(filter)
        return known

    def _wanted(self, subscription: Subscription) -> Wanted | None:
        if subscription.durable:
            return self.durable.get((subscription.client.broker, subscription.client.name))
        return self.wanted.get(subscription)

    def _answered(self, subscription: Subscription) -> None:
        wanted = self._wanted(subscription)
        client = subscription.client
        if wanted is not None and subscription.refused:
            self._refused(subscription, wanted)
        if wanted is None or subscription.refused or subscription not in client.subscriptions:
            return
        if wanted.is_over and not self.promises.may_have(wanted):
            return  # it was granted before it was forbidden, and the answer was under way
        if client.is_over and not subscription.durable:
            return  # it has left, and asks again when it comes
        if wanted.is_over:  # it was forbidden, and is allowed again
            if subscription.durable:
                wanted = self._wants_durable(subscription.client, subscription.filter)
            else:
                wanted = self.wanted[subscription] = self._asked(subscription.client, subscription.filter)
        if subscription.durable and subscription.filter != wanted.filter:
            self._attached_again(subscription, wanted)
        else:
            self.promises.granted(wanted)
        if subscription.durable:
            self.unheard.discard((client.broker, client.name))
            self._takes_over(subscription)

    def _refused(self, subscription: Subscription, wanted: Wanted) -> None:
        """A durable subscription keeps the filter of before, if its client may not have another one."""
        is_other = wanted.filter == subscription.filter and wanted.before
        if subscription.durable and is_other and not self.promises.may_have(wanted):
            self.promises.changed(wanted, wanted.before[-1])

    def _attached_again(self, subscription: Subscription, wanted: Wanted) -> None:
        """A connection that has not heard that another one took over has come back, with the filter that it had."""
        is_late = any(
            one.durable and one.is_granted and one.granted_s >= subscription.asked_s
            for client in self._connections(subscription.client.name)
            for one in client.subscriptions
            if client.broker == subscription.client.broker and one is not subscription
        )
        if is_late:  # which of them was first at the broker is not known, nor which filter it has
            self.promises.changed(wanted, wanted.filter)
        else:
            self.promises.changed(wanted, subscription.filter)
            self.promises.granted(wanted)

    def _takes_over(self, subscription: Subscription) -> None:
        """Nothing more may go to a connection that had a durable subscription before another one asked for it."""
        for client in self._connections(subscription.client.name):
            for one in client.subscriptions if client.broker == subscription.client.broker else ():
                if one.is_granted and one.granted_s < subscription.asked_s and client.end is not None:
                    # What is under way may arrive, and what a client has not read.
                    last_s = client.end.last_s if client.is_reading else inf
                    self.last_s[client, client.connection()] = last_s

    def _connections(self, name: str) -> list[Client]:
        return self.clients[name].all if name in self.clients else []

    def _delivered(self, delivery: Delivery) -> None:
        self.delivered += 1
        wanted = self._wanted(delivery.subscription)
        if wanted is None:
            return
        client = delivery.subscription.client
        last_s = inf
        if delivery.subscription.durable:
            last_s = self.last_s.get((client, delivery.connection), inf)
        if delivery.position is not None:
            self._note_window(wanted, delivery, delivery.position)
        number = delivery.content.get("n", -1) if isinstance(delivery.content, dict) else -1
        self.promises.delivered(
            wanted,
            number,
            delivery.content,
            delivery.payload,
            delivery.name,
            self.net.now_s,
            last_s,
            delivery.position,
        )

    def _note_window(self, wanted: Wanted, delivery: Delivery, position: int) -> None:
        """See how many deliveries a connection has not acknowledged, nor any other connection before it."""
        client = delivery.subscription.client
        if client.acknowledges:
            self.acknowledged.setdefault(wanted, set()).add(position)
        else:
            waiting = self.unacknowledged.setdefault((client, delivery.connection), set())
            waiting.add(position)
            count = len(waiting - self.acknowledged.get(wanted, set()) - self._said_lost(client.broker))
            self.promises.check_window(wanted, count, self.script.window)

    def _said_lost(self, broker: str) -> set[object]:
        """Return the positions of events that a broker has given up by name: nobody can acknowledge them any longer."""
        return {line.fields["position"] for line in self.net.logs[broker] if line.event == "event lost"}

    def _sent(self, published: Published, broker: str) -> None:
        event = self.of_published[published]
        self.promises.sent(event, broker, self._user(event.publisher))

    def _note_answers(self) -> None:
        """Tell the checker what publishers were told of their events."""
        for published, event in self.of_published.items():
            event.confirmed = published.is_confirmed
            event.refused = published.refused is not None

    def _disturb(self) -> None:
        self.calm = False
        self.disturbances += 1
        self.faults[self.step] += 1
        self.promises.disturbed()

    def _in_force(self) -> None:
        """The network is at rest, and nothing fails: what was granted is in force."""
        for one in {id(one): one for one in (*self.wanted.values(), *self.durable.values())}.values():
            self.promises.flushed(one)
        for client in self.clients.values():
            client.is_ready = True
        self.calm, self.installer = True, ""
        self.touched_s = dict.fromkeys(self.net.brokers, self.net.now_s)

    # -- what brokers say -------------------------------------------------------------------------------------

    def _observe(self, broker: str, one: Input | Effect) -> None:
        """Hear what goes into a broker and comes out of it: what it keeps, and what it says that it has."""
        if self.observer is not None:
            self.observer(broker, one)
        match one:
            case effects.Commit(batch):
                for keep in batch.operations:
                    if isinstance(keep, Keep) and keep.seen:
                        name = keep.publisher, keep.number
                        self.numbers[name] = _number(keep.frame)
                        self.kept.setdefault(broker, {})[name] = self.net.now_s
            case effects.Write(_, buffers):
                for name in _taken(buffers):
                    number = self.numbers.get(name, -1)
                    if (broker, number) not in self.unclear:
                        self.promises.taken(broker, number)
            case effects.Log(_, "event damaged", fields):
                self.damaged_s[broker, fields["id"]] = self.net.now_s
            case effects.Log(_, "event lost", fields):
                for name in [name for name in self.numbers if name_of(*name) == fields["id"]]:
                    self.promises.given_up(broker, name)
                    self._check_given_up(broker, name)

    def _check_given_up(self, broker: str, name: Name) -> None:
        """A broker has given up an event: nobody may have a copy, as far as brokers could ask each other."""
        began_s = self.damaged_s.get((broker, name_of(*name)), -inf)
        machines = self.net.machines
        if (
            began_s < self.harmed_s + LONGEST_S
            or any(machine.versions is not OURS or not machine.is_reading for machine in machines.values())
            or not all(self.net.is_linked(*link) for link in self.script.links)
        ):
            return
        for holder, machine in machines.items():
            was_there = self.kept.get(holder, {}).get(name, inf) < began_s - 1.0
            queues = machine.disk.queues.values()
            if was_there and any(
                each.name == name and not each.is_damaged for queue in queues for each in queue.values()
            ):
                self.promises.given_up_in_vain(broker, self.numbers[name], holder)

    # -- steps: what clients do ------------------------------------------------------------------------------

    def _do_publish(self, name: str, count: str, way: str) -> None:
        one = self.clients.get(name)
        if one is None:
            return
        for _ in range(int(count)):
            number = len(self.of_published) + 1
            content = {"x": self.random.randrange(10), "n": number}
            payload = self.random.randbytes(self.random.choice([0, 3, 40]))
            event = Event(number, name, content, payload, way == "confirmed")
            self.promises.published(event)
            published = Published(content, payload, event.confirm)
            self.of_published[published] = event
            one.client.publish(published)
            if self.calm and one.is_ready and event.brokers and not self.script.queue_events:
                self.promises.owed(event)

    def _do_subscribe(self, name: str, filter: str) -> None:
        if name in self.clients and len(self.clients[name].client.subscriptions) < 5:
            self._subscribe(self.clients[name], _filter(filter))

    def _do_unsubscribe(self, name: str) -> None:
        one = self.clients.get(name)
        granted = [] if one is None else [each for each in one.client.subscriptions if each.is_granted]
        if one is not None and granted:
            subscription = granted[0]
            wanted = self.wanted.pop(subscription, None)
            if wanted is not None:
                self.promises.ended(wanted)
            one.client.unsubscribe(subscription)

    def _do_advertise(self, name: str, filter: str) -> None:
        one = self.clients.get(name)
        if one is not None and len(one.client.advertisements) < 3:
            one.is_ready = False
            one.advertisement = Advertisement(_filter(filter), one.client)
            one.client.advertise(one.advertisement)

    def _do_unadvertise(self, name: str) -> None:
        one = self.clients.get(name)
        if one is not None and one.client.advertisements:
            one.is_ready = False
            one.client.unadvertise(one.client.advertisements[0])

    def _do_flush(self, name: str) -> None:
        one = self.clients.get(name)
        if one is None:
            return
        asked = [self._wanted(each) for each in one.client.subscriptions if each.is_granted]
        was_calm, before = self.calm, self.disturbances

        def flushed() -> None:
            if was_calm and self.calm and before == self.disturbances:
                for wanted in asked:
                    if wanted is not None and not wanted.is_over:
                        self.promises.flushed(wanted)

        one.client.flush(flushed)

    def _do_drop(self, name: str) -> None:
        if name in self.clients:
            self._disturb()
            self.clients[name].client.drop()

    def _do_mute(self, name: str) -> None:
        if name in self.clients:
            self._disturb()
            self.net.client_silent(self.clients[name].client)

    def _do_stall_client(self, name: str, seconds: str) -> None:
        if name in self.clients:
            self._disturb()
            self.net.client_stall(self.clients[name].client, float(seconds))

    def _do_half_close_client(self, name: str) -> None:
        if name in self.clients:
            self._disturb()
            self.net.client_half_close(self.clients[name].client)

    def _do_deaf(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].client.acknowledges = False

    def _do_hear(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].client.acknowledges = True

    def _do_stop_reading(self, name: str) -> None:
        if name in self.clients:
            self._disturb()
            self.clients[name].client.stop_reading()

    def _do_read(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].client.read_again()

    def _do_takeover(self, name: str) -> None:
        one = self.clients.get(name)
        if one is None or one.client.is_over or not one.client.subscriptions:
            return
        self._disturb()
        old = one.client
        one.others.append(old)
        one.client = self._connect(name, old.broker, another=True)
        self._subscribe(one, old.subscriptions[0].filter, QUEUE)

    def _do_refilter(self, name: str, filter: str) -> None:
        one = self.clients.get(name)
        if one is None or one.client.is_over or not one.client.subscriptions:
            return
        self._disturb()
        old = one.client
        old.disconnect()
        one.others.append(old)
        one.client = self._connect(name, old.broker, another=True)
        self.unheard.add((old.broker, name))  # if it is refused, the filter of before is in force
        self._subscribe(one, _filter(filter), QUEUE)

    def _do_leave(self, name: str) -> None:
        if name in self.clients:
            self._disturb()
            self._leave(self.clients[name].client)

    def _leave(self, client: Client) -> None:
        for subscription in client.subscriptions:
            if subscription in self.wanted:
                self.promises.ended(self.wanted[subscription])
        client.disconnect()

    def _do_come(self, name: str) -> None:
        if name in self.clients:
            self._come(self.clients[name].client)

    def _come(self, client: Client) -> None:
        if client.is_over and client.end is None:
            for subscription in client.subscriptions:
                if subscription in self.wanted:
                    self.wanted[subscription] = self._asked(client, subscription.filter)
            client.come_back()

    def _do_move(self, name: str, broker: str) -> None:
        one = self.clients.get(name)
        if one is None or one.client.broker == broker:
            return
        self._disturb()
        client = one.client
        for subscription in client.subscriptions:
            if subscription in self.wanted:
                self.promises.ended(self.wanted[subscription])
        if client.is_forgetting:
            self.unheard.add((client.broker, name))
        client.move(broker)
        for subscription in client.subscriptions:
            if subscription.durable:
                self._wants_durable(client, subscription.filter)
            else:
                self.wanted[subscription] = self._asked(client, subscription.filter)

    def _do_forget(self, name: str) -> None:
        one = self.clients.get(name)
        if one is None or one.client.is_over or not one.client.subscriptions:
            return
        subscription = one.client.subscriptions[0]
        wanted = self._wanted(subscription)
        if not subscription.is_granted or wanted is None or not self._holds(one):
            return
        self.promises.ended(wanted)
        one.client.unsubscribe(subscription)
        self._disturb()

    def _holds(self, one: _Client) -> bool:
        """Return whether a reader's present connection has its durable subscription for certain, and no other one."""
        return not any(each.is_taken_over for each in one.client.subscriptions) and all(
            other.is_over or all(each.is_taken_over for each in other.subscriptions) for other in one.others
        )

    # -- steps: what fails -----------------------------------------------------------------------------------

    def _machine(self, broker: str) -> Machine | None:
        return self.net.machines.get(broker)

    def _do_kill(self, broker: str, effects: str) -> None:
        machine = self._machine(broker)
        if machine is not None and machine.is_up:
            self._disturb()
            self.net.kill(broker, int(effects))

    def _do_restart(self, broker: str) -> None:
        if self._machine(broker) is not None:
            self.net.restart(broker)

    def _do_exchange(self, broker: str, release: str) -> None:
        """Another release takes a broker's place: the one before, as far as others can tell, or today's."""
        machine = self._machine(broker)
        if machine is not None and machine.versions != RELEASES[release]:
            self._disturb()
            machine.kill()
            machine.versions = RELEASES[release]
            self.net.restart(broker)

    def _do_tear(self, broker: str, batch: str) -> None:
        machine = self._machine(broker)
        if machine is not None and machine.is_up:
            self._disturb()
            machine.tear(int(batch))

    def _do_power(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is None:
            return
        witnesses = self._witnesses(broker)
        if machine.disk.is_lying:
            self.unmarked[broker] = machine.life, self.lied_s[broker]
        self._disturb()
        # The mark is lost too. Neighbours know, if they were told and live on.
        self._forgets(machine, self.net.power_cut(broker), self.net.now_s - TOLD_S, witnesses)

    def _witnesses(self, broker: str) -> list[str]:
        """Return the neighbours that must know how far a broker's log had come a while ago."""
        since_s = self.net.now_s - TOLD_S
        if self.touched_s[broker] > since_s:
            return []
        return [
            other
            for other in self.net.neighbours(broker)
            if self.touched_s[other] <= since_s
            and self.net.is_linked(broker, other)
            and self.net.machine(broker).tells_of_its_store(self.net.machine(other))
        ]

    def _do_truncate(self, broker: str, count: str) -> None:
        machine = self._machine(broker)
        if machine is None:
            return
        self._disturb()
        machine.kill()
        # The mark knows of all but the last second; but one that a disk lies about may be gone with the power. One that
        # is gone is written again when the broker starts.
        life, marked_s = self.unmarked.get(broker, (0, inf))
        ran_s = min(machine.ran_s, marked_s) if life == machine.life else machine.ran_s
        before_s = -inf if machine.disk.is_lying else ran_s - EVERY_S
        self._forgets(machine, machine.disk.truncate(int(count)), before_s)

    def _do_lie(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None and not machine.disk.is_lying:
            self.faults[self.step] += 1
            is_running = machine.is_up and not machine.is_hung
            self.lied_s[broker] = self.net.now_s if is_running else machine.ran_s
            machine.disk.lie()

    def _forgets(
        self,
        machine: Machine,
        lost: Sequence[Transaction],
        before_s: float,
        witnesses: Sequence[str] | None = None,
    ) -> None:
        """A disk has lost the end of its journal. Of what was written before a time, somebody knows.

        That is the broker's own mark, or neighbours that are its only witnesses.
        """
        if not lost:
            return
        self._read_logs()  # what was said before was said of something else
        broker = machine.name
        self.promises.rolled_back()
        for place, wanted in self.durable.items():
            if place[0] == broker:
                wanted.before += self.filters[place]
        for at_s, operations in lost:
            is_known = at_s < before_s and witnesses != []
            events = [_number(one.frame) for one in operations if isinstance(one, Keep | Renew)]
            for one in operations:
                if isinstance(one, Owner) and (broker, one.client) in self.durable:
                    wanted = self.durable[broker, one.client]
                    self.promises.changed(wanted, wanted.filter)
            self.promises.destroyed(broker, events, can_be_known=is_known)
            if is_known and (events or witnesses is None):
                self.promises.lost_end(broker)
                if witnesses is not None:
                    lives = {name: self.net.machines[name].life for name in witnesses}
                    self.witnessed.append(_Witnessed(broker, machine.life, lives))

    def _do_flip(self, broker: str, which: str) -> None:
        machine = self._machine(broker)
        if machine is None:
            return
        disk = machine.disk
        waiting = {position: one.frame for queue in disk.queues.values() for position, one in queue.items()}
        if waiting:
            position = sorted(waiting)[int(which) % len(waiting)]
            number = _number(waiting[position])
            self._read_logs()
            self.promises.destroyed(broker, [number])
            if machine.is_up and (
                machine.core.durable.pending
                or any(each.connection.outbox for each in machine.core.peers.values())
            ):
                self.unclear.add((broker, number))
            else:
                self.unclear.discard((broker, number))
            disk.damage(position)
            self.faults[self.step] += 1

    def _do_full(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None:
            self._disturb()
            machine.disk.is_full = True

    def _do_room(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None:
            machine.disk.is_full = False

    def _do_fail(self, broker: str, batches: str) -> None:
        machine = self._machine(broker)
        if machine is not None:
            self._disturb()
            machine.disk.failing = int(batches)

    def _do_unreadable(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None:
            self._disturb()
            machine.disk.is_unreadable = True

    def _do_readable(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None:
            machine.disk.is_unreadable = False

    def _do_hang(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None and machine.is_up:
            self._disturb()
            self.net.hang(broker)

    def _do_resume(self, broker: str) -> None:
        if self._machine(broker) is not None:
            self.net.go_on(broker)
            self._finish_cuts()

    def _do_drain(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None and machine.is_reading:
            self._disturb()
            self.net.drain(broker, within_s=self.random.choice([0.5, 5.0]))

    def _do_jump(self, broker: str, seconds: str) -> None:
        machine = self._machine(broker)
        if machine is None:
            return
        self.faults[self.step] += 1
        if machine.is_reading and broker not in self.jumped:
            self.jumped[broker] = _Jumped(machine.life, machine.clock.ahead_s, len(machine.log))
        machine.clock.jump(float(seconds))

    def _link(self, a: str, b: str) -> bool:
        return (a, b) in self.script.links or (b, a) in self.script.links

    def _do_cut(self, a: str, b: str) -> None:
        if self._link(a, b):
            self._disturb()
            self.net.link_down(a, b)

    def _do_mend(self, a: str, b: str) -> None:
        if self._link(a, b):
            self.net.link_up(a, b)

    def _do_reset(self, a: str, b: str) -> None:
        if self._link(a, b):
            self._disturb()
            self.net.link_reset(a, b)

    def _do_silence(self, a: str, b: str) -> None:
        if self._link(a, b):
            self._disturb()
            self.net.link_silent(a, b)

    def _do_deafen(self, a: str, b: str) -> None:
        if self._link(a, b):
            self._disturb()
            self.net.link_one_way(a, b)

    def _do_stall(self, a: str, b: str, seconds: str) -> None:
        if self._link(a, b):
            self._disturb()
            self.net.link_stall(a, b, float(seconds))

    def _do_half_close(self, a: str, b: str) -> None:
        if self._link(a, b):
            self._disturb()
            self.net.link_half_close(a, b)

    # -- steps: permissions and plans ------------------------------------------------------------------------

    def _security(self, broker: str) -> SecurityConfig:
        """Return what users may do at a broker, as a configuration."""
        tokens = tuple(
            TokenConfig(
                name=user,
                hash=hash_token(f"token of {user}"),
                subscribe=None if rights.subscribe is None else str(rights.subscribe),
                publish=None if rights.publish is None else str(rights.publish),
            )
            for user in self.users
            for rights in (self.promises.rights(broker, user),)
        )
        return SecurityConfig(tokens=tokens, neighbours=NeighboursConfig(trusted=True))

    def _do_allow(self, broker: str, user: str, subscribe: str, publish: str) -> None:
        machine = self._machine(broker)
        if machine is None or user not in self.users:
            return
        self._disturb()
        forbidden = self.promises.permitted(broker, user, Rights(_allowed(subscribe), _allowed(publish)))
        for one in forbidden:
            self.promises.ended(one)
        self.cuts.append((broker, user, forbidden))
        self._finish_cuts()
        machine.configure(replace(machine.config, security=self._security(broker)))
        for client in self._connections(user):
            if client.broker == broker and any(each.refused for each in client.subscriptions):
                client.drop()  # it asks again for what it was refused

    def _finish_cuts(self) -> None:
        """What was cut at a broker may not come any more, but what is under way; one that hangs hears of it later."""
        for cut in list(self.cuts):
            broker, user, forbidden = cut
            if not self.net.machines[broker].is_hung:
                self.cuts.remove(cut)
                clients = [one for one in self._connections(user) if one.broker == broker]
                ends = [one.end for one in clients if one.end is not None]
                is_reading = all(one.is_reading for one in self._connections(user))
                last_s = max([self.net.now_s, *(end.last_s for end in ends)]) if is_reading else inf
                for one in forbidden:
                    self.promises.ended(one, last_s)

    def _do_install(self, broker: str, which: str) -> None:
        machine = self._machine(broker)
        if self.plans and machine is not None and machine.is_reading:
            self._try(broker, lambda: self.net.install(broker, self.plans[int(which) % len(self.plans)]))

    def _do_none(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None and machine.is_reading:
            self._try(broker, lambda: self.net.install(broker, b""))

    def _do_roll_back(self, broker: str) -> None:
        machine = self._machine(broker)
        if machine is not None and machine.is_reading:
            self._try(broker, lambda: self.net.roll_back(broker))

    def _try(self, broker: str, action: Callable[[], None]) -> None:
        with suppress(CoveyError):  # it is refused while something else is under way
            action()
            if self.installer in ("", broker):
                self.faults[self.step] += 1
            else:
                self._disturb()  # two install at a time: links may begin anew
            self.installer = broker

    # -- rest ------------------------------------------------------------------------------------------------

    def _do_rest(self) -> None:
        """Mend everything, come to rest, and check."""
        self._heal()
        self.net.settle()
        if any(machine.disk.queues for machine in self.net.machines.values()):
            # What is not acknowledged is repeated.
            self.net.run(self.net.now_s + self.script.again_after_s + 10.0)
            self.net.settle()
        self._note_answers()
        self._read_logs()
        self._check_clocks()
        self.promises.check_said()
        away = {wanted for place, wanted in self.durable.items() if not self._is_attached(*place)}
        held_up = self._held_up()
        self.promises.check_exact(away, held_up)
        self.promises.check_answered()
        for (broker, name), wanted in self.durable.items():
            if not wanted.is_over and self._is_attached(broker, name):
                self.promises.check_confirmed(wanted, held_up)
        self._check_queues()
        if not self.promises.findings:
            self.promises.findings += broker_checkers.check_all(self.net, self._interests())
            if broker_checkers.bounds(self.net):
                self.net.run(self.net.now_s + 0.1)  # a broker may be at what it does now and then
            self.promises.findings += broker_checkers.bounds(self.net)
        self._in_force()

    def _heal(self) -> None:
        net = self.net
        for broker, machine in net.machines.items():
            machine.disk.is_full = machine.disk.is_unreadable = False
            machine.disk.failing = 0
            machine.disk.tell_the_truth()
            if machine.is_doomed:
                net.kill(broker)
            net.restart(broker)
            net.go_on(broker)
        self._finish_cuts()
        for a, b in self.script.links:
            net.link_up(a, b)
        for one in self.clients.values():
            for client in one.all:
                client.acknowledges = True
                client.read_again()
        while not all(machine.is_listening for machine in net.machines.values()):
            net.run(net.now_s + 1.0)  # some are ending
            for broker in net.brokers:
                net.restart(broker)
        net.settle()
        for one in self.clients.values():
            self._come(one.client)
            for other in one.others:
                other.disconnect()
        net.settle()
        for one in self.clients.values():
            for each in one.client.subscriptions:
                # A full disk has refused it, another connection has taken over and is gone, or it is not known whether
                # one has: it asks again.
                wanted = self._wanted(each)
                is_doubtful = each.is_granted and not (wanted is None or wanted.is_granted or wanted.is_over)
                if (each.refused and self._may_ask(each)) or each.is_taken_over or is_doubtful:
                    each.is_taken_over = False
                    one.client.drop()

    def _may_ask(self, subscription: Subscription) -> bool:
        wanted = self._wanted(subscription)
        return wanted is None or self.promises.may_have(wanted)

    def _is_attached(self, broker: str, name: str) -> bool:
        return any(
            one.broker == broker and any(each.durable and each.is_granted for each in one.subscriptions)
            for one in self._connections(name)
        )

    def _read_logs(self) -> None:
        """Tell the checker which brokers have said that their disks are damaged, and which cannot know it."""
        for broker, lines in self.net.logs.items():
            for line in lines[self.heard[broker] :]:
                if line.level >= logging.WARNING and any(word in line.event for word in _DAMAGE):
                    self.promises.said_damage(broker)
            self.heard[broker] = len(lines)
        for one in self.witnessed:
            lives = {name: self.net.machines[name].life for name in one.neighbours}
            is_again_another = self.net.machines[one.broker].life > one.life + 1
            if is_again_another or not lives.items() & one.neighbours.items():
                self.promises.excuse(one.broker)

    def _check_clocks(self) -> None:
        """See whether brokers have said that the clocks on their walls have jumped."""
        for broker, (life, ahead_s, first) in self.jumped.items():
            machine = self.net.machines[broker]
            is_said = any(line.event == "clock jumped" for line in machine.log[first:])
            if machine.life == life and machine.clock.ahead_s != ahead_s and not is_said:
                self._find(f"clock: {broker} has not said that its clock has jumped")
        self.jumped.clear()

    def _check_queues(self) -> None:
        """All that is acknowledged is gone from disks, but what waits for clients that are away."""
        away = {place for place in self.durable if not self._is_attached(*place)}
        full = self._full()
        for broker, machine in self.net.machines.items():
            for owner, waiting in machine.disk.queues.items():
                known = machine.disk.owners.get(owner)
                if waiting and (known is None or (broker, known.client) not in away):
                    if (broker, owner) in full:
                        continue  # what waits for a neighbour whose store is full of what nobody reads
                    who = "nobody" if known is None else known.client or f"the neighbour {known.name}"
                    self._find(f"healed: {len(waiting)} events wait at {broker} for {who}")

    def _full(self) -> set[tuple[str, int]]:
        """Return where events wait for a neighbour whose store is full of what nobody reads: brokers and owners."""
        away = [place for place in self.durable if not self._is_attached(*place)]
        if not any(self._waits_for(*place) for place in away):
            return set()
        return {
            (broker, owner)
            for broker, machine in self.net.machines.items()
            for owner, waiting in machine.disk.queues.items()
            if waiting
            and (known := machine.disk.owners.get(owner)) is not None
            and known.kind == OUTBOX
            and not self._has_room(known.name, len(waiting[min(waiting)].frame))
        }

    def _held_up(self) -> set[int]:
        """Return the events that wait, on disk, for a neighbour whose store is full of what nobody reads."""
        return {
            _number(one.frame)
            for broker, owner in self._full()
            for one in self.net.machines[broker].disk.queues[owner].values()
        }

    def _waits_for(self, broker: str, name: str) -> bool:
        """Return whether anything waits at a broker for a durable subscription."""
        disk = self.net.machines[broker].disk
        return any(
            waiting and owner in disk.owners and disk.owners[owner].client == name
            for owner, waiting in disk.queues.items()
        )

    def _has_room(self, broker: str, size: int) -> bool:
        """Return whether a broker's store takes an event of a size."""
        report = self.net.machines[broker].core.durable.report()
        return report["used_bytes"] + size + OVERHEAD + PER_ENTRY <= report["max_bytes"]

    def _interests(self) -> broker_checkers.Interests:
        subscriptions = [
            (each.client.broker, each.filter)
            for each in self.net.subscriptions
            if each.is_granted and not each.durable
        ]
        # A disk that was rolled back may know of one that has ended, or not of one that has not.
        is_rolled_back = self.promises.is_rolled_back
        subscriptions += [
            (broker, decode(owner.filter))
            for broker, machine in self.net.machines.items()
            for owner in machine.disk.owners.values()
            if owner.kind == "subscription" and (is_rolled_back or (broker, owner.client) in self.unheard)
        ]
        if not is_rolled_back:
            subscriptions += [
                (one.broker, one.filter)
                for place, one in self.durable.items()
                if one.is_granted and place not in self.unheard
            ]
        advertisements = [
            (each.client.broker, each.filter)
            for client in self.net.clients.values()
            if client.is_greeted
            for each in client.advertisements
            if each.is_granted
        ]
        return broker_checkers.Interests(subscriptions, advertisements)

    # -- the end ---------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._heal()
        for (broker, name), wanted in list(self.durable.items()):
            one = self.clients[name]
            is_here = one.client.broker == broker and any(each.durable for each in one.client.subscriptions)
            if not wanted.is_over and not is_here:
                client = self._connect(name, broker, another=True)
                one.elsewhere.append(client)
                client.subscribe(Subscription(wanted.filter, client, QUEUE))
        self._do_rest()
        if not self.promises.findings and "plans" in self.script.final and self.plans:
            self._plan_goes_in_and_out()
        if not self.promises.findings:
            self._all_publish()
        if not self.promises.findings:
            self._all_leave()

    def _all_publish(self) -> None:
        before = len(self.of_published)
        for name, one in self.clients.items():
            if one.actor.role == "publisher":
                self._do_publish(name, str(FINAL_EVENTS), "confirmed")
                self._do_publish(name, str(FINAL_EVENTS), "plain")
        self._do_rest()
        for event in list(self.of_published.values())[before:]:
            if event.refused and not event.is_forbidden and event.confirm:
                self._find(f"healed: {event.content!r} of {event.publisher} was refused although all is well")

    def _plan_goes_in_and_out(self) -> None:
        """Once an installation that was left half done is given up, any broker can install something."""
        self.net.run(self.net.now_s + GONE_S + 10.0)
        broker = self.random.choice(self.net.brokers)
        for plan in (self.random.choice(self.plans), b""):
            try:
                self.net.install(broker, plan)
            except CoveyError as error:
                self._find(f"healed: no plan can be installed at {broker}: {error}")
                return
            self.net.settle()
            self.net.run(self.net.now_s + 30.0)
            for name, machine in self.net.machines.items():
                epochs = machine.core.epochs
                if epochs.state.plans.get(epochs.current) != plan:
                    self._find(f"healed: {name} does not have the plan that {broker} has installed")
                if len(epochs.state.plans) > 2:
                    self._find(f"healed: {name} keeps {len(epochs.state.plans)} plans at rest")

    def _all_leave(self) -> None:
        """When everyone has left, nobody knows anything."""
        for client in self.net.clients.values():
            client.disconnect()
        self.net.settle()
        for (broker, name), wanted in self.durable.items():
            if self.promises.may_have(wanted):  # otherwise its broker has removed it
                client = self._connect(name, broker, another=True)
                subscription = Subscription(wanted.filter, client, QUEUE)
                client.subscribe(subscription)
                self.net.settle()
                client.unsubscribe(subscription)
                client.disconnect()
        self.net.settle()
        # A disk that has lost the end of its journal may know of a subscription that has ended.
        if not self.promises.is_rolled_back:
            self.promises.findings += broker_checkers.emptiness(self.net)


# Steps after which brokers can ask each other for copies as before.
_HARMLESS: Final = frozenset(
    {
        "publish", "subscribe", "unsubscribe", "advertise", "unadvertise", "flush", "drop", "mute", "stall-client",
        "half-close-client", "deaf", "hear", "stop-reading", "read", "takeover", "refilter", "leave", "come", "move",
        "forget", "flip", "jump", "allow", "rest",
    }
)  # fmt: skip
_DAMAGE: Final = ("damaged", "missing", "incomplete")  # what lines say that tell of it


def _taken(buffers: Sequence[bytes]) -> Iterator[Name]:
    """Yield the names in the TAKEN frames among what a broker writes: whole frames."""
    for buffer in buffers:
        at = 0
        while at < len(buffer):
            (length,) = LENGTH.unpack_from(buffer, at)
            at += LENGTH.size + length
            if buffer[at - length] == Kind.TAKEN:
                yield from decode_taken(buffer[at - length + 1 : at])


# -- what scripts' words mean ------------------------------------------------------------------------------------


def _filter(word: str) -> Filter:
    return parse(word.replace("&", " and "))


def _allowed(word: str) -> Filter | None:
    if word == "all":
        return None
    return _filter("x<0" if word == "none" else word)


def _number(frame: bytes) -> int:
    """Return the number of an event of a trial, in an EVENT frame."""
    envelope = envelope_of(frame)
    content = decode_content(
        family_of(envelope), frame[ENVELOPE.size : ENVELOPE.size + envelope.content_length]
    )
    return int(content["n"])


def _plans(script: Script) -> list[bytes]:
    """Return plans for a network: some of its spanning trees, and one for events that travel on one of them.

    In half of all networks the plan of one tree merges filters.
    """
    if not script.links:
        return []
    random = Random(f"plans {script.seed}")
    brokers = script.brokers
    trees = tuple(PlannedTree(random.choice(brokers), _spanning_tree(script.links, random)) for _ in range(2))
    links = tuple((a, b, 1.0) for a, b in sorted(tuple(sorted(link)) for link in script.links))
    home = {random.choice(brokers): 1}
    merging = _merging(script, trees[0]) if random.random() < 0.5 else None
    return [
        Plan("one", 1, tuple(brokers), links, trees[:1], None, merging=merging).encode(),
        Plan("two", 1, tuple(brokers), links, trees, None, home=home).encode(),
        Plan("regions", 1, tuple(brokers), links, trees, "nearest").encode(),
    ]


def _merging(script: Script, tree: PlannedTree) -> PlannedMerging:
    """Return what is merged where: of the filters of trials some, on some links, exactly or loosely."""
    random = Random(f"merging {script.seed}")
    events = [("attributes", f'{{"x": {value}}}') for value in range(10)] if random.random() < 0.5 else []
    excess = random.choice((0.1, 0.5)) if events else 0.0
    blocks = []
    for a, b in tree.links:
        for broker, towards in ((a, b), (b, a)):
            if random.random() < 0.7:
                inputs = [_filter(text) for text in random.sample(FILTERS, random.randint(2, 4))]
                block = block_of(inputs, [parse_content(text, language) for language, text in events], excess)
                forms = [tuple(filter.encode() for filter in filters) for filters in block]
                blocks.append(PlannedBlock(0, broker, towards, *forms))
    return PlannedMerging("drawn", tuple(blocks), excess, tuple(events))


def _spanning_tree(links: Sequence[tuple[str, str]], random: Random) -> tuple[tuple[str, str], ...]:
    """Return links that connect all brokers without a cycle."""
    part = {name: name for link in links for name in link}

    def root(name: str) -> str:
        while part[name] != name:
            name = part[name]
        return name

    tree = []
    for a, b in random.sample(links, len(links)):
        if root(a) != root(b):
            part[root(a)] = root(b)
            tree.append((min(a, b), max(a, b)))
    return tuple(sorted(tree))
