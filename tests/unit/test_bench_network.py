"""`covey bench network`: every server at tiny sizes, what is counted and what is said; no figure is judged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan, nan
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_bench_comparison import made

import covey
from covey import cli
from covey.bench import network, network_load, network_peers, usage
from covey.bench.comparison import Circumstances, Comparison, load, save
from covey.bench.document import PICTURE, block
from covey.bench.network import Case, by_hops, by_subscribers
from covey.bench.network_load import HEAD_BYTES, STAMP, Arrived, Batch, Counter, payload_of
from covey.bench.network_peers import COVEY, FORWARDER, PEERS, ForwarderClient, Peer, Served
from covey.bench.tables import DISTURBANCES, live_table
from covey.bench.timing import Row
from covey.errors import CoveyError

TINY = (
    network.ONE_TO_ONE,
    Case("3 to 1", ("publishers",), publishers=3),
    by_subscribers(3),
    Case("3 publishers, 300 a second", ("publishers",), publishers=3, rate=300),
    Case("2 publishers, 500 a second singly", ("publishers",), publishers=2, rate=500, singly=True),
    Case("64 KB", ("bytes",), event_bytes=1 << 16),
    by_hops(2),
)


def silent(_: str) -> None:
    pass


# -- whole runs ----------------------------------------------------------------------------------------------


def test_every_server_that_is_installed_delivers_every_event() -> None:
    rows = network.run(silent, cases=TINY, seconds=0.05, filters=20)
    there = [peer for peer in (COVEY, *PEERS) if not peer.missing()]
    assert {COVEY, FORWARDER} <= set(there)
    measured = [row for row in rows if row["workload"] != network.NOT_MEASURED]
    assert [(row["workload"], row["system"], row["lost"]) for row in measured] == [
        (case.name, peer.name, 0) for case in TINY for peer in there if case.hops == 1 or peer.has_hops
    ]
    for row in measured:
        assert row["events"] > 0
        assert row["client"].startswith("raw, ")
        assert (row["p50_ms"] is None) == ("a second" not in row["workload"])
        if row["p50_ms"] is not None:
            assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
        for name in ("steal_ms", "server_wait_ms", "publisher_wait_ms", "subscriber_wait_ms"):
            assert not row[name] < 0  # NaN where the system keeps no accounts
    assert {row["system"] for row in rows if row not in measured} == {p.name for p in PEERS if p.missing()}


def test_comparisons_have_axes_of_three_sizes_to_grow_along() -> None:
    sizes: dict[str, set[int]] = {}
    for case in network.CASES:
        if not case.rate:
            for axis in case.axes:
                sizes.setdefault(axis, set()).add(case.size(axis))
    assert sizes == {
        "bytes": {200, 1_024, 8_192, 65_536},
        "publishers": {1, 10},
        "subscribers": {1, 10, 100},
        "hops": {1, 2, 3},
    }
    assert {(case.publishers, case.rate, case.singly) for case in network.CASES if case.rate} == {
        (1, 1_000, False),
        (100, 10_000, False),
        (100, 30_000, True),
    }


def test_the_command_measures_the_cases_that_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--case", "1 to 1", "--hops", "1", "--no-peers", "--seconds", "0.05", "--filters", "5"]
    assert cli.run(["bench", "network", *words]) == 0
    printed = capsys.readouterr().out
    assert "Network: 1 to 1" in printed
    assert "covey" in printed


@pytest.mark.parametrize(
    "words",
    [
        ["--case", "none"],
        ["--hops", "0"],
        ["--subscribers", "1001"],
        ["--seconds", "0"],
        ["--filters", "-1"],
    ],
)
def test_mistakes_are_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "network", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# -- what is missing, lost or said twice ---------------------------------------------------------------------


class Boasting(ForwarderClient):
    """Says that it sends twice as many events as it does."""

    def batch(self, event_bytes: int, events: int) -> Batch:
        whole = super().batch(event_bytes, events)
        return Batch(whole.data, [*whole.stamps, *whole.stamps])


class Modest(ForwarderClient):
    """Does not say of half of its events that it sends them."""

    def batch(self, event_bytes: int, events: int) -> Batch:
        whole = super().batch(event_bytes, events)
        return Batch(whole.data, whole.stamps[::2])


def test_events_that_do_not_arrive_or_come_twice_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_load, "PATIENCE_S", 0.3)
    monkeypatch.setattr(network_load, "WINDOW_BYTES", 1 << 40)
    peers = tuple(
        Peer(client.__name__, network_peers.forwarders, client, "raw") for client in (Boasting, Modest)
    )
    monkeypatch.setattr(network, "PEERS", peers)
    case = Case("even", ("bytes",), event_bytes=1 << 14)  # four events a batch
    _, boasting, modest = network.run(
        silent, cases=[case], peers=("Boasting", "Modest"), seconds=0.01, filters=1
    )
    assert boasting["lost"] == boasting["events"] // 2
    assert modest["lost"] == -modest["events"]


@contextmanager
def broken(hops: int, filters: int) -> Iterator[Served]:
    raise CoveyError("it does\nnot start")
    yield


def test_a_peer_that_is_not_installed_or_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        network,
        "PEERS",
        (
            Peer("gone", broken, ForwarderClient, "raw", program="gone-server"),
            Peer("unpacked", broken, ForwarderClient, "raw", package="gone_package"),
            Peer("broken", broken, ForwarderClient, "raw"),
        ),
    )
    found = network.compare(
        silent, cases=TINY[:1], peers=("gone", "unpacked", "broken"), seconds=0.05, filters=1
    )
    assert [(one.work, one.note) for one in found] == [
        ("beside gone", "not measured: the program gone-server is not installed"),
        ("beside unpacked", "not measured: the Python package gone_package is not installed"),
        ("beside broken", "not measured: 1 to 1: it does not start"),
    ]


def figures(system: str, *, lost: int = 0, server_us: float = 1.0, p99_ms: float | None = None) -> Row:
    return {
        "workload": "1 to 3",
        "system": system,
        "client": f"raw, as {system} has it",
        "lost": lost,
        "server_us": server_us,
        "p50_ms": p99_ms,
        "p99_ms": p99_ms,
        "steal_ms": 10.0,
        "server_wait_ms": 4.0,
        "publisher_wait_ms": 1.0,
        "subscriber_wait_ms": 2.0,
    }


def compared(ours: Row, theirs: Row) -> list[Comparison]:
    return network.compared([ours, theirs], [by_subscribers(3)])


def test_what_we_lose_is_a_wrong_answer_and_what_peers_lose_is_said() -> None:
    (one,) = compared(figures("covey", lost=1), figures("forwarder"))
    assert one.equal is False
    (one,) = compared(figures("covey"), figures("forwarder", lost=-1))
    assert one.equal is False
    (one,) = compared(figures("covey"), figures("mosquitto", lost=1_200))
    assert (one.ours, one.equal, one.note) == (None, None, "it lost 1,200 deliveries")


def test_each_figure_is_a_comparison_with_the_circumstances_of_both() -> None:
    cpu, p50, p99 = compared(
        figures("covey", server_us=1.2, p99_ms=4.0), figures("nats", server_us=0.6, p99_ms=2.0)
    )
    assert (cpu.axis, cpu.size, cpu.unit, cpu.ours, cpu.baseline, cpu.theirs, cpu.ratio, cpu.equal) == (
        "subscribers",
        3,
        "µs",
        1.2,
        "nats",
        0.6,
        0.5,
        True,
    )
    assert ("CPU time" in cpu.work, "p50" in p50.work, "p99" in p99.work) == (True, True, True)
    assert p99.theirs_under == Circumstances(
        case="1 to 3",
        figure="p99",
        client="raw, as nats has it",
        steal_ms=10.0,
        server_wait_ms=4.0,
        client_wait_ms=3.0,
    )
    assert compared(figures("covey", server_us=nan), figures("nats")) == []  # where /proc does not tell


def test_circumstances_are_saved_and_shown_on_the_page(tmp_path: Path) -> None:
    found = compared(figures("covey", server_us=1.2, p99_ms=4.0), figures("nats", server_us=0.6, p99_ms=2.0))
    found += compared(
        figures("covey", server_us=1.2, p99_ms=4.0), figures("zenoh", server_us=0.7, p99_ms=3.0)
    )
    path = tmp_path / "rows.json"
    save(made(found), path)
    assert load(path).comparisons == found
    assert live_table(found) == (
        ("case", "system", "client", "servers' CPU time, a delivery", "p50", "p99", *DISTURBANCES),
        [
            ("1 to 3", "ours", "raw, as covey has it", "1.2 µs", "4 ms", "4 ms", "10", "4", "3"),
            ("1 to 3", "nats", "raw, as nats has it", "0.6 µs", "2 ms", "2 ms", "10", "4", "3"),
            ("1 to 3", "zenoh", "raw, as zenoh has it", "0.7 µs", "3 ms", "3 ms", "10", "4", "3"),
        ],
    )
    assert "| zenoh | raw, as zenoh has it | 0.7 µs | 3 ms | 3 ms | 10 | 4 | 3 |" in block(
        load(path), PICTURE
    )
    assert "steal" not in block(made([]), PICTURE)
    assert live_table([])[1] == []


# -- its parts -----------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.integers(-(2**63), 2**63 - 1)), max_size=6),
    st.integers(0, 50),
    st.lists(st.integers(1, 90), min_size=1),
)
def test_marks_are_counted_however_the_stream_is_cut(
    events: list[tuple[bytes, int]], more: int, cuts: list[int]
) -> None:
    size = HEAD_BYTES + more
    stream = bytearray()
    for head, stamp in events:
        stream += head + payload_of(size)
        STAMP.pack_into(stream, len(stream) - size + HEAD_BYTES - STAMP.size, stamp)
    room = bytearray(256)
    counter = Counter(room, size)
    seen: list[int] = []
    turn = 0
    while stream:
        some = stream[: cuts[turn % len(cuts)]]
        del stream[: len(some)]
        turn += 1

        def receive_into(view: memoryview, some: bytes = bytes(some)) -> int:
            view[: len(some)] = some
            return len(some)

        seen += [STAMP.unpack_from(room, at)[0] for at in counter.take(receive_into).tolist()]
    assert seen == [stamp for _, stamp in events]


def test_a_stream_that_ends_is_an_error() -> None:
    with pytest.raises(CoveyError, match="ended"):
        Counter(bytearray(100), 30).take(lambda _: 0)


def test_a_filter_of_others_matches_no_event_that_is_measured() -> None:
    others = [covey.parse(network_peers.other_filter(number)) for number in range(1_000)]
    assert len(set(others)) == 1_000
    assert not any(
        one.matches(network_peers.content_of(number)) for one in others for number in range(0, 700, 9)
    )


def test_a_busy_process_uses_the_cpu_and_one_without_accounts_has_no_figures() -> None:
    with network_load.Program(_busy) as program:
        before = usage.reading([program.pid])
        program.say("work")
        used = program.expect()
        found = usage.between(before, usage.reading([program.pid]))
    assert found.cpu_s > 0.9 * used
    assert found.waited_s >= 0
    assert usage.steal_s() >= 0
    assert all(map(isnan, usage.between({}, usage.reading([2**22 + 1]))))


def _busy(pipe: Connection) -> None:
    pipe.send("ready")
    pipe.recv()
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    pipe.send(time.process_time() - began)
    pipe.recv()


def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(CoveyError, match="ConnectionRefusedError"):
        network_load.Program(_refused)


def _refused(pipe: Connection) -> None:
    network_load.subscriber(pipe, ForwarderClient, network_peers._free_port(), 1, 200, Arrived())
