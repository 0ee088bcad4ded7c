"""Whatever is quoted in an error, its text is one printable line that people can read to its end."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from tests.fuzz.files import plan_values

from covey.broker.config import read_config
from covey.core.families import parse
from covey.errors import (
    LONGEST,
    ConfigError,
    CoveyError,
    FilterError,
    MissingExtraError,
    PlanError,
    RefusedError,
    TimedOutError,
)
from covey.planning.plan import FORMAT, VERSION, Plan, _checksum
from covey.sim.scenario import parse_toml


@pytest.mark.parametrize("kind", [CoveyError, ConfigError, MissingExtraError, RefusedError, TimedOutError])
def test_what_is_not_printable_is_escaped(kind: type[CoveyError]) -> None:
    error = kind("a link to 'é\n\x1b[31m\ud800\u2028' is wrong")
    assert str(error) == r"a link to 'é \x1b[31m\ud800 ' is wrong"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_is_too_long_is_cut() -> None:
    assert str(CoveyError("x" * LONGEST)) == "x" * LONGEST
    assert str(CoveyError("x" * 5_000)) == "x" * (LONGEST - 1) + "…"


def test_an_error_without_words() -> None:
    assert CoveyError().args == ()


def test_a_long_word_in_a_filter() -> None:
    with pytest.raises(FilterError) as caught:
        parse("a" * 1_000, "xpath")
    assert len(str(caught.value)) < 300


def test_a_plan_with_a_broker_of_two_lines() -> None:
    plan = {**plan_values(), "links": [["b", "é\n", 1.0]], "trees": []}
    file = {"format": FORMAT, "version": VERSION, "checksum": _checksum(plan), "plan": plan}
    with pytest.raises(PlanError, match=r"the link b–é  has an end"):
        Plan.decode(json.dumps(file).encode())


def test_a_configuration_with_a_file_of_two_lines(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('name="b"\n[neighbours]\ntrusted=true\n[tls]\ncertificate="x"\nkey="a\\nb"\n')
    with pytest.raises(ConfigError, match=r"with the key a b cannot be used"):
        read_config(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"port = {'9' * 5_000}", "is not TOML: Exceeds the limit"),
        ("[broker" + ".a" * 10_000 + "]", "line 1 has more than 100 dots"),
        ("name = 'a'\nx" + ".'a.b'" * 200 + " = 1", "line 2 has more than 100 dots"),
        (f"name = 'a'\n[[links]]\nname = 'b'\naddress = 'h:{'9' * 5_000}'", "expected HOST:PORT"),
    ],
)
def test_a_configuration_that_python_would_choke_on(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_config(file)


def test_dots_in_strings_are_no_parts_of_keys(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    names = " OR ".join(f"a.b.c{n} = '..'" for n in range(40))
    file.write_text(f'name = "a"\n[anonymous]\nsubscribe = "{names}"\n')
    assert read_config(file).name == "a"


def test_a_scenario_with_a_long_number() -> None:
    with pytest.raises(ConfigError, match="this is not TOML: Exceeds the limit"):
        parse_toml(f"seed = {'9' * 5_000}", "x.toml")
