"""Streams: samples as brokers write them, followed by Structured Streaming into a store of the last while.

    inbox/events/*.parquet ─┬─ watermark ─ each event once ─ store/events/batch=…/slot=…   (the rows of windows)
                            └─ watermark ─ each event once ─ sliding windows by broker ─ store/rates
    inbox/deliveries ───────── watermark ─ each once ─ store/deliveries/batch=…/slot=…

A slot is as long as the windows slide. The rows of a window are those of its slots, and what lies before the oldest
window is removed slot by slot. Rows that come later than the watermark allows are dropped; rows that come twice, as
when a broker's files were fetched again, are taken once, and counted once. Both are told by `dropped`. The watermark
follows the newest row: whoever fills the inbox sees to it that no row is from the future (`coordinator.samples`), and
asks `stream_state` whether the streams can go on from what is on disk.

`advance` runs the queries until everything is taken that was there when they began, and returns: each goes on from its
checkpoint the next time, in this process or another. Whoever calls it may remove what was in the inbox then. A batch
that is repeated after a crash replaces what its first attempt wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from covey.errors import ConfigError, CoveyError
from covey.pipeline.schemas import BY_NAME
from covey.pipeline.session import unless_set
from covey.pipeline.stream_state import prepare, slots_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

KEYS: Final = {"events": ("event",), "deliveries": ("event", "subscription")}  # what tells rows apart
LONGEST_S: Final = 600.0  # for which a query may run
MOST_LATENESS_S: Final = 31 * 86_400
# Into which a query shuffles, unless the session says: each has a state of its own, which Spark opens at every start.
PARTS: Final = 4
MOST_RATES: Final = 200  # files of rates that are kept
LATE, REPEATED, PAST = "late", "repeated", "before the window"  # why rows are dropped


@dataclass(frozen=True)
class Windows:
    """Windows over what is sampled.

    length_s     of one window
    slide_s      between the beginnings of two
    lateness_s   how much later than the newest row a row may come
    """

    length_s: int = 3600
    slide_s: int = 300
    lateness_s: int = 660

    def __post_init__(self) -> None:
        if not 0 < self.slide_s <= self.length_s <= 366 * 86_400:
            raise ConfigError(
                f"a window of {self.length_s} s cannot slide by {self.slide_s} s (hint: no more than its length)"
            )
        if not 0 <= self.lateness_s <= MOST_LATENESS_S:
            raise ConfigError(f"rows may come up to {MOST_LATENESS_S:,} s late, not {self.lateness_s} s")

    def slots(self, newest: int) -> range:
        """Return the slots of the window that ends with this one."""
        count = -(-self.length_s // self.slide_s)
        return range(newest - count + 1, newest + 1)

    @property
    def span_s(self) -> int:
        """How much older than the newest row a row is at most that any window still needs, also for its rates."""
        return self.length_s + self.lateness_s + 2 * self.slide_s


class Streams:
    """The queries over one inbox, and their store; a directory each, with the checkpoints, in `directory`.

    `dropped` has the rows that the last `advance` left out, and those of it that the `forget` after it removed, so that
    no window ever had them; by table and reason.
    """

    def __init__(self, spark: SparkSession, directory: Path, windows: Windows) -> None:
        self._spark = spark
        self._windows = windows
        self.inbox = directory / "inbox"
        self.store = directory / "store"
        self.dropped: dict[str, dict[str, int]] = {}
        self._earlier: set[Path] = set()  # batches that were there before the last `advance`
        self._checkpoints = directory / "checkpoints"
        prepare(directory, windows.slide_s)
        for table in KEYS:
            (self.inbox / table).mkdir(parents=True, exist_ok=True)

    def advance(self) -> dict[str, int]:
        """Take all that is in the inbox; return how many rows each query has seen. CoveyError if Spark cannot."""
        found = {}
        self.dropped = {}
        self._earlier = set(self.store.glob("*/batch=*"))
        for table in KEYS:
            # Before there is anything, there is nothing to look at for a long time.
            if any((self.inbox / table).glob("*.parquet")):
                progress = self._run(table, self._kept(table))
                found[table] = sum(int(one["numInputRows"]) for one in progress)
                dropped = _dropped(progress)
                if dropped:
                    self.dropped[table] = dropped
                if table == "events":
                    self._run("rates", self._rates())
        return found

    def newest_slot(self) -> int | None:
        """Return the newest slot of events, None if there is none."""
        slots = (slot for path, slot in slots_in(self.store) if path.parts[-3] == "events")
        return max((slot for slot in slots if slot is not None), default=None)

    def window(self, table: str) -> DataFrame | None:
        """Return the rows of the newest window; None if there are none."""
        newest = self.newest_slot()
        if newest is None or not any((self.store / table).glob("batch=*/slot=*")):
            return None
        from pyspark.sql import functions as F  # noqa: N812 - its usual name

        slots = self._windows.slots(newest)
        # With its schema given, Spark runs no job to find it.
        schema = BY_NAME[table].schema(checked=False).add("batch", "long").add("slot", "long")
        rows = self._spark.read.schema(schema).parquet(str((self.store / table).resolve()))
        inside = rows.where((F.col("slot") >= slots.start) & (F.col("slot") < slots.stop))
        return inside.drop("slot", "batch")

    def count(self, table: str) -> int:
        """Return how many rows the newest window has: the files say so, and Spark is not asked."""
        newest = self.newest_slot()
        if newest is None:
            return 0
        slots = self._windows.slots(newest)
        mine = (path for path, slot in slots_in(self.store) if slot in slots and path.parts[-3] == table)
        return sum(map(_rows_in, mine))

    def rates(self) -> DataFrame | None:
        """Return how many events each broker's clients published in windows that are complete; None if none is."""
        if not any((self.store / "rates").glob("batch=*/*.parquet")):
            return None
        return self._spark.read.parquet(str((self.store / "rates").resolve())).drop("batch")

    def latest_rates(self) -> dict[str, int]:
        """Return the rates of the last window that is complete, by broker, from the files themselves."""
        import pyarrow.parquet as parquet

        files = sorted((self.store / "rates").glob("batch=*/*.parquet"))
        # A file by itself: below a directory `batch=3` Arrow would add the column `batch`.
        rows = [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]
        last = max((row["end"] for row in rows), default=None)
        return {row["broker"]: row["events"] for row in sorted(rows, key=_broker) if row["end"] == last}

    def forget(self) -> int:
        """Remove what lies before the newest window; return how many slots that were."""
        newest = self.newest_slot()
        if newest is None:
            return 0
        first = self._windows.slots(newest).start
        gone = 0
        for path, slot in list(slots_in(self.store)):
            if slot is None or slot < first:
                if path.parent not in self._earlier:
                    mine = self.dropped.setdefault(path.parts[-3], {})
                    mine[PAST] = mine.get(PAST, 0) + _rows_in(path)
                shutil.rmtree(path)
                gone += 1
        for batch in self.store.glob("*/batch=*"):
            if not any(one.name[0] not in "._" for one in batch.iterdir()):
                shutil.rmtree(batch)
        rates = sorted((self.store / "rates").glob("batch=*"), key=lambda path: int(path.name.split("=")[1]))
        for batch in rates[:-MOST_RATES]:
            shutil.rmtree(batch)
        return gone

    # -- queries ---------------------------------------------------------------------------------------------

    def _read(self, table: str) -> DataFrame:
        source = self._spark.readStream.schema(BY_NAME[table].schema(checked=False))
        rows = source.parquet(str((self.inbox / table).resolve())).where("at is not null")
        return rows.withWatermark("at", f"{self._windows.lateness_s} seconds")

    def _once(self, table: str) -> DataFrame:
        return self._read(table).dropDuplicatesWithinWatermark([*KEYS[table]])

    def _kept(self, table: str) -> tuple[DataFrame, str, Callable[[DataFrame, int], None]]:
        put = partial(
            _put_slots, directory=str((self.store / table).resolve()), slide_s=self._windows.slide_s
        )
        return self._once(table), "append", put

    def _rates(self) -> tuple[DataFrame, str, Callable[[DataFrame, int], None]]:
        from pyspark.sql import functions as F  # noqa: N812 - its usual name

        windows = self._windows
        window = F.window("at", f"{windows.length_s} seconds", f"{windows.slide_s} seconds")
        counted = self._once("events").groupBy(window, "broker").agg(F.count(F.lit(1)).alias("events"))
        rows = counted.select(F.col("window.start"), F.col("window.end"), "broker", "events")
        return rows, "append", partial(_put, directory=str((self.store / "rates").resolve()))

    def _run(
        self, name: str, made: tuple[DataFrame, str, Callable[[DataFrame, int], None]]
    ) -> list[StreamingQueryProgress]:
        from covey.pipeline.failures import SPARK_ERRORS, failure

        rows, mode, put = made
        try:
            with unless_set(self._spark, {"spark.sql.shuffle.partitions": str(PARTS)}):
                query: StreamingQuery = (
                    rows.writeStream.outputMode(mode)
                    .option("checkpointLocation", str((self._checkpoints / name).resolve()))
                    .foreachBatch(put)
                    .trigger(availableNow=True)
                    .start()
                )
                if not query.awaitTermination(int(LONGEST_S)):
                    query.stop()
                    raise CoveyError(f"the stream of {name} does not end within {LONGEST_S:g} s")
                return query.recentProgress
        except SPARK_ERRORS as error:
            raise failure(error, f"the stream of {name}") from None


def _broker(row: Mapping[str, Any]) -> str:
    return str(row["broker"])


def _rows_in(slot: Path) -> int:
    import pyarrow.parquet as parquet

    return sum(parquet.read_metadata(file).num_rows for file in slot.glob("*.parquet"))


def _dropped(progress: list[StreamingQueryProgress]) -> dict[str, int]:
    """Return how many rows the only stateful step of a query has not let through, and why."""
    states = [state for one in progress for state in one.stateOperators]
    counts = {
        LATE: sum(state.numRowsDroppedByWatermark for state in states),
        REPEATED: sum(int(state.customMetrics.get("numDroppedDuplicateRows", 0)) for state in states),
    }
    return {reason: count for reason, count in counts.items() if count}


# -- in Spark's own turn -----------------------------------------------------------------------------------------


def _put_slots(batch: DataFrame, number: int, *, directory: str, slide_s: int) -> None:
    """Write the rows of a batch by their slots; the same batch again replaces itself."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    slot = F.floor(F.unix_seconds("at") / slide_s).cast("bigint")
    rows = batch.withColumn("slot", slot)
    rows.write.mode("overwrite").partitionBy("slot").parquet(f"{directory}/batch={number}")


def _put(batch: DataFrame, number: int, *, directory: str) -> None:
    batch.coalesce(1).write.mode("overwrite").parquet(f"{directory}/batch={number}")
