"""What is measured: sizes of routing tables and overhead of forwarding filters, as grids of cells.

    tables      all consumers active: remote entries of all brokers and by level
    overhead    half of them active on average: control messages a subscription or cancellation
    locality    as `tables`, for identity routing, when subnets ask for a share `locality` of the symbols each
    dynamics    as `overhead`, with locality: also how many events a change must be worth
    paths       how far consumers are from the source

A cell is one curve: consumers come to one network in steps, and each step gives a row. Simple routing's tables grow by
the same amount with each subscription; its cells simulate some small steps, check in fractions that these are exactly
proportional, and give the other rows in proportion, marked `extrapolated`. If the check fails there are no such rows.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from covey.lab.experiment import Cell, Experiment, Row, Scale, Value
from covey.lab.paper_r.exchange import ROOT, Exchange
from covey.lab.paper_r.grids import (
    dynamics_cells,
    locality_cells,
    overhead_cells,
    paths_cells,
    tables_cells,
)
from covey.sim.topology import rebeca


def run_tables(cell: Cell) -> list[Row]:
    """Return a row for each number of consumers a local broker, all of them active."""
    sizes, more = _sizes(cell["sizes"]), _sizes(cell["extrapolated_sizes"])
    exchange = Exchange(cell, max(sizes))
    rows: list[Row] = []
    for consumers in sizes:
        exchange.grow(consumers)
        rows.append(_table_row(exchange, consumers, bool(cell["payload"])))
    linear = len({Fraction(int(row["entries"] or 0), int(row["x"] or 1)) for row in rows}) == 1
    for row in rows:
        row["linear"] = linear
    if linear:
        rows += [_in_proportion(rows[-1], consumers) for consumers in more]
    return rows


def _table_row(exchange: Exchange, consumers: int, payload: bool) -> Row:
    sizes = exchange.table_sizes()
    neighbours = exchange.topology.neighbours
    idle = [broker for broker in exchange.topology.role("local") if broker not in exchange.local]
    row: Row = {
        "consumers": consumers,
        "x": exchange.active,
        "brokers": len(sizes),
        "entries": sum(sizes.values()),
        "entries_of_idle_local_brokers": sum(sizes[broker] for broker in idle),
        "fullest_share": max(size / (exchange.symbols * len(neighbours[b])) for b, size in sizes.items()),
        "path_sum": _path_sum(exchange),
        "homes": len(exchange.local),
        "window": exchange.market.homes[0][2],
        "extrapolated": False,
    }
    for level in range(1, 5):
        on_it = [sizes[router] for router, its in exchange.levels.items() if its == level]
        row[f"level_{level}"] = sum(on_it) / len(on_it) if on_it else None
    row["local_level"] = sum(sizes[b] for b in exchange.topology.role("local")) / len(exchange.local)
    _add_payload(row, exchange, exchange.payload() if payload else None)
    return row


def _path_sum(exchange: Exchange) -> int:
    distances = exchange.topology.distances(ROOT)
    return sum(distances[broker] for broker in exchange.local)


def _add_payload(row: Row, exchange: Exchange, published: int | None) -> None:
    """Add the share of payload that flooding would forward in vain, published or else by interest alone.

    Intervals leave it open: it would depend on prices.
    """
    row["saved"] = row["payload_as_needed"] = None
    if exchange.market.intervals:
        return
    needed = exchange.payload_by_interest()
    flooded = exchange.symbols * (len(exchange.topology.brokers) - 1)
    row["saved"] = 1 - (needed if published is None else published) / flooded
    row["payload_as_needed"] = None if published is None else published == needed


def _in_proportion(row: Row, consumers: int) -> Row:
    """Return the row of so many consumers when all sizes are proportional to their number."""
    factor = Fraction(consumers, int(row["consumers"] or 1))
    scaled = dict(row, consumers=consumers, extrapolated=True, saved=None, payload_as_needed=None)
    for key in ("x", "entries", "entries_of_idle_local_brokers"):
        scaled[key] = int(int(row[key] or 0) * factor)
    for key in ("fullest_share", "level_1", "level_2", "level_3", "level_4", "local_level"):
        value = row[key]
        scaled[key] = None if value is None else float(value) * float(factor)
    return scaled


def run_overhead(cell: Cell) -> list[Row]:
    """Return a row for each number of consumers a local broker, half of them active on average.

    For simple routing, when a change has cost the same at every size simulated, it is taken to cost that at the others,
    where only who is interested is followed. `x` is half of all subscriptions, `active` how many there really were.
    """
    sizes, more = _sizes(cell["sizes"]), _sizes(cell["extrapolated_sizes"])
    exchange = Exchange(cell, max(sizes + more))
    rows: list[Row] = []
    for consumers in sizes:
        exchange.grow(consumers, half=True)
        rows.append(_overhead_row(exchange, consumers, cell))
    linear = len({(row["messages"], row["changes"]) for row in rows}) == 1
    for row in rows:
        row["linear"] = linear
    exchange.tell = False
    for consumers in more if linear else ():
        exchange.grow(consumers, half=True)
        _, active = exchange.stir(int(cell["rounds"] or 1))
        half = exchange.known * exchange.each / 2
        row = dict(rows[0], consumers=consumers, x=half, active=active, extrapolated=True)
        _add_payload(row, exchange, None)
        rows.append(row)
    for row in rows:
        _add_break_even(row)
    return rows


def _overhead_row(exchange: Exchange, consumers: int, cell: Cell) -> Row:
    exchange.net.clear_counters()
    changes, active = exchange.stir(int(cell["rounds"] or 1))
    messages = exchange.net.counters["control_messages"]
    row: Row = {
        "consumers": consumers,
        "x": exchange.known * exchange.each / 2,
        "active": active,
        "brokers": len(exchange.topology.brokers),
        "messages": messages,
        "changes": changes,
        "overhead": messages / changes,
        "path_sum": _path_sum(exchange),
        "homes": len(exchange.local),
        "extrapolated": False,
    }
    _add_payload(row, exchange, exchange.payload() if cell["payload"] else None)
    return row


def _add_break_even(row: Row) -> None:
    """Add how many events a change there must be, for filtering to save as many messages as it costs."""
    saved, overhead = float(row["saved"] or 0), float(row["overhead"] or 0)
    row["break_even"] = overhead / (saved * (int(row["brokers"] or 0) - 1)) if saved else None


def run_paths(cell: Cell) -> list[Row]:
    """Return the mean distance of local brokers from the source, its own broker among them."""
    topology = rebeca(int(cell["levels"] or 0))
    local = topology.role("local")
    source = ROOT if cell["source"] == "root" else local[-1]
    distances = topology.distances(source)
    return [
        {"brokers": len(topology.brokers), "local": len(local), "path_sum": sum(distances[b] for b in local)}
    ]


def _sizes(text: Value) -> list[int]:
    return [int(size) for size in str(text).split()]


def _effort(cell: Cell) -> float:
    """Return about how many messages a cell costs."""
    largest = max(_sizes(cell["sizes"])) * int(cell["subscriptions"] or 1)
    hard = {"simple": 1.0, "identity": 1.0, "covering": 3.0, "merging": 10.0, "merging-rebeca": 10.0}[
        str(cell["strategy"])
    ]
    return largest * hard * (1.0 if cell["advertisements"] else 10.0) * 3.0 ** int(cell["levels"] or 1)


def _experiment(
    name: str, title: str, cells: Callable[[Scale], list[Cell]], run: Callable[[Cell], list[Row]]
) -> Experiment:
    return Experiment(name, "R", title, cells, run, effort=_effort)


TABLES = _experiment("r-tables", "Sizes of routing tables", tables_cells, run_tables)
OVERHEAD = _experiment("r-overhead", "Overhead of forwarding filters", overhead_cells, run_overhead)
LOCALITY = _experiment("r-locality", "Tables and payload under locality", locality_cells, run_tables)
DYNAMICS = _experiment("r-dynamics", "Overhead and payload under locality", dynamics_cells, run_overhead)
PATHS = Experiment("r-paths", "R", "Distances between consumers and source", paths_cells, run_paths)

EXPERIMENTS = (TABLES, OVERHEAD, LOCALITY, DYNAMICS, PATHS)
