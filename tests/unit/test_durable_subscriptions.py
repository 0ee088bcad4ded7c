"""Durable subscriptions as connections see them: every move of the table, and disks that fail at the wrong moment."""

from __future__ import annotations

import inspect
from itertools import product

import pytest
from tests.oracles.cores import Client, Machine
from tests.oracles.faults import Line

from covey.broker import effects
from covey.broker.durable import queues
from covey.broker.durable.delivery import Durable, NoDurable
from covey.broker.durable.log import Batch, Committed, Notice
from covey.broker.durable.queues import (
    TABLE,
    Attachment,
    Forbidden,
    Ignored,
    Input,
    Refused,
    State,
)
from covey.core.families import parse
from covey.errors import ProtocolError, StoreError
from covey.protocol.control import ReplaceRequest, SubscribeRequest, UnsubscribeRequest, decode_reply
from covey.protocol.events import delivery_of, encode_acknowledge
from covey.protocol.frames import LAST_POSITION, Kind, Splitter, frame

FILTER = parse("topic = 1").encode()


class Reader(Client):
    """A connection of the client "reader", with the positions of what it was delivered."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, "reader")

    def mine(self, filter: bytes = FILTER) -> int:
        """Ask for the durable subscription that all readers have."""
        self.sids += 1
        return self.ask(SubscribeRequest, self.sids, filter, "mine")

    def listen(self) -> None:
        """Let the log answer, and read what comes."""
        assert self.machine.log is not None
        while not self.machine.log.is_idle:
            self.machine.commit()

    def answer(self, request: int) -> str:
        """Return what a request was answered with, once; ProtocolError if it ended the connection."""
        self.listen()
        if self.goodbye:
            raise ProtocolError(self.goodbye)
        frames = Splitter(1 << 20).feed(self.heard)
        replies = [decode_reply(memoryview(one)[1:]) for one in frames if one[0] == Kind.REPLY]
        (reply,) = [reply for reply in replies if reply.request == request]
        return reply.error

    def acknowledge(self, position: int, *, cumulative: bool = False) -> None:
        self.say(frame(Kind.ACKNOWLEDGE, encode_acknowledge(1, (position,), cumulative=cumulative)))

    @property
    def got(self) -> list[int]:
        """The positions of what it was delivered."""
        frames = Splitter(1 << 20).feed(self.heard)
        return [delivery_of(one).position or 0 for one in frames if one[0] == Kind.DELIVERY]

    @property
    def attachment(self) -> Attachment:
        """What it has of the subscription that it made first."""
        found = self.machine.durable.subscriptions.attachment(self.link, 1)
        assert isinstance(found, Attachment)
        return found


class Scene:
    """One broker, with a reader in some state and one event on disk that was delivered to it."""

    def __init__(self, state: State) -> None:
        self.machine = Line("a", 1).machines["a"]
        self.reader = Reader(self.machine)
        self.reader.answer(self.reader.mine())
        Client(self.machine).publish({"topic": 1}, confirmed=True)
        self.reader.listen()
        assert self.reader.got == [1]
        self.one = self.reader.attachment.subscription
        if state is State.DETACHED:
            self.reader.answer(self.reader.ask(UnsubscribeRequest, 1, False))
        elif state is State.TAKEN_OVER:
            other = Reader(self.machine)
            assert other.answer(other.mine()) == ""
        elif state is State.ENDED:
            self.reader.answer(self.reader.ask(UnsubscribeRequest, 1, True))
        assert self.reader.attachment.state is state

    def give(self, given: Input) -> str | None:
        """Let something happen; return what the reader was answered if it has asked for something."""
        reader, machine = self.reader, self.machine
        if given is Input.LEAVE:
            return reader.answer(reader.ask(UnsubscribeRequest, 1, False))
        if given is Input.FORGET:
            return reader.answer(reader.ask(UnsubscribeRequest, 1, True))
        if given is Input.REPLACE:
            return reader.answer(reader.ask(ReplaceRequest, 1, parse("topic = 2").encode()))
        if given is Input.ACKNOWLEDGE:
            reader.acknowledge(1)
        elif given is Input.TAKE:
            other = Reader(machine)
            assert other.answer(other.mine()) == ""
        elif given is Input.END and self.one in machine.durable.held():
            machine.do(machine.durable.end(self.one))
        else:
            reader.attachment.on(given)
        reader.listen()
        return None


def test_the_table_has_every_pair() -> None:
    assert set(TABLE) == set(product(State, Input))


def test_the_table_in_the_text_is_the_table() -> None:
    lines = [line.split() for line in (queues.__doc__ or "").splitlines()]
    (columns,) = [words for words in lines if words[:1] == [Input.ATTACH.name]]
    for state in State:
        (row,) = [words[1:] for words in lines if words[:1] == [state.name]]
        for name, said in zip(columns, row, strict=True):
            move = TABLE[state, Input[name]]
            assert said == (move.name if isinstance(move, State) else type(move).__name__.lower())


@pytest.mark.parametrize(("state", "given"), TABLE, ids=lambda value: value.name)
def test_every_pair_of_the_table(state: State, given: Input) -> None:
    if (state, given) == (State.DETACHED, Input.ATTACH):
        fresh = Attachment("link", 1, Scene(State.ATTACHED).one)
        assert fresh.on(given)
        assert fresh.state is State.ATTACHED
        return
    scene, move = Scene(state), TABLE[state, given]
    queue = scene.machine.disk.queues
    if isinstance(move, Forbidden):
        attachment = scene.reader.attachment
        with pytest.raises(ProtocolError):
            scene.give(given)
        assert attachment.state is state
        return
    answer = scene.give(given)
    after = scene.reader.attachment.state
    if isinstance(move, State):
        assert after is move
        assert not answer
    else:
        assert after is state
        assert bool(answer) is isinstance(move, Refused)
    owner, is_taken = scene.one.owner.id, after is State.TAKEN_OVER or given is Input.TAKE
    assert (scene.one in scene.machine.durable.held()) is (after is not State.ENDED)
    is_done = given is Input.ACKNOWLEDGE and not isinstance(move, Ignored)
    assert bool(queue.get(owner)) is not (is_done or after is State.ENDED)
    if after is State.ENDED or not is_taken:
        assert scene.one.feed.is_attached is (after is State.ATTACHED)
    else:
        assert scene.one.feed.is_attached


def test_a_client_that_is_gone_leaves_its_subscriptions() -> None:
    scene = Scene(State.ATTACHED)
    scene.reader.leave()
    assert scene.one.attachments == []
    assert not scene.one.feed.is_attached
    again = Reader(scene.machine)
    assert again.answer(again.mine()) == ""
    assert again.got == [1], "it comes again, with the same position"


def test_nobody_is_done_with_events_that_are_not_there_yet() -> None:
    scene = Scene(State.ATTACHED)
    publisher = Client(scene.machine)
    publisher.publish({"topic": 1}, confirmed=True)
    scene.reader.acknowledge(1_000, cumulative=True)
    scene.reader.listen()
    assert scene.machine.disk.positions(scene.one.owner.id) == [2]
    assert scene.reader.got == [1, 2]


def test_whoever_is_taken_over_before_the_disk_has_answered_is_told_so() -> None:
    machine = Line("a", 1).machines["a"]
    first, second = Reader(machine), Reader(machine)
    asked, also = first.mine(), second.mine()
    assert "attached by another connection" in first.answer(asked)
    assert second.answer(also) == ""
    assert first.attachment.state is State.TAKEN_OVER
    assert second.attachment.state is State.ATTACHED


def fail(machine: Machine) -> None:
    """Let the log refuse all that waits, as it does when it cannot write."""
    log = machine.log
    assert log is not None
    waiting, log._waiting = log._waiting, []
    tickets = tuple(one.ticket for one in waiting if isinstance(one, Batch))
    machine.give(effects.Answered((Committed(tickets, StoreError("the disk is full")),)))


def test_a_subscription_that_could_not_be_written_does_not_exist() -> None:
    machine = Line("a", 1).machines["a"]
    reader = Reader(machine)
    asked = reader.mine()
    fail(machine)
    assert reader.answer(asked) == "the disk is full"
    assert machine.durable.held() == []
    assert machine.router.local_size() == 0
    assert reader.answer(reader.mine()) == ""
    assert [owner.name for owner in machine.disk.owners.values()] == ["mine"]


def test_a_filter_that_could_not_be_written_is_written_when_the_client_comes_again() -> None:
    machine = Line("a", 1).machines["a"]
    reader, other = Reader(machine), parse("topic = 2").encode()
    assert reader.answer(reader.mine()) == ""
    asked = reader.mine(other)
    fail(machine)
    assert reader.answer(asked) == "the disk is full"
    assert reader.answer(reader.mine(other)) == ""
    assert [owner.filter for owner in machine.disk.owners.values()] == [other]


def test_a_null_object_has_all_that_is_asked_of_durable_delivery() -> None:
    def interface(kind: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(one)
            for name, one in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    real = interface(Durable)
    del real["load"]  # there is nothing to load
    assert interface(NoDurable) == real


def test_a_position_that_cannot_be_ends_the_link_of_the_client_that_names_it_and_nothing_else() -> None:
    scene = Scene(State.ATTACHED)
    scene.reader.acknowledge(LAST_POSITION - 1)
    assert scene.reader.goodbye == ""
    scene.reader.acknowledge(LAST_POSITION)
    assert "no position" in scene.reader.goodbye
    assert scene.machine.log is not None
    scene.machine.commit()
    assert scene.machine.durable.pending == 0


def test_a_log_that_has_ended_is_said_and_nothing_is_confirmed_any_longer() -> None:
    machine = Line("a", 1).machines["a"]
    client = Client(machine)
    machine.net.now_s += 60.0
    assert machine.core.is_ready(machine.net.now_s)
    machine.give(effects.Answered((Notice("the store keeps nothing any longer", is_end=True),)))
    assert not machine.core.is_ready(machine.net.now_s), "a load balancer should send clients elsewhere"
    assert [one.event for one in machine.durable.incidents()] == ["the store keeps nothing any longer"]
    client.publish({"topic": 1}, confirmed=True)
    frames = Splitter(1 << 20).feed(client.heard)
    replies = [decode_reply(memoryview(one)[1:]) for one in frames if one[0] == Kind.REPLY]
    assert ["must be restarted" in reply.error for reply in replies] == [True]
    assert machine.durable.pending == 0
