"""The first step of a job: tables of a directory read, judged, counted, and what cannot be used set aside.

Rows are judged one by one. What no row can tell is checked here: that something is left of each table, and that the
overlay is connected.

**Sampled first.** Whether an event is in the sample depends on its name alone, so with a sample no other event is
judged, and no delivery of one. Rows without a name are judged all, as they are what people want to see.

**Parts.** Files of a table that were judged together are a part of it, known by their names and bytes. A part whose
files are all still there is not judged again, and those that are new are the next part, so that a new day of events
costs what it has itself. Each part is counted once, while it is written. A name that is in two parts is a repetition
that neither can know of: then all files are judged anew, as one part.
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
from covey.pipeline.checkpoints import WHOLE_BYTES, Checkpoints
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
from covey.pipeline.sample import hashed, threshold
from covey.pipeline.schemas import QUARANTINE, SOURCE, table_named
from covey.planning.graph import Graph
from covey.planning.paths import MAX_ALL_PAIRS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEEDED = ("topology", "subscriptions", "events")
OPTIONAL = ("advertisements", "deliveries")
SAMPLED = ("events", "deliveries")  # of an event in the sample, or of none
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
                    share = self._request.sample if name in SAMPLED else 1.0
                    of = "" if share == 1 else f" in a sample of {share}"
                    raise ConfigError(f"there are no {name} that can be used{of}{self._refused(name)}")
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
                raw = self._sampled(name, given.read(sorted(files)))
                if files and sum(file.stat().st_size for file in files) <= WHOLE_BYTES:
                    raw = raw.coalesce(1)  # to find names that are there twice takes no shuffle then
                frame = pipeline.judge(raw, table=name, brokers=brokers)
                # Where good rows were is not looked at any more.
                return frame.withColumn(SOURCE, F.when(F.col(REASON).isNotNull(), F.col(SOURCE)))

            return judged

        request, table = self._request, f"judged-{name}"
        basis = (
            self._spark.conf.get("spark.sql.session.timeZone"),
            units_of(request.epochs, name),
            columns_of(request.columns, name),
            brokers,
            *([request.sample, request.seed] if name in SAMPLED and request.sample < 1 else []),
        )
        good = F.col(REASON).isNull()
        measures = {"good": F.count(F.when(good, 1)), "sum": F.sum(F.when(good, row_hash(name)))}
        known = self._known_parts(table, given, basis)
        rest = sorted(given.files.keys() - {digest for digests in known.values() for digest in digests})

        def kept(wanted: Mapping[str, list[str]]) -> DataFrame:
            makes = {part: make(digests) for part, digests in wanted.items()}
            found = self._kept.parts(table, makes, *basis, measures=measures)
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

    def _sampled(self, name: str, raw: DataFrame) -> DataFrame:
        """Return the rows of a raw table that are to be judged."""
        request = self._request
        if name not in SAMPLED or request.sample == 1:
            return raw
        return raw.where((hashed(request.seed) < threshold(request.sample)) | F.col("event").isNull())

    def _count(self, judged: Mapping[str, DataFrame]) -> None:
        """Count the rows of all tables and why some cannot be used, and compute the input's digest.

        What can be used was measured while it was written; one job counts the reasons of what cannot, if there is any.
        """
        reasons = self._reasons([(name, part) for name in judged for part in self.parts[name]])
        digests = []
        for name in judged:
            bad: dict[str, int] = {}
            self.contents[name] = {}
            count = total = 0
            for part in self.parts[name]:
                measured = self._kept.measured(f"judged-{name}", part)
                self.contents[name][part] = _digest_of([(name, measured["good"], measured["sum"])])
                count, total = count + measured["good"], total + measured["sum"]
                for reason, rows in reasons[name, part].items():
                    bad[reason] = bad.get(reason, 0) + rows
            digests.append((name, count, total))
            self.basis.setdefault(name, count)  # of the topology, how many different links there are
            self._note_reasons(name, bad)
        self.basis["digest"] = _digest_of(digests)
        # Of what events there are, the network knows nothing.
        self.network_digest = _digest_of([one for one in digests if one[0] in ("topology", "subscriptions")])

    def _reasons(self, parts: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, int]]:
        """Return for each part of a table how many of its rows cannot be used, by the reason."""
        found: dict[tuple[str, str], dict[str, int]] = {}
        new = []
        for name, part in parts:
            table = f"judged-{name}"
            told = self._kept.remembered(table, part)
            found[name, part] = told.get("reasons", {})
            if "reasons" not in told and self._kept.measured(table, part)["good"] < self._kept.rows(
                table, part
            ):
                new.append((name, part))
        asked = [
            self._kept.part(f"judged-{name}", part)
            .where(F.col(REASON).isNotNull())
            .select(F.lit(name).alias("table"), F.lit(part).alias("part"), REASON)
            for name, part in new
        ]
        if asked:
            bad = reduce(type(asked[0]).union, asked).groupBy("table", "part", REASON).count()
            for row in bad.collect():
                found[row["table"], row["part"]][row[REASON]] = row["count"]
        for name, part in new:
            told = self._kept.remembered(f"judged-{name}", part)
            self._kept.remember(f"judged-{name}", part, told | {"reasons": found[name, part]})
        return found

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
            sampled = table in SAMPLED and self._request.sample < 1
            return " (hint: a larger one)" if sampled else ": the table is empty"
        first = next(iter(reasons))
        where = self._request.out_dir / QUARANTINE.name
        return f": {sum(reasons.values())} rows were set aside in {where}, most often because {first}"


def _name_of(digests: Sequence[str]) -> str:
    """Return the name of a part of these files; not one that Spark could take for a number."""
    return f"p{blake2b(repr(digests).encode(), digest_size=6).hexdigest()}"


def _digest_of(counts: Iterable[tuple[str, int, int]]) -> str:
    return blake2b(repr(sorted(counts)).encode(), digest_size=16).hexdigest()
