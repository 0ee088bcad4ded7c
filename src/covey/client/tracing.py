"""Tracing: where an event would go in a live network, followed from broker to broker through their admin pages.

No I/O is in here: `follow` yields the questions, for `/explainz`, and is sent the answers. `covey explain` asks over
urllib, the dashboard over asyncio.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Place(NamedTuple):
    """Where an event comes: a broker, and the tree on which it comes there; None where it is published."""

    broker: str
    tree: int | None


class Ask(NamedTuple):
    """A question for the page /explainz of a broker."""

    broker: str
    question: Mapping[str, Any]


Answer = Mapping[str, Any]
Following = Generator[Ask, Answer, "Trace"]


@dataclass(frozen=True)
class Trace:
    """Where the event came, in the order of breadth; `answers` are the brokers' own, `came_from` the place before."""

    start: Place
    answers: Mapping[Place, Answer]
    came_from: Mapping[Place, Place | None]

    @property
    def is_allowed(self) -> bool:
        """Whether its publisher may publish it."""
        return self.answers[self.start]["allowed"] is not False

    def visited(self) -> set[str]:
        """Return the brokers at which it came."""
        return {place.broker for place in self.answers}

    def at(self, broker: str) -> Place | None:
        """Return the first place at a broker, None if it never came there."""
        return next((place for place in self.answers if place.broker == broker), None)

    def way(self, place: Place) -> list[str]:
        """Return the brokers from the first to this one."""
        return [one.broker for one in path(self.came_from, place)]


def follow(
    start: str, brokers: Collection[str], question: Mapping[str, Any], publisher: str = ""
) -> Following:
    """Follow an event from a broker as far as it goes among these brokers: yields questions, is sent the answers."""
    begin = Place(start, None)
    answers: dict[Place, Answer] = {}
    came_from: dict[Place, Place | None] = {begin: None}
    waiting: deque[tuple[Place, dict[str, Any]]] = deque([(begin, {"source": publisher})])
    while waiting:
        place, envelope = waiting.popleft()
        answer = answers[place] = yield Ask(place.broker, {**question, **envelope})
        if answer["allowed"] is False:
            break
        for hop in answer["hops"]:
            following = Place(hop["link"], hop["tree"])
            if hop["goes"] and following.broker in brokers and following not in came_from:
                came_from[following] = place
                carried = {name: hop.get(name) for name in ("flooded", "destinations", "tree")}
                waiting.append((following, {"source": place.broker, **carried}))
    return Trace(begin, answers, came_from)


def path(came_from: Mapping[T, T | None], last: T) -> list[T]:
    """Return the way to a place, by what is before each."""
    found: list[T] = []
    at: T | None = last
    while at is not None:
        found.append(at)
        at = came_from[at]
    return found[::-1]
