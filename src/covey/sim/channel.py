"""One direction of a link between brokers: FIFO, with delays, up or down.

A link that comes back is another link, as a TCP connection that is opened again is another connection: each time it
comes up is an *incarnation*, with a number. What is sent belongs to the incarnation that the sender knew, and is lost
if that one has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from covey.routing.messages import Message
from covey.sim.delays import Delay
from covey.sim.engine import Engine

Arrive = Callable[[str, str, Message], None]  # sender, receiver, message


class Channel:
    """What is sent arrives after a delay, in the order of sending, unless the link goes down first."""

    __slots__ = (
        "_arrive",
        "_delay",
        "_engine",
        "_last_s",
        "factor",
        "incarnation",
        "is_up",
        "receiver",
        "sender",
        "under_way",
    )

    def __init__(self, sender: str, receiver: str, engine: Engine, delay: Delay, arrive: Arrive) -> None:
        self.sender = sender
        self.receiver = receiver
        self.is_up = False
        self.incarnation = 0  # how often it has come up
        self.factor = 1.0  # a delay spike multiplies delays for a while
        self.under_way: deque[Message] = deque()  # sent and not arrived, in order
        self._engine = engine
        self._delay = delay
        self._arrive = arrive
        self._last_s = 0.0

    def send(self, message: Message, incarnation: int) -> bool:
        """Send a message; return whether it is under way, and not lost because that incarnation has ended."""
        if not self._is_live(incarnation):
            return False
        self._last_s = max(self._last_s, self._engine.now_s + self._delay() * self.factor)
        self.under_way.append(message)
        self._engine.at(self._last_s, self._arrived, message, incarnation)
        return True

    def _is_live(self, incarnation: int) -> bool:
        return self.is_up and incarnation == self.incarnation

    def _arrived(self, message: Message, incarnation: int) -> None:
        if self._is_live(incarnation):
            self.under_way.popleft()
            self._arrive(self.sender, self.receiver, message)

    def down(self) -> None:
        """End the incarnation; lose what is under way."""
        self.is_up = False
        self.under_way.clear()

    def up(self) -> None:
        """Begin another incarnation."""
        self.is_up = True
        self.incarnation += 1
        self._last_s = 0.0
