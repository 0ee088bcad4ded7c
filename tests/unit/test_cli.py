"""The `covey` program: answers, exit codes, and one line for every mistake."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import covey
from covey import cli
from covey.commands import bench
from covey.commands.inputs import MAX_INPUT_BYTES

PROGRAM = [sys.executable, "-m", "covey"]


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Ask = Callable[..., Answer]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*arguments: str) -> Answer:
        code = cli.run(arguments)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Let `data` be the standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def assert_one_line(answer: Answer, *parts: str) -> None:
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("covey: ")
    assert answer.err.count("\n") == 1
    assert len(answer.err) < 600
    for part in parts:
        assert part in answer.err


def test_help_and_version() -> None:
    runner = CliRunner()
    result = runner.invoke(cli.app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"covey {covey.__version__}\n"
    for arguments in (["--help"], ["filter", "--help"], ["filter", "match", "-h"], ["bench", "--help"]):
        result = runner.invoke(cli.app, arguments)
        assert result.exit_code == 0
        assert "Usage" in result.output


def test_check_says_what_a_filter_is(ask: Ask) -> None:
    answer = ask("filter", "check", "symbol = 'IBM' and price between 10 and 20", "--json")
    asked = covey.parse("symbol = 'IBM' and price between 10 and 20")
    assert answer.code == 0
    report = answer.json
    assert report["language"] == "attributes"
    assert covey.parse(report["text"]) == asked
    assert report["conjunctions"] == 1
    assert report["encoded_bytes"] == len(asked.encode())
    assert "`price`" in report["spark_sql"]
    lines = ask("filter", "check", "b or a", "--language", "keywords").out.splitlines()
    assert lines == [
        "language       keywords",
        "text           a or b",
        "conjunctions   2",
        "encoded bytes  8",
    ]
    assert "/news/item" in ask("filter", "check", "/news/item", "-l", "xpath").out


@pytest.mark.parametrize(
    ("language", "text", "events", "verdicts"),
    [
        ("attributes", "price > 10", ['{"price": 11}'], [True]),
        ("attributes", "quote.price > 10", ['{"quote": {"price": 11}}', '{"price": 1}'], [True, False]),
        ("xpath", "//item[title]", ["<item><title/></item>", "<item/>"], [True, False]),
        ("keywords", "nokia and phone", ["phone nokia", "nokia"], [True, False]),
        ("keywords", "'new york'", ['["new york", "taxi"]', "new york"], [True, False]),
    ],
)
def test_match_judges_each_event(
    ask: Ask, language: str, text: str, events: list[str], verdicts: list[bool]
) -> None:
    answer = ask("filter", "match", text, *events, "--language", language, "--json")
    assert [result["matches"] for result in answer.json["results"]] == verdicts
    assert answer.code == (0 if all(verdicts) else 1)
    plain = ask("filter", "match", text, *events, "--language", language)
    assert plain.code == answer.code
    lines = plain.out.splitlines()
    assert [line.startswith("matches") for line in lines] == verdicts


def test_match_reads_files_and_standard_input(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "event.json"
    file.write_text('{"a": 1}', encoding="utf-8")
    give(monkeypatch, b'{"a": 2}')
    answer = ask("filter", "match", "a = 1", f"@{file}", "-")
    assert answer.code == 1
    assert [line.split("  ")[0] for line in answer.out.splitlines()] == ["matches", "does not match"]


@pytest.mark.parametrize(
    ("first", "second", "code", "words"),
    [
        ("a > 1", "a > 2", 0, "the first covers the second"),
        ("a > 2", "a > 1", 1, "the second covers the first"),
        ("a > 1", "NOT a <= 1", 0, "equal"),
        ("a > 1", "a < 5", 1, "overlap"),
        ("a > 1", "a < 0", 1, "disjoint"),
    ],
)
def test_covers_says_how_filters_relate(ask: Ask, first: str, second: str, code: int, words: str) -> None:
    answer = ask("filter", "covers", first, second)
    assert answer.code == code
    assert words in answer.out.splitlines()[-1]
    report = ask("filter", "covers", first, second, "--json").json
    assert report["covers"] == (code == 0)
    assert report["equal"] == (words == "equal")
    assert report["overlaps"] == (words != "disjoint")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["filter", "check", "a ="], ["character"]),
        (["filter", "check", "a = 1", "--language", "sql"], ["attributes, xpath, keywords"]),
        (["filter", "check", "(" * 100_000], ["covey"]),
        (["filter", "check", "x" * 1_000_000], ["characters"]),
        (["filter", "match", "a = 1", "{"], ["cannot be read"]),
        (["filter", "match", "a = 1", "[1]"], ["not an array"]),
        (["filter", "match", "a = 1", '{"a": NaN}'], ["cannot be read"]),
        (["filter", "match", "a = 1", '{"a": "\udc80"}'], ["UTF-8"]),
        (["filter", "match", "a = 1", '{"a":' * 40 + "1" + "}" * 40], ["deeper than 32"]),
        (["filter", "match", "a = 1", "[" * 100_000], ["nests too deeply"]),
        (["filter", "match", "a = 1", "x" * (MAX_INPUT_BYTES + 1)], ["1,048,576"]),
        (["filter", "match", "a = 1", "@/no/such\nfile"], ["No such file"]),
        (["filter", "match", "a = 1", "@/"], ["cannot read"]),
        (["filter", "match", "a = 1", "@a\0b"], ["cannot read"]),
        (["filter", "match", "a = 1", "-", "-"], ["once"]),
        (["filter", "match", "//a", "<a>", "-l", "xpath"], ["well-formed"]),
        (["filter", "match", "//a", "\udc80", "-l", "xpath"], ["document"]),
        (["filter", "match", "a", "[1]", "-l", "keywords"], ["every word is a string"]),
        (["filter", "covers", "a > 1", "a >"], ["character"]),
        (["filter", "nothing"], ["nothing"]),
        (["filter", "check"], ["Missing"]),
        (["--nothing"], ["--nothing"]),
        (["bench", "match", "--size", "0"], ["--size"]),
        (["bench", "match", "--size", "many"], ["--size"]),
    ],
)
def test_a_mistake_is_one_line(ask: Ask, arguments: list[str], parts: list[str]) -> None:
    assert_one_line(ask(*arguments), *parts)


@pytest.mark.parametrize("data", [b"\xff", b" " * (MAX_INPUT_BYTES + 1), b""])
def test_bad_standard_input_is_one_line(ask: Ask, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    give(monkeypatch, data)
    assert_one_line(ask("filter", "match", "a = 1", "-"))


def test_bench_prints_what_it_measured(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def run(sizes: tuple[int, ...], progress: Callable[[str], None]) -> list[dict[str, object]]:
        asked.append(sizes)
        progress("measuring")
        return [
            {"workload": "W1", "size": size, "match_us": 1.25, "ratio": 12345.6, "equal": True}
            for size in sizes
        ]

    monkeypatch.setattr(bench, "import_module", lambda name: types.SimpleNamespace(run=run))
    answer = ask("bench", "match", "--size", "10", "--size", "2000", "--json")
    assert [row["size"] for row in answer.json] == [10, 2000]
    assert answer.err == ""
    plain = ask("bench", "cover", "--size", "2000").out
    for part in ("W1", "match µs", "2,000", "1.25", "12,346"):
        assert part in plain
    ask("bench", "xpath")
    assert asked == [(10, 2000), (2000,), bench.DEFAULT_SIZES["xpath"]]


def test_bench_fails_when_answers_differ(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"size": 10, "equal": True}, {"size": 20, "equal": False}]
    monkeypatch.setattr(bench, "import_module", lambda name: types.SimpleNamespace(run=lambda **_: rows))
    answer = ask("bench", "match")
    assert answer.code == 2
    assert "different answers" in answer.err


def test_an_interrupt_ends_quietly(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("covey.commands.filters.parse", interrupted)
    answer = ask("filter", "check", "a = 1")
    assert (answer.code, answer.out) == (130, "")
    assert "Traceback" not in answer.err


def program(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False, env=env
    )


def test_the_program_runs() -> None:
    done = program("filter", "match", "a = 1", '{"a": 1}')
    assert (done.returncode, done.stderr) == (0, "")
    done = program("filter", "check", "a =")
    assert done.returncode == 2
    assert done.stderr.startswith("covey: ")
    assert "Traceback" not in done.stderr


def test_the_program_writes_what_a_terminal_cannot_show() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = program("filter", "check", "-l", "keywords", "ключ", env=environment)
    assert done.returncode == 0
    assert "\\u043a" in done.stdout


def test_the_program_ends_quietly_when_nobody_reads() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*PROGRAM, "filter", "check", "a = 1"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN),
        )
    finally:
        os.close(writer)
    assert done.stderr == ""


def test_importing_covey_does_not_bring_the_compiler() -> None:
    code = "import sys, covey; covey.parse('a = 1'); import covey.cli; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
