"""The client for programs without asyncio, used from several threads, beside a broker in another."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.e2e.helpers.running import free_port
from tests.e2e.helpers.scripted import Scripted, url

import covey
from covey.client.sync import Calls, SyncReceived
from covey.errors import LinkError


def until(is_true: Callable[[], object], limit_s: float = 30.0) -> None:
    end_s = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_the_same_words(address: str) -> None:
    with covey.connect_sync(address) as client:
        assert client.is_open
        assert client.is_connected
        assert client.broker == "a"
        number = client.advertise("x > 0")
        with client.subscribe("x > 5") as events:
            client.flush()
            client.publish({"x": 6}, b"payload")
            assert client.publish_many([{"x": 1}, ({"x": 7}, b"1"), covey.Event({"x": 8}, b"2")]) == 3
            first = events.next(5)
            assert (first["x"], first.data) == (6, b"payload")
            assert [events.next(5).data for _ in range(2)] == [b"1", b"2"]
            events.replace("x > 100")
            client.publish_many([{"x": 50}, {"x": 101}])
            for event in events:
                assert event["x"] == 101
                break
            with pytest.raises(covey.TimedOutError):
                events.next(0.05)
            with pytest.raises(covey.CoveyError, match="durable"):
                event.ack()
            assert events.received == 4
            assert events.dropped == 0
            assert str(events.filter) == "x > 100"
        assert list(events) == []
        client.unadvertise(number)
        with pytest.raises(covey.EventError):
            client.publish(5)
        with pytest.raises(covey.FilterError):
            client.subscribe("x >")
    assert not client.is_open
    client.close()
    with pytest.raises(covey.LinkError, match="closed"):
        client.publish({"x": 1})
    with pytest.raises(covey.LinkError, match="closed"):
        client.flush()


def test_many_threads_publish_and_each_keeps_its_order(address: str) -> None:
    with (
        covey.connect_sync(address) as client,
        covey.connect_sync(address) as other,
        other.subscribe("n >= 0") as events,
    ):

        def publish(thread: int) -> None:
            for n in range(3_000):
                client.publish({"n": n, "thread": thread}, b"-" * 100)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(publish, range(4)))
        client.flush()
        got: dict[int, list[int]] = {}
        for _ in range(12_000):
            event = events.next(10)
            got.setdefault(event["thread"], []).append(event["n"])
        assert got == {thread: list(range(3_000)) for thread in range(4)}


def test_a_callback_runs_in_a_thread_and_drain_waits_for_it(address: str) -> None:
    errors: list[Exception] = []
    done: list[tuple[int, str]] = []

    def slowly(event: SyncReceived) -> None:
        time.sleep(0.001)
        done.append((event["x"], threading.current_thread().name))
        if event["x"] == 3:
            raise ValueError("three")

    client = covey.connect_sync(address, on_error=errors.append)
    client.subscribe("x >= 0", callback=slowly)
    client.publish_many([{"x": x} for x in range(50)])
    client.flush()
    client.drain(10)
    assert [x for x, _ in done] == list(range(50))
    assert threading.current_thread().name not in {name for _, name in done}
    assert [str(error) for error in errors] == ["three"]
    assert not client.is_open


def test_whoever_waits_is_told_when_the_client_is_closed(address: str) -> None:
    client = covey.connect_sync(address)
    events = client.subscribe("x > 0")
    with ThreadPoolExecutor(3) as pool:
        nexts = [pool.submit(events.next) for _ in range(2)]
        rest = pool.submit(list, events)
        time.sleep(0.1)
        client.close()
        for one in nexts:
            with pytest.raises(covey.CoveyError):
                one.result(5)
        assert rest.result(5) == []


def test_nobody_there_is_one_line_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(covey.LinkError, match="no broker can be reached"):
        covey.connect_sync(url(free_port()))
    with pytest.raises(covey.ConfigError):
        covey.connect_sync("http://x")
    with pytest.raises(TypeError):
        covey.connect_sync(nonsense=1)
    assert threading.active_count() == before


def test_confirming_acknowledging_and_hooks() -> None:
    calls = Calls("scripted")
    store = Scripted()
    calls.call(store.__aenter__())
    try:
        failures: list[Exception] = []

        def hook(reason: str) -> None:
            try:
                client.flush()
            except covey.CoveyError as error:
                failures.append(error)

        with covey.connect_sync(store.url, name="worker", on_disconnect=hook) as client:
            client.publish({"x": 1})
            client.publish({"x": 2}, confirm=True)
            assert client.publish_many([{"x": 3}, {"x": 4}], confirm=True) == 2
            assert [envelope.number for envelope in store.envelopes] == [1, 2, 3, 4]
            with client.subscribe("x > 0", durable="jobs") as events:
                calls.do(lambda: store.deliver(1, {"x": 1}, position=9))
                events.next(5).ack()
                until(lambda: store.acknowledgements)
            calls.do(store.cut)
            until(lambda: failures)
            assert "must not wait for its own client" in str(failures[0])
    finally:
        calls.call(store.__aexit__())
        calls.stop()


def test_calls_that_are_under_way_when_the_loop_stops_end() -> None:
    calls = Calls("short")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: calls.call(asyncio.sleep(60)))
        time.sleep(0.05)
        calls.stop()
        with pytest.raises(LinkError, match="closed"):
            waiting.result(5)
    with pytest.raises(LinkError, match="closed"):
        calls.do(print)
    calls.stop()


INTERRUPTED = """
import asyncio, signal, threading, time
from covey.client.sync import Calls

calls = Calls("waits")
aside = threading.Thread(target=time.sleep, args=(20,), daemon=True)
aside.start()
threading.Timer(0.3, lambda: signal.pthread_kill(aside.ident, signal.SIGINT)).start()
began_s = time.monotonic()
try:
    calls.call(asyncio.sleep(15))
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began_s < 10)
"""


def test_ctrl_c_is_noticed_though_the_wait_was_not_interrupted() -> None:
    """As when the signal comes just before the wait begins: Python then waits on with the signal in its pocket."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted True\n", "")
