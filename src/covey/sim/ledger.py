"""What was published lately: when, and who wanted it then. It tells delays and false positives."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from covey.routing.messages import Publish, Tree
from covey.routing.plan import TreePlan
from covey.sim.interest import Interest

# More events than this are never under way; the oldest are forgotten, so that long runs do not grow.
MOST_EVENTS: Final = 1 << 18


class Published(NamedTuple):
    """When an event was published, and for each tree with subscriptions the brokers that wanted it, as bits."""

    at_s: float
    wanted: dict[Tree, int]


class Ledger:
    """The last events by id. Without `interest`, nobody is asked who wants them, and nothing is judged."""

    def __init__(self, plan: TreePlan, interest: Interest | None) -> None:
        self._plan = plan
        self._interest = interest
        self._published: dict[str, Published] = {}

    def publish(self, id: str, event: Any, now_s: float) -> None:
        """Note an event."""
        wanted: dict[Tree, int] = {}
        if self._interest is not None:
            wanted = {tree: self._interest.wanted_by(event, tree) for tree in self._plan.telling}
        self._published[id] = Published(now_s, wanted)
        if len(self._published) > MOST_EVENTS:
            del self._published[next(iter(self._published))]

    def age_s(self, id: str, now_s: float) -> float:
        """Return how long ago an event was published."""
        return now_s - self._published[id].at_s

    def is_false_positive(self, message: Publish, sender: str, receiver: str) -> bool:
        """Return whether nobody on the receiver's side wanted the event when it was published."""
        if self._interest is None:
            return False
        wanted_on = self._published[message.id].wanted
        wanted = wanted_on.get(message.tree, wanted_on[0])  # on a tree that only carries, for all on tree 0
        return not self._interest.is_wanted_behind(wanted, message.tree, sender, receiver)

    def clear(self) -> None:
        """Forget everything: nothing is under way."""
        self._published.clear()
