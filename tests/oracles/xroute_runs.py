"""Random runs of XROUTE: a random tree of brokers where subscriptions and advertisements come and go, with checks.

rest=True     the network settles after every operation and is compared with everything that is known of it
rest=False    operations fall between messages that are under way, over links with random delays; it is compared at
              the end, and brokers by themselves after every arrival
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.oracles import bit_filters, xroute_checks

from covey.core.filter import Filter
from covey.errors import CoveyError
from covey.sim import Network
from covey.sim.handles import Advertisement, Subscription

FILTERS: Sequence[Filter] = list(bit_filters.ALL.values())


def random_links(random: Random) -> list[tuple[str, str]]:
    """Return a tree of 4 to 8 brokers."""
    count = random.randint(4, 8)
    return [(f"b{random.randrange(number)}", f"b{number}") for number in range(1, count)]


class Run:
    """One random run; the same seed gives the same one."""

    def __init__(
        self,
        seed: int,
        strategy: str = "xroute",
        *,
        advertisements: bool = False,
        rest: bool = True,
        faults: bool = False,
        operations: int = 20,
        filters: Sequence[Filter] = FILTERS,
        events: Sequence[Any] = bit_filters.EVENTS,
    ) -> None:
        self.random = Random(f"xroute {seed}")
        links = random_links(self.random)
        self.net = Network(links, strategy, advertisements=advertisements, seed=seed, delay="exponential")
        self.rest = rest
        self.faults = faults
        self.cut: list[tuple[str, str]] = []
        self.operations = operations
        self.filters = filters
        self.events = events
        self.subscribed: list[Subscription] = []
        self.advertised: list[Advertisement] = []

    def go(self) -> None:
        """Run, and withdraw everything at the end; AssertionError or whatever else shows that something is wrong."""
        for _ in range(self.operations):
            self.operation()
            self.advance()
        self.settle()
        while self.subscribed or self.advertised:
            self.withdraw()
            self.advance()
        self.settle()
        xroute_checks.check_empty(self.net)

    def operation(self) -> None:
        """Do something at random."""
        dice = self.random.random()
        if self.faults and self.random.random() < 0.2:
            self.fault()
        elif self.net.advertisements and dice < 0.3:
            if self.advertised and self.random.random() < 0.4:
                self.net.unadvertise(self._pick(self.advertised))
            else:
                self.advertised.append(self.net.advertise(self._broker(), self._filter()))
        elif self.subscribed and self.random.random() < 0.4:
            self.net.unsubscribe(self._pick(self.subscribed))
        else:
            self.subscribed.append(self.net.subscribe(self._broker(), self._filter()))

    def fault(self) -> None:
        """Cut a link, or restore one."""
        if self.cut and self.random.random() < 0.5:
            self.net.link_up(*self._pick(self.cut))
        else:
            link = self.random.choice(
                [link for link in self.net.overlay.links if link not in self.cut] or [None]
            )
            if link is not None:
                self.cut.append(link)
                self.net.link_down(*link)

    def withdraw(self) -> None:
        """Withdraw something at random."""
        if self.advertised and (not self.subscribed or self.random.random() < 0.3):
            self.net.unadvertise(self._pick(self.advertised))
        else:
            self.net.unsubscribe(self._pick(self.subscribed))

    def advance(self) -> None:
        """Settle, or let a few things happen only."""
        if self.rest:
            self.settle()
        else:
            for _ in range(self.random.randrange(6)):
                self.step()

    def settle(self) -> None:
        """Let everything happen, with all links, then check everything."""
        while self.cut:
            self.net.link_up(*self.cut.pop())
        while self.step():
            pass
        self.net.settle()
        xroute_checks.check_rest(self.net, self.events)

    def step(self) -> bool:
        """Let one thing happen."""
        happened = self.net.engine.step()
        if happened:
            xroute_checks.check_instances(self.net)
        return happened

    def _pick(self, handles: list[Any]) -> Any:
        return handles.pop(self.random.randrange(len(handles)))

    def _broker(self) -> str:
        return self.random.choice(self.net.brokers)

    def _filter(self) -> Filter:
        return self.random.choice(self.filters)


def failing_seed(seeds: int, **settings: Any) -> int | None:
    """Return the first seed whose run shows that something is wrong, None if none does."""
    for seed in range(seeds):
        try:
            Run(seed, **settings).go()
        except (AssertionError, CoveyError, KeyError):  # a check fails, or a broker stumbles
            return seed
    return None
