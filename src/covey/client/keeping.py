"""Keeping a link: dialling brokers until one answers, and again when the link breaks.

The first time every address is tried once, in order, and a failure is the caller's. Later they are tried round and
round, beginning with the one after the broken link's, with pauses that grow and are random, so that a thousand clients
of a broker that has started again do not come at once. A broker that says that coming back is of no use is believed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final, Protocol

from covey.client.address import Address
from covey.client.link import Link, Receiver, dial
from covey.client.options import Options
from covey.errors import CoveyError, LinkError, RefusedError

FIRST_PAUSE_S: Final = 0.05
STEADY_S: Final = 2.0  # a link that held so long was a good one: pauses begin anew


class Owner(Receiver, Protocol):
    """Whose link it is."""

    def must_return(self) -> bool:
        """Whether no other broker will do: what is stored for a durable subscription is at one."""

    async def link_up(self, link: Link) -> None:
        """There is a link again."""

    def link_down(self, reason: str) -> None:
        """The link is gone; another one will be tried."""

    def give_up(self, error: CoveyError) -> None:
        """There will be no other link."""


class Keeper:
    """Sees to it that its owner has a link; see the module's text."""

    def __init__(self, owner: Owner, addresses: Sequence[Address], options: Options) -> None:
        self._owner = owner
        self._addresses = addresses
        self._options = options
        self._pause_s = FIRST_PAUSE_S

    async def first(self) -> Link:
        """Return a link to the first broker that answers; the error of the last if none does."""
        errors: dict[Address, CoveyError] = {}
        for address in self._addresses:
            try:
                return await dial(self._owner, address, self._options)
            except CoveyError as error:
                errors[address] = error
        if len(errors) == 1:
            raise errors[self._addresses[0]]
        raise LinkError(
            "no broker can be reached: " + "; ".join(str(error) for error in errors.values())[:1_000]
        )

    async def run(self, link: Link) -> None:
        """Wait for the link to break, and make another one, until there can be none."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            reason = await asyncio.shield(link.ended)
            if loop.time() - began_s > STEADY_S:
                self._pause_s = FIRST_PAUSE_S
            if not link.may_return or self._options.reconnect_for_s == 0:
                self._owner.give_up(LinkError(f"the link to the broker at {link.address} is gone: {reason}"))
                return
            self._owner.link_down(reason)
            try:
                link = await self._again(link)
            except CoveyError as error:
                self._owner.give_up(error)
                return
            await self._owner.link_up(link)

    async def _again(self, broken: Link) -> Link:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        order = self._order(broken)
        while True:
            pause_s = min(self._pause_s, self._options.longest_pause_s)
            self._pause_s = 2 * pause_s
            # Not for secrets: only to spread clients out.
            await asyncio.sleep(pause_s * (0.5 + random.random()))
            refusals: list[RefusedError] = []
            last: CoveyError | None = None
            for address in order:
                try:
                    return await dial(self._owner, address, self._options)
                except RefusedError as error:
                    refusals.append(error)
                    last = error
                except CoveyError as error:
                    last = error
            if len(refusals) == len(order):
                raise refusals[-1]
            if loop.time() - began_s >= self._options.reconnect_for_s:
                raise LinkError(f"no broker was reached for {self._options.reconnect_for_s:g} s: {last}")

    def _order(self, broken: Link) -> list[Address]:
        if self._owner.must_return() or broken.address not in self._addresses:
            return [broken.address]
        after = self._addresses.index(broken.address) + 1
        return [*self._addresses[after:], *self._addresses[:after]]
