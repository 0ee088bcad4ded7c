"""What clients hold in the simulator: subscriptions and advertisements, wherever their broker has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core.filter import Filter
from covey.routing.messages import Key
from covey.routing.seen import Seen


@dataclass(eq=False, slots=True)
class Subscription:
    """A consumer's interest. While its client moves, it is at two brokers, under a key at each."""

    name: str
    filter: Filter
    client: str
    homes: dict[str, Key] = field(default_factory=dict)  # the last one is where it is or moves to
    seen: Seen | None = None  # what its client got lately, so that nothing comes twice
    moves: int = 0

    @property
    def broker(self) -> str:
        """The broker where it is, or moves to; empty once it is cancelled."""
        return next(reversed(self.homes), "")

    def __repr__(self) -> str:
        return f"<subscription {self.name} at {self.broker or 'nowhere'}: {self.filter}>"


@dataclass(eq=False, slots=True)
class Advertisement:
    """A producer's announcement."""

    key: Key
    filter: Filter
    broker: str
    client: str

    def __repr__(self) -> str:
        return f"<advertisement {self.key} at {self.broker}: {self.filter}>"
