"""A sample of traffic, and the plans to try on it, from the tables that planning has written: read with Arrow alone.

Which rows are taken depends on their names and a seed only: of a table those `most` rows whose names have the smallest
hashes. Memory holds them and one batch. Rows that ingestion has set aside are passed over. Of events, those are taken
to which nothing was fitted, if planning has kept enough of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from covey.advisor.traffic import LEAST, Placed, Published, Traffic, checked_links, sizes
from covey.core.attributes.filter import TRUE
from covey.core.families import parse, parse_content
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.normal import EVERYTHING
from covey.core.packing import pack
from covey.core.xpath.document import Document
from covey.core.xpath.filter import parse_xpath
from covey.errors import ConfigError, CoveyError
from covey.planning.link_bits import links_of
from covey.planning.plan import Plan, PlannedTree

BATCH_ROWS = 20_000
MOST_SUBSCRIPTIONS, MOST_EVENTS = 20_000, 5_000  # of a network that is planned without Spark
UNMERGED = ", nothing merged"  # behind the name of a plan that merges filters
MEASURES = ("spt", "unicast")  # what plans are measured against, and nobody would install
# Rules of planning, as a plan's file says them.
INSTALLABLE = {"groups": None, "nearest": "nearest", "cheapest": "cheapest"}


def read_traffic(directory: Path, seed: int = 1) -> Traffic:
    """Return a sample of the traffic whose tables are in a directory; ConfigError or PlanError if there is none.

    The tables are as planning has judged them (judged-events), or as they were given (events), in Parquet.
    """
    links = checked_links(list(_links(directory)))
    brokers = tuple(sorted({end for a, b, _ in links for end in (a, b)}))
    known = set(brokers)
    most_subscriptions, most_events = sizes(len(brokers))
    rows, all_subscriptions = _sample(directory, "subscriptions", "subscription", most_subscriptions, seed)
    placed = [one for row in rows if (one := _placed(row, known)) is not None]
    fresh = _fresh(directory)
    rows, all_events = _sample(directory, "events", "event", most_events, seed, fresh)
    published = [event for row in rows if (event := _published(row, known)) is not None]
    if not placed or not published:
        raise ConfigError("there is nothing to replay: no usable subscription, or no usable event")
    notes: list[str] = []
    if fresh is not None:
        notes.append("Nothing was fitted to the events that were replayed.")
    advertised, all_advertisements, note = _advertised(directory, known, published, most_subscriptions, seed)
    totals = {
        "subscriptions": all_subscriptions,
        "events": all_events,
        "advertisements": all_advertisements,
    }
    return Traffic(brokers, links, placed, advertised, published, totals, (*notes, note))


def read_network(directory: Path, seed: int = 1) -> Traffic:
    """Return the network and a larger sample of its traffic, for planning; ConfigError or PlanError if there is none.

    The directory has the tables as Parquet, or is what `covey plan` has written: then its stages are read.
    """
    stages = directory / "stages"
    found = stages if stages.is_dir() else directory
    links = checked_links(list(_links(found)))
    brokers = tuple(sorted({end for a, b, _ in links for end in (a, b)}))
    known = set(brokers)
    rows, all_subscriptions = _sample(found, "subscriptions", "subscription", MOST_SUBSCRIPTIONS, seed)
    placed = [one for row in rows if (one := _placed(row, known)) is not None]
    rows, all_events = _sample(found, "events", "event", MOST_EVENTS, seed)
    published = [event for row in rows if (event := _published(row, known)) is not None]
    if not placed or not published:
        raise ConfigError("there is nothing to plan for: no usable subscription, or no usable event")
    totals = {"subscriptions": all_subscriptions, "events": all_events}
    return Traffic(brokers, links, placed, [], published, totals)


def _advertised(
    directory: Path, known: set[str], events: list[Published], most: int, seed: int
) -> tuple[list[Placed], int, str]:
    """Return advertisements for the producers of these events, how many there are in all, and a note on them."""
    if _find(directory, "advertisements") is None:
        note = (
            "There is no table of advertisements: with advertisements means that each broker where a replayed event "
            "was published announces everything."
        )
        return _derived(events), 0, note
    sources = {event.broker for event in events}
    rows, total = _sample(
        directory, "advertisements", "advertisement", most + 2 * len(sources), seed, sources, "broker"
    )
    found = [one for row in rows if (one := _placed(row, known)) is not None]
    note = (
        f"Of {total:,} advertisements, {len(found):,} at brokers where replayed events were published were taken; "
        "events beyond these are flooded."
    )
    return found, total, note


def read_plans(
    directory: Path, chosen: Plan, only: Collection[tuple[str, bytes]] | None = None
) -> dict[str, Plan]:
    """Return a plan for each alternative that planning has looked at and brokers can install, the chosen one first.

    `directory` has the tables interests, groups and trees; without them there is the chosen plan alone. With `only`,
    the others know the groups of these (broker, encoded filter) alone, which is enough to replay them. If the chosen
    plan merges filters, it is there without that too.
    """
    plans = {chosen.method: chosen}
    if chosen.merging is not None:
        plans[f"{chosen.method}{UNMERGED}"] = replace(chosen, aggregation=(), merging=None)
    if any(_find(directory, table) is None for table in ("interests", "groups", "trees")):
        return plans
    interests = {
        row["interest"]: (row["broker"], bytes(row["encoded"]))
        for batch in _batches(directory, "interests")
        for row in batch.select(["interest", "broker", "encoded"]).to_pylist()
        if only is None or (row["broker"], bytes(row["encoded"])) in only
    }
    rules: dict[str, str] = {}
    groups: dict[str, dict[tuple[str, bytes], int]] = {}
    for batch in _batches(directory, "groups"):
        for row in batch.to_pylist():
            rules[row["alternative"]] = row["rule"]
            if row["interest"] in interests:
                groups.setdefault(row["alternative"], {})[interests[row["interest"]]] = row["group"]
    ends = [(a, b) for a, b, _ in chosen.links]
    trees: dict[str, dict[int, PlannedTree]] = {}
    for batch in _batches(directory, "trees"):
        for row in batch.to_pylist():
            links = tuple(ends[number] for number in links_of(row["links"]).tolist())
            trees.setdefault(row["alternative"], {})[row["group"]] = PlannedTree(row["root"], links)
    for name in sorted(trees):
        if name not in plans and name not in MEASURES and rules.get(name) in INSTALLABLE:
            plans[name] = Plan(
                method=name,
                seed=chosen.seed,
                brokers=chosen.brokers,
                links=chosen.links,
                trees=tuple(trees[name][group] for group in sorted(trees[name])),
                one_copy=INSTALLABLE[rules[name]],
                groups=groups.get(name, {}),
            )
    return plans


def hosted(directory: Path, plan: Plan) -> dict[str, int]:
    """Return how many subscriptions each broker hosts; without the table interests, how many filters."""
    counts = dict.fromkeys(plan.brokers, 0)
    if _find(directory, "interests") is None:
        for broker, _ in plan.groups:
            counts[broker] += 1
        return counts
    for batch in _batches(directory, "interests"):
        for row in batch.select(["broker", "subscriptions"]).to_pylist():
            counts[row["broker"]] = counts.get(row["broker"], 0) + row["subscriptions"]
    return counts


# -- tables --------------------------------------------------------------------------------------------------


def _find(directory: Path, table: str) -> Path | None:
    paths = (directory / f"judged-{table}", directory / table, directory / f"{table}.parquet")
    return next((path for path in paths if path.exists()), None)


def _batches(directory: Path, table: str) -> Iterator[Any]:
    """Yield the rows of a table as Arrow batches, without those that were set aside."""
    path = _find(directory, table)
    if path is None:
        raise ConfigError(f"there is no table {table} as Parquet in {str(directory)!r:.80}")
    try:
        found = pa.dataset.dataset(path, format="parquet")
        good = pa.dataset.field("reason").is_null() if "reason" in found.schema.names else None
        yield from found.to_batches(batch_size=BATCH_ROWS, filter=good)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise ConfigError(f"the table {table} cannot be read: {' '.join(str(error).split())[:200]}") from None


def _fresh(directory: Path) -> set[str] | None:
    """Return the names of the events that planning has kept apart; None if there are not enough."""
    if _find(directory, "documents") is None:
        return None
    for part in ("fresh", "held-out"):
        names = {
            row["event"]
            for batch in _batches(directory, "documents")
            for row in batch.select(["event", "part"]).to_pylist()
            if row["part"] == part
        }
        if len(names) >= LEAST:
            return names
    return None


def _sample(
    directory: Path,
    table: str,
    key: str,
    most: int,
    seed: int,
    among: Collection[str] | None = None,
    column: str | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a table whose names have the smallest hashes, in that order, and how many there are in all.

    With `among`, only rows whose name, or whose value in that column, is among these.
    """
    kept: list[dict[str, Any]] = []
    hashes = np.zeros(0, np.uint64)
    total = 0
    for batch in _batches(directory, table):
        total += batch.num_rows
        names = batch.column(key).cast(pa.string()).to_pylist()
        asked = names if column is None else batch.column(column).cast(pa.string()).to_pylist()
        places = [
            place for place, name in enumerate(names) if name and (among is None or asked[place] in among)
        ]
        found = np.array([_hash(seed, names[place]) for place in places], np.uint64)
        order = np.argsort(found, kind="stable")[:most]
        rows = batch.take(pa.array(np.array(places, np.int64)[order])).to_pylist()
        joined = np.concatenate([hashes, found[order]])
        best = np.argsort(joined, kind="stable")[:most]
        every = [*kept, *rows]
        kept, hashes = [every[place] for place in best.tolist()], joined[best]
    return kept, total


def _hash(seed: int, name: str) -> int:
    """Return a number that decides whether a row is taken: another one for each seed."""
    return int.from_bytes(blake2b(f"{seed}:{name}".encode(), digest_size=8).digest(), "big")


def _links(directory: Path) -> Iterator[tuple[str, str, float]]:
    for batch in _batches(directory, "topology"):
        for row in batch.to_pylist():
            a, b, cost = row["a"], row["b"], row.get("cost")
            value = 1.0 if cost is None else float(cost)
            if a and b and a != b and 0 < value < math.inf:
                yield a, b, value


# -- rows ----------------------------------------------------------------------------------------------------


def _placed(row: dict[str, Any], known: set[str]) -> Placed | None:
    broker, language, text = str(row.get("broker")), row.get("language"), row.get("filter")
    if broker not in known or not isinstance(language, str) or not isinstance(text, str):
        return None
    try:
        return Placed(broker, parse(text, language))
    except CoveyError:
        return None


def _published(row: dict[str, Any], known: set[str]) -> Published | None:
    broker, language, text = str(row.get("broker")), row.get("language"), row.get("content")
    if broker not in known or not isinstance(language, str) or not isinstance(text, str):
        return None
    try:
        content = parse_content(text, language)
        if isinstance(content, dict):
            pack(content)  # as ingestion does, which says whether it can be an event
        return Published(broker, content)
    except CoveyError:
        return None


def _derived(events: list[Published]) -> list[Placed]:
    """Return an advertisement of everything for each broker and language of these events."""
    announced: dict[tuple[str, str], Placed] = {}
    for event in events:
        content = event.content
        language, everything = _everything(content)
        announced.setdefault((event.broker, language), Placed(event.broker, everything))
    return [announced[key] for key in sorted(announced)]


def _everything(content: Any) -> tuple[str, Filter]:
    if isinstance(content, Document):
        return "xpath", parse_xpath("/*")
    if isinstance(content, frozenset):
        return "keywords", KeywordFilter(EVERYTHING)
    return "attributes", TRUE
