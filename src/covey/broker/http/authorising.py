"""Who posts and listens over HTTP: the same tokens and passwords as over sockets, in the header `Authorization`.

Authorization: Bearer <token>
Authorization: Basic <base64 of user:password>
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from typing import NamedTuple, Protocol

from aiohttp import web

from covey.broker.config import BrokerConfig
from covey.broker.http.events import Authorise
from covey.broker.permissions import Permissions
from covey.broker.security import Security, is_loopback
from covey.errors import AccessError, ConfigError


class Guarded(Protocol):
    """What is needed of a broker; its security may be another one after a reload."""

    @property
    def security(self) -> Security:
        """Who may come in."""


class Credentials(NamedTuple):
    """What somebody shows; nothing, if they are anonymous."""

    token: str = ""
    user: str = ""
    password: str = ""


def credentials_of(header: str) -> Credentials:
    """Return what a header `Authorization` shows; AccessError if it cannot be read."""
    kind, _, value = header.partition(" ")
    if not header:
        return Credentials()
    try:
        header.encode()
    except UnicodeEncodeError:  # aiohttp hands such bytes on as surrogates
        raise AccessError("the header Authorization is not UTF-8") from None
    if kind.lower() == "bearer" and value.strip():
        return Credentials(token=value.strip())
    if kind.lower() == "basic":
        try:
            user, colon, password = b64decode(value.strip(), validate=True).decode().partition(":")
        except (Base64Error, ValueError):
            user = colon = password = ""
        if user and colon:
            return Credentials(user=user, password=password)
    raise AccessError("the header Authorization is Bearer and a token, or Basic and a user with a password")


def authorise_by(guarded: Guarded) -> Authorise:
    """Return a function that finds the permissions of a request, as the broker's security has them."""

    async def authorise(request: web.Request) -> Permissions:
        shown = credentials_of(request.headers.get("Authorization", ""))
        address, now_s = request.remote or "", asyncio.get_running_loop().time()
        security = guarded.security
        known = security.known(
            user=shown.user, password=shown.password, token=shown.token, address=address, now_s=now_s
        )
        if known is not None:
            return known
        return await security.prove(user=shown.user, password=shown.password, address=address, now_s=now_s)

    return authorise


def check_exposed(config: BrokerConfig, security: Security) -> None:
    """ConfigError if events are served beyond this machine by a broker that knows nobody and says nothing of it."""
    admin = config.admin
    if admin is None or is_loopback(admin.host) or security.has_credentials:
        return
    if config.security.anonymous is None:
        raise ConfigError(
            f"admin.events: {admin.host!r:.60} can be reached by others, and there are neither users nor tokens "
            "(hint: a section [anonymous] says what everybody may do)"
        )
