"""Whole jobs: sessions, actions, persistence and checkpoints; everything that stages leave to their caller.

`plan` reads the tables of a directory, plans, and writes the plan with every table on the way to it:

    ingest ─ sample ─ interests ─ documents (match) ─ groups ─ trees ─ costs ─ aggregation ─ plan

With a table of deliveries, critical distances are computed too. Advertisements are only judged: who replays reads them.
Each table is written when it is computed, and read again by the stages after it; a job that is started anew with the
same input and parameters goes on where it was. Nothing depends on partitions or their order, so the same input and seed
give the same bytes of plan.json.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.errors import ConfigError, CoveyError, PlanError
from covey.pipeline.request import BEST, Outcome, Progress, Request, explained, methods
from covey.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from covey.pipeline.checkpoints import Checkpoints

__all__ = ["BEST", "STAGES", "Outcome", "Progress", "Request", "explained", "methods", "plan"]

CANDIDATES = ("single", "held-out", "regions")  # of which `best` takes the best
MEASURES = ("spt", "flooding")  # what plans are compared with, beside one tree and the floor
CHEAPEST = "regions-cheapest"  # a candidate too, where trying each document on each tree is affordable
CHEAPEST_MATCHES = 4_000_000
SMALL = ("hybrid",)  # candidates too, where there is little enough to group
SMALL_PAIRS = 200_000
SMALL_INTERESTS = 3_000
LEAST_FRESH = 60  # events; of fewer, none are kept fresh
FEW_INTERESTS, FEW_TREES = 20_000, 256  # up to which aggregation is planned without being asked for
PART_BYTES = 32_000_000  # of input, for which a shuffle gets one more part
FEW_BYTES = 2_000_000  # of input, up to which adapting and compiling a query takes longer than running it
SMALL_BYTES = 100_000_000  # of input, up to which a Java that starts fast is better than a fast one
STAGES = ("ingest", "interests", "documents", "groups", "trees", "costs", "aggregation", "critical", "plan")
THRESHOLDS = (0.5, 0.8, 0.9, 0.95)  # of similarity, for which critical distances are told


def plan(request: Request, on_progress: Callable[[Progress], None] = lambda progress: None) -> Outcome:
    """Plan; ConfigError or PlanError in one line if that cannot be."""
    _check(request)
    from covey.pipeline.session import session

    request.out_dir.mkdir(parents=True, exist_ok=True)
    log = request.log or request.out_dir / "spark.log"
    size = _bytes_in(request.input_dir)
    spark = session(request.master, log, bulk=size > SMALL_BYTES)
    with _settings(spark, request.master, size):
        return _Planning(spark, request, log, on_progress).run()


def _check(request: Request) -> None:
    from covey.pipeline.ingestion import NEEDED
    from covey.pipeline.inputs import path_of

    if request.method not in methods():
        raise ConfigError(f"there is no method {request.method!r:.40} (hint: one of {', '.join(methods())})")
    for name, file in request.known.items():
        if name in methods():
            raise ConfigError(f"a known plan cannot have the name of a method, {name!r:.40}")
        Plan.decode(file)
    if not 0 < request.sample <= 1:
        raise ConfigError(f"the sample is a share of events above 0 and up to 1, not {request.sample}")
    if not 0 <= request.held_out < 1:
        raise ConfigError(f"the share held out is from 0 to below 1, not {request.held_out}")
    for name in NEEDED:
        path_of(request.input_dir, name)


@contextmanager
def _settings(spark: SparkSession, master: str, size: int) -> Iterator[None]:
    """Let Spark do as much about its queries as threads and bytes are worth, and wait for what it broadcasts."""
    from covey.pipeline.session import slots

    parts = "spark.sql.shuffle.partitions"
    wanted = {"spark.sql.broadcastTimeout": "7200"}
    if str(spark.conf.get(parts)) == "200":  # nobody has chosen it
        least = 2 * min(slots(master), 4)
        wanted[parts] = str(min(200, max(least, size // PART_BYTES)))
    if size <= FEW_BYTES:
        wanted |= {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
    before = {name: str(spark.conf.get(name)) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


class _Planning:
    """One run of `plan`."""

    def __init__(
        self, spark: SparkSession, request: Request, log: Path, on_progress: Callable[[Progress], None]
    ) -> None:
        from covey.pipeline.checkpoints import Checkpoints

        self.spark = spark
        self.request = request
        self.log = log
        self.on_progress = on_progress
        self.kept: Checkpoints = Checkpoints(spark, request.out_dir / "stages")
        self.seconds: dict[str, float] = {}
        self.details: dict[str, str] = {}
        self.quarantined: dict[str, dict[str, int]] = {}
        self.basis: dict[str, Any] = {}

    def run(self) -> Outcome:
        from covey import pipeline
        from covey.pipeline.ingestion import Ingestion

        request = self.request
        with self._stage("ingest"):
            ingestion = Ingestion(self.spark, request.input_dir, request.out_dir, self.kept)
            tables = ingestion.run()
            self.quarantined = ingestion.quarantined
            self.basis.update(ingestion.basis)
            subscriptions, topology = tables["subscriptions"], tables["topology"]
            events = pipeline.sample(tables["events"], p=request.sample, seed=request.seed)
            self._count_events(events)
        digest = self.basis["digest"]
        with self._stage("interests", digest):
            interests = self._table("interests", lambda: pipeline.interests(subscriptions), digest)
            self.basis["interests"] = interests.count()
            self.details["interests"] = (
                f"{self.basis['interests']} of {self.basis['subscriptions']} subscriptions"
            )
        fresh = request.held_out / 2 if self.basis["sampled"] >= LEAST_FRESH else 0.0
        held_out = request.held_out - fresh
        sampled = (digest, request.sample, held_out, fresh, request.seed)
        with self._stage("documents", *sampled):
            documents = self._table(
                "documents",
                lambda: pipeline.documents(
                    events, interests, held_out=held_out, fresh=fresh, seed=request.seed
                ),
                *sampled,
            )
            self._count_documents(documents)
        names = self._methods()
        planned = (*sampled, names, *sorted((name, _digest(plan)) for name, plan in request.known.items()))
        with self._stage("groups", *planned):
            groups = self._table(
                "groups",
                lambda: self._with_known(
                    pipeline.groups(documents, interests, topology, methods=names, seed=request.seed),
                    interests,
                    topology,
                ),
                *planned,
            )
        with self._stage("trees", *planned):
            trees = self._table(
                "trees", lambda: pipeline.trees(groups, documents, interests, topology), *planned
            )
        with self._stage("costs", *planned):
            costs = self._table(
                "costs", lambda: pipeline.costs(documents, groups, trees, interests, topology), *planned
            )
        candidates = [name for name in names if name not in MEASURES]
        chosen = self._chosen(costs, candidates)
        merged = None
        if self._is_quick(trees, chosen) if request.aggregate is None else request.aggregate:
            with self._stage("aggregation", *planned, chosen):
                merged = self._table(
                    "aggregation",
                    lambda: pipeline.aggregation(
                        documents, interests, groups, trees, topology, alternative=chosen
                    ),
                    *planned,
                    chosen,
                )
        if "deliveries" in tables:
            with self._stage("critical", digest):
                self._table(
                    "critical",
                    lambda: pipeline.critical(tables["deliveries"], tables["events"], thresholds=THRESHOLDS),
                    digest,
                )
        with self._stage("plan"):
            (found,) = pipeline.plan(
                groups,
                trees,
                costs,
                interests,
                topology,
                method=request.method,
                candidates=candidates,
                seed=request.seed,
                basis=self.basis,
                aggregation=merged,
                witnesses=pipeline.witnesses(documents, events, seed=request.seed),
            ).collect()
            made = Plan.decode(bytes(found["plan"]))
            self.details["plan"] = f"{made.method}, {len(made.trees)} trees"
            file = request.out_dir / "plan.json"
            _write(file, bytes(found["plan"]))
        explain = explained(made, sum(self.seconds.values()))
        return Outcome(made, file, self.quarantined, made.predictions, self.seconds, explain)

    def _count_events(self, events: DataFrame) -> None:
        self.basis["sample"] = self.request.sample
        self.basis["sampled"] = self.basis["events"] if self.request.sample == 1 else events.count()
        if not self.basis["sampled"]:
            raise ConfigError(
                f"none of {self.basis['events']} events is in a sample of {self.request.sample} (hint: a larger one)"
            )
        self.basis["quarantined"] = {table: sum(mine.values()) for table, mine in self.quarantined.items()}
        bad = sum(self.basis["quarantined"].values())
        self.details["ingest"] = (
            f"{self.basis['brokers']} brokers, {self.basis['subscriptions']} subscriptions,"
            f" {self.basis['events']} events" + (f"; {bad} rows set aside" if bad else "")
        )

    # -- stages ----------------------------------------------------------------------------------------------

    def _count_documents(self, documents: DataFrame) -> None:
        from pyspark.sql import functions as F  # noqa: N812 - its usual name

        from covey.pipeline.documents import PARTS
        from covey.pipeline.groups import MOST_PAIRS

        found = documents.groupBy("part").agg(
            F.count(F.lit(1)).alias("documents"), F.sum(F.size("interests")).alias("pairs")
        )
        rows = {row["part"]: (row["documents"], row["pairs"]) for row in found.collect()}
        for part in PARTS:
            self.basis[part.replace("-", "_")] = rows.get(part, (0, 0))[0]
        self.basis["matches"] = sum(pairs for _, pairs in rows.values())
        if self.basis["matches"] > MOST_PAIRS:
            raise PlanError(
                f"{self.basis['matches']} matches are too many to group; {MOST_PAIRS} are the most"
                " (hint: a smaller --sample)"
            )
        self.details["documents"] = f"{self.basis['matches']} matches of {self.basis['sampled']} events"

    def _with_known(self, groups: DataFrame, interests: DataFrame, topology: DataFrame) -> DataFrame:
        from covey import pipeline

        if not self.request.known:
            return groups
        return groups.unionByName(pipeline.known(interests, topology, plans=self.request.known))

    def _methods(self) -> Sequence[str]:
        if self.request.method != BEST:
            asked = [self.request.method] if self.request.method not in ("single", *MEASURES) else []
            return ["single", *MEASURES, *asked]
        small = self.basis["matches"] <= SMALL_PAIRS and self.basis["interests"] <= SMALL_INTERESTS
        cheapest = [CHEAPEST] if self.basis["matches"] <= CHEAPEST_MATCHES else []
        return [*CANDIDATES, *cheapest, *(SMALL if small else ()), *MEASURES]

    def _chosen(self, costs: DataFrame, candidates: Sequence[str]) -> str:
        """Return the alternative that the plan will be: aggregation is planned for its trees alone."""
        from covey.pipeline.plan import choose

        if self.request.method != BEST:
            return self.request.method
        known: dict[str, dict[str, dict[str, float]]] = {}
        for row in costs.collect():
            known.setdefault(row["alternative"], {})[row["part"]] = {"cost": row["cost"]}
        return choose(known, candidates)[0]

    def _is_quick(self, trees: DataFrame, alternative: str) -> bool:
        """Say whether there is so little to aggregate that it need not be asked for."""
        if self.basis["interests"] > FEW_INTERESTS:
            return False
        return (
            trees.where(trees["alternative"] == alternative).select("group").distinct().count() <= FEW_TREES
        )

    def _table(self, name: str, make: Callable[[], DataFrame], *basis: Any) -> DataFrame:
        return self.kept.table(name, make, *basis)

    @contextmanager
    def _stage(self, name: str, *basis: Any) -> Iterator[None]:
        """Report the stage, and turn what Spark says of its failure into one line."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        number = STAGES.index(name) + 1
        kept = bool(basis) and self.kept.has(name, *basis)
        self.on_progress(Progress(name, number, len(STAGES)))
        started_s = time.perf_counter()
        try:
            yield
        except (PySparkException, Py4JError) as error:
            raise self._failure(name, error) from None
        self.seconds[name] = time.perf_counter() - started_s
        detail = self.details.get(name, "")
        self.on_progress(Progress(name, number, len(STAGES), self.seconds[name], kept, detail))

    def _failure(self, stage: str, error: Exception) -> CoveyError:
        from covey.pipeline.inputs import first_line

        ours = re.search(r"covey\.errors\.(\w+): (.*)", str(error))
        if ours:
            kind = ConfigError if ours[1] == "ConfigError" else PlanError
            return kind(ours[2].strip())
        return PlanError(f"the stage {stage} failed on Spark: {first_line(error)} (its log: {self.log})")


def _digest(plan: bytes) -> str:
    return blake2b(plan, digest_size=16).hexdigest()


def _write(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads it finds the old one or the new one."""
    beside = file.with_suffix(".new")
    beside.write_bytes(data)
    beside.replace(file)
