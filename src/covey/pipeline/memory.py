"""The memory of Spark's driver: how much a job asks for, and how large a row can be that is broadcast through it.

Stages pack what every task needs into one row (`packed`, `match`), and that row goes through the driver's Java: it is
collected, hashed, kept in blocks, and where the driver runs the tasks too, on this machine, each of them copies it on
its way to Python. Java that has no room for that ends with an OutOfMemoryError which says nothing of the cause, so rows
are measured in the worker that packs them, and refused there with a line that says what to set.

The figures below were measured with rows of random bytes on `local[2]`: 1 GiB takes 40 MB and not 50, 2 GiB take
140 MB, 4 GiB take 250.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from covey.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB: Final = 1 << 20
GIB: Final = 1 << 30
DEFAULT: Final = GIB  # of Spark itself
LEAST: Final = 512 * MIB  # below which Spark does not start
RESERVED: Final = 512 * MIB  # for all that is not the row
COPIES: Final = 6  # of a row that is broadcast, in the driver
TASK_COPIES: Final = 3  # more for each task that runs in the driver's Java
GROWTH: Final = 3  # a row beside the table on disk that it is packed from, at most
EVENTS_GROWTH: Final = 1  # memory beside the other tables on disk, which are read in parts
_SIZE: Final = re.compile(r"([1-9]\d{0,9})([kmgt])b?", re.IGNORECASE)
_UNITS: Final = {"k": 1 << 10, "m": MIB, "g": GIB, "t": 1 << 40}
_LOCAL: Final = re.compile(r"(?:connect:)?local(?:\[(\*|[1-9]\d{0,3})(?:,\d+)?\])?")
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


def parse_memory(text: str) -> int:
    """Return the bytes of a size as Spark writes it, such as 512m or 4g; ConfigError if it is none."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise ConfigError(f"{text!r:.40} is no size of memory (hint: 512m, 4g)")
    return int(found[1]) * _UNITS[found[2].lower()]


def check_driver_memory(text: str) -> int:
    """Return the bytes of a size that a driver can have; ConfigError if Spark would not start with it."""
    size = parse_memory(text)
    if size < LEAST:
        raise ConfigError(f"Spark's driver needs {memory_text(LEAST)} or more, not {text:.40}")
    return size


def memory_text(size: int) -> str:
    """Return a size as Spark reads it, in whole GiB where it is, else in MiB."""
    return f"{size // GIB}g" if size and size % GIB == 0 else f"{size // MIB}m"


def bytes_in(path: Path) -> int:
    """Return the size of a file, or of all files in a directory; 0 if it is not there."""
    if path.is_file():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def machine_bytes() -> int:
    """Return the memory of this machine, or of the container that this process runs in."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP.read_text(encoding="ascii").strip()
    except OSError:
        return size
    return min(size, int(limit)) if limit.isdigit() else size


def own_threads(master: str) -> int:
    """Return how many tasks run at a time in the driver's own Java: none where there is a cluster."""
    found = _LOCAL.fullmatch(master)
    if not found:
        return 0
    return int(found[1]) if found[1] and found[1] != "*" else os.cpu_count() or 1


def default_driver_memory(subscriptions: int, others: int, *, threads: int, machine: int) -> int:
    """Return the memory to start a driver with, for tables of so many bytes on disk.

    At least what Spark has by default, and beyond that at most half of the machine's: Python needs memory too.
    `threads` is how many tasks run in the driver's own Java.
    """
    needed = heap_for(subscriptions * GROWTH, threads) + others * EVENTS_GROWTH
    return max(DEFAULT, min(needed, machine // 2 // GIB * GIB))


def heap_for(row: int, threads: int) -> int:
    """Return the memory with which a row of so many bytes can be broadcast, in whole GiB."""
    return -(-(RESERVED + row * (COPIES + TASK_COPIES * threads)) // GIB) * GIB


class Room(NamedTuple):
    """What a driver can carry: the bytes of its Java's heap, and how many tasks run in there."""

    heap: int
    threads: int

    @property
    def row(self) -> int:
        """The most bytes of a row that is broadcast."""
        free = (self.heap - RESERVED) // (COPIES + TASK_COPIES * self.threads)
        return max(free, self.heap // 64)

    def check(self, size: int, what: str) -> None:
        """Raise ConfigError if a row of so many bytes would end Java."""
        if size <= self.row:
            return
        # The heap that Java reports is somewhat less than it was given: what it had is no answer.
        needed = memory_text(max(heap_for(size, self.threads), (round(self.heap / GIB) + 1) * GIB))
        raise ConfigError(
            f"{what}: {size / 1e6:,.1f} MB packed, and Spark's driver has {memory_text(self.heap)} of memory, enough"
            f" for {self.row / 1e6:,.1f} MB (hint: --driver-memory {needed}; for a session that is not Covey's,"
            f" spark.driver.memory={needed} where it is started)"
        )


def room_of(spark: SparkSession) -> Room:
    """Return what the driver of a session can carry; runs no action."""
    conf = spark.conf
    threads = own_threads(str(conf.get("spark.master", None) or ""))
    java = getattr(spark, "_jvm", None)
    if java is not None:
        # What was configured need not be what Java was started with.
        return Room(int(java.java.lang.Runtime.getRuntime().maxMemory()), threads)
    try:
        return Room(parse_memory(str(conf.get("spark.driver.memory", None) or "1g")), threads)
    except ConfigError:  # in bytes, or another form that Spark has
        return Room(DEFAULT, threads)
