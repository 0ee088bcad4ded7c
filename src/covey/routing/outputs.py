"""What a router asks its driver to do: Send or Deliver, in the order given."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from covey.routing.messages import Key, Link, Message, Publish


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send the message over the link."""

    link: Link
    message: Message


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Hand the event to the client at the link, once, for these subscriptions of it."""

    link: Link
    keys: tuple[Key, ...]
    publish: Publish


Output: TypeAlias = Send | Deliver
