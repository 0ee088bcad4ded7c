"""Installing a plan, step by step, as the broker that was asked to does it.

    asked      a version with the plan under a new epoch, told to everyone
    ready      every broker of the plan has said that its tables are complete
    probed     a probe in the new epoch has come back: what those tables caused on their way is in force too
    switched   a version whose current epoch is the new one, told to everyone
    retired    after a grace, in which what set out before has arrived: a version without the old plan

The overlay's own epoch is never retired. If some broker is not ready in time, the plan is taken back, and the reason
names who was missing. Until the old plan is retired, `roll_back` switches back to it, and retires the new one after the
grace instead.
"""

from __future__ import annotations

from enum import Enum

from covey.errors import PlanError
from covey.planning.plan import Plan
from covey.wire.plans import LAST_EPOCH, MOST_EPOCHS, PlanState


class Step(Enum):
    """How far an installation has come."""

    WAITING = "waits until all brokers are ready"
    PROBING = "waits until the tables are in force"
    SWITCHED = "switched; the old plan is kept for a while"
    BACK = "switched back; the plan is kept until what set out in it has arrived"
    DONE = "done"
    FAILED = "failed"


class Installation:
    """One plan on its way in. Each step returns the state to be told to everyone, or None if nothing changes."""

    def __init__(
        self, state: PlanState, broker: str, plan: bytes, now_s: float, *, patience_s: float, grace_s: float
    ) -> None:
        decoded = Plan.decode(plan) if plan else None
        if len(state.plans) >= MOST_EPOCHS:
            raise PlanError(f"{len(state.plans)} plans are installed; {MOST_EPOCHS} are the most at one time")
        self.broker = broker
        self.before = state.current
        self.epoch = 0 if max(state.plans) >= LAST_EPOCH else max(state.plans) + 1
        self.step = Step.WAITING
        self.reason = ""
        self.probe = ""  # that asks whether the tables are in force
        self.missing = set(decoded.brokers) if decoded is not None else {broker}
        self._until_s = now_s + patience_s
        self._grace_s = grace_s
        self.state = self._next(state, state.current, {**state.plans, self.epoch: plan})

    def _next(self, state: PlanState, current: int, plans: dict[int, bytes]) -> PlanState:
        return PlanState(state.version + 1, self.broker, current, plans)

    @property
    def is_under_way(self) -> bool:
        """Whether something is still to come."""
        return self.step not in (Step.DONE, Step.FAILED)

    def overtaken(self, author: str) -> None:
        """Another broker has installed something meanwhile."""
        if self.is_under_way:
            self.step, self.reason = Step.FAILED, f"broker {author} has installed another plan meanwhile"

    def ready(self, broker: str) -> bool:
        """Note a broker that is ready; return whether it is time to probe the new epoch."""
        if self.step is not Step.WAITING:
            return False
        self.missing.discard(broker)
        if self.missing:
            return False
        self.step = Step.PROBING
        return True

    def probed(self, now_s: float) -> PlanState | None:
        """The probe has come back: switch."""
        if self.step is not Step.PROBING:
            return None
        self.step = Step.SWITCHED
        self._until_s = now_s + self._grace_s
        self.state = self._next(self.state, self.epoch, self.state.plans)
        return self.state

    def tick(self, now_s: float) -> PlanState | None:
        """Time passes: give up, or retire the old epoch."""
        if now_s < self._until_s or not self.is_under_way:
            return None
        if self.step in (Step.SWITCHED, Step.BACK):
            switched = self.step is Step.SWITCHED
            self.step = Step.DONE if switched else Step.FAILED
            gone = self.before if switched else self.epoch
            # The overlay's own epoch stays: confirmed events travel in it, and it is there when a plan is not.
            plans = {epoch: plan for epoch, plan in self.state.plans.items() if epoch != gone or not plan}
            if plans == self.state.plans:
                return None
            self.state = self._next(self.state, self.state.current, plans)
            return self.state
        missing = ", ".join(sorted(self.missing)[:5]) or "the probe's echo"
        return self._take_back(f"not ready in time: {missing}", now_s)

    def roll_back(self, now_s: float) -> PlanState:
        """Switch back to what was before; PlanError if that is gone."""
        if self.step is Step.DONE:
            raise PlanError("the plan before is retired (hint: install it again)")
        if self.step in (Step.BACK, Step.FAILED):
            raise PlanError(f"the plan is taken back already: {self.reason}")
        return self._take_back("rolled back", now_s)

    def _take_back(self, reason: str, now_s: float) -> PlanState:
        self.reason = reason
        plans = dict(self.state.plans)
        if self.step is Step.SWITCHED:
            self.step, self._until_s = Step.BACK, now_s + self._grace_s
        else:
            self.step = Step.FAILED
            del plans[self.epoch]  # in which nothing has set out
        self.state = self._next(self.state, self.before, plans)
        return self.state
