"""How much a method of planning may compute: counted work, not a clock, so that a plan is the same on every machine.

Most of what planning does is to compute a tree and to cost documents on it. `tree_ns` estimates how long that takes on
one core of a usual server, from the sizes of the problem: 0.15 ms for each candidate tree, 0.6 µs for each of its
brokers, 0.1 µs for each broker that wants a document. A method adds up these estimates and stops when they exceed its
budget; what it has found by then is a plan all the same, and says that it was stopped.
"""

from __future__ import annotations

from typing import Final

from covey.errors import ConfigError

CANDIDATE_NS: Final = 150_000
BROKER_NS: Final = 600
HOST_NS: Final = 100


def tree_ns(candidates: int, brokers: int, hosts: int) -> float:
    """Return about how long it takes to build so many candidate trees and to cost documents with so many hosts."""
    return float(candidates) * (CANDIDATE_NS + BROKER_NS * brokers + HOST_NS * hosts)


class Budget:
    """Work that may be done, in estimated seconds, and that was done; None is no limit."""

    __slots__ = ("seconds", "spent_s", "what")

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not seconds > 0:
            raise ConfigError(f"a budget is a number of seconds above 0, not {seconds}")
        self.seconds = seconds
        self.spent_s = 0.0
        self.what = ""

    def spend(self, nanoseconds: float) -> None:
        """Count work that is done."""
        self.spent_s += nanoseconds * 1e-9

    def stops(self, what: str) -> bool:
        """Say whether the budget is spent; `what` then says at which point the work stops."""
        if self.seconds is None or self.spent_s < self.seconds:
            return False
        self.what = self.what or what
        return True

    def halves(self, what: str) -> bool:
        """Say whether half of the budget is spent, as `stops` does."""
        if self.seconds is None or self.spent_s < self.seconds / 2:
            return False
        self.what = self.what or what
        return True

    @property
    def stopped(self) -> str:
        """Where the work stopped, in a clause; "" if it came to its end."""
        return f"stopped {self.what}: its budget of {self.seconds:g} s was spent" if self.what else ""
