"""Costs: what the documents of each part cost by each alternative, documents spread over tasks.

    groups · trees · interests · topology ─ packed into one row ─┐
                                                                 ├─ mapInArrow ─ sums of batches, sizes ─ sums
    documents, and a row for the sizes of tables ────────────────┘

`opt`, a Steiner tree for each document, is always there: the floor of all plans, up to the error of the heuristic.

**Same sums whatever the partitions.** What a document costs is rounded to a whole number of units, and whole numbers
are added up. A unit is a power of two, so small that costs of whole numbers are exact and others lose less than what
rounding would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.window import Window

from covey.matching.jit import Floats, Ints, Longs
from covey.pipeline.documents import hosts_of, matches_of
from covey.pipeline.groups import FLOODING
from covey.pipeline.packed import Overlay, attach, attached, overlay_of, pack
from covey.pipeline.schemas import COSTS
from covey.pipeline.trees import groups_by_alternative, trees_in
from covey.planning.documents import Documents
from covey.planning.groups.entries import directory_sizes, table_sizes
from covey.planning.groups.model import members_of
from covey.planning.groups.regions import carriers
from covey.planning.steiner import best_steiner_costs
from covey.planning.subscriptions import Matches
from covey.planning.tree import Tree
from covey.routing.carrying import RULES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPT = "opt"
UNIT_BITS = 46  # a document costs less than 2 to this many units, so that a batch of them fits 64 bits
STEP = 1 << 14  # documents costed at a time
_SUMS = (
    "alternative string, part string, documents bigint, units decimal(38,0), unit double,"
    " wasted decimal(38,0), copies bigint, deliveries bigint, wanted bigint"
)
_SIZES = "trees int, entries bigint, bytes bigint, tried int"
_SIZE_NAMES = ("trees", "entries", "bytes", "tried")
_BOTH_TYPES = {
    "alternative": pa.string(),
    "part": pa.string(),
    "documents": pa.int64(),
    "units": pa.decimal128(38, 0),
    "unit": pa.float64(),
    "wasted": pa.decimal128(38, 0),
    "copies": pa.int64(),
    "deliveries": pa.int64(),
    "wanted": pa.int64(),
    "trees": pa.int32(),
    "entries": pa.int64(),
    "bytes": pa.int64(),
    "tried": pa.int32(),
}


def costs(
    documents: DataFrame, groups: DataFrame, trees: DataFrame, interests: DataFrame, topology: DataFrame
) -> DataFrame:
    """Return the table `costs`: each alternative with what each part of the documents costs."""
    tables = {
        "topology": topology,
        "interests": interests.select(
            "interest",
            "broker",
            F.xxhash64("encoded").alias("filter"),
            F.octet_length("encoded").alias("length"),
        ),
        "groups": groups.select("alternative", "interest", "group", "rule"),
        "trees": trees,
    }
    known = documents.select("event", "broker", "part", "interests")
    # One row more, of no event: where it is, the sizes of tables are computed, which need no documents.
    nobody = [F.lit(None).cast(field.dataType).alias(field.name) for field in known.schema.fields]
    asked = known.union(documents.sparkSession.range(0, 1, 1, 1).select(*nobody))
    sums = attach(asked, pack(tables, build=asked_in)).mapInArrow(cost_batches, f"{_SUMS}, {_SIZES}")
    unit = F.max("unit")
    whole = (
        sums.repartition("alternative")
        .groupBy("alternative", "part")
        .agg(
            F.sum("documents").alias("documents"),
            (F.sum("units").cast("double") * unit).alias("cost"),
            (F.sum("wasted").cast("double") * unit).alias("wasted"),
            *[F.sum(name).alias(name) for name in ("copies", "deliveries", "wanted")],
            *[F.max(name).alias(name) for name in _SIZE_NAMES],
        )
    )
    everywhere = Window.partitionBy("alternative")
    sized = whole.withColumns({name: F.max(name).over(everywhere) for name in _SIZE_NAMES})
    return sized.where(F.col("part").isNotNull()).select(
        *[F.col(column.name).cast(column.type) for column in COSTS.columns]
    )


# -- in the workers --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alternative:
    """Groups and trees, and how events travel on them."""

    name: str
    rule: str
    group: Ints
    trees: tuple[Tree, ...]


@dataclass(frozen=True)
class Alternatives:
    """All that is compared, on one overlay."""

    overlay: Overlay
    hosts: Ints
    all: tuple[Alternative, ...]

    @property
    def unit(self) -> float:
        """What one unit costs."""
        graph = self.overlay.graph
        return float(2.0 ** (ceil(log2(float(graph.costs.max()) * graph.nodes)) - UNIT_BITS))


def alternatives_in(tables: dict[str, pa.Table]) -> Any:
    """Build what `alternatives_of` reads."""
    overlay = overlay_of(tables["topology"])
    hosts = hosts_of(tables["interests"], overlay)
    table = tables["groups"]
    rules = dict(zip(table.column("alternative").to_pylist(), table.column("rule").to_pylist(), strict=True))
    found = []
    for name, group in groups_by_alternative(table, len(hosts)).items():
        mine = tables["trees"].filter(pc.equal(tables["trees"].column("alternative"), name))
        found.append((name, rules[name], group, *trees_in(mine, overlay)))
    return overlay, hosts, found


def alternatives_of(packed: Any) -> Alternatives:
    """Return the alternatives with their trees ready for use."""
    overlay, hosts, found = packed
    return Alternatives(
        overlay,
        hosts,
        tuple(
            Alternative(
                name,
                rule,
                group,
                tuple(Tree(overlay.graph, mine, int(root)) for mine, root in zip(links, roots, strict=True)),
            )
            for name, rule, group, links, roots in found
        ),
    )


class Asked:
    """The alternatives, and the filter of each interest with its length."""

    def __init__(self, packed: Any) -> None:
        found, self.filters, self.lengths = packed
        self.alternatives = alternatives_of(found)


def asked_in(tables: dict[str, pa.Table]) -> Any:
    """Build what `Asked` reads."""
    order = tables["interests"].sort_by("interest")
    _, first, filters = np.unique(order.column("filter").to_numpy(), return_index=True, return_inverse=True)
    lengths = order.column("length").to_numpy().astype(np.int64)[first]
    return alternatives_in(tables), filters.astype(np.int32), lengths


def sizes_of(
    alternative: Alternative, alternatives: Alternatives, filters: Ints, lengths: Longs
) -> tuple[str, int, int, int, int]:
    """Return an alternative with its trees, the entries and bytes of all tables, and the trees tried by an event."""
    name, rule, trees = alternative.name, alternative.rule, alternative.trees
    hosts = alternatives.hosts
    if rule == FLOODING:
        return name, len(trees), 0, 0, 0
    if rule in RULES:
        nodes = alternatives.overlay.graph.nodes
        sizes = directory_sizes(nodes, hosts, filters, lengths)
        return name, len(trees), *sizes, len(trees) if rule == "cheapest" else 0
    return name, len(trees), *table_sizes(trees, alternative.group, hosts, filters, lengths), 0


@dataclass
class Sums:
    """Sums over documents, in whole numbers."""

    units: int = 0
    wasted: int = 0
    copies: int = 0
    deliveries: int = 0


def cost_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the sums of one partition, a row for each alternative and part, and sizes where the row is that asks."""
    sums: dict[tuple[str, str], Sums] = defaultdict(Sums)
    documents: dict[str, int] = defaultdict(int)
    wanted: dict[str, int] = defaultdict(int)
    unit = 1.0
    for asked, given in attached(batches, Asked):
        alternatives, batch = asked.alternatives, given
        unit = alternatives.unit
        if batch.column("event").null_count:
            sizes = [sizes_of(one, alternatives, asked.filters, asked.lengths) for one in alternatives.all]
            names = ("alternative", *_SIZE_NAMES)
            yield _rows({name: [one[place] for one in sizes] for place, name in enumerate(names)})
            batch = batch.filter(pc.is_valid(batch.column("event")))
        for first in range(0, batch.num_rows, STEP):
            some = batch.slice(first, STEP)
            for part in sorted(pc.unique(some.column("part")).to_pylist()):
                rows = some.filter(pc.equal(some.column("part"), part))
                matches = matches_of(rows, alternatives.overlay, alternatives.hosts)
                documents[part] += matches.document_count
                wanted[part] += len(matches.documents.hosts)
                for alternative in alternatives.all:
                    add(sums[alternative.name, part], alternatives, alternative, matches)
                add_opt(sums[OPT, part], alternatives, matches.documents)
    if sums:
        order = sorted(sums.items())
        parts = [part for (_, part), _ in order]
        yield _rows(
            {
                "alternative": [name for (name, _), _ in order],
                "part": parts,
                "documents": [documents[part] for part in parts],
                "units": [Decimal(one.units) for _, one in order],
                "unit": [unit] * len(order),
                "wasted": [Decimal(one.wasted) for _, one in order],
                "copies": [one.copies for _, one in order],
                "deliveries": [one.deliveries for _, one in order],
                "wanted": [wanted[part] for part in parts],
            }
        )


def _rows(columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Return rows with these columns, the others null."""
    count = len(columns["alternative"])
    return pa.RecordBatch.from_arrays(
        [pa.array(columns.get(name, [None] * count), kind) for name, kind in _BOTH_TYPES.items()],
        [*_BOTH_TYPES],
    )


def add(sums: Sums, alternatives: Alternatives, alternative: Alternative, matches: Matches) -> None:
    """Add what the documents cost by one alternative."""
    unit = alternatives.unit
    documents = matches.documents
    if alternative.rule == FLOODING:
        (tree,) = alternative.trees
        sent = int((np.diff(documents.offsets) > 0).sum())
        whole = float(tree.graph.costs[tree.links].sum())
        sums.units += sent * round(whole / unit)
        sums.wasted += sent * round(whole / unit) - in_units(tree.costs(documents), unit)
        sums.copies += sent
        sums.deliveries += len(documents.hosts)
    elif alternative.rule in RULES:
        chosen = carriers(documents, alternative.trees, alternative.rule)
        for number, tree in enumerate(alternative.trees):
            _carry(sums, tree, documents.take(chosen == number), unit)
    else:
        members_of_each = members_of(alternative.group, len(alternative.trees))
        for members, tree in zip(members_of_each, alternative.trees, strict=True):
            _carry(sums, tree, matches.documents_of(members), unit)


def add_opt(sums: Sums, alternatives: Alternatives, documents: Documents) -> None:
    """Add what the documents cost with a Steiner tree for each."""
    sums.units += in_units(best_steiner_costs(alternatives.overlay.paths, documents), alternatives.unit)
    sums.copies += int((np.diff(documents.offsets) > 0).sum())
    sums.deliveries += len(documents.hosts)


def _carry(sums: Sums, tree: Tree, documents: Documents, unit: float) -> None:
    sums.units += in_units(tree.costs(documents), unit)
    sums.copies += int((np.diff(documents.offsets) > 0).sum())
    sums.deliveries += len(documents.hosts)


def in_units(costs: Floats, unit: float) -> int:
    """Return the sum of costs, each rounded to whole units."""
    return int(np.rint(costs / unit).astype(np.int64).sum())
