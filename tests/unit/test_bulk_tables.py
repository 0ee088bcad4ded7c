"""Tables in bulk without Spark: the steps against the simulator, and brokers that start with what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.oracles.table_steps import (
    Case,
    Row,
    announced,
    case,
    computed,
    counted,
    simulated,
    table_of,
    tree_plan,
)

from covey.core.families import decode, parse
from covey.core.filter import Filter
from covey.errors import ConfigError, ProtocolError
from covey.pipeline.tables import boxes, kernels, local
from covey.pipeline.tables.boxes import Boxes, CoverOrder
from covey.pipeline.tables.local import SCHEMA, combined, equal_once
from covey.pipeline.tables.overlay import Overlay
from covey.pipeline.tables.stage import ENTRIES, SIZES
from covey.pipeline.tables.steps import steps_of
from covey.routing.digest import Fact
from covey.routing.messages import LinkUp
from covey.routing.router import Router
from covey.sim.checkers import check_all
from covey.sim.network import Network
from covey.sim.trial_material import material
from covey.strategies.merging.reduction import merged
from covey.strategies.reductions import REDUCTIONS, uncovered

STRATEGIES = list(REDUCTIONS)
SEEDS = (0, 6, 11, 19)  # all families, few and many advertisements


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("advertisements", [False, True])
def test_the_tables_are_the_simulators(strategy: str, advertisements: bool) -> None:
    entries = 0
    for seed in SEEDS:
        given = case(seed)
        expected = simulated(given, strategy, advertisements=advertisements)
        for keys in (False, True):
            rows = computed(given, strategy, advertisements=advertisements, keys=keys)
            assert counted(rows) == expected, (seed, keys)
            assert all((row["key"] is not None) == keys for row in rows)
        entries += expected.total()
    assert (entries > 0) == (strategy != "flooding")


def test_the_document_shows_the_columns() -> None:
    text = (Path(__file__).parents[2] / "docs" / "bulk-tables.md").read_text(encoding="utf-8")
    for table in (ENTRIES, SIZES):
        _, _, section = text.partition(f"\n## {table.name}\n")
        section, _, _ = section.partition("\n## ")
        assert section.startswith(f"\nEach row is {table.comment}.")
        rows = [f"| {column.name} | {column.type} | {column.comment} |" for column in table.columns]
        assert [line for line in section.splitlines() if line.startswith("| ")][1:] == rows


# -- covering by wire forms ------------------------------------------------------------------------------------

WIRES = [
    "x between 1 and 5 and s = 'a'",
    "x > 1 and x < 5 and s = 'a'",
    "x >= 1 and x < 5 and s = 'a'",
    "x > 1 and x <= 5 and s = 'a'",
    "x > 0.5 and s = 'a'",
    "x < -2.5 and s = 'a'",
    "x between -3 and 70000 and s = 'a'",
    "x between -3 and 70000 and s = 'b'",
    "x between 0 and 1e300",
    "x between 0 and 9007199254740993",
    "x between 1e-300 and 5 and s = 'a'",
    "x between 1 and 5 and y between 1 and 5",
    "x = 3 and s = 'a'",
    "x = 3",
    "s = 'a'",
    "s = 'a' and t = true and x > -7.25",
    "s = 'a' and t = true and x > 7.25",
    "s in ('a', 'b') and x > 7.25",
    "s like 'a%b' and x > 3",
    "x is null",
    "s = 'a' or x between 2 and 3",
    "TRUE",
    "FALSE",
    f"{'n' * 40} = '{'v' * 300}' and x between 1 and 2",
    f"{'n' * 40} = '{'v' * 300}' and x between 0 and 2",
    f"{'n' * 40} = '{'v' * 299}w' and x between 1 and 2",
]


def _maximal(filters: Sequence[Filter], random: Random, in_pieces: bool = False) -> None:
    wires = pa.array([filter.encode() for filter in filters], pa.binary())
    order = CoverOrder(wires)
    for _ in range(4):
        ranks = np.array(sorted(random.sample(range(len(filters)), random.randint(1, len(filters)))))
        some = sorted((order.filter(rank) for rank in ranks.tolist()), key=lambda f: f.encode())
        assert {order.filter(rank) for rank in ranks[order.maximal(ranks)].tolist()} == set(uncovered(some))
    # With repetitions, and half of them with another seed, which nothing of the first half covers.
    twice = pa.concat_arrays([wires, wires, wires])
    seeds = np.repeat([0, 0, 1], len(wires))
    made = Boxes(twice, seeds)
    assert len(set(made.rows.tolist())) == len(made.rows)
    for read in (made.shape, made.low, made.high):
        assert read.reshape(3, -1).tolist() == 3 * [read[: len(wires)].tolist()]
    kept = made.uncovered().reshape(3, -1)
    if not in_pieces:  # how runs lie in pieces hangs on the order of equal digests
        assert kept.tolist() == 3 * [kept[0].tolist()]
    for flags in kept:
        left = [filter for filter, flag in zip(filters, flags, strict=True) if flag]
        assert set(uncovered(left)) == set(uncovered(filters))


def test_maximal_filters_by_their_wire_forms() -> None:
    random = Random(0)
    _maximal([parse(text) for text in WIRES], random)
    for seed in range(40):
        random = Random(seed)
        drawn = material(random)
        filters = list(dict.fromkeys(drawn.filter() for _ in range(random.randint(1, 50))))
        random.shuffle(filters)
        _maximal(filters, random)
    lows = [random.randint(0, 99) for _ in range(150)]
    texts = {f"x between {low} and {low + random.randint(1, 30)} and s = '{low % 2}'" for low in lows}
    _maximal([parse(text) for text in sorted(texts)], random)


def test_two_runs_may_have_one_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(*arrays: np.ndarray) -> None:
        kernels.scan(*arrays)
        arrays[5][:] = 7

    monkeypatch.setattr(boxes, "scan", scan)
    _maximal([parse(text) for text in WIRES], Random(0), in_pieces=True)
    intervals = [f"x between {-k} and {k} and s = '{s}'" for k in range(1, 5) for s in "abc"]
    _maximal([parse(text) for text in intervals], Random(0), in_pieces=True)


def test_which_filters_are_boxes() -> None:
    shapes = Boxes(pa.array([parse(text).encode() for text in WIRES], pa.binary())).shape
    no_boxes = {text for text, shape in zip(WIRES, shapes, strict=True) if not shape}
    assert no_boxes == {
        "x between 0 and 1e300",
        "x between 0 and 9007199254740993",
        "x between 1e-300 and 5 and s = 'a'",
        "x between 1 and 5 and y between 1 and 5",
        "s in ('a', 'b') and x > 7.25",
        "s like 'a%b' and x > 3",
        "x is null",
        "s = 'a' or x between 2 and 3",
        "TRUE",
        "FALSE",
    }
    kept = Boxes(pa.array([parse(text).encode() for text in WIRES[:7]], pa.binary())).uncovered()
    assert [text for text, flag in zip(WIRES[:7], kept, strict=True) if flag] == WIRES[4:7]


def test_boxes_are_joined_as_merging_joins_them() -> None:
    texts = [
        "a between 1 and 2 and s = 'x'",
        "a > 2 and a < 300 and s = 'x'",
        "a >= 300 and a <= 70000.5 and s = 'x'",
        "a > 70000.5 and a < 70001 and s = 'x'",
        "a > 70001 and a < 70002 and s = 'x'",
        "a < -5 and s = 'x'",
        "a >= -5 and a < 0.25 and s = 'x'",
        "a < 4 and s = 'y'",
        "a > 3 and s = 'y'",
        "a between 1 and 2 and b between 1 and 2",
        "a between 2 and 3 and b between 1 and 2",
        "s = 'x' and z between 1 and 2",
        "s = 'x' and z between 2 and 3",
    ]
    filters = [parse(text) for text in texts]
    rows, wires = Boxes(pa.array([filter.encode() for filter in filters], pa.binary())).joined()
    found = [str(decode(wire)) for wire in wires]
    expected = [
        "a between 1 and 70001 and a < 70001 and s = 'x'",
        "a > 70001 and a < 70002 and s = 'x'",
        "a < 0.25 and s = 'x'",
        "(a < 4 or a > 3) and s = 'y'",
        *texts[9:],
    ]
    assert sorted(found) == sorted(str(parse(text)) for text in expected)
    assert [texts[row] for row in rows.tolist()] == [texts[k] for k in (0, 4, 5, 7, 9, 10, 11, 12)]
    random = Random(1)
    for _ in range(30):
        some = [random.choice(filters) for _ in range(random.randint(1, 9))]
        _, wires = Boxes(pa.array([filter.encode() for filter in some], pa.binary())).joined()
        assert merged([decode(wire) for wire in wires]) == merged(some)


def test_portions_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PORTION", 10)
    wire = parse("x = 1").encode()
    rows = [{"broker": f"b{k % 2}", "encoded": wire, "entries": k, "key": f"s{k:02}"} for k in range(40)]
    batches = [pa.RecordBatch.from_pylist(rows[k : k + 3], schema=SCHEMA) for k in range(0, 40, 3)]
    (table,) = combined(iter(batches), equal_once)
    found = {row["broker"]: (row["entries"], row["key"]) for row in table.to_pylist()}
    assert found == {"b0": (sum(range(0, 40, 2)), "s00"), "b1": (sum(range(1, 40, 2)), "s01")}


# -- what makes no sense ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "the topology has no link"),
        ([("a", "b"), ("b", "c"), ("c", "a")], "no tree: a cycle goes over the link"),
        ([("a", "b"), ("b", "a")], "no tree: the link between b and a is there twice"),
        ([("a", "b"), ("c", "c")], "no tree: a link goes from 'c' to itself"),
        ([("a", "b"), ("c", "d")], "not connected: c cannot be reached from a"),
    ],
)
def test_a_topology_that_is_no_tree(links: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as found:
        Overlay(links)
    assert "\n" not in str(found.value)


def test_strategies_without_tables_in_bulk() -> None:
    with pytest.raises(ConfigError, match=r"there is no strategy 'x' \(hint"):
        steps_of("x", keys=False, advertisements=False)
    with pytest.raises(ConfigError, match="the tables of covering-lazy depend on what happened before"):
        steps_of("lazy", keys=False, advertisements=True)
    with pytest.raises(
        ConfigError, match="a subscription names the broker 'b9', which the topology does not"
    ):
        Overlay([("a", "b")]).number("b9", "a subscription")


# -- brokers that start with their tables ----------------------------------------------------------------------


class Starting(Network):
    """A network whose brokers, when they are restarted, start with what was loaded."""

    loaded: dict[str, dict[str, tuple[list[Fact], list[Fact]]]]

    def _new_router(self, broker: str) -> Router:
        router = super()._new_router(broker)
        for link, (advertisements, subscriptions) in getattr(self, "loaded", {}).get(broker, {}).items():
            router.load(link, advertisements=advertisements, subscriptions=subscriptions)
        return router

    def start_anew(self, order: Sequence[str]) -> None:
        """Let all brokers forget everything and start with their tables, one after the other."""
        for broker in order:
            self.crash(broker)
        self.settle()
        self.clear_counters()
        for broker in order:
            self.restart(broker)
        self.settle()


def facts(rows: list[Row], strategy: str) -> dict[str, dict[str, list[Fact]]]:
    """Return the rows of each broker and link as facts."""
    found: dict[str, dict[str, list[Fact]]] = {}
    for row in rows:
        key = "" if strategy == "xroute-sets" else row["key"]
        fact = Fact(key, decode(row["encoded"]), row["owner"] or "")
        found.setdefault(row["broker"], {}).setdefault(row["link"], []).append(fact)
    return found


def started(given: Case, strategy: str, *, advertisements: bool, stale: bool) -> Starting:
    """Return a network at rest whose brokers have started with tables; with `stale`, much has changed since."""
    net = Starting(
        given.links, strategy, advertisements=advertisements, trees=tree_plan(strategy, given.links)
    )
    announced_ads = [net.advertise(broker, filter) for broker, filter in given.advertisements]
    subscribed = [net.subscribe(broker, filter) for broker, filter in given.subscriptions]
    net.settle()
    before = table_of(net)
    tables = facts(computed(given, strategy, advertisements=advertisements, keys=True), strategy)
    ads = facts(announced(given), "") if advertisements else {}
    net.loaded = {
        broker: {
            link: (ads.get(broker, {}).get(link, []), tables.get(broker, {}).get(link, []))
            for link in {*ads.get(broker, {}), *tables.get(broker, {})}
        }
        for broker in net.brokers
    }
    if stale:
        for subscription in subscribed[::3]:
            net.unsubscribe(subscription)
        for advertisement in announced_ads[::2]:
            net.unadvertise(advertisement)
        for broker, filter in reversed(given.subscriptions):
            net.subscribe(broker, filter)
        net.settle()
        before = table_of(net)
    order = list(net.brokers)
    given.random.shuffle(order)
    net.start_anew(order)
    assert table_of(net) == before
    assert check_all(net) == []
    return net


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "xroute"])
@pytest.mark.parametrize("advertisements", [False, True])
def test_brokers_start_with_their_tables(strategy: str, advertisements: bool) -> None:
    seed = 0 if advertisements else 19
    given = case(seed)
    drawn = material(Random(seed))
    net = started(given, strategy, advertisements=advertisements, stale=False)
    if strategy != "regions":  # its labels depend on who came first
        assert net.counters["control_messages"] == 0
        if not advertisements:
            assert net.router_counters()["synchronised_facts"] == 0
    fresh = Network(
        given.links, strategy, advertisements=advertisements, trees=tree_plan(strategy, given.links)
    )
    for broker, filter in given.advertisements:
        fresh.advertise(broker, filter)
    held = [fresh.subscribe(broker, filter) for broker, filter in given.subscriptions]
    fresh.settle()
    for other in (net, fresh):
        other.clear_deliveries()
    for step in range(3):
        for _ in range(10):
            broker, event = given.random.choice(net.brokers), drawn.event()
            net.publish(broker, event)
            fresh.publish(broker, event)
        net.settle()
        fresh.settle()
        got = [(subscription.name, str(event)) for subscription, event in net.deliveries]
        expected = [(subscription.name, str(event)) for subscription, event in fresh.deliveries]
        assert sorted(got) == sorted(expected)
        for subscription in held[step::3]:
            fresh.unsubscribe(subscription)
            net.unsubscribe(net.subscriptions[subscription.name])
        fresh.settle()
        net.settle()
        assert table_of(net) == table_of(fresh)
        assert check_all(net) == []
    assert not table_of(net)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "xroute"])
def test_a_stale_table_is_put_right(strategy: str) -> None:
    started(case(4), strategy, advertisements=True, stale=True)


def test_when_a_table_can_be_loaded() -> None:
    router = Router("a", "covering")
    fact = Fact("s1", parse("x = 1"))
    with pytest.raises(ProtocolError, match="has no tree 1"):
        router.load("b", subscriptions=[fact], tree=1)
    router.load("b", subscriptions=[fact])
    assert router.remote_size() == 0, "the link is not up yet"
    router.handle(LinkUp(), "b")
    with pytest.raises(ProtocolError, match="before links come up"):
        router.load("c", subscriptions=[fact])
