"""Tables in force are learnt in slices: whatever arrives between two of them, events stay right and tables end equal.

Two routers, each with a client. One was loaded with what the other had let it know before, some of which is true no
longer; what the neighbour has asked for since then is not in it. Their link comes up. Until all work is done, chance
decides what is next: a slice, a message on the link, a wish of a client, an event. An event for a subscription that was
loaded and is true all the time has to be sent on at every moment: nothing that is in force may be missing in between.
"""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

import covey
import covey.strategies
from covey.core.event import Event
from covey.routing.digest import Fact
from covey.routing.messages import LinkUp, Message, Publish, Subscribe, Unsubscribe
from covey.routing.outputs import Output, Send
from covey.routing.router import Router

SUBSCRIPTIONS = 40
SLICE_UNITS = 50  # a filter or two


def filter_of(number: int) -> covey.Filter:
    return covey.parse(f"n >= {number % 11} and n < {number % 11 + 2 + number % 3} and m = {number % 4}")


class Pair:
    """The routers a and b, the link between them, and what is on its way there."""

    def __init__(self, strategy: str, random: Random) -> None:
        self.random = random
        self.routers = {
            name: Router(name, strategy, advertisements=False, slice_units=SLICE_UNITS) for name in "ab"
        }
        self.ways: dict[str, deque[Message]] = {"a": deque(), "b": deque()}  # by who is to hear it
        self.passed: list[Publish] = []
        for router in self.routers.values():
            router.handle(LinkUp(client=True), "me")
        self.wanted = {f"k{number}": filter_of(number) for number in range(SUBSCRIPTIONS)}
        for key, filter in self.wanted.items():
            self.routers["b"].handle(Subscribe(key, filter), "me")
        kept = [key for key in self.wanted if random.random() < 0.7]
        loaded = [Fact(key, self.wanted[key]) for key in kept]
        loaded += [Fact(f"old{number}", filter_of(7 * number)) for number in range(random.randrange(12))]
        self.routers["a"].load("b", subscriptions=loaded)
        self.steady = set(kept)
        self.next_key = 1_000
        self.served = 0

    def take(self, name: str, outputs: list[Output]) -> None:
        other = "b" if name == "a" else "a"
        for one in outputs:
            if isinstance(one, Send) and one.link == other:
                if isinstance(one.message, Publish):
                    self.passed.append(one.message)
                else:
                    self.ways[other].append(one.message)

    def come(self) -> None:
        for name, router in self.routers.items():
            self.take(name, router.handle(LinkUp(pieces=True), "b" if name == "a" else "a"))

    def possible(self) -> list[tuple[str, str]]:
        """Return what the routers have still to do, or to hear."""
        found = [("work", name) for name, router in self.routers.items() if router.busy]
        for name, way in self.ways.items():
            other = "b" if name == "a" else "a"
            if way and not self.routers[name].is_busy(other):
                found.append(("hear", name))
        return found

    def go_on(self, what: str, name: str) -> None:
        router, other = self.routers[name], "b" if name == "a" else "a"
        self.take(
            name, router.work(other) if what == "work" else router.handle(self.ways[name].popleft(), other)
        )

    def wish(self) -> None:
        """Let the client of b ask for something more, or withdraw something."""
        router, random = self.routers["b"], self.random
        if random.random() < 0.5:
            key = f"k{self.next_key}"
            self.next_key += 1
            self.wanted[key] = filter_of(random.randrange(1_000))
            self.take("b", router.handle(Subscribe(key, self.wanted[key]), "me"))
        else:
            key = random.choice(sorted(self.wanted))
            del self.wanted[key]
            self.steady.discard(key)
            self.take("b", router.handle(Unsubscribe(key), "me"))

    def publish(self, number: int) -> None:
        """Publish at a: what was loaded and is true all the time is served."""
        event = Event({"n": self.random.randrange(15), "m": self.random.randrange(4)})
        before = len(self.passed)
        self.take("a", self.routers["a"].handle(Publish(event, f"a/{number}"), "me"))
        is_open = "b" in self.routers["a"].trees[0].neighbours()
        if is_open and any(self.wanted[key].matches(event) for key in self.steady):
            self.served += 1
            assert len(self.passed) == before + 1, f"{event} is not sent on"

    def is_wanted(self, event: Event) -> bool:
        return any(filter.matches(event) for filter in self.wanted.values())


@pytest.mark.parametrize("strategy", ["simple", "covering", "incremental"])
@pytest.mark.parametrize("seed", range(12))
def test_events_stay_right_while_tables_are_learnt_in_slices(strategy: str, seed: int) -> None:
    random = Random(seed)
    pair = Pair(strategy, random)
    pair.come()
    slices = 0
    while todo := pair.possible():
        chance = random.random()
        if chance < 0.15 and slices < 400:
            pair.wish()
        elif chance < 0.4:
            pair.publish(slices)
        else:
            what, name = random.choice(todo)
            pair.go_on(what, name)
            slices += 1
    assert slices > 30, "there was much to do"
    assert pair.served > 3
    heard = set(pair.routers["a"].trees[0].strategy.iter_heard("b"))
    told = set(pair.routers["b"].trees[0].strategy.iter_told("a"))
    assert heard == told
    for n in range(15):
        for m in range(4):
            event, before = Event({"n": n, "m": m}), len(pair.passed)
            pair.take("a", pair.routers["a"].handle(Publish(event, f"a/{n}/{m}"), "me"))
            assert (len(pair.passed) > before) == pair.is_wanted(event)
