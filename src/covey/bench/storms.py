"""Storms: what one client's event takes while another client does its worst, beside the same on a calm broker.

For each case two brokers run, a and b, linked to each other. A calm pair of clients of broker a, a publisher and a
subscriber, is measured at a steady rate: first alone, then while a storm is let loose on broker a by a process of its
own (`storm_kinds`). All of it is on this machine, over loopback. Columns:

    storm                             the case
    calm_p50_ms, calm_p99_ms          from sending to the subscriber's process, before the storm
    p50_ms, p99_ms, worst_ms          the same during the storm
    aim_ms, is_met                    what the p99 should be below: twice the calm p99, and 5 ms; and whether it is
    lost                              events of the calm pair that did not arrive
    done                              what the storm has done, in requests, events or connections
    broker_cpu_s                      CPU time of broker a during the storm
    memory_mb, bound_mb               by how much the memory of broker a grew at most, and what is documented for that
    links_lost                        how often the link between the brokers went down, as broker b has it
    steal_ms                          how long the host kept the machine's CPUs from it during the storm
    broker_wait_ms, clients_wait_ms   how long broker a, and the calm pair, could run and had no CPU

The last two say what the machine did to the figures: on a machine whose CPUs the storm's own process shares, a broker
that is idle is late too.
"""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from covey.bench import usage
from covey.bench.network_load import (
    PATIENCE_S,
    Arrived,
    Counter,
    Load,
    Program,
    Received,
    publisher,
    subscriber,
)
from covey.bench.network_peers import CoveyClient
from covey.bench.storm_kinds import STORMS, Steady, Storm, Target, storm
from covey.bench.timing import Row, rounded
from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig
from covey.broker.process import Family, listen
from covey.errors import CoveyError

RATE: Final = 500.0  # events a second of the calm pair
EVENT_BYTES: Final = 200
CALM_S: Final = 3.0
STORM_S: Final = 8.0
QUICK_S: Final = 0.4
LEASE_S: Final = 10.0
NAMES: Final = tuple(one.name for one in STORMS)

Progress = Callable[[str], None]


class Network(NamedTuple):
    """The two brokers that run."""

    target: Target  # broker a, as storms reach it
    pid: int
    neighbour_admin: int  # the port of broker b's pages

    def links_lost(self) -> int:
        """Return how often the link to broker a went down, as broker b has it; one more while it is down."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.neighbour_admin}/linkz?limit=1000", timeout=PATIENCE_S
        ) as answer:
            page = json.load(answer)
        is_up = any(row["link"] == "a" and row["up"] for row in page["rows"])
        return sum(bool(one["link"] == "a") for one in page["ended"]) + int(not is_up)


@contextlib.contextmanager
def brokers(settings: Mapping[str, object]) -> Iterator[Network]:
    """Run two linked brokers; the first one has these settings."""
    sockets = {name: listen("127.0.0.1", 0) for name in "ab"}
    ports = {name: int(one.getsockname()[1]) for name, one in sockets.items()}
    admin = {name: _free_port() for name in "ab"}
    own: dict[str, dict[str, object]] = {"a": {"links": (LinkConfig("b"),), **settings}, "b": {}}
    own["b"]["links"] = (LinkConfig("a", "127.0.0.1", ports["a"]),)
    configs = {
        name: BrokerConfig(
            name=name,
            port=ports[name],
            lease_s=LEASE_S,
            log_level="error",
            admin=AdminConfig(port=admin[name], events=True),
            **own[name],  # type: ignore[arg-type]
        )
        for name in "ab"
    }
    family = Family()
    try:
        family.start(configs, sockets)
        family.wait("ready", 60.0)
        family.wait("linked", 60.0)
        yield Network(Target(ports["a"], admin["a"]), family.children[0].pid, admin["b"])
    finally:
        family.stop(10.0)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def run(
    progress: Progress,
    *,
    cases: Sequence[str] = NAMES,
    calm_s: float = CALM_S,
    storm_s: float = STORM_S,
    size: float = 1.0,
) -> list[Row]:
    """Return a row for each of the cases; `size` is how much of each storm there is, 1 for all of it."""
    Counter.compile()
    rows = []
    for case in STORMS:
        if case.name in cases:
            progress(case.name)
            with brokers(case.settings()) as network:
                rows.append(_case(case, network, calm_s, storm_s, size))
    return rows


def _case(case: Storm, network: Network, calm_s: float, storm_s: float, size: float) -> Row:
    arrived, port = Arrived(), network.target.port
    patience_s = calm_s + storm_s + 4 * PATIENCE_S
    load = Load(1, EVENT_BYTES, RATE)
    with (  # the storm first: it may prepare for long, and the calm clients would fall silent
        Program(storm, case.name, network.target, size, patience_s=patience_s * 4) as storming,
        Program(subscriber, Steady, port, 1, EVENT_BYTES, arrived, patience_s=patience_s) as receiving,
        Program(publisher, CoveyClient, port, load, arrived, patience_s=patience_s) as publishing,
    ):
        _once(publishing, receiving, calm_s * 0.2)
        _, calm = _once(publishing, receiving, calm_s)
        pids = {"broker": (network.pid,), "clients": (publishing.pid, receiving.pid)}
        before = {who: usage.reading(some) for who, some in pids.items()}
        steal_s, memory, lost_before = usage.steal_s(), _memory(network.pid, "VmRSS"), network.links_lost()
        _forget_peak(network.pid)
        storming.say(storm_s)
        sent, stormy = _once(publishing, receiving, storm_s)
        done = storming.expect()
        used = {who: usage.between(before[who], usage.reading(some)) for who, some in pids.items()}
        steal_s = usage.steal_s() - steal_s
        grown = _memory(network.pid, "VmHWM") - memory
        links_lost = network.links_lost() - lost_before
    calm_ms, storm_ms = calm.delays_ns / 1e6, stormy.delays_ns / 1e6
    aim_ms = 2 * float(np.percentile(calm_ms, 99)) + 5.0
    row: Row = {
        "storm": case.name,
        "calm_p50_ms": float(np.percentile(calm_ms, 50)),
        "calm_p99_ms": float(np.percentile(calm_ms, 99)),
        "p50_ms": float(np.percentile(storm_ms, 50)),
        "p99_ms": float(np.percentile(storm_ms, 99)),
        "worst_ms": float(storm_ms.max()),
        "aim_ms": aim_ms,
        "is_met": bool(np.percentile(storm_ms, 99) <= aim_ms),
        "lost": sent - stormy.events,
        "done": done,
        "broker_cpu_s": used["broker"].cpu_s,
        "memory_mb": max(0.0, grown / 1e6) if grown == grown else nan,
        "bound_mb": case.bound_bytes / 1e6,
        "links_lost": links_lost,
        "steal_ms": steal_s * 1e3,
        "broker_wait_ms": used["broker"].waited_s * 1e3,
        "clients_wait_ms": used["clients"].waited_s * 1e3,
    }
    return rounded(row)


def _once(publishing: Program, receiving: Program, seconds: float) -> tuple[int, Received]:
    """Let the calm pair go on for some seconds; return how many events were sent, and what was received."""
    receiving.say(True)
    publishing.say(seconds)
    sent = publishing.expect()
    receiving.say(sent.events)
    received: Received = receiving.expect()
    if not received.events:
        raise CoveyError("no event of the calm clients arrived")
    return sent.events, received


def _memory(pid: int, field: str) -> float:
    """Return what the system says of a process's memory, in bytes; NaN where it does not."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024.0
    return nan


def _forget_peak(pid: int) -> None:
    """Let the peak of a process's memory begin anew, where the system allows it."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def said(rows: Sequence[Row]) -> str:
    """Return in one line how many storms have met the aim, and which have not."""
    missed = [str(row["storm"]) for row in rows if not row["is_met"] or row["links_lost"] or row["lost"]]
    if not missed:
        return f"all {len(rows)} storms met the aim"
    return f"{len(rows) - len(missed)} of {len(rows)} storms met the aim; not: {', '.join(missed)}"
