"""How large the demonstration is; the defaults are for two processors and less than three minutes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from covey.demo.burst import Sizes


@dataclass(frozen=True)
class Settings:
    """
    seed           of everything that is drawn
    subscriptions  of all clients together
    clients        at each broker
    rate           events a second, of all feeds together
    sampled        events that brokers have sampled before planning begins, at least
    examples_s     how long events flow before examples are shown
    after_s        how long events flow under the plan
    burst          the sizes of the act in which covering subscriptions leave
    """

    seed: int = 1
    subscriptions: int = 4_000
    clients: int = 4
    rate: float = 80.0
    sampled: int = 1_000
    examples_s: float = 3.0
    after_s: float = 10.0
    burst: Sizes = field(default_factory=Sizes)


QUICK: Final = Settings(
    subscriptions=600,
    clients=1,
    rate=60.0,
    sampled=900,  # with a third of it, whether the plan saves anything is left to chance
    examples_s=1.0,
    after_s=5.0,
    burst=Sizes(topics=2, intervals=30, events=120, rate=40.0, apart_s=0.5),
)


def settings_of(seed: int, sizes: Settings | None = None) -> Settings:
    """Return the usual sizes, or these, with a seed."""
    return replace(sizes or Settings(), seed=seed)
