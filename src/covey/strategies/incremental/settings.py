"""The settings of incremental filter aggregation, checked once, when a broker starts."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from covey.errors import ConfigError

BROKER, LINK = "broker", "link"


class Tier(NamedTuple):
    """From so many triggered subscriptions on, a filter is kept where it has this similarity."""

    triggered: int
    similarity: float


@dataclass(frozen=True, slots=True)
class Settings:
    """See docs/strategies/incremental.md.

    tiers             pairs (triggered subscriptions, similarity), the largest first whatever the order given
    burst             count the triggered subscriptions of one withdrawal for the whole "broker", or for each "link"
    window_s          for how long a subscriber's broker remembers the distance of an event
    window_rows       and how many of them at most
    minimum_samples   fewer than these from one publisher say nothing
    meter_events      over how many matching events a kept filter is judged; 0: it is not
    """

    tiers: tuple[Tier, ...] = (Tier(5012, 0.6), Tier(10, 0.9))  # lg M >= 3.7 and lg M >= 1
    burst: str = BROKER
    window_s: float = 600.0
    window_rows: int = 100_000
    minimum_samples: int = 20
    meter_events: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiers", _tiers(self.tiers))
        if self.burst not in (BROKER, LINK):
            raise _wrong("burst", f'"{BROKER}" or "{LINK}"', self.burst)
        if not _is_number(self.window_s) or self.window_s <= 0:
            raise _wrong("window_s", "a number of seconds above 0", self.window_s)
        for name, least in (("window_rows", 1), ("minimum_samples", 1), ("meter_events", 0)):
            value = getattr(self, name)
            if not _is_whole(value) or value < least:
                raise _wrong(name, f"a whole number from {least} up", value)

    @property
    def least(self) -> int:
        """How many subscriptions must be triggered for a filter to be kept, or to stay so."""
        return self.tiers[-1].triggered if self.tiers else 1

    def tier(self, triggered: int) -> int | None:
        """Return the number of the tier for so many triggered subscriptions; None if they are few."""
        for number, tier in enumerate(self.tiers):
            if triggered >= tier.triggered:
                return number
        return None


def _tiers(given: Any) -> tuple[Tier, ...]:
    """Return the tiers, the largest first."""
    expected = "pairs (triggered subscriptions, similarity)"
    if not isinstance(given, list | tuple):
        raise _wrong("tiers", expected, given)
    tiers: dict[int, Tier] = {}
    for pair in given:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise _wrong("tiers", expected, pair)
        tier = Tier(*pair)
        if not _is_whole(tier.triggered) or tier.triggered < 1:
            raise _wrong("tiers", "from a whole number of triggered subscriptions up", tier.triggered)
        if not _is_number(tier.similarity) or not 0 < tier.similarity <= 1:
            raise _wrong("tiers", "with a similarity above 0 and up to 1", tier.similarity)
        if tier.triggered in tiers:
            raise ConfigError(f"incremental: two tiers begin at {tier.triggered} triggered subscriptions")
        tiers[tier.triggered] = tier
    return tuple(sorted(tiers.values(), reverse=True))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _wrong(name: str, expected: str, value: Any) -> ConfigError:
    return ConfigError(f"incremental: {name} must be {expected}, not {value!r:.60}")
