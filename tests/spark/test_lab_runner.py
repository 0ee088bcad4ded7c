"""The lab on real Spark: cells run as tasks in other processes, side by side, and fail alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.spark.conftest import MASTER
from tests.toy_paper import FRACTIONS, PAPER, SQUARES, TROUBLES

from covey import cli
from covey.errors import ConfigError
from covey.lab import papers
from covey.lab.runner import Step, run, tasks
from covey.lab.scoreboard import scoreboard
from covey.lab.store import Store
from covey.pipeline import session as spark

pytestmark = pytest.mark.usefixtures("spark")


def test_cells_run_as_tasks_and_results_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    steps: list[Step] = []
    assert run(store, tasks(store, PAPER.experiments, "small"), MASTER, steps.append) == []
    assert [step.done for step in steps] == list(range(8))
    rows = store.results([SQUARES], "small").rows("t-squares")
    assert [(row["n"], row["square"], row["label"]) for row in rows] == [
        (0, 0, "<0>"),
        (1, 1, "<1>"),
        (2, 4, "<2>"),
    ]
    assert os.getpid() not in {row["pid"] for row in rows}
    assert [row.holds for row in scoreboard([PAPER], store)] == [True, False]
    assert tasks(store, [SQUARES, FRACTIONS], "small") == []


def test_a_cell_fails_alone_even_with_its_process(tmp_path: Path) -> None:
    store = Store(tmp_path)
    failed = {
        str(outcome.cell["how"]): outcome for outcome in run(store, tasks(store, [TROUBLES], "small"), MASTER)
    }
    assert set(failed) == {"raise", "die"}
    assert str(failed["raise"].error).startswith("ValueError: no such thing (toy_paper.py, line ")
    assert str(failed["die"].error).startswith("its Spark task failed: ")
    assert "\n" not in str(failed["die"].error)
    assert store.results([TROUBLES], "small").rows("t-troubles") == [{"how": "fine", "value": 1}]
    assert len(tasks(store, [TROUBLES], "small")) == 2


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def stop(step: Step) -> None:
        if step.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store, tasks(store, [SQUARES], "paper"), MASTER, stop)
    rest = tasks(store, [SQUARES], "paper")
    assert len(rest) == 3
    assert run(store, rest, MASTER) == []
    assert tasks(store, [SQUARES], "paper") == []


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(papers, "MODULES", {"T": "tests.toy_paper"})
    monkeypatch.chdir(tmp_path)
    assert cli.run(["lab", "run", "T", "--figure", "1", "--master", MASTER]) == 0
    captured = capsys.readouterr()
    assert "t-figure-1.png" in captured.out
    assert "3 of 3 cells" in captured.err


def test_java_is_found_or_what_to_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark.java_version(spark.java_home() / "bin" / "java") >= spark.MIN_JAVA
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(old_java(tmp_path / "old")))
    fallback = spark.java_home()
    assert "covey-java-" in str(fallback)
    assert spark.java_version(fallback / "bin" / "java") >= spark.MIN_JAVA
    monkeypatch.setattr(spark, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"Spark needs Java 17 or newer.*hint: install openjdk-17"):
        spark.java_home()


def old_java(home: Path) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    return java.parent


def test_what_workers_can_import_and_how_many_there_are() -> None:
    assert "spark.executorEnv.PYTHONPATH" in spark.settings("local[2]")
    assert "spark.executorEnv.PYTHONPATH" not in spark.settings("spark://host:7077")
    assert [spark.slots(one) for one in ("local[3]", "local", "local[*]")] == [
        3,
        os.cpu_count(),
        os.cpu_count(),
    ]
    for master in ("", "local[0", "spark:/host", "here; rm"):
        with pytest.raises(ConfigError, match="no Spark master"):
            spark.check_master(master)
