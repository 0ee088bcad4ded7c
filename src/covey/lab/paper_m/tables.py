"""The tables: what other readings give, what searches count, what trees are worth, and how far our own aims are met."""

from __future__ import annotations

from covey.lab.experiment import Results, Row, Value
from covey.lab.figure import Grid
from covey.lab.paper_m import beyond, costs, steps, stretch
from covey.lab.paper_m.numbers import reading_name, readings
from covey.lab.paper_m.world import DATA, real

AIM = 1.25
SHOWN = {
    "spt": "SPT",
    "flooding": "flooding",
    "single": "SINGLE",
    "semcast merge+split": "SemCast",
    "semcast merge+split filtered": "filtering",
    "mult": "MULT",
    "held-out": "held-out",
}


def readings_table(results: Results) -> Grid:
    """Return every scheme in units of OPT, for each reading and data set."""
    smallest = min(real(row, "brokers") for row in results.rows(costs.COSTS))
    rows = results.rows(costs.COSTS, brokers=int(smallest))
    lines: list[tuple[str | float, ...]] = []
    for reading in readings(rows):
        for data in DATA:
            found = _by_scheme(
                [row for row in rows if row["data"] == data and reading.items() <= row.items()]
            )
            if found:
                opt = found["opt"]
                cells = [_over(found.get(scheme), opt) for scheme in SHOWN]
                trees = found["mult"][2], found["held-out"][2]
                lines.append((reading_name(reading), data, opt[1], *cells, f"{trees[0]:.0f}, {trees[1]:.0f}"))
    return Grid(("reading", "data", "OPT", *SHOWN.values(), "groups of MULT, held-out"), lines)


def _by_scheme(rows: list[Row]) -> dict[str, tuple[float, float, float]]:
    """Return the mean costs on the sample and on all documents and the number of trees, by scheme."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["scheme"]), []).append(row)
    return {
        scheme: (_mean(mine, "sample_cost"), _mean(mine, "all_cost"), _mean(mine, "trees"))
        for scheme, mine in found.items()
    }


def _mean(rows: list[Row], column: str) -> float:
    return sum(real(row, column) for row in rows) / len(rows)


def _over(one: tuple[float, float, float] | None, other: tuple[float, float, float]) -> str:
    return "" if one is None else f"{one[1] / other[1]:.2f} ({one[0] / other[0]:.2f})"


def counts_table(results: Results) -> Grid:
    """Return what each search computes and ends with, the means over seeds."""
    groups: dict[tuple[Value, ...], list[Row]] = {}
    for row in results.rows(steps.TIMES):
        key = (row["per"], row["brokers"], row["data"], row["scheme"])
        groups.setdefault(key, []).append(row)
    lines: list[tuple[str | float, ...]] = []
    for (per, brokers, data, scheme), rows in groups.items():
        lines.append(
            (
                f"a {per}'s",
                int(str(brokers)),
                str(data),
                str(scheme),
                round(_mean(rows, "evaluations")),
                f"{_mean(rows, 'seconds'):.2f}",
                f"{_mean(rows, 'trees'):.0f}",
                f"{_mean(rows, 'sample_cost'):.2f}",
                f"{_mean(rows, 'all_cost'):.2f}",
            )
        )
    columns = (
        "subscription",
        "brokers",
        "data",
        "scheme",
        "trees computed",
        "seconds",
        "trees",
        "sample",
    )
    return Grid((*columns, "all"), lines)


def stretch_table(results: Results) -> Grid:
    """Return stretch and cost of each kind of tree by topology and data."""
    rows = results.rows(stretch.NAME)
    smallest = min(real(row, "brokers") for row in rows)
    rows = [row for row in rows if row["brokers"] == smallest]
    columns = list(dict.fromkeys((row["topology"], row["data"], row["words"]) for row in rows))
    lines: list[tuple[str | float, ...]] = []
    for tree in dict.fromkeys(str(row["tree"]) for row in rows):
        cells: list[str] = []
        for column in columns:
            mine = [
                row
                for row in rows
                if row["tree"] == tree and (row["topology"], row["data"], row["words"]) == column
            ]
            cells.append(f"{_mean(mine, 'stretch'):.2f} ({_mean(mine, 'over'):.2f})")
        lines.append((tree, *cells))
    heads = tuple(f"{topology} {data}, {words} words" for topology, data, words in columns)
    return Grid(("tree", *heads), lines)


def fresh_table(results: Results) -> Grid:
    """Return by topology and data what plans cost on fresh documents, in units of one tree."""
    lines: list[tuple[str | float, ...]] = []
    every: dict[str, list[float]] = {scheme: [] for scheme in beyond.PLANS[1:]}
    for topology in dict.fromkeys(row["topology"] for row in results.rows(beyond.FRESH)):
        for data in DATA:
            cells = []
            for scheme, shares in every.items():
                rows = results.rows(beyond.FRESH, topology=topology, data=data, scheme=scheme)
                mine = [real(row, "of_one_tree") for row in rows]
                shares += mine
                cells.append(f"{sum(mine) / len(mine):.3f} ({max(mine):.3f})")
            lines.append((str(topology), data, *cells))
    worse = [f"{sum(share > 1 for share in shares)} of {len(shares)} worse" for shares in every.values()]
    worst = [f"at most {max(shares):.3f}" for shares in every.values()]
    return Grid(("topology", "data", *every), [*lines, ("all", "", *worse), ("all", "", *worst)])


def regions_table(results: Results) -> Grid:
    """Return by network what regions cost in units of Steiner trees, and whether that is within the aim."""
    rows = results.rows(beyond.REGIONS)
    kinds = list(dict.fromkeys((row["scheme"], row["rule"], _trees(row)) for row in rows))
    lines: list[tuple[str | float, ...]] = []
    for brokers, topology, data in dict.fromkeys(
        (row["brokers"], row["topology"], row["data"]) for row in rows
    ):
        here = [
            row for row in rows if (row["brokers"], row["topology"], row["data"]) == (brokers, topology, data)
        ]
        worst = {
            kind: max(real(row, "over") for row in here if (row["scheme"], row["rule"], _trees(row)) == kind)
            for kind in kinds
        }
        meets = [
            f"{trees} {rule}"
            for (scheme, rule, trees), over in worst.items()
            if scheme == "regions" and over <= AIM
        ]
        cells = [f"{worst[kind]:.3f}" for kind in kinds]
        lines.append((int(str(brokers)), str(topology), str(data), *cells, meets[0] if meets else "**none**"))
    heads = tuple(f"{scheme} {trees} {rule}".strip() for scheme, rule, trees in kinds)
    return Grid(("brokers", "topology", "data", *heads, "first within 1.25"), lines)


def _trees(row: Row) -> str:
    return str(row["trees"]) if row["scheme"] == "regions" else ""
