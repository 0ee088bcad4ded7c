"""What clients ask for of durable delivery, and what they and neighbours hear where there is none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from covey.broker.durable.delivery import Durable
from covey.broker.durable.queues import Answer
from covey.broker.durable.sqlite import Store
from covey.broker.peers import Neighbour
from covey.broker.permissions import allows
from covey.broker.private_files import shared_with_others
from covey.broker.security import Security
from covey.broker.sessions import Session
from covey.core.filter import Filter
from covey.errors import CoveyError, ProtocolError
from covey.protocol.control import ReplaceRequest, SubscribeRequest, UnsubscribeRequest
from covey.protocol.events import Envelope, encode_taken
from covey.protocol.frames import Kind

if TYPE_CHECKING:
    from covey.broker.config import BrokerConfig
    from covey.broker.exchange import Exchange

log = logging.getLogger("covey.broker")

NO_STORE = "this broker keeps nothing (hint: it needs a data_dir)"


def confirm_unkept(neighbour: Neighbour, envelope: Envelope) -> None:
    """Tell a neighbour that it need not keep a confirmed event for us any longer, though we have not kept it either."""
    for body in encode_taken([(envelope.publisher, envelope.number)]):
        neighbour.outlet.send(Kind.TAKEN, body)


def request_durable(
    durable: Durable | None,
    session: Session,
    request: SubscribeRequest | ReplaceRequest | UnsubscribeRequest,
    filter: Filter | None,
) -> None:
    """Do what a client asks of a durable subscription, and answer; CoveyError if that cannot be."""

    def answer(error: str) -> None:
        session.answer(request.request, error)

    if isinstance(request, SubscribeRequest):
        assert filter is not None, "what it is to match"
        subscribe(durable, session, request, filter, answer)
    elif isinstance(request, UnsubscribeRequest) and durable is not None:
        unsubscribe(durable, session, request, answer)
    elif durable is None or filter is None or not replace(durable, session, request.sid, filter, answer):
        raise ProtocolError(f"there is no subscription {request.sid}")


def subscribe(
    durable: Durable | None, client: Session, request: SubscribeRequest, filter: Filter, answer: Answer
) -> None:
    """Attach a durable subscription; CoveyError if that cannot be."""
    if durable is None:
        raise CoveyError(NO_STORE)
    durable.subscriptions.attach(client, request.sid, request.durable, filter, durable.now_s, answer)


def replace(durable: Durable, client: Session, sid: int, filter: Filter, answer: Answer) -> bool:
    """Give a durable subscription another filter; return whether there is such a one."""
    one = durable.subscriptions.attached(client, sid)
    if one is None:
        return False
    durable.subscriptions.replace(one, filter, lambda error: answer("" if error is None else str(error)))
    return True


def unsubscribe(durable: Durable, client: Session, request: UnsubscribeRequest, answer: Answer) -> None:
    """Leave a durable subscription, or end it; one that another connection has taken over is left already."""
    one = durable.subscriptions.attached(client, request.sid)
    if durable.subscriptions.known(client, request.sid) is None:
        raise ProtocolError(f"there is no subscription {request.sid}")
    if one is None:
        answer("")
    elif request.forget:
        durable.subscriptions.forget(one, lambda error: answer("" if error is None else str(error)))
    else:
        durable.subscriptions.leave(client, request.sid)
        answer("")


def open_durable(exchange: Exchange, config: BrokerConfig, incarnation: int) -> Durable:
    """Open the store and take up what is in it; ConfigError if it cannot be used."""
    store = Store(Path(config.data_dir) / "store.db", config.name, config.max_store_bytes)
    if shared := shared_with_others(Path(config.data_dir)):
        log.warning("%s", shared)
    if store.warning:
        log.error("%s", store.warning)
    durable = Durable(exchange, store, time.time, incarnation, config.durable)
    exchange.durable = durable
    store.start()
    durable.load()
    return durable


def revoke_durable(durable: Durable | None, security: Security, say: Callable[..., None]) -> None:
    """End the durable subscriptions that are not allowed, and remove their queues."""
    if durable is None:
        return
    for one in durable.subscriptions.all():
        owner = one.owner
        permissions = security.permissions_of(owner.user)
        if permissions is None:
            reason = "its user does not exist any longer"
        elif not allows(permissions.subscribe, one.filter):
            reason = f"{owner.user or 'its owner'} may not subscribe to it any longer"
        else:
            continue
        events, _ = durable.store.waiting(owner.id)
        say(
            logging.WARNING,
            "durable subscription removed",
            user=owner.user,
            client=owner.client,
            name=owner.name,
            events=events,
            reason=reason,
        )
        client = one.client
        durable.subscriptions.forget(one, lambda error: None)
        if client is not None:
            client.outlet.end(f"the durable subscription {owner.name} is removed: {reason}")
