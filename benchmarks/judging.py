"""What judging an event takes: processor time in the worker, beside the reader that looks at every name of its JSON.

    python benchmarks/judging.py [--events 50000] [--json]

`judged` is the whole of `covey.pipeline.ingest.judge_batches` on Arrow batches of 10,000 events, `slowly` the same with
the quick reader turned off, as it was before there was one; both in µs an event, the best of five rounds, in turns.
What Spark itself takes for a row comes on top. The answers are checked to be equal.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from covey.pipeline.ingest import REASON, judge_batches
from covey.pipeline.schemas import SOURCE

QUICK = "covey.pipeline.ingest.quick_object"
ROWS = 10_000
ROUNDS = 5
BROKERS = 100
SOURCE_TYPE = pa.struct(
    [("file", pa.string()), ("line", pa.int64()), ("text", pa.string()), ("reason", pa.string())]
)


def numbers(draw: np.random.Generator) -> dict[str, Any]:
    """Ten of twenty attributes with whole numbers."""
    return {f"a{name}": int(draw.integers(1_000)) for name in draw.choice(20, 10, replace=False)}


def quotes(draw: np.random.Generator) -> dict[str, Any]:
    """A few attributes of different types, one with colons."""
    price, volume = round(float(draw.random()) * 100, 2), int(draw.integers(10_000))
    return {"symbol": f"S{draw.integers(500)}", "price": price, "volume": volume, "when": "12:30:00"}


def nested(draw: np.random.Generator) -> dict[str, Any]:
    """An object within an object, and a list."""
    return {"order": {"item": int(draw.integers(9)), "kind": "x"}, "tags": [1, 2], "n": int(draw.integers(9))}


KINDS: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "numbers": numbers,
    "quotes": quotes,
    "nested": nested,
}


def batches_of(kind: str, count: int) -> list[pa.RecordBatch]:
    """Return raw events of one kind as Spark hands them to a worker."""
    draw = np.random.default_rng(1)
    contents = [json.dumps(KINDS[kind](draw)) for _ in range(count)]
    found = []
    for first in range(0, count, ROWS):
        some = contents[first : first + ROWS]
        columns = {
            "event": pa.array([f"e{first + place}" for place in range(len(some))]),
            "publisher": pa.nulls(len(some), pa.string()),
            "broker": pa.array([f"b{place % BROKERS}" for place in range(len(some))]),
            "at": pa.array([1_700_000_000_000_000] * len(some), pa.timestamp("us", "UTC")),
            "language": pa.array(["attributes"] * len(some)),
            "content": pa.array(some),
            REASON: pa.nulls(len(some), pa.string()),
            SOURCE: pa.nulls(len(some), SOURCE_TYPE),
        }
        found.append(pa.RecordBatch.from_arrays([*columns.values()], [*columns]))
    return found


def judged(batches: list[pa.RecordBatch]) -> tuple[float, list[Any]]:
    """Judge; return the seconds that took and the encoded events."""
    brokers = frozenset(f"b{place}" for place in range(BROKERS))
    begun_s = time.process_time()
    rows = list(judge_batches(iter(batches), table="events", brokers=brokers))
    took_s = time.process_time() - begun_s
    assert not any(batch.num_rows - batch.column(REASON).null_count for batch in rows)
    return took_s, [one for batch in rows for one in batch.column("encoded").to_pylist()]


def measured(kind: str, count: int) -> dict[str, Any]:
    """Return what an event of one kind takes."""
    batches = batches_of(kind, count)
    best = {"judged_us": float("inf"), "slowly_us": float("inf")}
    for _ in range(ROUNDS):
        took_s, answers = judged(batches)
        best["judged_us"] = min(best["judged_us"], took_s / count * 1e6)
        with patch(QUICK, lambda content: None):
            took_s, others = judged(batches)
        best["slowly_us"] = min(best["slowly_us"], took_s / count * 1e6)
        assert answers == others, "both readers give the same"
    return {"kind": kind, **{name: round(value, 2) for name, value in best.items()}}


def main() -> None:
    """Measure, and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [measured(kind, asked.events) for kind in KINDS]
    if asked.json:
        print(json.dumps(rows))
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
