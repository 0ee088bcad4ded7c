"""Properties 2 and 3, Table I and equation 3 (III, IV), and the bound on false positives, in random small networks.

All filters are intervals of one attribute, and every publisher publishes every value, so that shares are known exactly.
Similarity by its definition (eqs. 1 and 2) takes knowledge of everyone: at a broker on the way from S to a publisher it
is the share of the publisher's events that S gets and another live subscription behind that broker wants too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from covey.core.families import parse
from covey.core.filter import Filter
from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_c.driving import even, integer, text
from covey.sim import Network
from covey.sim.handles import Subscription
from covey.strategies.incremental.pruning import Incremental
from covey.strategies.incremental.statistics import Distances
from covey.strategies.subscriptions import SubscriptionStrategy

VALUES = 12
THRESHOLD = 0.9
TABLE_I = (1.0, 5.0, 1.0, 1.0, 7.0)

NETWORKS: dict[Scale, int] = {"small": 40, "paper": 400}
A_CELL = 20


def cells(scale: Scale) -> list[Cell]:
    """Return cells of twenty networks each, and one for Table I."""
    found: list[Cell] = [{"check": "table-i", "seed": 0, "networks": 1}]
    for check in ("propagation", "similarity", "bound"):
        found += [
            {"check": check, "seed": start, "networks": A_CELL} for start in range(0, NETWORKS[scale], A_CELL)
        ]
    return found


def run(cell: Cell) -> list[Row]:
    """Run the check of a cell in all its networks; rows have counts that add up."""
    check, start = CHECKS[text(cell, "check")], integer(cell, "seed")
    return even([check(seed) for seed in range(start, start + integer(cell, "networks"))])


def _between(low: int, high: int) -> Filter:
    return parse(f"x between {low} and {min(high, VALUES - 1)}")


def _tree(random: Random, least: int, most: int) -> list[tuple[str, str]]:
    return [(str(random.randrange(broker)), str(broker)) for broker in range(1, random.randint(least, most))]


def _way(net: Network, start: str, end: str) -> list[str]:
    """Return the brokers from one to another."""
    way = [start]
    while way[-1] != end:
        here = way[-1]
        way.append(next(b for b in net.overlay.neighbours[here] if end in net.overlay.behind(0, here, b)))
    return way


def _incremental(net: Network, broker: str) -> Incremental:
    strategy = net.nodes[broker].router.trees[0].strategy
    assert isinstance(strategy, Incremental)
    return strategy


def _publish_all(net: Network, publishers: list[str]) -> None:
    for broker in publishers:
        for value in range(VALUES):
            net.publish(broker, {"x": value})
    net.settle()


# -- Property 1 and 2 ----------------------------------------------------------------------------------------


def propagation(seed: int) -> Row:
    """Return where covered subscriptions are known: along a path with covering, in a tree without."""
    random = Random(f"propagation {seed}")
    links = _tree(random, 4, 9)
    brokers = sorted({broker for link in links for broker in link})
    publishers = random.sample(brokers, 2)
    broad = random.randrange(10)
    drawn = [(random.choice(brokers), random.randrange(VALUES - 2)) for _ in range(10)]
    row: Row = {"covered": 0, "no_path": 0, "trees_wrong": 0, "branching": 0}
    for strategy in ("covering", "simple"):
        net = Network(links, strategy, seed=seed, delay="exponential")
        for broker in publishers:
            net.advertise(broker, _between(0, VALUES))
        handles = [
            net.subscribe(broker, _between(0, VALUES) if place == broad else _between(low, low + 2))
            for place, (broker, low) in enumerate(drawn)
        ]
        net.settle()
        root = handles.pop(broad)
        for handle in handles:
            _note_propagation(row, net, handle, root, publishers)
    return row


def _note_propagation(
    row: Row, net: Network, handle: Subscription, root: Subscription, publishers: list[str]
) -> None:
    known = {broker for broker in net.brokers if _knows(net, broker, handle)}
    if net.overlay.strategy_of[handle.broker] == "covering":
        way = _way(net, handle.broker, root.broker)
        _add(row, "covered", 1)
        _add(row, "no_path", known != set(way[: len(known)]))
    else:
        ways = [_way(net, handle.broker, publisher) for publisher in publishers]
        _add(row, "trees_wrong", known != {broker for way in ways for broker in way})
        _add(row, "branching", not any(set(way) == known for way in ways))


def _knows(net: Network, broker: str, handle: Subscription) -> bool:
    if broker == handle.broker:
        return True
    strategy = net.nodes[broker].router.trees[0].strategy
    assert isinstance(strategy, SubscriptionStrategy)
    return any(entry.key == handle.name for entry in strategy.table.entries())


def _add(row: Row, key: str, count: int) -> None:
    value = row[key]
    assert isinstance(value, int)
    row[key] = value + int(count)


# -- Property 3 and equation 3 -------------------------------------------------------------------------------


def similarity(seed: int) -> Row:
    """Return at how many places similarity falls towards a publisher, or is not what distances say."""
    random = Random(f"similarity {seed}")
    net = Network(_tree(random, 3, 9), "incremental", seed=seed, delay="exponential")
    publishers = sorted(random.sample(list(net.brokers), random.randint(1, min(3, len(net.brokers)))))
    for broker in publishers:
        net.advertise(broker, _between(0, VALUES))
    for _ in range(random.randint(2, 12)):
        low = random.randrange(VALUES)
        net.subscribe(random.choice(net.brokers), _between(low, low + random.randint(0, 8)))
    net.settle()
    _publish_all(net, publishers)
    row: Row = {"points": 0, "falls": 0, "differs": 0}
    for handle in net.subscriptions.values():
        for publisher in publishers:
            _note_similarity(row, net, handle, publisher)
    return row


def _note_similarity(row: Row, net: Network, handle: Subscription, publisher: str) -> None:
    way = _way(net, handle.broker, publisher)
    window, last = _incremental(net, handle.broker).window, 0.0
    for hops, broker in enumerate(way):
        end = hops == len(way) - 1
        behind = set(net.brokers) if end else set(net.overlay.behind(0, way[hops + 1], broker))
        others = [other for other in net.subscriptions.values() if other is not handle]
        wanted = [other.filter for other in others if other.broker in behind]
        true = _share(handle.filter, wanted)
        place = (handle.client, handle.name)
        estimated = window.similarity(place, f"producer at {publisher}", hops, net.now_s)
        _add(row, "points", 1)
        _add(row, "falls", true < last)
        _add(row, "differs", true != estimated)
        last = true


def _share(filter: Filter, others: list[Filter]) -> float:
    """Return the share of a filter's events that one of the others matches."""
    events = [{"x": value} for value in range(VALUES) if filter.matches({"x": value})]
    return sum(any(other.matches(event) for other in others) for event in events) / len(events)


def table_i(seed: int) -> Row:
    """Return the similarity at 2 hops and the critical distances of the events of Table I."""
    distances = Distances()
    for hops in TABLE_I:
        distances.add(hops)
    return {
        "phi_2": distances.similarity(2),
        "critical_60": distances.critical(0.6),
        "critical_80": distances.critical(0.8),
        "critical_90": distances.critical(0.9),
    }


# -- the bound on false positives ----------------------------------------------------------------------------


def bound(seed: int) -> Row:
    """Let the broadest subscription leave, and return the largest share of its events that is kept for nobody."""
    random = Random(f"bound {seed}")
    options = {"tiers": ((1, THRESHOLD),), "minimum_samples": 1, "meter_events": 0}
    net = Network(_tree(random, 4, 9), "incremental", seed=seed, options=options)
    publishers = sorted(random.sample(list(net.brokers), 2))
    for broker in publishers:
        net.advertise(broker, _between(0, VALUES))
    net.settle()
    root = net.subscribe(random.choice(net.brokers), _between(0, VALUES))
    for _ in range(random.randint(8, 20)):
        low = random.randrange(VALUES)
        net.subscribe(random.choice(net.brokers), _between(low, low + random.choice((1, 2, 3))))
    net.settle()
    _publish_all(net, publishers)
    net.unsubscribe(root)
    net.settle()
    net.clear_deliveries()
    _publish_all(net, publishers)
    row: Row = {"kept": 0, "beyond": 0, "share_max": 0.0, "unasked": 0}
    row["unasked"] = sum(not handle.filter.matches(event) for handle, event in net.deliveries)
    shares = _kept_shares(net)
    row["kept"], row["share_max"] = len(shares), max(shares, default=0.0)
    row["beyond"] = sum(share > 1 - THRESHOLD + 1e-9 for share in shares)
    return row


def _kept_shares(net: Network) -> list[float]:
    """Return, for all that is kept, the share of its events that nobody behind its owner wants."""
    found = []
    for broker in net.brokers:
        strategy = _incremental(net, broker)
        for link in net.overlay.neighbours[broker]:
            side = net.overlay.behind(0, link, broker)
            wanted = [handle.filter for handle in net.subscriptions.values() if handle.broker in side]
            found += [1.0 - _share(kept.filter, wanted) for kept in strategy.kept(link)]
    return found


CHECKS: dict[str, Callable[[int], Row]] = {
    "propagation": propagation,
    "similarity": similarity,
    "table-i": table_i,
    "bound": bound,
}

SIMILARITY = Experiment("c-similarity", "C", "how subscriptions travel, and how similar they are", cells, run)
