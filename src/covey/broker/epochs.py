"""Epochs: the routers of one broker, one for each plan that is installed, and which of them events set out in.

A plan is installed beside what runs. Every broker makes a router of its own for it, with the same clients and
neighbours, and both are kept up to date; an event travels in the epoch in which it set out, which its frame says, so
it is delivered once however many epochs there are. When the new tables are complete everywhere the network switches:
brokers let events set out in the new epoch. Nothing is taken away before that, and until the old epoch is retired the
network can switch back.

What is installed is one small value, `PlanState`, the same at all brokers: the newest version is told to everyone, and
to whoever comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from covey.broker.config import BrokerConfig
from covey.errors import PlanError
from covey.planning.plan import Plan
from covey.protocol.control import BARE, PlanState
from covey.routing.messages import Advertise, Link, LinkUp, Message, Subscribe
from covey.routing.outputs import Output
from covey.routing.router import Router

MakeRouter = Callable[[bytes], Router]  # of a plan's file; b"" is no plan
Outputs = list[tuple[int, list[Output]]]


class Epochs:
    """The routers by epoch; see the module's text."""

    def __init__(self, make_router: MakeRouter, state: PlanState = BARE) -> None:
        self._make_router = make_router
        self.state = state
        self.routers = {epoch: make_router(plan) for epoch, plan in sorted(state.plans.items())}

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
        return [(epoch, router.handle(message, source, now_s)) for epoch, router in self.routers.items()]

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

    def adopt(
        self, state: PlanState, connected: Iterable[Link], attached: Iterable[Link], now_s: float
    ) -> Outputs:
        """Install what is new, drop what is retired; return what the new routers have to say.

        Plans use the links that are connected, the overlay's own tree those that are attached.
        PlanError, and nothing is changed, if a plan cannot be used here.
        """
        made = {
            epoch: self._make_router(plan)
            for epoch, plan in sorted(state.plans.items())
            if epoch not in self.routers or self.state.plans[epoch] != plan
        }
        model = self.router
        outputs: Outputs = []
        for epoch, router in made.items():
            mine: list[Output] = []
            for source, message in clients_of(model):
                mine += router.handle(message, source, now_s)
            for link in connected if state.plans[epoch] else attached:
                mine += router.handle(LinkUp(), link, now_s)
            outputs.append((epoch, mine))
        kept = {epoch: router for epoch, router in self.routers.items() if epoch in state.plans}
        self.routers = dict(sorted({**kept, **made}.items()))
        self.state = state
        return outputs

    def is_ready(self) -> bool:
        """Return whether the tables of all epochs are complete, as far as this broker sees."""
        return all(router.is_synchronised() for router in self.routers.values())


def router_maker(config: BrokerConfig) -> MakeRouter:
    """Return what makes the routers of a broker: by its settings, or as a plan says."""

    def make(plan: bytes) -> Router:
        if not plan:
            return Router(
                config.name,
                config.strategy,
                advertisements=config.advertisements,
                options=config.options,
            )
        decoded = Plan.decode(plan)
        if config.name not in decoded.brokers:
            raise PlanError(f"the plan does not know the broker {config.name}")
        trees = decoded.to_tree_plan()
        return Router(config.name, trees.strategy, advertisements=config.advertisements, plan=trees)

    return make


def clients_of(router: Router) -> Sequence[tuple[Link, Message]]:
    """Return what makes another router know the same clients."""
    said: list[tuple[Link, Message]] = []
    for link, subscriptions in router.local_subscriptions().items():
        said.append((link, LinkUp(client=True)))
        said += [(link, Advertise(key, filter)) for key, filter in router.advertised_by(link).items()]
        said += [(link, Subscribe(key, filter)) for key, filter in subscriptions.items()]
    return said
