"""How long a broker works on a message: models of service times.

    zero       no time at all: counts are exact, delays are those of links
    table-ii   the mean times that M. Chen et al. measured (*Congestion Avoidance with Incremental Filter
               Aggregation*, Table II), by kind of message and covering variant; all in a pack is worked on
    linear     times that grow with the broker's table, as where it is scanned; the time of an entry is that of Table II
    measured   what `Router.handle` took on this machine: runs differ from day to day

Table II has totals and means, so it says how many messages there were, and so how large the table was that they met:
18,000 subscriptions less 8,360 withdrawn with active covering, 18,000 with lazy, 21,060 without, and half of it on
average while it grew. By these every kind of message took about the same time for an entry in all three columns:

    an event                    0.31, 0.34, 0.38 us      covering detection      2.5, 3.0 us
    matching a subscription     0.17, 0.18, 0.15 us      an unsubscription       0.29 us

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

# Milliseconds for a message and an entry of the table: the means of the columns above.
SCANNED = Times(0.166e-3 + 2.745e-3, 0.290e-3, 0.343e-3)
SCANNED_PLAINLY = SCANNED._replace(subscribe=0.166e-3)


class Service:
    """A model of service times: by a table, for each entry where it `grows`, or by the clock where it is `measured`."""

    def __init__(
        self, kind: str, times: Times | None, *, measured: bool = False, grows: bool = False
    ) -> None:
        self.kind = kind
        self.measured = measured
        self.grows = grows
        self._times = times

    def time_s(self, message: Message, entries: int = 1) -> float:
        """Return how long a broker works on the message; if the model grows, one whose table has so many entries."""
        return self._fixed_s(message) * (entries if self.grows else 1)

    def _fixed_s(self, message: Message) -> float:
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
                return sum(map(self._fixed_s, inner))
            case Update(triples=triples):
                return times.subscribe * len(triples) / 1000.0
            case Change(removed=removed, added=added):
                return (times.unsubscribe * len(removed) + times.subscribe * len(added)) / 1000.0
        return 0.0

    @property
    def is_zero(self) -> bool:
        """Whether brokers take no time at all, so that queues never form."""
        return self._times is None and not self.measured


def build(kind: str, strategy: str, *, factor: float = 1.0, **times: Any) -> Service:
    """Return the model of that name for a strategy.

    `times` in ms replace those of table-ii. With linear an entry counts as `factor` entries: a network that is ten
    times smaller than another has with factor 10 the same times.
    """
    if kind == "zero":
        return Service(kind, None)
    if kind == "measured":
        return Service(kind, None, measured=True)
    if kind == "linear":
        base = SCANNED_PLAINLY if TABLE_II.get(strategy) is NONE else SCANNED
        return Service(kind, Times(*(factor * time for time in base)), grows=True)
    if kind == "table-ii":
        base = TABLE_II.get(strategy, ACTIVE)
        unknown = set(times) - set(Times._fields)
        if unknown:
            raise ConfigError(
                f"service times are {', '.join(Times._fields)}, not {', '.join(sorted(unknown))}"
            )
        return Service(kind, base._replace(**times))
    raise ConfigError(
        f"there is no service model {kind!r:.40} (hint: one of zero, table-ii, linear, measured)"
    )
