"""When a broker's table knows everybody: networks of `Completeness` that tell each other, in any order."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.broker.durable.completeness import MANY, PATIENCE, Ask, Completeness, Interest, Said, Whole
from covey.core.event import Event
from covey.core.families import parse


class Wire:
    """A tree of brokers that hear each other's WHOLE with delay; probes are echoed when a test says so."""

    def __init__(self, parents: list[int]) -> None:
        self.links = [(str(parent), str(child)) for child, parent in enumerate(parents, 1)]
        self.queues: dict[tuple[str, str], deque[bool]] = {}
        self.probes: dict[str, list[str]] = {}
        self.brokers: dict[str, Completeness] = {}
        for name in map(str, range(len(parents) + 1)):
            neighbours = [b if a == name else a for a, b in self.links if name in (a, b)]
            for other in neighbours:
                self.queues[name, other] = deque()
            self.probes[name] = []
            self.brokers[name] = Completeness(neighbours, f"{name}?")

    def say(self, name: str, said: Said) -> None:
        """Do what a broker yields."""
        for one in said:
            if isinstance(one, Whole):
                self.queues[name, one.link].append(one.is_whole)
            else:
                self.probes[name].append(one.probe)

    def come_up(self, a: str, b: str) -> None:
        """A link comes up; what was under way on it is lost."""
        for one, other in ((a, b), (b, a)):
            self.queues[one, other].clear()
            self.say(one, self.brokers[one].link_up(other))
        for one, other in ((a, b), (b, a)):
            self.say(one, self.brokers[one].synchronised(other, 0, {0}))

    def step(self, choice: int) -> bool:
        """Let one thing happen that is under way; return whether there was one."""
        names = [name for name, probes in self.probes.items() if probes]
        pairs = [pair for pair, queue in self.queues.items() if queue]
        if not names and not pairs:
            return False
        place = choice % (len(names) + len(pairs))
        if place < len(names):
            name = names[place]
            self.say(name, self.brokers[name].echoed(self.probes[name].pop(0)))
        else:
            source, target = pairs[place - len(names)]
            self.say(target, self.brokers[target].said(source, self.queues[source, target].popleft()))
        return True

    def settle(self, choices: list[int]) -> None:
        """Let everything happen, in an order."""
        at = 0
        while self.step(choices[at % len(choices)]):
            at += 1
            assert at < 10_000, "it comes to rest"


TREES = st.integers(0, 6).flatmap(
    lambda count: st.tuples(*(st.integers(0, child) for child in range(count))).map(list)
)
CHOICES = st.lists(st.integers(0, 1_000), min_size=1, max_size=30)


@given(TREES, CHOICES)
def test_everybody_is_complete_in_the_end_whatever_the_order(parents: list[int], choices: list[int]) -> None:
    wire = Wire(parents)
    for a, b in wire.links:
        wire.come_up(a, b)
    wire.settle(choices)
    assert all(broker.is_complete for broker in wire.brokers.values())


@given(TREES.filter(bool), CHOICES, st.data())
def test_nobody_is_complete_while_a_link_has_not_come_up(
    parents: list[int], choices: list[int], data: st.DataObject
) -> None:
    wire = Wire(parents)
    missing = data.draw(st.sampled_from(wire.links))
    for a, b in wire.links:
        if (a, b) != missing:
            wire.come_up(a, b)
    wire.settle(choices)
    assert not any(broker.is_complete for broker in wire.brokers.values())
    wire.come_up(*missing)
    wire.settle(choices)
    assert all(broker.is_complete for broker in wire.brokers.values())


@given(TREES.filter(bool), CHOICES, st.lists(st.integers(0, 100), max_size=8))
def test_links_that_break_again_and_again(parents: list[int], choices: list[int], breaks: list[int]) -> None:
    wire = Wire(parents)
    for a, b in wire.links:
        wire.come_up(a, b)
    for number in breaks:
        wire.come_up(*wire.links[number % len(wire.links)])
        wire.step(number)
    wire.settle(choices)
    assert all(broker.is_complete for broker in wire.brokers.values())


def test_what_is_withdrawn_is_announced_before() -> None:
    wire = Wire([0, 1])  # 0 - 1 - 2
    for a, b in wire.links:
        wire.come_up(a, b)
    wire.settle([0])
    assert wire.brokers["0"].is_complete
    wire.say("1", wire.brokers["1"].link_up("2"))  # before the router of 1 withdraws anything towards 0
    assert list(wire.queues["1", "0"]) == [False]
    wire.settle([0])
    assert not wire.brokers["0"].is_complete


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("reached", [False, True])
def test_something_new_is_advertised_and_a_neighbour_is_lost(reached: bool, answered: bool) -> None:
    wire = Wire([0, 1])
    for a, b in wire.links:
        wire.come_up(a, b)
    wire.settle([0])
    middle = wire.brokers["1"]
    before, number = 4, 5  # advertisements
    if not reached:
        wire.say("1", middle.link_lost("2"))
        assert middle.interest("2") is Interest.WHOLE, "everything is answered"
    wire.say("1", middle.advertised("2", "ad", parse("a = 1"), number if reached else 0))
    middle.answered("2", number if answered else before)
    if reached:
        wire.say("1", middle.link_lost("2"))
    wire.settle([0])
    is_known = reached and answered
    assert middle.interest("2") is (Interest.WHOLE if is_known else Interest.STALE)
    assert middle.is_complete is is_known
    assert wire.brokers["0"].is_complete is is_known
    wire.say("1", middle.said("2", True))
    assert middle.is_complete is is_known, "what it has said before it was lost says nothing"
    wire.come_up("1", "2")
    wire.settle([0])
    assert wire.brokers["0"].is_complete


def probes(said: Said) -> list[str]:
    """Return what is asked; nobody is told anything."""
    found = list(said)
    assert all(isinstance(one, Ask) for one in found)
    return [one.probe for one in found if isinstance(one, Ask)]


def test_an_event_is_answered_when_every_neighbour_has_echoed_what_was_sent_after_the_advertisement() -> None:
    one = Completeness(["1", "2"], "?")
    inside, outside = Event({"a": 1}), Event({"a": 2})
    for link in ("1", "2"):
        assert not probes(one.advertised(link, "ad", parse("a = 1"), 1))
    assert one.is_answered(outside)
    assert not one.is_answered(inside)
    assert len(probes(one.have_answered())) == 1
    assert not probes(one.have_answered()), "one question at a time"
    one.answered("1", 1)
    assert not one.is_answered(inside)
    assert not probes(one.advertised("2", "other", parse("a = 1"), 2))
    one.answered("2", 1)
    assert not one.is_answered(inside), "the echo says nothing of what was advertised after the probe"
    one.unadvertised("2", "other")
    assert one.is_answered(inside)


def test_what_is_advertised_often_is_not_compared_with_every_event() -> None:
    one = Completeness(["1"], "?")
    for number in range(1, MANY + 2):
        assert not probes(one.advertised("1", f"ad{number}", parse("a = 1"), number))
    assert not one.is_answered(Event({"a": 2}))
    one.answered("1", MANY + 1)
    assert one.is_answered(Event({"a": 1}))


def test_what_nobody_asks_about_is_asked_at_a_tick() -> None:
    one = Completeness(["1"], "?")
    assert not probes(one.tick())
    assert not probes(one.advertised("1", "ad", parse("a = 1"), 1))
    for _ in range(PATIENCE):
        assert not probes(one.tick()), "the broker where it was advertised asks"
    assert len(probes(one.tick())) == 1
    one.client_advertised()
    assert len(probes(one.tick())) == 1
    one.answered("1", 1)
    for _ in range(2 * PATIENCE):
        assert not probes(one.tick())


def test_a_neighbour_that_is_given_up_is_not_waited_for() -> None:
    wire = Wire([0, 0])  # 1 - 0 - 2
    wire.come_up("0", "1")
    wire.settle([0])
    assert not wire.brokers["0"].is_complete
    wire.say("0", wire.brokers["0"].expect(["1"]))
    wire.settle([0])
    assert wire.brokers["0"].is_complete
    assert wire.brokers["1"].is_complete


@pytest.mark.parametrize("trees", [{0, 1}, {0, 1, 2}])
def test_a_neighbour_has_synchronised_when_it_has_on_every_tree(trees: set[int]) -> None:
    one = Completeness(["1"], "?")
    assert not list(one.link_up("1"))
    for tree in trees:
        assert not one.has_synchronised("1")
        list(one.synchronised("1", tree, trees))
    assert one.has_synchronised("1")
