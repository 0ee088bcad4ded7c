"""Metrics in Prometheus' text format: their names are a promise, and docs/admin.md lists them.

Labels are bounded: neighbours are a broker's own, clients are summed up, and of slow consumers the slowest are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from covey.broker.sight import Sight

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_SLOW: Final = 50

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class Snapshot:
    """What is read once for all metrics: sums over thousands of clients."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.varz = sight.varz()
        self.totals: Mapping[str, float] = self.varz["totals"]
        self.neighbour_totals = sight.neighbour_totals()
        self.neighbours = list(sight.neighbours())
        self.clients = list(sight.clients())
        self.counters = sight.counters()


class Metric(NamedTuple):
    """One metric: its name, kind, labels, meaning, and how it is read."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    read: Callable[[Snapshot], Iterable[Sample]]


def _one(value: float) -> list[Sample]:
    return [({}, value)]


def _total(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda seen: _one(seen.totals[name])


def _of_links(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda seen: [({"link": link}, of[name]) for link, of in seen.neighbour_totals.items()]


def _queues(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda seen: [
        ({"link": link}, 0 if connection is None else getattr(connection.lanes, name))
        for link, _, connection in seen.neighbours
    ]


def _client_queues(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda seen: _one(sum(getattr(connection.lanes, name) for _, connection in seen.clients))


def _counted(prefix: str, label: str) -> Callable[[Snapshot], Iterator[Sample]]:
    def read(seen: Snapshot) -> Iterator[Sample]:
        for name, value in sorted(seen.counters.items()):
            if name.startswith(prefix):
                yield {label: name.removeprefix(prefix)}, value

    return read


def _info(seen: Snapshot) -> list[Sample]:
    return [({name: seen.varz[name] for name in ("broker", "version", "strategy")}, 1)]


def _connections(seen: Snapshot) -> list[Sample]:
    up = sum(1 for _, neighbour, _ in seen.neighbours if neighbour is not None)
    return [({"kind": "client"}, len(seen.clients)), ({"kind": "neighbour"}, up)]


def _entries(seen: Snapshot) -> list[Sample]:
    return [
        ({"kind": "local"}, seen.sight.router.local_size()),
        ({"kind": "remote"}, seen.sight.router.remote_size()),
    ]


def _slow(seen: Snapshot) -> list[Sample]:
    rows = seen.sight.slow()[:MAX_SLOW]
    return [({"link": row["link"], "name": row["name"]}, row["queue_events"]) for row in rows]


def _components(seen: Snapshot) -> Iterator[Sample]:
    for name, report in sorted(seen.sight.components().items()):
        for what, value in sorted(report.items()):
            yield {"component": name, "what": what}, value


def _inbox(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda seen: _one(float(seen.varz["inbox"][name]))


def _cpu_s(seen: Snapshot) -> list[Sample]:
    return _one(seen.varz["cpu_s"])


COUNTER, GAUGE = "counter", "gauge"

METRICS: Final = (
    Metric("covey_info", GAUGE, ("broker", "version", "strategy"), "1, with what runs", _info),
    Metric("covey_ready", GAUGE, (), "whether clients are served", lambda s: _one(s.varz["ready"])),
    Metric("covey_uptime_seconds", GAUGE, (), "since the broker started", lambda s: _one(s.varz["uptime_s"])),
    Metric("covey_cpu_seconds_total", COUNTER, (), "processor time of the process", _cpu_s),
    Metric("covey_connections", GAUGE, ("kind",), "clients and neighbours that are linked", _connections),
    Metric("covey_connections_total", COUNTER, (), "connections that were opened", _total("connections")),
    Metric("covey_refused_total", COUNTER, (), "peers that did not prove who they are", _total("refused")),
    Metric("covey_events_published_total", COUNTER, (), "from clients", _total("events_published")),
    Metric("covey_events_received_total", COUNTER, (), "from neighbours", _total("events_received")),
    Metric("covey_events_forwarded_total", COUNTER, (), "to neighbours", _total("events_forwarded")),
    Metric("covey_events_delivered_total", COUNTER, (), "to clients", _total("events_delivered")),
    Metric(
        "covey_events_refused_total",
        COUNTER,
        (),
        "wishes that were not granted and events that were not taken",
        _total("events_refused"),
    ),
    Metric(
        "covey_events_unreadable_total",
        COUNTER,
        (),
        "from neighbours, and dropped because they are no events",
        _total("events_unreadable"),
    ),
    Metric("covey_events_dropped_total", COUNTER, (), "because a queue was full", _total("events_dropped")),
    Metric(
        "covey_events_unadvertised_total",
        COUNTER,
        (),
        "outside their publishers' advertisements, and therefore flooded",
        _total("events_unadvertised"),
    ),
    Metric(
        "covey_duplicates_suppressed_total",
        COUNTER,
        (),
        "events that had come before",
        _total("duplicates_suppressed"),
    ),
    Metric(
        "covey_control_messages_received_total",
        COUNTER,
        ("kind",),
        "of neighbours' routers",
        _counted("control_in_", "kind"),
    ),
    Metric(
        "covey_control_messages_sent_total",
        COUNTER,
        ("kind",),
        "to neighbours' routers",
        _counted("control_out_", "kind"),
    ),
    Metric("covey_requests_total", COUNTER, ("kind",), "of clients", _counted("request_", "kind")),
    Metric("covey_table_entries", GAUGE, ("kind",), "the routing table: local, remote", _entries),
    Metric("covey_inbox_frames", GAUGE, (), "that wait to be handled", _inbox("frames")),
    Metric("covey_inbox_longest_frames", GAUGE, (), "that ever waited", _inbox("longest")),
    Metric("covey_congested", GAUGE, (), "whether too many frames wait", _inbox("congested")),
    Metric(
        "covey_link_up",
        GAUGE,
        ("link",),
        "whether a neighbour is linked, and knows all it must",
        lambda s: [({"link": link}, s.sight.is_open(link)) for link, _, _ in s.neighbours],
    ),
    Metric("covey_link_queue_events", GAUGE, ("link",), "that wait for a neighbour", _queues("count")),
    Metric("covey_link_queue_bytes", GAUGE, ("link",), "that wait for a neighbour", _queues("size")),
    Metric("covey_link_events_sent_total", COUNTER, ("link",), "to a neighbour", _of_links("sent")),
    Metric("covey_link_events_received_total", COUNTER, ("link",), "from one", _of_links("received")),
    Metric("covey_link_events_dropped_total", COUNTER, ("link",), "for a neighbour", _of_links("dropped")),
    Metric("covey_link_bytes_sent_total", COUNTER, ("link",), "to a neighbour", _of_links("sent_bytes")),
    Metric("covey_link_bytes_received_total", COUNTER, ("link",), "from one", _of_links("received_bytes")),
    Metric("covey_client_queue_events", GAUGE, (), "that wait for clients", _client_queues("count")),
    Metric("covey_client_queue_bytes", GAUGE, (), "that wait for clients", _client_queues("size")),
    Metric(
        "covey_slow_consumers_total",
        COUNTER,
        (),
        "times that a peer read too slowly and its queue was full",
        _total("slow_consumers"),
    ),
    Metric(
        "covey_slow_consumer_events",
        GAUGE,
        ("link", "name"),
        f"that wait for each of the {MAX_SLOW} slowest links",
        _slow,
    ),
    Metric(
        "covey_component",
        GAUGE,
        ("component", "what"),
        "what parts such as the store report of themselves",
        _components,
    ),
)


def exposition(sight: Sight) -> str:
    """Return all metrics as Prometheus reads them."""
    lines, seen = [], Snapshot(sight)
    for metric in METRICS:
        lines.append(f"# HELP {metric.name} {metric.meaning}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += [f"{metric.name}{_labels(labels)} {value:.17g}" for labels, value in metric.read(seen)]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
