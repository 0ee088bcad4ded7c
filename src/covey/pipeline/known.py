"""Known: plans that exist already, as alternatives beside those that are planned now.

What runs in a network is compared with what could run on the same events by the same sums: `costs` takes the rows of
this table with those of `groups`. A plan for another overlay cannot be compared: one of its trees needs a link that is
not there, or a broker is on no tree; it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from covey.core.families import decode
from covey.pipeline.groups import BY_GROUPS
from covey.pipeline.packed import Overlay, attached, overlay_of, pack, same
from covey.pipeline.schemas import GROUPS
from covey.planning.link_bits import bits_of
from covey.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Packed = tuple[Overlay, list[str], list[bytes]]


def known(interests: DataFrame, topology: DataFrame, *, plans: Mapping[str, bytes]) -> DataFrame:
    """Return rows of the table `groups` for plans' files, by the names under which they are to be compared."""
    tables = {"topology": topology, "interests": interests.select("interest", "broker", "encoded")}
    packed = pack(tables, build=interests_in)
    return packed.mapInArrow(partial(known_batches, plans=dict(plans)), GROUPS.schema())


def fits(plan: Plan, links: set[tuple[str, str]]) -> bool:
    """Return whether all trees of a plan can be had on these links (each with the smaller name first)."""
    brokers = {end for link in links for end in link}
    return brokers == set(plan.brokers) and all(set(tree.links) <= links for tree in plan.trees)


# -- in the workers --------------------------------------------------------------------------------------------


def interests_in(tables: dict[str, pa.Table]) -> Packed:
    """Build the overlay, and the broker and filter of each interest."""
    interests = tables["interests"].sort_by("interest")
    brokers, filters = (interests.column(name).to_pylist() for name in ("broker", "encoded"))
    return overlay_of(tables["topology"]), brokers, filters


def known_batches(
    batches: Iterator[pa.RecordBatch], *, plans: Mapping[str, bytes]
) -> Iterator[pa.RecordBatch]:
    """Yield for each plan the tree of each interest, and the trees."""
    for (overlay, brokers, filters), _ in attached(batches, same):
        ends = overlay.graph.ends.tolist()
        number = {(overlay.names[a], overlay.names[b]): place for place, (a, b) in enumerate(ends)}
        for name in sorted(plans):
            plan = Plan.decode(plans[name])
            if fits(plan, set(number)):
                yield _rows(name, plan, number, list(zip(brokers, filters, strict=True)))


def _rows(
    name: str, plan: Plan, number: Mapping[tuple[str, str], int], interests: list[tuple[str, bytes]]
) -> pa.RecordBatch:
    if plan.one_copy is None:
        group = [plan.tree_of(broker, decode(encoded)) for broker, encoded in interests]
    else:
        group = [0] * len(interests)  # every tree serves all
    count, more = len(interests), len(plan.trees)
    links = [bits_of(sorted(number[link] for link in tree.links), len(number)) for tree in plan.trees]
    columns = [
        pa.array([name] * (count + more), pa.string()),
        pa.array([*range(count), *[None] * more], pa.int32()),
        pa.array([*group, *range(more)], pa.int32()),
        pa.array([*[None] * count, *(tree.root for tree in plan.trees)], pa.string()),
        pa.array([*[None] * count, *links], pa.binary()),
        pa.array([plan.one_copy or BY_GROUPS] * (count + more), pa.string()),
        *[pa.array([None] * (count + more), pa.string())] * 2,
    ]
    return pa.RecordBatch.from_arrays(columns, [column.name for column in GROUPS.columns])
