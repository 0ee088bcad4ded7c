"""NeighbourLinks: an exchange's links to other brokers, and what routers say to each other over them.

A link is *connected* when both brokers have greeted each other: routers of plans use it at once. It is *attached* while
it is on the overlay's own tree too, and then the overlay's routers use it. A neighbour that is away keeps what it asked
for until it is given up or bypassed; meanwhile probes for it are echoed in its place, so that whoever asks is answered
by those who are there. Which links are attached is decided by `links`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, get_args

from covey.broker.peers import Neighbour
from covey.protocol.control import Routed, decode_routed, encode_routed
from covey.protocol.events import Envelope, forwarded
from covey.protocol.frames import Kind, framed
from covey.routing.messages import Advertise, Echo, Link, LinkDown, LinkUp, Probe, Publish, Sync, Unadvertise
from covey.routing.outputs import Send

if TYPE_CHECKING:
    from covey.broker.exchange import Exchange

# What must not overtake events: a way that is given up, and what asks whether all before it has arrived.
_BEHIND_EVENTS: Final = (Unadvertise, Probe, Echo)

# What is counted: control messages by kind and direction.
_IN: Final = {kind: f"control_in_{kind.__name__.lower()}" for kind in get_args(Routed)}
_OUT: Final = {kind: f"control_out_{kind.__name__.lower()}" for kind in get_args(Routed)}


class Used(Mapping[Link, Neighbour]):
    """The neighbours over whose links routers of one epoch talk."""

    def __init__(self, links: NeighbourLinks, epoch: int) -> None:
        self._links, self._epoch = links, epoch

    def __getitem__(self, link: Link) -> Neighbour:
        neighbour = self._links.neighbours[link]
        if not self._links.is_used(neighbour, self._epoch):
            raise KeyError(link)
        return neighbour

    def __iter__(self) -> Iterator[Link]:
        return (link for link in self._links.neighbours if link in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class NeighbourLinks:
    """The links of one exchange to its neighbours; see the module's text."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.neighbours: dict[Link, Neighbour] = {}  # to which there is a connection
        self.attached: dict[Link, None] = {}  # neighbours whose links are on the overlay's tree, in order
        # What neighbours have yet to echo, by epoch, with the number of advertisements before it (`completeness`); and
        # echoes of probes for neighbours that are away.
        self._probing: dict[tuple[Link, int], dict[Echo, int]] = {}
        self._echoes: list[tuple[Link, int, Echo]] = []
        self._advertised: Counter[Link] = Counter()  # what was sent to neighbours, on the overlay's tree

    # -- coming and going ------------------------------------------------------------------------------------

    def connected(self, neighbour: Neighbour) -> None:
        """A neighbour and this broker have greeted each other: plans use the link at once."""
        link, exchange = neighbour.link, self._exchange
        self.neighbours[link] = neighbour
        exchange.plans.greet(neighbour)
        for epoch, router in exchange.epochs.of_plans():
            if any(link in part.links_up() for part in router.trees.values()):  # from before a break
                exchange.carry_out(router.handle(LinkDown(), link, exchange.now_s), epoch)
            exchange.carry_out(router.handle(LinkUp(), link, exchange.now_s), epoch)
        exchange.perform(exchange.durable.connected(link))

    def disconnected(self, link: Link) -> None:
        """The connection to a neighbour is gone, but not what it asked for; nobody waits for its echoes."""
        self.neighbours.pop(link, None)
        self._exchange.durable.disconnected(link)
        self._give_up_echoes(link, [epoch for epoch, _ in self._exchange.epochs.of_plans()])

    def given_up(self, link: Link) -> None:
        """Forget what a neighbour that is away had asked for."""
        exchange = self._exchange
        for epoch, router in exchange.epochs.of_plans():
            exchange.carry_out(router.handle(LinkDown(), link, exchange.now_s), epoch)

    def up(self, neighbour: Neighbour) -> None:
        """The link to a neighbour that is connected is on the overlay's own tree."""
        link, exchange = neighbour.link, self._exchange
        exchange.perform(exchange.durable.withdrawing(link))
        self.attached[link] = None
        exchange.durable.attached(link, True)
        for epoch, router in exchange.epochs.of_overlay():
            exchange.carry_out(router.handle(LinkUp(), link, exchange.now_s), epoch)

    def down(self, link: Link) -> None:
        """The link to a neighbour, which may be away already, is on the overlay's tree no longer."""
        exchange = self._exchange
        self.attached.pop(link, None)
        exchange.durable.attached(link, False)
        exchange.perform(exchange.durable.withdrawing(link))
        for epoch, router in exchange.epochs.of_overlay():
            self._probing.pop((link, epoch), None)
            exchange.carry_out(router.handle(LinkDown(), link, exchange.now_s), epoch)

    def away(self, link: Link) -> None:
        """The link to a neighbour on the tree is gone, but not what it asked for; nobody waits for its echoes."""
        del self.attached[link]
        durable = self._exchange.durable
        durable.attached(link, False)
        self._exchange.perform(durable.lost(link))  # first: an echo in its place proves nothing
        self._give_up_echoes(link, [epoch for epoch, _ in self._exchange.epochs.of_overlay()])

    def is_open(self, link: Link) -> bool:
        """Return whether a neighbour and this broker have told each other all that they know."""
        return all(
            link in part.neighbours() or link not in part.links_up()
            for router in self._exchange.epochs.routers.values()
            for part in router.trees.values()
        )

    def is_used(self, neighbour: Neighbour, epoch: int) -> bool:
        """Return whether routers of that epoch talk over the link to a neighbour."""
        epochs = self._exchange.epochs
        if self.neighbours.get(neighbour.link) is not neighbour or epoch not in epochs.routers:
            return False
        return neighbour.link in self.attached or epochs.is_planned(epoch)

    # -- what routers say to each other ----------------------------------------------------------------------

    def routed(self, neighbour: Neighbour, body: memoryview) -> None:
        """Handle what a neighbour's router says to ours; ProtocolError if it cannot be read."""
        message, epoch = decode_routed(body)
        exchange = self._exchange
        exchange.counters[_IN[type(message)]] += 1
        if not self.is_used(neighbour, epoch):
            exchange.counters["stale_frames"] += (
                1  # said before it knew that the link, or the epoch, is not used
            )
            return
        if isinstance(message, Echo):
            self._echoed(neighbour.link, epoch, message)
        outputs = exchange.epochs.routers[epoch].handle(message, neighbour.link, exchange.now_s)
        exchange.carry_out_all([(epoch, outputs)])
        if isinstance(message, Sync):
            exchange.plans.settle()
        exchange.perform(exchange.durable.heard(message, neighbour.link, epoch))

    def send(self, output: Send, epoch: int, one: bytes, envelope: Envelope | None) -> None:
        """Send what a router says to a neighbour's; an event with the frame and the envelope in which it has come."""
        neighbour = self.neighbours.get(output.link)
        message = output.message
        is_used = neighbour is not None and self.is_used(neighbour, epoch)
        if isinstance(message, (Probe, Advertise, Unadvertise)):
            self._note(message, output.link, epoch, is_used)
        if neighbour is None or not is_used:
            return
        if isinstance(message, Publish):
            assert envelope is not None, "an event is sent on when one has come"
            neighbour.sent += 1
            neighbour.outlet.send_events(framed(forwarded(one, envelope, message, epoch)))
        else:
            barrier = isinstance(message, _BEHIND_EVENTS)
            self._exchange.counters[_OUT[type(message)]] += 1
            neighbour.outlet.send(Kind.ROUTE, encode_routed(message, epoch), barrier=barrier)

    # -- what neighbours have heard --------------------------------------------------------------------------

    def _note(self, message: Probe | Advertise | Unadvertise, link: Link, epoch: int, reached: bool) -> None:
        """Note what a neighbour is to answer, or must be answered in its place."""
        exchange = self._exchange
        if isinstance(message, Probe):
            echo = Echo(message.id, message.tree)
            if reached:
                self._probing.setdefault((link, epoch), {})[echo] = self._advertised[link]
            else:
                self._echoes.append((link, epoch, echo))
        elif epoch not in exchange.epochs.routers or exchange.epochs.is_planned(epoch):
            return  # confirmed events go by the tables of the overlay's own tree
        elif isinstance(message, Advertise):
            self._advertised[link] += reached
            number = self._advertised[link] if reached else 0
            exchange.perform(exchange.durable.advertised(link, message.key, message.filter, number))
        else:
            exchange.durable.unadvertised(link, message.key)

    def _echoed(self, link: Link, epoch: int, echo: Echo) -> None:
        """A neighbour itself has echoed a probe."""
        number = self._probing.get((link, epoch), {}).pop(echo, None)
        if number is not None and not self._exchange.epochs.is_planned(epoch):
            self._exchange.durable.answered(link, number)

    # -- echoes in place of neighbours that are away ---------------------------------------------------------

    def _give_up_echoes(self, link: Link, epochs: Iterable[int]) -> None:
        for epoch in epochs:
            self._echoes += [(link, epoch, echo) for echo in self._probing.pop((link, epoch), ())]
        self.echo_for_others()

    def echo_for_others(self) -> None:
        """Echo probes in place of neighbours that are away."""
        exchange = self._exchange
        while self._echoes:
            link, epoch, echo = self._echoes.pop()
            if epoch in exchange.epochs.routers:
                exchange.carry_out(exchange.epochs.routers[epoch].handle(echo, link, exchange.now_s), epoch)
