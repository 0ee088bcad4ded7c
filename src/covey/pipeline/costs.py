"""Costs: what the documents of each part cost by each alternative, documents spread over tasks.

    groups · trees · interests · topology ─ packed into one row ─┐
                                                                 ├─ mapInArrow ─ sums of batches ─ sums
    documents ───────────────────────────────────────────────────┘

`opt`, a Steiner tree for each document, is always there: the floor of all plans, up to the error of the heuristic.

**Same sums whatever the partitions.** What a document costs is rounded to a whole number of units, and whole numbers
are added up. A unit is a power of two, so small that costs of whole numbers are exact and others lose less than what
rounding would.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.matching.jit import Floats, Ints, Longs
from covey.pipeline.documents import hosts_of, matches_of
from covey.pipeline.groups import FLOODING
from covey.pipeline.packed import Overlay, attach, attached, overlay_of, pack, unsqueezed
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
_SIZES = "alternative string, trees int, entries bigint, bytes bigint, tried int"


def costs(
    documents: DataFrame, groups: DataFrame, trees: DataFrame, interests: DataFrame, topology: DataFrame
) -> DataFrame:
    """Return the table `costs`: each alternative with what each part of the documents costs."""
    tables = {
        "topology": topology,
        "interests": interests.select("interest", "broker"),
        "groups": groups.select("alternative", "interest", "group", "rule"),
        "trees": trees,
    }
    known = documents.select("event", "broker", "part", "interests")
    sums = attach(known, pack(tables, build=alternatives_in)).mapInArrow(cost_batches, _SUMS)
    asked = interests.select(
        "interest",
        "broker",
        F.xxhash64("encoded").alias("filter"),
        F.octet_length("encoded").alias("length"),
    )
    sizes = pack({**tables, "interests": asked}, build=asked_in).mapInArrow(size_batches, _SIZES)
    unit = F.max("unit")
    whole = sums.groupBy("alternative", "part").agg(
        F.sum("documents").alias("documents"),
        (F.sum("units").cast("double") * unit).alias("cost"),
        (F.sum("wasted").cast("double") * unit).alias("wasted"),
        *[F.sum(name).alias(name) for name in ("copies", "deliveries", "wanted")],
    )
    sized = whole.join(F.broadcast(sizes), "alternative", "left")
    return sized.select(*[F.col(column.name).cast(column.type) for column in COSTS.columns])


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


def asked_in(tables: dict[str, pa.Table]) -> Any:
    """Build what `size_batches` reads: the alternatives, and the filter of each interest with its length."""
    order = tables["interests"].sort_by("interest")
    _, first, filters = np.unique(order.column("filter").to_numpy(), return_index=True, return_inverse=True)
    lengths = order.column("length").to_numpy().astype(np.int64)[first]
    return alternatives_in(tables), filters.astype(np.int32), lengths


def size_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield for each alternative its trees, the entries and bytes of all tables, and the trees tried by an event."""
    for batch in batches:
        for row in range(batch.num_rows):
            packed, filters, lengths = unsqueezed(batch.column("packed")[row].as_buffer())
            alternatives = alternatives_of(packed)
            rows = [sizes_of(one, alternatives, filters, lengths) for one in alternatives.all]
            names = [field.split()[0] for field in _SIZES.split(", ")]
            types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int32()]
            columns = zip(zip(*rows, strict=True), types, strict=True)
            arrays = [pa.array(column, kind) for column, kind in columns]
            yield pa.RecordBatch.from_arrays(arrays, names)


def sizes_of(
    alternative: Alternative, alternatives: Alternatives, filters: Ints, lengths: Longs
) -> tuple[str, int, int, int, int]:
    """Return one row of `size_batches`."""
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
    """Yield the sums of one partition, a row for each alternative and part."""
    sums: dict[tuple[str, str], Sums] = defaultdict(Sums)
    documents: dict[str, int] = defaultdict(int)
    wanted: dict[str, int] = defaultdict(int)
    unit = 1.0
    for alternatives, batch in attached(batches, alternatives_of):
        unit = alternatives.unit
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
    rows_ = [
        (
            name,
            part,
            documents[part],
            Decimal(s.units),
            unit,
            Decimal(s.wasted),
            s.copies,
            s.deliveries,
            wanted[part],
        )
        for (name, part), s in sorted(sums.items())
    ]
    if rows_:
        types = [
            pa.string(),
            pa.string(),
            pa.int64(),
            pa.decimal128(38, 0),
            pa.float64(),
            pa.decimal128(38, 0),
        ]
        arrays = [
            pa.array(column, kind)
            for column, kind in zip(zip(*rows_, strict=True), [*types, *[pa.int64()] * 3], strict=True)
        ]
        names = [field.split()[0] for field in _SUMS.split(", ")]
        yield pa.RecordBatch.from_arrays(arrays, names)


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
