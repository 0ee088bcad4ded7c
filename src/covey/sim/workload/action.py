"""Actions: what clients do in a simulated run, each at its time.

    advertise    broker, filter            unadvertise   the name
    subscribe    broker, filter            unsubscribe   the name
    move         the name of a subscription, the broker to which its client goes
    publish      broker, content of the event

A name stands for one instance of an advertisement or subscription: whoever comes back gets a new one.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Op = Literal["advertise", "unadvertise", "subscribe", "unsubscribe", "publish", "move"]


class Action(NamedTuple):
    """One thing that a client does; see the module's text for which fields an op uses."""

    at_s: float
    op: Op
    name: str
    broker: str
    what: Any = None
    client: str = ""
