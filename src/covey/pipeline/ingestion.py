"""The first step of a job: tables of a directory read, judged, counted, and what cannot be used set aside.

Rows are judged one by one. What no row can tell is checked here: that something is left of each table, and that the
overlay is connected.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey import pipeline
from covey.errors import ConfigError, PlanError
from covey.pipeline.checkpoints import Checkpoints
from covey.pipeline.ingest import REASON
from covey.pipeline.inputs import Digests, digest, path_of, read, units_of
from covey.pipeline.request import Request
from covey.pipeline.schemas import QUARANTINE, SOURCE
from covey.planning.graph import Graph
from covey.planning.paths import MAX_ALL_PAIRS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEEDED = ("topology", "subscriptions", "events")
OPTIONAL = ("advertisements", "deliveries")
MOST_REASONS = 1_000


class Ingestion:
    """One run: `basis` gets the counts and the digest of the input, `quarantined` the reasons by table."""

    def __init__(self, spark: SparkSession, request: Request, kept: Checkpoints) -> None:
        self._spark = spark
        self._request = request
        self._kept = kept
        self._digests = Digests("", "")
        self.basis: dict[str, Any] = {}
        self.quarantined: dict[str, dict[str, int]] = {}

    def run(self) -> dict[str, DataFrame]:
        """Return the checked tables; what cannot be used is in out_dir/quarantine and counted."""
        raw = {}
        for name in (*NEEDED, *OPTIONAL):
            path = path_of(self._request.input_dir, name, needed=name in NEEDED)
            if path is not None:
                raw[name] = read(self._spark, path, name, units_of(self._request.epochs, name))
            else:
                self._kept.drop(f"judged-{name}")  # of an input that had it
        self._digests = digest(raw)
        self.basis["digest"] = self._digests.rows
        judged: dict[str, DataFrame] = {}
        try:
            for name, frame in raw.items():  # the topology is first
                judged[name] = self._judged(name, frame, judged)
                self.basis[name] = self._count_reasons(name, judged[name])
                if name == "topology":
                    self._check_topology(pipeline.accept(judged[name], table=name))
                elif name in NEEDED and not self.basis[name]:
                    raise ConfigError(f"there are no {name} that can be used{self._refused(name)}")
        except (ConfigError, PlanError):
            self._set_aside(
                judged
            )  # where nothing can be planned, most of all one wants to see what is wrong
            raise
        self._set_aside(judged)
        return {name: pipeline.accept(frame, table=name) for name, frame in judged.items()}

    def _judged(self, name: str, raw: DataFrame, judged: Mapping[str, DataFrame]) -> DataFrame:
        def make() -> DataFrame:
            frame = pipeline.judge(raw, table=name)
            if name != "topology":
                frame = pipeline.locate(frame, pipeline.accept(judged["topology"], table="topology"))
            # Where good rows were is not looked at any more.
            return frame.withColumn(SOURCE, F.when(F.col(REASON).isNotNull(), F.col(SOURCE)))

        return self._kept.table(f"judged-{name}", make, *self._digests)

    def _set_aside(self, judged: Mapping[str, DataFrame]) -> None:
        if judged:
            bad = [pipeline.quarantine(frame, table=name) for name, frame in judged.items()]
            out = str((self._request.out_dir / QUARANTINE.name).resolve())
            reduce(type(bad[0]).union, bad).coalesce(1).write.mode("overwrite").parquet(out)

    def _check_topology(self, topology: DataFrame) -> None:
        links = sorted((*sorted((row["a"], row["b"])), row["cost"]) for row in topology.collect())
        if not links:
            raise ConfigError(f"the topology has no link that can be used{self._refused('topology')}")
        names = sorted({end for link in links for end in link[:2]})
        if len(names) > MAX_ALL_PAIRS:
            raise PlanError(f"the topology has {len(names)} brokers; {MAX_ALL_PAIRS} are the most")
        number = {name: place for place, name in enumerate(names)}
        costs = [1.0 if cost is None else cost for *_, cost in links]
        graph = Graph(len(names), [(number[a], number[b]) for a, b, _ in links], costs)
        if graph.component_count > 1:
            stray = names[int((graph.components() > 0).argmax())]
            raise PlanError(
                f"the topology is not connected: it has {graph.component_count} parts, and the broker {stray!r:.80}"
                f" cannot be reached from {names[0]!r:.80} (hint: plan each part apart)"
            )
        self.basis["brokers"] = len(names)
        self.basis["topology"] = len(graph.ends)

    def _count_reasons(self, table: str, judged: DataFrame) -> int:
        """Note why rows were set aside, the most frequent reasons first; return how many were not."""
        counts = {row["reason"]: row["count"] for row in judged.groupBy("reason").count().collect()}
        good = int(counts.pop(None, 0))
        reasons = sorted(counts, key=lambda reason: (-counts[reason], reason))
        if reasons:
            found = {reason: int(counts[reason]) for reason in reasons[:MOST_REASONS]}
            if len(reasons) > MOST_REASONS:
                found["other reasons"] = sum(counts[reason] for reason in reasons[MOST_REASONS:])
            self.quarantined[table] = found
        return good

    def _refused(self, table: str) -> str:
        reasons = self.quarantined.get(table)
        if not reasons:
            return ": the table is empty"
        first = next(iter(reasons))
        where = self._request.out_dir / QUARANTINE.name
        return f": {sum(reasons.values())} rows were set aside in {where}, most often because {first}"
