"""A look at the network: what brokers say of themselves at one moment, and what follows from it. Nothing is asked here.

Counters of brokers only grow, but for a broker that was started again and counts from nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from covey.errors import PlanError
from covey.planning.plan import Plan, PlannedTree

MOST_NAME: Final = 255  # characters of a broker's name
LATEST_S: Final = 1e11  # that a clock can show: the year 5138


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
    skew_s: float | None = None  # how far its clock is ahead of ours, at least; None if that is not known

    @classmethod
    def of(
        cls,
        url: str,
        varz: Mapping[str, Any],
        planz: Mapping[str, Any],
        asked_s: tuple[float, float] | None = None,
    ) -> BrokerLook:
        """Return what the pages `/varz` and `/planz` say; KeyError, TypeError or ValueError if they are others.

        `asked_s` is when, by our clock, `/varz` was asked for and had come.
        """
        name = str(varz["broker"])
        if not (0 < len(name) <= MOST_NAME and name.isprintable()):
            raise ValueError(f"{name!r:.40} is no name of a broker")
        own = [one for one in planz["epochs"] if not one["planned"]]
        installation = planz["installation"] or {}
        return cls(
            broker=name,
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
            skew_s=None if asked_s is None else skew_of(varz.get("time_s"), *asked_s),
        )


def skew_of(clock_s: Any, asked_s: float, answered_s: float) -> float | None:
    """Return how far a clock is ahead of ours (behind: below 0) that was read between two moments of ours.

    It is the least that it can be, 0 if the clock showed a time in between; None for what is no time.
    """
    if isinstance(clock_s, bool) or not isinstance(clock_s, int | float):
        return None
    if not math.isfinite(clock_s) or abs(clock_s) > LATEST_S:
        return None
    return clock_s - min(max(clock_s, asked_s), answered_s)


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
