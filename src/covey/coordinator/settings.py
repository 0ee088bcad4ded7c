"""What a coordinator is told: whom to look at, how often, and when a plan is worth its installation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from covey.errors import ConfigError
from covey.pipeline.session import check_asked
from covey.pipeline.stream import Windows

SAMPLED_EVERY_S: Final = (
    60  # after which brokers write what they have sampled, unless they are told otherwise
)


@dataclass(frozen=True)
class Settings:
    """Settings of a coordinator; ConfigError in one line for what cannot be.

    urls              the admin pages of all brokers of the network
    data_dir          where samples, checkpoints, plans and the memory of what was done are
    master            where Spark runs (`pipeline.session`); driver_memory and conf: with what
    windows           over which events are planned for
    every_s           seconds between the beginnings of two rounds; samples may come at least that late (windows)
    max_skew_s        seconds that a broker's clock may be off, before times of its samples are corrected
    threshold         the share of the cost on links that a plan must save, on events that nothing was fitted to
    tolerance         how much dearer than before a plan may prove to be, as a share, before it is taken back
    least_events      sampled events in the window, below which nothing is planned
    probation_events  published events after an installation, from which on it is judged
    method            of planning; seed for it
    dry_run           plan and tell, and never install
    """

    urls: tuple[str, ...]
    data_dir: Path
    token: str = field(default="", repr=False)
    authority: str = ""
    master: str | None = None
    driver_memory: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)
    every_s: float = 300.0
    max_skew_s: float = 30.0
    threshold: float = 0.05
    tolerance: float = 0.02
    least_events: int = 500
    probation_events: int = 1_000
    method: str = "best"
    seed: int = 1
    dry_run: bool = False
    install_wait_s: float = 60.0

    def __post_init__(self) -> None:
        check_asked(self.master, self.driver_memory, self.conf)
        if not self.urls:
            raise ConfigError(
                "a coordinator needs the admin pages of the brokers (hint: http://127.0.0.1:7401 …)"
            )
        if len(set(self.urls)) < len(self.urls):
            raise ConfigError("a broker's admin pages are named twice")
        for name, least, most in (
            ("every_s", 0.0, 7 * 86_400.0),
            ("max_skew_s", 1.0, 3600.0),
            ("threshold", 0.0, 1.0),
            ("tolerance", 0.0, 10.0),
            ("least_events", 1, 1 << 40),
            ("probation_events", 1, 1 << 40),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"{name} is from {least:g} to {most:g}, not {getattr(self, name)}")
        if self.windows.lateness_s < self.every_s:
            raise ConfigError(
                f"with a lateness of {self.windows.lateness_s} s, samples that come a round of {self.every_s:g} s late"
                f" would be dropped (hint: --lateness {lateness_for(self.every_s)})"
            )


def lateness_for(every_s: float) -> int:
    """Return how late samples may come by default: a broker that was away for a round is not too late in the next."""
    return math.ceil(2 * every_s) + SAMPLED_EVERY_S
