"""Long lists of a broker's inside: links, subscriptions, entries, trees; in pages, made into text a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from covey.broker.peers import Client, Neighbour
from covey.broker.sight import Row, Sight, is_slow, text_of
from covey.broker.tally import CLIENT_COUNTS, counts_of
from covey.core.filter import Filter
from covey.wire.connection import Connection

MAX_PAGE: Final = 1_000


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


def linkz(sight: Sight, page: Page) -> Row:
    """Return the links: neighbours first, then clients; and those that ended last."""
    totals = sight.neighbour_totals()
    entries = Counter(link for link, _ in sight.router.remote_entries())

    def neighbour(name: str, one: Neighbour | None, connection: Connection | None) -> Row:
        return {
            "link": name,
            "kind": "neighbour",
            "up": one is not None,
            "open": sight.is_open(name),
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
        (found[0], partial(neighbour, *found)) for found in sight.neighbours()
    ]
    rows += [(found[0].link, partial(client, *found)) for found in sight.clients()]
    ended = [
        {"link": one.link, "name": one.name, "peer": one.peer, "reason": one.reason}
        for one in reversed(sight.broker.tally.ended)
    ]
    return {"broker": sight.name, **page.of(rows), "ended": ended[:20]}


def subz(sight: Sight, page: Page, key: str = "") -> Row:
    """Return what clients asked for, or one subscription by its key."""
    clients = sight.broker.exchange.clients
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
            **_filter(sight.router.local_filter(client.link, one)),
        }

    rows = ((client.link, partial(row, client, one)) for client, one in found)
    return {"broker": sight.name, **page.of(rows)}


def routez(sight: Sight, page: Page, what: str = "entries") -> Row:
    """Return the routing table: what neighbours asked for, or what is advertised behind each link."""
    rows = _advertised(sight) if what == "advertisements" else _entries(sight)
    return {"broker": sight.name, "what": what, **page.of(rows)}


def _entries(sight: Sight) -> Iterator[tuple[str, Callable[[], Row]]]:
    for tree, part in sight.router.trees.items():
        for link in part.neighbours():
            for fact in part.strategy.heard(link):

                def row(tree: int = tree, link: str = link, fact: Any = fact) -> Row:
                    known = {"link": link, "tree": tree, "key": fact.key, **_filter(fact.filter)}
                    return known | ({"home": fact.owner} if fact.owner else {})

                yield link, row


def _advertised(sight: Sight) -> Iterator[tuple[str, Callable[[], Row]]]:
    for tree, part in sight.router.trees.items():
        links = [*part.links_up(), *sight.broker.exchange.clients]
        for link in links:
            for key, one in part.advertised.of_link(link).items():

                def row(tree: int = tree, link: str = link, key: str = key, one: Any = one) -> Row:
                    known = {"link": link, "tree": tree, "key": key, "publisher": one.publisher}
                    return known | _filter(one.filter)

                yield link, row


def planz(sight: Sight) -> Row:
    """Return the trees that are installed, with this broker's neighbours on each."""
    epochs = sight.broker.exchange.epochs
    installation = sight.broker.exchange.plans.installation
    return {
        "broker": sight.name,
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
        "slow": is_slow(lanes),
    }
