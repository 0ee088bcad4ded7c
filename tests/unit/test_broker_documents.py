"""docs/operations.md and docs/wire.md say what is so."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from covey import cli
from covey.broker.config import MAX_LINK_FRAME, BrokerConfig, as_table, config_of, is_topology, topology_of
from covey.protocol import control
from covey.protocol.events import ENVELOPE
from covey.protocol.frames import MAX_GREETING, VERSION, Kind

DOCS = Path(__file__).parents[2] / "docs"
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")
WIRE = (DOCS / "wire.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", OPERATIONS, re.MULTILINE | re.DOTALL)


def test_the_table_of_settings_is_that_of_the_dataclass() -> None:
    [table] = re.findall(r"<!-- settings -->\n(.*?)\n<!-- /settings -->", OPERATIONS, re.DOTALL)
    assert table == as_table(BrokerConfig)


def test_the_examples_are_configurations() -> None:
    broker, topology = map(tomllib.loads, EXAMPLES)
    assert config_of(broker, "broker.toml").links[1].address == "127.0.0.1:7402"
    assert is_topology(topology)
    assert topology_of(topology, "topology.toml").brokers == ("paris", "lyon", "nice")


def test_check_config_says_what_a_file_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, example in enumerate(EXAMPLES):
        file = tmp_path / f"{number}.toml"
        file.write_text(example)
        assert cli.run(["check-config", str(file)]) == 0
        assert cli.run(["check-config", str(file), "--json"]) == 0
    file = tmp_path / "wrong.toml"
    file.write_text("name = 'a'\nport = 'x'\n")
    assert cli.run(["check-config", str(file)]) == 2
    out, err = capsys.readouterr()
    assert "0.toml: broker paris on 127.0.0.1:7400, 2 links, strategy covering" in out
    assert "1.toml: an overlay of 3 brokers and 3 links" in out
    assert err == f"covey: {file}: port: expected an integer from 0 to 65,535, not 'x'\n"


def test_the_examples_run(tmp_path: Path) -> None:
    """The whole overlay, until Ctrl-C; then one broker, until SIGTERM."""
    broker, topology = tmp_path / "broker.toml", tmp_path / "topology.toml"
    broker.write_text(EXAMPLES[0])
    topology.write_text(EXAMPLES[1])
    with start("up", str(topology), folder=tmp_path) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        assert [line.split()[0] for line in lines] == ["paris", "lyon", "nice", "ready"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (out, err, process.returncode) == ("ending\n", "", 0)
    words = ("broker", "--config", str(broker), "--port", "0", "--set", "lease_s=0.2")
    with start(*words, folder=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("broker paris listens on covey://127.0.0.1:")
        assert process.stdout.readline() == "broker paris: ready\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
        assert (out, process.returncode) == ("broker paris: ended\n", 0)


def start(*words: str, folder: Path) -> subprocess.Popen[str]:
    """Start the program in a directory of its own, as `data_dir` in the examples is relative."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "covey", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_wire_is_as_described() -> None:
    kinds = dict(re.findall(r"^\| ([A-Z]+) \| (\d+) \|", WIRE, re.MULTILINE))
    assert {name: int(number) for name, number in kinds.items()} == {kind.name: kind.value for kind in Kind}
    assert f"Version {VERSION}." in WIRE
    assert f"at most {MAX_GREETING:,} bytes" in WIRE
    assert f"a neighbour's {MAX_LINK_FRAME >> 20} MiB" in WIRE
    assert f"The first line has {ENVELOPE.size} bytes" in WIRE


def test_every_control_frame_is_described_with_its_fields() -> None:
    overlaid = (control.States, control.Attach, control.Detach, control.Detached)
    for kind in vars(control).values():
        is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if is_struct and kind is control._PlainReply:
            continue  # a Reply with its last field left out
        if is_struct and kind.__module__ == control.__name__ and kind not in (*overlaid, control.BrokerLinks):
            fields = ", ".join((f'"{kind.__struct_config__.tag}"', *kind.__struct_fields__))
            assert f"[{fields}]" in WIRE, fields
    for kind in overlaid:
        assert f'["{kind.__struct_config__.tag}"' in WIRE
