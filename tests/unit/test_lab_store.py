"""Results of the lab: what is saved is read again as it was; what is damaged or old is missing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.toy_paper import FRACTIONS, SQUARES, TROUBLES

from covey.errors import ConfigError
from covey.lab.experiment import Cell, Experiment, Row
from covey.lab.outcome import Outcome, compute, decode, digest
from covey.lab.store import Store

ODD_ROWS: list[Row] = [
    {"mixed": 1, "whole": 1, "real": 1.0, "text": "a\n'<ü>", "truth": True, "none": None, "large": 2**70},
    {"mixed": 1.0, "whole": None, "real": math.inf, "text": "", "truth": False, "none": None, "large": 0},
    {"mixed": "1", "whole": -(2**63), "real": None, "text": None, "truth": None, "none": None, "large": 1},
    {"mixed": True, "whole": 2**63 - 1, "real": 0.1, "text": "1", "truth": True, "none": None, "large": 2},
    {"mixed": None, "whole": 0, "real": 1e-300, "text": "null", "truth": True, "none": None, "large": 3},
]


def odd(rows: list[Row]) -> Experiment:
    return Experiment("odd", "T", "Odd values", lambda scale: [{"seed": 1}], lambda cell: rows)


def fill(store: Store, experiment: Experiment) -> None:
    for cell in store.missing(experiment, "small"):
        store.save(compute(experiment, cell))


def exact(rows: list[Row]) -> list[list[tuple[str, str]]]:
    return [[(key, repr(value)) for key, value in sorted(row.items())] for row in rows]


def test_every_scalar_survives_with_its_type(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, odd(ODD_ROWS))
    found = store.results([odd(ODD_ROWS)], "small").rows("odd")
    assert exact(found) == exact([{"seed": 1, **row} for row in ODD_ROWS])


def test_not_a_number_and_numpys_scalars(tmp_path: Path) -> None:
    store = Store(tmp_path)
    experiment = odd(
        [{"nan": math.nan, "count": np.int64(3), "flag": np.bool_(True), "mean": np.float32(0.5)}]  # type: ignore[dict-item]  # on purpose
    )
    fill(store, experiment)
    (row,) = store.results([experiment], "small").rows("odd")
    assert math.isnan(float(str(row["nan"])))
    assert exact([row])[0][:3] == [("count", "3"), ("flag", "True"), ("mean", "0.5")]


@pytest.mark.parametrize("rows", [[], [{}], [{"value": None}]])
def test_few_and_empty_rows(tmp_path: Path, rows: list[Row]) -> None:
    store = Store(tmp_path)
    fill(store, odd(rows))
    assert store.missing(odd(rows), "small") == []
    assert len(store.results([odd(rows)], "small").rows("odd")) == len(rows)


def test_a_value_that_is_no_scalar_is_an_error_of_the_cell() -> None:
    outcome = compute(odd([{"list": [1]}]), {"seed": 1})  # type: ignore[dict-item]
    assert outcome.error is not None
    assert "'list' in a row is a list" in outcome.error


def test_a_file_says_what_it_is_and_other_tools_can_read_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.save(compute(SQUARES, {"n": 2, "seed": 7}))
    assert path.name == f"t-squares-{digest('t-squares', 1, {'seed': 7, 'n': 2})}.parquet"
    table = pq.read_table(path)
    assert table.column("square").to_pylist() == [4]
    assert table.column("n").to_pylist() == [2]
    outcome = store.load(SQUARES, {"n": 2, "seed": 7})
    assert outcome is not None
    assert (outcome.error, outcome.covey != "", outcome.wall_s >= 0) == (None, True, True)
    assert decode(outcome.encode()) == outcome


def test_digests_tell_parameters_apart_but_not_their_order() -> None:
    cells: list[Cell] = [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": None}, {"b": 1}, {}]
    assert len({digest("x", 1, cell) for cell in cells}) == len(cells)
    assert digest("x", 1, {"a": 1, "b": 2}) == digest("x", 1, {"b": 2, "a": 1})
    assert len({digest("x", 1, {}), digest("x", 2, {}), digest("y", 1, {})}) == 3


def test_missing_is_what_was_not_computed_at_this_version_and_scale(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert len(store.missing(SQUARES, "small")) == 3
    fill(store, SQUARES)
    assert store.missing(SQUARES, "small") == []
    assert [cell["n"] for cell in store.missing(SQUARES, "paper")] == [3, 4]
    assert len(store.missing(replace(SQUARES, version=2), "small")) == 3
    assert len(store.missing(FRACTIONS, "small")) == 4
    twice = replace(FRACTIONS, cells=lambda scale: [{"n": 1, "kind": "half"}] * 2)
    assert len(store.missing(twice, "small")) == 1


def test_a_failed_cell_keeps_its_error_and_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(compute(TROUBLES, {"how": "raise"}))
    kept = store.load(TROUBLES, {"how": "raise"})
    assert kept is not None
    assert kept.error is not None
    assert kept.error.startswith("ValueError: no such thing (toy_paper.py, line ")
    assert {"how": "raise"} in store.missing(TROUBLES, "small")
    assert store.results([TROUBLES], "small").rows("t-troubles") == []


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "foreign", "other"])
def test_a_damaged_file_is_told_once_and_computed_again(tmp_path: Path, damage: str) -> None:
    lines: list[str] = []
    store = Store(tmp_path, lines.append)
    fill(store, SQUARES)
    path = store.path(SQUARES, {"n": 1, "seed": 7})
    whole = path.read_bytes()
    if damage == "foreign":
        pq.write_table(pq.read_table(path).replace_schema_metadata({}), path)
    else:
        other = store.path(SQUARES, {"n": 2, "seed": 7}).read_bytes()
        path.write_bytes({"cut": whole[:-20], "empty": b"", "text": b"hello\n" * 50, "other": other}[damage])
    assert store.missing(SQUARES, "small") == store.missing(SQUARES, "small") == [{"n": 1, "seed": 7}]
    assert len(lines) == 1
    assert "damaged" in lines[0]
    assert "\n" not in lines[0]
    fill(store, SQUARES)
    assert store.missing(SQUARES, "small") == []


def test_nothing_unfinished_is_left_behind_or_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "results")
    fill(store, SQUARES)
    files = sorted(path.name for path in store.directory.iterdir())
    assert len(files) == 3
    assert all(name.endswith(".parquet") and not name.startswith(".") for name in files)


def test_a_directory_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="not a directory"):
        Store(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot write"):
        Store(tmp_path / "file" / "below").save(Outcome("x", 1, {}))
