"""How long a message is under way on a link: models with one generator each, drawn in the order of sending."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from covey.errors import ConfigError

Delay = Callable[[], float]  # seconds

DEFAULT_MS = 10.0


def constant(random: Random, mean_ms: float) -> Delay:
    """Always the same."""
    delay_s = mean_ms / 1000.0
    return lambda: delay_s


def uniform(random: Random, mean_ms: float) -> Delay:
    """Between nothing and twice the mean."""
    return lambda: random.uniform(0.0, 2.0 * mean_ms) / 1000.0


def exponential(random: Random, mean_ms: float) -> Delay:
    """Mostly short, sometimes long."""
    return lambda: random.expovariate(1.0) * mean_ms / 1000.0


DELAYS: dict[str, Callable[[Random, float], Delay]] = {
    "constant": constant,
    "uniform": uniform,
    "exponential": exponential,
}


def build(kind: str, mean_ms: float, random: Random) -> Delay:
    """Return the model of that name."""
    if kind not in DELAYS:
        raise ConfigError(f"there is no delay model {kind!r:.40} (hint: one of {', '.join(DELAYS)})")
    if not 0.0 <= mean_ms < 1e9:
        raise ConfigError(f"a link's mean delay is {mean_ms} ms; it must be a number from 0 up")
    return DELAYS[kind](random, mean_ms)
