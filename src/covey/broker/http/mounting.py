"""Events over HTTP as part of a broker, if its configuration has `admin.events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from covey.broker.http.authorising import authorise_by, check_exposed
from covey.broker.http.events import Gateway

if TYPE_CHECKING:
    from covey.broker.server import Broker


def gateway_of(broker: Broker) -> web.Application | None:
    """Return the application for `/events`, if it is wanted; ConfigError if others could use it unasked."""
    if broker.config.admin is None or not broker.config.admin.events:
        return None
    check_exposed(broker.config, broker.security)
    max_frame = broker.config.max_frame
    return Gateway(broker, max_frame=max_frame, authorise=authorise_by(broker)).application()
