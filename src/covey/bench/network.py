"""Events through real servers on this machine: what the server pays for each, beside other servers in the same run.

Publishers, servers and subscribers are processes of their own, on loopback. The clients of all servers are of one kind
(`network_load`): bytes that were built before go out, and what comes in is counted and not decoded. A broker has the
filters of others besides, none of which matches. All servers run the whole time; each case is measured with one after
the other, so that a disturbance of the machine meets all of them alike. Columns:

    workload, system, client    the case; whose server; what the programs at both ends were
    seconds, events             how long the publishers sent, and how many events
    events_s                    events a second that were delivered, all subscribers together
    lost                        deliveries that did not arrive; below 0, those that came twice
    server_us                   CPU time of the servers, all hops together, for each delivery
    publisher_us, subscriber_us CPU time of the load's two processes, for each event and for each delivery
    p50_ms, p99_ms, max_ms      from sending to the subscriber's process, where events are sent at even times
    steal_ms                    how long the host kept the machine's CPUs from it meanwhile, all CPUs together
    server_wait_ms, publisher_wait_ms, subscriber_wait_ms
                                how long threads of these processes could run and had no CPU

The last four say what the machine did to the figures of their row: a percentile is the server's own only where they
are small.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from covey.bench import usage
from covey.bench.comparison import Circumstances, Comparison
from covey.bench.network_load import (
    PATIENCE_S,
    Arrived,
    Counter,
    Load,
    Program,
    Received,
    Sent,
    publisher,
    subscriber,
)
from covey.bench.network_peers import COVEY, FORWARDER, PEERS, Peer, Served
from covey.bench.timing import Row, rounded
from covey.errors import CoveyError

SECONDS: Final = 2.0
QUICK_SECONDS: Final = 0.2
FILTERS: Final = 10_000
EVENT_BYTES: Final = 200
WARM_UP: Final = 0.2  # of a case's seconds, before anything is counted
NOT_MEASURED: Final = "not measured"
NAMES: Final = tuple(peer.name for peer in PEERS)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """What is published and who gets it; with a `rate`, events a second in all, latency is measured too.

    With `singly`, no more events are on the way than there are publishers: a server reads one at a time, and is given
    fewer a second if it is not fast enough.

    `axes` are what this case is a size of, for costs that grow: bytes, publishers, subscribers or hops.
    """

    name: str
    axes: tuple[str, ...]
    publishers: int = 1
    subscribers: int = 1
    event_bytes: int = EVENT_BYTES
    rate: float = 0.0
    singly: bool = False
    hops: int = 1

    def size(self, axis: str) -> int:
        """Return how much of this it has."""
        sizes = {
            "bytes": self.event_bytes,
            "publishers": self.publishers,
            "subscribers": self.subscribers,
            "hops": self.hops,
        }
        return sizes[axis]

    @property
    def work(self) -> str:
        """How events are sent, in words that cases of several sizes have in common."""
        if not self.rate:
            return "saturated"
        return f"{self.rate:,.0f} events a second{', one a read' if self.singly else ''}"


ONE_TO_ONE: Final = Case("1 to 1", ("bytes", "publishers", "subscribers", "hops"))


def by_hops(hops: int) -> Case:
    """Return the case of one publisher and one subscriber, this many servers apart."""
    return Case(f"1 to 1, {hops} hops", ("hops",), hops=hops) if hops > 1 else ONE_TO_ONE


def by_subscribers(subscribers: int) -> Case:
    """Return the case of one publisher whose events all these subscribers get."""
    if subscribers == 1:
        return ONE_TO_ONE
    return Case(f"1 to {subscribers}", ("subscribers",), subscribers=subscribers)


CASES: Final = (
    ONE_TO_ONE,
    Case("10 to 1", ("publishers",), publishers=10),
    by_subscribers(10),
    by_subscribers(100),
    Case("1 publisher, 1,000 a second", ("publishers",), rate=1_000),
    Case("100 publishers, 10,000 a second", ("publishers",), publishers=100, rate=10_000),
    Case("100 publishers, 30,000 a second singly", ("publishers",), publishers=100, rate=30_000, singly=True),
    Case("1 KB", ("bytes",), event_bytes=1 << 10),
    Case("8 KB", ("bytes",), event_bytes=1 << 13),
    Case("64 KB", ("bytes",), event_bytes=1 << 16),
    by_hops(2),
    by_hops(3),
)


def run(
    progress: Progress,
    *,
    cases: Sequence[Case] = CASES,
    peers: Sequence[str] = NAMES,
    seconds: float = SECONDS,
    filters: int = FILTERS,
) -> list[Row]:
    """Return a row of figures for each case and system, of several hops only where a system has hops.

    A peer that is not installed or fails has a row of the workload NOT_MEASURED, whose `note` says why, and is left out
    from then on.
    """
    Counter.compile()
    rows: list[Row] = []
    chosen = [peer for peer in PEERS if peer.name in peers]
    failed = {peer.name: peer.missing() for peer in chosen if peer.missing()}
    servers: dict[tuple[str, int], Served] = {}
    with contextlib.ExitStack() as stack:
        for case, peer in product(cases, (COVEY, *chosen)):
            if peer.name in failed or (case.hops > 1 and not peer.has_hops):
                continue
            progress(f"{case.name}, {peer.name}")
            try:
                if (peer.name, case.hops) not in servers:
                    served = stack.enter_context(peer.server(case.hops, filters))
                    servers[peer.name, case.hops] = served
                rows.append(_case(peer, case, servers[peer.name, case.hops], seconds))
            except (CoveyError, OSError) as error:
                if peer is COVEY:
                    raise
                failed[peer.name] = f"{case.name}: {' '.join(str(error).split())}"
    return [
        *rows,
        *({"workload": NOT_MEASURED, "system": name, "note": why} for name, why in failed.items()),
    ]


def compare(
    progress: Progress,
    *,
    cases: Sequence[Case] = CASES,
    peers: Sequence[str] = NAMES,
    seconds: float = SECONDS,
    filters: int = FILTERS,
) -> list[Comparison]:
    """Return what a delivery costs the server and how long it takes, beside these peers; see `run`."""
    rows = run(progress, cases=cases, peers=peers, seconds=seconds, filters=filters)
    return compared(rows, cases)


def _case(peer: Peer, case: Case, served: Served, seconds: float) -> Row:
    """Measure one case with servers that run: once to warm up, once with figures."""
    arrived = Arrived()
    load = Load(case.publishers, case.event_bytes, case.rate, case.subscribers, case.singly)
    patience_s = seconds + 2 * PATIENCE_S
    with (
        Program(
            subscriber,
            peer.connect,
            served.ports[1],
            case.subscribers,
            case.event_bytes,
            arrived,
            patience_s=patience_s,
        ) as receiving,
        Program(publisher, peer.connect, served.ports[0], load, arrived, patience_s=patience_s) as publishing,
    ):
        _once(publishing, receiving, case, seconds * WARM_UP)
        pids = {"server": served.pids, "publisher": (publishing.pid,), "subscriber": (receiving.pid,)}
        before = {who: usage.reading(some) for who, some in pids.items()}
        steal_s = usage.steal_s()
        sent, received = _once(publishing, receiving, case, seconds)
        steal_s = usage.steal_s() - steal_s
        used = {who: usage.between(before[who], usage.reading(some)) for who, some in pids.items()}
    return _row(peer, case, sent, received, used, steal_s)


def _once(publishing: Program, receiving: Program, case: Case, seconds: float) -> tuple[Sent, Received]:
    receiving.say(case.rate > 0)
    publishing.say(seconds)
    sent: Sent = publishing.expect()
    receiving.say(sent.events * case.subscribers)
    received: Received = receiving.expect()
    if not received.events:
        raise CoveyError("no event arrived")
    return sent, received


def _row(
    peer: Peer, case: Case, sent: Sent, received: Received, used: Mapping[str, usage.Usage], steal_s: float
) -> Row:
    delays_ms = received.delays_ns / 1e6
    latency = (
        {
            "p50_ms": float(np.percentile(delays_ms, 50)),
            "p99_ms": float(np.percentile(delays_ms, 99)),
            "max_ms": float(delays_ms.max()),
        }
        if case.rate
        else {"p50_ms": None, "p99_ms": None, "max_ms": None}
    )
    row: Row = {
        "workload": case.name,
        "system": peer.name,
        "client": peer.client,
        "seconds": (sent.end_ns - sent.start_ns) / 1e9,
        "events": sent.events,
        "events_s": round(received.events / (received.last_ns - sent.start_ns) * 1e9),
        "lost": sent.events * case.subscribers - received.events,
        "server_us": used["server"].cpu_s / received.events * 1e6,
        "publisher_us": used["publisher"].cpu_s / sent.events * 1e6,
        "subscriber_us": used["subscriber"].cpu_s / received.events * 1e6,
        **latency,
        "steal_ms": steal_s * 1e3,
        **{f"{who}_wait_ms": used[who].waited_s * 1e3 for who in ("server", "publisher", "subscriber")},
    }
    return rounded(row)


# -- comparisons ---------------------------------------------------------------------------------------------

FIGURES: Final = {
    "server_us": ("servers' CPU time, a delivery", "µs"),
    "p50_ms": ("p50", "ms"),
    "p99_ms": ("p99", "ms"),
}


def compared(rows: Sequence[Row], cases: Sequence[Case]) -> list[Comparison]:
    """Return rows of other systems beside Covey's of the same case, each figure by itself."""
    by_name = {case.name: case for case in cases}
    missing = [row for row in rows if row["workload"] == NOT_MEASURED]
    rows = [row for row in rows if row["workload"] != NOT_MEASURED]
    ours = {row["workload"]: row for row in rows if row["system"] == COVEY.name}
    result: list[Comparison] = []
    for row in rows:
        case, mine = by_name[row["workload"]], ours[row["workload"]]
        if row is mine:
            continue
        if row["lost"] and row["system"] != FORWARDER.name:
            # What others lose is no fault in our answers, but there is no figure to compare with.
            work = f"{case.name}, beside {row['system']}"
            note = f"it lost {row['lost']:,} deliveries"
            result.append(Comparison(part="network", work=work, note=note))
            continue
        result += [
            Comparison(
                part="network",
                work=f"{case.work}: {name}",
                unit=unit,
                axis=axis,
                size=case.size(axis),
                ours=mine[figure],
                baseline=row["system"],
                theirs=row[figure],
                equal=not mine["lost"] and not row["lost"],
                ours_under=_circumstances(mine, name),
                theirs_under=_circumstances(row, name),
            )
            for axis in case.axes
            if axis != "hops" or row["system"] == FORWARDER.name  # the others have no hops to grow along
            for figure, (name, unit) in FIGURES.items()
            if mine[figure] is not None and mine[figure] > 0 and row[figure] > 0  # NaN where it is not known
        ]
    notes = [
        Comparison(part="network", work=f"beside {row['system']}", note=f"not measured: {row['note']}"[:160])
        for row in missing
    ]
    return [*sorted(result, key=lambda one: one.axis), *notes]


def _circumstances(row: Row, figure: str) -> Circumstances:
    return Circumstances(
        case=row["workload"],
        figure=figure,
        client=row["client"],
        steal_ms=row["steal_ms"],
        server_wait_ms=row["server_wait_ms"],
        client_wait_ms=row["publisher_wait_ms"] + row["subscriber_wait_ms"],
    )
