"""Revocation: what a broker stops at once when permissions are cut.

Permissions are read when the broker starts and again on SIGHUP. Everything that was granted before is then judged as if
it were asked for now:

    durable subscriptions   one whose owner no longer exists, or may no longer subscribe to all that its filter matches,
                            ends, and its queue is removed, whether its client is connected or not
    connected clients       one whose user or token is gone or has another secret, or that has a subscription or an
                            advertisement that is no longer allowed, loses what is not allowed, and its link ends with
                            the reason. It may come back: it must prove who it is, and gets what is still allowed
    events                  are judged by the new permissions from the next one on, also those that wait in the inbox

A client whose subscriptions and advertisements are all still allowed stays connected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from covey.broker.exchange import Exchange
from covey.broker.peers import Client
from covey.broker.permissions import Allowed, Permissions
from covey.broker.security import Security
from covey.core.filter import Filter
from covey.routing.messages import Key, Unadvertise, Unsubscribe

Say = Callable[..., None]  # a level, what happened, and its fields: a line of the log


def revoke(exchange: Exchange, before: Security, security: Security, say: Say) -> None:
    """Judge what clients and durable subscriptions have by a security that has replaced another one."""
    for client in list(exchange.clients.values()):
        _judge_client(exchange, client, before, security, say)
    revoke_durable(exchange, security, say)


def revoke_durable(exchange: Exchange, security: Security, say: Say) -> None:
    """End the durable subscriptions that are not allowed, and remove their queues."""
    durable = exchange.durable
    for one in durable.held():
        owner = one.owner
        permissions = security.permissions_of(owner.user)
        if permissions is None:
            reason = "its user does not exist any longer"
        elif not _allows(permissions.subscribe, one.filter):
            reason = f"{owner.user or 'its owner'} may not subscribe to it any longer"
        else:
            continue
        say(
            logging.WARNING,
            "durable subscription removed",
            user=owner.user,
            client=owner.client,
            name=owner.name,
            events=durable.waiting(one),
            reason=reason,
        )
        attached = one.attached
        exchange.perform(durable.end(one))
        if attached is not None:
            exchange.clients[attached.link].outlet.end(
                f"the durable subscription {owner.name} is removed: {reason}"
            )


def _judge_client(exchange: Exchange, client: Client, before: Security, security: Security, say: Say) -> None:
    name = client.permissions.name
    permissions = security.permissions_of(name)
    if permissions is not None and security.secret_of(name) == before.secret_of(name):
        if permissions == client.permissions:
            return
        reason = f"{name or 'this client'} may not do all any longer that it has asked for"
        client.permissions, is_known = permissions, True
    else:
        reason = f"the credentials of {name or 'this client'} are not valid any longer"
        client.permissions, is_known = Permissions(name, Allowed(()), Allowed(())), False
    subscriptions, advertisements = _forbidden(exchange, client)
    if is_known and not subscriptions and not advertisements:
        return
    # At once, and not when the connection has ended: a client that does not read can delay that.
    for sid in subscriptions:
        exchange.drive(Unsubscribe(client.keys.pop(sid)), client.link)
    for aid in advertisements:
        exchange.drive(Unadvertise(client.advertised.pop(aid)), client.link)
    say(logging.WARNING, "permissions cut", link=client.link, user=name, reason=reason)
    client.outlet.end(reason)


def _forbidden(exchange: Exchange, client: Client) -> tuple[list[int], list[int]]:
    """Return which subscriptions and advertisements of a client its permissions do not allow."""
    router, permissions = exchange.router, client.permissions
    known: dict[Filter, bool] = {}  # many subscriptions may have one filter

    def may(filter: Filter) -> bool:
        if filter not in known:
            known[filter] = _allows(permissions.subscribe, filter)
        return known[filter]

    advertised: dict[Key, Filter] = router.advertised_by(client.link)
    return (
        [sid for sid, key in client.keys.items() if not may(router.local_filter(client.link, key))],
        [aid for aid, key in client.advertised.items() if not _allows(permissions.publish, advertised[key])],
    )


def _allows(allowed: Allowed | None, filter: Filter) -> bool:
    return allowed is None or allowed.covers(filter)
