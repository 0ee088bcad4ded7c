"""Metrics in Prometheus' text format: their names are a promise, and docs/admin.md lists them.

Labels are bounded: neighbours are a broker's own, clients are summed up, and of slow consumers the slowest are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from covey.broker.introspection import BOUNDS_S, Histogram, Introspection

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_SLOW: Final = 50

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class Snapshot:
    """What is read once for all metrics: sums over thousands of clients."""

    def __init__(self, view: Introspection) -> None:
        self.view = view
        self.varz = view.varz()
        self.totals: Mapping[str, float] = self.varz["totals"]
        self.neighbour_totals = view.neighbour_totals()
        self.neighbours = list(view.neighbours())
        self.clients = list(view.clients())
        self.counters = view.counters()
        self.store = view.store()


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
        ({"link": link}, 0 if peer is None else getattr(peer.connection.outbox, name))
        for link, _, peer in seen.neighbours
    ]


def _client_queues(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda seen: _one(sum(getattr(peer.connection.outbox, name) for _, peer in seen.clients))


def _counted(prefix: str, label: str) -> Callable[[Snapshot], Iterator[Sample]]:
    def read(seen: Snapshot) -> Iterator[Sample]:
        for name, value in sorted(seen.counters.items()):
            if name.startswith(prefix):
                yield {label: name.removeprefix(prefix)}, value

    return read


def _info(seen: Snapshot) -> list[Sample]:
    return [({name: seen.varz[name] for name in ("broker", "version", "strategy")}, 1)]


def _connections(seen: Snapshot) -> list[Sample]:
    up = sum(1 for _, _, peer in seen.neighbours if peer is not None)
    return [({"kind": "client"}, len(seen.clients)), ({"kind": "neighbour"}, up)]


def _places(seen: Snapshot) -> list[Sample]:
    return [({"place": place}, count) for place, count in seen.view.core.admission.report()]


def _entries(seen: Snapshot) -> list[Sample]:
    return [
        ({"kind": "local"}, seen.view.router.local_size()),
        ({"kind": "remote"}, seen.view.router.remote_size()),
    ]


def _slow(seen: Snapshot) -> list[Sample]:
    rows = seen.view.slow()[:MAX_SLOW]
    return [({"link": row["link"], "name": row["name"]}, row["queue_events"]) for row in rows]


def _inbox(name: str) -> Callable[[Snapshot], list[Sample]]:
    return lambda seen: _one(float(seen.varz["inbox"][name]))


def _cpu_s(seen: Snapshot) -> list[Sample]:
    return _one(seen.varz["cpu_s"])


COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


def _latency(name: str, meaning: str) -> Metric:
    return Metric(
        f"covey_{name}_seconds",
        HISTOGRAM,
        ("le",),
        meaning,
        lambda s: _buckets(getattr(s.view.latencies, name)),
    )


def _buckets(histogram: Histogram) -> Iterator[Sample]:
    """Yield the buckets as Prometheus has them: each with all below it."""
    total = 0
    for bound, count in zip((*BOUNDS_S, float("inf")), histogram.counts, strict=True):
        total += count
        yield {"le": "+Inf" if bound == float("inf") else f"{bound:g}"}, total
    yield _SUM, histogram.total_s
    yield _COUNT, total


# What a histogram has beside its buckets.
_SUM: Final[Labels] = {"": "_sum"}
_COUNT: Final[Labels] = {"": "_count"}

# What the durable store reports of itself (`Durable.report`), where there is one.
STORE: Final = {
    "used_bytes": "Bytes of the store that are in use.",
    "max_bytes": "Bytes that the store may use.",
    "events_kept_total": "Events that were written to the store.",
    "commits_total": "Transactions that the store has committed.",
    "pending": "Operations that wait for the next commit.",
    "pending_bytes": "Bytes of memory that these operations take.",
    "is_sure": "1 if the broker knows the interests of all neighbours, so that confirmed events need no flooding.",
    "flooded_total": "Confirmed events that were flooded because some interests were not known for certain.",
    "duplicates_total": "Confirmed events that were published again and had been stored before.",
    "refused_total": "Confirmed events that were refused, for example because the store was full.",
    "lost_total": "Stored events that were lost because the store could not be written.",
    "damaged_total": "Stored events that were read and whose checksum was wrong.",
    "repaired_total": "Damaged events that were replaced by a copy of this or another broker.",
    "unrepaired_total": "Damaged events that were lost because no broker had a copy.",
    "missing_total": "Events that the store had confirmed and of which it did not know after a start.",
    "clock_jumps_total": "How often the clock of the machine has jumped; nothing that is stored ages by it.",
    "outbox_events": "Stored events that wait for a neighbour to take them over.",
    "subscriptions": "Durable subscriptions of this broker.",
    "queued_events": "Stored events that wait for durable subscriptions.",
    "dropped_total": "Events that durable subscriptions dropped because of their limits.",
}


def _of_store(name: str, meaning: str) -> Metric:
    def read(seen: Snapshot) -> list[Sample]:
        return _one(seen.store[name]) if seen.store else []

    return Metric(f"covey_store_{name}", COUNTER if name.endswith("_total") else GAUGE, (), meaning, read)


METRICS: Final = (
    Metric(
        "covey_info", GAUGE, ("broker", "version", "strategy"), "Always 1; the labels say what runs.", _info
    ),
    Metric(
        "covey_ready", GAUGE, (), "1 if the broker serves clients, else 0.", lambda s: _one(s.varz["ready"])
    ),
    Metric(
        "covey_uptime_seconds",
        GAUGE,
        (),
        "Seconds since the broker started.",
        lambda s: _one(s.varz["uptime_s"]),
    ),
    Metric("covey_cpu_seconds_total", COUNTER, (), "Processor time that the process has used.", _cpu_s),
    Metric("covey_connections", GAUGE, ("kind",), "Clients and neighbours that are connected.", _connections),
    Metric(
        "covey_places",
        GAUGE,
        ("place",),
        "Connections of both doors, by what they have proved to be.",
        _places,
    ),
    Metric("covey_connections_total", COUNTER, (), "Connections that were opened.", _total("connections")),
    Metric(
        "covey_refused_total",
        COUNTER,
        ("reason",),
        "Connections and HTTP requests that were refused.",
        lambda s: [({"reason": reason}, count) for reason, count in s.view.refusals().items()],
    ),
    Metric(
        "covey_events_published_total",
        COUNTER,
        (),
        "Events that clients of this broker published.",
        _total("events_published"),
    ),
    Metric(
        "covey_events_received_total",
        COUNTER,
        (),
        "Events received from neighbours.",
        _total("events_received"),
    ),
    Metric(
        "covey_events_forwarded_total", COUNTER, (), "Events sent to neighbours.", _total("events_forwarded")
    ),
    Metric(
        "covey_events_delivered_total",
        COUNTER,
        (),
        "Events delivered to clients.",
        _total("events_delivered"),
    ),
    Metric(
        "covey_events_refused_total",
        COUNTER,
        (),
        "Requests and events of clients that were refused.",
        _total("events_refused"),
    ),
    Metric(
        "covey_events_unreadable_total",
        COUNTER,
        (),
        "Events of neighbours that were dropped because their content cannot be read.",
        _total("events_unreadable"),
    ),
    Metric(
        "covey_events_dropped_total",
        COUNTER,
        (),
        "Events dropped because the queue of a connection was full.",
        _total("events_dropped"),
    ),
    Metric(
        "covey_events_unadvertised_total",
        COUNTER,
        (),
        "Events outside the advertisements of their publisher, which are flooded.",
        _total("events_unadvertised"),
    ),
    Metric(
        "covey_duplicates_suppressed_total",
        COUNTER,
        (),
        "Events dropped because they had been received before.",
        _total("duplicates_suppressed"),
    ),
    Metric(
        "covey_control_messages_received_total",
        COUNTER,
        ("kind",),
        "Control messages received from the routers of neighbours.",
        _counted("control_in_", "kind"),
    ),
    Metric(
        "covey_control_messages_sent_total",
        COUNTER,
        ("kind",),
        "Control messages sent to the routers of neighbours.",
        _counted("control_out_", "kind"),
    ),
    Metric("covey_requests_total", COUNTER, ("kind",), "Requests of clients.", _counted("request_", "kind")),
    Metric("covey_table_entries", GAUGE, ("kind",), "Entries of the routing table.", _entries),
    Metric("covey_inbox_frames", GAUGE, (), "Received frames that wait to be handled.", _inbox("frames")),
    Metric(
        "covey_inbox_longest_frames",
        GAUGE,
        (),
        "The most frames that ever waited at once to be handled.",
        _inbox("longest"),
    ),
    Metric(
        "covey_congested",
        GAUGE,
        (),
        "1 while so many frames wait that publishers are held back, else 0.",
        _inbox("congested"),
    ),
    Metric(
        "covey_link_up",
        GAUGE,
        ("link",),
        "1 if the neighbour is connected and its routing table is synchronised, else 0.",
        lambda s: [({"link": link}, s.view.is_open(link)) for link, _, _ in s.neighbours],
    ),
    Metric("covey_link_queue_events", GAUGE, ("link",), "Events queued for a neighbour.", _queues("count")),
    Metric("covey_link_queue_bytes", GAUGE, ("link",), "Bytes queued for a neighbour.", _queues("size")),
    Metric(
        "covey_link_events_sent_total", COUNTER, ("link",), "Events sent to a neighbour.", _of_links("sent")
    ),
    Metric(
        "covey_link_events_received_total",
        COUNTER,
        ("link",),
        "Events received from a neighbour.",
        _of_links("received"),
    ),
    Metric(
        "covey_link_events_dropped_total",
        COUNTER,
        ("link",),
        "Events dropped because the queue of a neighbour was full.",
        _of_links("dropped"),
    ),
    Metric(
        "covey_link_bytes_sent_total",
        COUNTER,
        ("link",),
        "Bytes sent to a neighbour.",
        _of_links("sent_bytes"),
    ),
    Metric(
        "covey_link_bytes_received_total",
        COUNTER,
        ("link",),
        "Bytes received from a neighbour.",
        _of_links("received_bytes"),
    ),
    Metric(
        "covey_client_queue_events",
        GAUGE,
        (),
        "Events queued for all clients together.",
        _client_queues("count"),
    ),
    Metric(
        "covey_client_queue_bytes",
        GAUGE,
        (),
        "Bytes queued for all clients together.",
        _client_queues("size"),
    ),
    Metric(
        "covey_slow_consumers_total",
        COUNTER,
        (),
        "How often a peer read so slowly that its queue was full.",
        _total("slow_consumers"),
    ),
    Metric(
        "covey_slow_consumer_events",
        GAUGE,
        ("link", "name"),
        f"Events queued for each of the {MAX_SLOW} slowest peers.",
        _slow,
    ),
    _latency("hop", "A turn of the broker, from its first read to its last write."),
    _latency("queue", "Waits of queues for peers whose sockets were full."),
    _latency("commit", "Confirmed events on their way to the disk; one at a time is measured."),
    *(_of_store(name, meaning) for name, meaning in STORE.items()),
)


def exposition(view: Introspection) -> str:
    """Return all metrics as Prometheus reads them."""
    lines, seen = [], Snapshot(view)
    for metric in METRICS:
        lines.append(f"# HELP {metric.name} {metric.meaning}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        bucket = "_bucket" if metric.kind == HISTOGRAM else ""
        for labels, value in metric.read(seen):
            name = f"{metric.name}{labels['']}" if "" in labels else f"{metric.name}{bucket}{_labels(labels)}"
            lines.append(f"{name} {value:.17g}")
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
