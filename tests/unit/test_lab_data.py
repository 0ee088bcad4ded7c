"""Data files that are given to the lab: bounded, by name, and told apart by their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.errors import ConfigError
from covey.lab import data
from covey.lab.experiment import Cell, Experiment, Row
from covey.lab.runner import task_function


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setattr(data, "_chosen", [])
    monkeypatch.setattr(data, "_supplied", {})


def test_without_a_directory_there_is_nothing() -> None:
    assert data.directory() is None
    assert data.digest("links.txt") is None
    assert data.given(["links.txt"]) == {}
    with pytest.raises(ConfigError, match=r"no data file 'links.txt' \(hint: --data-files"):
        data.content("links.txt")


def test_the_command_line_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "links.txt").write_text(name)
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "one"))
    assert data.content("links.txt") == b"one"
    first = data.digest("links.txt")
    data.use(tmp_path / "other")
    assert data.given(["links.txt", "no such file"]) == {"links.txt": b"other"}
    assert data.digest("links.txt") != first
    data.use(None)
    assert data.digest("links.txt") == first


def test_files_are_bounded_and_a_wrong_directory_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links.txt").write_bytes(b"12345")
    monkeypatch.setattr(data, "MOST_BYTES", 4)
    data.use(tmp_path)
    with pytest.raises(ConfigError, match="more than 4 bytes"):
        data.content("links.txt")
    with pytest.raises(ConfigError, match="is not a directory"):
        data.use(tmp_path / "links.txt")


def read(cell: Cell) -> list[Row]:
    return [{"content": data.content("links.txt").decode()}]


def test_contents_travel_with_a_cell() -> None:
    """What the worker calls has the files with it, whatever disk it has."""
    reading = Experiment("t-read", "T", "Reads", lambda scale: [{}], read, inputs=("links.txt",))
    function = task_function(reading.name, reading.version, reading.run, {}, {"links.txt": b"a b"})
    (batch,) = function(iter([object()]))
    assert '"content": "a b"' in batch.column("outcome")[0].as_py()
