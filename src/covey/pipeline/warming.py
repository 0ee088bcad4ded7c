"""Warming up: what stages have compiled is compiled, or loaded, before it is needed. Stages' batches, without Spark."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from covey.core.families import parse
from covey.core.packing import pack
from covey.matching.index import ATTRIBUTES
from covey.pipeline.blocks import block_batches
from covey.pipeline.match import Matcher, compile_batches
from covey.pipeline.tables.answers import Network
from covey.pipeline.tables.local import SCHEMA
from covey.pipeline.tables.overlay import Overlay
from covey.pipeline.tables.steps import steps_of

_FILTERS = ("s = 'a' and x > 1", "s = 'a' and x between 2 and 5", "s = 'a' and x < 3", "s = 'b'")
_EVENTS = ({"s": "a", "x": 2.5}, {"s": "b", "y": [1]}, {"x": 4, "z": True})


def warm_up() -> None:
    """Compile what the pipeline uses beyond planning, or load it from the cache: a few seconds the first time."""
    _match()
    for strategy in ("covering", "merging"):
        _tables(strategy)


def _match() -> None:
    """Match some events, one by one and in a block."""
    wires = [parse(text).encode() for text in _FILTERS]
    given = pa.RecordBatch.from_pydict(
        {"subscription": pa.array(map(str, range(len(wires)))), "encoded": pa.array(wires, pa.binary())}
    )
    (compiled,) = compile_batches(iter([given]))
    matcher = Matcher(compiled.column("filters")[0].as_buffer())
    events = pa.RecordBatch.from_pydict(
        {
            "event": pa.array(map(str, range(len(_EVENTS)))),
            "language": pa.array([ATTRIBUTES] * len(_EVENTS)),
            "encoded": pa.array([pack(event) for event in _EVENTS], pa.binary()),
        }
    )
    deque(matcher.match(events), 0)
    for blocks in block_batches(iter([events]), len(_EVENTS)):
        deque(matcher.match_block(ATTRIBUTES, blocks.column("block")[0].as_buffer()), 0)


def _tables(strategy: str) -> None:
    """Compute the tables of three brokers in a row."""
    network = Network(Overlay([("a", "b"), ("b", "c")]), None).packed()
    rows = [
        {"broker": broker, "encoded": parse(text).encode(), "entries": 1, "key": None}
        for broker in "ac"
        for text in _FILTERS
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    steps = steps_of(strategy, keys=False, advertisements=False)
    for step in steps:
        if step is steps[-1]:
            told = pa.array([network, *[None] * (len(batch) - 1)], pa.binary())
            batch = batch.append_column("network", told)
        (batch,) = pa.Table.from_batches(step.compute(iter([batch]))).combine_chunks().to_batches()
