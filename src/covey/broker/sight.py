"""Sight: a broker's inside as plain values, for reports, metrics and explanations. It changes nothing.

What can be long is in `lists`, in pages.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from covey import __version__
from covey.broker.peers import Client, Neighbour
from covey.broker.plans import Plans
from covey.broker.tally import CLIENT_COUNTS, CONNECTION_COUNTS, NEIGHBOUR_COUNTS, counts_of
from covey.core.filter import Filter
from covey.routing.router import Router
from covey.wire.connection import Connection
from covey.wire.lanes import Lanes

if TYPE_CHECKING:
    from covey.broker.server import Broker

MAX_TEXT: Final = 500  # characters of a filter in a report

Row = dict[str, Any]


class Sight:
    """What can be seen of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._started_s = time.monotonic()

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.broker.config.name

    @property
    def router(self) -> Router:
        """The router in force."""
        return self.broker.exchange.router

    def counters(self) -> Counter[str]:
        """Return what the exchange and the router have counted."""
        return self.broker.exchange.counters + self.router.counters

    def clients(self) -> Iterator[tuple[Client, Connection]]:
        """Yield the clients that are attached, with their connections."""
        for connection, peer in list(self.broker.peers.items()):
            if isinstance(peer, Client):
                yield peer, connection

    def client(self, link: str) -> Client | None:
        """Return the client at a link."""
        return self.broker.exchange.clients.get(link)

    def neighbours(self) -> Iterator[tuple[str, Neighbour | None, Connection | None]]:
        """Yield the neighbours that are configured or linked; None for what is not there."""
        linked = {
            peer.link: (peer, connection)
            for connection, peer in list(self.broker.peers.items())
            if isinstance(peer, Neighbour)
        }
        for name in sorted({one.name for one in self.broker.config.links} | set(linked)):
            yield name, *linked.get(name, (None, None))

    def is_open(self, link: str) -> bool:
        """Return whether the neighbour and this broker know what each must know of the other."""
        links = self.broker.links
        return link in links.links and links.is_open(link)

    def uptime_s(self) -> float:
        """Return how long the broker has been up."""
        return time.monotonic() - self._started_s

    # -- totals ----------------------------------------------------------------------------------------------

    def client_totals(self) -> Counter[str]:
        """Return what all clients together have counted, those that are gone too."""
        total = Counter(self.broker.tally.clients)
        for client, connection in self.clients():
            total.update(counts_of(connection))
            total.update({name: getattr(client, name) for name in CLIENT_COUNTS})
        return _with_zeros(total, (*CLIENT_COUNTS, *CONNECTION_COUNTS))

    def neighbour_totals(self) -> dict[str, Counter[str]]:
        """Return what each neighbour has counted, over all links to it."""
        totals = {}
        for name, neighbour, connection in self.neighbours():
            total = Counter(self.broker.tally.neighbours.get(name, {}))
            if neighbour is not None and connection is not None:
                total.update(counts_of(connection))
                total.update({count: getattr(neighbour, count) for count in NEIGHBOUR_COUNTS})
            totals[name] = _with_zeros(total, (*NEIGHBOUR_COUNTS, *CONNECTION_COUNTS))
        return totals

    def totals(self) -> dict[str, int]:
        """Return what the whole broker has counted."""
        clients, neighbours = self.client_totals(), self.neighbour_totals()
        tally = self.broker.tally
        return {
            "events_published": clients["published"],
            "events_received": sum(one["received"] for one in neighbours.values()),
            "events_forwarded": sum(one["sent"] for one in neighbours.values()),
            "events_delivered": clients["delivered"],
            "events_refused": clients["refused"],
            "events_dropped": clients["dropped"] + sum(one["dropped"] for one in neighbours.values()),
            "events_unreadable": self.counters()["unreadable_events"],
            "events_unadvertised": self.counters()["unadvertised_events"],
            "duplicates_suppressed": self.counters()["duplicates_suppressed"],
            "connections": tally.connections,
            "refused": self.broker.security.refused,
            "slow_consumers": self.broker.exchange.counters["slow_consumers"],
        }

    def slow(self) -> list[Row]:
        """Return the links that read too slowly now: more than half of what may wait does, or some was dropped."""
        found = [
            _slow(client.link, client.permissions.name, connection)
            for client, connection in self.clients()
            if is_slow(connection.lanes)
        ]
        for name, _, connection in self.neighbours():
            if connection is not None and is_slow(connection.lanes):
                found.append(_slow(name, name, connection))
        found.sort(key=lambda row: (-row["queue_events"], row["link"]))
        return found

    # -- reports ---------------------------------------------------------------------------------------------

    def ready(self) -> Row:
        """Return whether the broker serves clients, and which links are not there."""
        missing = [name for name, _, _ in self.neighbours() if not self.is_open(name)]
        return {"ready": self.broker.is_ready, "broker": self.name, "links_missing": missing}

    def varz(self) -> Row:
        """Return the broker at a glance."""
        config, inbox = self.broker.config, self.broker.inbox
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "broker": self.name,
            "version": __version__,
            "strategy": config.strategy,
            "advertisements": config.advertisements,
            "address": f"{config.host}:{self.broker.port}",
            "tls": self.broker.security.contexts is not None,
            "credentials": self.broker.security.has_credentials,
            "uptime_s": round(self.uptime_s(), 3),
            "time_s": round(time.time(), 3),
            **self.ready(),
            "clients": len(self.broker.exchange.clients),
            "neighbours": [name for name, _, _ in self.neighbours()],
            "links_up": [name for name, one, _ in self.neighbours() if one is not None],
            "subscriptions": self.router.local_size(),
            "entries": self.router.remote_size(),
            "inbox": {"frames": inbox.count, "longest": inbox.longest, "congested": inbox.is_congested},
            "totals": self.totals(),
            "slow": self.slow()[:10],
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
            "peak_memory_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            "max_frame": config.max_frame,
            "max_connections": config.max_connections,
            "max_subscriptions": config.max_subscriptions,
            "lease_s": config.lease_s,
        }

    def plans(self) -> Plans:
        """Return what installs plans, at the time of now."""
        self.broker.tell_time()
        return self.broker.exchange.plans

    def plan_file(self) -> bytes:
        """Return the file of the plan in which events set out; empty if that is none."""
        state = self.broker.exchange.epochs.state
        return state.plans[state.current]

    def samples_dir(self) -> Path | None:
        """Return where samples are, if there are any."""
        samples = self.broker.samples
        return None if samples is None else samples.sampler.directory

    def store(self) -> Mapping[str, float]:
        """Return what the store of confirmed events reports of itself; nothing, if there is none."""
        durable = self.broker.exchange.durable
        return {} if durable is None else durable.report()


def text_of(filter: Filter) -> str:
    """Return a filter's text, cut if it is long."""
    text = str(filter)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def is_slow(lanes: Lanes) -> bool:
    return lanes.is_over or lanes.dropped > 0


def _slow(link: str, name: str, connection: Connection) -> Row:
    lanes = connection.lanes
    return {
        "link": link,
        "name": name,
        "peer": connection.peer,
        "queue_events": lanes.count,
        "queue_bytes": lanes.size,
        "dropped": lanes.dropped,
    }


def _with_zeros(counter: Counter[str], names: Iterable[str]) -> Counter[str]:
    return Counter({name: counter[name] for name in names})
