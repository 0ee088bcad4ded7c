"""The experiment of section 6: how large routing tables are with each strategy.

The network has 64 routers after the transit-stub model, 24 consumers' brokers and one producer's; the graph is
reduced to the tree of shortest paths from the producer. *Inner nodes* are the 64 routers. Over half of them
have consumers behind them; the tables of others are empty and count in means, unless a column says `used`.

    filters    distinct filters of a table: the paper has one entry for a filter, whatever links it came from
    entries    pairs of link and filter; with match-first one for each subscription, as each has its own destination

The paper's *simple* routing suppresses multiple occurrences of a filter: it is `identity` here.

`computed_from` says where a row is from. In cells that simulate, it is the simulation, and `agrees` whether every
broker has the table that the reduction says; other cells have the reduction alone. A cell draws its population itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from covey.core.xpath.filter import parse_xpath
from covey.lab.experiment import Cell, Experiment, Row, Scale
from covey.lab.paper_x.population import FILE, Subscribed, doctypes, population
from covey.lab.paper_x.steady import Tables, steady_messages, steady_tables
from covey.sim.network import Network
from covey.sim.topology.graph import Topology
from covey.sim.topology.random_graphs import xroute64

NAME = "x-tables"
STRATEGIES = ("xroute", "xroute-sets", "identity", "match-first")
PRODUCER = "p"
EVERYTHING = "/*"

ALL_SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 35_000, 50_000)

# Scale -> walks -> the sizes that are simulated on the first topology, and those that are computed from the reduction.
Sizes = tuple[tuple[int, ...], tuple[int, ...]]
GRID: dict[Scale, dict[str, Sizes]] = {
    "small": {
        "full": ((100, 500, 1_000), (2_000, 10_000)),
        "even": ((100,), (1_000, 10_000)),
    },
    "paper": {
        "full": (ALL_SIZES, ()),
        "even": (ALL_SIZES[:5], ALL_SIZES[5:]),
    },
}
SEEDS: dict[Scale, int] = {"small": 5, "paper": 12}  # a topology and a population each


def cells(scale: Scale) -> list[Cell]:
    """Return the grid: seeds, readings of patterns, kinds of sets, and sizes. The simulator runs for the first seed."""
    return [
        {
            "subscriptions": size,
            "unique": unique,
            "walks": walks,
            "seed": seed,
            "simulated": simulated and seed == 1,
            "doctype": doctype,
        }
        for seed in range(1, SEEDS[scale] + 1)
        for walks, sizes in GRID[scale].items()
        for simulated, some in zip((True, False), sizes, strict=True)
        for size in some
        for unique in (True, False)
        for doctype in doctypes()
    ]


def effort(cell: Cell) -> float:
    """Return about how many seconds a cell takes."""
    return int(cell["subscriptions"] or 0) * (0.0035 if cell["simulated"] else 0.0003)


def run(cell: Cell) -> list[Row]:
    """Compute one cell: a row for each strategy, over the same population."""
    seed = int(cell["seed"] or 0)
    topology = xroute64(seed)
    subscribed = population(
        topology.roles["subscribers"],
        int(cell["subscriptions"] or 0),
        unique=bool(cell["unique"]),
        walks=str(cell["walks"]),
        seed=seed,
        doctype=str(cell["doctype"]),
    )
    rows: list[Row] = []
    same: dict[str, Tables] = {}
    for strategy in STRATEGIES:
        # Both forms of XROUTE have one reduction, and it is the costly one.
        reduction = "xroute" if strategy == "xroute-sets" else strategy
        if reduction not in same:
            same[reduction] = steady_tables(topology, PRODUCER, reduction, subscribed)
        tables = same[reduction]
        messages = steady_messages(topology, PRODUCER, strategy, subscribed, tables)
        row: Row = {"strategy": strategy, "computed_from": "reduction", "agrees": None}
        if cell["simulated"]:
            found, sent = simulated_tables(topology, strategy, subscribed, seed)
            agrees = is_same(found, tables) and messages in (None, sent)
            tables, messages = found, sent
            row |= {"computed_from": "simulation", "agrees": agrees}
        rows.append(row | sizes(topology, tables) | {"messages": messages, **drawn(subscribed)})
    return rows


def simulated_tables(
    topology: Topology, strategy: str, subscribed: Subscribed, seed: int
) -> tuple[Tables, int]:
    """Register everything in the simulator; return the tables, and how many control messages brokers got for it."""
    net = Network(topology, strategy, seed=seed, judge=False, keep=False)
    net.advertise(PRODUCER, parse_xpath(EVERYTHING))
    net.settle()
    net.clear_counters()
    for broker, filter in subscribed:
        net.subscribe(broker, filter)
    net.settle()
    return net.tables, net.counters["control_messages"]


def is_same(one: Tables, other: Tables) -> bool:
    """Return whether all brokers have the same entries as often."""
    return one.keys() == other.keys() and all(
        Counter(one[broker]) == Counter(other[broker]) for broker in one
    )


def sizes(topology: Topology, tables: Tables) -> Row:
    """Return the sizes of tables at inner nodes, and at the producer's broker."""
    routers = topology.roles["router"]
    filters = [len({filter for _, filter in tables[broker]}) for broker in routers]
    entries = [len(tables[broker]) for broker in routers]
    used = sum(1 for count in entries if count)
    return {
        "inner_nodes": len(routers),
        "used_nodes": used,
        "mean_filters": sum(filters) / len(routers),
        "mean_entries": sum(entries) / len(routers),
        "mean_used_filters": sum(filters) / used,
        "mean_used_entries": sum(entries) / used,
        "max_filters": max(filters),
        "max_entries": max(entries),
        "producer_filters": len({filter for _, filter in tables[PRODUCER]}),
        "producer_entries": len(tables[PRODUCER]),
    }


def drawn(subscribed: Sequence[tuple[str, object]]) -> Row:
    """Return how many different filters there are."""
    return {"distinct_filters": len({filter for _, filter in subscribed})}


TABLES = Experiment(
    NAME,
    "X",
    "Table sizes on 64 routers by strategy, number of subscriptions and kind of set",
    cells,
    run,
    version=2,
    effort=effort,
    inputs=(FILE,),
)
