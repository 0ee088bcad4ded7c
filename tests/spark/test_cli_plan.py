"""`covey plan` on Spark: the commands of docs/planning.md, end to end; one line for what cannot be planned."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from covey import cli
from covey.advisor import traffic
from covey.datasets.generate import Request, generate
from covey.planning.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = Path(__file__).parents[2] / "docs" / "planning.md"


def documented() -> list[list[str]]:
    """Return the commands that the document shows, as words."""
    blocks = re.findall(
        r"^```console\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith("$ covey ") for line in lines)
    shown, small = (
        "--brokers 30 --subscriptions 200 --events 300",
        "--brokers 8 --subscriptions 40 --events 80",
    )
    assert sum(shown in line for line in lines) == 1
    return [shlex.split(line.replace(shown, small))[2:] for line in lines]


def test_the_documented_commands_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # The replay is what takes longest, and its numbers are checked elsewhere.
    monkeypatch.setattr(traffic, "MOST_SUBSCRIPTION_HOPS", 30)
    monkeypatch.setattr(traffic, "MOST_EVENT_HOPS", 30)
    printed = {}
    for words in documented():
        code = cli.run(words)
        captured = capsys.readouterr()
        assert code == 0, (words, captured.err)
        printed[" ".join(words)] = captured.out
    plans = [
        text for command, text in printed.items() if command.startswith("plan example --out example-plan")
    ]
    assert len(plans) == 2
    assert "(recommended)" in plans[0]
    assert "Stages" in plans[1]
    made = Plan.decode(Path("example-plan/plan.json").read_bytes())
    assert made.basis["subscriptions"] == 40
    assert made.predictions[made.method]["cost"] <= made.predictions["single"]["cost"]
    page = Path("example-plan/report.html").read_text(encoding="utf-8")
    assert made.method in page
    assert "Every strategy" not in page  # the second run left the replay out
    told = json.loads(next(text for command, text in printed.items() if "--json" in command))
    assert told["method"] == "single"
    assert told["now"] == "simple on one tree"


def rewrite(directory: Path, table: str, change: Any) -> None:
    """Change the rows of a generated table."""
    file = directory / table / "part-00000.parquet"
    rows = parquet.read_table(file)
    changed = change(rows)
    file.unlink()
    parquet.write_table(changed, file)


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("events", lambda rows: rows.drop_columns(["content"]), "no column content"),
        ("events", lambda rows: rows.slice(0, 0), "there are no events"),
        ("topology", lambda rows: rows.take([0, 1, 2, 5, 6, 7]), "not connected"),
        ("subscriptions", None, "has no table subscriptions"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    table: str,
    change: Any,
    said: str,
) -> None:
    data = tmp_path / "data"
    generate(Request("ranges", data, "line", brokers=9, subscriptions=5, events=5, deliveries=0))
    if change is None:
        (data / table / "part-00000.parquet").unlink()
        (data / table).rmdir()
    else:
        rewrite(data, table, change)
    code = cli.run(["plan", str(data), "--out", str(tmp_path / "out"), "--no-replay"])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    last = captured.err.splitlines()[-1]
    assert last.startswith("covey: ")
    assert said in last
    assert "Traceback" not in captured.err


def test_bad_rows_are_counted_and_the_rest_is_planned(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    generate(Request("ranges", data, "random-tree", brokers=6, subscriptions=20, events=40, deliveries=0))

    def spoil(rows: pa.Table) -> pa.Table:
        filters = ["x >", *rows.column("filter").to_pylist()[1:]]
        brokers = ["b1", "nowhere", *rows.column("broker").to_pylist()[2:]]
        changed = rows.set_column(3, "filter", pa.array(filters))
        return changed.set_column(1, "broker", pa.array(brokers))

    rewrite(data, "subscriptions", spoil)
    code = cli.run(["plan", str(data), "--out", str(tmp_path / "out"), "--no-replay", "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    told = json.loads(captured.out)
    assert sum(told["quarantined"]["subscriptions"].values()) == 2
    assert told["basis"]["subscriptions"] == 18
    assert "2 rows of the table subscriptions" in (tmp_path / "out" / "report.html").read_text(
        encoding="utf-8"
    )
