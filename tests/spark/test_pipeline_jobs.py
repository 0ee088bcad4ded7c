"""A job end to end on a toy: what it predicts is what trees cut by hand cost, and nothing but the input decides."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.oracles.planning_graphs import pruned_cost
from tests.spark.conftest import MASTER
from tests.spark.toy import LINKS, SUBSCRIPTIONS, Rows, event_rows, part_of

import covey
from covey import pipeline
from covey.errors import ConfigError, CoveyError, PlanError
from covey.pipeline import jobs
from covey.pipeline.checkpoints import Checkpoints
from covey.pipeline.ingestion import Ingestion
from covey.pipeline.inputs import read
from covey.pipeline.request import first_line
from covey.pipeline.sample import taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What is not about Spark's ways need not be asked of Spark Connect once more.
CLASSIC = pytest.mark.skipif(MASTER.startswith("connect:"), reason="tested without Spark Connect")

COLUMNS = {
    "topology": ("a", "b", "cost"),
    "subscriptions": ("subscription", "broker", "language", "filter"),
    "events": ("event", "broker", "language", "content"),
    "advertisements": ("advertisement", "broker", "language", "filter"),
    "deliveries": ("event", "subscription", "broker", "distance"),
}
TYPES = {"cost": pa.float64(), "distance": pa.int32()}
BAD: dict[str, Rows] = {
    "topology": [("a", "a", 1.0)],
    "subscriptions": [("bad1", "nowhere", "keywords", "ant"), ("bad2", "a", "keywords", "((")],
    "events": [
        ("bad3", "a", "keywords", "{}"),
        ("bad4", "nowhere", "keywords", "[]"),
        ("e1", "a", "keywords", "[]"),
    ],
    "advertisements": [("bad5", "nowhere", "keywords", "ant")],
    "deliveries": [("e0", "s0", "a", -1)],
}
EVENTS = [row for row in event_rows(90) if row[0] != "e1"] + [("e1", "a", "keywords", '["ant"]')]
# Half of what reaches the first subscription is wanted next door too.
DELIVERIES: Rows = [(f"e{place}", "s0", "a", 1 if place % 2 else None) for place in range(30)]
GOOD: dict[str, Rows] = {
    "topology": LINKS,
    "subscriptions": SUBSCRIPTIONS,
    "events": EVENTS,
    "advertisements": [("p0", "a", "keywords", "ant or bee")],
    "deliveries": DELIVERIES,
}
TABLES: dict[str, Rows] = {name: [*rows, *BAD[name]] for name, rows in GOOD.items()}


def write_parquet(directory: Path, tables: dict[str, Rows]) -> Path:
    directory.mkdir()
    for name, rows in tables.items():
        columns = {column: [row[k] for row in rows] for k, column in enumerate(COLUMNS[name])}
        arrays = {
            column: pa.array(values, TYPES.get(column, pa.string())) for column, values in columns.items()
        }
        pq.write_table(pa.table(arrays), directory / f"{name}.parquet")
    return directory


def write_text(directory: Path, tables: dict[str, Rows]) -> Path:
    """The same rows in another order, as CSV and as lines of JSON, in several files where that can be."""
    directory.mkdir()
    generator = random.Random(1)
    for name, rows in tables.items():
        shuffled = generator.sample(rows, len(rows))
        if name == "events":
            lines = [json.dumps(dict(zip(COLUMNS[name], row, strict=True))) for row in shuffled]
            (directory / "events.jsonl").write_text("\n".join(lines), encoding="utf-8")
            continue
        with (directory / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*COLUMNS[name], "remark"])
            writer.writerows([*["" if value is None else value for value in row], "x"] for row in shuffled)
    return directory


@pytest.fixture(scope="module")
def request_(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> jobs.Request:
    directory = tmp_path_factory.mktemp("plan")
    source = write_parquet(directory / "input", TABLES)
    return jobs.Request(source, directory / "out", master=MASTER, seed=4)


@pytest.fixture(scope="module")
def seen() -> list[jobs.Progress]:
    return []


@pytest.fixture(scope="module")
def outcome(request_: jobs.Request, seen: list[jobs.Progress]) -> jobs.Outcome:
    return jobs.plan(request_, seen.append)


def test_what_the_plan_predicts_is_what_it_costs(outcome: jobs.Outcome) -> None:
    made = outcome.plan
    costs = {(a, b): cost for a, b, cost in made.links}
    filters = {key: covey.decode(key[1]) for key in made.groups}
    number = {name: place for place, name in enumerate(made.brokers)}
    found = {"training": 0.0, "held-out": 0.0, "fresh": 0.0}
    planned = [
        (number[tree.root], [(number[a], number[b], costs[a, b]) for a, b in tree.links])
        for tree in made.trees
    ]
    for name, broker, _, content in EVENTS:
        wanting = [key for key, filter in filters.items() if filter.matches(frozenset(json.loads(content)))]
        hosts = {host for host, _ in wanting}
        if made.one_copy == "cheapest" and hosts:
            ends = {number[host] for host in (*hosts, broker)}
            crossed = [round(pruned_cost(tree, ends), 9) for _, tree in planned]
            trees = {crossed.index(min(crossed)): hosts}
        elif made.one_copy and hosts:
            sums = [round(sum(pruned_cost(t, {r, number[host]}) for host in hosts), 9) for r, t in planned]
            trees = {sums.index(min(sums)): hosts}
        else:
            trees = {
                tree: {host for host, filter in wanting if made.groups[host, filter] == tree}
                for tree in {made.groups[key] for key in wanting}
            }
        for tree, mine in trees.items():
            ends = {number[host] for host in mine} | {number[broker]}
            found[part_of(name, 1 / 6, 1 / 6, 4)] += pruned_cost(planned[tree][1], ends)
    numbers = made.predictions[made.method]
    assert numbers["cost_training"] == pytest.approx(found["training"])
    assert numbers["cost_held_out"] == pytest.approx(found["held-out"])
    assert numbers["cost_fresh"] == pytest.approx(found["fresh"])
    assert numbers["cost"] == pytest.approx(sum(found.values()))
    assert made.predictions["opt"]["cost"] <= numbers["cost"] <= made.predictions["flooding"]["cost"]
    assert numbers["cost_fresh"] <= made.predictions["single"]["cost_fresh"]


def test_what_was_planned_is_counted_and_told(
    request_: jobs.Request, outcome: jobs.Outcome, seen: list[jobs.Progress], spark: SparkSession
) -> None:
    basis = outcome.plan.basis
    assert basis["subscriptions"] == len(SUBSCRIPTIONS)
    assert basis["interests"] == len({(row[1], row[3]) for row in SUBSCRIPTIONS}) == len(outcome.plan.groups)
    assert basis["events"] == basis["sampled"] == len(EVENTS)
    assert basis["training"] + basis["held_out"] + basis["fresh"] == len(EVENTS)
    assert outcome.quarantined == {
        "topology": {"the link goes from 'a' to itself": 1},
        "subscriptions": {
            "the broker nowhere is not in the topology": 1,
            **{reason: 1 for reason in outcome.quarantined["subscriptions"] if "topology" not in reason},
        },
        "events": {
            "the broker nowhere is not in the topology": 1,
            "the content is not a JSON list of words": 1,
            "the event e1 is there more than once": 1,
        },
        "advertisements": {"the broker nowhere is not in the topology": 1},
        "deliveries": {"the distance -1 is below 0": 1},
    }
    assert len(outcome.quarantined["subscriptions"]) == 2
    rows = spark.read.parquet(str(request_.out_dir / "quarantine")).collect()
    assert len(rows) == 8
    assert {(row.table, row.file, row.line) for row in rows} == {
        (name, f"{name}.parquet", len(GOOD[name]) + place)
        for name, bad in BAD.items()
        for place in range(1, len(bad) + 1)
    }
    assert all(row.text == row.row and json.loads(row.text) for row in rows)
    near, far = (
        spark.read.parquet(str(request_.out_dir / "stages" / "critical")).orderBy("similarity").collect()
    )
    assert (near["distance"], near["similarity"], list(near["thresholds"])) == (1, 0.5, [0.5])
    assert (far["distance"], far["similarity"], list(far["thresholds"])) == (None, 1.0, [0.8, 0.9, 0.95])
    assert outcome.plan_file.read_bytes() == outcome.plan.encode()
    assert [(p.stage, p.number) for p in seen if p.seconds is not None] == [
        (name, place + 1) for place, name in enumerate(jobs.STAGES)
    ]
    assert set(outcome.stages) == set(jobs.STAGES)
    first = outcome.explain.splitlines()[0]
    assert first == first_line(outcome.plan, sum(outcome.stages.values()))
    assert "On fresh events it costs" in outcome.explain
    assert outcome.alternatives.keys() >= {
        "single",
        "held-out",
        "regions",
        "regions-cheapest",
        "hybrid",
        "spt",
        "flooding",
        "opt",
    }


@CLASSIC
def test_rows_in_another_order_and_format_give_the_same_bytes(
    request_: jobs.Request,
    outcome: jobs.Outcome,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(request_, input_dir=write_text(tmp_path / "input", TABLES), out_dir=tmp_path / "out")
    # And so do queries that Spark adapts and compiles, as it does for more rows, and filters in shards.
    monkeypatch.setattr(jobs, "FEW_BYTES", 0)
    monkeypatch.setattr(import_module("covey.pipeline.match"), "SHARD", 5)
    wanted = {"shuffle.partitions": "5", "adaptive.enabled": "true", "codegen.wholeStage": "true"}
    before = {name: str(spark.conf.get(f"spark.sql.{name}")) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(f"spark.sql.{name}", value)
    try:
        again = jobs.plan(other)
        assert {name: spark.conf.get(f"spark.sql.{name}") for name in wanted} == wanted
    finally:
        for name, value in before.items():
            spark.conf.set(f"spark.sql.{name}", value)
    assert again.plan_file.read_bytes() == outcome.plan_file.read_bytes()
    assert pq.read_table(tmp_path / "out" / "stages" / "filters").num_rows >= 4


@CLASSIC
def test_a_job_goes_on_where_it_was(request_: jobs.Request, outcome: jobs.Outcome) -> None:
    seen: list[jobs.Progress] = []
    stages = request_.out_dir / "stages"
    (stages / "costs.manifest.json").unlink()
    lost = max((stages / "documents").glob("kept=*/part-*"), key=lambda part: part.stat().st_size)
    lost.unlink()
    again = jobs.plan(request_, seen.append)
    assert again.plan_file.read_bytes() == outcome.plan.encode(), (
        "what is left of a damaged table is not used"
    )
    assert {p.stage for p in seen if p.kept} == {"interests", "groups", "trees", "aggregation", "critical"}
    assert again.damaged == tuple(p.note for p in seen if p.note)
    assert again.damaged == (
        f"a part of stages/documents is damaged ({lost.name} is missing): computed again",
        "stages/costs is damaged (it has no manifest: the run that wrote it did not end): computed again",
    )


def write_days(directory: Path, days: dict[str, Rows]) -> Path:
    """All tables, with the events in a directory that has a file for each day."""
    source = write_parquet(directory, {name: rows for name, rows in TABLES.items() if name != "events"})
    (source / "events.parquet").mkdir()
    add_days(source, days)
    return source


def add_days(source: Path, days: dict[str, Rows]) -> None:
    for day, rows in days.items():
        arrays = {column: pa.array([row[k] for row in rows]) for k, column in enumerate(COLUMNS["events"])}
        pq.write_table(pa.table(arrays), source / "events.parquet" / f"{day}.parquet")


@CLASSIC
def test_a_new_day_is_planned_at_the_cost_of_a_day(
    request_: jobs.Request, outcome: jobs.Outcome, tmp_path: Path
) -> None:
    """Also where it has a name twice; and the plan is that of everything at once, byte for byte."""
    first, second = TABLES["events"][:70], TABLES["events"][70:]
    source = write_days(tmp_path / "input", {"monday": first})
    request = replace(request_, input_dir=source, out_dir=tmp_path / "out")
    jobs.plan(replace(request, method="single", aggregate=False))
    before = files_of(tmp_path / "out", "judged-events", "documents", "interests")
    assert len(before) >= 3
    add_days(source, {"tuesday": second})
    seen: list[jobs.Progress] = []
    again = jobs.plan(request, seen.append)
    assert again.plan_file.read_bytes() == outcome.plan.encode()
    assert before.items() <= files_of(tmp_path / "out", "judged-events", "documents", "interests").items()
    assert again.reused.startswith(
        f"Used again: {len(LINKS) + 1} of {len(LINKS) + 1} rows of topology, 22 of 22 rows of subscriptions,"
        f" 70 of 93 rows of events, 2 of 2 rows of advertisements, 31 of 31 rows of deliveries, 70 of 90 documents,"
    )
    assert again.reused.rpartition(" s.")[0].partition("Planning again took ")[2]
    assert {p.stage for p in seen if p.kept} == {"interests"}
    assert "70 of these as they were" in "".join(p.detail for p in seen)


@CLASSIC
def test_a_sample_is_taken_before_anything_is_judged(
    spark: SparkSession, outcome: jobs.Outcome, tmp_path: Path
) -> None:
    nameless = (None, "a", "keywords", "[]")
    source = write_parquet(tmp_path / "input", {**TABLES, "events": [*TABLES["events"], nameless]})
    found, rows = ingested(spark, source, tmp_path / "out", sample=0.4, seed=4)
    chosen = {row[0] for row in TABLES["events"] if taken(row[0], p=0.4, seed=4)}
    good = {row[0] for row in EVENTS} & chosen
    assert 20 < len(good) == found.basis["events"] < 60
    assert {row[0] for row in rows["events"]} == good
    bad = sorted(row[0] for row in BAD["events"] if row[0] in chosen)
    assert sum(found.quarantined["events"].values()) == len(bad) + 1, "and the row of which nobody can tell"
    judged = pq.read_table(tmp_path / "out" / "stages" / "judged-events").column("event").to_pylist()
    assert set(judged) == chosen | {None}
    assert {row[0] for row in rows["deliveries"]} == {row[0] for row in DELIVERIES} & chosen
    # What was judged of all is of no use for a sample, and the other way round.
    whole, _ = ingested(spark, source, tmp_path / "out", seed=4)
    assert whole.basis["events"] == outcome.plan.basis["events"]
    assert whole.reused["events"] == (0, len(TABLES["events"]) + 1)


def files_of(out: Path, *tables: str) -> dict[Path, int]:
    """Return when each file of tables of stages was written."""
    files = [file for table in tables for file in (out / "stages" / table).rglob("part-*.parquet")]
    return {file: file.stat().st_mtime_ns for file in files}


def ingested(
    spark: SparkSession, source: Path, out: Path, **changes: Any
) -> tuple[Ingestion, dict[str, set[Any]]]:
    found = Ingestion(spark, jobs.Request(source, out, **changes), Checkpoints(spark, out / "stages"))
    tables = found.run()
    rows = {name: {tuple(row) for row in frame.drop("encoded").collect()} for name, frame in tables.items()}
    return found, rows


@CLASSIC
def test_whatever_parts_rows_came_in_they_are_judged_as_if_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("covey.pipeline.ingestion"), "MOST_PARTS", 3)
    rows = TABLES["events"]
    source = write_days(tmp_path / "input", {"1": rows[:20]})
    for name in ("advertisements", "deliveries"):  # of one file each, and looked at in other tests
        (source / f"{name}.parquet").unlink()
    steps: list[tuple[dict[str, Rows], str, list[int]]] = [
        # The days to write, the day to remove, and the rows of the parts then.
        ({"2": rows[20:60]}, "", [20, 40]),
        ({"3": rows[60:90]}, "", [20, 30, 40]),
        (
            {"4": [("new", "a", "keywords", "[]")]},
            "",
            [40, 51],
        ),  # three are enough: the smaller ones become one
        ({"5": [("e0", "b", "keywords", "[]")]}, "", [92]),  # e0 was there on the first day
        ({}, "5", [91]),
        ({"6": rows[90:]}, "1", [74]),  # a day of the only part is gone
    ]
    runs: list[Ingestion] = []
    for number, (days, gone, expected) in enumerate([({}, "", [20]), *steps]):
        add_days(source, days)
        if gone:
            (source / "events.parquet" / f"{gone}.parquet").unlink()
        found, tables = ingested(spark, source, tmp_path / "out")
        runs.append(found)
        kept = Checkpoints(spark, tmp_path / "out" / "stages")
        assert sorted(kept.rows("judged-events", part) for part in found.parts["events"]) == expected
        assert sorted(kept.parts_of("judged-events")) == found.parts["events"]
        if number in (2, 4, 6):
            whole, same = ingested(spark, source, tmp_path / f"at-once-{number}")
            assert len(whole.parts["events"]) == 1
            assert (found.basis, found.quarantined) == (whole.basis, whole.quarantined)
            assert tables == same
    # The same files are the same part, but what they say is not the same if they are read in another way.
    other, _ = ingested(spark, source, tmp_path / "out", columns={"events.publisher": "event"})
    assert other.parts == runs[-1].parts
    assert other.contents["events"].keys() == runs[-1].contents["events"].keys()
    assert other.contents["events"] != runs[-1].contents["events"]


def test_a_checkpoint_is_of_use_only_for_the_same(spark: SparkSession, tmp_path: Path) -> None:
    kept = Checkpoints(spark, tmp_path)
    made: list[int] = []

    def rows(count: int) -> Callable[[], DataFrame]:
        def make() -> DataFrame:
            made.append(count)
            return spark.range(count)

        return make

    assert kept.table("numbers", rows(3), "input", 1.0).count() == 3
    assert kept.table("numbers", rows(4), "input", 1.0).count() == 3
    assert kept.table("numbers", rows(5), "input", 2.0).count() == 5
    assert not kept.has("numbers", "input", 1.0)
    assert not kept.has("other", "input", 2.0)
    with pytest.raises(RuntimeError, match="broken"):
        kept.table("numbers", broken, "input", 3.0)
    assert not kept.has("numbers", "input", 2.0), "what is half written is not found again"
    assert made == [3, 5]


def truncated(directory: Path, part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-1])


def flipped(directory: Path, part: Path) -> None:
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)


def another(directory: Path, part: Path) -> None:
    (directory / "numbers" / "part-9.parquet").write_bytes(part.read_bytes())


def unreadable(directory: Path, part: Path) -> None:
    (directory / "numbers.manifest.json").write_text('{"key": ', encoding="utf-8")


@CLASSIC
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncated, r"part-\S+ has \d+ bytes and not \d+"),
        (flipped, r"part-\S+ has changed"),
        (another, "part-9.parquet was added"),
        (unreadable, "its manifest cannot be read"),
    ],
)
def test_a_damaged_checkpoint_is_computed_again_and_told(
    spark: SparkSession, tmp_path: Path, harm: Callable[[Path, Path], None], said: str
) -> None:
    made: list[int] = []

    def make() -> DataFrame:
        made.append(1)
        return spark.range(4).coalesce(1)

    Checkpoints(spark, tmp_path).table("numbers", make, "input")
    manifest = json.loads((tmp_path / "numbers.manifest.json").read_bytes())
    (part,) = (tmp_path / "numbers").glob("part-*")
    assert manifest["rows"] == 4
    assert manifest["files"].keys() >= {part.name, "_SUCCESS"}
    assert manifest["files"][part.name]["size"] == part.stat().st_size
    harm(tmp_path, part)
    told: list[str] = []
    kept = Checkpoints(spark, tmp_path, told.append)
    assert not kept.has("numbers", "input")
    assert sorted(row.id for row in kept.table("numbers", make, "input").collect()) == [0, 1, 2, 3]
    assert len(made) == 2
    (line,) = told
    assert re.fullmatch(rf"{tmp_path.name}/numbers is damaged \({said}\): computed again", line)
    assert kept.has("numbers", "input")
    assert Checkpoints(spark, tmp_path, told.append).has("numbers", "input")
    assert len(told) == 1


def broken() -> DataFrame:
    raise RuntimeError("broken")


def without(table: str) -> dict[str, Rows]:
    return {name: rows for name, rows in GOOD.items() if name != table}


@CLASSIC
@pytest.mark.parametrize(
    ("tables", "kind", "said"),
    [
        (without("events"), ConfigError, r"has no table events \(hint: a directory events or a file"),
        (
            {**GOOD, "subscriptions": []},
            ConfigError,
            "there are no subscriptions that can be used: the table is",
        ),
        (
            {**GOOD, "events": [("e", "nowhere", "keywords", "[]")] * 2},
            ConfigError,
            "no events that can be used: 2 rows were set aside in .*quarantine, most often because the broker nowhere",
        ),
        (
            {**GOOD, "topology": [("a", "a", 1.0)]},
            ConfigError,
            "no link that can be used: 1 rows were set aside",
        ),
        (
            {**GOOD, "topology": [*LINKS, ("x", "y", None)]},
            PlanError,
            "not connected: it has 2 parts, and the broker 'x' cannot be reached from 'a'",
        ),
    ],
)
def test_inputs_that_cannot_be_planned_are_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, tables: dict[str, Rows], kind: type[CoveyError], said: str
) -> None:
    source = write_parquet(tmp_path / "input", tables)
    refuse(lambda: jobs.plan(jobs.Request(source, tmp_path / "out", master=MASTER)), kind, said)
    if "rows were set aside" in said:
        reasons = pq.read_table(tmp_path / "out" / "quarantine").column("reason").to_pylist()
        assert len(reasons) == int(re.findall(r"(\d+) rows", said)[0]), "what is wrong can be looked at"


def refuse(call: Callable[[], object], kind: type[CoveyError], said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


@CLASSIC
def test_requests_that_cannot_be_met_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = write_parquet(tmp_path / "input", GOOD)
    request = jobs.Request(source, tmp_path / "out", master=MASTER)
    changes: Sequence[tuple[dict[str, Any], str]] = [
        ({"method": "opt"}, "no method 'opt' .hint: one of best, single"),
        ({"sample": 0.0}, "the sample is a share"),
        ({"held_out": 1.0}, "the share held out"),
        ({"input_dir": tmp_path / "nothing"}, "no directory"),
        (
            {"epochs": {"events.when": "ms"}},
            r"no column of times 'events.when' \(hint: events.at, deliveries.at",
        ),
        ({"epochs": {"events.at": "days"}}, r"events.at cannot count 'days' \(hint: s, ms, us\)"),
        ({"sample": 1e-6}, r"no events that can be used in a sample of 1e-06 \(hint: a larger one\)"),
    ]
    for change, said in changes:
        refuse(lambda: jobs.plan(replace(request, **change)), ConfigError, said)  # noqa: B023 - called at once
    judged = tmp_path / "out" / "stages" / "judged-deliveries"
    assert judged.exists()
    (source / "deliveries.parquet").unlink()
    refuse(lambda: jobs.plan(replace(request, sample=1e-6)), ConfigError, "in a sample of 1e-06")
    assert not judged.exists(), "what the input has no more is not found by those who read the stages"
    (source / "events.csv").write_text("event,broker\n")
    refuse(lambda: jobs.plan(request), ConfigError, "the table events is there twice")
    (source / "events.parquet").unlink()
    refuse(lambda: jobs.plan(request), ConfigError, "events.csv has no column language, content")
    (source / "events.csv").unlink()
    (source / "events.parquet").write_bytes(b"PAR1 nonsense")
    refuse(lambda: jobs.plan(request), ConfigError, "events.parquet cannot be read")


def test_what_cannot_be_read_of_text_is_set_aside_with_its_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "topology.csv"
    text = 'a,b,cost\na,b,2.5\nb,c,\nc,d,abc\n"d, e","f ""x""",1\nd,e,NaN\ne,f\n'
    file.write_text(text, encoding="utf-8")
    judged = pipeline.judge(read(spark, file, "topology"), table="topology")
    accepted = {(row.a, row.b): row.cost for row in pipeline.accept(judged, table="topology").collect()}
    assert accepted == {("a", "b"): 2.5, ("b", "c"): None, ("d, e", 'f "x"'): 1.0}
    refused = pipeline.quarantine(judged, table="topology").collect()
    assert sorted((row.file, row.line, row.text, row.reason) for row in refused) == [
        ("topology.csv", 4, "c,d,abc", "the column cost is not a number"),
        ("topology.csv", 6, "d,e,NaN", "the column cost is not a number"),
        ("topology.csv", 7, "e,f", "the row has 2 fields and the header 3"),
    ]


@CLASSIC
def test_times_are_read_as_they_are_said_to_be(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        {"event": f"e{place}", "broker": "b", "language": "keywords", "content": "[]", "at": at}
        for place, at in enumerate(
            ["2026-01-02T03:04:05Z", 1767323045000, "yesterday", "2026-02-30T01:00:00Z"]
        )
    ]
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join([*map(json.dumps, lines), '{"event": "e9", "bro']), encoding="utf-8")
    at = datetime(2026, 1, 2, 3, 4, 5)

    def told(units: dict[str, str]) -> tuple[dict[str, datetime], list[tuple[int, str]]]:
        judged = pipeline.judge(read(spark, file, "events", units), table="events")
        accepted = {row.event: row.at for row in pipeline.accept(judged, table="events").collect()}
        refused = pipeline.quarantine(judged, table="events").collect()
        source = file.read_text(encoding="utf-8").splitlines()
        assert all(row.text == source[row.line - 1] for row in refused)
        return accepted, sorted((row.line, row.reason.split(" (")[0]) for row in refused)

    assert told({}) == (
        {"e0": at},
        [
            (2, "the column at is a bare number"),
            (3, "the column at is not an ISO 8601 time such as 2026-01-02T03:04:05Z"),
            (4, "the column at is a date or a time that does not exist"),
            (5, "the line is not JSON: Unterminated string starting at"),
        ],
    )
    accepted, refused = told({"at": "ms"})
    assert (accepted, [line for line, _ in refused]) == ({"e1": at}, [1, 3, 4, 5])


@CLASSIC
def test_numbers_of_parquet_are_times_only_if_that_is_said(spark: SparkSession, tmp_path: Path) -> None:
    columns = {name: ["x", "y", "z"] for name in ("event", "broker", "language", "content")}
    folder = tmp_path / "events"
    folder.mkdir()
    pq.write_table(pa.table(columns | {"at": [1767323045, None, 1 << 60]}), folder / "a +b.parquet")
    with pytest.raises(ConfigError, match=r"at is bigint and not timestamp \(hint: --epochs events\.at=s"):
        read(spark, folder, "events")
    rows = sorted(read(spark, folder, "events", {"at": "s"}).collect())
    assert [row.at for row in rows] == [datetime(2026, 1, 2, 3, 4, 5), None, None]
    text = f'{{"event":"z","broker":"z","at":{1 << 60},"language":"z","content":"z"}}'
    assert [tuple(row["_source"]) for row in rows] == [
        ("events/a +b.parquet", 1, None, None),
        ("events/a +b.parquet", 2, None, None),
        ("events/a +b.parquet", 3, text, "the column at is out of range"),
    ]
    distances = {"event": ["e"], "subscription": ["s"], "broker": ["b"], "distance": [1 << 40]}
    file = tmp_path / "deliveries.parquet"
    pq.write_table(pa.table(distances), file)
    judged = pipeline.judge(read(spark, file, "deliveries"), table="deliveries")
    (row,) = pipeline.quarantine(judged, table="deliveries").collect()
    assert (row.file, row.line, row.reason) == (
        "deliveries.parquet",
        1,
        "the column distance is out of range",
    )
    assert json.loads(row.text)["distance"] == 1 << 40


def test_methods_are_those_that_can_be_installed() -> None:
    assert jobs.methods()[:2] == ("best", "single")
    assert {"held-out", "mult", "mult2", "hybrid", "regions", "regions-cheapest", "unicast"} <= set(
        jobs.methods()
    )
    assert not {"opt", "flooding"} & set(jobs.methods())
