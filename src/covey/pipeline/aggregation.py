"""Aggregation: on every planned tree, which filters are forwarded as one from which broker on (paper W).

    documents ─ to the trees that carry them, each with the interests there ─┐
                                                                             ├─ by tree, one task ─ (broker, members, …)
    trees ─ one row a tree, with the overlay ────────────────────────────────┘

Filters travel from their brokers to producers. Producers may be anywhere, and the algorithms know one: it is taken to
be at the tree's *entry*, the broker where most of its training documents are published (the first by name of equals).
That is the way on which filters are compared with most events. All documents of the tree count as if they entered
there, so costs are never too low on that account; ways to other producers are not planned.

Costs are shares: for one departure of each member, how many events, of each that the tree carries, cross a link for
nobody while brokers find out, in hops of delay (*cascade*, see `covey.planning.aggregation.cost`). They are of training
documents, and again of those held out, which is what to believe.

**Bounds.** A tree is planned by one task, from up to MOST_EVENTS of its documents in each part, evenly spaced in the
order of their names. Thousands of interests are first reduced by `covey.planning.aggregation.many`: equal ones at a
broker are merged there, the MOST_PLANNED heaviest of the rest are planned, others pass through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import ConfigError
from covey.matching.jit import Ints, Longs
from covey.pipeline.documents import HELD_OUT, TRAINING, hosts_of
from covey.pipeline.groups import BY_GROUPS
from covey.pipeline.packed import Overlay, attach, attached, overlay_of, pack, unpacked
from covey.pipeline.schemas import AGGREGATION
from covey.pipeline.trees import trees_in
from covey.planning.aggregation.many import Merge, merges
from covey.planning.aggregation.model import NONE
from covey.planning.aggregation.sample import Bools, Sample
from covey.planning.documents import Documents
from covey.planning.groups.regions import carriers
from covey.planning.link_bits import links_of
from covey.planning.tree import Tree
from covey.routing.carrying import RULES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_EVENTS = 4_096
_CARRIED = "tree int, event string, part string, publisher int, interests array<int>"


def aggregation(
    documents: DataFrame,
    interests: DataFrame,
    groups: DataFrame,
    trees: DataFrame,
    topology: DataFrame,
    *,
    alternative: str,
    share: float = 0.5,
    method: str | None = None,
) -> DataFrame:
    """Return the table `aggregation` for the trees of one alternative.

    `share` is the required part f of the largest gain among the bundles that are planned, `method` how they are planned
    (`planning.aggregation.registry`); by default, what suits their number.
    """
    if not 0 <= share <= 1:
        raise ConfigError(f"the share of the gain is {share} and not between 0 and 1")
    mine = groups.where(F.col("alternative") == alternative)
    ours = trees.where(F.col("alternative") == alternative)
    tables = {
        "topology": topology,
        "interests": interests.select("interest", "broker"),
        "groups": mine.select("interest", "group", "rule"),
        "trees": ours.select("group", "root", "links"),
    }
    packed = pack(tables, build=planned_in)
    known = documents.where(F.col("part").isin(TRAINING, HELD_OUT)).select(
        "event", "broker", "part", "interests"
    )
    carried = attach(known, packed).mapInArrow(carried_batches, _CARRIED)
    # A tree's own task needs no other tree.
    located = pack({name: tables[name] for name in ("topology", "interests")}, build=located_in)
    each = ours.select(F.col("group").alias("tree"), "links").crossJoin(F.broadcast(located.drop("_first")))
    rows = carried.unionByName(each, allowMissingColumns=True)
    columns = ", ".join(f"{column.name} {column.type}" for column in AGGREGATION.columns)

    # A function with types, which Spark reads from it; of a partial one it cannot.
    def merge(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        return merge_tree(key, rows, alternative=alternative, share=share, method=method)

    return rows.groupBy("tree").applyInArrow(merge, columns)


# -- in the workers --------------------------------------------------------------------------------------------


class Planned:
    """The overlay, where interests are and their groups, and the trees' links and roots."""

    def __init__(self, parts: tuple[Overlay, Ints, Ints, str, Ints, Ints]) -> None:
        self.overlay, self.hosts, self.group, self.rule, self.links, self.roots = parts

    def trees_of(self, documents: Ints, found: Ints, publishers: Ints) -> Ints:
        """Return the tree on which each of these documents goes to each of these interests; one entry a pair."""
        if self.rule not in RULES:
            return self.group[found]
        offsets = np.searchsorted(documents, np.arange(len(publishers) + 1))
        wanted = Documents.gathered(publishers, offsets, self.hosts[found])
        return carriers(wanted, self.trees, self.rule)[documents]

    @cached_property
    def trees(self) -> list[Tree]:
        """The trees, as brokers that choose among them know them."""
        pairs = zip(self.links, self.roots.tolist(), strict=True)
        return [Tree(self.overlay.graph, links, root) for links, root in pairs]


class Located:
    """The overlay, and where interests are."""

    def __init__(self, parts: tuple[Overlay, Ints]) -> None:
        self.overlay, self.hosts = parts


def located_in(tables: dict[str, pa.Table]) -> tuple[Overlay, Ints]:
    """Build what `Located` reads."""
    overlay = overlay_of(tables["topology"])
    return overlay, hosts_of(tables["interests"], overlay)


def planned_in(tables: dict[str, pa.Table]) -> tuple[Any, ...]:
    """Build what `Planned` reads."""
    overlay = overlay_of(tables["topology"])
    hosts = hosts_of(tables["interests"], overlay)
    known = tables["groups"].filter(pc.is_valid(tables["groups"].column("interest")))
    group = np.zeros(len(hosts), np.int32)
    group[known.column("interest").to_numpy()] = known.column("group").to_numpy()
    rules = pc.unique(tables["groups"].column("rule")).to_pylist()
    rule = rules[0] if rules else BY_GROUPS
    return overlay, hosts, group, rule, *trees_in(tables["trees"], overlay)


def carried_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each document once for each tree that carries it, with the interests that it goes to there."""
    for planned, batch in attached(batches, Planned):
        offsets, found = _flat(batch.column("interests"))
        documents = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
        publishers = planned.overlay.numbers(batch.column("broker"))
        trees = planned.trees_of(documents, found, publishers)
        order = np.lexsort((found, trees, documents))
        documents, trees, found = documents[order], trees[order], found[order]
        new = np.flatnonzero(np.diff(documents, prepend=-1) | np.diff(trees, prepend=-1))
        places = pa.array(documents[new])
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(trees[new], pa.int32()),
                batch.column("event").take(places),
                batch.column("part").take(places),
                pa.array(publishers[documents[new]], pa.int32()),
                pa.ListArray.from_arrays(
                    pa.array([*new, len(found)], pa.int32()), pa.array(found, pa.int32())
                ),
            ],
            ["tree", "event", "part", "publisher", "interests"],
        )


def merge_tree(
    key: tuple[Any, ...], rows: pa.Table, *, alternative: str, share: float, method: str | None = None
) -> pa.Table:
    """Return what to merge on one tree."""
    tree = key[0].as_py()
    told = rows.filter(pc.is_null(rows.column("event"))).to_pylist()
    assert len(told) == 1, "each tree is there once"
    located = unpacked(told[0]["digest"], told[0]["packed"], Located)
    training, held_out = (_part(rows, name) for name in (TRAINING, HELD_OUT))
    members = np.unique(_flat(training.column("interests"))[1])
    found: list[Merge] = []
    names: Sequence[str] = located.overlay.names
    entry = NONE
    if len(members) > 1:
        entry = int(np.argmax(np.bincount(training.column("publisher").to_numpy())))
        ends = located.overlay.graph.ends[links_of(told[0]["links"])].tolist()
        parents = parents_of([(a, b) for a, b in ends], len(names), entry)
        brokers, above, access = ways_of(parents, located.hosts[members].tolist())
        found = merges(
            above,
            access,
            _sample(training, members),
            share,
            held_out=_sample(held_out, members) if held_out.num_rows else None,
            method=method,
        )
        names = [names[broker] for broker in brokers]
        entry = brokers.index(entry)
    return pa.Table.from_pydict(
        {
            "alternative": [alternative] * len(found),
            "tree": [tree] * len(found),
            "entry": [names[entry]] * len(found),
            "broker": [names[one.broker] for one in found],
            "towards": [None if one.towards == NONE else names[one.towards] for one in found],
            "block": list(range(len(found))),
            "members": [members[list(one.members)].tolist() for one in found],
            "gain": [one.gain for one in found],
            "cost": [one.cost for one in found],
            "held_out_cost": [one.held_out_cost for one in found],
        },
        schema=_SCHEMA,
    )


_SCHEMA = pa.schema(
    [
        ("alternative", pa.string()),
        ("tree", pa.int32()),
        ("entry", pa.string()),
        ("broker", pa.string()),
        ("towards", pa.string()),
        ("block", pa.int32()),
        ("members", pa.list_(pa.int32())),
        ("gain", pa.int64()),
        ("cost", pa.float64()),
        ("held_out_cost", pa.float64()),
    ]
)


def _part(rows: pa.Table, name: str) -> pa.Table:
    """Return the documents of a part by name, evenly spaced if there are too many."""
    mine = rows.filter(pc.equal(rows.column("part"), name)).sort_by("event")
    step = -(-mine.num_rows // MOST_EVENTS) or 1
    return mine.take(pa.array(range(0, mine.num_rows, step), pa.int64()))


def _sample(documents: pa.Table, members: Ints) -> Sample:
    """Return which members match which documents, all documents together weighing 1."""
    offsets, found = _flat(documents.column("interests"))
    count = len(offsets) - 1
    document = np.repeat(np.arange(count), np.diff(offsets))
    known = np.isin(found, members)
    matches: Bools = np.zeros((len(members), count), bool)
    matches[np.searchsorted(members, found[known]), document[known]] = True
    return Sample(matches, np.full(count, 1.0 / count))


def _flat(column: pa.Array | pa.ChunkedArray) -> tuple[Longs, Ints]:
    """Return lists of numbers as offsets and values."""
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(lists, pa.ChunkedArray):  # of no chunks at all
        lists = pa.array([], lists.type)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    values = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], values.astype(np.int32)


def parents_of(links: Sequence[tuple[int, int]], brokers: int, entry: int) -> list[int]:
    """Return the broker next to each on its way to the entry, NONE for the entry itself."""
    near: list[list[int]] = [[] for _ in range(brokers)]
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    parents = [NONE] * brokers
    reached = [entry]
    for broker in reached:
        for other in sorted(near[broker]):
            if other != parents[broker]:
                parents[other] = broker
                reached.append(other)
    return parents


def ways_of(parents: Sequence[int], hosts: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Return the brokers on the ways from hosts to the entry, in order; their parents and the hosts, as places among
    them. Nothing is merged elsewhere, and of thousands of brokers these are few."""
    on = {broker for broker, parent in enumerate(parents) if parent == NONE}
    for host in hosts:
        while host not in on:
            on.add(host)
            host = parents[host]
    brokers = sorted(on)
    place = {broker: number for number, broker in enumerate(brokers)}
    above = [place.get(parents[broker], NONE) for broker in brokers]
    return brokers, above, [place[host] for host in hosts]
