"""`covey pub` and `covey sub`: what they print, their exit codes, one line for every mistake, and Ctrl-C."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from tests.e2e.helpers.running import Done, free_port
from tests.e2e.helpers.scripted import Scripted, url

import covey
from covey import cli
from covey.client.sync import Calls
from covey.protocol.control import Goodbye

Ask = Callable[..., Done]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str) -> Ask:
    monkeypatch.setenv("COVEY_URL", address)

    def run(*arguments: str, given: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = cli.run(arguments)
        return Done(code, *capsys.readouterr())

    return run


def assert_one_line(done: Done, *parts: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("covey: ")
    assert done.err.count("\n") == 1
    for part in parts:
        assert part in done.err


class Listener:
    """`covey sub` in a process."""

    def __init__(self, address: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "covey", "sub", "-u", address, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.first = "" if "-q" in arguments else self.process.stderr.readline()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self) -> Done:
        out, err = self.process.communicate(timeout=30)
        return Done(self.process.returncode, out, err)


def test_what_is_published_is_printed(ask: Ask, address: str) -> None:
    with Listener(address, "price > 10", "--count", "3", "--data") as plain:
        assert plain.first == "covey: subscribed at broker a: price > 10\n"
        assert ask("pub", "price=12", "symbol=IBM", "ok=true", 'zip="01"').out == "published 1 event\n"
        ask("pub", "price=5")
        ask("pub", '{"price": 13.5, "quote": {"size": 2}}', "--data", "two\nlines\\")
        assert ask("pub", "price=20", "-n", "2").out == "published 2 events\n"
        done = plain.end()
    assert done.code == 0
    assert done.err == ""
    assert done.out.splitlines() == [
        '{"price":12,"symbol":"IBM","ok":true,"zip":"01"}\t',
        '{"price":13.5,"quote.size":2}\ttwo\\nlines\\\\',
        '{"price":20}\t',
    ]


def test_json_lines_go_round(ask: Ask, address: str) -> None:
    with Listener(address, "n > 0", "--json", "--count", "2") as first:
        assert ask("pub", "-", "--data", "x", given=b'{"n": 1}\n\n{"n": 0}\n').out == "published 2 events\n"
        with covey.connect_sync(address) as client:
            client.publish({"n": 2}, b"\xff\x00")
        printed = first.end().out
    shown = [json.loads(line) for line in printed.splitlines()]
    assert [(one["content"], one.get("data"), one.get("data_base64")) for one in shown] == [
        ({"n": 1}, "x", None),
        ({"n": 2}, None, "/wA="),
    ]
    with covey.connect_sync(address) as client, client.subscribe("n > 0") as events:
        assert ask("pub", "-", "--json", given=printed.encode()).code == 0
        got = [events.next(10) for _ in range(2)]
        assert [(one["n"], one.data) for one in got] == [(1, b"x"), (2, b"\xff\x00")]


def test_words_and_documents(ask: Ask, address: str) -> None:
    with Listener(address, "nokia", "-l", "keywords", "-n", "2") as words:
        assert ask("pub", "phone", "nokia", "-l", "keywords").code == 0
        assert ask("pub", "-", "-l", "keywords", given=b"siemens\nnokia mast\n").code == 0
        assert words.end().out == "nokia phone\nmast nokia\n"
    with Listener(address, "//item", "-l", "xpath", "-n", "1", "-q", "--timeout", "30") as documents:
        # With --quiet nothing says that it is in force: publish until it has ended.
        while documents.process.poll() is None:
            assert ask("pub", "<news><item/></news>", "-l", "xpath").code == 0
        assert documents.end() == (0, "<news><item/></news>\n", "")


def test_mistakes_are_one_line(ask: Ask) -> None:
    nobody = url(free_port())
    assert_one_line(ask("pub", "a=1", "-u", nobody), "no broker can be reached at")
    assert_one_line(ask("sub", "a = 1", "-u", nobody), "no broker can be reached at")
    assert_one_line(ask("pub", "a=1", "-u", "http://x"), "is no address of a broker")
    assert_one_line(ask("pub", "price"), "expected NAME=VALUE")
    assert_one_line(ask("pub", "=5"), "expected NAME=VALUE")
    assert_one_line(ask("pub", "{"), "the event cannot be read")
    assert_one_line(ask("pub", "[1]", "-l", "xpath"))
    assert_one_line(ask("pub", "<a/>", "<b/>", "-l", "xpath"), "one event, not 2")
    assert_one_line(ask("pub", "a=1", "-l", "sql"), "no filter language")
    assert_one_line(ask("pub", "a=1", "--data", "@/nowhere"), "cannot read '/nowhere'")
    assert_one_line(ask("pub", "a=1", "--json"), "standard input")
    assert_one_line(ask("pub", "-", given=b'{"a": 1}\n{"a"\n'), "line 2 of standard input: the event")
    assert_one_line(ask("pub", "-", given=b"\xff\n"), "line 1 of standard input is not UTF-8")
    assert_one_line(ask("pub", "-", "--json", given=b"{}\n"), "line 1", "content")
    assert_one_line(
        ask("pub", "-", "--json", given=b'{"content": {}, "data_base64": "?"}'), "line 1", "base64"
    )
    assert_one_line(ask("sub", "a ="), "character")
    assert_one_line(ask("sub", "a = 1", "--durable", "x"), "--durable needs --name")
    assert_one_line(ask("pub", "a=1", "--tls-ca", "/nowhere"), "TLS")
    assert_one_line(ask("pub", "a=1", "--tls-key", "/nowhere"), "--tls-cert")
    assert_one_line(ask("pub", "a=1", "--token", "a", "--user", "b"), "not both")


def test_nothing_in_time_is_exit_code_1(ask: Ask) -> None:
    done = ask("sub", "never = 1", "--timeout", "0.1")
    assert done.code == 1
    assert done.out == ""


def test_confirming_is_waited_for_and_refusals_are_told() -> None:
    calls = Calls("scripted")
    for confirm, refusal in ((True, None), (False, None), (True, Goodbye("go away", retry=False))):
        store = Scripted(welcome=refusal)
        store.confirm = confirm
        calls.call(store.__aenter__())
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "covey",
                    "pub",
                    "a=1",
                    "--confirm",
                    "--timeout",
                    "0.5",
                    "-u",
                    store.url,
                ],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            calls.call(store.__aexit__())
        if refusal is not None:
            assert_one_line(Done(done.returncode, done.stdout, done.stderr), "says: go away")
        elif confirm:
            assert (done.returncode, done.stdout) == (0, "published 1 event, confirmed\n")
        else:
            assert_one_line(Done(done.returncode, done.stdout, done.stderr), "not confirmed within 0.5 s")
    calls.stop()


def test_durable_events_are_acknowledged_after_they_are_printed() -> None:
    calls = Calls("scripted")
    store = Scripted()
    calls.call(store.__aenter__())
    try:
        arguments = ("x > 0", "--durable", "jobs", "--name", "me", "-n", "2", "--json")
        with Listener(store.url, *arguments) as listener:
            calls.do(lambda: store.deliver(1, {"x": 1}, {"x": 2}, position=5))
            out = listener.end().out
        assert [json.loads(line)["position"] for line in out.splitlines()] == [5, 6]
        assert b"".join(store.acknowledgements).count(b"\x05\x00\x00\x00\x00\x00\x00\x00") == 1
        assert b"".join(store.acknowledgements).count(b"\x06\x00\x00\x00\x00\x00\x00\x00") == 1
    finally:
        calls.call(store.__aexit__())
        calls.stop()


def test_ctrl_c_ends_without_a_word(address: str) -> None:
    with Listener(address, "price > 10") as listener:
        listener.process.send_signal(signal.SIGINT)
        done = listener.end()
    assert done == (130, "", "")


def test_ctrl_c_ends_a_publisher_that_waits_for_its_input(address: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "covey", "pub", "-", "-u", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    with covey.connect_sync(address) as client, client.subscribe("x = 1") as events:
        process.stdin.write('{"x": 1}\n')
        process.stdin.flush()
        assert events.next(30)["x"] == 1  # at once, not when the input ends
    process.send_signal(signal.SIGINT)
    timer = threading.Timer(30, process.kill)
    timer.start()
    assert process.stdout is not None
    assert process.stderr is not None
    assert (process.wait(), process.stdout.read(), process.stderr.read()) == (130, "", "")
    timer.cancel()
    process.communicate()
