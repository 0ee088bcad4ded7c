"""When a broker's table knows everybody: networks of `Completeness` that tell each other, in any order."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.broker.durable.completeness import MANY, PATIENCE, Completeness, Interest
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
            self.brokers[name] = Completeness(
                neighbours, self._tell(name), self.probes[name].append, f"{name}?"
            )

    def _tell(self, name: str):  # type: ignore[no-untyped-def]
        return lambda link, whole: self.queues[name, link].append(whole)

    def come_up(self, a: str, b: str) -> None:
        """A link comes up; what was under way on it is lost."""
        for one, other in ((a, b), (b, a)):
            self.queues[one, other].clear()
            self.brokers[one].link_up(other)
        for one, other in ((a, b), (b, a)):
            self.brokers[one].synchronised(other, 0, {0})

    def step(self, choice: int) -> bool:
        """Let one thing happen that is under way; return whether there was one."""
        names = [name for name, probes in self.probes.items() if probes]
        pairs = [pair for pair, queue in self.queues.items() if queue]
        if not names and not pairs:
            return False
        place = choice % (len(names) + len(pairs))
        if place < len(names):
            self.brokers[names[place]].echoed(self.probes[names[place]].pop(0))
        else:
            source, target = pairs[place - len(names)]
            self.brokers[target].said(source, self.queues[source, target].popleft())
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
    wire.brokers["1"].link_up("2")  # before the router of 1 withdraws anything towards 0
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
    before, number = 7, 8 if reached else 0
    if not reached:
        middle.link_lost("2")
        assert middle.interest("2") is Interest.WHOLE, "everything is answered"
    middle.advertised("2", "ad", parse("a = 1"), number)
    middle.answered("2", 8 if answered else before)
    if reached:
        middle.link_lost("2")
    wire.settle([0])
    is_known = reached and answered
    assert middle.interest("2") is (Interest.WHOLE if is_known else Interest.STALE)
    assert middle.is_complete is is_known
    assert wire.brokers["0"].is_complete is is_known
    middle.said("2", True)
    assert middle.is_complete is is_known, "what it has said before it was lost says nothing"
    wire.come_up("1", "2")
    wire.settle([0])
    assert wire.brokers["0"].is_complete


def test_an_event_is_answered_when_every_neighbour_has_echoed_what_was_sent_after_the_advertisement() -> None:
    asked: list[str] = []
    one = Completeness(["1", "2"], lambda link, whole: None, asked.append, "?")
    inside, outside = Event({"a": 1}), Event({"a": 2})
    for link in ("1", "2"):
        one.advertised(link, "ad", parse("a = 1"), 1)
    assert one.is_answered(outside)
    assert not one.is_answered(inside)
    one.have_answered()
    one.have_answered()
    assert len(asked) == 1, "one question at a time"
    one.answered("1", 1)
    assert not one.is_answered(inside)
    one.advertised("2", "other", parse("a = 1"), 2)
    one.answered("2", 1)
    assert not one.is_answered(inside), "the echo says nothing of what was advertised after the probe"
    one.unadvertised("2", "other")
    assert one.is_answered(inside)


def test_what_is_advertised_often_is_not_compared_with_every_event() -> None:
    one = Completeness(["1"], lambda link, whole: None, lambda probe: None, "?")
    for number in range(MANY + 1):
        one.advertised("1", f"ad{number}", parse("a = 1"), number + 1)
    assert not one.is_answered(Event({"a": 2}))
    one.answered("1", MANY + 1)
    assert one.is_answered(Event({"a": 1}))


def test_what_nobody_asks_about_is_asked_at_a_tick() -> None:
    asked: list[str] = []
    one = Completeness(["1"], lambda link, whole: None, asked.append, "?")
    one.tick()
    one.advertised("1", "ad", parse("a = 1"), 1)
    for _ in range(PATIENCE):
        one.tick()
    assert not asked, "the broker where it was advertised asks"
    one.tick()
    assert len(asked) == 1
    one.client_advertised()
    one.tick()
    assert len(asked) == 2
    one.answered("1", 1)
    for _ in range(2 * PATIENCE):
        one.tick()
    assert len(asked) == 2


def test_a_neighbour_that_is_given_up_is_not_waited_for() -> None:
    wire = Wire([0, 0])  # 1 - 0 - 2
    wire.come_up("0", "1")
    wire.settle([0])
    assert not wire.brokers["0"].is_complete
    wire.brokers["0"].expect(["1"])
    wire.settle([0])
    assert wire.brokers["0"].is_complete
    assert wire.brokers["1"].is_complete


@pytest.mark.parametrize("trees", [{0, 1}, {0, 1, 2}])
def test_a_neighbour_has_synchronised_when_it_has_on_every_tree(trees: set[int]) -> None:
    one = Completeness(["1"], lambda link, whole: None, lambda probe: None, "?")
    one.link_up("1")
    for tree in trees:
        assert not one.has_synchronised("1")
        one.synchronised("1", tree, trees)
    assert one.has_synchronised("1")
