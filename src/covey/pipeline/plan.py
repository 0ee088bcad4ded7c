"""The plan: of all alternatives the one to install, with what each is said to cost, as one row.

`best` takes what has the least price (`planning.objective`) on the documents held out. What was chosen by documents
looks better on them than it is, so fresh documents have the last word: if one tree has a lower price on these, it is
one tree. Everything here is small and happens in one task.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.errors import PlanError
from covey.pipeline.costs import Alternative, Alternatives, alternatives_in, alternatives_of
from covey.pipeline.documents import FRESH, HELD_OUT, PARTS, TRAINING
from covey.pipeline.groups import BY_GROUPS
from covey.pipeline.merging import merging_of
from covey.pipeline.packed import attached, pack
from covey.pipeline.schemas import PLAN
from covey.planning.backup import Backups, backup_trees
from covey.planning.joining import Witness
from covey.planning.objective import ENTRY_BYTES, Objective, Offer, Usage, bill, cheapest, front
from covey.planning.plan import Plan, PlannedTree
from covey.planning.tree import Tree
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
    objective: Objective | None = None,
    running: str = SINGLE,
    backups: bool = False,
    merging: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the table `plan`: the alternative `method`, or with `best` the best of the candidates.

    `basis` is what the plan says it was made from, `aggregation` what it says of merging, and `witnesses` the events by
    which new subscriptions find their groups. `objective` has the prices; `running` is the alternative that is
    installed, to which changing costs nothing. With `backups`, trees are added for failures (`planning.backup`). With
    `merging`, a `method` and an `excess`, brokers do what `aggregation` says (`pipeline.merging`).
    """
    tables = {
        "topology": topology,
        "interests": interests.select("interest", "broker", "encoded"),
        "groups": groups.select("alternative", "interest", "group", "rule", "curve", "stopped"),
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
        {
            "method": method,
            "candidates": [*candidates],
            "seed": seed,
            "basis": dict(basis or {}),
            "prices": (objective or Objective()).as_dict(),
            "running": running,
            "backups": backups,
            "merging": None if merging is None else dict(merging),
        }
    )
    # The task that packs the tables has them: nothing is broadcast.
    return pack(tables, build=planned_in).mapInArrow(partial(plan_batches, said=said), PLAN.schema())


def choose(
    costs: Costs, candidates: Sequence[str], objective: Objective, brokers: int, running: str = SINGLE
) -> tuple[str, str]:
    """Return the best of the candidates, and the reason in a line."""
    if not candidates:
        raise PlanError("there is nothing to choose from")
    offers = [offer_of(costs, name, HELD_OUT, objective, brokers, running) for name in candidates]
    best, reason = cheapest(objective, offers, SINGLE)
    fresh = {
        name: offer_of(costs, name, FRESH, objective, brokers, running).price for name in (best.name, SINGLE)
    }
    limited = objective.max_entries is not None and not objective.fits(
        next((offer.entries for offer in offers if offer.name == SINGLE), 0.0)
    )
    if SINGLE in candidates and not limited and fresh[SINGLE] < fresh[best.name]:
        prices = f"{fresh[SINGLE]:.6g} against {fresh[best.name]:.6g}"
        reason += f"; but one tree has a lower price on fresh events, {prices}"
        return SINGLE, reason
    return best.name, reason


def offer_of(
    costs: Costs, name: str, part: str, objective: Objective, brokers: int, running: str = SINGLE
) -> Offer:
    """Return an alternative as an offer, with its price on a part of the documents."""
    used = usage_of(costs.get(name, {}).get(part, {}), brokers, name == running)
    return Offer(name, used.cost, used.entries, used.trees, bill(objective, used).total)


def usage_of(row: Mapping[str, float], brokers: int, running: bool) -> Usage:
    """Return what an alternative uses, from its row of the table `costs`."""
    documents = max(1.0, row.get("documents") or 0.0)
    copies = (row.get("copies") or 0.0) / documents
    entries = row.get("entries") or 0.0
    return Usage(
        cost=(row.get("cost") or 0.0) / documents,
        copies=copies,
        trials=copies * (row.get("tried") or 0.0),
        entries=entries,
        bytes=row.get("bytes") or 0.0,
        trees=int(row.get("trees") or 0),
        brokers=brokers,
        moved=0.0 if running else entries,
    )


# -- in the workers --------------------------------------------------------------------------------------------


class Planned:
    """All that a plan is made of."""

    def __init__(self, packed: Any) -> None:
        found, interests, costs, self.curves, self.stopped, self.aggregation, self.witnesses = packed
        self.alternatives: Alternatives = alternatives_of(found)
        self.interests: list[tuple[str, bytes]] = interests
        different = {encoded for _, encoded in interests}
        self.entry_bytes = ENTRY_BYTES + sum(map(len, different)) / max(1, len(different))
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
    ended = tables["groups"].filter(pc.is_valid(tables["groups"].column("stopped"))).to_pylist()
    stopped = {
        row["alternative"]: row["stopped"] for row in sorted(ended, key=lambda row: row["alternative"])
    }
    seen = tables["witnesses"].sort_by("event").to_pylist() if "witnesses" in tables else []
    rows = [json.loads(row) for row in sorted(merged)]
    return alternatives_in(tables), interests, costs, curves, stopped, rows, seen


def plan_batches(batches: Iterator[pa.RecordBatch], *, said: str) -> Iterator[pa.RecordBatch]:
    """Yield the plan, in one row; `said` has what `plan_of` takes, as JSON."""
    for planned, _ in attached(batches, Planned):
        made = plan_of(planned, **json.loads(said))
        arrays = [pa.array([made.method], pa.string()), pa.array([made.encode()], pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, [column.name for column in PLAN.columns])


def plan_of(
    planned: Planned,
    *,
    method: str,
    candidates: Sequence[str],
    seed: int,
    basis: Mapping[str, Any],
    prices: Mapping[str, Any],
    running: str,
    backups: bool,
    merging: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan."""
    reason = "asked for"
    chosen = method
    alternatives = planned.alternatives
    objective = Objective(**prices)
    brokers = alternatives.overlay.graph.nodes
    if method == BEST:
        chosen, reason = choose(planned.costs, candidates, objective, brokers, running)
    by_name = {alternative.name: alternative for alternative in alternatives.all}
    alternative = by_name.get(chosen)
    if alternative is None or alternative.rule not in (BY_GROUPS, *RULES):
        raise PlanError(f"there is no alternative {chosen!r:.40} that can be installed")
    overlay = alternatives.overlay
    names, graph = overlay.names, overlay.graph
    links = [(names[a], names[b]) for a, b in graph.ends.tolist()]
    group = alternative.group.tolist()

    def named(tree: Tree) -> PlannedTree:
        return PlannedTree(names[tree.root], tuple(links[link] for link in tree.links.tolist()))

    nothing = np.zeros(0, np.int32)
    planned_trees = tuple(map(named, alternative.trees))
    by_groups = alternative.rule == BY_GROUPS
    spare = backup_trees(graph, alternative.trees) if backups else Backups((), nothing, nothing)
    return Plan(
        method=chosen,
        seed=seed,
        brokers=names,
        links=tuple((a, b, cost) for (a, b), cost in zip(links, graph.costs.tolist(), strict=True)),
        trees=planned_trees,
        one_copy=None if by_groups else alternative.rule,
        groups=dict(zip(planned.interests, group, strict=True)),
        home=homes(planned.interests, group),
        aggregation=tuple(planned.aggregation),
        witnesses=witnesses_of(planned, alternative),
        backups=tuple(map(named, spare.trees)),
        merging=(
            None
            if merging is None or not by_groups
            else merging_of(
                planned.aggregation, planned.interests, planned_trees, planned.witnesses, **merging
            )
        ),
        predictions=predictions(planned, objective, running),
        basis={
            **basis,
            "asked": method,
            "reason": reason,
            "prices": objective.as_dict(),
            "offers": offers_of(planned, candidates or [chosen], objective, running),
            **({"stopped": planned.stopped} if planned.stopped else {}),
            **(failures_told(spare, links, names) if backups else {}),
            **({"aggregation": dict(merging)} if merging is not None else {}),
            **_curve(planned, chosen),
        },
    )


def failures_told(spare: Backups, links: Sequence[tuple[str, str]], names: Sequence[str]) -> dict[str, Any]:
    """Return what a plan's basis says of failures that no tree survives."""
    lost_links = ["–".join(links[link]) for link in spare.links.tolist()]
    lost_brokers = [names[broker] for broker in spare.brokers.tolist()]
    return {"unsurvived": {"links": lost_links, "brokers": lost_brokers}}


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


def offers_of(
    planned: Planned, candidates: Sequence[str], objective: Objective, running: str
) -> list[dict[str, Any]]:
    """Return all that was tried with the traffic of an event and its entries, and whether it is on the front.

    Numbers of groups that a method has tried are among them: whoever sets other prices finds there what else there is.
    """
    brokers = planned.alternatives.overlay.graph.nodes
    part = HELD_OUT if any(HELD_OUT in parts for parts in planned.costs.values()) else TRAINING
    offers = {}
    for name in candidates:
        offer = offer_of(planned.costs, name, part, objective, brokers, running)
        offers[name, offer.trees] = offer
        cost, count = ("held_out", "others") if part == HELD_OUT else ("sample", "documents")
        for point in planned.curves.get(name, []):
            key = name, int(point["groups"])
            if key in offers or not point[count]:
                continue
            used = Usage(
                point[cost] / point[count],
                point["copies"],
                point["trials"],
                point["entries"],
                point["entries"] * planned.entry_bytes,
                key[1],
                brokers,
                0.0 if name == running else point["entries"],
            )
            offers[key] = Offer(name, used.cost, used.entries, used.trees, bill(objective, used).total)
    on_front = {id(offer) for offer in front(offers.values())}
    return [
        {
            "name": offer.name,
            "trees": offer.trees,
            "cost": offer.cost,
            "entries": offer.entries,
            "price": offer.price,
            "front": id(offer) in on_front,
        }
        for offer in sorted(offers.values(), key=lambda one: (one.entries, one.cost, one.name, one.trees))
    ]


def predictions(planned: Planned, objective: Objective, running: str = SINGLE) -> dict[str, dict[str, float]]:
    """Return for each alternative what it costs, on all documents and on each part, and what its tables hold.

    cost              of all sampled events; cost_training, cost_held_out, cost_fresh of each part
    copies            how often an event sets out on a tree
    duplicates        how often a broker that wants an event gets it again
    false_positives   the cost of crossing links beyond which nobody wants the event
    table_entries     of all brokers for each other, with equal filters as one and no advertisements; none for `opt`
    table_bytes       about how much memory these take
    trees             how many there are
    price             what an event costs by all prices, on all sampled events; price_… what it is paid for
    """
    found: dict[str, dict[str, float]] = {}
    brokers = planned.alternatives.overlay.graph.nodes
    for name, parts in sorted(planned.costs.items()):
        rows = list(parts.values())
        numbers = {f"cost_{part.replace('-', '_')}": parts[part]["cost"] for part in PARTS if part in parts}
        found[name] = {
            "cost": sum(row["cost"] for row in rows),
            **numbers,
            "copies": sum(row["copies"] for row in rows),
            "duplicates": sum(row["deliveries"] - row["wanted"] for row in rows),
            "false_positives": sum(row["wasted"] for row in rows),
        }
        if rows[0].get("trees") is None:
            continue
        whole = {key: sum(row[key] for row in rows) for key in ("documents", "cost", "copies")}
        used = usage_of({**rows[0], **whole}, brokers, name == running)
        paid = bill(objective, used).as_dict()
        found[name] |= {
            "table_entries": rows[0]["entries"],
            "table_bytes": rows[0]["bytes"],
            "trees": rows[0]["trees"],
            "price": paid.pop("total"),
            **{f"price_{what}": value for what, value in paid.items()},
        }
    return found
