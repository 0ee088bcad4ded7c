"""A broker's table from what `tables` wrote, as the facts that its router starts with. Without Spark.

    for start in read_table(entries, "b7", strategy="covering", announcements=announced):
        router.load(start.link, advertisements=start.advertisements, subscriptions=start.subscriptions)

What is loaded are the remote entries, with the labels by which brokers know them, and what is announced behind each
link. What clients of the broker itself want is not: they say it when they connect, before the links come up. Then the
two ends of each link find that they agree, and nothing is sent; what has changed since the tables were computed is put
right by what differs (`routing/tree.py`).

Labels are what brokers would agree on if all links came up when everybody has subscribed: of equal filters the first
key, for merging a digest of the filter. XROUTE's counts depend on who came when: its tables cannot be loaded, those of
its set-based form can.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from covey.core.families import decode
from covey.errors import ConfigError
from covey.pipeline.tables.steps import reduction_of
from covey.routing.digest import Fact
from covey.routing.strategy import registered

COUNTED = frozenset({"xroute"})  # entries have counts that depend on the order in which subscriptions came
UNLABELLED = frozenset({"xroute-sets"})  # entries are known by their filter


class Start(NamedTuple):
    """What a broker starts with of one link."""

    link: str
    advertisements: list[Fact]
    subscriptions: list[Fact]


def read_table(
    entries: Path | str, broker: str, *, strategy: str, announcements: Path | str | None = None
) -> list[Start]:
    """Return what the broker starts with, link by link; `entries` and `announcements` are Parquet of these stages.

    ConfigError if a file is missing or was computed without keys, or if the strategy cannot start with a table.
    """
    reduction_of(strategy)
    name = registered(strategy).name
    if name in COUNTED:
        raise ConfigError(f"{name} cannot start with a table: its counts depend on who came when")
    told = _facts(entries, broker, labelled=name not in UNLABELLED)
    announced = {} if announcements is None else _facts(announcements, broker, labelled=True)
    links = sorted({*told, *announced})
    return [Start(link, announced.get(link, []), told.get(link, [])) for link in links]


def _facts(path: Path | str, broker: str, *, labelled: bool) -> dict[str, list[Fact]]:
    try:
        rows = ds.dataset(path, format="parquet", partitioning="hive")
        table = rows.to_table(["link", "encoded", "key", "owner"], filter=ds.field("broker") == broker)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"{path} is not a table of entries: {' '.join(str(error).split())[:200]}") from None
    found: dict[str, list[Fact]] = {}
    columns: list[list[Any]] = [table[column].to_pylist() for column in table.schema.names]
    for link, encoded, key, owner in zip(*columns, strict=True):
        if key is None and labelled:
            raise ConfigError(f"{path} has entries without keys (hint: tables(…, keys=True))")
        found.setdefault(link, []).append(Fact(key if labelled else "", decode(encoded), owner or ""))
    for facts in found.values():
        facts.sort(key=_order)
    return found


def _order(fact: Fact) -> tuple[str, bytes]:
    wire: bytes = fact.filter.encode()
    return fact.key, wire
