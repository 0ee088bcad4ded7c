"""`covey password` and `covey token`: what they print goes into a configuration and works there."""

from __future__ import annotations

import io
import json
import sys

import pytest

from covey import cli
from covey.broker.security import check_password, find_token, read_password_hash, read_token_hash


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"", b"\nmore"])
def test_a_password_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: bytes
) -> None:
    give(monkeypatch, "corréct horse".encode() + end)
    assert cli.run(["password"]) == 0
    assert check_password("corréct horse", read_password_hash(capsys.readouterr().out.strip()))


def test_a_password_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    give(monkeypatch, b"horse\n")
    assert cli.run(["password", "--json"]) == 0
    assert check_password("horse", read_password_hash(json.loads(capsys.readouterr().out)["password"]))


@pytest.mark.parametrize("data", [b"", b"\n", b"x" * 2_000, b"\xff\xfe\n"])
def test_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    give(monkeypatch, data)
    assert cli.run(["password"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("covey: ")
    assert error.count("\n") == 1


def test_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["token", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert find_token(made["token"], [read_token_hash(made["hash"])]) == 0
    assert cli.run(["token"]) == 0
    assert made["token"] not in capsys.readouterr().out
