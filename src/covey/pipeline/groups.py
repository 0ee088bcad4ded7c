"""Groups: which interests share a tree, by every method that is asked for.

The decisions of a method build on each other, so each method runs in one task, which gets the training documents and
those held out, and uses `covey.planning.groups`; methods run side by side. What comes back says who is with whom, and
on which trees, as the method has computed these on its way. The trees of `unicast`, one for each broker with interests,
and all costs are computed apart, on many tasks.

**Bound.** A task refuses more than MOST_PAIRS pairs of a document and an interest that it matches: at 40 bytes a pair
at worst, 4 GB.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.core.families import decode
from covey.errors import PlanError
from covey.pipeline.documents import HELD_OUT, TRAINING, hosts_of, matches_of
from covey.pipeline.packed import Overlay, overlay_of, pack, unpacked
from covey.pipeline.schemas import GROUPS
from covey.planning.groups.model import Grouping, Problem
from covey.planning.groups.regions import Regions
from covey.planning.groups.registry import METHODS, REGIONAL
from covey.planning.link_bits import bits_of
from covey.planning.objective import Objective
from covey.planning.words import words_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from covey.matching.jit import Ints
    from covey.planning.groups.model import Words

MOST_PAIRS = 100_000_000
# How an event travels: on the tree of each group, on one tree by a rule of `routing.carrying`, or everywhere.
BY_GROUPS, FLOODING = "groups", "flooding"
UNFITTED = ("spt", "flooding", "unicast")  # whose tasks need no documents
LATER = ("unicast",)  # whose trees are for documents, and computed apart


def groups(
    documents: DataFrame,
    interests: DataFrame,
    topology: DataFrame,
    *,
    methods: Sequence[str],
    seed: int = 0,
    objective: Objective | None = None,
    budget_s: float | None = None,
) -> DataFrame:
    """Return the table `groups` for these methods of planning; PlanError for a name that is none.

    With an objective, numbers of groups are chosen by their price, without one by traffic alone. `budget_s` is how long
    each method may compute, in estimated seconds (`planning.budget`).
    """
    for name in methods:
        check_method(name)
    fitted = [name for name in methods if name not in UNFITTED]
    known = documents.where(F.col("part").isin(TRAINING, HELD_OUT))
    # Shuffled by the task even where Spark would not need to, as methods are to run side by side.
    left = (
        known.select("event", "broker", "part", "interests")
        .withColumn("task", F.explode(_listed(tasks(fitted))))
        .repartition("task")
    )
    tables = {"topology": topology, "interests": interests.select("interest", "broker", "encoded")}
    packed = pack(tables, build=hosted_in)
    right = packed.withColumn("task", F.explode(_listed(tasks(methods)))).repartition("task")
    return (
        left.groupBy("task")
        .cogroup(right.groupBy("task"))
        .applyInArrow(
            partial(group_documents, seed=seed, objective=objective, budget_s=budget_s), GROUPS.schema()
        )
    )


def tasks(methods: Sequence[str]) -> list[str]:
    """Return what each task is to do: the names of methods with a space between; those on the same regions together."""
    regional = [name for name in methods if name in REGIONAL]
    return [*(name for name in methods if name not in REGIONAL), *([" ".join(regional)] if regional else [])]


def _listed(names: Sequence[str]) -> Column:
    return F.array(*map(F.lit, names)).cast("array<string>")


def check_method(name: str) -> None:
    """Raise PlanError if planning has no method of that name."""
    if name not in METHODS:
        raise PlanError(f"no grouping {name!r:.40} (hint: one of {', '.join(METHODS)})")


# -- in the workers --------------------------------------------------------------------------------------------


class Hosted:
    """The overlay with the hosts and words of all interests."""

    def __init__(self, parts: tuple[Overlay, Ints, Words, Ints, float]) -> None:
        self.overlay, self.hosts, self.words, self.filters, self.filter_bytes = parts


def hosted_in(tables: dict[str, pa.Table]) -> tuple[Overlay, Ints, Words, Ints, float]:
    """Build the overlay and what is known of interests."""
    overlay = overlay_of(tables["topology"])
    interests = tables["interests"].sort_by("interest")
    known: dict[bytes, tuple[int, Any]] = {}
    words, filters = [], []
    for encoded in interests.column("encoded").to_pylist():
        if encoded not in known:
            known[encoded] = len(known), words_of(decode(encoded))
        filters.append(known[encoded][0])
        words.append(known[encoded][1])
    length = sum(map(len, known)) / max(1, len(known))
    return overlay, hosts_of(interests, overlay), words, np.array(filters, np.int32), length


def group_documents(
    key: tuple[Any, ...],
    left: pa.Table,
    right: pa.Table,
    *,
    seed: int,
    objective: Objective | None = None,
    budget_s: float | None = None,
) -> pa.Table:
    """Group by the methods that the key names."""
    hosted = unpacked(right.column("digest")[0].as_py(), right.column("packed")[0].as_buffer(), Hosted)
    pairs = pc.sum(pc.list_value_length(left.column("interests"))).as_py() or 0
    if pairs > MOST_PAIRS:
        raise PlanError(
            f"groups of {pairs} matches are too many for one task; {MOST_PAIRS} are the most (hint: a smaller sample)"
        )
    rows = left.sort_by("event")
    overlay = hosted.overlay

    def part(name: str) -> Any:
        return matches_of(rows.filter(pc.equal(rows.column("part"), name)), overlay, hosted.hosts)

    problem = Problem(
        overlay.graph,
        overlay.paths,
        part(TRAINING),
        part(HELD_OUT),
        words=hosted.words,
        seed=seed,
        filters=hosted.filters,
        filter_bytes=hosted.filter_bytes,
        objective=objective,
        budget_s=budget_s,
    )
    regional: Regions | None = None
    parts = []
    for method in methods_of(key[0].as_py()):
        if method in REGIONAL:
            regional = regional or Regions(problem)
            found = regional.by(REGIONAL[method])
        else:
            found = METHODS[method](problem)
        parts.append(_rows(method, found, overlay))
    return pa.concat_tables(parts)


def methods_of(task: str) -> list[str]:
    """Return the methods of a task."""
    return task.split(" ") if task.split(" ")[0] in REGIONAL else [task]


def _rows(method: str, found: Grouping, overlay: Overlay) -> pa.Table:
    """Return a row for each interest, and one for each tree that is given."""
    if found.group is None:
        raise PlanError(f"{method} has no groups of subscriptions, so it cannot be installed")
    rule = FLOODING if method == "flooding" else found.one_copy or BY_GROUPS
    given = () if method in LATER else found.trees
    count, more = len(found.group), len(given)
    curve = [
        {
            "groups": point.groups,
            "sample": point.sample,
            "held_out": point.held_out,
            "entries": point.entries,
            "copies": point.copies / max(1, point.documents),
            "trials": point.trials / max(1, point.documents),
            "documents": point.documents,
            "others": point.others,
        }
        for point in found.curve
    ]
    numbers = np.concatenate([found.group, np.arange(more)]).astype(np.int32)
    columns = [
        pa.array([method] * (count + more), pa.string()),
        pa.array([*range(count), *[None] * more], pa.int32()),
        pa.array(numbers),
        pa.array([*[None] * count, *(overlay.names[tree.root] for tree in given)], pa.string()),
        pa.array(
            [*[None] * count, *(bits_of(tree.links, len(overlay.graph.ends)) for tree in given)], pa.binary()
        ),
        pa.array([rule] * (count + more), pa.string()),
        _first(json.dumps(curve) if curve else None, count + more),
        _first(found.stopped or None, count + more),
    ]
    return pa.Table.from_arrays(columns, [column.name for column in GROUPS.columns])


def _first(value: str | None, rows: int) -> pa.Array:
    """Return a column with a value in its first row."""
    return pa.array([value, *[None] * (rows - 1)][:rows], pa.string())
