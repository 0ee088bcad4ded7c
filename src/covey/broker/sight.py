"""Sight: a broker's inside as plain values, for reports, metrics and explanations. It changes nothing.

Everything that can be long is given in pages, and only the page is made into text.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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

MAX_PAGE: Final = 1_000
MAX_TEXT: Final = 500  # characters of a filter in a report

Row = dict[str, Any]


class Page(NamedTuple):
    """Which part of a list is asked for."""

    limit: int = 100
    offset: int = 0
    link: str = ""

    def of(self, rows: Iterable[tuple[str, Callable[[], Row]]]) -> Row:
        """Return the page of rows, which are made only if they are on it, each with its link."""
        listed, total = [], 0
        for link, make in rows:
            if not self.link or link == self.link:
                if self.offset <= total < self.offset + self.limit:
                    listed.append(make())
                total += 1
        return {"offset": self.offset, "limit": self.limit, "total": total, "rows": listed}


class Sight:
    """What can be seen of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._started_s = time.monotonic()
        self.started_at = time.time()

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The broker's name."""
        return self._broker.config.name

    @property
    def router(self) -> Router:
        """The router in force."""
        return self._broker.exchange.router

    def counters(self) -> Counter[str]:
        """Return what the exchange and the router have counted."""
        return self._broker.exchange.counters + self.router.counters

    def clients(self) -> Iterator[tuple[Client, Connection]]:
        """Yield the clients that are attached, with their connections."""
        for connection, peer in list(self._broker.peers.items()):
            if isinstance(peer, Client):
                yield peer, connection

    def client(self, link: str) -> Client | None:
        """Return the client at a link."""
        return self._broker.exchange.clients.get(link)

    def neighbours(self) -> Iterator[tuple[str, Neighbour | None, Connection | None]]:
        """Yield the neighbours that are configured or linked; None for what is not there."""
        linked = {
            peer.link: (peer, connection)
            for connection, peer in list(self._broker.peers.items())
            if isinstance(peer, Neighbour)
        }
        for name in sorted({one.name for one in self._broker.config.links} | set(linked)):
            yield name, *linked.get(name, (None, None))

    def is_open(self, link: str) -> bool:
        """Return whether the neighbour and this broker know what each must know of the other."""
        links = self._broker.links
        return link in links.links and links.is_open(link)

    def uptime_s(self) -> float:
        """Return how long the broker has been up."""
        return time.monotonic() - self._started_s

    # -- totals ----------------------------------------------------------------------------------------------

    def client_totals(self) -> Counter[str]:
        """Return what all clients together have counted, those that are gone too."""
        total = Counter(self._broker.tally.clients)
        for client, connection in self.clients():
            total.update(counts_of(connection))
            total.update({name: getattr(client, name) for name in CLIENT_COUNTS})
        return _with_zeros(total, (*CLIENT_COUNTS, *CONNECTION_COUNTS))

    def neighbour_totals(self) -> dict[str, Counter[str]]:
        """Return what each neighbour has counted, over all links to it."""
        totals = {}
        for name, neighbour, connection in self.neighbours():
            total = Counter(self._broker.tally.neighbours.get(name, {}))
            if neighbour is not None and connection is not None:
                total.update(counts_of(connection))
                total.update({count: getattr(neighbour, count) for count in NEIGHBOUR_COUNTS})
            totals[name] = _with_zeros(total, (*NEIGHBOUR_COUNTS, *CONNECTION_COUNTS))
        return totals

    def totals(self) -> dict[str, int]:
        """Return what the whole broker has counted."""
        clients, neighbours = self.client_totals(), self.neighbour_totals()
        tally = self._broker.tally
        return {
            "events_published": clients["published"],
            "events_received": sum(one["received"] for one in neighbours.values()),
            "events_forwarded": sum(one["sent"] for one in neighbours.values()),
            "events_delivered": clients["delivered"],
            "events_refused": clients["refused"],
            "events_dropped": clients["dropped"] + sum(one["dropped"] for one in neighbours.values()),
            "events_unadvertised": self.counters()["unadvertised_events"],
            "duplicates_suppressed": self.counters()["duplicates_suppressed"],
            "connections": tally.connections,
            "refused": self._broker.security.refused,
            "slow_consumers": self._broker.exchange.counters["slow_consumers"],
        }

    def slow(self) -> list[Row]:
        """Return the links that read too slowly now: more than half of what may wait does, or some was dropped."""
        found = [
            _slow(client.link, client.permissions.name, connection)
            for client, connection in self.clients()
            if _is_slow(connection.lanes)
        ]
        for name, _, connection in self.neighbours():
            if connection is not None and _is_slow(connection.lanes):
                found.append(_slow(name, name, connection))
        found.sort(key=lambda row: (-row["queue_events"], row["link"]))
        return found

    # -- reports ---------------------------------------------------------------------------------------------

    def ready(self) -> Row:
        """Return whether the broker serves clients, and which links are not there."""
        missing = [name for name, _, _ in self.neighbours() if not self.is_open(name)]
        return {"ready": self._broker.is_ready, "broker": self.name, "links_missing": missing}

    def varz(self) -> Row:
        """Return the broker at a glance."""
        config, inbox = self._broker.config, self._broker.inbox
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "broker": self.name,
            "version": __version__,
            "strategy": config.strategy,
            "advertisements": config.advertisements,
            "address": f"{config.host}:{self._broker.port}",
            "tls": self._broker.security.contexts is not None,
            "credentials": self._broker.security.has_credentials,
            "uptime_s": round(self.uptime_s(), 3),
            **self.ready(),
            "clients": len(self._broker.exchange.clients),
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

    def linkz(self, page: Page) -> Row:
        """Return the links: neighbours first, then clients; and those that ended last."""
        totals = self.neighbour_totals()
        entries = Counter(link for link, _ in self.router.remote_entries())

        def neighbour(name: str, one: Neighbour | None, connection: Connection | None) -> Row:
            return {
                "link": name,
                "kind": "neighbour",
                "up": one is not None,
                "open": self.is_open(name),
                "entries": entries[name],
                **totals[name],
                **_connection(connection),
            }

        def client(one: Client, connection: Connection) -> Row:
            return {
                "link": one.link,
                "kind": "client",
                "up": True,
                "permissions": one.permissions.as_dict(),
                "subscriptions": len(one.keys),
                "advertisements": len(one.advertised),
                **{name: getattr(one, name) for name in CLIENT_COUNTS},
                **counts_of(connection),
                **_connection(connection),
            }

        rows: list[tuple[str, Callable[[], Row]]] = [
            (found[0], partial(neighbour, *found)) for found in self.neighbours()
        ]
        rows += [(found[0].link, partial(client, *found)) for found in self.clients()]
        ended = [
            {"link": one.link, "name": one.name, "peer": one.peer, "reason": one.reason}
            for one in reversed(self._broker.tally.ended)
        ]
        return {"broker": self.name, **page.of(rows), "ended": ended[:20]}

    def subz(self, page: Page, key: str = "") -> Row:
        """Return what clients asked for, or one subscription by its key."""
        clients = self._broker.exchange.clients
        if key:
            found = ((client, key) for client in clients.values() if client.sid_of(key) is not None)
        else:
            found = (
                (client, one)
                for client in list(clients.values())
                if not page.link or client.link == page.link
                for one in list(client.keys.values())
            )

        def row(client: Client, one: str) -> Row:
            return {
                "link": client.link,
                "key": one,
                "sid": client.sid_of(one),
                "name": client.permissions.name,
                **_filter(self.router.local_filter(client.link, one)),
            }

        rows = ((client.link, partial(row, client, one)) for client, one in found)
        return {"broker": self.name, **page.of(rows)}

    def routez(self, page: Page, what: str = "entries") -> Row:
        """Return the routing table: what neighbours asked for, or what is advertised behind each link."""
        rows = self._advertised() if what == "advertisements" else self._entries()
        return {"broker": self.name, "what": what, **page.of(rows)}

    def _entries(self) -> Iterator[tuple[str, Callable[[], Row]]]:
        for tree, part in self.router.trees.items():
            for link in part.neighbours():
                for fact in part.strategy.heard(link):

                    def row(tree: int = tree, link: str = link, fact: Any = fact) -> Row:
                        known = {"link": link, "tree": tree, "key": fact.key, **_filter(fact.filter)}
                        return known | ({"home": fact.owner} if fact.owner else {})

                    yield link, row

    def _advertised(self) -> Iterator[tuple[str, Callable[[], Row]]]:
        for tree, part in self.router.trees.items():
            links = [*part.links_up(), *self._broker.exchange.clients]
            for link in links:
                for key, one in part.advertised.of_link(link).items():

                    def row(tree: int = tree, link: str = link, key: str = key, one: Any = one) -> Row:
                        known = {"link": link, "tree": tree, "key": key, "publisher": one.publisher}
                        return known | _filter(one.filter)

                    yield link, row

    def planz(self) -> Row:
        """Return the trees that are installed, with this broker's neighbours on each."""
        epochs = self._broker.exchange.epochs
        installation = self._broker.exchange.plans.installation
        return {
            "broker": self.name,
            "version": epochs.state.version,
            "installation": None
            if installation is None
            else {
                "epoch": installation.epoch,
                "step": installation.step.name.lower(),
                "says": installation.step.value,
                "missing": sorted(installation.missing)[:MAX_PAGE],
                "reason": installation.reason,
            },
            "epochs": [
                {
                    "epoch": epoch,
                    "current": epoch == epochs.current,
                    "planned": epochs.is_planned(epoch),
                    "trees": [
                        {"tree": tree, "links_up": part.links_up(), "open": list(part.neighbours())}
                        for tree, part in router.trees.items()
                    ],
                }
                for epoch, router in epochs.routers.items()
            ],
        }

    def plans(self) -> Plans:
        """Return what installs plans, at the time of now."""
        self._broker.exchange.now_s = asyncio.get_running_loop().time()
        return self._broker.exchange.plans

    def components(self) -> Mapping[str, Mapping[str, float]]:
        """Return what parts of the broker report of themselves, such as the store."""
        return {name: report() for name, report in self._broker.reports.items()}


def text_of(filter: Filter) -> str:
    """Return a filter's text, cut if it is long."""
    text = str(filter)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _filter(filter: Filter) -> Row:
    return {"language": filter.family, "filter": text_of(filter)}


def _connection(connection: Connection | None) -> Row:
    if connection is None:
        return {"peer": "", "queue_events": 0, "queue_bytes": 0, "slow": False}
    lanes = connection.lanes
    return {
        "peer": connection.peer,
        "tls": connection.extra("ssl_object") is not None,
        "queue_events": lanes.count,
        "queue_bytes": lanes.size,
        "policy": lanes.bounds.policy,
        "slow": _is_slow(lanes),
    }


def _is_slow(lanes: Lanes) -> bool:
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
