"""XPath filters compared in one run: asking every filter, and the index.

The same filters and documents go through both, on one thread, and the answers are compared. Times are the thread's own,
the best of several rounds, so that other work on the machine disturbs them little; the scan, which takes a
document's time by filters, is measured on a sample of the filters and scaled up. Documents are parsed beforehand:
parsing is its own figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from covey.bench.comparison import Comparison
from covey.bench.timing import Row, exponent, rounded
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter
from covey.matching.xpath.index import XPathIndex
from covey.workloads.dtd import newspaper
from covey.workloads.xpath import XPathWorkload

ROUNDS = 7
SCANNED_FILTERS = 2_000
SCANNED_DOCUMENTS = 3
ASKED_FILTERS = 200
CHURNED_FILTERS = 2_000

Item = TypeVar("Item")


def run(
    sizes: Sequence[int], progress: Callable[[str], None], documents: int = 20, seed: int = 20_26
) -> list[dict[str, object]]:
    """Return one row of figures for each number of filters; `progress` is told what is being done.

    Times are in microseconds: `scan_us` and `ours_us` a document, `ratio` between them; `covering_us` for the
    filters that cover a given one, `covering_ratio` against asking every filter; `add_us` and `remove_us` a filter,
    while the others stay; `parse_us` a document; `exponent` is e if `ours_us` grows as size**e from the smallest size.
    `equal` says whether all compared answers were the same.
    """
    generator = np.random.default_rng(seed)
    workload = XPathWorkload(newspaper(), generator)
    progress(f"making {max(sizes):,} patterns and {documents} documents")
    filters = workload.filters(max(sizes))
    asked = workload.filters(ASKED_FILTERS)
    texts = [workload.document() for _ in range(documents)]
    parsed = [Document.parse(text) for text in texts]
    parse_us = float(np.mean(_best_each(Document.parse, texts)))
    rows: list[Row] = []
    for size in sizes:
        progress(f"measuring {size:,} patterns")
        row: Row = {"size": size, **_measure(filters[:size], asked, parsed), "parse_us": round(parse_us, 1)}
        rows.append(row)
        row["exponent"] = exponent(rows, "ours_us")
    return [rounded(row) for row in rows]


def compare(
    progress: Callable[[str], None], *, sizes: Sequence[int], documents: int = 20, seed: int = 20_26
) -> list[Comparison]:
    """Return for each number of patterns what matching and covering cost beside asking every pattern."""
    result: list[Comparison] = []
    for row in run(sizes, progress, documents, seed):
        figures: Row = dict(row)
        for work, ours, ratio in (
            ("all matches of a document", figures["ours_us"], figures["ratio"]),
            ("all that cover a pattern", figures["covering_us"], figures["covering_ratio"]),
        ):
            result.append(
                Comparison(
                    part="xpath",
                    work=work,
                    unit="µs",
                    axis="patterns",
                    size=figures["size"],
                    ours=ours,
                    baseline="scan",
                    theirs=ours * ratio,
                    equal=figures["equal"],
                )
            )
    return result


def _measure(filters: list[XPathFilter], asked: list[XPathFilter], documents: list[Document]) -> Row:
    index = XPathIndex()
    for handle, filter in enumerate(filters):
        index.add(handle, filter)
    counts = [len(index.match(document)) for document in documents]
    index.covering(asked[0])
    ours_us = float(np.mean(_best_each(index.match, documents)))
    covering_us = float(np.mean(_best_each(index.covering, asked)))
    scan_us, covers_us, equal = _scan(index, filters, asked, documents)
    add_us, remove_us = _churn(index, filters)
    return {
        "scan_us": round(scan_us, 1),
        "ours_us": round(ours_us, 2),
        "ratio": round(scan_us / ours_us, 1),
        "covering_us": round(covering_us, 2),
        "covering_ratio": round(covers_us / covering_us, 1),
        "add_us": round(add_us, 2),
        "remove_us": round(remove_us, 2),
        "bytes_per_filter": round(index.memory_bytes / len(filters), 1),
        "matches_per_document": round(float(np.mean(counts)), 1),
        "equal": equal,
    }


def _scan(
    index: XPathIndex, filters: list[XPathFilter], asked: list[XPathFilter], documents: list[Document]
) -> tuple[float, float, bool]:
    """Ask a sample of the filters one by one; return the times for all of them, and whether the index agrees."""
    step = max(1, len(filters) // SCANNED_FILTERS)
    sample = range(0, len(filters), step)
    scale = len(filters) / len(sample)
    equal = True
    scan_us: list[float] = []
    covers_us: list[float] = []
    for document in documents[:SCANNED_DOCUMENTS]:
        start = time.thread_time_ns()
        matching = {handle for handle in sample if filters[handle].matches(document)}
        scan_us.append((time.thread_time_ns() - start) / 1000 * scale)
        equal &= matching == set(index.match(document).tolist()).intersection(sample)
    for other in asked[:SCANNED_DOCUMENTS]:
        start = time.thread_time_ns()
        covering = {handle for handle in sample if filters[handle].covers(other)}
        covers_us.append((time.thread_time_ns() - start) / 1000 * scale)
        equal &= covering == set(index.covering(other).tolist()).intersection(sample)
    return float(np.mean(scan_us)), float(np.mean(covers_us)), equal


def _churn(index: XPathIndex, filters: list[XPathFilter]) -> tuple[float, float]:
    """Take some filters out and put them back; return the times of adding and of removing one."""
    chosen = list(enumerate(filters))[: min(CHURNED_FILTERS, len(filters))]
    add_us, remove_us = [], []
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        for handle, filter in chosen:
            index.remove(handle, filter)
        middle = time.thread_time_ns()
        for handle, filter in chosen:
            index.add(handle, filter)
        remove_us.append((middle - start) / 1000 / len(chosen))
        add_us.append((time.thread_time_ns() - middle) / 1000 / len(chosen))
    return min(add_us), min(remove_us)


def _best_each(ask: Callable[[Item], object], items: Sequence[Item]) -> list[float]:
    """Return for each item the best time of several rounds, in microseconds."""
    best = [float("inf")] * len(items)
    for _ in range(ROUNDS):
        for position, item in enumerate(items):
            start = time.thread_time_ns()
            ask(item)
            best[position] = min(best[position], (time.thread_time_ns() - start) / 1000)
    return best
