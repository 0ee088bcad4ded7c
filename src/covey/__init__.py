"""Covey: content-based publish/subscribe. Every event to everyone who asked for it, by what it says.

The names below are the public ones and stay stable. Each is loaded when it is first used, because the
compiler behind `Index` takes half a second to import and most programs that only parse filters never need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from covey.extras import require

if TYPE_CHECKING:
    from covey.client.client import Client as Client
    from covey.client.client import connect as connect
    from covey.client.subscription import Received as Received
    from covey.client.subscription import Subscription as Subscription
    from covey.client.sync import connect_sync as connect_sync
    from covey.core.attributes.filter import conjunction as conjunction
    from covey.core.attributes.merging import merge_many as merge_many
    from covey.core.event import Event as Event
    from covey.core.families import decode as decode
    from covey.core.families import parse as parse
    from covey.core.filter import Filter as Filter
    from covey.core.filter import Merge as Merge
    from covey.core.xpath.document import Document as Document
    from covey.errors import BusyError as BusyError
    from covey.errors import ConfigError as ConfigError
    from covey.errors import CoveyError as CoveyError
    from covey.errors import EventError as EventError
    from covey.errors import FilterError as FilterError
    from covey.errors import LinkError as LinkError
    from covey.errors import PlanError as PlanError
    from covey.errors import ProtocolError as ProtocolError
    from covey.errors import RefusedError as RefusedError
    from covey.errors import SlowError as SlowError
    from covey.errors import TimedOutError as TimedOutError
    from covey.matching.index import Index as Index

__version__ = "0.1.0"

_HOMES = {
    "BusyError": "covey.errors",
    "Client": "covey.client.client",
    "ConfigError": "covey.errors",
    "CoveyError": "covey.errors",
    "Document": "covey.core.xpath.document",
    "Event": "covey.core.event",
    "EventError": "covey.errors",
    "Filter": "covey.core.filter",
    "FilterError": "covey.errors",
    "Index": "covey.matching.index",
    "LinkError": "covey.errors",
    "Merge": "covey.core.filter",
    "PlanError": "covey.errors",
    "ProtocolError": "covey.errors",
    "Received": "covey.client.subscription",
    "RefusedError": "covey.errors",
    "SlowError": "covey.errors",
    "Subscription": "covey.client.subscription",
    "TimedOutError": "covey.errors",
    "connect": "covey.client.client",
    "connect_sync": "covey.client.sync",
    "conjunction": "covey.core.attributes.filter",
    "decode": "covey.core.families",
    "merge_many": "covey.core.attributes.merging",
    "parse": "covey.core.families",
}

_NEED_BROKER = ("covey.matching.index",)

__all__ = ["__version__", "strategies", *_HOMES]


def strategies() -> list[str]:
    """Return the names of all routing strategies."""
    require("broker", "covey.strategies")
    package: Any = import_module("covey.strategies")  # which from now on has this name, and can be called
    return list(package())


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'covey' has no attribute {name!r}")
    if home in _NEED_BROKER:
        require("broker", f"covey.{name}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
