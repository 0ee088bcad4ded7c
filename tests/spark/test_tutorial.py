"""docs/tutorials/planning.md: its commands on this process's Spark, its Python as a program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.tutorials import Command, agrees, page, typed

from covey import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = Path(__file__).parents[2] / "docs" / "tutorials" / "planning.md"


def test_a_reader_gets_what_the_page_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for step in page(DOCUMENT, {}).steps:
        if not isinstance(step, Command):
            Path(step[0]).write_text(step[1], encoding="utf-8")
        elif step.words[0] == "covey":
            assert cli.run(step.words[1:]) == 0, capsys.readouterr().err
        else:
            done = subprocess.run(typed(step), capture_output=True, text=True, check=False, timeout=60)
            assert agrees(step, done.stdout), done.stdout + done.stderr
    assert (tmp_path / "plan" / "report.html").exists()
