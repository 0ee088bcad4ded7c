"""Single brokers that dial each other, with settings of their own."""

from __future__ import annotations

from typing import Any

from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.server import Broker


def url(broker: Broker) -> str:
    """Return where clients reach a broker."""
    return f"covey://127.0.0.1:{broker.port}"


def admin_url(broker: Broker) -> str:
    """Return where a broker's pages are."""
    assert broker.admin is not None
    return f"http://127.0.0.1:{broker.admin.port}"


def dialling(name: str, neighbour: Broker, **settings: Any) -> BrokerConfig:
    """Return the settings of a broker that dials another."""
    link = LinkConfig(neighbour.config.name, "127.0.0.1", neighbour.port)
    return BrokerConfig(name, port=0, links=(link,), **settings)


def is_linked(broker: Broker, name: str) -> bool:
    """Return whether the link to a neighbour is used, and both know what they must."""
    attached = name in broker.core.neighbours.attached
    return attached and any(name in part.neighbours() for part in broker.core.router.trees.values())
