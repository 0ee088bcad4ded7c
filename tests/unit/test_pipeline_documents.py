"""The interests that each event of a batch matches, beside the filters themselves; no Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import covey
from covey.core.packing import pack
from covey.core.xpath.document import Document
from covey.errors import ConfigError, PlanError
from covey.pipeline.documents import document_batches, matched_numbers
from covey.pipeline.match import Matcher, compile_batches, matched
from covey.pipeline.memory import Room

FILTERS = [
    *[("attributes", f"n > {number}") for number in range(9)],
    *[("attributes", text) for text in ("n = -0.0", "s = ''", "n = 9007199254740993", "s is null", "TRUE")],
    *[("keywords", text) for text in ("ant", "ant or bee", "bee and cat")],
    *[("xpath", text) for text in ("/a", "/a/b", "//b")],
]
EVENTS: list[tuple[str, Any]] = [
    *[("attributes", {"n": number, "s": "x"}) for number in (-1, 0, 0.0, 3, 8.5, 5e-324, 2**53 + 1)],
    ("attributes", {}),
    ("attributes", {"s": "", "n": "3"}),
    ("keywords", ["ant", "bee"]),
    ("keywords", []),
    ("xpath", "<a><b/></a>"),
    ("attributes", {"n": 100}),
    ("xpath", "<c/>"),
]


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    wires = [covey.parse(text, language).encode() for language, text in FILTERS]
    # In the order of their names as texts, as they come to the task that compiles them: "0", "1", "10", "11", "2" …
    order = sorted(range(len(wires)), key=str)
    given = pa.RecordBatch.from_pydict(
        {
            "subscription": pa.array([str(number) for number in order]),
            "encoded": pa.array([wires[number] for number in order], pa.binary()),
        }
    )
    (compiled,) = compile_batches(iter([given]))
    return Matcher(compiled.column("filters")[0].as_buffer())


def rows(events: list[tuple[str, Any]]) -> pa.RecordBatch:
    encoders: dict[str, Any] = {"attributes": pack, "keywords": msgspec.msgpack.encode, "xpath": str.encode}
    return pa.RecordBatch.from_pydict(
        {
            "event": pa.array([f"e{number}" for number in range(len(events))], pa.string()),
            "broker": pa.array(["a"] * len(events), pa.string()),
            "part": pa.array(["training"] * len(events), pa.string()),
            "language": pa.array([language for language, _ in events], pa.string()),
            "encoded": pa.array([encoders[language](content) for language, content in events], pa.binary()),
        }
    )


def by_hand(language: str, content: Any) -> list[int]:
    readers: dict[str, Any] = {"attributes": dict, "keywords": frozenset, "xpath": Document.parse}
    read = readers[language]
    return [
        number
        for number, (own, text) in enumerate(FILTERS)
        if own == language and covey.parse(text, own).matches(read(content))
    ]


def test_numbers_are_those_of_filters_that_match(matcher: Matcher) -> None:
    expected = [by_hand(*event) for event in EVENTS]
    assert matched_numbers([matcher], rows(EVENTS)).to_pylist() == expected
    assert any(len(found) > 10 for found in expected)
    assert [] in expected
    assert matched_numbers([matcher], rows([])).to_pylist() == []


@pytest.fixture
def compiled() -> list[pa.RecordBatch]:
    """The same filters in shards of 7, 7 and 6."""
    wires = [covey.parse(text, language).encode() for language, text in FILTERS]
    batch = pa.RecordBatch.from_pydict(
        {"subscription": pa.array(map(str, range(len(wires)))), "encoded": pa.array(wires, pa.binary())}
    )
    return list(compile_batches(iter([batch.slice(0, 3), batch.slice(3, 14), batch.slice(17)]), most=7))


def broadcast(events: pa.RecordBatch, shards: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return what the join makes of a partition: its first event with each of the shards, then the others."""
    told = {name: [shard.column(name)[0].as_py() for shard in shards] for name in ("digest", "filters")}
    few, rest = len(shards), events.num_rows - 1
    table = pa.Table.from_batches([*[events.slice(0, 1)] * few, events.slice(1)])
    table = table.append_column("digest", pa.array([*told["digest"], *[None] * rest], pa.string()))
    table = table.append_column("filters", pa.array([*told["filters"], *[None] * rest], pa.binary()))
    (batch,) = table.combine_chunks().to_batches()
    return batch


def spread(events: pa.RecordBatch, shards: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return what a shuffle makes: each shard as a row of its own, then the events that it is for."""
    tables = []
    for shard in shards:
        nothing = [pa.array([None], field.type) for field in events.schema]
        head = pa.Table.from_arrays([*nothing, *shard.columns], [*events.schema.names, "digest", "filters"])
        rows = pa.Table.from_batches([events]).append_column(
            "digest", pa.array([shard.column("digest")[0].as_py()] * len(events), pa.string())
        )
        tables += [head, rows.append_column("filters", pa.array([None] * len(events), pa.binary()))]
    (batch,) = pa.concat_tables(tables).combine_chunks().to_batches()
    return batch


def test_shards_have_no_more_filters_than_they_may(compiled: list[pa.RecordBatch]) -> None:
    matchers = [Matcher(shard.column("filters")[0].as_buffer()) for shard in compiled]
    assert [len(matcher.numbers) for matcher in matchers] == [7, 7, 6]
    assert matched_numbers(matchers, rows(EVENTS)).to_pylist() == [by_hand(*event) for event in EVENTS]
    wires = pa.array([covey.parse("a = 1").encode()] * 14, pa.binary())
    full = pa.RecordBatch.from_pydict({"subscription": pa.array(map(str, range(14))), "encoded": wires})
    assert len(list(compile_batches(iter([full]), most=7))) == 2, "none that is empty"
    again = compile_batches(iter([full.slice(0, 9), full.slice(9)]), most=7)
    assert [shard.column("digest") for shard in again] == [
        shard.column("digest") for shard in compile_batches(iter([full]), most=7)
    ]
    nobody = pa.RecordBatch.from_pydict({"subscription": [None], "encoded": pa.array([None], pa.binary())})
    assert len(list(compile_batches(iter([nobody]), most=7))) == 1, (
        "but for one, where there is no filter at all"
    )
    assert not list(compile_batches(iter([])))


def test_indexes_that_the_driver_cannot_carry_are_refused(
    compiled: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [len(shard.column("filters")[0].as_py()) for shard in compiled]
    wires = pa.array([covey.parse(text, language).encode() for language, text in FILTERS], pa.binary())
    batch = pa.RecordBatch.from_pydict(
        {"subscription": pa.array(map(str, range(len(wires)))), "encoded": wires}
    )

    def made(row: int) -> int:
        room = Room(0, 0)
        monkeypatch.setattr(Room, "row", property(lambda room: row))
        return len(list(compile_batches(iter([batch]), room=room, most=7)))

    assert made(2 * sum(sizes)) == 3
    with pytest.raises(ConfigError, match="too large to broadcast are the indexes of 14 filters"):
        made(sum(sizes) // 2)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("few", [1, 2, 14])
def test_every_event_meets_every_shard_once(compiled: list[pa.RecordBatch], size: int, few: int) -> None:
    """However rows lie in batches, and also where a partition has a single event."""
    events = rows(EVENTS[:few])
    expected = [by_hand(*event) for event in EVENTS[:few]]

    def cut(whole: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [whole.slice(first, size) for first in range(0, whole.num_rows, size)]

    made = pa.Table.from_batches(document_batches(iter(cut(broadcast(events, compiled))), spread=False))
    assert made.column("event").to_pylist() == events.column("event").to_pylist()
    assert made.column("interests").to_pylist() == expected
    found: dict[str, list[int]] = {event: [] for event in events.column("event").to_pylist()}
    count = 0
    for matchers, batch in matched(iter(cut(spread(events, compiled))), spread=True):
        assert len(matchers) == 1, "one shard at a time is in memory"
        for event, numbers in zip(
            batch.column("event").to_pylist(), matched_numbers(matchers, batch).to_pylist(), strict=True
        ):
            found[event] += numbers
            count += 1
    assert count == 3 * few
    with pytest.raises(PlanError, match="not the same ones"):
        list(
            matched(
                iter([spread(events, compiled).slice(1 + few + 1), spread(events, compiled).slice(1)]),
                spread=True,
            )
        )
    assert [sorted(numbers) for numbers in found.values()] == expected


def test_batches_are_as_large_as_a_step_at_most(
    compiled: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("covey.pipeline.documents")  # of the package, that name is the stage
    monkeypatch.setattr(module, "STEP", 4)
    given = broadcast(rows(EVENTS), compiled[:1])
    made = list(document_batches(iter([given.slice(0, 10), given.slice(10)]), spread=False))
    assert [batch.num_rows for batch in made] == [4, 4, 2, 4]
