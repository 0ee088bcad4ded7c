"""Samples of a broker's own traffic, as the tables that planning reads, and their files as those outside may have them.

    events         events that clients published here, each with the same probability
    deliveries     for sampled events, wherever they were published: which subscriptions here they reached, with the
                   distance that incremental aggregation remembers; other strategies know none, and write no such rows
    subscriptions  what clients ask for now; rewritten whenever samples are
    advertisements likewise
    topology       the broker's own links; those of all brokers together are the overlay

Whether an event is sampled follows from its name alone, so that all brokers look at the same ones, and the directories
of all brokers put together are an input of `covey plan`. Rows gather in memory. Now and then the core has them written,
in a thread of the shell, to Parquet files that appear whole under their names; at most so many files of a table are
kept, the oldest leave.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from covey.broker.private_files import make_directory, opener
from covey.core.families import LANGUAGES
from covey.core.filter import Filter
from covey.errors import ConfigError, EventError
from covey.protocol.events import KEYWORDS, XPATH, decode_content, link_of, name_of
from covey.routing.messages import NEVER, Key, Link

TABLES: Final = ("events", "deliveries", "subscriptions", "advertisements", "topology")
ENDING: Final = ".parquet"


def listed(directory: Path | None) -> list[dict[str, Any]]:
    """Return the files that are whole: table, name, bytes, and when each was written, in nanoseconds."""
    found = []
    for table in TABLES if directory is not None else ():
        assert directory is not None
        for path in sorted((directory / table).glob(f"[!.]*{ENDING}")):
            try:
                state = path.stat()
            except FileNotFoundError:
                continue  # it has left meanwhile
            found.append(
                {"table": table, "name": path.name, "bytes": state.st_size, "written_ns": state.st_mtime_ns}
            )
    return found


def path_of(directory: Path | None, table: str, name: str) -> Path:
    """Return the file of that name; ConfigError if there is none."""
    if directory is None:
        raise ConfigError("this broker takes no samples (hint: its settings sample and data_dir)")
    # Names come from outside: only what is listed is given away.
    if not any((table, name) == (one["table"], one["name"]) for one in listed(directory)):
        raise ConfigError(f"there is no file {name!r:.80} of samples of {table!r:.40}")
    return directory / table / name


_MASK: Final = (1 << 64) - 1
MOST_ROWS: Final = 100_000  # of a table in memory; more are not taken until they are written


def mixed(publisher: int, number: int) -> int:
    """Return 64 bits that look random and follow from an event's name alone (the finish of splitmix64)."""
    z = (publisher * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9) & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


@dataclass
class Rows:
    """What waits to be written of one table."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)


class Sampler:
    """Samples of one broker; `record` and `delivered` are for sampled events only (`takes`)."""

    def __init__(self, broker: str, directory: Path, p: float, *, most_files: int = 100) -> None:
        self.broker = broker
        self.directory = directory
        self.taken = self.lost = 0
        self._below = round(p * 2.0**64)
        self._most_files = most_files
        self._events = Rows(("event", "publisher", "broker", "at", "language", "content"))
        self._deliveries = Rows(("event", "subscription", "broker", "distance", "at"))
        self._written = 0

    def takes(self, publisher: int, number: int) -> bool:
        """Return whether the event of that name is in the sample."""
        return mixed(publisher, number) < self._below

    @property
    def below(self) -> int:
        """The number that `mixed` of an event's name is below if the event is in the sample."""
        return self._below

    def record(self, publisher: int, number: int, family: int, content: bytes, at_s: float) -> None:
        """Note an event that a client published here."""
        try:
            text = content_text(family, content)
        except EventError:
            return  # the publisher hears of it elsewhere
        row = (
            name_of(publisher, number),
            link_of(publisher),
            self.broker,
            _time(at_s),
            _language(family),
            text,
        )
        self._add(self._events, row)

    def delivered(
        self, publisher: int, number: int, keys: Iterable[Key], distance: float, at_s: float
    ) -> None:
        """Note which subscriptions here an event has reached."""
        hops = None if distance == NEVER else int(distance)
        for key in keys:
            self._add(self._deliveries, (name_of(publisher, number), key, self.broker, hops, _time(at_s)))

    def _add(self, table: Rows, row: tuple[Any, ...]) -> None:
        if len(table.rows) >= MOST_ROWS:
            self.lost += 1
        else:
            table.rows.append(row)
            self.taken += 1

    def take(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return what waits to be written, and begin anew; for `write`, which may run in a thread."""
        events, self._events.rows = self._events.rows, []
        deliveries, self._deliveries.rows = self._deliveries.rows, []
        return {"events": events, "deliveries": deliveries}

    def write(
        self,
        rows: Mapping[str, list[tuple[Any, ...]]],
        subscriptions: Mapping[Link, Mapping[Key, Filter]],
        advertisements: Mapping[Key, Filter],
        links: Iterable[Link],
    ) -> None:
        """Write tables: new files of events and deliveries, the others anew. OSError if the disk does not take them."""
        self._written += 1
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{self._written:06}"
        for table, columns in (("events", self._events.columns), ("deliveries", self._deliveries.columns)):
            if rows[table]:
                self._put(table, f"{self.broker}-{stamp}", columns, rows[table])
                self._clean(table)
        wanted = [
            (key, self.broker, filter.family, str(filter))
            for mine in subscriptions.values()
            for key, filter in mine.items()
        ]
        offered = [(key, self.broker, filter.family, str(filter)) for key, filter in advertisements.items()]
        kind = ("broker", "language", "filter")
        self._put("subscriptions", self.broker, ("subscription", *kind), wanted)
        self._put("advertisements", self.broker, ("advertisement", *kind), offered)
        ends = [(*sorted((self.broker, link)), 1.0) for link in sorted(links)]
        self._put("topology", self.broker, ("a", "b", "cost"), ends)

    def _put(self, table: str, name: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        types = {"at": pa.timestamp("us", tz="UTC"), "distance": pa.int32(), "cost": pa.float64()}
        schema = pa.schema([(column, types.get(column, pa.string())) for column in columns])
        values = zip(*rows, strict=True) if rows else ((),) * len(columns)
        arrays = [pa.array(list(some), field.type) for some, field in zip(values, schema, strict=True)]
        directory = self.directory / table
        make_directory(directory)
        # Spark passes over names that begin with a dot, so nobody reads half a file.
        beside = directory / f".{name}.new"
        with open(beside, "wb", opener=opener) as file:
            parquet.write_table(pa.Table.from_arrays(arrays, schema=schema), file)
        beside.replace(directory / f"{name}.parquet")

    def _clean(self, table: str) -> None:
        files = sorted((self.directory / table).glob(f"{self.broker}-*.parquet"))
        for file in files[: max(0, len(files) - self._most_files)]:
            file.unlink(missing_ok=True)


def content_text(family: int, content: bytes) -> str:
    """Return an event's content as the table has it: JSON, XML, or a JSON list of words."""
    if family == XPATH:
        return content.decode("utf-8", errors="replace")
    decoded = decode_content(family, content)
    return json.dumps(sorted(decoded) if family == KEYWORDS else decoded, ensure_ascii=False)


def _language(family: int) -> str:
    return LANGUAGES[family]


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
