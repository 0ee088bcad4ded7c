"""Examples that need Spark are run, in the one session that all tests here share."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import matplotlib as mpl
import pytest
from tests import notebooks
from tests.spark.brokers import running
from tests.spark.conftest import MASTER

from covey.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "notebook.ipynb"

pytestmark = pytest.mark.skipif(MASTER.startswith("connect:"), reason="tested without Spark Connect")


def loaded(name: str) -> ModuleType:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_plan_comes_from_logs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = loaded("plan_from_logs")
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    example.make_logs(logs, lines=120)
    with (logs / "wanted.csv").open("a") as file:
        file.write("strangers,atlantis,status = 200\n")
    example.main([str(logs), str(out), "--master", MASTER, "--method", "regions"])
    aside, first, *_ = capsys.readouterr().out.splitlines()
    assert aside.startswith("1 rows of subscriptions were set aside: ")
    assert "atlantis" in aside
    assert first.startswith("Planned ")
    assert first.endswith("(method: regions).")
    plan = Plan.decode((out / "plan.json").read_bytes())
    assert sorted(plan.brokers) == sorted(example.SITES)
    assert plan.predictions["regions"]["cost"] < plan.predictions["single"]["cost"]
    # What Spark read is what the logs have: each line is an event, with the section that its request was for.
    events = spark.read.parquet(str(out / "tables" / "events")).collect()
    lines = [json.loads(line) for line in (logs / "access.jsonl").read_text().splitlines()]
    sections = {line["id"]: line["request"].split("/")[1] for line in lines}
    assert {row.event: json.loads(row.content)["section"] for row in events} == sections


def test_a_stream_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(data_dir=tmp_path / "broker") as broker:
        loaded("spark_stream").work(spark, broker.url, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"alarm: {{'kind': 'alarm', 'symbol': 'IBM', 'price': {price}}}" for price in ("120.0", "101.0")
    ]


def test_the_notebook_runs_from_top_to_bottom(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    space = notebooks.run(NOTEBOOK)
    lines = {line.get_label(): max(line.get_ydata()) for line in space["axes"].lines}
    plt.close("all")
    assert lines["merging"] < lines["covering"] < lines["simple"]
    assert space["matches"] == [("e1", "ann"), ("e1", "bob"), ("e1", "cid")]
    printed = capsys.readouterr().out
    assert "matches: True" in printed
    assert "covers: True False" in printed
    assert "delivered: 2" in printed
    assert "[(0, 'london', 2), (1, 'paris', 1)]" in printed
    assert 'set aside: ["' in printed
