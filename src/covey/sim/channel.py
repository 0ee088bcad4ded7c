"""One direction of a link between brokers: FIFO, with delays, up or down."""

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
        "_epoch",
        "_last_s",
        "factor",
        "is_up",
        "receiver",
        "sender",
        "under_way",
    )

    def __init__(self, sender: str, receiver: str, engine: Engine, delay: Delay, arrive: Arrive) -> None:
        self.sender = sender
        self.receiver = receiver
        self.is_up = False
        self.factor = 1.0  # a delay spike multiplies delays for a while
        self.under_way: deque[Message] = deque()  # sent and not arrived, in order
        self._engine = engine
        self._delay = delay
        self._arrive = arrive
        self._epoch = 0
        self._last_s = 0.0

    def send(self, message: Message) -> None:
        """Send a message; it is lost if the link is down."""
        if not self.is_up:
            return
        self._last_s = max(self._last_s, self._engine.now_s + self._delay() * self.factor)
        self.under_way.append(message)
        self._engine.at(self._last_s, self._arrived, message, self._epoch)

    def _arrived(self, message: Message, epoch: int) -> None:
        if epoch == self._epoch:
            self.under_way.popleft()
            self._arrive(self.sender, self.receiver, message)

    def down(self) -> None:
        """Lose what is under way."""
        self.is_up = False
        self._epoch += 1
        self.under_way.clear()

    def up(self) -> None:
        """Carry messages again."""
        self.is_up = True
        self._last_s = 0.0
