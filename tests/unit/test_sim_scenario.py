"""Scenario files: what they mean, every mistake in one line, the built-in ones, and changes from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import covey
from covey.errors import ConfigError
from covey.sim.library import Changes, load, scenario_names
from covey.sim.preparation import prepare
from covey.sim.scenario import MAX_BYTES, Scenario, parse_toml, read_scenario

SMALL = """
title = "Small"
seed = 7
[topology]
links = [["a", "b"], ["b", "c"]]
[[actions]]
at_s = 1.0
op = "subscribe"
name = "ann"
broker = "c"
filter = "price > 10"
[[actions]]
at_s = 2.0
op = "publish"
broker = "a"
event = { price = 12 }
"""


def read(text: str) -> Scenario:
    return read_scenario(parse_toml(text, "x.toml"), "x.toml")


def test_a_small_scenario_by_hand() -> None:
    scenario = read(SMALL)
    assert (scenario.title, scenario.seed, scenario.strategy.name) == ("Small", 7, "covering")
    assert scenario.strategy.advertisements
    assert [one.action.op for one in scenario.actions] == ["subscribe", "publish"]
    assert scenario.actions[0].action.what == covey.parse("price > 10")
    assert scenario.delays.as_table() == {"kind": "constant", "mean_ms": 10.0}
    prepared = prepare(scenario)
    assert prepared.topology.brokers == ("a", "b", "c")
    assert prepared.end_s == 2.0
    assert prepared.remembered_events == 0


def test_actions_are_in_the_order_of_time_whatever_their_order_in_the_file() -> None:
    text = SMALL.replace("at_s = 2.0", "at_s = 0.5")
    assert [one.action.op for one in read(text).actions] == ["publish", "subscribe"]


def test_events_of_all_languages() -> None:
    text = (
        SMALL
        + """
[[actions]]
at_s = 3
op = "publish"
broker = "a"
language = "keywords"
event = ["nokia", "phone"]
[[actions]]
at_s = 4
op = "publish"
broker = "a"
language = "xpath"
event = "<news><item/></news>"
"""
    )
    words, document = (one.action.what for one in read(text).actions[2:])
    assert words == {"nokia", "phone"}
    assert isinstance(document, covey.Document)


def test_what_is_written_out_reads_as_the_same_scenario() -> None:
    for name in scenario_names():
        scenario = load(name)
        again = read_scenario(scenario.as_tables(), name)
        assert again.as_tables() == scenario.as_tables()
        complete = prepare(load(name)).scenario.as_tables()
        assert prepare(read_scenario(complete, name)).scenario.as_tables() == complete


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("title", "titel"), ["x.toml", "'titel'", "did you mean title?"]),
        (("seed = 7", "seed = -1"), ["x.toml: seed", "an integer from 0 up", "-1"]),
        (("seed = 7", "seed = true"), ["an integer", "true"]),
        (("seed = 7", "seed = "), ["x.toml", "not TOML", "line 3"]),
        (('links = [["a", "b"], ["b", "c"]]', ""), ["[topology]", "kind, links and file"]),
        (('links = [["a", "b"], ["b", "c"]]', 'kind = "lin"'), ["[topology]", "kind", "did you mean line?"]),
        (('links = [["a", "b"], ["b", "c"]]', 'kind = "line"\ncont = 3'), ["'cont'", "did you mean count?"]),
        (('["b", "c"]', '["b", "c"], ["c"]'), ["[topology]", "link 3"]),
        (('["b", "c"]', '["c", "b"], ["c", "a"], ["a", "d"]'), ["[strategy]", "cycles"]),
        (("op = ", "ob = "), ["[[actions]] 1", "op", "missing"]),
        (('op = "subscribe"', 'op = "subscribed"'), ["[[actions]] 1: op", "did you mean subscribe?"]),
        (('filter = "price > 10"', 'filter = "price >"'), ["[[actions]] 1: filter", "character 8"]),
        (('filter = "price > 10"', 'filter = "a = 1"\nfilt = 2'), ["'filt'", "did you mean filter?"]),
        (('broker = "c"', 'broker = "z"'), ["[[actions]] 1: broker", "a broker of the topology", "'z'"]),
        (("event = { price = 12 }", "event = 12"), ["[[actions]] 2: event", "a table of attributes", "12"]),
        (("event = { price = 12 }", "event = { price = 2020-01-01 }"), ["[[actions]] 2: event", "date"]),
        (
            ("event = { price = 12 }", "event = { a = { b = [1] } }"),
            ["[[actions]] 2: event", "'a.b'", "list"],
        ),
        (('op = "publish"', 'op = "unsubscribe"\nname = "bob"'), ["[[actions]] 2"]),
        (("at_s = 1.0", "at_s = nan"), ["at_s", "a number from 0 up", "nan"]),
        (("at_s = 1.0", 'at_s = "soon"'), ["at_s", "'soon'"]),
    ],
)
def test_a_mistake_is_one_line_that_names_the_place(change: tuple[str, str], parts: list[str]) -> None:
    assert change[0] in SMALL
    with pytest.raises(ConfigError) as caught:
        prepare(read(SMALL.replace(change[0], change[1], 1))).network()
    line = str(caught.value)
    assert line.startswith("x.toml: ")
    assert "\n" not in line
    assert len(line) < 400
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("tables", "parts"),
    [
        ('[strategy]\nname = "coverin"', ["[strategy]: name", "did you mean covering?"]),
        ("[strategy.options]\ntiers = 1", ["[strategy.options]", "'tiers'", "there are none"]),
        ('[strategy.brokers]\nz = "lazy"', ["[strategy.brokers]", "'z'"]),
        ('[strategy.brokers]\na = "xroute"', ["[strategy]", "cannot be neighbours"]),
        ('[delays]\nkind = "constnt"', ["[delays]: kind", "did you mean constant?"]),
        ("[delays]\nmean_ms = -1", ["[delays]: mean_ms", "from 0 up"]),
        ('[service]\nkind = "table-3"', ["[service]: kind", "did you mean table-ii?"]),
        ('[service]\nkind = "zero"\npublish_ms = 1', ["[service]: publish_ms", "only table-ii"]),
        ('[service]\nkind = "zero"\nfactor = 2', ["[service]: factor", "only linear"]),
        (
            '[service]\nkind = "linear"\nfactor = 2\n[strategy.brokers]\na = "lazy"',
            ["[service]: factor", "differ by broker"],
        ),
        ('[run]\nhandover = "exactly"', ["[run]: handover", "did you mean exact?"]),
        ("[run]\nsetle = false", ["[run]", "did you mean settle?"]),
        ("[metrics]\nevery_s = 0", ["[metrics]: every_s", "above 0"]),
        ("[metrics]\nevery_s = 0.0001", ["[metrics]: every_s", "at least"]),
        ('[workload]\nkind = "quotes"\nconsumer = 3', ["[workload]", "did you mean consumers?"]),
        ('[workload]\nkind = "quotes"\nconsumers = "x"', ["[workload]", "consumers must be an integer"]),
        ('[[faults]]\nat_s = 1\nkind = "crush"', ["[[faults]] 1: kind", "did you mean crash?"]),
        ('[[faults]]\nat_s = 1\nkind = "crash"\nbroker = "z"', ["[[faults]] 1: broker", "'z'"]),
        ('[[faults]]\nat_s = 1\nkind = "link-down"\nlink = ["a", "c"]', ["[[faults]] 1: link", "a link"]),
        ('[[faults]]\nat_s = 1\nkind = "link-down"\nlink = ["a"]', ["link", "a list of 2 texts"]),
        (
            '[[faults]]\nat_s = 3\nuntil_s = 2\nkind = "link-down"\nlink = ["a", "b"]',
            ["until_s", "from 3 up"],
        ),
        ('[[faults]]\nat_s = 1\nkind = "slow"\nlink = ["a", "b"]', ["factor", "missing"]),
        ('[[faults]]\nat_s = 1\nkind = "partition"\nbrokers = []', ["brokers", "a list of texts"]),
        ("faults = 3", ["faults", "tables"]),
        ('[[actions]]\nat_s = 3\nop = "unsubscribe"\nname = "bob"', ["[[actions]] 3: name", "'bob'"]),
        (
            '[[actions]]\nat_s = 3\nop = "subscribe"\nname = "ann"\nbroker = "a"\nfilter = "a = 1"',
            ["no other subscription", "'ann'"],
        ),
    ],
)
def test_a_mistake_in_other_tables(tables: str, parts: list[str]) -> None:
    text = tables + "\n" + SMALL if tables.startswith("faults") else SMALL + tables
    with pytest.raises(ConfigError) as caught:
        prepare(read(text)).network()
    line = str(caught.value)
    assert line.startswith("x.toml: ")
    assert "\n" not in line
    for part in parts:
        assert part in line


def test_a_scenario_needs_something_to_do() -> None:
    with pytest.raises(ConfigError, match=r"\[workload\], or \[\[actions\]\]"):
        read('[topology]\nkind = "line"\ncount = 2')
    with pytest.raises(ConfigError, match=r"x\.toml: topology"):
        read("")


def test_texts_from_strangers_are_bounded() -> None:
    with pytest.raises(ConfigError, match="at most"):
        parse_toml("#" * (MAX_BYTES + 1), "x.toml")
    with pytest.raises(ConfigError):
        parse_toml("a = " + "[" * 100_000, "x.toml")


def test_files_are_found_from_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("a b\nb c\n", encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(SMALL.replace('links = [["a", "b"], ["b", "c"]]', 'file = "edges.txt"'), encoding="utf-8")
    assert prepare(load(str(file))).topology.links == (("a", "b"), ("b", "c"))
    (tmp_path / "edges.txt").write_text("a b\nb\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine.toml: \[topology\].*edges.txt:2"):
        prepare(load(str(file)))


@pytest.mark.parametrize("data", [b"\xff", b"#" * (MAX_BYTES + 1)])
def test_a_file_that_is_no_scenario(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        load(str(file))


def test_random_topologies_take_the_seed_of_the_scenario() -> None:
    one, other = (prepare(load("keywords-trees", Changes(seed=seed))) for seed in (1, 2))
    assert one.topology.links != other.topology.links
    assert one.scenario.topology.parameters["seed"] == 1


def test_changes() -> None:
    changes = Changes(seed=5, advertisements=False, settings=["workload.subscriptions=2000", "title=Mine"])
    scenario = load("burst", changes)
    assert scenario.seed == 5
    assert scenario.workload is not None
    assert scenario.workload.parameters["subscriptions"] == 2000
    assert not scenario.strategy.advertisements
    assert scenario.title == "Mine"
    first = load("tour", Changes(settings=["faults.1.until_s=6.5", "strategy.brokers.a=lazy"]))
    assert first.faults[0].until_s == 6.5
    assert first.strategy.brokers == {"a": "covering-lazy"}


def test_options_go_with_their_strategy(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SMALL + '[strategy]\nname = "incremental"\n[strategy.options]\nwindow_s = 5\n', "utf-8")
    assert load(str(file)).strategy.options == {"window_s": 5}
    assert load(str(file), Changes(strategy="incremental")).strategy.options == {"window_s": 5}
    assert load(str(file), Changes(strategy="active")).strategy.options == {}
    given = Changes(strategy="incremental", settings=["strategy.options.window_s=9"])
    assert load("burst", given).strategy.options == {"window_s": 9}


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("workload.events", "expected a key, = and a value"),
        ("=3", "expected a key"),
        ("title.x=3", "there is no 'x' to set"),
        ("faults.7.at_s=3", "there is no '7'"),
        ("faults.0.at_s=3", "there is no '0'"),
        ("workload=3", "expected a table, not 3"),
        ("run.settle=maybe", "true or false"),
    ],
)
def test_a_mistake_in_a_change(setting: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("tour", Changes(settings=[setting]))
    assert part in str(caught.value)


def test_an_unknown_scenario_is_answered_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"did you mean tour\?"):
        load("tuor")
    with pytest.raises(ConfigError, match="cannot read"):
        load("no/such.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        load("a\0b.toml")


def test_the_scenario_in_the_documents_is_one() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
    block = text.partition("```toml\n")[2].partition("```")[0]
    assert prepare(read(block)).topology.brokers == ("a", "b", "c")


def test_every_key_is_in_the_documents() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
    tables = load("tour").as_tables()
    tables["service"] |= {"subscribe_ms": 1, "unsubscribe_ms": 1, "publish_ms": 1, "factor": 1}
    tables["run"] |= {"duration_s": 1, "remembered_events": 1}
    for table in ("strategy", "delays", "service", "run", "metrics"):
        for key in tables[table]:
            assert f"`{key}`" in text
    for table in ("actions", "faults"):
        for key in {key for row in tables[table] for key in row}:
            assert f"`{key}`" in text
