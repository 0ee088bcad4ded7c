"""What Spark is started with: what people have configured wins, memory follows the input, and too much is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from covey.errors import ConfigError, CoveyError, PlanError
from covey.pipeline import configuration, session
from covey.pipeline.configuration import MASTER, MEMORY, REMOTE, configured, parse_conf
from covey.pipeline.failures import OUT_OF_MEMORY, failure
from covey.pipeline.memory import (
    GIB,
    MIB,
    Room,
    default_driver_memory,
    heap_for,
    machine_bytes,
    memory_text,
    own_threads,
    parse_memory,
)
from covey.pipeline.request import Request


def test_settings_are_taken_as_spark_submit_takes_them() -> None:
    assert parse_conf([]) == {}
    assert parse_conf(["spark.a=1", "spark.b.c=x=y"]) == {"spark.a": "1", "spark.b.c": "x=y"}
    for given, said in (
        (["spark.a"], "--conf 'spark.a': expected KEY=VALUE"),
        (["shuffle=2"], "'shuffle' is no setting of Spark"),
        (["=2"], "'' is no setting of Spark"),
        (["spark.a=1", "spark.a=2"], "--conf spark.a is given twice"),
        (["spark.master=local"], r"an option of its own \(hint: --master\)"),
        (["spark.driver.memory=4g"], r"an option of its own \(hint: --driver-memory\)"),
    ):
        with pytest.raises(ConfigError, match=said) as caught:
            parse_conf(given)
        assert "\n" not in str(caught.value)


def test_what_is_configured_is_found_wherever_it_was(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master   spark://file:7077\nspark.driver.memory=2g\n spark.ui.enabled : true\nother 1\n"
    )
    environ = {"SPARK_CONF_DIR": str(tmp_path), "MASTER": "spark://environment:7077"}
    file = {MASTER: "spark://file:7077", MEMORY: "2g", "spark.ui.enabled": "true"}
    assert configured(environ) == file
    arguments = (
        "--master spark://words:7077 --conf spark.ui.enabled=false -c spark.x=1 --driver-memory=3g x.py"
    )
    assert configured(environ | {"PYSPARK_SUBMIT_ARGS": arguments}) == {
        MASTER: "spark://words:7077",
        MEMORY: "3g",
        "spark.ui.enabled": "false",
        "spark.x": "1",
    }
    nothing = {"SPARK_CONF_DIR": str(tmp_path / "nowhere")}
    assert configured(nothing) == {}
    assert configured(nothing | {"MASTER": "yarn"}) == {MASTER: "yarn"}
    assert configured(environ | {"SPARK_REMOTE": "sc://host"}) == {REMOTE: "sc://host"}
    assert session._configured_master({REMOTE: "local[2]"}) == "connect:local[2]"
    assert session._configured_master(file) == "spark://file:7077"
    assert session._configured_master({}) == "local"


def values(where: str = "local[2]", said: dict[str, str] | None = None, **asked: Any) -> dict[str, str]:
    return session._values(
        where, said or {}, **({"bulk": False, "driver_memory": None, "inputs": (0, 0)} | asked)
    )


def test_only_what_is_unset_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "launches_java", lambda master: not master.startswith("sc://"))
    ours = values()
    assert ours["spark.ui.enabled"] == "false"
    said = {"spark.ui.enabled": "true", "spark.log.level": "INFO", "spark.sql.session.timeZone": "Asia/Tokyo"}
    said |= {session.JAVA_OPTIONS: "-Xss4m"}
    assert values(said=said) == {key: value for key, value in ours.items() if key not in said}
    assert set(values("sc://host:15002")) == {"spark.sql.session.timeZone"}


def test_memory_is_set_where_java_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "launches_java", lambda master: not master.startswith("sc://"))
    monkeypatch.setattr(session, "machine_bytes", lambda: 64 * GIB)
    assert MEMORY not in values()
    large = values(inputs=(150_000_000, 0))
    assert large[MEMORY] == "6g"
    assert large["spark.driver.maxResultSize"] == "6g"
    assert MEMORY not in values(inputs=(150_000_000, 0), said={MEMORY: "2g"})
    assert values(driver_memory="3g", said={MEMORY: "2g"})[MEMORY] == "3g"
    with pytest.raises(ConfigError, match="the memory of sc://host is set where that server is started"):
        values("sc://host", driver_memory="3g")
    monkeypatch.setattr(session, "launches_java", lambda master: False)
    assert values(said={MEMORY: "4g"}, driver_memory="3g").get(MEMORY) is None
    assert session.JAVA_OPTIONS not in values()
    with pytest.raises(
        ConfigError,
        match=r"runs already with 1g of memory, and cannot have 3g \(hint: spark.driver.memory=3g",
    ):
        values(driver_memory="3g")


def test_memory_follows_the_input_between_a_floor_and_half_of_the_machine() -> None:
    def asked(subscriptions: int, others: int = 0, machine: int = 64 * GIB, threads: int = 2) -> int:
        return default_driver_memory(subscriptions, others, threads=threads, machine=machine)

    assert asked(0) == asked(5 * MIB) == GIB
    assert asked(50 * MIB) == 3 * GIB
    assert asked(50 * MIB, others=2 * GIB) == 5 * GIB
    assert asked(50 * MIB, threads=8) > asked(50 * MIB, threads=2) > asked(50 * MIB, threads=0)
    assert asked(10 * GIB) == 32 * GIB
    assert asked(10 * GIB, machine=GIB) == GIB
    assert machine_bytes() > 0
    assert [own_threads(one) for one in ("local[3]", "connect:local[4]", "local[2,1]", "yarn")] == [
        3,
        4,
        2,
        0,
    ]


def test_sizes_of_memory() -> None:
    assert [parse_memory(text) for text in ("512m", "4g", "4GB", "1t")] == [
        512 * MIB,
        4 * GIB,
        4 * GIB,
        1024 * GIB,
    ]
    assert [memory_text(size) for size in (4 * GIB, 1536 * MIB)] == ["4g", "1536m"]
    for text in ("", "4", "g", "-4g", "4x", "4 g", "0g"):
        with pytest.raises(ConfigError, match="is no size of memory"):
            parse_memory(text)
    for asked, said in (("lots", "no size of memory"), ("100m", "needs 512m or more, not 100m")):
        with pytest.raises(ConfigError, match=said):
            Request(Path(), Path(), driver_memory=asked)


@pytest.mark.parametrize("threads", [0, 1, 2, 32])
def test_a_row_that_would_end_java_is_refused_with_what_to_set(threads: int) -> None:
    room = Room(GIB, threads)
    room.check(room.row, "this")
    with pytest.raises(ConfigError) as caught:
        room.check(150_000_000, "too large is the index")
    line = str(caught.value)
    assert line.startswith("too large is the index: 150.0 MB packed, and Spark's driver has 1g of memory")
    needed = line.split("--driver-memory ")[1].split(";")[0]
    assert f"spark.driver.memory={needed}" in line
    # As Java reports it, a heap is somewhat smaller than what was asked for.
    Room(int(parse_memory(needed) * 0.96), threads).check(140_000_000, "it")
    assert Room(heap_for(150_000_000, threads), threads).row >= 150_000_000
    assert Room(256 * MIB, threads).row > MIB


def test_a_java_that_ended_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "spark.log"
    gone = ConnectionRefusedError(111, "Connection refused")
    told = failure(gone, "the stage documents", log)
    assert (type(told), str(told)) == (
        PlanError,
        f"the stage documents failed: Spark's Java has ended (its log: {log})",
    )
    log.write_text(f"x\nException in thread {OUT_OF_MEMORY}: Java heap space\n")
    for error in (gone, Py4JNetworkError("Answer from Java side is empty")):
        told = failure(error, "the stage documents", log)
        assert isinstance(told, ConfigError)
        assert "Spark's Java has no more memory (hint: --driver-memory" in str(told)
    # Over a connection that broke Py4J says nothing: whether Java runs does.
    log.write_text("x\n")
    for code, said in ((None, "failed on Spark: x"), (-9, "failed: Spark's Java has ended")):
        process = SimpleNamespace(poll=lambda code=code: code)
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        assert str(failure(Py4JError("x"), "it")) == f"it {said}"
    told = failure(ValueError("  : what\nelse"), "it", log)
    assert str(told) == f"it failed on Spark: what (its log: {log})"
    ours = failure(ValueError("… covey.errors.ConfigError: too large \n at"), "it", log)
    assert (type(ours), str(ours)) == (ConfigError, "too large")


def test_a_session_whose_java_ended_runs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(SparkSession, "getActiveSession", refuse)
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, object())
    for name in ("_instantiatedSession", "_activeSession"):
        monkeypatch.setattr(SparkSession, name, None)
    monkeypatch.setenv(configuration.GATEWAY, "1")
    with pytest.raises(CoveyError, match="Spark's Java has ended"):
        session.running()
    monkeypatch.delenv(configuration.GATEWAY)
    assert session.running() is None
    assert SparkContext._gateway is None
    assert session.launches_java("local")


def test_masters_by_other_names_are_the_same() -> None:
    for one, other in (
        ("local", "local[*]"),
        ("connect:local", "connect:local[*]"),
        ("sc://host", "sc://host:15002/;token=x"),
    ):
        assert session._full(one) == session._full(other)
    assert session._full("sc://host:1") != session._full("sc://host")
    assert session._full("spark://local:7077") == "spark://local:7077"


def test_hints_offer_only_what_is_accepted() -> None:
    with pytest.raises(ConfigError, match="no Spark master") as caught:
        Request(Path(), Path(), master="here")
    assert "or here" not in str(caught.value)
    assert "--jobs" not in str(session.NoJavaError())
    assert configuration.OWN_OPTIONS[MASTER] == "--master"
