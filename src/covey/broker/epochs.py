"""Epochs: the routers of one broker, one for each plan that is installed, and which of them events set out in.

A plan is installed beside what runs. Every broker makes a router of its own for it, with the same clients and
neighbours, and both are kept up to date; an event travels in the epoch in which it set out, which its frame says, so
it is delivered once however many epochs there are. When the new tables are complete everywhere the network switches:
brokers let events set out in the new epoch. Nothing is taken away before that, and until the old epoch is retired the
network can switch back.

What is installed is one small value, `PlanState`, the same at all brokers: the newest version is told to everyone, and
to whoever comes back.

A new router is told what clients have asked for in slices (`fill`), as there may be hundreds of thousands of
subscriptions. Until it knows all of them the epoch is being *adopted*:

- the router has no neighbours; what they say in that epoch waits, in its order, and is handled once their links are up
  (events here, the rest with `neighbours`);
- what clients say meanwhile goes to it too, except that a subscription or an advertisement that it has not been told
  of yet is simply not told when it ends.

So the router ends with what it would know if it had been told everything at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from covey.broker.config import BrokerConfig
from covey.core.filter import Filter
from covey.errors import PlanError
from covey.planning.plan import Plan
from covey.protocol.control import BARE, PlanState
from covey.routing import jobs
from covey.routing.messages import (
    Advertise,
    Congestion,
    Key,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from covey.routing.outputs import Output
from covey.routing.router import Router

MakeRouter = Callable[[bytes], Router]  # of a plan's file; b"" is no plan
Outputs = list[tuple[int, list[Output]]]
Waiting = deque[tuple[Link, bytes]]  # events of neighbours, in the order in which they have come

SLICE: Final = 8  # subscriptions that a new router is told at a time: about half a millisecond


class Adoption:
    """A router on its way to what the others know of clients; see the module's text."""

    def __init__(self, router: Router, model: Router, now_s: float) -> None:
        self.router = router
        self._now_s = now_s
        self.waiting: Waiting = deque()
        self._advertised: dict[Link, dict[Key, Filter]] = {}  # that it has not been told yet
        self._subscribed = model.local_subscriptions()
        for link in self._subscribed:
            self._advertised[link] = model.advertised_by(link)
            router.handle(LinkUp(client=True), link, now_s)
        self._messages = self._untold()

    def _untold(self) -> Iterator[tuple[Link, Message]]:
        """Yield what the router has not been told, each as it is when its turn has come."""
        for link, advertised in self._advertised.items():
            for key in list(advertised):
                if key in advertised:
                    yield link, Advertise(key, advertised.pop(key))
        for link, subscribed in self._subscribed.items():
            for key in list(subscribed):
                if key in subscribed:
                    yield link, Subscribe(key, subscribed.pop(key))

    def fill(self, most: int | None) -> bool:
        """Tell the router at most so many things; return whether it knows all."""
        count = 0
        for link, message in islice(self._messages, most):
            outputs = self.router.handle(message, link, self._now_s)
            assert not outputs, "a router without neighbours has nobody to tell"
            count += 1
        return most is None or count < most

    def lets(self, message: Message, source: Link) -> bool:
        """Return whether the router is to hear this now; if not, what it says is seen to."""
        if isinstance(message, LinkUp):
            return message.client
        if not self.router.has_client(source):
            if isinstance(message, LinkDown):
                self.drop_waiting(source)
            return isinstance(message, Congestion)
        if isinstance(message, Unsubscribe):
            return self._subscribed.get(source, {}).pop(message.key, None) is None
        if isinstance(message, Unadvertise):
            return self._advertised.get(source, {}).pop(message.key, None) is None
        if isinstance(message, LinkDown):
            self._subscribed.get(source, {}).clear()
            self._advertised.get(source, {}).clear()
        return True

    def drop_waiting(self, link: Link) -> None:
        """A neighbour is gone, and its events."""
        self.waiting = deque(one for one in self.waiting if one[0] != link)


class Epochs:
    """The routers by epoch; see the module's text."""

    def __init__(self, make_router: MakeRouter, state: PlanState = BARE) -> None:
        self._make_router = make_router
        self.state = state
        self.routers = {epoch: make_router(plan) for epoch, plan in sorted(state.plans.items())}
        self.adopting: dict[int, Adoption] = {}  # epochs whose routers do not know all clients yet

    @property
    def current(self) -> int:
        """The epoch in which events of clients here set out."""
        return self.state.current

    @property
    def router(self) -> Router:
        """The router of that epoch."""
        return self.routers[self.state.current]

    def handle(self, message: Message, source: Link, now_s: float) -> Outputs:
        """Tell all routers what concerns them alike: links, and what clients ask for."""
        return [(epoch, self.tell(epoch, message, source, now_s)) for epoch in self.routers]

    def tell(self, epoch: int, message: Message, source: Link, now_s: float) -> list[Output]:
        """Tell the router of one epoch something, in whatever state it is, and return what it answers."""
        adoption = self.adopting.get(epoch)
        if adoption is not None and not adoption.lets(message, source):
            return []
        return self.routers[epoch].handle(message, source, now_s)

    def of_plans(self) -> list[tuple[int, Router]]:
        """Return the routers that follow a plan, over all links that it uses."""
        return [(epoch, router) for epoch, router in self.routers.items() if self.state.plans[epoch]]

    def of_overlay(self) -> list[tuple[int, Router]]:
        """Return the routers that use the overlay's own tree."""
        return [(epoch, router) for epoch, router in self.routers.items() if not self.state.plans[epoch]]

    def is_planned(self, epoch: int) -> bool:
        """Return whether the router of that epoch follows a plan."""
        return bool(self.state.plans[epoch])

    def remember_events(self) -> None:
        """Let routers of the overlay's tree remember events, as links may form a cycle for a moment."""
        for _, router in self.of_overlay():
            router.remember_events()

    def is_newer(self, state: PlanState) -> bool:
        """Return whether a state is to be adopted."""
        return state.order > self.state.order

    # -- states ----------------------------------------------------------------------------------------------

    def adopt(self, state: PlanState, now_s: float) -> set[int]:
        """Begin to adopt what is new, drop what is retired; return the epochs that are new.

        PlanError, and nothing is changed, if a plan cannot be used here.
        """
        made = {
            epoch: self._make_router(plan)
            for epoch, plan in sorted(state.plans.items())
            if epoch not in self.routers or self.state.plans[epoch] != plan
        }
        begun = {epoch: Adoption(router, self.complete, now_s) for epoch, router in made.items()}
        self.adopting = {e: one for e, one in self.adopting.items() if e in state.plans} | begun
        kept = {epoch: router for epoch, router in self.routers.items() if epoch in state.plans}
        self.routers = dict(sorted({**kept, **made}.items()))
        self.state = state
        return set(made)

    @property
    def complete(self) -> Router:
        """A router that knows all that clients have asked for."""
        for epoch, router in self.routers.items():
            if epoch not in self.adopting:
                return router
        # One plan has followed another before its router was complete, and nothing else was left.
        adoption = next(iter(self.adopting.values()))
        adoption.fill(None)
        return adoption.router

    def fill(self) -> tuple[int, Waiting] | None:
        """Tell a new router some of what clients want; return its epoch, and what waited for it, once it knows all.

        From then on it is a router like the others, which hears next that links are up.
        """
        if not self.adopting:
            return None
        epoch, adoption = next(iter(self.adopting.items()))
        if not adoption.fill(SLICE):
            return None
        del self.adopting[epoch]
        return epoch, adoption.waiting

    def drop_waiting(self, link: Link) -> None:
        """A neighbour is gone, and its events of epochs that are being adopted."""
        for adoption in self.adopting.values():
            adoption.drop_waiting(link)

    def is_busy(self, epoch: int, link: Link) -> bool:
        """Return whether the router of an epoch is not ready for what a neighbour says, except events."""
        return epoch in self.adopting or self.routers[epoch].is_busy(link)

    def is_ready(self, epoch: int) -> bool:
        """Return whether the tables of an epoch are complete, as far as this broker sees."""
        return epoch not in self.adopting and self.routers[epoch].is_synchronised()


def overlay_epoch(state: PlanState) -> int | None:
    """Return the epoch of the overlay itself, which no plan replaces."""
    return min((epoch for epoch, plan in state.plans.items() if not plan), default=None)


def idle_epochs(state: PlanState) -> set[int]:
    """Return the epochs that are on their way in or out: neither the current one nor the overlay's own."""
    return state.plans.keys() - {state.current, overlay_epoch(state)}


def router_maker(config: BrokerConfig) -> MakeRouter:
    """Return what makes the routers of a broker: by its settings, or as a plan says."""

    def make(plan: bytes) -> Router:
        if not plan:
            return Router(
                config.name,
                config.strategy,
                advertisements=config.advertisements,
                options=config.options,
                slice_units=jobs.SLICE,
            )
        decoded = Plan.decode(plan)
        if config.name not in decoded.brokers:
            raise PlanError(f"the plan does not know the broker {config.name}")
        trees = decoded.to_tree_plan()
        return Router(
            config.name,
            trees.strategy,
            advertisements=config.advertisements,
            plan=trees,
            slice_units=jobs.SLICE,
        )

    return make
