"""Jobs: long work of routers is done in slices of bounded work, in order, and ends as it would have ended at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import covey
import covey.strategies
from covey.errors import ProtocolError
from covey.routing.jobs import SLICE, Jobs
from covey.routing.messages import (
    ADVERTISEMENTS,
    SUBSCRIPTIONS,
    Advertise,
    Greet,
    LinkDown,
    LinkUp,
    Message,
    Probe,
    Subscribe,
    Sync,
    Unsubscribe,
)
from covey.routing.outputs import Output, Send
from covey.routing.router import Router

MANY = 500
MOST_UNITS = 1_000  # of one value of a job: a batch of the dearest filters


def counting(done: list[str], name: str, values: int) -> Iterator[int]:
    for number in range(values):
        done.append(f"{name}{number}")
        yield 100


def test_without_slices_a_job_is_done_at_once() -> None:
    jobs, done = Jobs(None), list[str]()
    jobs.add("b", counting(done, "x", 3))
    assert done == ["x0", "x1", "x2"]
    assert not jobs.is_busy("b")


def test_jobs_of_a_link_are_done_in_order_and_links_take_turns() -> None:
    jobs, done = Jobs(100), list[str]()
    jobs.add("b", counting(done, "x", 2))
    jobs.add("b", counting(done, "y", 1))
    jobs.add("c", counting(done, "z", 2))
    assert done == ["x0", "z0"], "each begins at once, unless another of its link is under way"
    order = []
    while jobs.busy:
        order.append(jobs.busy[0])
        jobs.work(jobs.busy[0])
    assert done == ["x0", "z0", "x1", "z1", "y0"]
    assert order[:4] == ["b", "c", "b", "c"]


def test_a_link_that_goes_down_drops_all_but_what_it_leaves_behind() -> None:
    jobs, done = Jobs(100), list[str]()
    jobs.add("b", counting(done, "x", 3))
    jobs.add("b", counting(done, "left", 2), lasting=True)
    jobs.drop("b")
    while jobs.busy:
        jobs.work("b")
    assert done == ["x0", "left0", "left1"]
    jobs.add("c", counting(done, "y", 3))
    jobs.drop("c")
    assert not jobs.is_busy("c")


def test_an_error_ends_a_job_and_not_the_next_one() -> None:
    def failing() -> Iterator[int]:
        yield 100
        raise ProtocolError("no")

    jobs, done = Jobs(100), list[str]()
    jobs.add("b", failing())
    jobs.add("b", counting(done, "x", 1))
    with pytest.raises(ProtocolError, match="no"):
        jobs.work("b")
    while jobs.busy:
        jobs.work("b")
    assert done == ["x0"]


def filter_of(number: int) -> covey.Filter:
    return covey.parse(f"symbol = 'S{number % 100}' and price > {number % 7} and volume < {number}")


def router(strategy: str, slice_units: int | None) -> Router:
    """Return a router with many subscriptions of a client."""
    made = Router("a", strategy, slice_units=slice_units)
    made.handle(LinkUp(client=True), "me")
    for number in range(MANY):
        made.handle(Subscribe(f"k{number:04}", filter_of(number)), "me")
    return made


class Peer:
    """A neighbour b of a router: what it was sent, and how much was done at a time."""

    def __init__(self, router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
        self.router = router
        self.sent: list[Message] = []
        self.slices = 0
        self.most_units = 0
        right = Jobs.work

        def work(jobs: Jobs, link: str) -> None:
            queue = jobs._queues[link]
            units = 0

            def counted(job: Iterator[int]) -> Iterator[int]:
                nonlocal units
                for value in job:
                    units += value
                    yield value

            queue[0] = queue[0]._replace(job=counted(queue[0].job))
            right(jobs, link)
            self.slices += 1
            self.most_units = max(self.most_units, units)

        monkeypatch.setattr(Jobs, "work", work)

    def take(self, outputs: list[Output]) -> None:
        self.sent += [one.message for one in outputs if isinstance(one, Send) and one.link == "b"]

    def say(self, message: Message) -> None:
        self.take(self.router.handle(message, "b"))

    def work(self) -> None:
        while self.router.busy:
            self.take(self.router.work("b"))

    def come(self, *, pieces: bool) -> None:
        """Bring the link up, until the router's work is left to be done."""
        self.say(LinkUp(pieces=pieces))
        self.work()
        self.say(Greet(self.router.trees[0].dialect, (), ()))
        self.work()
        self.say(Advertise("ad", covey.parse("symbol > ''"), "p"))
        self.work()
        self.say(Sync(ADVERTISEMENTS, 1, {}))

    def told(self) -> dict[str, str]:
        """Return what the neighbour knows by what it was sent, behind one another."""
        known: dict[str, str] = {}
        for message in self.sent:
            if isinstance(message, Sync) and message.what == SUBSCRIPTIONS:
                known |= {fact.key: str(fact.filter) for facts in message.changed.values() for fact in facts}
            elif isinstance(message, Subscribe):
                known[message.key] = str(message.filter)
            elif isinstance(message, Unsubscribe):
                del known[message.key]
        return known


STRATEGIES = ["simple", "identity", "covering", "covering-lazy", "incremental", "match-first", "merging"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_link_comes_up_in_slices_of_bounded_work(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(router(strategy, SLICE), monkeypatch)
    peer.come(pieces=True)
    assert peer.router.is_busy("b")
    peer.work()
    at_once = Peer(router(strategy, None), monkeypatch)
    at_once.come(pieces=False)
    assert peer.told() == at_once.told() != {}
    assert peer.slices > 10
    assert peer.most_units < SLICE + MOST_UNITS
    syncs = [one for one in peer.sent if isinstance(one, Sync) and one.what == SUBSCRIPTIONS]
    assert [one.more for one in syncs] == [True] * (len(syncs) - 1) + [False]
    assert max(sum(map(len, one.changed.values())) for one in syncs) <= 64


@pytest.mark.parametrize("strategy", ["simple", "identity", "covering", "match-first", "merging"])
def test_what_changes_while_a_link_comes_up_is_told(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(router(strategy, SLICE), monkeypatch)
    at_once = Peer(router(strategy, None), monkeypatch)
    peer.come(pieces=True)
    number = 0
    changes: list[Subscribe | Unsubscribe] = []
    while peer.router.busy:
        peer.take(peer.router.work("b"))
        coming = Subscribe(
            f"new{number}", covey.parse(f"symbol = 'S{number % 100}' and price > {number % 5}")
        )
        gone = Unsubscribe(f"k{number * 7 % MANY:04}")
        for change in (coming, gone):
            if number < MANY // 7:
                changes.append(change)
                peer.take(peer.router.handle(change, "me"))
        number += 1
    for change in changes:
        at_once.router.handle(change, "me")
    at_once.come(pieces=False)
    assert number > 10
    assert sorted(peer.told().values()) == sorted(at_once.told().values())


def test_a_probe_waits_until_what_came_before_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(router("covering", SLICE), monkeypatch)
    peer.come(pieces=True)
    assert peer.router.is_busy("b")
    peer.take(peer.router.handle(Subscribe("late", covey.parse("symbol = 'late'")), "me"))
    peer.take(peer.router.handle(Probe("p"), "me"))
    peer.work()
    assert isinstance(peer.sent[-1], Probe)
    assert peer.told()["late"] == "symbol = 'late'"
    assert sum(isinstance(one, Probe) for one in peer.sent) == 1


def test_a_link_that_goes_down_is_cleared_in_slices_and_comes_back_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = Router("a", "covering", slice_units=SLICE)
    bare.handle(LinkUp(client=True), "me")
    peer = Peer(bare, monkeypatch)
    peer.come(pieces=True)
    peer.work()
    for number in range(MANY):
        peer.say(Subscribe(f"k{number:04}", filter_of(number)))
    assert bare.remote_size() == MANY
    peer.say(LinkDown())
    assert bare.is_busy("b")
    assert bare.trees[0].strategy.heard("b"), "not all of it is gone yet"
    peer.sent.clear()
    peer.say(LinkUp(pieces=True))
    assert not peer.sent, "it is greeted when the rest is gone"
    peer.work()
    assert not bare.trees[0].strategy.heard("b")
    greet = peer.sent[0]
    assert isinstance(greet, Greet)
    assert len(greet.subscriptions) > 1, "what it had said is remembered"
    assert peer.most_units < SLICE + MOST_UNITS


def test_a_neighbour_of_before_gets_a_sync_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(router("covering", SLICE), monkeypatch)
    peer.come(pieces=False)
    peer.work()
    syncs = [one for one in peer.sent if isinstance(one, Sync) and one.what == SUBSCRIPTIONS]
    assert [one.more for one in syncs] == [False]
