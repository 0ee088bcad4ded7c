"""Gathering: one look at all brokers, and whatever they have sampled since the last one.

Files of events and deliveries go to the inbox of streams, each once; tables of subscriptions and advertisements replace
what a broker had before. Listings, names and contents come from outside: a file that is not a table of its kind is left
out and said, rows that cannot be used are left out and counted (`samples`), and what is kept has a name of our own.
Whoever does not answer is away; its last tables stay.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as parquet

from covey.client.admin import Pages
from covey.coordinator.looking import BrokerLook, Look
from covey.coordinator.memory import Memory, write_whole
from covey.coordinator.samples import Checked, Times, check
from covey.errors import CoveyError

STREAMED: Final = ("events", "deliveries")
REPLACED: Final = ("subscriptions", "advertisements")
AT_ONCE: Final = 8  # brokers that are asked at one time
MOST_FILES: Final = 1_000  # of one broker in a round; a sampler keeps about 200


@dataclass
class Gathered:
    """What a round has found: the look, new files by table, subscriptions that came and went, and what was wrong.

    `dropped` has the rows that were left out, by table and reason.
    """

    look: Look
    files: dict[str, int] = field(default_factory=dict)
    joined: int = 0
    left: int = 0
    problems: list[str] = field(default_factory=list)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)


def gather(
    pages: Iterable[Pages],
    directory: Path,
    memory: Memory,
    *,
    max_skew_s: float = 30.0,
    span_s: float = float("inf"),
    clock: Callable[[], float] = time.time,
) -> Gathered:
    """Look at all brokers; new samples go to directory/inbox, tables to directory/tables. `memory` learns of them.

    Times of rows are judged by the clock and by what the broker's own differs from it (`samples.Times`).
    """
    asked = list(pages)
    for table in (*STREAMED, *REPLACED):
        (directory / ("inbox" if table in STREAMED else "tables") / table).mkdir(parents=True, exist_ok=True)
    found = Gathered(look_at(asked, clock))
    found.problems += clock_problems(found.look, max_skew_s)
    for look in found.look.brokers.values():
        one = next(one for one in asked if one.url == look.url)
        try:
            _Source(one, look, max_skew_s, span_s, clock).fetch(directory, memory, found)
        except CoveyError as error:
            found.problems.append(str(error))
    _forget_others({key_of(one.url) for one in asked}, directory)
    return found


def clock_problems(look: Look, max_skew_s: float) -> list[str]:
    """Return a line for each broker whose clock is off by more than that."""
    return [
        f"the clock of {one.broker} is {abs(one.skew_s):,.1f} s {'ahead' if one.skew_s > 0 else 'behind'}"
        for one in look.brokers.values()
        if one.skew_s is not None and abs(one.skew_s) > max_skew_s
    ]


def look_at(pages: Iterable[Pages], clock: Callable[[], float] = time.time) -> Look:
    """Return what brokers say of themselves now, all asked at one time."""
    asked = list(pages)
    looks: dict[str, BrokerLook] = {}
    away: dict[str, str] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for one, answer in zip(asked, pool.map(lambda one: _look(one, clock), asked), strict=True):
            if isinstance(answer, str):
                away[one.url] = answer
            elif answer.broker in looks:
                away[one.url] = f"the broker {answer.broker} answers at {looks[answer.broker].url} too"
            else:
                looks[answer.broker] = answer
    return Look(looks, away)


def key_of(text: str) -> str:
    """Return what stands for an address, or a name from outside, in names of files."""
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _look(pages: Pages, clock: Callable[[], float]) -> BrokerLook | str:
    try:
        asked_s = clock()
        varz = pages.get("/varz")
        answered_s = clock()
        return BrokerLook.of(pages.url, varz, pages.get("/planz"), (asked_s, answered_s))
    except CoveyError as error:
        return str(error)
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        StopIteration,
        AttributeError,
        ArithmeticError,
    ) as error:
        return f"{pages.url} does not answer as a broker does: {type(error).__name__} {error!s:.80}"


@dataclass(frozen=True)
class _Source:
    """One broker to fetch from."""

    pages: Pages
    look: BrokerLook
    max_skew_s: float
    span_s: float
    clock: Callable[[], float]

    def fetch(self, directory: Path, memory: Memory, found: Gathered) -> None:
        """Fetch what is new."""
        url = self.pages.url
        known = memory.fetched.setdefault(url, {})
        there: dict[str, int] = {}
        rows = _rows(self.pages.get("/samplez"))
        if len(rows) > MOST_FILES:
            found.problems.append(f"{url}: of {len(rows):,} files all but {MOST_FILES:,} are passed over")
        for table, name, written in rows[:MOST_FILES]:
            key = f"{table}/{name}"
            if known.get(key) != written:
                try:
                    data = self.pages.get_bytes("/samplez", table=table, name=name)
                except CoveyError as error:  # it may have left meanwhile
                    found.problems.append(str(error))
                    continue
                times = Times(self.clock(), self.look.skew_s or 0.0, self.max_skew_s, self.span_s)
                checked = check(data, table, self.look.broker, times)
                self._keep(table, name, checked, directory, found)
            there[key] = written
        self._forget_unlisted({key_of(name) for table, name, _ in rows if table in REPLACED}, directory)
        memory.fetched[url] = there  # of what is not listed any more nothing need be known

    def _keep(self, table: str, name: str, checked: Checked, directory: Path, found: Gathered) -> None:
        if checked.table is None:
            found.problems.append(f"{self.pages.url}: {table}/{name:.80} is left out: {checked.problem}")
            return
        if checked.dropped:
            found.dropped.setdefault(table, Counter()).update(checked.dropped)
        target = directory / ("inbox" if table in STREAMED else "tables") / table
        file = target / f"{key_of(self.pages.url)}-{key_of(name)}.parquet"
        if table == "subscriptions":
            joined, left = _changes(file, checked.table)
            found.joined += joined
            found.left += left
        if table in REPLACED or len(checked.table):
            write_whole(file, checked.encode())
            found.files[table] = found.files.get(table, 0) + 1

    def _forget_unlisted(self, names: set[str], directory: Path) -> None:
        """Remove tables that the broker has no longer, as after it got another name."""
        for table in REPLACED:
            for file in (directory / "tables" / table).glob(f"{key_of(self.pages.url)}-*.parquet"):
                if file.stem.split("-")[1] not in names:
                    file.unlink()


def _rows(answer: Any) -> list[tuple[str, str, int]]:
    """Return the files that can be fetched, each with its table, name and time; whatever the answer is."""
    rows = []
    listed = answer.get("rows") if isinstance(answer, dict) else None
    for row in listed if isinstance(listed, list) else ():
        if not isinstance(row, dict) or row.get("table") not in (*STREAMED, *REPLACED):
            continue
        name, written = row.get("name"), row.get("written_ns")
        if isinstance(name, str) and isinstance(written, int) and _is_plain(name):
            rows.append((row["table"], name, written))
    return rows


def _is_plain(name: str) -> bool:
    """Return whether a name is that of a table in a directory and of nothing else."""
    return (
        name.endswith(".parquet")
        and name.isprintable()
        and len(name.encode()) <= 200
        and not {"/", "\\", ":"} & set(name)
    )


def _changes(file: Path, table: pa.Table) -> tuple[int, int]:
    """Return how many subscriptions have come and gone since the last table of this broker."""
    new, old = set(table.column("subscription").to_pylist()), set()
    with suppress(
        OSError, pa.ArrowException, ValueError
    ):  # what an earlier version kept there is nobody's word
        old = set(parquet.read_table(file, columns=["subscription"]).column(0).to_pylist())
    return len(new - old), len(old - new)


def _forget_others(keys: set[str], directory: Path) -> None:
    """Remove the tables of addresses that are asked no more."""
    for table in REPLACED:
        for file in (directory / "tables" / table).glob("*.parquet"):
            if file.name.split("-")[0] not in keys:
                file.unlink()
