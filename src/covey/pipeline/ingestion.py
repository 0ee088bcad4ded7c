"""The first step of a job: tables of a directory read, judged, counted, and what cannot be used set aside.

Rows are judged one by one. What no row can tell is checked here: that something is left of each table, and that the
overlay is connected.

**Parts.** Files of a table that were judged together are a part of it, known by their names and bytes. A part whose
files are all still there is not judged again, and those that are new are the next part, so that a new day of events
costs what it has itself. Each part is counted once. A name that is in two parts is a repetition that neither can know
of: then all files are judged anew, as one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey import pipeline
from covey.errors import ConfigError, PlanError
from covey.pipeline.checkpoints import Checkpoints
from covey.pipeline.ingest import REASON
from covey.pipeline.inputs import (
    columns_of,
    content_identity,
    identities,
    path_of,
    read,
    read_catalog,
    row_hash,
    units_of,
)
from covey.pipeline.request import Request
from covey.pipeline.schemas import QUARANTINE, SOURCE, table_named
from covey.planning.graph import Graph
from covey.planning.paths import MAX_ALL_PAIRS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEEDED = ("topology", "subscriptions", "events")
OPTIONAL = ("advertisements", "deliveries")
MOST_REASONS = 1_000
MOST_PARTS = 20  # of a table


class Given(NamedTuple):
    """A table as it is given: its files by their digests, and what reads some of them.

    A table of a catalog has one digest, of all its rows, and no file.
    """

    files: Mapping[str, Path | None]
    read: Callable[[Sequence[Path]], DataFrame]


class Ingestion:
    """One run: `basis` gets the counts and the digest of the input, `quarantined` the reasons by table."""

    def __init__(self, spark: SparkSession, request: Request, kept: Checkpoints) -> None:
        self._spark = spark
        self._request = request
        self._kept = kept
        self.parts: dict[str, list[str]] = {}  # by table
        # By table and part: a digest of the rows that can be used.
        self.contents: dict[str, dict[str, str]] = {}
        self.reused: dict[str, tuple[int, int]] = {}  # by table: rows that were judged before, and all
        self.basis: dict[str, Any] = {}
        self.network_digest = ""
        self.quarantined: dict[str, dict[str, int]] = {}

    def run(self) -> dict[str, DataFrame]:
        """Return the checked tables; what cannot be used is in out_dir/quarantine and counted."""
        given: dict[str, Given] = {}
        for name in (*NEEDED, *OPTIONAL):
            found = self._given(name)
            if found is not None:
                given[name] = found
            else:
                self._kept.drop(f"judged-{name}")  # of an input that had it
        judged: dict[str, DataFrame] = {}
        try:
            # The topology is first: rows of the others are refused at brokers that it does not have.
            judged["topology"] = self._judged("topology", given["topology"], None)
            brokers = self._check_topology(judged["topology"])
            for name in [*given][1:]:
                judged[name] = self._judged(name, given[name], brokers)
            self._count(judged)
            for name in NEEDED:
                if not self.basis[name]:
                    raise ConfigError(f"there are no {name} that can be used{self._refused(name)}")
        except (ConfigError, PlanError):
            # Where nothing can be planned, most of all one wants to see what is wrong.
            self._set_aside(judged)
            raise
        self._set_aside(judged)
        return {name: pipeline.accept(frame, table=name) for name, frame in judged.items()}

    def accepted(self, name: str, part: str) -> DataFrame:
        """Return the checked rows of one part of a table that `run` has judged."""
        return pipeline.accept(self._kept.part(f"judged-{name}", part), table=name)

    def _given(self, name: str) -> Given | None:
        """Return a table as it is given; None if it need not be there and is not."""
        request = self._request
        units, columns = units_of(request.epochs, name), columns_of(request.columns, name)
        if name in request.tables:
            frame = read_catalog(self._spark, request.tables[name], name, units, columns)
            return Given({content_identity(frame): None}, lambda files: frame)
        path = path_of(request.input_dir, name, needed=name in NEEDED)
        if path is None:
            return None
        files = {digest: file for file, digest in identities(path).items()}
        return Given(files, lambda some: read(self._spark, path, name, units, columns, some))

    def _judged(self, name: str, given: Given, brokers: Sequence[str] | None) -> DataFrame:
        def make(digests: Sequence[str]) -> Callable[[], DataFrame]:
            def judged() -> DataFrame:
                files = [file for one in digests if (file := given.files[one]) is not None]
                frame = pipeline.judge(given.read(sorted(files)), table=name, brokers=brokers)
                # Where good rows were is not looked at any more.
                return frame.withColumn(SOURCE, F.when(F.col(REASON).isNotNull(), F.col(SOURCE)))

            return judged

        request, table = self._request, f"judged-{name}"
        basis = (
            self._spark.conf.get("spark.sql.session.timeZone"),
            units_of(request.epochs, name),
            columns_of(request.columns, name),
            brokers,
        )
        known = self._known_parts(table, given, basis)
        rest = sorted(given.files.keys() - {digest for digests in known.values() for digest in digests})

        def kept(wanted: Mapping[str, list[str]]) -> DataFrame:
            found = self._kept.parts(table, {part: make(digests) for part, digests in wanted.items()}, *basis)
            for part, digests in wanted.items():
                if part not in known:
                    self._kept.remember(table, part, {"files": digests})
            return found

        wanted = known | ({_name_of(rest): rest} if rest else {})
        frame = kept(wanted)
        if len(wanted) > 1 and self._has_repetitions(name, frame, [*wanted]):
            whole = sorted(given.files)
            known, wanted = {}, {_name_of(whole): whole}
            frame = kept(wanted)
        self.parts[name] = sorted(wanted)
        rows = {part: self._kept.rows(table, part) for part in wanted}
        self.reused[name] = sum(rows[part] for part in known), sum(rows.values())
        return frame

    def _known_parts(self, table: str, given: Given, basis: Sequence[Any]) -> dict[str, list[str]]:
        """Return the parts that can be used again, each with the digests of its files."""
        found: dict[str, list[str]] = {}
        for part in self._kept.parts_of(table):
            if not self._kept.has_part(table, part, *basis):
                continue
            told = self._kept.remembered(table, part) or {}
            digests = told.get("files", ())
            if digests and all(digest in given.files for digest in digests):
                found[part] = digests
        if len(found) < MOST_PARTS:
            return found
        # The smaller half becomes one with what is new, so that large parts are seldom judged again.
        order = sorted(found, key=lambda part: (-self._kept.rows(table, part), part))
        return {part: found[part] for part in order[: MOST_PARTS // 2]}

    def _has_repetitions(self, name: str, judged: DataFrame, parts: Sequence[str]) -> bool:
        """Say whether a name is in more than one part; asked once of the same parts."""
        table, key, asked = f"judged-{name}", table_named(name).key, sorted(parts)
        if key is None:
            return False
        told = [self._kept.remembered(table, part) for part in asked]
        if all(one.get("distinct") == asked for one in told):
            return False
        # Of two names with one hash it says yes: then more is judged again than need be.
        names = judged.where(F.col(REASON).isNull()).select(F.xxhash64(key).alias("_hash"))
        if names.groupBy("_hash").count().where("count > 1").limit(1).count():
            return True
        for part, one in zip(asked, told, strict=True):
            self._kept.remember(table, part, one | {"distinct": asked})
        return False

    def _count(self, judged: Mapping[str, DataFrame]) -> None:
        """Count the rows of all tables and why some cannot be used, and compute the input's digest.

        One job for all parts that are new.
        """
        asked = [
            self._kept.part(f"judged-{name}", part)
            .groupBy(REASON)
            .agg(
                F.count(F.lit(1)).alias("rows"),
                F.sum(F.when(F.col(REASON).isNull(), row_hash(name))).alias("sum"),
            )
            .withColumns({"table": F.lit(name), "part": F.lit(part)})
            for name in judged
            for part in self.parts[name]
            if "counts" not in self._kept.remembered(f"judged-{name}", part)
        ]
        new: dict[tuple[str, str], list[tuple[str | None, int, int]]] = {}
        for row in reduce(type(asked[0]).union, asked).collect() if asked else ():
            counts = new.setdefault((row["table"], row["part"]), [])
            counts.append((row[REASON], int(row["rows"]), int(row["sum"] or 0)))
        digests = []
        for name in judged:
            found: dict[str | None, tuple[int, int]] = {}
            self.contents[name] = {}
            for part in self.parts[name]:
                told = self._kept.remembered(f"judged-{name}", part)
                if "counts" not in told:
                    told |= {"counts": new.get((name, part), [])}
                    self._kept.remember(f"judged-{name}", part, told)
                good = [(name, rows, total) for reason, rows, total in told["counts"] if reason is None]
                self.contents[name][part] = _digest_of(good)
                for reason, rows, total in told["counts"]:
                    before = found.get(reason, (0, 0))
                    found[reason] = before[0] + rows, before[1] + total
            count, total = found.pop(None, (0, 0))
            digests.append((name, count, total))
            self.basis.setdefault(name, count)  # of the topology, how many different links there are
            self._note_reasons(name, {str(reason): rows for reason, (rows, _) in found.items()})
        self.basis["digest"] = _digest_of(digests)
        # Of what events there are, the network knows nothing.
        self.network_digest = _digest_of([one for one in digests if one[0] in ("topology", "subscriptions")])

    def _set_aside(self, judged: Mapping[str, DataFrame]) -> None:
        """Write the table `quarantine`: from the tables that have such rows, or all if that is not known."""
        known = "digest" in self.basis
        bad = [
            pipeline.quarantine(frame, table=name)
            for name, frame in judged.items()
            if name in self.quarantined or not known
        ]
        bad = bad or [self._spark.createDataFrame([], QUARANTINE.schema())]
        out = str((self._request.out_dir / QUARANTINE.name).resolve())
        reduce(type(bad[0]).union, bad).coalesce(1).write.mode("overwrite").parquet(out)

    def _check_topology(self, judged: DataFrame) -> list[str]:
        """Return the names of brokers; ConfigError or PlanError if these links are no overlay."""
        topology = pipeline.accept(judged, table="topology")
        links = sorted(
            (*sorted((row["a"], row["b"])), 1.0 if row["cost"] is None else row["cost"])
            for row in topology.collect()
        )
        if not links:
            self._count({"topology": judged})
            raise ConfigError(f"the topology has no link that can be used{self._refused('topology')}")
        names = sorted({end for link in links for end in link[:2]})
        if len(names) > MAX_ALL_PAIRS:
            raise PlanError(f"the topology has {len(names)} brokers; {MAX_ALL_PAIRS} are the most")
        number = {name: place for place, name in enumerate(names)}
        ends = [(number[a], number[b]) for a, b, _ in links]
        graph = Graph(len(names), ends, [cost for *_, cost in links])
        if graph.component_count > 1:
            stray = names[int((graph.components() > 0).argmax())]
            raise PlanError(
                f"the topology is not connected: it has {graph.component_count} parts, and the broker {stray!r:.80}"
                f" cannot be reached from {names[0]!r:.80} (hint: plan each part apart)"
            )
        self.basis["brokers"] = len(names)
        self.basis["topology"] = len(graph.ends)
        return names

    def _note_reasons(self, table: str, counts: Mapping[str, int]) -> None:
        """Note why rows were set aside, the most frequent reasons first."""
        reasons = sorted(counts, key=lambda reason: (-counts[reason], reason))
        if reasons:
            found = {reason: counts[reason] for reason in reasons[:MOST_REASONS]}
            if len(reasons) > MOST_REASONS:
                found["other reasons"] = sum(counts[reason] for reason in reasons[MOST_REASONS:])
            self.quarantined[table] = found

    def _refused(self, table: str) -> str:
        reasons = self.quarantined.get(table)
        if not reasons:
            return ": the table is empty"
        first = next(iter(reasons))
        where = self._request.out_dir / QUARANTINE.name
        return f": {sum(reasons.values())} rows were set aside in {where}, most often because {first}"


def _name_of(digests: Sequence[str]) -> str:
    """Return the name of a part of these files; not one that Spark could take for a number."""
    return f"p{blake2b(repr(digests).encode(), digest_size=6).hexdigest()}"


def _digest_of(counts: Iterable[tuple[str, int, int]]) -> str:
    return blake2b(repr(sorted(counts)).encode(), digest_size=16).hexdigest()
