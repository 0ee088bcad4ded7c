"""Plans on simulated brokers: they go in and out while events flow, also when brokers are killed meanwhile."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from covey.broker.fastpath import Desk, FastPath, Read
from covey.broker.plans import GONE_S, GRACE_S
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import PlanError
from covey.planning.aggregation.installed import PlannedBlock, PlannedMerging
from covey.planning.joining import Witness
from covey.planning.plan import Plan, PlannedTree
from covey.sim import BrokerNetwork
from covey.sim.brokers import LEASE_S
from covey.strategies.aggregation import block_of
from tests.simulation.traffic import Traffic

SQUARE = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
PRIORITIES = {("a", "d"): 9}  # the overlay's tree is the line a–b–c–d


def plan(one_copy: str | None = None) -> bytes:
    trees = (
        PlannedTree("d", (("a", "b"), ("a", "d"), ("c", "d"))),
        PlannedTree("b", (("a", "b"), ("b", "c"), ("c", "d"))),
    )
    links = tuple((a, b, 1.0) for a, b in sorted(SQUARE))
    home = {} if one_copy else {"c": 1}
    return Plan("mine", 1, tuple("abcd"), links, trees, one_copy, home=home).encode()


def square(seed: int, *, durable: bool = False) -> tuple[BrokerNetwork, Traffic]:
    net = BrokerNetwork(SQUARE, seed=seed, priorities=PRIORITIES, durable=durable)
    traffic = Traffic(net, Random(seed))
    traffic.populate()
    return net, traffic


def epochs(net: BrokerNetwork) -> set[int]:
    """Return the epochs in which events set out."""
    return {machine.core.epochs.current for machine in net.machines.values() if machine.is_up}


def flow(traffic: Traffic, for_s: float) -> None:
    """Let events flow for some time."""
    until_s = traffic.net.now_s + for_s
    while traffic.net.now_s < until_s:
        traffic.publish(3)
        traffic.net.run(traffic.net.now_s + 0.002)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("one_copy", [None, "nearest", "cheapest"])
def test_a_plan_goes_in_and_out_while_events_flow(one_copy: str | None, seed: int) -> None:
    net, traffic = square(seed)
    flow(traffic, 0.05)
    net.install("b", plan(one_copy))
    flow(traffic, 0.2)
    (epoch,) = epochs(net)
    assert epoch != 0
    trees = net.machines["d"].core.epochs.routers[epoch].trees.values()
    assert any(
        "a" in tree.neighbours() for tree in trees
    )  # over the link that the overlay's tree has no use for
    net.roll_back("b")
    flow(traffic, 0.2)
    assert epochs(net) == {0}
    net.settle()
    # Events of one publisher may come out of order if they travel on trees of their own.
    traffic.check_once(is_ordered=one_copy is None)


def whole_plan(kind: str, wanted: Filter) -> bytes:
    """Return a plan as planners make it: one copy by a rule, or trees by groups."""
    trees = tuple(
        PlannedTree(root, tuple(sorted(pair for pair in SQUARE if pair != left)))
        for root, left in (("d", ("b", "c")), ("b", ("a", "d")), ("a", ("c", "d")))
    )
    is_mixed = kind == "mixed"
    return Plan(
        kind,
        1,
        tuple("abcd"),
        tuple((a, b, 1.0) for a, b in sorted(SQUARE)),
        trees[:1] if kind == "one tree" else trees[:2],
        kind if kind in ("nearest", "cheapest") else None,
        groups={("b", wanted.encode()): 1} if is_mixed else {},
        home={"c": 1} if kind == "trees" else {},
        witnesses=(Witness("a", "attributes", '{"n": 1}', {1: ("c",)}),) if is_mixed else (),
        backups=trees[2:],
    ).encode()


@pytest.mark.parametrize("turn_ms", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["one tree", "trees", "mixed", "nearest", "cheapest"])
def test_no_event_is_handled_in_python_under_a_plan(
    kind: str, turn_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = BrokerNetwork(SQUARE, seed=5, priorities=PRIORITIES, turn_ms=turn_ms)
    traffic = Traffic(net, Random(5))
    traffic.populate(12)
    in_python: list[bytes] = []
    handle = FastPath._event

    def event(path: FastPath, frame: bytes, read: Read, desk: Desk) -> None:
        in_python.append(frame)
        handle(path, frame, read, desk)

    monkeypatch.setattr(FastPath, "_event", event)
    net.install("b", whole_plan(kind, traffic.watched[1].filter))
    flow(traffic, 0.3)
    net.settle()
    (epoch,) = epochs(net)
    assert epoch != 0
    in_python.clear()
    traffic.round(60, is_ordered=kind not in ("nearest", "cheapest"))
    traffic.subscribe("d", "n >= 0")  # tables change, and the compiled path follows
    traffic.round(60, is_ordered=kind not in ("nearest", "cheapest"))
    assert not in_python
    net.publish("a", {"n": 1}, confirm=True)
    net.settle()
    assert in_python, "what is confirmed is not for the kernel alone"


def merging_plan(excess: float) -> bytes:
    """One tree, on which two ranges at d leave as one, and at a with what clients of a want."""
    low, high, boxed = (parse(text) for text in ("x >= 0 and x < 5", "x >= 5 and x < 10", "x >= 3 and y < 4"))
    events = [("attributes", f'{{"x": {x}, "y": {y}}}') for x in range(10) for y in range(10)]
    judged = [{"x": x, "y": y} for x in range(10) for y in range(10)]
    blocks = []
    for broker, towards, inputs in (("d", "a", [low, high]), ("a", "b", [low, high, boxed])):
        made = block_of(inputs, judged, excess)
        forms = [tuple(filter.encode() for filter in filters) for filters in made]
        blocks.append(PlannedBlock(0, broker, towards, *forms))
    tree = PlannedTree("b", (("a", "b"), ("a", "d"), ("b", "c")))
    links = tuple((a, b, 1.0) for a, b in sorted(SQUARE))
    merging = PlannedMerging("mefa", tuple(blocks), excess, tuple(events) if excess else ())
    return Plan("merged", 1, tuple("abcd"), links, (tree,), merging=merging).encode()


@pytest.mark.parametrize("excess", [0.0, 0.5])
@pytest.mark.parametrize("fails", [False, True], ids=["calm", "a link fails"])
def test_merged_filters_are_released_and_collected_again_while_events_flow(
    excess: float, fails: bool
) -> None:
    net = BrokerNetwork(SQUARE, seed=5, priorities=PRIORITIES)
    traffic = Traffic(net, Random(5))
    traffic.produce("b", "c")
    traffic.subscribe("d", "x >= 5 and x < 10")
    traffic.subscribe("a", "x >= 3 and y < 4")
    leaving = net.subscribe("d", "x >= 0 and x < 5")
    net.install("b", merging_plan(excess))
    net.settle()
    (epoch,) = epochs(net)

    def told(sender: str, receiver: str) -> list[str]:
        part = net.machines[receiver].core.epochs.routers[epoch].trees[0]
        return sorted(str(fact.filter) for fact in part.strategy.heard(sender))

    assert told("d", "a") == ["x >= 0 AND x < 10"]
    whole = told("a", "b")
    assert len(whole) == (1 if excess else 2)
    flow(traffic, 0.05)
    net.unsubscribe(leaving)  # events go on: those that stay miss none of them
    flow(traffic, 0.05)
    net.settle()
    assert told("d", "a") == ["x >= 5 AND x < 10"]
    assert told("a", "b") != whole
    traffic.check_once()
    if fails:
        net.link_down("a", "d")
        net.settle()
        net.link_up("a", "d")
        net.settle()
        assert told("d", "a") == ["x >= 5 AND x < 10"]
    traffic.subscribe("d", "x >= 0 and x < 5")
    net.settle()
    assert told("a", "b") == whole
    traffic.round()


RING = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e")]


def ring_plan(one_copy: str) -> bytes:
    """All events on the ring without its last link; without each other link there is a spare tree."""

    def without(link: tuple[str, str]) -> PlannedTree:
        return PlannedTree("c", tuple(sorted(set(RING) - {link})))

    links = tuple((a, b, 1.0) for a, b in sorted(RING))
    spare = tuple(map(without, RING[:-1]))
    return Plan("regions", 1, tuple("abcde"), links, (without(RING[-1]),), one_copy, backups=spare).encode()


@pytest.mark.parametrize("one_copy", ["nearest", "cheapest"])
@pytest.mark.parametrize("failure", ["silent", "killed"])
def test_brokers_send_on_over_spare_trees_once_they_notice_a_failure(failure: str, one_copy: str) -> None:
    """No planner is asked: plain events are lost until the failure is noticed, at most, and confirmed ones never."""
    net = BrokerNetwork(RING, seed=3, priorities={("a", "e"): 9}, durable=True)
    traffic = Traffic(net, Random(3))
    traffic.produce("a")
    watched = [traffic.subscribe(broker, "n >= 0") for broker in "bde"]
    kept = traffic.subscribe("d", "n >= 0", durable="kept")
    net.settle()
    net.install("b", ring_plan(one_copy))
    net.settle()
    (epoch,) = epochs(net)
    published: dict[int, float] = {}
    confirmed: set[int] = set()

    def publish(for_s: float) -> None:
        until_s = net.now_s + for_s
        while net.now_s < until_s:
            number = len(traffic.published) + 1
            traffic.publish(broker="a", confirm=number % 10 == 0)
            published[number] = net.now_s
            confirmed.update({number} if number % 10 == 0 else ())
            net.run(net.now_s + 0.05)

    publish(1.0)
    failed_s = net.now_s
    if failure == "silent":
        net.link_silent("b", "c")
    else:
        net.kill("c")
    noticed_s = LEASE_S * 1.2
    publish(noticed_s + 2.0)
    for one in watched:
        missed = set(published) - set(traffic.got(one))
        assert not missed or failure == "silent"  # a connection that ends is noticed at once
        assert all(failed_s - 0.1 <= published[number] <= failed_s + noticed_s for number in missed)
    assert epochs(net) == {epoch}
    late = [number for number, at_s in published.items() if at_s > failed_s + noticed_s]
    assert all(traffic.got(one).count(number) == 1 for one in watched for number in set(late) - confirmed)
    if failure == "silent":
        net.link_up("b", "c")
    else:
        net.restart("c")
    net.settle()
    assert confirmed <= set(traffic.got(kept))


def test_a_broker_that_was_away_learns_the_plan_and_keeps_it() -> None:
    net, traffic = square(1, durable=True)
    net.install("b", plan())
    net.settle()
    (epoch,) = epochs(net)
    net.kill("c")
    net.settle()
    net.restart("c")
    assert net.machines["c"].core.epochs.current == epoch  # before any neighbour has said so
    traffic.round()
    for broker in net.brokers:
        net.kill(broker)
    for broker in net.brokers:
        net.restart(broker)
    traffic.round()
    assert epochs(net) == {epoch}


@pytest.mark.parametrize("seed", range(20))
def test_brokers_killed_during_an_installation_stop_nothing_for_good(seed: int) -> None:
    random = Random(f"killed {seed}")
    net, traffic = square(seed, durable=bool(seed % 2))
    net.install("b", plan(random.choice([None, "nearest"])))
    for broker in random.sample(net.brokers, random.choice([1, 1, 2, 3])):
        net.run(net.now_s + random.choice([0.0, 0.001, 0.002, 0.005, 0.02, 1.0, 12.0]))
        net.kill(broker, after=random.randrange(20))
        if random.random() < 0.7:
            net.run(net.now_s + random.choice([0.001, 0.01, 1.0]))
        net.kill(broker)
        net.restart(broker)
    net.settle()
    assert len(epochs(net)) == 1
    traffic.round(is_ordered=False)
    net.run(net.now_s + GONE_S + 10.0)  # whatever was left half done is given up by then
    traffic.round(is_ordered=False)
    net.install("d", plan())
    net.settle()
    net.run(net.now_s + 30.0)
    assert len(epochs(net)) == 1
    assert all(
        machine.core.epochs.state.plans[machine.core.epochs.current] == plan()
        for machine in net.machines.values()
    )
    traffic.round()


@pytest.mark.parametrize("remedy", ["install", "none", "roll back"])
@pytest.mark.parametrize("seed", range(5))
def test_any_number_of_kills_leaves_what_the_next_request_mends(seed: int, remedy: str) -> None:
    """Plans go in and are taken back at any broker, and whoever works at it is killed, again and again."""
    random = Random(f"kills {seed}")
    net, traffic = square(seed, durable=True)
    plans = [plan(), plan("nearest"), b""]
    for _ in range(random.randrange(3, 12)):
        broker = random.choice(net.brokers)
        with suppress(PlanError):  # one is under way, or there is none to take back
            net.install(broker, random.choice(plans)) if random.random() < 0.6 else net.roll_back(broker)
        net.run(net.now_s + random.choice([0.0, 0.001, 0.002, 0.005, 0.02, 1.0, 12.0]))
        victim = random.choice([broker, broker, *net.brokers])
        net.kill(victim, after=random.randrange(20))
        net.run(net.now_s + random.choice([0.001, 0.01, 1.0]))
        net.kill(victim)
        net.restart(victim)
    net.settle()
    traffic.round(is_ordered=False)
    broker = random.choice(net.brokers)
    net.run(net.now_s + GONE_S + 10.0)
    net.install(broker, b"" if remedy == "none" else plan())
    net.run(net.now_s + 30.0)
    epoch_before = epochs(net)
    if remedy == "roll back":
        net.install(broker, plan("nearest"))
        net.run(net.now_s + GRACE_S / 2)
        assert epochs(net) != epoch_before, "it is in use"
        net.roll_back(broker)
        net.run(net.now_s + 30.0)
    net.settle()
    (epoch,) = epochs(net)
    for machine in net.machines.values():
        assert machine.core.epochs.state.plans == {epoch: b"" if remedy == "none" else plan()} | {0: b""}
    traffic.round()
