"""A claim of a paper: what it says, and what we measure. One that does not hold is shown as such, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from covey.lab.experiment import Results


class Verdict(NamedTuple):
    """What was measured, in a few words with numbers; whether the claim holds; and why, or under which reading."""

    measured: str
    holds: bool
    reason: str = ""


@dataclass(frozen=True)
class Claim:
    """One row of the scoreboard. `judge` computes the verdict from kept results of `experiments`."""

    id: str  # R1, C7 …
    paper: str  # R, C, X
    says: str  # in our own words
    experiments: tuple[str, ...]
    judge: Callable[[Results], Verdict]
