"""The options of the data source: mistakes are one line that names the option; the document shows all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from covey.client import link
from covey.client.link import DEFAULT_URL, addresses_of
from covey.errors import ConfigError
from covey.pipeline.network.columns import DEFAULTS
from covey.pipeline.network.options import OPTIONS, READ, STREAM, USES, WRITE, options_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("use", "given", "message"),
    [
        (READ, {"colour": "red"}, "there is no option 'colour' (hint: url, token"),
        (READ, {"events": "many"}, "the option events is 'many': it must be a number"),
        (READ, {"events": "0"}, "the option events is '0': it must be between 1 and 10,000,000"),
        (READ, {"seconds": "-1"}, "the option seconds is '-1': it must be a positive number"),
        (READ, {"timeout": "inf"}, "the option timeout is 'inf': it must be a positive number"),
        (READ, {"filter": "price >"}, "the option filter is wrong: the text ends too early"),
        (
            READ,
            {"language": "sql"},
            "the option language is 'sql': it must be one of attributes, xpath, keywords",
        ),
        (READ, {"url": "http://x"}, "the option url is wrong: 'http://x' is no address of a broker"),
        (READ, {"token": "t", "user": "u"}, "the options token and user exclude each other"),
        (READ, {"password": "p"}, "the option password needs the option user"),
        (READ, {"tls_key": "f"}, "the option tls_key needs the option tls_cert"),
        (READ, {"confirm": "false"}, "the option confirm is for write, not for read"),
        (READ, {"durable": "jobs"}, "the option durable is for stream, not for read"),
        (STREAM, {"seconds": "3"}, "the option seconds is for read, not for stream"),
        (READ, {"maxEventsPerTrigger": "3"}, "the option maxEventsPerTrigger is for stream, not for read"),
        (STREAM, {"maxEventsPerTrigger": "0"}, "the option events is '0': it must be between 1 and"),
        (
            STREAM,
            {"maxEventsPerTrigger": "3", "Events": "3"},
            "the options maxEventsPerTrigger and events are the same: give one of them",
        ),
        (STREAM, {"policy": "wait"}, "the option policy is 'wait': it must be one of"),
        (STREAM, {"durable": "jobs", "name": ""}, "the option durable needs a client with a name"),
        (WRITE, {"confirm": "perhaps"}, "the option confirm is 'perhaps': it must be true or false"),
        (WRITE, {"advertise": "x >"}, "the option advertise is wrong: the text ends too early"),
        (WRITE, {"filter": "x > 1"}, "the option filter is for read and stream, not for write"),
    ],
)
def test_mistakes(use: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options_of(given, use)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_values() -> None:
    options = options_of({"URL": "covey://a:1, covey://b:2", "Events": "7", "seconds": "0.5"}, READ)
    assert (options.url, options.events, options.seconds) == ("covey://a:1, covey://b:2", 7, 0.5)
    assert options_of({}).url == DEFAULT_URL
    assert options_of({"maxEventsPerTrigger": "7"}, STREAM).events == 7
    assert options_of({"confirm": "False", "checkpointLocation": "/x"}, WRITE).confirm is False
    with pytest.raises(ConfigError, match="the option filter is needed for events of the language keywords"):
        options_of({"language": "keywords"}, READ).wanted()
    with pytest.raises(ConfigError, match="the files for TLS cannot be used"):
        options_of({"tls_ca": "/nowhere"}, READ).connected()


def test_secrets_are_not_shown() -> None:
    given: Any = {"url": "covey://hunter2@x", "user": "ann", "password": "hunter2"}
    assert "hunter2" not in repr(options_of(given))
    assert "hunter2" not in repr(options_of({"token": "hunter2"}))


def test_the_document_shows_the_options() -> None:
    expected = [
        f"| `{one.name}` | {f'`{one.default}`' if one.default else ''} | "
        f"{'all' if one.uses == USES else ', '.join(one.uses)} | {one.meaning} |"
        for one in OPTIONS
    ]
    shown = TEXT.partition("| option | default | for | |")[2].partition("\n\n")[0].strip().splitlines()[1:]
    assert shown == expected


def test_the_document_shows_the_columns() -> None:
    expected = [f"| {one.name} | {one.type} | {one.comment} |" for one in DEFAULTS.columns]
    shown = TEXT.partition("| column | type | meaning |")[2].partition("\n\n")[0].strip().splitlines()[1:]
    assert shown == expected


def test_a_wheel_has_all_packages() -> None:
    """Spark finds the format by the second of them, which must be installed beside the first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) == {
        f"src/{path.name}"
        for path in (ROOT / "src").iterdir()
        if re.fullmatch(r"\w+", path.name) and path.is_dir() and path.name != "__pycache__"
    }


def test_too_many_addresses_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(addresses_of(",".join(f"b{number}" for number in range(1_000)))) == 1_000
    assert [str(one) for one in addresses_of(["b", "a:1", "b:7400"])] == ["b:7400", "a:1"]
    monkeypatch.setattr(link, "address_of", lambda url: pytest.fail(f"{url} is read"))
    for wrong in ("a," * 1_001, ["a"] * 1_001, "", []):
        with pytest.raises(ConfigError, match=r"addresses of brokers; 1 to 1,000 are possible"):
            addresses_of(wrong)
