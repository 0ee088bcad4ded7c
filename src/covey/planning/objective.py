"""What a plan costs whoever runs the network: traffic, tables, trees, publishing and the change itself, in one number.

Everything is priced in one unit: one event of average size that crosses a link of cost 1. Traffic and publishing are
paid by each event. Tables, trees and the change are paid once in a *period*, the events for which a plan is expected to
stay, so their share of one event is divided by it. `bill` adds up what an event costs by each of these.

Entries are told over links, so their price is in messages, which are as dear as events. Defaults and their reasons:

    traffic      1      by definition
    entry        2      a subscription comes and goes once in a period: each of its entries is told and withdrawn
    memory       4      for a KiB: a GiB of memory for a day costs about as much as 4 million events of 200 bytes over a
                        link of a public cloud
    tree        10      for a tree at one broker: its state, and what it says again when a link comes up
    copy         0.5    the publisher's broker matches and frames an event once for each tree: half of receiving and
                        sending it
    trial        0.05   for each tree on which `regions-cheapest` tries an event: a walk over its hosts
    migration    1      an entry that is not there yet is one message
    period   1,000,000  a day at 12 events a second, or a quarter of an hour at 1,100

`front` returns the alternatives that no other beats in both traffic and entries (the Pareto front), and `steps` what
each step along it exchanges: the price of an entry at which the step stops paying.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Final

from covey.errors import ConfigError

KIB: Final = 1024
ENTRY_BYTES: Final = 160  # of an entry beside the filter itself: handles, links and postings of the index
EQUAL: Final = 1e-9  # of the greater of two costs: less is rounding


@dataclass(frozen=True)
class Objective:
    """Prices, and limits beyond them; ConfigError in one line for what cannot be.

    max_entries   the most entries that all tables together may have; None: as many as pay
    min_saving    the share of what one tree costs by these prices that a plan must save; else it is one tree
    """

    traffic: float = 1.0
    entry: float = 2.0
    memory: float = 4.0
    tree: float = 10.0
    copy: float = 0.5
    trial: float = 0.05
    migration: float = 1.0
    period: float = 1_000_000.0
    max_entries: int | None = None
    min_saving: float = 0.0

    def __post_init__(self) -> None:
        for name in PRICES:
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise ConfigError(f"the price {name} is a number from 0 on, not {value!r:.40}")
        if not self.period >= 1:
            raise ConfigError(f"the period is at least one event, not {self.period!r:.40}")
        if self.max_entries is not None and self.max_entries < 0:
            raise ConfigError(f"the most entries cannot be {self.max_entries}")
        if not 0 <= self.min_saving < 1:
            raise ConfigError(f"the least saving is a share from 0 to below 1, not {self.min_saving}")

    def as_dict(self) -> dict[str, float | int | None]:
        """Return all of it by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_prices(self, given: Mapping[str, float]) -> Objective:
        """Return the objective with these prices; ConfigError for a name that is none."""
        for name in given:
            if name not in PRICES:
                raise ConfigError(f"there is no price {name!r:.40} (hint: one of {', '.join(PRICES)})")
        changed: dict[str, Any] = dict(given)
        return replace(self, **changed)

    def fits(self, entries: float) -> bool:
        """Say whether so many entries are allowed."""
        return self.max_entries is None or entries <= self.max_entries


PRICES: Final = tuple(
    field.name for field in fields(Objective) if field.name not in ("max_entries", "min_saving")
)


@dataclass(frozen=True)
class Usage:
    """What an alternative uses: cost, copies and trials (trees tried) of one event, and what there is of the rest.

    `moved` is how many entries must be told before it runs: none for what runs already.
    """

    cost: float
    copies: float = 0.0
    trials: float = 0.0
    entries: float = 0.0
    bytes: float = 0.0
    trees: int = 1
    brokers: int = 1
    moved: float = 0.0


@dataclass(frozen=True)
class Bill:
    """The price of one event, by what it is paid for."""

    traffic: float
    tables: float
    memory: float
    trees: float
    publishing: float
    migration: float

    @property
    def fixed(self) -> float:
        """What is paid beside the traffic."""
        return self.tables + self.memory + self.trees + self.publishing + self.migration

    @property
    def total(self) -> float:
        """The price of an event."""
        return self.traffic + self.fixed

    def as_dict(self) -> dict[str, float]:
        """Return the parts by name, with the total."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"total": self.total}


def bill(objective: Objective, usage: Usage) -> Bill:
    """Return what an event costs by each price."""
    share = 1.0 / objective.period
    return Bill(
        traffic=objective.traffic * usage.cost,
        tables=objective.entry * usage.entries * share,
        memory=objective.memory * usage.bytes / KIB * share,
        trees=objective.tree * usage.trees * usage.brokers * share,
        publishing=objective.copy * usage.copies + objective.trial * usage.trials,
        migration=objective.migration * usage.moved * share,
    )


@dataclass(frozen=True)
class Offer:
    """An alternative that could be installed: its name, the traffic of an event, entries, trees, and its price."""

    name: str
    cost: float
    entries: float
    trees: int
    price: float


def cheapest(objective: Objective, offers: Sequence[Offer], one_tree: str) -> tuple[Offer, str]:
    """Return the offer to take and the reason in a line.

    The least price among those that fit; of equals the one with fewer trees, then the one named first. If none has
    few enough entries, the one with the fewest. One tree stays unless the saving is at least `min_saving`.
    """
    if not offers:
        raise ConfigError("there is nothing to choose from")
    fitting = [offer for offer in offers if objective.fits(offer.entries)]
    if not fitting:
        best = min(offers, key=lambda offer: (offer.entries, offer.price))
        few = f"{best.name} has the fewest, {best.entries:,.0f}"
        return best, f"no plan has at most {objective.max_entries:,} entries; {few}"
    least = min(offer.price for offer in fitting)
    equal = [offer for offer in fitting if offer.price <= least + EQUAL * abs(least)]
    best = min(equal, key=lambda offer: offer.trees)
    listed = ", ".join(f"{offer.name} {offer.price:.6g}" for offer in offers)
    reason = f"{best.name} has the least price on held-out events, {best.price:.6g} an event, of {listed}"
    if len(fitting) < len(offers):
        left = [offer.name for offer in offers if offer not in fitting]
        reason += f"; {', '.join(left)} would need more than {objective.max_entries:,} entries"
    single = next((offer for offer in fitting if offer.name == one_tree), None)
    if single is not None and best is not single:
        saving = 1 - best.price / single.price if single.price else 0.0
        if saving < objective.min_saving:
            reason += (
                f"; but it saves {saving:.1%}, less than the {objective.min_saving:.1%} that were asked for"
            )
            best = single
    return best, reason


def front(offers: Iterable[Offer]) -> list[Offer]:
    """Return the offers that no other beats in both traffic and entries, from few entries to many.

    Of offers that are equal in both, the one with the fewest trees stays, then the first by name.
    """
    found: list[Offer] = []
    for offer in sorted(offers, key=lambda one: (one.entries, one.cost, one.trees, one.name)):
        if not found or offer.cost < found[-1].cost - EQUAL * abs(found[-1].cost):
            found.append(offer)
    return found


@dataclass(frozen=True)
class Step:
    """A step along the front: what the second offer saves and needs beyond the first.

    `worth` is the price of an entry, in messages a period, up to which the traffic saved pays for the entries.
    """

    start: Offer
    end: Offer
    saved: float
    more: float
    worth: float


def steps(objective: Objective, along: Sequence[Offer]) -> list[Step]:
    """Return the steps along a front."""
    found = []
    for start, end in pairwise(along):
        saved, more = start.cost - end.cost, end.entries - start.entries
        found.append(Step(start, end, saved, more, objective.traffic * saved * objective.period / more))
    return found
