"""Confirmed events over whole brokers without sockets: hangs, lost links and kills in any order lose nothing.

The checker knows the promise only: once all is well again, every durable subscription that was in force when an event
was published has it, if the event was confirmed and matches. Beside it, how much is flooded for that.
"""

from __future__ import annotations

import pytest
from tests.oracles.faults import Line, Publisher

from covey.broker.durable import delivery
from covey.broker.durable.completeness import Interest
from covey.core.families import parse

TOPICS = 3


def subscribed(line: Line, topics: dict[str, int]) -> None:
    """Make a durable subscription to one topic at each of some brokers; it is in force when this returns."""
    for broker, topic in topics.items():
        client = line.client(broker, "reader")
        client.subscribe(parse(f"topic = {topic}"), "all")
        line.settle()
        line.leave(client)
    line.settle()


def play(
    line: Line, topics: dict[str, int], operations: int, full_disks: float = 0.0
) -> dict[tuple[int, int], int]:
    """Let clients and faults come in any order; return what was published, with its topic."""
    random, published = line.random, {}
    for _ in range(operations):
        for one in line.machines.values() if full_disks else ():
            one.disk.is_full = random.random() < full_disks
        name, link = random.choice(line.names), random.choice(list(line.links))
        machine = line.machines[name]
        is_awake = machine.is_up and not machine.is_hung
        lot = random.choices(range(9), (4, 4, 3, 2, 2, 3, 12, 2, 2))[0]
        if lot == 0 and is_awake:
            line.hang(name)
        elif lot == 1 and machine.is_up and machine.is_hung:
            line.go_on(name)
        elif lot == 2 and line.is_connected(*link):
            line.lose(*link)
        elif lot == 3 and machine.is_up:
            line.kill(name)
        elif lot == 4:
            if not machine.is_up:
                line.start(name)
            line.connect(*link)
        elif lot == 5 and is_awake:
            line.publisher(name).advertise_topic(random.randrange(TOPICS))
        elif lot in (6, 7, 8):
            client = random.choice(line.publishers) if line.publishers else None
            if client is None or client.machine.is_hung:
                continue
            if lot == 6:
                for _ in range(random.randrange(1, 3)):
                    topic = random.choice([*client.topics.values(), random.randrange(TOPICS)])
                    published[client.publish_topic(topic)] = topic
            elif lot == 7 and client.topics:
                client.unadvertise_topic()
            else:
                client.advertise_topic(random.randrange(TOPICS))
        if random.random() < 0.2 and line.alive:
            line.alive[random.choice(sorted(line.alive))].look_around()
        for _ in range(random.choice((0, 1, 3, 10, 40))):
            line.step()
    line.heal()
    return published


@pytest.mark.parametrize("names", ["ad", "abd", "abcd"])
@pytest.mark.parametrize("seeds", [range(60), range(60, 120)], ids=str)
def test_nothing_confirmed_is_lost(names: str, seeds: range) -> None:
    for seed in seeds:
        line = Line(names, f"{names}-{seed}")
        topics = {
            name: line.random.randrange(TOPICS) for name in names if name == "d" or line.random.random() < 0.4
        }
        subscribed(line, topics)
        published = play(line, topics, 60)
        for broker, topic in topics.items():
            wanted = {one for one in line.confirmed if published[one] == topic}
            assert wanted <= line.queue(broker), f"seed {names}-{seed}: lost at {broker}"
        assert all(one.durable.completeness.is_complete for one in line.machines.values()), (
            f"seed {names}-{seed}"
        )


@pytest.mark.parametrize("names", ["ad", "abcd"])
def test_nothing_confirmed_is_lost_when_disks_are_full_at_times(names: str) -> None:
    refused = 0
    for seed in range(60):
        line = Line(names, f"full-{names}-{seed}")
        topics = {name: line.random.randrange(TOPICS) for name in names}
        subscribed(line, topics)
        published = play(line, topics, 60, full_disks=0.3)
        for broker, topic in topics.items():
            wanted = {one for one in line.confirmed if published[one] == topic}
            assert wanted <= line.queue(broker), f"seed {seed}: lost at {broker}"
        refused += len(published) - len(line.confirmed)
        for name, machine in line.machines.items():
            disk = machine.disk
            assert disk.queues.keys() <= disk.owners.keys(), f"seed {seed}: events for nobody at {name}"
            for id, owner in disk.owners.items():
                assert owner.kind == "subscription" or not disk.queues.get(id), f"seed {seed}: not sent on"
    assert refused > 60, "disks were full"


def confirm(line: Line, client: Publisher, topic: int = 1) -> None:
    client.publish_topic(topic)
    line.settle()


@pytest.mark.parametrize("names", ["ad", "abd"])
@pytest.mark.parametrize("is_probed", [False, True])
def test_a_neighbour_that_is_lost_before_it_has_answered(names: str, is_probed: bool) -> None:
    line = Line(names, 1)
    subscribed(line, {"d": 1})
    link = list(line.links)[-1]
    near = line.machines[link[0]]
    publisher = line.publisher("a")
    line.hang("d")
    publisher.advertise_topic(1)
    if is_probed:
        publisher.publish_topic(1)
    line.settle()
    line.lose(*link)
    line.settle()
    assert near.durable.completeness.interest("d") is Interest.STALE
    for _ in range(5):
        confirm(line, publisher)
    line.heal()
    assert line.confirmed == line.queue("d")
    assert len(line.confirmed) == 5 + is_probed
    assert near.durable.completeness.interest("d") is Interest.WHOLE


@pytest.mark.parametrize("answered", ["by a confirmed event", "by a tick"])
def test_nothing_is_flooded_for_a_neighbour_that_has_answered(answered: str) -> None:
    line = Line("abd", 1)
    subscribed(line, {"d": 1})
    a, b = line.machines["a"], line.machines["b"]
    publisher = line.publisher("a")
    publisher.advertise_topic(2)
    line.settle()
    if answered == "by a tick":
        a.look_around()
        line.settle()
    else:
        confirm(line, publisher, 2)
    flooded = a.durable.flooded + b.durable.flooded
    line.lose("b", "d")
    line.settle()
    assert b.durable.completeness.interest("d") is Interest.WHOLE
    for topic in (2, 2, 2):
        confirm(line, publisher, topic)
    assert a.durable.flooded + b.durable.flooded == flooded
    publisher.advertise_topic(1)  # of this nobody knows what d wants
    line.settle()
    assert b.durable.completeness.interest("d") is Interest.STALE
    confirm(line, publisher, 1)
    assert a.durable.flooded + b.durable.flooded == flooded + 2
    line.heal()
    assert len(line.queue("d")) == 1
    flooded = a.durable.flooded + b.durable.flooded
    confirm(line, publisher, 1)
    assert a.durable.flooded + b.durable.flooded == flooded
    assert len(line.queue("d")) == 2


def test_an_event_that_waits_while_its_publisher_advertises_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "WINDOW", 1)
    line = Line("abd", 1)
    subscribed(line, {"d": 1})
    publisher = line.publisher("a")
    publisher.advertise_topic(1)
    line.settle()
    confirm(line, publisher)  # from now on by the table
    line.hang("b")
    for _ in range(3):
        publisher.publish_topic(1)  # one is under way to b, the others wait for it
    publisher.unadvertise_topic()
    publisher.advertise_topic(1)
    line.settle()
    line.go_on("b")
    for name in "ad":  # b hears of the new advertisement, and a not yet that the first event was taken
        line.hang(name)
    line.settle()
    while not line.under_way("d", "b"):  # d withdraws its subscription, and hears of nothing else
        line.arrive("b", "d")
    line.settle()
    line.go_on("a")
    line.settle()
    line.heal()
    assert len(line.confirmed) == 4
    assert line.confirmed == line.queue("d")
