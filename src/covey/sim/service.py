"""How long a broker works on a message: models of service times.

    zero       no time at all: counts are exact, delays are those of links
    table-ii   the mean times that M. Chen et al. measured (*Congestion Avoidance with Incremental Filter
               Aggregation*, Table II), by kind of message and covering variant; all in a pack is worked on
    measured   what `Router.handle` took on this machine: runs differ from day to day

A model says how long, never how much: whatever it is, the messages are the same as long as none overtakes another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from covey.errors import ConfigError
from covey.routing.messages import Change, Message, Pack, Publish, Subscribe, Unsubscribe, Update


class Times(NamedTuple):
    """Milliseconds for one message."""

    subscribe: float
    unsubscribe: float
    publish: float


# Matching and covering detection of a subscription are one sum: 0.81 + 12, 1.6 + 27, 1.6 + 0.
ACTIVE = Times(12.81, 1.4, 3.0)
LAZY = Times(28.6, 0.0, 6.2)
NONE = Times(1.6, 0.0, 7.9)

TABLE_II = {"covering-lazy": LAZY, "simple": NONE, "identity": NONE, "flooding": NONE, "match-first": NONE}


class Service:
    """A model of service times: by a table, or, where `measured` is set, by the clock."""

    def __init__(self, kind: str, times: Times | None, *, measured: bool = False) -> None:
        self.kind = kind
        self.measured = measured
        self._times = times

    def time_s(self, message: Message) -> float:
        """Return how long a broker works on the message."""
        times = self._times
        if times is None:
            return 0.0
        match message:
            case Publish():
                return times.publish / 1000.0
            case Subscribe():
                return times.subscribe / 1000.0
            case Unsubscribe():
                return times.unsubscribe / 1000.0
            case Pack(messages=inner):
                return sum(map(self.time_s, inner))
            case Update(triples=triples):
                return times.subscribe * len(triples) / 1000.0
            case Change(removed=removed, added=added):
                return (times.unsubscribe * len(removed) + times.subscribe * len(added)) / 1000.0
        return 0.0

    @property
    def is_zero(self) -> bool:
        """Whether brokers take no time at all, so that queues never form."""
        return self._times is None and not self.measured


def build(kind: str, strategy: str, **times: Any) -> Service:
    """Return the model of that name for a strategy; `times` in ms replace those of the table."""
    if kind == "zero":
        return Service(kind, None)
    if kind == "measured":
        return Service(kind, None, measured=True)
    if kind == "table-ii":
        base = TABLE_II.get(strategy, ACTIVE)
        unknown = set(times) - set(Times._fields)
        if unknown:
            raise ConfigError(
                f"service times are {', '.join(Times._fields)}, not {', '.join(sorted(unknown))}"
            )
        return Service(kind, base._replace(**times))
    raise ConfigError(f"there is no service model {kind!r:.40} (hint: one of zero, table-ii, measured)")
