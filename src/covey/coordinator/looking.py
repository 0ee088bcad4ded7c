"""A look at the network: what brokers say of themselves at one moment, and what follows from it. Nothing is asked here.

Counters of brokers only grow, but for a broker that was started again and counts from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from covey.errors import PlanError
from covey.planning.plan import Plan, PlannedTree


@dataclass(frozen=True)
class BrokerLook:
    """One broker: what it has counted, its neighbours that are up, those on the overlay's own tree, and its epoch."""

    broker: str
    url: str
    published: int
    forwarded: int
    entries: int
    subscriptions: int
    neighbours: tuple[str, ...]  # that are configured
    links_up: tuple[str, ...]
    on_tree: tuple[str, ...]
    epoch: int
    version: int
    step: str = "done"  # of what was installed last at this broker

    @classmethod
    def of(cls, url: str, varz: Mapping[str, Any], planz: Mapping[str, Any]) -> BrokerLook:
        """Return what the pages `/varz` and `/planz` say; KeyError, TypeError or ValueError if they are others."""
        own = [one for one in planz["epochs"] if not one["planned"]]
        installation = planz["installation"] or {}
        return cls(
            broker=str(varz["broker"]),
            url=url,
            published=int(varz["totals"]["events_published"]),
            forwarded=int(varz["totals"]["events_forwarded"]),
            entries=int(varz["entries"]),
            subscriptions=int(varz["subscriptions"]),
            neighbours=tuple(map(str, varz["neighbours"])),
            links_up=tuple(map(str, varz["links_up"])),
            on_tree=tuple(map(str, own[0]["trees"][0]["links_up"])) if own else (),
            epoch=next(int(one["epoch"]) for one in planz["epochs"] if one["current"]),
            version=int(planz["version"]),
            step=str(installation.get("step", "done")),
        )


@dataclass(frozen=True)
class Look:
    """All brokers at one moment; `away` has why those cannot be seen that cannot, by address."""

    brokers: Mapping[str, BrokerLook] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_installing(self) -> bool:
        """Whether a plan is on its way in somewhere, or brokers follow different ones."""
        epochs = {(one.epoch, one.version) for one in self.brokers.values()}
        return len(epochs) > 1 or any(one.step in ("waiting", "probing") for one in self.brokers.values())

    @property
    def is_settling(self) -> bool:
        """Whether the plan before is still kept beside the one in use, so that no other can be installed yet."""
        return any(one.step in ("switched", "back") for one in self.brokers.values())

    def strangers(self) -> set[str]:
        """Return neighbours of these brokers that are not looked at themselves."""
        named = {name for one in self.brokers.values() for name in one.neighbours}
        return named - set(self.brokers)

    def links(self) -> set[tuple[str, str]]:
        """Return the links that are up, as both ends see it."""
        return _agreed((one.broker, one.links_up) for one in self.brokers.values())

    def overlay_plan(self) -> Plan:
        """Return the overlay's own tree as a plan; PlanError if it does not join all brokers at the moment."""
        links = self.links()
        tree = _agreed((one.broker, one.on_tree) for one in self.brokers.values()) & links
        names = tuple(sorted(self.brokers))
        return Plan(
            method="overlay",
            seed=0,
            brokers=names,
            links=tuple((a, b, 1.0) for a, b in sorted(links)),
            trees=(PlannedTree(names[0], tuple(sorted(tree))),) if names else (),
        )

    def is_whole(self) -> bool:
        """Return whether every broker is seen and the overlay's own tree joins them."""
        try:
            self.overlay_plan()
        except PlanError:
            return False
        return not self.away


def _agreed(said: Iterable[tuple[str, Iterable[str]]]) -> set[tuple[str, str]]:
    ways = {(broker, other) for broker, others in said for other in others}
    return {(a, b) for a, b in ways if a < b and (b, a) in ways}


@dataclass(frozen=True)
class Traffic:
    """Events that clients published, and how often they crossed a link, between looks."""

    published: int = 0
    forwarded: int = 0

    @property
    def per_event(self) -> float | None:
        """How many links an event crossed; None if there was none."""
        return self.forwarded / self.published if self.published else None

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.published + other.published, self.forwarded + other.forwarded)


Counts = Mapping[str, tuple[int, int]]  # by broker: published, forwarded


def counts_of(look: Look) -> dict[str, tuple[int, int]]:
    """Return the counters of a look."""
    return {name: (one.published, one.forwarded) for name, one in look.brokers.items()}


def traffic_between(before: Counts, now: Counts) -> Traffic:
    """Return what was counted between two looks, by brokers that were seen both times."""
    total = Traffic()
    for broker, (published, forwarded) in now.items():
        if broker in before:
            earlier = before[broker]
            again = published < earlier[0] or forwarded < earlier[1]
            total += (
                Traffic(published, forwarded)
                if again
                else Traffic(published - earlier[0], forwarded - earlier[1])
            )
    return total
