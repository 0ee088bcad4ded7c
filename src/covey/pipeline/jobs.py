"""Whole jobs: sessions, actions, persistence and checkpoints; everything that stages leave to their caller.

`plan` reads the tables of a directory, plans, and writes the plan with every table on the way to it:

    ingest ─ sample ─ interests ─ documents (match) ─ groups ─ trees ─ costs ─ aggregation ─ plan

With a table of deliveries, critical distances are computed too. Advertisements are only judged: who replays reads them.
Each table is written when it is computed, and read again by the stages after it; a job that is started anew with the
same input and parameters goes on where it was. Nothing depends on partitions or their order, so the same input and seed
give the same bytes of plan.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from covey import pipeline
from covey.errors import ConfigError, PlanError
from covey.pipeline.checkpoints import Checkpoints, write_at_once
from covey.pipeline.memory import bytes_in
from covey.pipeline.request import BEST, Outcome, Progress, Request, explained, methods, reuse
from covey.pipeline.session import (
    described,
    join,
    master_of,
    runtime_settings,
    session,
    slots,
    unless_set,
)
from covey.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["BEST", "STAGES", "Outcome", "Progress", "Request", "explained", "methods", "plan"]

CANDIDATES = ("single", "held-out", "regions")  # of which `best` takes the best
MEASURES = ("spt", "flooding")  # what plans are compared with, beside one tree and the floor
CHEAPEST = (
    "mixed",
    "regions-cheapest",
)  # candidates too, where trying each document on each tree is affordable
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
FULL = 0.9  # of a shard, so that chance makes few too large
PLAN_FILE = "plan.json"
THRESHOLDS = (0.5, 0.8, 0.9, 0.95)  # of similarity, for which critical distances are told


def plan(
    request: Request,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    *,
    spark: SparkSession | None = None,
) -> Outcome:
    """Plan; ConfigError or PlanError in one line if that cannot be.

    With `spark`, that session is used: nothing is started or stopped, and runtime settings that are unset in it have
    our values while the job runs. Without it, `session` finds or starts one, which stays. A time without an offset in a
    text table is one of the session's time zone, or of UTC if the session has none set.
    """
    _check(request)
    request.out_dir.mkdir(parents=True, exist_ok=True)
    log = request.log or request.out_dir / "spark.log"
    size = bytes_in(request.input_dir)
    if spark is None:
        used = _session(request, log, size)
    else:
        used = join(spark, request.master, request.driver_memory, request.conf)
    with unless_set(used, _settings(master_of(used), size)):
        return _Planning(used, request, log, on_progress).run()


def _session(request: Request, log: Path, size: int) -> SparkSession:
    from covey.pipeline.inputs import path_of

    # How large a table of a catalog is, nobody says before Spark is there.
    table = None if "subscriptions" in request.tables else path_of(request.input_dir, "subscriptions")
    subscriptions = 0 if table is None else bytes_in(table)
    return session(
        request.master,
        log,
        bulk=size > SMALL_BYTES,
        driver_memory=request.driver_memory,
        conf=request.conf,
        inputs=(subscriptions, size - subscriptions),
    )


def _check(request: Request) -> None:
    from covey.pipeline.ingestion import NEEDED, OPTIONAL
    from covey.pipeline.inputs import check_columns, check_epochs, check_tables, missing

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
    check_epochs(request.epochs)
    check_columns(request.columns)
    check_tables(request.tables)
    problems = list(missing(request.input_dir, NEEDED, OPTIONAL, request.columns, without=request.tables))
    if problems:
        raise ConfigError("; ".join(problems))


def _settings(master: str, size: int) -> dict[str, str]:
    """Return runtime settings that let Spark do as much about its queries as threads and bytes are worth."""
    wanted = runtime_settings(bulk=size > SMALL_BYTES) | {"spark.sql.broadcastTimeout": "7200"}
    least = 2 * min(slots(master), 4)
    wanted["spark.sql.shuffle.partitions"] = str(min(200, max(least, size // PART_BYTES)))
    if size <= FEW_BYTES:
        wanted |= {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
    return wanted


class _Tables(NamedTuple):
    """What stages have made so far, as the stages after them read it."""

    topology: DataFrame
    subscriptions: DataFrame
    events: DataFrame
    deliveries: DataFrame | None
    interests: Any = None
    documents: Any = None
    groups: Any = None
    trees: Any = None
    costs: Any = None
    aggregation: Any = None


class _Planning:
    """One run of `plan`: each stage is a method, which returns the tables with what it has made."""

    def __init__(
        self, spark: SparkSession, request: Request, log: Path, on_progress: Callable[[Progress], None]
    ) -> None:
        from covey.pipeline.ingestion import Ingestion

        self.spark = spark
        self.request = request
        self.log = log
        self.on_progress = on_progress
        self.kept: Checkpoints = Checkpoints(
            spark, request.out_dir / "stages", self._tell_damage, spread=("judged-events", "documents")
        )
        self.ingestion = Ingestion(spark, request, self.kept)
        self.current = STAGES[0]
        self.damaged: list[str] = []
        self.unchanged: list[str] = []  # stages that an earlier run had computed
        self.seconds: dict[str, float] = {}
        self.details: dict[str, str] = {}
        self.basis: dict[str, Any] = {}
        self.reused: dict[str, tuple[int, int]] = {}  # by table: rows of an earlier run, and all
        self.planned: tuple[Any, ...] = ()  # what groups, trees and costs are made from

    def run(self) -> Outcome:
        tables = self._ingest()
        tables = self._interests(tables)
        tables = self._documents(tables)
        tables = self._alternatives(tables)
        candidates = [name for name in self.methods if name not in MEASURES]
        tables = self._aggregation(tables, self._chosen(tables, candidates))
        self._critical(tables)
        return self._outcome(self._plan(tables, candidates))

    def _outcome(self, made: Plan) -> Outcome:
        seconds = sum(self.seconds.values())
        return Outcome(
            made,
            self.request.out_dir / PLAN_FILE,
            self.ingestion.quarantined,
            made.predictions,
            self.seconds,
            explained(made, seconds),
            tuple(self.damaged),
            master_of(self.spark),
            reuse(self.reused, self.unchanged, seconds),
        )

    # -- stages ----------------------------------------------------------------------------------------------

    def _ingest(self) -> _Tables:
        """Judge what is given, and count it."""
        with self._stage("ingest"):
            found = self.ingestion.run()
            self.basis.update(self.ingestion.basis)
            self.reused |= {f"judged-{name}": rows for name, rows in self.ingestion.reused.items()}
            quarantined = {name: sum(mine.values()) for name, mine in self.ingestion.quarantined.items()}
            self.basis |= {
                "sample": self.request.sample,
                "sampled": self.basis["events"],
                "quarantined": quarantined,
            }
            bad = sum(quarantined.values())
            self.details["ingest"] = (
                f"{self.basis['brokers']} brokers, {self.basis['subscriptions']} subscriptions,"
                f" {self.basis['events']} events"
                + (f"; {bad} rows set aside in {self.request.out_dir / 'quarantine'}" if bad else "")
            )
        return _Tables(found["topology"], found["subscriptions"], found["events"], found.get("deliveries"))

    def _interests(self, tables: _Tables) -> _Tables:
        network = self.ingestion.network_digest
        with self._stage("interests", network):
            made = self._table("interests", lambda: pipeline.interests(tables.subscriptions), network)
            self.basis["interests"] = self.kept.rows("interests")
            self.details["interests"] = (
                f"{self.basis['interests']} of {self.basis['subscriptions']} subscriptions"
            )
        return tables._replace(interests=made)

    def _documents(self, tables: _Tables) -> _Tables:
        """Match the events; the documents of a part of the events depend on no other part."""
        request = self.request
        fresh = request.held_out / 2 if self.basis["sampled"] >= LEAST_FRESH else 0.0
        held_out = request.held_out - fresh
        self.planned = (self.basis["digest"], request.sample, held_out, fresh, request.seed)
        with self._stage("documents"):
            # By what rows say, not by their files: these may be read in another way than before.
            parts = {f"p{digest}": part for part, digest in self.ingestion.contents["events"].items()}
            basis = (self.ingestion.network_digest, request.sample, held_out, fresh, request.seed)
            new = [name for name in parts if not self.kept.has_part("documents", name, *basis)]
            compiled = self._compiled(tables.interests) if new else {}

            def make(part: str) -> Callable[[], DataFrame]:
                return lambda: pipeline.documents(
                    self.ingestion.accepted("events", part),
                    tables.interests,
                    held_out=held_out,
                    fresh=fresh,
                    seed=request.seed,
                    **compiled,
                )

            makes = {name: make(part) for name, part in parts.items()}
            made = self.kept.parts("documents", makes, *basis, measures=_document_measures())
            rows = {name: self.kept.rows("documents", name) for name in parts}
            self.reused["documents"] = sum(rows[one] for one in parts if one not in new), sum(rows.values())
            self._count_documents([*parts])
        return tables._replace(documents=made)

    def _compiled(self, interests: DataFrame) -> dict[str, Any]:
        """Return how documents are to be matched: where filters are many, they are compiled in shards, and spread."""
        from covey.pipeline.documents import compile_interests
        from covey.pipeline.match import SHARD

        if self.basis["interests"] <= SHARD:
            self.kept.drop("filters")
            return {}
        shards = -(-self.basis["interests"] // round(SHARD * FULL))
        filters = self._table(
            "filters",
            lambda: compile_interests(interests, shards=shards),
            self.ingestion.network_digest,
            SHARD,
        )
        return {"filters": filters, "chunks": -(-2 * slots(master_of(self.spark)) // shards)}

    def _count_documents(self, parts: Sequence[str]) -> None:
        from covey.pipeline.documents import PARTS
        from covey.pipeline.groups import MOST_PAIRS

        measured = [self.kept.measured("documents", part) for part in parts]
        for part in PARTS:
            self.basis[part.replace("-", "_")] = sum(one[part] for one in measured)
        self.basis["matches"] = sum(one["pairs"] for one in measured)
        if self.basis["matches"] > MOST_PAIRS:
            raise PlanError(
                f"{self.basis['matches']} matches are too many to group; {MOST_PAIRS} are the most"
                " (hint: a smaller sample)"
            )
        self.details["documents"] = f"{self.basis['matches']} matches of {self.basis['sampled']} events"
        old, all_of_them = self.reused["documents"]
        if 0 < old < all_of_them:
            self.details["documents"] += f", {old} of these as they were"

    def _alternatives(self, tables: _Tables) -> _Tables:
        """Group by every method, with the trees and costs of each, and of the plans that are known."""
        request, names = self.request, self.methods
        known = sorted((name, _digest(plan)) for name, plan in request.known.items())
        prices = sorted(request.objective.as_dict().items())
        self.planned = (*self.planned, names, *known, prices, request.budget_s)
        with self._stage("groups", *self.planned):
            tables = tables._replace(
                groups=self._table("groups", lambda: self._groups(tables), *self.planned)
            )
        interests, documents, groups = tables.interests, tables.documents, tables.groups
        topology = tables.topology
        with self._stage("trees", *self.planned):
            trees = self._table(
                "trees",
                lambda: pipeline.trees(groups, documents, interests, topology, methods=names),
                *self.planned,
            )
        with self._stage("costs", *self.planned):
            costs = self._table(
                "costs", lambda: pipeline.costs(documents, groups, trees, interests, topology), *self.planned
            )
        return tables._replace(trees=trees, costs=costs)

    def _groups(self, tables: _Tables) -> DataFrame:
        request = self.request
        made = pipeline.groups(
            tables.documents,
            tables.interests,
            tables.topology,
            methods=self.methods,
            seed=request.seed,
            objective=request.objective,
            budget_s=request.budget_s,
        )
        if not request.known:
            return made
        return made.unionByName(pipeline.known(tables.interests, tables.topology, plans=request.known))

    @cached_property
    def methods(self) -> Sequence[str]:
        """What is computed: the method that is asked for, or all candidates, and what plans are compared with."""
        if self.request.method != BEST:
            asked = [self.request.method] if self.request.method not in ("single", *MEASURES) else []
            return ["single", *MEASURES, *asked]
        small = self.basis["matches"] <= SMALL_PAIRS and self.basis["interests"] <= SMALL_INTERESTS
        cheapest = CHEAPEST if self.basis["matches"] <= CHEAPEST_MATCHES else ()
        return [*CANDIDATES, *cheapest, *(SMALL if small else ()), *MEASURES]

    @property
    def _running(self) -> str:
        """The alternative that is installed: the plan that is known, or one tree."""
        return next(iter(self.request.known)) if len(self.request.known) == 1 else "single"

    def _chosen(self, tables: _Tables, candidates: Sequence[str]) -> str | None:
        """Return the alternative for whose trees aggregation is planned: the one that the plan will be; None for none.

        Without being asked for, it is planned where there is so little that this is quick.
        """
        from covey.pipeline.plan import choose

        request = self.request
        wanted = request.aggregate if request.aggregation is None else True
        if wanted is False or (wanted is None and self.basis["interests"] > FEW_INTERESTS):
            return None
        known: dict[str, dict[str, dict[str, float]]] = {}
        with described(self.spark, "covey plan: choosing"):
            for row in tables.costs.collect():
                known.setdefault(row["alternative"], {})[row["part"]] = row.asDict()
        chosen = request.method
        if chosen == BEST:
            chosen, _ = choose(known, candidates, request.objective, self.basis["brokers"], self._running)
        count = max((row["trees"] or 0 for row in known.get(chosen, {}).values()), default=0)
        return chosen if wanted or count <= FEW_TREES else None

    def _aggregation(self, tables: _Tables, chosen: str | None) -> _Tables:
        if chosen is None:
            return tables
        method = self.request.aggregation
        basis = (*self.planned, chosen, *([method] if method else []))
        with self._stage("aggregation", *basis):
            made = self._table(
                "aggregation",
                lambda: pipeline.aggregation(
                    tables.documents,
                    tables.interests,
                    tables.groups,
                    tables.trees,
                    tables.topology,
                    alternative=chosen,
                    method=method,
                ),
                *basis,
            )
        return tables._replace(aggregation=made)

    def _critical(self, tables: _Tables) -> None:
        deliveries = tables.deliveries
        if deliveries is None:
            self.kept.drop("critical")
            return
        digest = self.basis["digest"]
        with self._stage("critical", digest):
            self._table(
                "critical",
                lambda: pipeline.critical(deliveries, tables.events, thresholds=THRESHOLDS),
                digest,
            )

    def _plan(self, tables: _Tables, candidates: Sequence[str]) -> Plan:
        request = self.request
        with self._stage("plan"):
            (found,) = pipeline.plan(
                tables.groups,
                tables.trees,
                tables.costs,
                tables.interests,
                tables.topology,
                method=request.method,
                candidates=candidates,
                seed=request.seed,
                basis=self.basis,
                aggregation=tables.aggregation,
                witnesses=pipeline.witnesses(tables.documents, tables.events, seed=request.seed),
                objective=request.objective,
                running=self._running,
                backups=request.backups,
                merging=request.merging,
            ).collect()
            made = Plan.decode(bytes(found["plan"]))
            self.details["plan"] = f"{made.method}, {len(made.trees)} trees"
            write_at_once(request.out_dir / PLAN_FILE, bytes(found["plan"]))
        return made

    # -- what all stages have ------------------------------------------------------------------------------

    def _table(self, name: str, make: Callable[[], DataFrame], *basis: Any) -> DataFrame:
        return self.kept.table(name, make, *basis)

    @contextmanager
    def _stage(self, name: str, *basis: Any) -> Iterator[None]:
        """Report the stage, and turn what Spark says of its failure into one line."""
        from covey.pipeline.failures import SPARK_ERRORS, failure

        number = STAGES.index(name) + 1
        self.current = name
        kept = bool(basis) and self.kept.has(name, *basis)
        self.on_progress(Progress(name, number, len(STAGES)))
        started_s = time.perf_counter()
        try:
            with described(self.spark, f"covey plan: {name}, {number} of {len(STAGES)}"):
                yield
        except SPARK_ERRORS as error:
            raise failure(error, f"the stage {name}", self.log) from None
        self.seconds[name] = time.perf_counter() - started_s
        if not basis and name in self.reused:  # a table in parts
            old, all_of_them = self.reused[name]
            kept = old == all_of_them
        if kept:
            self.unchanged.append(name)
        detail = self.details.get(name, "")
        self.on_progress(Progress(name, number, len(STAGES), self.seconds[name], kept, detail))

    def _tell_damage(self, line: str) -> None:
        self.damaged.append(line)
        number = STAGES.index(self.current) + 1
        self.on_progress(Progress(self.current, number, len(STAGES), note=line))


def _document_measures() -> dict[str, Column]:
    """Return what is measured of documents: how many each part has, and the pairs of all."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    from covey.pipeline.documents import PARTS

    counts = {part: F.count(F.when(F.col("part") == part, 1)) for part in PARTS}
    return {**counts, "pairs": F.sum(F.size("interests"))}


def _digest(plan: bytes) -> str:
    return blake2b(plan, digest_size=16).hexdigest()
