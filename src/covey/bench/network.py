"""Events through real brokers on this machine: how many a second, and how long they take, beside other servers.

A publisher, the brokers and a subscriber are processes of their own, on loopback. Every broker has the filters of
others, none of which matches. Beside it, in the same run, a server carries events that forwards and matches nothing
(`network_floor`), and servers of others that are installed: nats-server and mosquitto as many, by subject or topic;
RabbitMQ's headers exchange, with as many bindings as brokers have filters, only a few. Columns:

    system, hops, subscribers   how many brokers events pass; connections that each get every event
    events_s                    events a second that are delivered, all subscribers together
    published_s                 events a second that are published meanwhile
    p50_ms, p99_ms, max_ms      from publishing to the subscriber's program, at half of that load
    lost                        events that did not arrive
    server_us                   CPU time of the brokers or the server, all hops together, for each event delivered
    publisher_us, subscriber_us CPU time of the programs, for each event published and for each delivered

How many events a second go through is limited by the programs at both ends, and these use client libraries in Python:
nats-py takes events one by one. What a server itself costs is `server_us`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from covey.bench.comparison import Comparison
from covey.bench.network_ends import CoveyEnd, End
from covey.bench.network_floor import NAME, FloorEnd, forwarders
from covey.bench.network_peers import PEERS, Peer
from covey.bench.network_programs import Program, Served, others, publisher, subscriber
from covey.bench.timing import Row, rounded
from covey.broker.config import BrokerConfig, LinkConfig, Queue
from covey.broker.forking import Family, listen
from covey.errors import CoveyError

EVENTS: Final = 200_000
FILTERS: Final = 10_000
HOPS: Final = (1, 2, 3)
SUBSCRIBERS: Final = (10, 100)
HALF_LOAD_S: Final = 3.0
SLOW_EVENTS: Final = 300  # for those who take hundredths of a second for one
NAMES: Final = tuple(peer.name for peer in PEERS)

Progress = Callable[[str], None]


def run(
    progress: Progress,
    *,
    events: int = EVENTS,
    filters: int = FILTERS,
    hops: Sequence[int] = HOPS,
    subscribers: Sequence[int] = SUBSCRIBERS,
    peers: bool = True,
    floor: bool = True,
    half_load_s: float = HALF_LOAD_S,
) -> list[Row]:
    """Return a row of figures for each number of hops, of subscribers, and each peer that is installed.

    With `floor`, each is measured through servers too that forward without matching.
    """
    rows: list[Row] = []
    for count, connections in [*((count, 1) for count in hops), *((1, many) for many in subscribers)]:
        progress(_said("brokers", count, connections))
        with _brokers(count) as served, Program(others, served.ports[1], filters):
            rows.append(_measured("covey", CoveyEnd, served, count, connections, events, half_load_s))
        if floor:
            progress(_said(NAME, count, connections))
            with forwarders(count) as served:
                rows.append(_measured(NAME, FloorEnd, served, count, connections, events, half_load_s))
    for peer in PEERS if peers else ():
        if peer.is_installed():
            rows += _peer(peer, progress, events, filters, (1, *subscribers), half_load_s)
    return [rounded(row) for row in rows]


def _peer(
    peer: Peer,
    progress: Progress,
    events: int,
    filters: int,
    subscribers: Sequence[int],
    half_load_s: float,
) -> list[Row]:
    rows = []
    for connections in subscribers if not peer.is_slow else (1,):
        progress(_said(peer.name, 1, connections))
        count = min(events, SLOW_EVENTS) if peer.is_slow else events
        with peer.server() as served:
            make = partial(peer.end, filters)
            rows.append(_measured(peer.name, make, served, 1, connections, count, half_load_s))
    return rows


def _said(system: str, hops: int, subscribers: int) -> str:
    return f"{system}, {hops} {'hop' if hops == 1 else 'hops'}, {subscribers:,} to subscribe"


def compare(
    progress: Progress,
    *,
    events: int,
    filters: int,
    hops: Sequence[int] = HOPS,
    subscribers: Sequence[int] = SUBSCRIBERS,
    peers: Sequence[str] = NAMES,
    half_load_s: float = 1.0,
) -> list[Comparison]:
    """Return what a delivered event costs, beside a forwarder and these peers; a peer that cannot run says why.

    The cost is the time between two deliveries when as much is published as goes through. `hops` must have 1.
    """
    rows = run(
        progress,
        events=events,
        filters=filters,
        hops=hops,
        subscribers=subscribers,
        peers=False,
        half_load_s=half_load_s,
    )
    missing: list[Comparison] = []
    for peer in (one for one in PEERS if one.name in peers):
        if not peer.is_installed():
            note = f"{peer.program} or its client {peer.package} is not installed"
            missing.append(Comparison(part="network", work=f"beside {peer.name}", note=note))
            continue
        try:
            rows += _peer(peer, progress, events, filters, (1, *subscribers), half_load_s)
        except CoveyError as error:
            missing.append(Comparison(part="network", work=f"beside {peer.name}", note=str(error)[:120]))
    return [*compared(rows, filters), *missing]


def compared(rows: Sequence[Row], filters: int) -> list[Comparison]:
    """Return rows of other systems beside Covey's of as many hops and subscribers."""
    ours = {(row["hops"], row["subscribers"]): row for row in rows if row["system"] == "covey"}
    result: list[Comparison] = []
    for row in rows:
        mine = ours[row["hops"], row["subscribers"]]
        if row is mine:
            continue
        if row["lost"] and row["system"] != NAME:
            # What others lose is no fault in our answers, but there is no figure to compare with.
            work = f"beside {row['system']}, {row['subscribers']:,} to subscribe"
            result.append(Comparison(part="network", work=work, note=f"it lost {row['lost']:,} events"))
            continue
        if not mine["events_s"] or not row["events_s"]:
            raise CoveyError("no event arrived")
        axes = ["hops"] * (row["subscribers"] == 1 and row["system"] == NAME) + ["subscribers"] * (
            row["hops"] == 1
        )
        costs = {
            f"an event delivered, {filters:,} filters of others, with clients in Python": (
                1e6 / mine["events_s"],
                1e6 / row["events_s"],
            ),
            "the same, CPU time of the servers alone": (mine["server_us"], row["server_us"]),
        }
        result += [
            Comparison(
                part="network",
                work=work,
                unit="µs",
                axis=axis,
                size=row[axis],
                ours=ours_us,
                baseline=row["system"],
                theirs=theirs_us,
                equal=not mine["lost"] and not row["lost"],
            )
            for axis in axes
            for work, (ours_us, theirs_us) in costs.items()
            if ours_us > 0 and theirs_us > 0  # more than the clock can tell, of processes that are known
        ]
    return sorted(result, key=lambda one: one.axis)


def _measured(
    system: str,
    make: Callable[[], End],
    served: Served,
    hops: int,
    connections: int,
    events: int,
    half_load_s: float,
) -> Row:
    """Measure how much goes through, and how long events take at half of that."""
    count = max(100, events // connections)
    with (
        Program(subscriber, make, served.ports[1], connections) as receiving,
        Program(publisher, make, served.ports[0]) as publishing,
    ):
        used_s = _once(publishing, receiving, max(10, count // 10), connections)[4:]  # so that all is warm
        served_s = served.cpu_s()
        start_s, end_s, last_s, seen, *cpu_s = _once(publishing, receiving, count, connections)
        served_s = served.cpu_s() - served_s
        sent_s, took_s = count / (end_s - start_s), max(last_s, end_s) - start_s
        load = count / took_s / 2
        paced = max(10, int(load * half_load_s))
        receiving.say((paced * connections, True))
        publishing.say((paced, load))
        publishing.expect()
        received = receiving.expect()
    delays_ms = np.array(received.delays_us or [0.0]) / 1e3
    return {
        "system": system,
        "hops": hops,
        "subscribers": connections,
        "events_s": round(seen / (last_s - start_s)),
        "published_s": round(sent_s),
        "half_load_s": round(load),
        "p50_ms": float(np.percentile(delays_ms, 50)),
        "p99_ms": float(np.percentile(delays_ms, 99)),
        "max_ms": float(delays_ms.max()),
        "lost": count * connections - seen + paced * connections - received.events,
        "server_us": served_s / max(seen, 1) * 1e6,
        "publisher_us": (cpu_s[0] - used_s[0]) / count * 1e6,
        "subscriber_us": (cpu_s[1] - used_s[1]) / (count * connections) * 1e6,
    }


def _once(publishing: Program, receiving: Program, count: int, connections: int) -> list[float]:
    """Publish so many at once; return when it began and ended, when the last came, how many, and CPU times so far."""
    receiving.say((count * connections, False))
    publishing.say((count, 0))
    said, received = publishing.expect(), receiving.expect()
    if isinstance(said, str) or isinstance(received, str):
        raise CoveyError(f"the measurement failed: {said!s:.100} {received!s:.100}")
    start_s, end_s, publisher_s = said
    return [start_s, end_s, received.last_s, received.events, publisher_s, received.cpu_s]


# -- servers -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _brokers(hops: int) -> Iterator[Served]:
    """Run brokers in a row."""
    names = [f"b{number}" for number in range(1, hops + 1)]
    sockets = {name: listen("127.0.0.1", 0) for name in names}
    ports = {name: int(one.getsockname()[1]) for name, one in sockets.items()}
    bounds = Queue(2_000_000, 1 << 30)
    configs = {}
    for number, name in enumerate(names):
        links = [LinkConfig(names[number - 1], "127.0.0.1", ports[names[number - 1]])] if number else []
        links += [LinkConfig(names[number + 1])] if number + 1 < hops else []
        configs[name] = BrokerConfig(
            name=name,
            port=ports[name],
            links=tuple(links),
            client_bounds=bounds,
            link_bounds=bounds,
            log_level="error",
        )
    family = Family()
    try:
        family.start(configs, sockets)
        family.wait("ready", 60.0)
        pids = tuple(child.pid for child in family.children)
        yield Served((ports[names[0]], ports[names[-1]]), pids)
    finally:
        family.stop(10.0)
