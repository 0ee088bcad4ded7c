"""Configurations: files, environment and flags; every mistake is one line that names the setting."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from covey.broker.config import (
    BrokerConfig,
    LinkConfig,
    Queue,
    as_values,
    changed,
    config_of,
    read_config,
    settings_of,
)
from covey.errors import ConfigError

FILE = """
name = "paris"
port = 7500
strategy = "simple"
lease_s = 3

[client_bounds]
policy = "drop-oldest"

[[links]]
name = "lyon"
address = "10.0.0.2:7400"
priority = 2

[[links]]
name = "lille"
policy = "block"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(FILE)
    return path


def test_a_file(file: Path) -> None:
    config = read_config(file)
    assert config == BrokerConfig(
        "paris",
        port=7500,
        strategy="simple",
        lease_s=3.0,
        client_bounds=Queue(policy="drop-oldest"),
        links=(LinkConfig("lyon", "10.0.0.2", 7400, priority=2), LinkConfig("lille", policy="block")),
    )
    assert config.bounds().policy == "drop-oldest"
    assert [config.bounds(link).policy for link in config.links] == ["disconnect", "block"]


def test_environment_wins_over_the_file_and_flags_over_both(file: Path) -> None:
    environment = {
        "COVEY_PORT": "7600",
        "COVEY_NAME": "rome",
        "COVEY_CLIENT_BOUNDS_EVENTS": "5",
        "COVEY_ADVERTISEMENTS": "no",
        "COVEY_LINKS": "a=h:1,b",
        "COVEY_HYPOTHESIS_PROFILE": "none of our business",
    }
    config = read_config(file, environment, {"name": "oslo", "client_bounds.bytes": "77"})
    assert (config.name, config.port, config.advertisements) == ("oslo", 7600, False)
    assert config.client_bounds == Queue(5, 77, "drop-oldest")
    assert config.links == (LinkConfig("a", "h", 1), LinkConfig("b"))
    assert read_config(file, environment, {}, ["c=[::1]:9"]).links == (LinkConfig("c", "::1", 9),)


def test_all_settings_can_be_written_and_read_back(file: Path) -> None:
    config = read_config(file)
    assert config_of(as_values(config), "here") == config


def test_every_field_but_links_is_a_setting() -> None:
    names = {one.path.partition(".")[0] for one in settings_of(BrokerConfig)}
    assert names == {one.name for one in fields(BrokerConfig)} - {"links", "security", "admin"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port = 1", "f: name: a broker needs a name, and it is missing"),
        ("name = ''", "f: name: expected a text that is not empty, not ''"),
        ("name = '~a'", "f: name: expected letters, digits and any of _ . : @ -, at most 128, not '~a'"),
        ("name = 'a'\nport = 65536", "f: port: expected an integer from 0 to 65,535, not 65536"),
        ("name = 'a'\nport = true", "f: port: expected an integer from 0 to 65,535, not true"),
        ("name = 'a'\nlease_s = nan", "f: lease_s: expected a number above 0, not nan"),
        ("name = 'a'\nprot = 1", "f: there is no setting 'prot' (did you mean port?)"),
        ("name = 'a'\nlinks = 1", "f: links: expected at most 1,000 tables [[links]], not 1"),
        ("name = 'a'\n[[links]]", "f: [[links]] 1: name: expected the neighbour's name, not None"),
        (
            "name = 'a'\n[[links]]\nname = 'b'\naddress = 'b'",
            "f: [[links]] 1: address: expected HOST:PORT, not 'b'",
        ),
        (
            "name = 'a'\n[[links]]\nname = 'b'\n[[links]]\nname = 'b'",
            "f: links: there are several links to b",
        ),
        ("name = 'a'\n[[links]]\nname = 'a'", "f: links: a has a link to itself"),
        (
            "name = 'a'\n[client_bounds]\npolicy = 'drop'",
            "f: [client_bounds]: policy: expected one of disconnect, drop-oldest, drop-new, block, not 'drop'",
        ),
        ("name = 'a'\ncalm_at = 9\ncongested_at = 3", "f: calm_at: expected at most congested_at, 3, not 9"),
        (
            "name = 'a'\nstrategy = 'trees'",
            "f: strategy: trees needs a plan of trees, which is installed in a running overlay",
        ),
    ],
)
def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f").write_text(text)
    with pytest.raises(ConfigError) as error:
        read_config(Path("f"))
    assert str(error.value) == problem


def test_mistakes_of_strategies_name_them() -> None:
    with pytest.raises(ConfigError, match=r"strategy: expected one of .*did you mean covering\?"):
        config_of({"name": "a", "strategy": "coverin"}, "f")
    with pytest.raises(ConfigError, match="options: the strategy covering has no setting 'depth'"):
        config_of({"name": "a", "options": {"depth": 3}}, "f")


@pytest.mark.parametrize(
    ("environment", "flags", "links", "problem"),
    [
        ({"COVEY_PORT": "x"}, {}, [], "COVEY_PORT: expected an integer from 0 to 65,535, not 'x'"),
        ({}, {"lease_s": "-1"}, [], "--lease-s: expected a number above 0, not '-1'"),
        ({}, {"leases": "1"}, [], "--leases: there is no setting 'leases' (did you mean lease_s?)"),
        ({}, {}, ["b=c"], "--link: b: expected HOST:PORT, not 'c'"),
    ],
)
def test_mistakes_outside_of_files(
    environment: dict[str, str], flags: dict[str, str], links: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read_config(None, environment, {"name": "a", **flags}, links)
    assert str(error.value) == problem


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_config(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"name = \xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_config(bad)
    bad.write_text("name = ")
    with pytest.raises(ConfigError, match="is not TOML"):
        read_config(bad)


def test_what_a_reload_may_change() -> None:
    old = BrokerConfig("a")
    new = replace(old, port=1, links=(LinkConfig("b"),), log_level="debug", strategy="simple")
    assert changed(old, new) == (["links", "log_level"], ["port", "strategy"])
