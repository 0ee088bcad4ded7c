"""What durable subscriptions may have, as settings."""

from __future__ import annotations

from dataclasses import dataclass

from covey.broker.settings import integer, number, setting


@dataclass(frozen=True)
class QueueLimits:
    """The limits of each durable subscription; beyond the first three its oldest events are dropped."""

    events: int = setting(integer(1), "events that one durable subscription may store", default=1_000_000)
    bytes: int = setting(integer(1), "bytes of events that it may store", default=256 << 20)
    age_s: float = setting(number(), "seconds that an event is stored for it", default=7 * 86_400.0)
    window: int = setting(integer(1), "deliveries to it that wait to be acknowledged", default=1_000)
    window_bytes: int = setting(integer(1), "bytes of such deliveries", default=4 << 20)
    again_after_s: float = setting(
        number(), "seconds without an acknowledgement, after which a delivery is repeated", default=60.0
    )
    subscriptions: int = setting(integer(0), "durable subscriptions at this broker", default=10_000)
