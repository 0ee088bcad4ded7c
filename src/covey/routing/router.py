"""Router: one broker as a state machine.

The driver's duties, whatever it is (a simulator, a daemon):

1. Give every input to `handle`, one at a time, with the link it came from: messages from neighbours and clients,
   LinkUp before a link's first message, LinkDown after its last, Congestion when the input queue grows long or is short
   again.
2. Carry out all outputs in their order before the next input. A link delivers in order what was sent, or goes down.
3. On a ProtocolError cut the link that the message came from; LinkDown withdraws whatever it had said before. A
   client's many subscriptions may be withdrawn in slices before that (`withdraw`).
4. With `slice_units`: while a neighbour is busy (`is_busy`), call `work` for it, with other inputs in between, and
   hold back what it says, except events and the end of its link. See `jobs`.

    for output in router.handle(message, source, now_s):
        match output:
            case Send(link, message): links[link].send(message)
            case Deliver(link, keys, publish): clients[link].deliver(publish.event, keys)

A client's subscription is kept once, in the index of local entries, however many trees there are; it belongs to the
tree of its group. An event may arrive over several trees: clients get it when it comes first, and never again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from covey.core.filter import Filter
from covey.errors import ProtocolError
from covey.matching.index import Index
from covey.routing.advertisements import NONE
from covey.routing.digest import Fact
from covey.routing.jobs import Jobs
from covey.routing.messages import (
    CONTROL,
    Advertise,
    Congestion,
    Echo,
    Greet,
    Key,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Piece,
    Probe,
    Publish,
    Subscribe,
    Sync,
    Tree,
    Unadvertise,
    Unsubscribe,
)
from covey.routing.outputs import Deliver, Output, Send
from covey.routing.plan import ONE_TREE, TreePlan
from covey.routing.probes import Probes
from covey.routing.seen import Seen
from covey.routing.strategy import registered
from covey.routing.table import Place
from covey.routing.tree import TreePart

SEEN_EVENTS: Final = 1 << 16


class Router:
    """One broker; see the module's text.

    `plan` says which neighbours are on which tree, where there are several. `reduce_advertisements` says what
    neighbours are told of advertisements (`advertisements.reductions`); each broker may be set as it likes.
    """

    def __init__(
        self,
        broker: str,
        strategy: str = "covering",
        *,
        advertisements: bool = True,
        reduce_advertisements: str = NONE,
        plan: TreePlan = ONE_TREE,
        options: Mapping[str, Any] | None = None,
        slice_units: int | None = None,
    ) -> None:
        self.broker = broker
        self.version = 0  # another one after anything but an event: tables may have changed
        self.counters: Counter[str] = Counter()
        self._registered = registered(strategy)
        self._registered.check(options or ())
        self._plan = plan
        self._jobs = Jobs(slice_units)
        self._local = Index()
        self._clients: dict[Link, dict[Key, Filter]] = {}
        self._trees = {
            tree: TreePart(
                broker,
                tree,
                self._registered,
                dict(options or {}),
                advertisements=advertisements,
                reduce_advertisements=reduce_advertisements,
                plan=plan,
                local=self._local,
                clients=self._clients if list(plan.telling) == [tree] else {},
                counters=self.counters,
                jobs=self._jobs,
            )
            for tree in plan.trees
        }
        self._expected = {tree: plan.neighbours(tree, broker) for tree in plan.trees}
        self._telling = [(tree, self._trees[tree]) for tree in plan.telling]
        self._outputs: list[Output] = []
        for part in self._trees.values():
            part.outputs, part.parts = self._outputs, self._trees
        self._probes = Probes()
        self._seen = Seen(SEEN_EVENTS) if len(self._trees) > 1 else None

    def remember_events(self) -> None:
        """From now on remember events, so that one that comes again, over a passing cycle, is not taken twice."""
        if self._seen is None:
            self._seen = Seen(SEEN_EVENTS)
            self.version += 1

    def load(
        self,
        link: Link,
        *,
        advertisements: Sequence[Fact] = (),
        subscriptions: Sequence[Fact] = (),
        tree: Tree = 0,
    ) -> None:
        """Start with what a neighbour lets this broker know, as computed elsewhere; before any link is up.

        Clients that are known by then should be there before the links too: what they want is compared with what
        neighbours have loaded from here.
        """
        if tree not in self._trees:
            raise ProtocolError(f"broker {self.broker} has no tree {tree}")
        self.version += 1
        self._trees[tree].load(link, advertisements, subscriptions)

    def handle(self, message: Message, source: Link, now_s: float = 0.0) -> list[Output]:
        """Take one input and return what is to be done; ProtocolError if the source may not say this."""
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise ProtocolError(f"broker {self.broker} does not understand {type(message).__name__:.40}")
        if type(message) is not Publish:
            self.version += 1
            self._jobs.changes += 1
        for part in self._trees.values():
            part.now_s = now_s
        handler(self, message, source)
        return self._taken()

    # -- long work -------------------------------------------------------------------------------------------

    @property
    def busy(self) -> list[Link]:
        """The links for which `work` has something to do, the one whose turn it is first."""
        return self._jobs.busy

    def is_busy(self, link: Link) -> bool:
        """Return whether the driver has to hold back what a neighbour says, except events."""
        return self._jobs.is_busy(link)

    def work(self, link: Link, now_s: float = 0.0) -> list[Output]:
        """Do a slice of the work for a link that is busy, and return what is to be done.

        ProtocolError, with which that work ends, if the neighbour may not have said what it said.
        """
        self.version += 1
        for part in self._trees.values():
            part.now_s = now_s
        self._jobs.work(link)
        return self._taken()

    def _taken(self) -> list[Output]:
        """Return the outputs so far, which are the caller's then."""
        outputs = list(self._outputs)
        self._outputs.clear()
        return outputs

    @property
    def is_plain(self) -> bool:
        """Whether events only follow the tables, so that compiled code may handle them in place of this router."""
        return all(part.strategy.is_plain for part in self._trees.values())

    @property
    def addresses(self) -> bool:
        """Whether events carry the names of the brokers that they are for, on the tree that suits these."""
        return any(part.strategy.addresses for part in self._trees.values())

    @property
    def plan(self) -> TreePlan:
        """The trees, and how interest and events use them."""
        return self._plan

    @property
    def seen(self) -> Seen | None:
        """The events that are not to be taken twice; None while none can come twice."""
        return self._seen

    # -- links -----------------------------------------------------------------------------------------------

    def _link_up(self, message: LinkUp, source: Link) -> None:
        if source in self._clients or any(source in part.links_up() for part in self._trees.values()):
            raise ProtocolError(f"broker {self.broker}: the link to {source} is up already")
        if message.client:
            self._clients[source] = {}
            return
        for tree, part in self._trees.items():
            if self._plan.has_link(tree, self.broker, source):
                part.link_up(source, in_pieces=message.pieces)

    def _link_down(self, message: LinkDown, source: Link) -> None:
        subscriptions = self._clients.get(source)
        if subscriptions is not None:
            for key in list(subscriptions):
                self._unsubscribe(source, key)
            for part in self._trees.values():
                for key in list(part.advertised.of_link(source)):
                    part.unadvertise(source, key)
            del self._clients[source]
            for part in self._trees.values():
                part.clients.pop(source, None)
            self._probes.link_down(source, self._say)
            return
        self._jobs.drop(source)
        for part in self._trees.values():
            part.link_down(source)
        self._probes.link_down(source, self._say)

    def _greet(self, message: Greet, source: Link) -> None:
        self._part(message.tree, source).greet(source, message)

    def _sync(self, message: Sync, source: Link) -> None:
        self._part(message.tree, source).sync(source, message)

    def _part(self, tree: Tree, source: Link) -> TreePart:
        part = self._trees.get(tree)
        if part is None or source not in part.links_up():
            raise ProtocolError(f"broker {self.broker}: {source} is not a neighbour on tree {tree}")
        return part

    # -- interest --------------------------------------------------------------------------------------------

    def _control(self, message: Any, source: Link) -> None:
        subscriptions = self._clients.get(source)
        if subscriptions is None:
            self._part(message.tree, source).strategy.receive(source, message)
        elif isinstance(message, Subscribe):
            if message.key in subscriptions:
                raise ProtocolError(
                    f"broker {self.broker}: {source} has a subscription {message.key} already"
                )
            part = self._trees[self._plan.group(self.broker, message.filter)]
            filter = message.filter.compact()
            self._local.add((source, message.key), filter)
            subscriptions[message.key] = filter
            if part.clients is not self._clients:
                part.clients.setdefault(source, {})[message.key] = filter
            part.strategy.subscribe(source, message.key, filter)
        elif isinstance(message, Unsubscribe):
            if message.key not in subscriptions:
                raise ProtocolError(f"broker {self.broker}: {source} has no subscription {message.key:.60}")
            self._unsubscribe(source, message.key)
        else:
            raise ProtocolError(f"broker {self.broker}: a client cannot say {type(message).__name__}")

    def _unsubscribe(self, source: Link, key: Key) -> None:
        filter = self._clients[source].pop(key)
        part = self._trees[self._plan.group(self.broker, filter)]  # as it was then: a plan never changes
        self._local.remove((source, key))
        if part.clients is not self._clients:
            del part.clients[source][key]
        part.strategy.unsubscribe(source, key, filter)

    def _advertise(self, message: Advertise, source: Link) -> None:
        if source not in self._clients:
            self._part(message.tree, source).advertise(source, message)
            return
        for tree, part in self._telling:
            if message.key in part.advertised.of_link(source):
                raise ProtocolError(
                    f"broker {self.broker}: {source} has an advertisement {message.key} already"
                )
            part.advertise(source, Advertise(message.key, message.filter, source, tree))

    def _unadvertise(self, message: Unadvertise, source: Link) -> None:
        if source not in self._clients:
            self._part(message.tree, source).unadvertise(source, message.key)
            return
        for part in self._trees.values():
            part.unadvertise(source, message.key)

    def _congestion(self, message: Congestion, source: Link) -> None:
        for part in self._trees.values():
            part.congested = message.on
            part.strategy.congestion(message.on)

    # -- events ----------------------------------------------------------------------------------------------

    def _publish(self, message: Publish, source: Link) -> None:
        local: Sequence[Place] = sorted(self._local.match(message.event))
        if source in self._clients:
            self._publish_own(message, source, local)
            return
        part = self._part(message.tree, source)
        if self._seen is None or self._seen.add(message.id):
            self._deliver(message, local)
        else:
            self.counters["duplicates_suppressed"] += 1
            if len(self._trees) == 1:
                return  # on one tree nothing comes twice, unless it has gone round in a circle
        part.forward(message, source, local)

    def _publish_own(self, message: Publish, source: Link, local: Sequence[Place]) -> None:
        if self._seen is not None:
            self._seen.add(message.id)
        self._deliver(message, local)
        for tree, part in self._telling:
            flooded = not part.is_advertised(source, message.event)
            envelope = msgspec.structs.replace(message, publisher=source, flooded=flooded, tree=tree)
            if not flooded:
                envelope = part.strategy.address(envelope, local)
            self._trees[envelope.tree].forward(envelope, source, local)
            if flooded:
                self.counters["unadvertised_events"] += 1
                return  # one tree reaches everyone

    def _deliver(self, message: Publish, local: Sequence[Place]) -> None:
        clients: dict[Link, list[Key]] = {}
        for link, key in local:
            clients.setdefault(link, []).append(key)
        for link, keys in clients.items():
            self._outputs.append(Deliver(link, tuple(keys), message))

    def distance_of(self, publish: Publish, source: Link) -> float | None:
        """Return what the strategy would remember of an event that comes now as its distance; None if nothing."""
        part = self._trees.get(publish.tree)
        if part is None:
            return None
        return part.strategy.distance_here(publish, source, sorted(self._local.match(publish.event)))

    # -- probes ----------------------------------------------------------------------------------------------

    def _probe(self, message: Probe, source: Link) -> None:
        if source in self._clients:
            trees = list(self._trees)
        else:
            self._part(message.tree, source)
            trees = [message.tree]
        if self._probes.is_known(source, message.id, message.tree):
            raise ProtocolError(
                f"broker {self.broker}: {source} probes twice under the name {message.id:.60}"
            )
        for tree in trees:
            self._probes.probe(source, message.id, tree, self._trees[tree].links_up(), len(trees), self._say)

    def _echo(self, message: Echo, source: Link) -> None:
        self._part(message.tree, source)
        self._probes.echo(source, message, self._say)

    def _say(self, said: Send) -> None:
        """Send a probe or an echo: behind what must be known before it."""
        message = said.message
        assert isinstance(message, Probe | Echo), "probes and echoes alone are said so"
        if said.link in self._clients:
            self._outputs.append(said)
        else:
            self._trees[message.tree].say(said.link, message)

    # -- what is known, for checks and reports ---------------------------------------------------------------

    @property
    def local(self) -> Index:
        """The index of what clients asked for, by place: link and key."""
        return self._local

    @property
    def trees(self) -> Mapping[Tree, TreePart]:
        """The router's part of each tree."""
        return self._trees

    def is_synchronised(self) -> bool:
        """Return whether all neighbours that are up, or on a tree of the plan, have let us know what they want."""
        return all(
            part.has_synchronised(link)
            for tree, part in self._trees.items()
            for link in (*self._expected[tree], *part.links_up())
        )

    def advertised_by(self, link: Link) -> dict[Key, Filter]:
        """Return what a client has advertised."""
        part = self._telling[0][1]
        return {key: advertised.filter for key, advertised in part.advertised.of_link(link).items()}

    def remote_entries(self) -> list[tuple[Link, Filter]]:
        """Return what neighbours asked for, as pairs of link and filter."""
        return [entry for part in self._trees.values() for entry in part.strategy.remote_entries()]

    def remote_size(self) -> int:
        """Return how many they are."""
        return sum(part.strategy.remote_size() for part in self._trees.values())

    def local_size(self) -> int:
        """Return how many subscriptions clients have here."""
        return len(self._local)

    def size(self) -> int:
        """Return how many entries the routing table has, for neighbours and clients."""
        return self.remote_size() + self.local_size()

    @property
    def telling(self) -> list[TreePart]:
        """The parts of the trees on which a client's event starts out."""
        return [part for _, part in self._telling]

    def matching(self, event: object) -> list[Place]:
        """Return the clients' subscriptions that match an event; nothing is delivered."""
        return list(self._local.match(event))

    def has_client(self, link: Link) -> bool:
        """Return whether a client's link is up."""
        return link in self._clients

    def local_filter(self, link: Link, key: Key) -> Filter:
        """Return what a client asked for under a key; KeyError if nothing."""
        return self._clients[link][key]

    def local_subscriptions(self) -> dict[Link, dict[Key, Filter]]:
        """Return what clients asked for."""
        return {link: dict(subscriptions) for link, subscriptions in self._clients.items()}


_HANDLERS: dict[type, Callable[[Router, Any, Link], None]] = {
    LinkUp: Router._link_up,
    LinkDown: Router._link_down,
    Greet: Router._greet,
    Sync: Router._sync,
    Piece: Router._sync,
    Advertise: Router._advertise,
    Unadvertise: Router._unadvertise,
    Publish: Router._publish,
    Probe: Router._probe,
    Echo: Router._echo,
    Congestion: Router._congestion,
    **{kind: Router._control for kind in CONTROL if kind not in (Advertise, Unadvertise)},
}
