"""Trees: the dissemination tree of every group; those that do not come with the groups are computed, one task a group.

    groups with a tree ──────────────────────────────────────────────────────┐
    documents ─ training only, to each group its own hosts ─┐                ├─ one row a tree
                                                            ├─ COMPUTETREE ──┘
    groups without a tree ─ a row for each, with the overlay┘

A tree that is given is taken. Otherwise COMPUTETREE chooses for the group's training documents, as
`covey.planning.groups.costing` does.

**Bound.** The task of a group holds the documents of that group: of one group for all, all training documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.matching.jit import Ints
from covey.pipeline.documents import TRAINING, hosts_of, matches_of
from covey.pipeline.groups import LATER
from covey.pipeline.packed import Overlay, attach, attached, overlay_in, overlay_of, pack, same, unpacked
from covey.pipeline.schemas import TREES
from covey.planning.compute_tree import compute_tree
from covey.planning.documents import Documents
from covey.planning.groups.costing import FINAL_ROOTS, MOST_FINAL, QUICK_ROOTS, path_tree, single_host
from covey.planning.groups.model import members_of
from covey.planning.link_bits import bits_of, links_of
from covey.planning.tree import Tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GROUPED = "alternative string, `group` int, event string, publisher int, hosts array<int>"


def trees(
    groups: DataFrame,
    documents: DataFrame,
    interests: DataFrame,
    topology: DataFrame,
    *,
    methods: Sequence[str] | None = None,
) -> DataFrame:
    """Return the table `trees`: the tree of each group.

    If it is known that all groups are of these `methods`, or of known plans, and that their trees come with them, then
    there is nothing to compute, and only `groups` is read.
    """
    given = groups.where(F.col("root").isNotNull()).select(*[column.name for column in TREES.columns])
    if methods is not None and not set(methods) & set(LATER):
        return given
    without = groups.join(given.select("alternative").distinct(), "alternative", "left_anti")
    sizes = without.groupBy("alternative").agg((F.max("group") + 1).alias("_groups"))
    roots = F.when(F.col("_groups") <= MOST_FINAL, FINAL_ROOTS).otherwise(QUICK_ROOTS)
    overlay = pack({"topology": topology}, build=overlay_in).drop("_first")
    of_groups = (
        without.select("alternative", "group")
        .distinct()
        .join(F.broadcast(sizes), "alternative")
        .withColumn("roots", roots)
        .crossJoin(F.broadcast(overlay))
        .drop("_groups")
    )
    tables = {
        "topology": topology,
        "interests": interests.select("interest", "broker"),
        "groups": without.select("alternative", "interest", "group"),
    }
    training = documents.where(F.col("part") == TRAINING).select("event", "broker", "interests")
    grouped = attach(training, pack(tables, build=grouped_in)).mapInArrow(group_batches, _GROUPED)
    rows = grouped.unionByName(of_groups, allowMissingColumns=True)
    computed = rows.groupBy("alternative", "group").applyInArrow(tree_of_group, TREES.schema())
    return given.unionByName(computed)


# -- in the workers --------------------------------------------------------------------------------------------


def grouped_in(tables: dict[str, pa.Table]) -> tuple[Overlay, Ints, dict[str, Ints]]:
    """Build the overlay, the hosts of interests, and the group of each interest by each alternative."""
    overlay = overlay_of(tables["topology"])
    hosts = hosts_of(tables["interests"], overlay)
    return overlay, hosts, groups_by_alternative(tables["groups"], len(hosts))


def groups_by_alternative(table: pa.Table, count: int) -> dict[str, Ints]:
    """Return the group of each interest by each alternative, in the order of their names."""
    found: dict[str, Ints] = {}
    for name in sorted(pc.unique(table.column("alternative")).to_pylist()):
        mine = table.filter(pc.equal(table.column("alternative"), name))
        mine = mine.filter(pc.is_valid(mine.column("interest")))
        found[name] = np.zeros(count, np.int32)
        found[name][mine.column("interest").to_numpy()] = mine.column("group").to_numpy()
    return found


def group_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield for each alternative and group the documents that it wants, each with the hosts in the group."""
    for (overlay, hosts, alternatives), batch in attached(batches, same):
        matches = matches_of(batch, overlay, hosts)
        events = batch.column("event")
        for name, group in alternatives.items():
            for number, members in enumerate(members_of(group)):
                rows, found = matches.numbered_documents_of(members)
                if len(rows):
                    yield _grouped_rows(name, number, events.take(pa.array(rows)), found)


def _grouped_rows(name: str, number: int, events: pa.Array, found: Documents) -> pa.RecordBatch:
    lists = pa.ListArray.from_arrays(pa.array(found.offsets.astype(np.int32)), pa.array(found.hosts))
    count = len(events)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([name] * count, pa.string()),
            pa.array(np.full(count, number, np.int32)),
            events,
            pa.array(found.publishers),
            lists,
        ],
        ["alternative", "group", "event", "publisher", "hosts"],
    )


def tree_of_group(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
    """Return one group's tree."""
    alternative, number = key[0].as_py(), key[1].as_py()
    known = rows.filter(pc.is_null(rows.column("event")))
    assert known.num_rows == 1, "each group is there once"
    told = known.to_pylist()[0]
    overlay = unpacked(told["digest"], told["packed"], _overlay)
    tree = _chosen(overlay, _documents(rows), told["roots"])
    return pa.Table.from_arrays(
        [
            pa.array([alternative], pa.string()),
            pa.array([number], pa.int32()),
            pa.array([overlay.names[tree.root]], pa.string()),
            pa.array([bits_of(tree.links, len(overlay.graph.ends))], pa.binary()),
        ],
        [column.name for column in TREES.columns],
    )


def trees_in(table: pa.Table, overlay: Overlay) -> tuple[Ints, Ints]:
    """Return the links of each tree of one alternative, a row for each, and the roots."""
    ordered = table.sort_by("group")
    links = [links_of(bits) for bits in ordered.column("links").to_pylist()]
    rows = np.array(links, np.int32).reshape(-1, overlay.graph.nodes - 1)
    return rows, overlay.numbers(ordered.column("root"))


def _overlay(overlay: Overlay) -> Overlay:
    return overlay


def _documents(rows: pa.Table) -> Documents:
    mine = rows.filter(pc.is_valid(rows.column("event"))).sort_by("event")
    if not mine.num_rows:
        return Documents.of([])
    lists = mine.column("hosts").combine_chunks()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    hosts = lists.values.to_numpy()[offsets[0] : offsets[-1]]
    return Documents(mine.column("publisher").to_numpy(), offsets - offsets[0], hosts)


def _chosen(overlay: Overlay, documents: Documents, roots: int) -> Tree:
    host = single_host(documents)
    if host is not None:
        return path_tree(overlay.graph, host)
    return compute_tree(overlay.graph, overlay.paths, documents, roots=roots).tree
