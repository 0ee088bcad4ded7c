"""Trials of the hints about planning: tables that are read, Spark that runs it; for `tests/unit/test_hints.py`.

None of them starts Spark.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

from tests.command_lines import COMMANDS, option_names
from tests.hint_trials import HINT, Try, both, extra, follow, hint_of, module, names, options, plain

LAB = "lab run|lab scoreboard|lab report|lab document"
EVENT = {"event": "e", "broker": "b", "language": "keywords", "content": "[]"}

# -- tables ----------------------------------------------------------------------------------------------------


def reasons(name: str, text: str, units: dict[str, str] | None = None) -> list[str | None]:
    """Return what is wrong with each row of a table in a file."""
    tables = module("pipeline.text_tables")
    with TemporaryDirectory() as directory:
        file = Path(directory) / name
        file.write_text(text, encoding="utf-8")
        table = module("pipeline.schemas").BY_NAME[file.stem]
        pieces = tables.pieces_of(file)
        return [row.reason for piece in pieces for row in tables.rows_in(piece, table, units or {})]


def hint_in(reason: str | None) -> str:
    found = HINT.search(reason or "")
    assert found, f"no hint: {reason}"
    return found[1]


def endings() -> None:
    """Each file that the hint names is found; so is a directory."""
    inputs = module("pipeline.inputs")
    with TemporaryDirectory() as directory:
        place = Path(directory)
        hinted = hint_of(lambda: inputs.path_of(place, "events"))
        offered = re.findall(r"\.[a-z]+", hinted)
        assert {"", *offered} == set(inputs.ENDINGS)
        for ending in offered:
            (file := place / f"events{ending}").touch()
            assert inputs.path_of(place, "events") == file
            file.unlink()
        (place / "events").mkdir()
        assert inputs.path_of(place, "events") == place / "events"


def bare_numbers() -> None:
    row = json.dumps(EVENT | {"at": 1_767_323_045})
    (reason,) = reasons("events.jsonl", row)
    option, given, rest = hint_in(reason).split(" ", 2)
    assert option in option_names(("plan",))
    units = [given.partition("=")[2], *re.findall(r"\b[mu]s\b", rest)]
    inputs = module("pipeline.inputs")
    assert units == list(module("pipeline.values").UNITS)
    for unit in units:
        epochs = module("commands.plan").epochs_given([given.partition("=")[0] + "=" + unit])
        inputs.check_epochs(epochs)
        assert reasons("events.jsonl", row, inputs.units_of(epochs, "events")) == [None]


def almost_a_column() -> None:
    """Where the column itself is there too it would be there twice: then the other one is left out."""
    time, wrong = {"at": "2026-01-02T03:04:05Z"}, {"At": "2026-01-02"}
    for row, hint in ((EVENT | wrong, "write it as at"), (EVENT | time | wrong, "leave it out")):
        (reason,) = reasons("events.jsonl", json.dumps(row))
        assert hint_in(reason) == hint
    schemas = module("pipeline.schemas")
    table = schemas.BY_NAME["events"]
    assert "at" in hint_of(lambda: schemas.check_names([*EVENT, "At"], table, "it")).split()[3]
    for right in (EVENT | time, EVENT):
        assert reasons("events.jsonl", json.dumps(right)) == [None]
        schemas.check_names([*right], table, "it")


def objects_in_lines() -> None:
    row = {"a": "x", "b": "y"}
    assert {hint_in(one) for one in reasons("topology.json", json.dumps(row, indent=1))} == {
        "an object a line"
    }
    assert reasons("topology.json", json.dumps(row)) == [None]
    for alone in ('{"a": NaN}', "[" * 100_000):
        (reason,) = reasons("topology.json", alone)
        assert reason
        assert "hint" not in reason, "it is alone in its line"


def open_quote() -> None:
    rows = "x,y\n" * 50
    with patch.object(module("pipeline.text_tables"), "MAX_RECORD", 100):
        first, *others = reasons("topology.csv", f'a,b\n"x,y\n{rows}')
        assert hint_in(first) == "is a quote left open?"
        assert reasons("topology.csv", f'a,b\n"x",y\n{rows}') == [None, *others] == [None] * 51
        (long,) = reasons("topology.csv", f"a,b\n{'x' * 200},y\n")
        assert long == "the record has more than 100 bytes", "no quote is in it"


def nothing_written() -> None:
    import pyarrow as pa
    from pyarrow import parquet

    checkpoints = module("pipeline.checkpoints")
    with TemporaryDirectory() as directory:
        place = Path(directory)
        hint_of(lambda: checkpoints._rows_in(place, checkpoints._files_in(place)))
        parquet.write_table(pa.table({"a": [1, 2]}), place / "part-0.parquet")
        assert checkpoints._rows_in(place, checkpoints._files_in(place)) == 2


# -- Spark -----------------------------------------------------------------------------------------------------


def masters() -> None:
    """What is offered is taken; to compute without Spark is offered by the lab alone, which can."""
    session, runner = module("pipeline.session"), module("lab.runner")
    hinted = hint_of(lambda: session.check_master("nowhere"))
    for master in hinted.split(", "):
        session.check_master(master)
    in_lab = hint_of(lambda: runner.run(None, [], "nowhere"))
    assert in_lab == f"{hinted}, or here, without Spark"
    assert runner.run(None, [], "here") == []
    options(LAB, "--master")()


def no_java() -> None:
    session, runner = module("pipeline.session"), module("lab.runner")
    with (
        patch.dict(os.environ, {"PATH": "", "JAVA_HOME": ""}),
        patch.object(session, "find_spec", lambda name: None),
    ):
        hinted = hint_of(session.java_home)
        assert "--" not in hinted
        with (
            patch.object(runner, "running", lambda: None),
            patch.object(runner, "session", lambda *given: session.java_home()),
        ):
            in_lab = hint_of(lambda: list(runner.compute_on_spark([], "local", Path())))
    assert in_lab == f"{hinted}; or --master here, without Spark"
    assert list(runner.compute_here([])) == []
    both(extra("java"), options(LAB, "--master"))()


def own_options() -> None:
    """Every command that takes settings of Spark has the options that are named instead of some."""
    configuration = module("pipeline.configuration")
    commands = [words for words in COMMANDS if "--conf" in option_names(words)]
    assert commands
    for key in configuration.OWN_OPTIONS:
        hinted = hint_of(partial(configuration.check_conf, {key: "x"}))
        assert all(hinted in option_names(words) for words in commands)


def settings_of_spark() -> None:
    parse = module("pipeline.configuration").parse_conf
    hinted = hint_of(lambda: parse(["spark.executor.memory"]))
    assert parse([hinted]) == dict([hinted.split("=")])


def sizes_of_memory() -> None:
    memory = module("pipeline.memory")
    for size in hint_of(lambda: memory.check_driver_memory("lots")).split(", "):
        memory.check_driver_memory(size)


def memory_for_a_row() -> None:
    memory = module("pipeline.memory")
    hinted = hint_of(lambda: memory.Room(memory.GIB, 2).check(150_000_000, "it"))
    needed, setting = re.findall(r"--driver-memory (\w+);.* (\S+)=\1 where", hinted)[0]
    assert setting == module("pipeline.configuration").MEMORY
    memory.Room(memory.check_driver_memory(needed), 2).check(150_000_000, "it")
    options("plan|coordinator", "--driver-memory")()


def memory_of_java() -> None:
    failures = module("pipeline.failures")

    def fail() -> None:
        raise failures.failure(RuntimeError(failures.OUT_OF_MEMORY), "it")

    assert module("pipeline.configuration").MEMORY in hint_of(fail)
    options("plan|coordinator", "--driver-memory")()


def memory_of_a_driver() -> None:
    session = module("pipeline.session")
    hinted = hint_of(lambda: session._check_enough("4g", "1g", "local"))
    setting, value = hinted.split()[0].split("=")
    assert setting == session.MEMORY
    session._check_enough("4g", value, "local")


def another_master() -> None:
    session = module("pipeline.session")
    running = SimpleNamespace(
        sparkContext=SimpleNamespace(master="local[2]"),
        conf=SimpleNamespace(get=lambda key, default: default),
    )
    hint_of(lambda: session.join(running, "local[3]", None, None))
    assert session.join(running, None, None, None) is running


def columns() -> None:
    """Every type that the hint lists is one that columns of events may have."""
    from pyspark.sql import types

    rows, read = module("pipeline.network.rows"), module("pipeline.network.columns")
    wrong = types.StructType().add("a", types.ArrayType(types.IntegerType()))
    hint_of(lambda: rows.publisher_of(wrong, "attributes"))
    hint_of(lambda: read.attribute_kinds(wrong))
    simple = [types.StringType, types.BooleanType, types.DoubleType, types.FloatType, types.LongType]
    simple += [types.IntegerType, types.ShortType, types.ByteType]
    assert {one().simpleString() for one in simple} == set(read.KINDS)
    for one in simple:
        good = types.StructType().add("a", one()).add("s", types.StructType().add("x", one()))
        rows.publisher_of(good, "attributes")
        assert set(read.attribute_kinds(good)) == {"a", "s.x"}


JOIN = "', '.join"


def bounds(links: int | None, upkeep: float = 0.0, gone: Sequence[str] = ()) -> None:
    changes = module("commands.whatif").changes_given(list(gone), [], [], [], [], "attributes")
    module("commands.whatif").bounds_given(links, None, upkeep, None, changes)


TRIED: dict[str, Try] = {
    # tables
    "a directory {name} or a file {name}.parquet, .csv, .json or .jsonl; "
    "it has {', '.join(there)[:200] or 'nothing'}": endings,
    f"{{{JOIN}(TIMES)}}": names(lambda name: module("pipeline.inputs").check_epochs({name: "s"})),
    f"{{{JOIN}(UNITS)}}": names(lambda unit: module("pipeline.inputs").check_epochs({"events.at": unit})),
    "events.at=ms": follow(
        lambda: module("commands.plan").epochs_given(["ms"]),
        lambda: module("pipeline.inputs").check_epochs(
            module("commands.plan").epochs_given(["events.at=ms"])
        ),
    ),
    "--epochs {table}.{column}=s if it counts seconds since 1970, or ms, us": bare_numbers,
    "write it as {likely}, or leave it out": almost_a_column,
    "{mend}": almost_a_column,
    "an object a line": objects_in_lines,
    "is a quote left open?": open_quote,
    "the output directory must be the same one for this process and all of Spark's workers": nothing_written,
    "a name, or names with points": follow(
        lambda: module("pipeline.inputs").check_columns({"events.at": "a..b"}),
        lambda: module("pipeline.inputs").check_columns({"events.at": "meta.time"}),
    ),
    "catalog.db.table": follow(
        lambda: module("pipeline.inputs").check_tables({"events": "a..b"}),
        lambda: module("pipeline.inputs").check_tables({"events": "catalog.db.table"}),
    ),
    "{example}": follow(
        lambda: module("commands.plan").pairs_given("--columns", "events.at=ts", ["ts"]),
        lambda: module("commands.plan").pairs_given("--columns", "events.at=ts", ["events.at=ts"]),
    ),
    # prices and what-if
    "entry=2": follow(
        lambda: module("commands.plan").objective_given(["entry"], None, 0.0),
        lambda: module("commands.plan").objective_given(["entry=2"], None, 0.0),
    ),
    f"one of {{{JOIN}(PRICES)}}": names(
        lambda name: module("planning.objective").Objective().with_prices({name: 1.0})
    ),
    "3:price > 10": follow(
        lambda: module("commands.whatif").changes_given([], [], [], [], ["fast"], "attributes"),
        lambda: module("commands.whatif").changes_given([], [], [], [], ["3:price > 10"], "attributes"),
    ),
    "{option} a,b": follow(
        lambda: module("commands.whatif").changes_given([], ["a"], [], [], [], "attributes"),
        lambda: module("commands.whatif").changes_given([], ["a,b"], [], ["a,b"], [], "attributes"),
    ),
    f"one of {{{JOIN}(MERGING)}}": names(
        lambda name: module("pipeline.request").Request(Path("in"), Path("out"), aggregation=name)
    ),
    "--method single": options("plan", "--method"),
    "--add-link a,b,1.5": follow(
        lambda: module("commands.whatif").changes_given([], [], ["a"], [], [], "attributes"),
        lambda: module("commands.whatif").changes_given([], [], ["a,b,1.5"], [], [], "attributes"),
    ),
    "--remove-broker, --add-link, --move-clients, --rate-x2 …, or --overlay": options(
        "whatif", "--remove-broker", "--add-link", "--move-clients", "--rate-x2", "--overlay"
    ),
    "--overlay 3": follow(lambda: bounds(links=None, upkeep=1.0), lambda: bounds(links=3, upkeep=1.0)),
    "--overlay without other changes": follow(lambda: bounds(links=3, gone=["a"]), lambda: bounds(links=3)),
    "--move-clients": options("whatif", "--move-clients"),
    # Spark
    "admin has the addresses of admin pages": follow(
        lambda: module("pipeline.network.options").options_of({"table": "links"}),
        lambda: module("pipeline.network.options").options_of(
            {"table": "links", "admin": "http://127.0.0.1:7500"}
        ),
    ),
    "give no schema, and select": plain,  # Spark's own; tests/spark/test_network_state.py reads so
    "local, local[2], spark://host:7077, sc://host:15002{other}": masters,
    "install openjdk-17-jre-headless, or: pip install 'covey[java]'{other}": no_java,
    "pip install 'covey[connect]'": extra("connect"),
    "{OWN_OPTIONS[key]}": own_options,
    "names begin with spark.": follow(
        lambda: module("pipeline.configuration").parse_conf(["executor.memory=4g"]),
        lambda: module("pipeline.configuration").parse_conf(["spark.executor.memory=4g"]),
    ),
    "spark.executor.memory=4g": settings_of_spark,
    "512m, 4g": sizes_of_memory,
    "--driver-memory {needed}; for a session that is not Covey's, "
    "spark.driver.memory={needed} where it is started": memory_for_a_row,
    "--driver-memory with more than it has now; for a session that is not Covey's, "
    "spark.driver.memory where it is started": memory_of_java,
    "{MEMORY}={asked} where it is started": memory_of_a_driver,
    "stop that session, or name no master": another_master,
    "submit the program again": plain,  # of a Java that spark-submit has started
    "the option name": follow(
        lambda: module("pipeline.network.options").options_of({"durable": "d", "name": ""}),
        lambda: module("pipeline.network.options").options_of({"durable": "d", "name": "n"}),
    ),
    "the option url, or a new checkpointLocation": lambda: module("pipeline.network.options").BY_NAME["url"],
    "a new checkpointLocation": plain,  # Spark's own option; tests/spark/test_network_source.py follows it
    'mode("append")': plain,  # Spark's own; tests/spark/test_network_sink.py writes so
    "rename content if it is an attribute": plain,
    "leave out the schema": plain,
    f"{{{JOIN}(KINDS)}} or a struct of these": columns,
    f"cast it to one of {{{JOIN}(KINDS)}}": columns,
}
