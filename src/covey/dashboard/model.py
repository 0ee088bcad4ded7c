"""The model: what brokers said, and when, becomes what the dashboard shows. No I/O and no clock: time is an argument.

A broker is

    up          it said something not long ago
    starting    it has not been heard yet, and nothing is wrong so far
    down        it cannot be reached, or has said nothing for SILENT_S (longer, if its many clients make it say so)
    unknown     neighbours name it, and nobody said where its admin pages are

A link is down if one of its ends says so, or is down; opening while the ends have not told each other all they know;
otherwise up. Rates are over the broker's own clock, so that a line that comes late changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from covey.dashboard.reading import LinkCounts, Snapshot

SILENT_S: Final = 2.5  # without a line
UP, STARTING, DOWN, UNKNOWN, OPENING = "up", "starting", "down", "unknown", "opening"
MAX_GAP_S: Final = 30.0  # between lines, that a broker may claim
MAX_SLOW: Final = 100
MARKS: Final = 13  # the oldest is a minute old, at one in five seconds

Pair = tuple[str, str]


@dataclass
class Source:
    """A broker that is asked: its last two snapshots, and what is wrong with it."""

    url: str
    name: str = ""  # as it was heard last
    before: Snapshot | None = None
    now: Snapshot | None = None
    heard_s: float | None = None
    error: str = ""
    trees: Mapping[int, list[str]] = field(default_factory=dict)
    marks: deque[Mapping[str, list[int]]] = field(default_factory=lambda: deque(maxlen=MARKS))  # of latencies

    def hear(self, snapshot: Snapshot, now_s: float) -> None:
        """Take a snapshot. One of another life of the broker has nothing before it."""
        is_same_life = (
            self.now is not None
            and self.now.broker == snapshot.broker
            and self.now.uptime_s <= snapshot.uptime_s
        )
        if not is_same_life:
            self.before = None
            self.marks.clear()
        elif self.now is not None and snapshot.uptime_s > self.now.uptime_s:
            self.before = self.now
        self.now, self.name, self.heard_s, self.error = snapshot, snapshot.broker, now_s, ""

    def fail(self, error: str) -> None:
        """Take note that it cannot be heard."""
        self.error = error
        self.before = None

    def state(self, now_s: float) -> str:
        """Return whether it is up, starting or down."""
        if self.error:
            return DOWN
        if self.heard_s is None:
            return STARTING
        return UP if now_s - self.heard_s <= self.patience_s() else DOWN

    def patience_s(self) -> float:
        """Return how long it may be silent. Lines of a broker with very many clients are further apart, as it says."""
        gap_s = 0.0 if self.now is None else min(max(0.0, self.now.gap_s), MAX_GAP_S)
        return SILENT_S if gap_s <= 1.0 else SILENT_S + 2 * gap_s

    def rate(self, of: Callable[[Snapshot], float]) -> float:
        """Return how much a count, read by a function of a snapshot, grew in a second."""
        if self.before is None or self.now is None:
            return 0.0
        return self.rate_of(of(self.now) - of(self.before))

    def rate_of(self, grown: float) -> float:
        """Return what has come between the last two snapshots, in a second."""
        if self.before is None or self.now is None:
            return 0.0
        took_s = self.now.uptime_s - self.before.uptime_s
        return max(0.0, grown) / took_s if took_s > 0 else 0.0

    def mark(self) -> None:
        """Remember the histograms of latency as they are now."""
        if self.now is not None:
            self.marks.append(self.now.latencies)

    def recent(self, name: str) -> list[int]:
        """Return a histogram of the last minute, or of as long as it is known."""
        if self.now is None or self.error:
            return []
        now, before = self.now.latencies.get(name, []), self.marks[0].get(name, []) if self.marks else []
        if len(now) != len(before):
            return list(now)
        return [max(0, one - two) for one, two in zip(now, before, strict=True)]

    def total_rate(self, name: str) -> float:
        """Return how much one of the totals grew in a second."""
        return self.rate(lambda snapshot: snapshot.totals.get(name, 0))


class End(NamedTuple):
    """A link as the broker at one of its ends sees it, now and before."""

    source: Source
    now: LinkCounts
    before: LinkCounts

    def rate(self, name: str) -> float:
        """Return how much a count grew in a second."""
        return self.source.rate_of(getattr(self.now, name) - getattr(self.before, name))


def pair_of(a: str, b: str) -> Pair:
    """Return a link's ends in the order of their names."""
    return (a, b) if a <= b else (b, a)


def view_of(sources: Iterable[Source], now_s: float) -> dict[str, Any]:
    """Return everything that the map shows: brokers, links, sums, trees and slow consumers, sorted by name."""
    listed = list(sources)
    states = {source.name or source.url: source.state(now_s) for source in listed}
    brokers = [_broker(source, states[source.name or source.url], now_s) for source in listed]
    links = _links(listed, states)
    for name in sorted({name for link in links for name in (link["a"], link["b"])} - states.keys()):
        states[name] = UNKNOWN
        brokers.append({"name": name, "state": UNKNOWN, "error": "nobody said where its admin pages are"})
    brokers.sort(key=lambda row: row["name"])
    return {
        "brokers": brokers,
        "links": links,
        "totals": _totals(brokers),
        "trees": trees_of_network(listed),
        "plan": _plan(listed),
        "slow": _slow(listed),
    }


RATES: Final = {
    "published": "events_published",
    "received": "events_received",
    "forwarded": "events_forwarded",
    "delivered": "events_delivered",
    "dropped": "events_dropped",
    "refused": "events_refused",
}


def _broker(source: Source, state: str, now_s: float) -> dict[str, Any]:
    row: dict[str, Any] = {"name": source.name or source.url, "url": source.url, "state": state}
    if state == DOWN:
        row["error"] = source.error or f"nothing was heard for {now_s - (source.heard_s or 0.0):.0f} s"
    if source.now is None or state == DOWN:
        return row
    said = source.now
    rates = {name: round(source.total_rate(total), 2) for name, total in RATES.items()}
    came, went = rates["published"] + rates["received"], rates["forwarded"] + rates["delivered"]
    return {
        **row,
        **rates,
        "nobody": round(max(0.0, came - went), 2),  # at least: others went to several
        "control": round(source.rate(lambda one: one.control_in + one.control_out), 2),
        "cpu": round(source.rate(lambda one: one.cpu_s), 4),
        "clients": said.clients,
        "subscriptions": said.subscriptions,
        "entries": said.entries,
        "queue": said.client_queue_events + sum(link.queue_events for link in said.links),
        "inbox": said.inbox.frames,
        "congested": said.inbox.congested,
        "ready": said.ready,
        "strategy": said.strategy,
        "version": said.version,
        "uptime_s": said.uptime_s,
        "memory_bytes": said.peak_memory_bytes,
        "plan": said.plan.version,
        "stored": int(said.store.get("queued_events", 0) + said.store.get("outbox_events", 0)),
    }


def _links(sources: Iterable[Source], states: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each link, of what its two ends say."""
    ends: dict[Pair, list[End]] = {}
    for source in sources:
        before = {} if source.before is None else {link.link: link for link in source.before.links}
        for link in [] if source.now is None else source.now.links:
            end = End(source, link, before.get(link.link, link))
            ends.setdefault(pair_of(source.name, link.link), []).append(end)
    return [_link(pair, told, states) for pair, told in sorted(ends.items())]


def _link(pair: Pair, told: list[End], states: Mapping[str, str]) -> dict[str, Any]:
    a, b = pair
    heard = [end for end in told if states.get(end.source.name) == UP]
    is_up = bool(heard) and all(end.now.up for end in heard)
    if not is_up or DOWN in (states.get(a), states.get(b)):
        state = DOWN
    else:
        state = UP if all(end.now.open for end in heard) else OPENING
    row: dict[str, Any] = {
        "a": a,
        "b": b,
        "state": state,
        "ab": 0.0,
        "ba": 0.0,
        "queue": 0,
        "delay_s": 0.0,
        "bytes": 0.0,
    }
    if state == DOWN:
        return row
    for end in heard:
        sent = end.rate("sent")
        row["ab" if end.source.name == a else "ba"] = round(sent, 2)
        row["bytes"] += round(end.rate("sent_bytes"), 1)
        row["queue"] += end.now.queue_events
        # How long what waits has to wait, if the neighbour goes on taking as much as it does.
        row["delay_s"] = max(row["delay_s"], round(end.now.queue_events / max(sent, 1.0), 3))
    return row


SUMMED: Final = (
    *RATES, "nobody", "control", "clients", "subscriptions", "entries", "queue", "inbox", "cpu",
)  # fmt: skip


def _totals(brokers: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    listed = list(brokers)
    sums = {name: round(sum(row.get(name, 0) for row in listed), 2) for name in SUMMED}
    return {**sums, "brokers": len(listed), "down": sum(row["state"] == DOWN for row in listed)}


def trees_of_network(sources: Iterable[Source]) -> dict[int, list[Pair]]:
    """Return the links of each tree of the plan in use; a link is on a tree if one of its ends says so."""
    found: dict[int, set[Pair]] = {}
    for source in sources:
        for tree, links in source.trees.items():
            found.setdefault(tree, set()).update(pair_of(source.name, link) for link in links)
    return {tree: sorted(pairs) for tree, pairs in sorted(found.items())}


def _plan(sources: Iterable[Source]) -> dict[str, Any]:
    """Return how many brokers use each version of a plan, and installations that are under way or have failed."""
    versions: dict[int, int] = {}
    steps = []
    for source in sources:
        if source.now is not None and not source.error:
            versions[source.now.plan.version] = versions.get(source.now.plan.version, 0) + 1
            if source.now.plan.step:
                plan = source.now.plan
                steps.append({"broker": source.name, "step": plan.step, "reason": plan.reason})
    return {"versions": dict(sorted(versions.items())), "steps": steps[:MAX_SLOW]}


def _slow(sources: Iterable[Source]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "broker": source.name,
            "link": one.link,
            "name": one.name,
            "queue": one.queue_events,
            "bytes": one.queue_bytes,
            "dropped": one.dropped,
        }
        for source in sources
        if source.now is not None and not source.error
        for one in source.now.slow
    ]
    return sorted(rows, key=lambda row: (-row["queue"], row["broker"], row["link"]))[:MAX_SLOW]
