"""A damaged event is replaced by a copy if any broker that can be reached has one, whatever way links run."""

from __future__ import annotations

from collections import deque
from random import Random

from covey.broker.actions import Actions, Send, SendEvent
from covey.broker.durable.log import Find, Found, Recovered, Room
from covey.broker.durable.queues import Tickets
from covey.broker.durable.repair import MOST_NAMES, PATIENCE_S, Repairs
from covey.protocol.control import Lacking, Wanted, decode_stored
from covey.protocol.events import Name, encode_event, envelope_of
from covey.protocol.frames import Kind

NAME = (7, 1)


def event(name: Name) -> bytes:
    return encode_event(b"content", b"payload", family=0, publisher=name[0], number=name[1])


class Broker:
    """Repairs over a store that has some events."""

    def __init__(self, net: Net, name: str, held: set[Name]) -> None:
        self.net, self.name, self.held = net, name, held
        self.tickets = Tickets(Recovered(Room(0, 1 << 30)))
        self.repairs = Repairs(self.tickets, f"{name}.")
        self.got: list[bytes | None] = []

    def take(self, frame: bytes | None, now_s: float) -> Actions:
        self.got.append(frame)
        return iter(())

    def want(self, name: Name, now_s: float = 0.0) -> None:
        self.perform(self.repairs.want(name, self.take, now_s), now_s)

    def perform(self, actions: Actions, now_s: float = 0.0) -> None:
        for action in [*actions, *self.repairs.flush()]:
            if isinstance(action, Find):
                copies = {one: event(one) for one in action.names if one in self.held}
                found = Found(action.ticket, copies)
                self.net.later(
                    self.name, self.name, lambda found=found: self.perform(self.tickets.read(found, 0.0))
                )
            else:
                assert isinstance(action, Send | SendEvent)
                self.net.send(self.name, action)

    def hear(self, link: str, action: Send | SendEvent) -> None:
        if action.kind == Kind.COPY:
            frame = bytes([Kind.EVENT]) + action.body
            envelope = envelope_of(frame)
            self.perform(self.repairs.copied((envelope.publisher, envelope.number), frame, 0.0))
            return
        said = decode_stored(action.body)
        if isinstance(said, Wanted):
            self.perform(self.repairs.wanted(link, said, 0.0))
        else:
            assert isinstance(said, Lacking)
            self.perform(self.repairs.lacking(link, said, 0.0))


class Net:
    """Brokers whose frames arrive in the order of each link, and otherwise in any order."""

    def __init__(self, links: set[tuple[str, str]], held: dict[str, set[Name]], random: Random) -> None:
        self.random = random
        self.ways: dict[tuple[str, str], deque[object]] = {}
        self.brokers = {name: Broker(self, name, some) for name, some in held.items()}
        self.frames = 0
        for a, b in sorted(links):
            for one, other in ((a, b), (b, a)):
                self.connect(one, other)

    def connect(self, one: str, other: str, *, is_able: bool = True) -> None:
        broker = self.brokers[one]
        broker.perform(broker.repairs.connected(other, is_able, 0.0))

    def later(self, source: str, target: str, what: object) -> None:
        self.ways.setdefault((source, target), deque()).append(what)

    def send(self, source: str, action: Send | SendEvent) -> None:
        self.frames += 1
        self.later(source, action.link, action)

    def run(self) -> None:
        while ways := [way for way, waiting in self.ways.items() if waiting]:
            source, target = way = self.random.choice(ways)
            what = self.ways[way].popleft()
            if isinstance(what, Send | SendEvent):
                self.brokers[target].hear(source, what)
            else:
                assert callable(what)
                what()


def connected(links: set[tuple[str, str]], names: list[str], first: str) -> set[str]:
    reached, waiting = {first}, [first]
    while waiting:
        one = waiting.pop()
        for other in names:
            if other not in reached and ((one, other) in links or (other, one) in links):
                reached.add(other)
                waiting.append(other)
    return reached


def test_a_copy_is_found_if_there_is_one() -> None:
    for seed in range(300):
        try_to_find(seed)


def try_to_find(seed: int) -> None:
    """Have brokers of a random network look for events that some of them have."""
    random = Random(f"repair {seed}")
    names = list("abcdefgh")[: random.randint(1, 8)]
    pairs = [(a, b) for a in names for b in names if a < b]
    links = set(random.sample(pairs, random.randint(0, len(pairs))))
    wanted = [(7, number) for number in range(1, random.choice([2, 2, 4]))]
    held = {one: {name for name in wanted if random.random() < 0.2} for one in names}
    net = Net(links, held, random)
    origins = random.sample(names, random.randint(1, len(names)))
    expected: dict[str, list[bool]] = {one: [] for one in origins}
    for one in origins:
        reach = connected(links, names, one)
        for name in wanted:
            expected[one].append(any(name in held[other] for other in reach))
            net.brokers[one].want(name)
        for _ in range(random.randrange(3)):
            net.run() if random.random() < 0.2 else None
    net.run()
    for one in origins:
        got = net.brokers[one].got
        assert sum(frame is not None for frame in got) == sum(expected[one])
        assert len(got) == len(wanted)
        assert {frame for frame in got if frame} <= {event(name) for name in wanted}
    assert all(broker.repairs.searching == 0 for broker in net.brokers.values()), "nobody waits any longer"
    assert net.frames <= 4 * len(links) * len(wanted) * len(origins)


def test_a_neighbour_that_is_away_is_waited_for_and_one_that_leaves_is_not() -> None:
    net = Net({("a", "b")}, {"a": set(), "b": set(), "c": {NAME}}, Random(1))
    a = net.brokers["a"]
    a.perform(a.repairs.expect(("b", "c"), 0.0))
    a.want(NAME)
    net.run()
    assert a.got == []
    net.connect("c", "a")
    net.connect("a", "c")
    net.run()
    assert a.got == [event(NAME)]

    net = Net({("a", "b")}, {"a": set(), "b": {NAME}}, Random(1))
    a = net.brokers["a"]
    a.perform(a.repairs.expect(("b",), 0.0))
    a.want(NAME)
    net.ways["a", "a"].popleft()()  # type: ignore[operator]
    net.ways.clear()  # the question is lost with the link
    a.perform(a.repairs.disconnected("b", 1.0))
    assert a.got == [], "it should be there"
    a.perform(a.repairs.tick(PATIENCE_S - 1.0))
    assert a.got == []
    a.perform(a.repairs.tick(PATIENCE_S))
    assert a.got == [None]


def test_neighbours_that_do_not_know_how_are_not_asked() -> None:
    net = Net(set(), {"a": set(), "b": {NAME}}, Random(1))
    net.connect("a", "b", is_able=False)
    a = net.brokers["a"]
    a.perform(a.repairs.expect(("b",), 0.0))
    a.want(NAME)
    net.run()
    assert (a.got, net.frames) == ([None], 0)


def test_a_link_that_comes_back_during_a_search_makes_no_circle() -> None:
    """The broker that searches asks one more neighbour, and must not wait for itself behind it."""
    net = Net({("a", "b"), ("b", "c")}, {"a": set(), "b": set(), "c": set()}, Random(1))
    c = net.brokers["c"]
    c.perform(c.repairs.expect(("a", "b"), 0.0))
    c.want(NAME)
    net.run()
    assert c.got == [], "a should be there"
    net.connect("a", "c")
    net.connect("c", "a")
    net.run()
    assert c.got == [None]
    assert all(broker.repairs.searching == 0 for broker in net.brokers.values())


def test_an_answer_that_is_lost_with_its_link_is_given_again() -> None:
    net = Net({("a", "b")}, {"a": set(), "b": {NAME}}, Random(1))
    a, b = net.brokers["a"], net.brokers["b"]
    a.perform(a.repairs.expect(("b",), 0.0))
    a.want(NAME)
    while not net.ways.get(("b", "a")):
        way = next(way for way in net.ways if net.ways[way])
        what = net.ways[way].popleft()
        net.brokers[way[1]].hear(way[0], what) if isinstance(what, Send | SendEvent) else what()  # type: ignore[operator]
    net.ways.clear()  # the copy is lost
    for one, other in ((a, "b"), (b, "a")):
        one.perform(one.repairs.disconnected(other, 1.0))
    net.connect("b", "a")
    net.connect("a", "b")
    net.run()
    assert a.got == [event(NAME)]


def test_a_store_that_gives_another_event_is_not_believed() -> None:
    net = Net({("a", "b")}, {"a": set(), "b": {NAME}}, Random(1))
    a = net.brokers["a"]
    a.want(NAME)
    find = net.ways["a", "a"].popleft()
    assert callable(find)
    a.perform(a.tickets.read(Found(1, {NAME: event((7, 2))}), 0.0))
    net.run()
    assert a.got == [event(NAME)], "the neighbour has it"


def test_what_is_wanted_in_one_turn_is_one_question() -> None:
    names = [(7, number) for number in range(1, 2 * MOST_NAMES)]
    net = Net({("a", "b")}, {"a": set(), "b": set()}, Random(1))
    a = net.brokers["a"]
    a.perform(action for name in names for action in a.repairs.want(name, a.take, 0.0))
    net.run()
    assert a.got == [None] * len(names)
    assert net.frames == 4, "two questions and two answers"
