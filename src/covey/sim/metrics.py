"""What is measured while a network runs: samples at moments, and a histogram of delays.

A sample has what is true at its moment (tables, queues), what was counted since the beginning (messages, events), and
what happened since the sample before it (delays of deliveries, the longest queue). Memory is bounded: delays are
counted in buckets whose bounds grow by 2%, so a quantile is at most 1% off; counts, means and maxima are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from covey.routing.messages import CONTROL, Publish
from covey.sim.handles import Subscription
from covey.sim.network import Network

GROWTH = 1.02
RELATIVE_ERROR = math.sqrt(GROWTH) - 1.0
SMALLEST_S = 1e-9  # all that is shorter is no delay at all

_LOG_GROWTH = math.log(GROWTH)

# Control messages as the network counts them, and as they are called here.
KINDS = {f"{kind.__name__.lower()}_messages": kind.__name__.lower() for kind in CONTROL}


class Histogram:
    """Counts of times in seconds; see the module's text for its error."""

    __slots__ = ("_buckets", "count", "most_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.most_s = 0.0
        self._buckets: dict[int | None, int] = {}  # None has those that are no delay at all

    def add(self, time_s: float, times: int = 1) -> None:
        """Count a time, as often as it came."""
        self.count += times
        self.total_s += times * time_s
        self.most_s = max(self.most_s, time_s)
        bucket = math.floor(math.log(time_s) / _LOG_GROWTH) if time_s > SMALLEST_S else None
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times

    def merge(self, other: Histogram) -> None:
        """Count all that the other one has."""
        self.count += other.count
        self.total_s += other.total_s
        self.most_s = max(self.most_s, other.most_s)
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def quantile(self, share: float) -> float:
        """Return a time that this share of all does not exceed; 0 where there is none."""
        rank = max(1, math.ceil(share * self.count))
        for bucket in sorted(self._buckets, key=lambda bucket: -math.inf if bucket is None else bucket):
            rank -= self._buckets[bucket]
            if rank <= 0:
                middle = 0.0 if bucket is None else GROWTH ** (bucket + 0.5)
                return min(middle, self.most_s)
        return 0.0

    def delays(self) -> Delays:
        """Return the figures that people ask for."""
        mean_s = self.total_s / self.count if self.count else 0.0
        return Delays(self.count, mean_s, self.quantile(0.5), self.quantile(0.99), self.most_s)


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of deliveries, from publishing to the client, in seconds."""

    deliveries: int
    mean_s: float
    p50_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of a run; `phase` is the part of the workload that begins then, if one does."""

    at_s: float
    phase: str
    # at the moment
    remote_entries: int
    remote_entries_mean: float
    remote_entries_max: int
    local_entries: int
    local_entries_max: int
    queued: int
    queue_max: int
    # since the beginning
    control_messages: int
    control_by_kind: Mapping[str, int]
    published_events: int
    forwarded_events: int
    delivered_events: int
    false_positives: int
    duplicates_suppressed: int
    triggered: int
    # since the sample before
    queue_peak: int
    core_queue_peak: int
    delays: Delays
    # at the moment, in the order of the brokers, where it was asked for
    remote_by_broker: Sequence[int] = field(default_factory=tuple)
    queue_by_broker: Sequence[int] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """One broker at the end of a run; the queue is the longest of the whole run."""

    remote_entries: int
    local_entries: int
    queue_peak: int
    triggered: int
    busy_s: float


class Collector:
    """Takes samples of a network; it takes over the network's `on_delivery` and the brokers' `longest_queue`."""

    def __init__(self, net: Network, core: Sequence[str] = (), *, by_broker: bool = False) -> None:
        self.samples: list[Sample] = []
        self.delays = Histogram()
        self._net = net
        self._core = core
        self._by_broker = by_broker
        self._recent = Histogram()
        self._delay_s, self._times = (
            0.0,
            0,
        )  # what one broker delivers of one event has one delay: counted at once
        self._peaks = dict.fromkeys(net.brokers, 0)
        net.on_delivery = self._delivered

    def _delivered(self, subscription: Subscription, publish: Publish, delay_s: float) -> None:
        if delay_s != self._delay_s:
            self._count_delays()
            self._delay_s = delay_s
        self._times += 1

    def _count_delays(self) -> None:
        if self._times:
            self._recent.add(self._delay_s, self._times)
            self._times = 0

    def sample(self, at_s: float, phase: str = "") -> Sample:
        """Take a sample."""
        net = self._net
        remote, local = self._table_sizes()
        queues = [node.queue_length for node in net.nodes.values()]
        peaks = self._take_peaks()
        counters, routers = net.counters, net.router_counters()
        sample = Sample(
            at_s=at_s,
            phase=phase,
            remote_entries=sum(remote),
            remote_entries_mean=sum(remote) / len(remote),
            remote_entries_max=max(remote),
            local_entries=sum(local),
            local_entries_max=max(local),
            queued=sum(queues),
            queue_max=max(queues),
            control_messages=counters["control_messages"],
            control_by_kind={name: counters[key] for key, name in KINDS.items() if counters[key]},
            published_events=counters["published_events"],
            forwarded_events=counters["forwarded_events"],
            delivered_events=counters["delivered_events"],
            false_positives=counters["false_positives"],
            duplicates_suppressed=counters["duplicates_suppressed"] + routers["duplicates_suppressed"],
            triggered=routers["triggered"],
            queue_peak=max(peaks.values()),
            core_queue_peak=max((peaks[broker] for broker in self._core), default=0),
            delays=self._take_delays(),
            remote_by_broker=tuple(remote) if self._by_broker else (),
            queue_by_broker=tuple(queues) if self._by_broker else (),
        )
        self.samples.append(sample)
        return sample

    def _table_sizes(self) -> tuple[list[int], list[int]]:
        """Return the remote and local entries of each broker; one that is down has none."""
        remote: list[int] = []
        local: list[int] = []
        for node in self._net.nodes.values():
            remote.append(node.router.remote_size() if node.is_up else 0)
            local.append(node.router.local_size() if node.is_up else 0)
        return remote, local

    def _take_peaks(self) -> dict[str, int]:
        """Return the longest queue of each broker since the last time, and begin anew."""
        peaks: dict[str, int] = {}
        for broker, node in self._net.nodes.items():
            peaks[broker] = node.longest_queue
            self._peaks[broker] = max(self._peaks[broker], node.longest_queue)
            node.longest_queue = node.queue_length
        return peaks

    def _take_delays(self) -> Delays:
        self._count_delays()
        delays = self._recent.delays()
        self.delays.merge(self._recent)
        self._recent = Histogram()
        return delays

    def brokers(self) -> dict[str, BrokerFigures]:
        """Return the figures of each broker, as of the last sample."""
        remote, local = self._table_sizes()
        return {
            broker: BrokerFigures(
                remote_entries=remote[place],
                local_entries=local[place],
                queue_peak=self._peaks[broker],
                triggered=node.router.counters["triggered"],
                busy_s=node.busy_s,
            )
            for place, (broker, node) in enumerate(self._net.nodes.items())
        }


def since(before: Sample | None, after: Sample) -> dict[str, Any]:
    """Return what was counted between two samples; from the beginning, without a first one."""
    names = (
        "control_messages",
        "published_events",
        "forwarded_events",
        "delivered_events",
        "false_positives",
        "duplicates_suppressed",
        "triggered",
    )
    return {name: getattr(after, name) - (getattr(before, name) if before else 0) for name in names}
