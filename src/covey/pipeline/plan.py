"""The plan: of all alternatives the one to install, with what each is said to cost, as one row.

`best` takes what costs least on the documents held out, the one named first if several do. What was chosen by
documents looks better on them than it is, so fresh documents have the last word: if one tree costs less on these, it
is one tree. Everything here is small and happens in one task.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import PlanError
from covey.matching.jit import Ints
from covey.pipeline.costs import Alternative, Alternatives, alternatives_in, alternatives_of
from covey.pipeline.documents import FRESH, HELD_OUT, PARTS
from covey.pipeline.groups import BY_GROUPS, FLOODING
from covey.pipeline.packed import attach, attached, pack
from covey.pipeline.schemas import PLAN
from covey.planning.groups.entries import directory_entries, table_entries
from covey.planning.joining import Witness
from covey.planning.plan import Plan, PlannedTree
from covey.routing.carrying import RULES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEST = "best"
SINGLE = "single"
Costs = Mapping[str, Mapping[str, Mapping[str, float]]]  # by alternative, part and name


def plan(
    groups: DataFrame,
    trees: DataFrame,
    costs: DataFrame,
    interests: DataFrame,
    topology: DataFrame,
    *,
    method: str = BEST,
    candidates: Sequence[str] = (),
    seed: int = 0,
    basis: Mapping[str, Any] | None = None,
    aggregation: DataFrame | None = None,
    witnesses: DataFrame | None = None,
) -> DataFrame:
    """Return the table `plan`: the alternative `method`, or with `best` the best of the candidates.

    `basis` is what the plan says it was made from, `aggregation` what it says of merging, and `witnesses` the events by
    which new subscriptions find their groups.
    """
    tables = {
        "topology": topology,
        "interests": interests.select("interest", "broker", "encoded"),
        "groups": groups.select("alternative", "interest", "group", "rule", "curve"),
        "trees": trees,
        "costs": costs.withColumnRenamed("cost", "total"),
    }
    if aggregation is not None:
        tables["aggregation"] = aggregation.select(
            F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row")
        )
    if witnesses is not None:
        tables["witnesses"] = witnesses
    said = json.dumps(
        {"method": method, "candidates": [*candidates], "seed": seed, "basis": dict(basis or {})}
    )
    asked = groups.sparkSession.range(1).select(F.lit(said).alias("asked"))
    return attach(asked, pack(tables, build=planned_in)).mapInArrow(plan_batches, PLAN.schema())


def choose(costs: Costs, candidates: Sequence[str]) -> tuple[str, str]:
    """Return the best of the candidates, and the reason in a line."""
    if not candidates:
        raise PlanError("there is nothing to choose from")
    found = {name: costs.get(name, {}).get(HELD_OUT, {}).get("cost", 0.0) for name in candidates}
    best = min(found, key=lambda name: found[name])
    reason = f"{best} costs least on held-out events, {found[best]:.10g}, of " + ", ".join(
        f"{name} {cost:.10g}" for name, cost in found.items()
    )
    fresh = {name: costs.get(name, {}).get(FRESH, {}).get("cost", 0.0) for name in (best, SINGLE)}
    if SINGLE in candidates and fresh[SINGLE] < fresh[best]:
        reason += (
            f"; but one tree costs less on fresh events, {fresh[SINGLE]:.10g} against {fresh[best]:.10g}"
        )
        best = SINGLE
    return best, reason


# -- in the workers --------------------------------------------------------------------------------------------


class Planned:
    """All that a plan is made of."""

    def __init__(self, packed: Any) -> None:
        found, interests, costs, self.curves, self.aggregation, self.witnesses = packed
        self.alternatives: Alternatives = alternatives_of(found)
        self.interests: list[tuple[str, bytes]] = interests
        self.costs: Costs = costs


def planned_in(tables: dict[str, pa.Table]) -> Any:
    """Build what `Planned` reads."""
    known = tables["interests"].sort_by("interest")
    interests = list(
        zip(known.column("broker").to_pylist(), known.column("encoded").to_pylist(), strict=True)
    )
    costs: dict[str, dict[str, dict[str, float]]] = {}
    for row in tables["costs"].sort_by([("alternative", "ascending"), ("part", "ascending")]).to_pylist():
        row["cost"] = row.pop("total")
        costs.setdefault(row.pop("alternative"), {})[row.pop("part")] = row
    merged = tables["aggregation"].column("row").to_pylist() if "aggregation" in tables else []
    tried = tables["groups"].filter(pc.is_valid(tables["groups"].column("curve"))).to_pylist()
    curves = {row["alternative"]: json.loads(row["curve"]) for row in tried}
    seen = tables["witnesses"].sort_by("event").to_pylist() if "witnesses" in tables else []
    rows = [json.loads(row) for row in sorted(merged)]
    return alternatives_in(tables), interests, costs, curves, rows, seen


def plan_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the plan, in one row."""
    for planned, batch in attached(batches, Planned):
        asked = json.loads(batch.column("asked")[0].as_py())
        made = plan_of(planned, **asked)
        arrays = [pa.array([made.method], pa.string()), pa.array([made.encode()], pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, [column.name for column in PLAN.columns])


def plan_of(
    planned: Planned, *, method: str, candidates: Sequence[str], seed: int, basis: Mapping[str, Any]
) -> Plan:
    """Return the plan."""
    reason = "asked for"
    chosen = method
    if method == BEST:
        chosen, reason = choose(planned.costs, candidates)
    alternatives = planned.alternatives
    by_name = {alternative.name: alternative for alternative in alternatives.all}
    alternative = by_name.get(chosen)
    if alternative is None or alternative.rule not in (BY_GROUPS, *RULES):
        raise PlanError(f"there is no alternative {chosen!r:.40} that can be installed")
    overlay = alternatives.overlay
    names, graph = overlay.names, overlay.graph
    links = [(names[a], names[b]) for a, b in graph.ends.tolist()]
    group = alternative.group.tolist()
    return Plan(
        method=chosen,
        seed=seed,
        brokers=names,
        links=tuple((a, b, cost) for (a, b), cost in zip(links, graph.costs.tolist(), strict=True)),
        trees=tuple(
            PlannedTree(names[tree.root], tuple(links[link] for link in tree.links.tolist()))
            for tree in alternative.trees
        ),
        one_copy=None if alternative.rule == BY_GROUPS else alternative.rule,
        groups=dict(zip(planned.interests, group, strict=True)),
        home=homes(planned.interests, group),
        aggregation=tuple(planned.aggregation),
        witnesses=witnesses_of(planned, alternative),
        predictions=predictions(planned),
        basis={**basis, "asked": method, "reason": reason, **_curve(planned, chosen)},
    )


def witnesses_of(planned: Planned, alternative: Alternative) -> tuple[Witness, ...]:
    """Return the witnesses with the groups of those who want them; none where there is nothing to choose."""
    if alternative.rule != BY_GROUPS or len(alternative.trees) == 1:
        return ()
    found = []
    for row in planned.witnesses:
        wanted: dict[int, set[str]] = {}
        for interest in row["interests"]:
            wanted.setdefault(int(alternative.group[interest]), set()).add(planned.interests[interest][0])
        sorted_ = {tree: tuple(sorted(wanted[tree])) for tree in sorted(wanted)}
        found.append(Witness(row["broker"], row["language"], row["content"], sorted_))
    return tuple(found)


def _curve(planned: Planned, chosen: str) -> dict[str, Any]:
    """Return what each number of groups costs that the chosen method has tried, if it has."""
    return {"curve": planned.curves[chosen]} if chosen in planned.curves else {}


def homes(interests: Sequence[tuple[str, bytes]], group: Sequence[int]) -> dict[str, int]:
    """Return for each broker with interests the tree of most of them, the smaller of equals."""
    counts: dict[str, Counter[int]] = {}
    for (broker, _), tree in zip(interests, group, strict=True):
        counts.setdefault(broker, Counter())[tree] += 1
    return {broker: min(mine, key=lambda tree: (-mine[tree], tree)) for broker, mine in counts.items()}


def predictions(planned: Planned) -> dict[str, dict[str, float]]:
    """Return for each alternative what it costs, on all documents and on each part, and what its tables hold.

    cost              of all sampled events; cost_training, cost_held_out, cost_fresh of each part
    copies            how often an event sets out on a tree
    duplicates        how often a broker that wants an event gets it again
    false_positives   the cost of crossing links beyond which nobody wants the event
    table_entries     of all brokers for each other, with equal filters as one and no advertisements; none for `opt`
    trees             how many there are
    """
    found: dict[str, dict[str, float]] = {}
    entries = _entries(planned)
    for name, parts in sorted(planned.costs.items()):
        rows = list(parts.values())
        numbers = {f"cost_{part.replace('-', '_')}": parts[part]["cost"] for part in PARTS if part in parts}
        found[name] = {
            "cost": sum(row["cost"] for row in rows),
            **numbers,
            "copies": sum(row["copies"] for row in rows),
            "duplicates": sum(row["deliveries"] - row["wanted"] for row in rows),
            "false_positives": sum(row["wasted"] for row in rows),
            **entries.get(name, {}),
        }
    return found


def _entries(planned: Planned) -> dict[str, dict[str, float]]:
    hosts = planned.alternatives.hosts
    known: dict[bytes, int] = {}
    filters = np.array([known.setdefault(encoded, len(known)) for _, encoded in planned.interests], np.int32)
    found: dict[str, dict[str, float]] = {}
    nodes = planned.alternatives.overlay.graph.nodes
    for alternative in planned.alternatives.all:
        found[alternative.name] = {
            "table_entries": _table_entries(alternative, nodes, hosts, filters),
            "trees": len(alternative.trees),
        }
    return found


def _table_entries(alternative: Alternative, nodes: int, hosts: Ints, filters: Ints) -> int:
    if alternative.rule == FLOODING:
        return 0
    if alternative.rule in RULES:
        return directory_entries(nodes, hosts, filters)
    return table_entries(alternative.trees, alternative.group, hosts, filters)
