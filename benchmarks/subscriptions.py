"""What a subscription costs a broker, without sockets: processor time and memory by part, and a client that leaves.

    .venv/bin/python benchmarks/subscriptions.py [--subscriptions 200000] [--clients 2] [--workload siena-3] [--json]

The wire forms of filters are drawn and written to a file; a process of its own for each step reads them from there, so
that memory (`RssAnon`) is that of the step alone. Each step does what the step before does and one thing more; a row of
the table is the difference between the two.

    filters      bytes to filters, which are kept
    keys         the text under which a broker knows a subscription, kept by its number as the broker keeps it
    index        an index of the filters, by client and key
    tables       a router with the default strategy instead of that index, without a neighbour
    neighbour    the same with one neighbour, behind which everything may be published: covering, and what it was told

A client's departure is measured on the last two: all at once (LinkDown), and in slices (Unsubscribe), of which
the longest is reported, with the median.
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

import covey.strategies
from covey.broker.config import BrokerConfig
from covey.core.attributes.filter import TRUE
from covey.core.families import decode
from covey.core.filter import Filter
from covey.matching.index import Index, warm_up
from covey.routing.messages import (
    Advertise,
    Greet,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Subscribe,
    Sync,
    Unsubscribe,
)
from covey.routing.outputs import Send
from covey.routing.router import Router
from covey.workloads.attributes import WORKLOADS

STEPS: Final = ("filters", "keys", "index", "tables", "neighbour")
SLICE: Final = 64  # subscriptions


def resident() -> int:
    """Return how many bytes of this process are resident and not of a file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise OSError("this system does not say how much memory a process has")


class Forms:
    """The wire forms of filters, one after the other in a file, which is not copied into memory."""

    def __init__(self, folder: Path) -> None:
        self._ends = np.load(folder / "ends.npy", mmap_mode="r")
        with (folder / "forms").open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for number in range(len(self)):
            end = int(self._ends[number])
            yield self._data[start:end]
            start = end


def write_forms(folder: Path, workload: str, count: int) -> None:
    """Draw filters and write their wire forms."""
    (drawn,) = [one for one in WORKLOADS if one.name == workload]
    size = 0
    ends: list[int] = []
    with (folder / "forms").open("wb") as file:
        for filters in drawn.batches(np.random.default_rng(1), count):
            for filter in filters:
                size += file.write(filter.encode())
                ends.append(size)
    np.save(folder / "ends.npy", np.array(ends, np.int64))


def made_router(clients: list[Link], *, neighbour: bool) -> Router:
    """Return a broker's router with clients and, if asked for, a neighbour behind which anything may be published."""
    router = Router("b", BrokerConfig(name="b").strategy)
    for client in clients:
        router.handle(LinkUp(client=True), client)
    if neighbour:
        other = Router("c", BrokerConfig(name="c").strategy)
        other.handle(LinkUp(client=True), "publisher")
        other.handle(Advertise("everything", TRUE), "publisher")
        waiting: list[tuple[Router, Link, Message]] = [(router, "c", LinkUp()), (other, "b", LinkUp())]
        while waiting:
            one, source, message = waiting.pop(0)
            for output in one.handle(message, source):
                assert isinstance(output, Send), "nothing is published"
                if isinstance(output.message, Greet | Sync | Advertise):
                    waiting.append(
                        (other, "b", output.message) if one is router else (router, "c", output.message)
                    )
        assert router.is_synchronised()
    return router


def run(step: str, folder: Path, clients: int) -> dict[str, float]:
    """Do one step with all forms; return seconds and bytes, and how long a departure takes where there is a router."""
    forms, links = Forms(folder), [f"~{number:08x}" for number in range(1, clients + 1)]
    warm_up()
    router = made_router(links, neighbour=step == "neighbour")
    index, filters = Index(), list[Filter]()
    keys: list[dict[int, str]] = [{} for _ in links]
    gc.collect()
    gc.freeze()
    bytes_before, before_s = resident(), time.process_time()
    for number, form in enumerate(forms):
        filter = decode(form)
        owner, sid = number % clients, number // clients + 1
        link = links[owner]
        if step == "filters":
            filters.append(filter)
            continue
        key = keys[owner][sid] = f"{link}/{sid:x}"
        if step in ("tables", "neighbour"):
            router.handle(Subscribe(key, filter), link)
            continue
        filters.append(filter)
        if step == "index":
            index.add((link, key), filter)
    index.match({}), router.matching({})
    found = {
        "us": (time.process_time() - before_s) / len(forms) * 1e6,
        "bytes": (resident() - bytes_before) / len(forms),
    }
    if step in ("tables", "neighbour"):
        found |= departures(router, links)
    return found


def departures(router: Router, links: list[Link]) -> dict[str, float]:
    """Let one client leave at once and another in slices; return what that takes."""
    first, second, *_ = links
    before_s = time.process_time()
    router.handle(LinkDown(), first)
    at_once_s = time.process_time() - before_s
    slices: list[float] = []
    keys = list(reversed(router.local_subscriptions()[second]))
    for at in range(0, len(keys), SLICE):
        before_s = time.process_time()
        for key in keys[at : at + SLICE]:
            router.handle(Unsubscribe(key), second)
        slices.append(time.process_time() - before_s)
    router.handle(LinkDown(), second)
    return {
        "leave_at_once_s": at_once_s,
        "leave_in_slices_s": sum(slices),
        "slice_median_ms": 1e3 * statistics.median(slices),
        "slice_longest_ms": 1e3 * max(slices),
    }


def measured(workload: str, count: int, clients: int) -> dict[str, dict[str, float]]:
    """Return what each step takes, each in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        write_forms(Path(name), workload, count)
        command = [sys.executable, __file__, "--folder", name, "--clients", str(clients), "--step"]
        return {
            step: json.loads(subprocess.run([*command, step], check=True, capture_output=True).stdout)
            for step in STEPS
        }


def show(found: dict[str, dict[str, Any]]) -> None:
    """Print the steps as differences, and the departures."""
    table = Table("part", "µs", "bytes", "µs so far", "bytes so far")
    # A neighbour's tables come on top of the others; the router's index and tables on top of filters and keys.
    for step, base in zip(STEPS, (None, *STEPS), strict=False):
        less = found[base] if base else {"us": 0.0, "bytes": 0.0}
        table.add_row(
            step,
            f"{found[step]['us'] - less['us']:.1f}",
            f"{found[step]['bytes'] - less['bytes']:,.0f}",
            f"{found[step]['us']:.1f}",
            f"{found[step]['bytes']:,.0f}",
        )
    console = Console()
    console.print(table)
    for step in STEPS[-2:]:
        row = found[step]
        console.print(
            f"{step}: a client leaves in {row['leave_at_once_s']:.2f} s at once, {row['leave_in_slices_s']:.2f} s in "
            f"slices of {SLICE}: median {row['slice_median_ms']:.2f} ms, longest {row['slice_longest_ms']:.2f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="What a subscription costs a broker.")
    parser.add_argument("--subscriptions", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=2, help="at least 2, of which two leave")
    parser.add_argument("--workload", choices=[one.name for one in WORKLOADS], default="siena-3")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(run(options.step, options.folder, options.clients)))
        return
    found = measured(options.workload, options.subscriptions, options.clients)
    if options.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    assert covey.strategies()
    main()
