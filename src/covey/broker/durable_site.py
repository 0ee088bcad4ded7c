"""What durable delivery needs of the exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from covey.broker.epochs import Epochs, Outputs
from covey.broker.peers import Client, Neighbour
from covey.routing.messages import Link, Message
from covey.routing.outputs import Deliver

SURE: Final = "~sure"  # the link on which the broker itself asks whether its tables are complete


class Site(Protocol):
    """The exchange, as durable delivery sees it."""

    epochs: Epochs
    clients: dict[Link, Client]
    now_s: float

    @property
    def neighbours(self) -> Mapping[Link, Neighbour]:
        """The brokers to which there is a connection."""

    @property
    def attached(self) -> Mapping[Link, None]:
        """The neighbours over whose links the overlay's routers talk."""

    def drive(self, message: Message, source: Link) -> None:
        """Tell the routers of all epochs something, and carry out what they answer."""

    def carry_out_all(self, outputs: Outputs) -> None:
        """Carry out what the routers of several epochs say."""

    def deliver(self, output: Deliver, one: bytes) -> None:
        """Hand an event to whoever subscribed to it here."""
