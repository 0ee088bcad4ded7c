"""`covey up --dashboard`: a network and its page, as people start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from covey import cli


def test_a_network_and_its_page(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text('links = [["a", "b"], ["b", "c"]]\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "covey", "up", str(file), "--dashboard"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().split() for _ in range(5)]
        assert [line[0] for line in lines] == ["a", "b", "c", "ready", "dashboard"]
        url, token = lines[-1][1].split("#token=")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        login = urllib.request.Request(
            f"{url}api/login",
            data=json.dumps({"token": token}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with opener.open(login, timeout=20) as answer:
            assert json.load(answer) == {"role": "admin"}
        until_s = time.monotonic() + 30
        places: dict[str, object] = {}
        while set(places) != {"a", "b", "c"}:  # until all have said their names
            assert time.monotonic() < until_s, places
            with opener.open(f"{url}api/map", timeout=20) as answer:
                places = json.load(answer)["places"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        with pytest.raises(OSError, match="refused"):  # the page has ended with the network
            opener.open(url, timeout=5)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_network_whose_token_only_its_file_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "network.toml"
    file.write_text(
        f'first_admin_port = 17500\nbrokers = ["a"]\n[settings.admin]\ntoken = "sha256${"0" * 64}"\n'
    )
    assert cli.run(["up", str(file), "--dashboard"]) == 2
    assert "want a token (hint: --token, COVEY_ADMIN_TOKEN)" in capsys.readouterr().err


def test_beyond_this_machine_a_token_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["dashboard", "http://127.0.0.1:1", "--host", "0.0.0.0"]) == 2
    assert "needs the brokers' token" in capsys.readouterr().err


def test_a_dashboard_with_the_view_token_alone_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "view").write_text("only-for-looking\n")
    command = ["dashboard", "http://127.0.0.1:9", "--port", "0", "--view-token-file", str(tmp_path / "view")]
    process = subprocess.Popen(
        [sys.executable, "-m", "covey", *command],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COVEY_ADMIN_TOKEN": ""},
    )
    assert process.stdout is not None
    try:
        word, url = process.stdout.readline().split()
        assert (word, "#" in url) == ("dashboard", False)  # no other token is made
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )

        def post(path: str, body: bytes) -> int:
            request = urllib.request.Request(
                url + path, data=body, headers={"Content-Type": "application/json"}
            )
            try:
                with opener.open(request, timeout=20) as answer:
                    assert json.load(answer) == {"role": "viewer"}
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        assert post("api/login", b'{"token": ""}') == 401
        assert post("api/login", b'{"token": "only-for-looking"}') == 200
        assert post("api/install?broker=a", b"") == 403
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
