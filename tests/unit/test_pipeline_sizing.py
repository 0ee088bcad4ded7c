"""Sizes of all routing tables from what planning keeps, against the simulator; and that nothing is asked of Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from tests.oracles.table_steps import Case, Placed, case, simulated

from covey.core.families import decode
from covey.pipeline import session, sizing
from covey.pipeline.sizing import Size, table_sizes
from covey.strategies.reductions import REDUCTIONS

LANGUAGES = {"A": "attributes", "X": "xpath", "K": "keywords"}


def write_judged(stages: Path, table: str, key: str, placed: Placed) -> None:
    """Write a judged table in two parts, with a row that cannot be used."""
    rows: list[dict[str, Any]] = [
        {
            key: f"{key}{number}",
            "broker": broker,
            "language": LANGUAGES[chr(filter.encode()[0])],
            "filter": str(filter),
            "encoded": filter.encode(),
            "reason": None,
        }
        for number, (broker, filter) in enumerate(placed)
    ]
    rows.append(dict.fromkeys(rows[0]) | {key: "bad", "broker": "nowhere", "reason": "it is bad"})
    schema = pa.schema([(name, pa.binary() if name == "encoded" else pa.string()) for name in (*rows[0],)])
    for number, some in enumerate((rows[::2], rows[1::2])):
        directory = stages / f"judged-{table}" / f"kept=p{number}"
        directory.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(some, schema), directory / "part-0.parquet")


def write_stages(stages: Path, given: Case) -> None:
    """Write what planning keeps of the subscriptions and advertisements of a case."""
    write_judged(stages, "subscriptions", "subscription", given.subscriptions)
    write_judged(stages, "advertisements", "advertisement", given.advertisements)


def sizes_by_messages(given: Case, strategy: str, *, told: bool) -> Size:
    """What the simulator's tables hold once everything has settled."""
    by_broker: Counter[str] = Counter()
    for (broker, _, _), count in simulated(given, strategy, advertisements=told).items():
        by_broker[broker] += count
    return Size(by_broker.total(), max(by_broker.values(), default=0))


@pytest.mark.parametrize("seed", [18, 4, 7])
def test_sizes_are_the_simulators(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = case(seed)
    assert given.subscriptions
    assert given.advertisements
    write_stages(tmp_path, given)
    monkeypatch.setattr(session, "session", None)  # whoever asks for Spark fails
    asked: list[str] = []
    found = table_sizes(
        tmp_path, given.links, master=None, log=tmp_path / "log", interests=40, on_reduction=asked.append
    )
    assert found == {
        (strategy, told): sizes_by_messages(given, strategy, told=told)
        for strategy in REDUCTIONS
        for told in (True, False)
    }
    assert "merging" in asked
    few = {(broker, decode(filter.encode())) for broker, filter in given.subscriptions}
    many = table_sizes(
        tmp_path, given.links, master=None, log=tmp_path / "log", interests=sizing.MOST_MERGED + len(few)
    )
    assert many == {key: size for key, size in found.items() if key[0] != "merging"}
