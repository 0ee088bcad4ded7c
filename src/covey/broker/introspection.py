"""Introspection: a broker's inside as plain values, for admin pages, metrics and explanations. It changes nothing.

    Introspection       totals and reports of one broker
    linkz, subz …       long lists, in pages, made into text a page at a time
    Latencies           how long things take, as histograms of which the shell takes one sample a turn, wait or commit
    explain             where an event would go from this broker, and why: the question behind `covey explain`

An explanation is read off the same tables by which the router forwards; nothing is sent or counted. Strategies that
match an event once, where it is published, write the brokers it is for on it; then `destinations` and `tree` of the
question carry them from hop to hop.
"""

from __future__ import annotations

import resource
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from covey import __version__
from covey.broker.core import CLIENT_COUNTS, NEIGHBOUR_COUNTS, BrokerCore, Peer, counts_of
from covey.broker.durable.queues import DurableSubscription
from covey.broker.neighbours import Neighbour
from covey.broker.sessions import Session
from covey.core.explain import why_not
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import EventError
from covey.protocol.events import ATTRIBUTES, KEYWORDS, XPATH, decode_content, encode_content
from covey.protocol.outbox import Outbox
from covey.routing.messages import Publish
from covey.routing.router import Router
from covey.routing.tree import TreePart

CONNECTION_COUNTS: Final = ("received_bytes", "sent_bytes", "dropped")
MAX_TEXT: Final = 500  # characters of a filter in a report

Row = dict[str, Any]

# Upper ends of buckets; the last bucket has none.
BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Histogram:
    """How many samples were in each bucket, and their sum."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count a sample; one of exactly a bound is in the bucket that ends there, as Prometheus has it."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class Latencies:
    """The histograms of one broker.

    hop      a turn of the broker, from its first read to its last write
    queue    from when a peer's socket is full, so that what is for it waits, until it takes more
    commit   a confirmed event, from when the broker hands it to the disk until it is there
    """

    def __init__(self) -> None:
        self.hop, self.queue, self.commit = Histogram(), Histogram(), Histogram()
        self._sample: tuple[int, float] | None = (
            None  # the ticket of a commit that is timed, and when it began
        )

    @property
    def waits_for_commit(self) -> bool:
        """Whether a commit is timed; others are not meanwhile."""
        return self._sample is not None

    def commit_begins(self, ticket: int, now_s: float) -> None:
        """Time this commit."""
        self._sample = ticket, now_s

    def committed(self, tickets: tuple[int, ...], now_s: float) -> None:
        """Note commits that are on disk, or have failed."""
        if self._sample is not None and self._sample[0] in tickets:
            self.commit.observe(now_s - self._sample[1])
            self._sample = None

    def report(self) -> dict[str, list[int]]:
        """Return the counts of each histogram, by name."""
        return {name: list(getattr(self, name).counts) for name in ("hop", "queue", "commit")}


class Introspection:
    """What can be seen of one broker; `address` is where it listens."""

    def __init__(self, core: BrokerCore, address: Callable[[], str], latencies: Latencies) -> None:
        self.core = core
        self.latencies = latencies
        self._address = address
        self._started_s = time.monotonic()

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.core.config.name

    @property
    def router(self) -> Router:
        """The router in force."""
        return self.core.router

    def counters(self) -> Counter[str]:
        """Return what the broker and its router have counted."""
        return self.core.counted()

    def clients(self) -> Iterator[tuple[Session, Peer]]:
        """Yield the clients that are attached, with their connections."""
        for peer in list(self.core.peers.values()):
            if isinstance(peer.who, Session):
                yield peer.who, peer

    def client(self, link: str) -> Session | None:
        """Return the client at a link."""
        return self.core.clients.get(link)

    def neighbours(self) -> Iterator[tuple[str, Neighbour, Peer | None]]:
        """Yield the neighbours that are configured, with the connections of those that are there."""
        for name, neighbour in sorted(self.core.neighbours.records.items()):
            yield name, neighbour, self.core.peer_at(name) if neighbour.is_connected else None

    def is_open(self, link: str) -> bool:
        """Return whether the neighbour and this broker know what each must know of the other."""
        return self.core.neighbours.is_open(link)

    def uptime_s(self) -> float:
        """Return how long the broker has been up."""
        return time.monotonic() - self._started_s

    # -- totals ----------------------------------------------------------------------------------------------

    def client_totals(self) -> Counter[str]:
        """Return what all clients together have counted, those that are gone too."""
        total = Counter(self.core.tally.clients)
        for client, peer in self.clients():
            total.update(counts_of(peer.connection))
            total.update({name: getattr(client, name) for name in CLIENT_COUNTS})
        return _with_zeros(total, (*CLIENT_COUNTS, *CONNECTION_COUNTS))

    def neighbour_totals(self) -> dict[str, Counter[str]]:
        """Return what each neighbour has counted, over all links to it."""
        totals = {}
        for name, neighbour, peer in self.neighbours():
            total = Counter(self.core.tally.neighbours.get(name, {}))
            if peer is not None:
                total.update(counts_of(peer.connection))
                total.update({count: getattr(neighbour, count) for count in NEIGHBOUR_COUNTS})
            totals[name] = _with_zeros(total, (*NEIGHBOUR_COUNTS, *CONNECTION_COUNTS))
        return totals

    def totals(self) -> dict[str, int]:
        """Return what the whole broker has counted."""
        clients, neighbours = self.client_totals(), self.neighbour_totals()
        tally = self.core.tally
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
            "refused": sum(self.refusals().values()),
            "slow_consumers": self.core.counters["slow_consumers"],
        }

    def refusals(self) -> dict[str, int]:
        """Return how many connections and requests were refused, by reason."""
        counted = self.core.counters
        return {reason: counted[f"refused_{reason}"] for reason in REFUSALS}

    def slow(self) -> list[Row]:
        """Return the links that read too slowly now: more than half of what may wait does, or some was dropped."""
        found = [
            _slow(client.link, client.permissions.name, peer)
            for client, peer in self.clients()
            if is_slow(peer.connection.outbox)
        ]
        for name, _, peer in self.neighbours():
            if peer is not None and is_slow(peer.connection.outbox):
                found.append(_slow(name, name, peer))
        found.sort(key=lambda row: (-row["queue_events"], row["link"]))
        return found

    # -- reports ---------------------------------------------------------------------------------------------

    def ready(self) -> Row:
        """Return whether the broker serves clients, and which links are not there."""
        missing = [name for name, _, _ in self.neighbours() if not self.is_open(name)]
        return {"ready": self.core.is_ready(time.monotonic()), "broker": self.name, "links_missing": missing}

    def varz(self) -> Row:
        """Return the broker at a glance."""
        config, inbox = self.core.config, self.core.scheduler
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "broker": self.name,
            "version": __version__,
            "strategy": config.strategy,
            "advertisements": config.advertisements,
            "address": self._address(),
            "tls": self.core.security.contexts is not None,
            "credentials": self.core.security.has_credentials,
            "uptime_s": round(self.uptime_s(), 3),
            "time_s": round(time.time(), 3),
            **self.ready(),
            "clients": len(self.core.clients),
            "neighbours": [name for name, _, _ in self.neighbours()],
            "links_up": [name for name, _, peer in self.neighbours() if peer is not None],
            "subscriptions": self.router.local_size(),
            "entries": self.router.remote_size(),
            "inbox": {"frames": inbox.count, "longest": inbox.longest, "congested": inbox.is_congested},
            "totals": self.totals(),
            "slow": self.slow()[:10],
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
            "peak_memory_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            "max_frame": config.max_frame,
            "connections": dict(self.core.admission.report()),
            "max_connections": config.max_connections,
            "max_subscriptions": config.max_subscriptions,
            "max_filter_cost": config.max_filter_cost,
            "max_client_bytes": config.max_client_bytes,
            "lease_s": config.lease_s,
        }

    def plan_file(self) -> bytes:
        """Return the file of the plan in which events set out; empty if that is none."""
        state = self.core.epochs.state
        return state.plans[state.current]

    def samples_dir(self) -> Path | None:
        """Return where samples are, if there are any."""
        sampler = self.core.sampler
        return None if sampler is None else sampler.directory

    def store_incidents(self) -> list[Row]:
        """Return what has gone wrong with the store since the start, the last first."""
        now_s = time.monotonic()
        return [
            {"seconds_ago": round(now_s - one.at_s, 1), "event": one.event, **one.fields}
            for one in self.core.durable.incidents()
        ]

    def store(self) -> Mapping[str, float]:
        """Return what the store of confirmed events reports of itself; nothing, if there is none."""
        return self.core.durable.report()


def text_of(filter: Filter) -> str:
    """Return a filter's text, cut if it is long."""
    text = str(filter)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def is_slow(outbox: Outbox) -> bool:
    """Return whether more than half of what may wait does, or some was dropped."""
    return outbox.is_over or outbox.dropped > 0


def _slow(link: str, name: str, peer: Peer) -> Row:
    outbox = peer.connection.outbox
    return {
        "link": link,
        "name": name,
        "peer": peer.address,
        "queue_events": outbox.count,
        "queue_bytes": outbox.size,
        "dropped": outbox.dropped,
    }


def _with_zeros(counter: Counter[str], names: Iterable[str]) -> Counter[str]:
    return Counter({name: counter[name] for name in names})


MAX_PAGE: Final = 1_000

# Why a connection or a request over HTTP is refused, as it is counted.
REFUSALS: Final = {
    "credentials": "wrong credentials, or none",
    "busy": "too many failed attempts, or too many passwords to check",
    "room": "no place is left",
    "crowded": "too many connections had not said who they are",
    "host": "a foreign Host",
    "origin": "a foreign Origin",
    "encoding": "a compressed body",
    "body": "a body that is too long or too slow",
    "full": "too many requests wait for full queues",
}


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


def storez(view: Introspection, page: Page) -> Row:
    """Return what is kept: numbers of the store, its incidents, and durable subscriptions with their queues."""
    durable = view.core.durable

    def subscription(one: DurableSubscription) -> Row:
        events, size = durable.waiting(one)
        return {
            "user": one.owner.user,
            "client": one.owner.client,
            "name": one.owner.name,
            "attached": one.attached is not None,
            "queue_events": events,
            "queue_bytes": size,
            "under_way": one.feed.under_way,
            "filter_bytes": one.bytes,
            "dropped": one.dropped,
        }

    return {
        "broker": view.name,
        "keeps": durable.keeps,
        "store": dict(view.store()),
        "incidents": view.store_incidents(),
        **page.of((one.owner.client, partial(subscription, one)) for one in durable.held()),
    }


def linkz(view: Introspection, page: Page) -> Row:
    """Return the links: neighbours first, then clients; and those that ended last."""
    totals = view.neighbour_totals()
    entries = Counter(link for link, _ in view.router.remote_entries())

    def neighbour(name: str, one: Neighbour, peer: Peer | None) -> Row:
        return {
            "link": name,
            "kind": "neighbour",
            "up": peer is not None,
            "open": view.is_open(name),
            "entries": entries[name],
            **totals[name],
            **_connection(peer),
        }

    def client(one: Session, peer: Peer) -> Row:
        return {
            "link": one.link,
            "kind": "client",
            "up": True,
            "name": one.name,
            "permissions": one.permissions.as_dict(),
            "subscriptions": len(one.keys),
            "advertisements": len(one.advertised),
            "filter_bytes": one.bytes + view.core.stored_bytes(one),
            **{name: getattr(one, name) for name in CLIENT_COUNTS},
            **counts_of(peer.connection),
            **_connection(peer),
        }

    rows: list[tuple[str, Callable[[], Row]]] = [
        (found[0], partial(neighbour, *found)) for found in view.neighbours()
    ]
    rows += [(found[0].link, partial(client, *found)) for found in view.clients()]
    ended = [
        {"link": one.link, "name": one.name, "peer": one.peer, "reason": one.reason}
        for one in reversed(view.core.tally.ended)
    ]
    return {"broker": view.name, **page.of(rows), "ended": ended[:20]}


def watchz(view: Introspection, gap_s: float) -> Row:
    """Return what changes all the time, as far as it can be read quickly: no tables, and of clients only sums.

    `gap_s` is told to whoever watches: how long the next line may take to come at the earliest.
    """
    totals, counted, epochs = view.neighbour_totals(), view.counters(), view.core.epochs
    installation = view.core.plans.installation
    return {
        **view.varz(),
        "gap_s": round(gap_s, 3),
        "control_in": sum(count for name, count in counted.items() if name.startswith("control_in_")),
        "control_out": sum(count for name, count in counted.items() if name.startswith("control_out_")),
        "links": [
            {
                "link": name,
                "up": peer is not None,
                "open": view.is_open(name),
                **totals[name],
                "queue_events": 0 if peer is None else peer.connection.outbox.count,
                "queue_bytes": 0 if peer is None else peer.connection.outbox.size,
            }
            for name, _, peer in view.neighbours()
        ],
        "client_queue_events": sum(peer.connection.outbox.count for _, peer in view.clients()),
        "store": dict(view.store()),
        "plan": {
            "version": epochs.state.version,
            "epoch": epochs.current,
            "planned": epochs.is_planned(epochs.current),
            "step": "" if installation is None else installation.step.name.lower(),
            "reason": "" if installation is None else installation.reason[:MAX_TEXT],
        },
        "latency_bounds_s": BOUNDS_S,
        "latencies": view.latencies.report(),
    }


class Pulse:
    """What `/watchz` says, made once for all who watch, and so seldom that it takes at most SHARE of the time.

    `make` gives a line that says how far apart lines are, in seconds; `clock` gives the time, `spent` the processor
    time of this thread.
    """

    SHARE: Final = 0.01
    LEAST_S: Final = 0.25  # between two lines

    def __init__(
        self,
        make: Callable[[float], bytes],
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._make, self._clock, self._spent = make, clock, spent
        self._line = b""
        self._next_s = 0.0
        self._gap_s = self.LEAST_S

    def line(self) -> bytes:
        """Return a line, the last one if it is too early for another."""
        now_s = self._clock()
        if not self._line or now_s >= self._next_s:
            before_s = self._spent()
            self._line = self._make(self._gap_s)
            self._gap_s = max(self.LEAST_S, (self._spent() - before_s) / self.SHARE)
            self._next_s = now_s + self._gap_s
        return self._line

    def wait_s(self, every_s: float) -> float:
        """Return how long to wait for the next line, for somebody who wants one so often."""
        return max(every_s, self._next_s - self._clock())


def subz(view: Introspection, page: Page, key: str = "") -> Row:
    """Return what clients asked for, or one subscription by its key."""
    clients = view.core.clients
    if key:
        found = ((client, key) for client in clients.values() if client.sid_of(key) is not None)
    else:
        found = (
            (client, one)
            for client in list(clients.values())
            if not page.link or client.link == page.link
            for one in list(client.keys.values())
        )

    def row(client: Session, one: str) -> Row:
        return {
            "link": client.link,
            "key": one,
            "sid": client.sid_of(one),
            "name": client.permissions.name,
            "client": client.name,
            **_filter(view.core.epochs.complete.local_filter(client.link, one)),
        }

    rows = ((client.link, partial(row, client, one)) for client, one in found)
    return {"broker": view.name, **page.of(rows)}


def routez(view: Introspection, page: Page, what: str = "entries") -> Row:
    """Return the routing table: what neighbours asked for, or what is advertised behind each link."""
    rows = _advertised(view) if what == "advertisements" else _entries(view)
    return {"broker": view.name, "what": what, **page.of(rows)}


def _entries(view: Introspection) -> Iterator[tuple[str, Callable[[], Row]]]:
    for tree, part in view.router.trees.items():
        for link in part.neighbours():
            for fact in part.strategy.heard(link):

                def row(tree: int = tree, link: str = link, fact: Any = fact) -> Row:
                    known = {"link": link, "tree": tree, "key": fact.key, **_filter(fact.filter)}
                    return known | ({"home": fact.owner} if fact.owner else {})

                yield link, row


def _advertised(view: Introspection) -> Iterator[tuple[str, Callable[[], Row]]]:
    for tree, part in view.router.trees.items():
        links = [*part.links_up(), *view.core.clients]
        for link in links:
            for key, one in part.advertised.of_link(link).items():

                def row(tree: int = tree, link: str = link, key: str = key, one: Any = one) -> Row:
                    known = {"link": link, "tree": tree, "key": key, "publisher": one.publisher}
                    return known | _filter(one.filter)

                yield link, row


def planz(view: Introspection) -> Row:
    """Return the trees that are installed, with this broker's neighbours on each."""
    epochs = view.core.epochs
    installation = view.core.plans.installation
    return {
        "broker": view.name,
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


def _connection(peer: Peer | None) -> Row:
    if peer is None:
        return {"peer": "", "queue_events": 0, "queue_bytes": 0, "slow": False}
    outbox = peer.connection.outbox
    return {
        "peer": peer.address,
        "tls": peer.stranger.certificate is not None,
        "queue_events": outbox.count,
        "queue_bytes": outbox.size,
        "policy": outbox.bounds.policy,
        "slow": is_slow(outbox),
    }


MAX_LISTED: Final = 20
LANGUAGES: Final = {"attributes": ATTRIBUTES, "xpath": XPATH, "keywords": KEYWORDS}


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of one broker."""

    content: Any  # a mapping; XML; a list of words
    language: str = "attributes"
    source: str = ""  # the link that the event comes from: a client's or a neighbour's; none for any client
    flooded: bool = False
    destinations: tuple[str, ...] | None = None
    tree: int = 0
    target: str = ""  # the key of a subscription here, about which more is said
    wanted: str = (
        ""  # the text of the filter of a subscription elsewhere, which neighbours should have asked for
    )


def content_of_question(content: Any, language: str) -> Any:
    """Return the content as brokers have it when it has travelled; EventError if it cannot."""
    family = LANGUAGES.get(language)
    if family is None:
        raise EventError(f"there is no filter language {language!r:.40}")
    if family == KEYWORDS:
        if not isinstance(content, list | tuple | set | frozenset) or not all(
            isinstance(word, str) for word in content
        ):
            raise EventError("a document of keywords is an array of words")
        content = set(content)
    elif family == XPATH and not isinstance(content, str):
        raise EventError("an XML document is a string")
    elif family == ATTRIBUTES and not isinstance(content, dict):
        raise EventError("an event of attributes is an object")
    return decode_content(family, encode_content(content)[1])


def explain(view: Introspection, question: Question) -> Row:
    """Return where the event would go; EventError if it is none."""
    event = content_of_question(question.content, question.language)
    router = view.router
    local = sorted(router.matching(event))
    client = view.client(question.source)
    is_published = client is not None or not question.source
    publish = Publish(
        event,
        "",
        question.source,
        destinations=question.destinations,
        flooded=question.flooded,
        tree=question.tree,
    )
    answer: Row = {
        "broker": view.name,
        "strategy": view.varz()["strategy"],
        "subscriptions": [
            {"link": link, "key": key, "filter": text_of(router.local_filter(link, key))}
            for link, key in local[:MAX_LISTED]
        ],
        "subscriptions_total": len(local),
        "advertised": None,
        "allowed": None,
        "hops": [],
    }
    if client is not None:
        allowed = client.permissions.publish
        answer["allowed"] = allowed is None or allowed.matches(event)
        answer["publisher"] = client.permissions.as_dict()
    if not is_published and question.tree not in router.trees:
        raise EventError(f"there is no tree {question.tree} here")
    parts = router.telling if is_published else [router.trees[question.tree]]
    wanted = parse(question.wanted, question.language) if question.wanted else None
    for part in parts:
        one = publish
        if is_published:
            flooded = client is not None and not part.is_advertised(question.source, event)
            answer["advertised"] = None if client is None else not flooded
            one = msgspec.structs.replace(publish, flooded=flooded, tree=part.tree)
            if not flooded:
                one = part.strategy.address(one, local)
        answer["hops"] += _hops(view, router.trees[one.tree], one, local, question.source, wanted)
        if is_published and one.flooded:
            break  # one tree reaches everyone
    if question.target:
        answer["target"] = _target(view, question.target, event)
    return answer


def _hops(
    view: Introspection, part: TreePart, publish: Publish, local: Any, source: str, wanted: Filter | None
) -> Iterable[Row]:
    strategy = part.strategy
    going: dict[str, Publish]
    if publish.flooded:
        going = {link: publish for link in part.neighbours() if link != source}
    elif strategy.matched_once:
        going = dict(strategy.forward(publish, source, local))
    else:
        going = dict.fromkeys(strategy.ordered(strategy.next_hops(publish.event), source), publish)
    for link, neighbour, _ in view.neighbours():
        if not part.plan.has_link(part.tree, part.broker, link):
            continue
        facts = strategy.heard(link) if link in part.neighbours() else []
        entry = next((fact.filter for fact in facts if fact.filter.matches(publish.event)), None)
        row: Row = {"link": link, "tree": part.tree, "goes": link in going and neighbour.is_connected}
        sent = going.get(link) if neighbour.is_connected else None
        if sent is not None:
            if publish.flooded:
                row["reason"] = "it is outside its publisher's advertisements and goes everywhere"
            elif entry is not None:
                row["reason"] = f"an entry matches it: {text_of(entry)}"
            elif sent.destinations is not None:
                row["reason"] = f"it is for {', '.join(sent.destinations)!s:.200}"
            else:
                row["reason"] = f"the strategy {strategy.name} sends it everywhere"
            row["flooded"], row["destinations"] = sent.flooded, sent.destinations
        elif link == source:
            row["reason"] = "it comes from there"
        elif not neighbour.is_connected:
            asked = f"; an entry of it matches the event: {text_of(entry)}" if entry is not None else ""
            row["reason"] = f"the link is down{asked}"
        elif link not in part.neighbours():
            row["reason"] = "the link is coming up: the brokers do not know yet what the other wants"
        else:
            row["reason"] = f"none of its {len(facts):,} entries matches the event" + _hint(
                view, part, link, wanted
            )
        yield row


def _target(view: Introspection, key: str, event: object) -> Row:
    for link, wanted in view.router.local_subscriptions().items():
        if key in wanted:
            filter = wanted[key]
            failed = why_not(filter, event)
            client = view.client(link)
            return {
                "key": key,
                "link": link,
                "filter": text_of(filter),
                "matches": not failed,
                "fails": [[str(miss) for miss in alternative] for alternative in failed[:MAX_LISTED]],
                "name": "" if client is None else client.permissions.name,
            }
    return {"key": key, "matches": False, "fails": [["there is no such subscription here"]]}


def _hint(view: Introspection, part: TreePart, link: str, wanted: Filter | None) -> str:
    """Return why a neighbour may not have asked for what a subscription behind it wants."""
    if wanted is None:
        return ""
    sources = [*part.links_up(), *(client.link for client, _ in view.clients())]
    if any(part.wanted(other, wanted) for other in sources if other != link):
        return "; it has not asked for what the subscription wants"
    return (
        "; nobody on this side has advertised what the subscription wants"
        " (events of clients that advertise nothing go everywhere)"
    )
