"""Session: a client's links, one after another, and what is asked over them.

A request that a link's end cut short is asked again on the next link, within the time that its caller gave. So each
request is one that may be asked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from covey.client.acknowledging import Acknowledgements
from covey.client.address import Address
from covey.client.hooks import Hooks
from covey.client.keeping import Keeper
from covey.client.link import GoneError, Link
from covey.client.options import Options
from covey.client.publishing import Outgoing, raise_again
from covey.errors import CoveyError, LinkError, RefusedError, TimedOutError
from covey.protocol.control import Request

MOST_TO_END_S: Final = 10.0  # that a broker has to read what was published before the end

MakeRequest = Callable[
    [int], Request
]  # from the request's number; called again for every link it is asked on


class Restored(Protocol):
    """What is kept in force over links: the client's `Interests`."""

    def must_return(self) -> bool:
        """Whether no other broker will do."""

    def restore(self, link: Link) -> list[asyncio.Future[None]]:
        """Ask for everything on a new link; the futures are done when all is in force."""

    def deliveries(self, frames: Sequence[bytes]) -> None:
        """DELIVERY frames, in order."""

    def end(self, error: CoveyError | None) -> None:
        """Nothing more will come."""


class Session:
    """The owner of a client's links; see the module's text."""

    interests: Restored

    def __init__(self, addresses: Sequence[Address], options: Options) -> None:
        self._keeper = Keeper(self, addresses, options)
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._has_begun = False
        self.options = options
        self.hooks = Hooks(options)
        self.link: Link | None = None
        self.outgoing = Outgoing(options.buffer_events, options.buffer_bytes)
        self.acknowledgements = Acknowledgements(lambda: self.link)
        # Why nothing can be asked, if that is so.
        self.refusal: CoveyError | None = CoveyError(
            "the client is not connected (hint: async with covey.connect(...) as client)"
        )
        self.outgoing.refusal = self.refusal
        self.broker = ""
        self.reconnects = 0

    def check(self) -> None:
        """Raise why nothing can be asked, if that is so."""
        if self.refusal is not None:
            raise_again(self.refusal)

    # -- life ------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make the first link."""
        if self._has_begun:
            raise CoveyError("a client connects once (hint: covey.connect again)")
        self._has_begun = True
        link = await self._keeper.first()
        self.refusal = self.outgoing.refusal = None
        self._use(link)
        self._task = asyncio.get_running_loop().create_task(self._keeper.run(link))

    async def close(self) -> None:
        """Let the broker read what was published, and end the link."""
        self._has_begun = True
        self.refusal = LinkError("the client is closed")
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        link = self.link
        try:
            if link is not None and link.is_open:
                await self._finish(link)
        finally:
            self._over(self.refusal, None)
            if link is not None and not link.ended.done():
                link.connection.abort()
        await self.hooks.close(1.0)

    async def _finish(self, link: Link) -> None:
        self.goodbye()
        link.connection.finish("the client is done")
        try:
            async with asyncio.timeout(min(MOST_TO_END_S, self.options.timeout_s)):
                await asyncio.shield(link.ended)
        except TimeoutError:
            pass

    def _over(self, refusal: CoveyError, error: CoveyError | None) -> None:
        self.refusal = self.outgoing.refusal = refusal
        self.link = None
        self.outgoing.fail(refusal)
        self.interests.end(error)
        self._wake()

    # -- links -----------------------------------------------------------------------------------------------

    def must_return(self) -> bool:
        """Whether no other broker will do."""
        return self.interests.must_return()

    async def link_up(self, link: Link) -> None:
        """Restore everything on a new link."""
        restored = self._use(link)
        for answer in await asyncio.gather(*restored, return_exceptions=True):
            if isinstance(answer, RefusedError):
                self.hooks.error(answer)
        if link.is_open:
            self.reconnects += 1
            self.hooks.reconnected(link.broker)

    def _use(self, link: Link) -> list[asyncio.Future[None]]:
        # All in one turn: what is asked or published from now on comes behind what is restored.
        restored = self.interests.restore(link)
        self.link, self.broker = link, link.broker
        self.acknowledgements.flush()
        for error in self.outgoing.link_up(link):
            self.hooks.error(error)
        self._wake()
        return restored

    def link_down(self, reason: str) -> None:
        """Say that the link is gone."""
        self.link = None
        self.hooks.disconnected(reason)

    def give_up(self, error: CoveyError) -> None:
        """There will be no other link."""
        self._task = None
        self.hooks.disconnected(str(error))
        self._over(error, error)
        self.hooks.error(error)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    # -- asking ----------------------------------------------------------------------------------------------

    async def ask(self, make: MakeRequest, timeout_s: float | None = None) -> None:
        """Ask, and return when it is granted; RefusedError, TimedOutError, or LinkError without a link for good."""
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while not await self._asked(make):
                    pass
        except TimeoutError:
            raise TimedOutError(f"no broker has answered within {limit_s:g} s") from None

    async def ask_on(self, link: Link, make: MakeRequest) -> None:
        """Ask what has a meaning on this link only: once it is gone, there is nothing to ask for."""
        limit_s = self.options.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self._asked_on(link, make)
        except TimeoutError:
            raise TimedOutError(f"the broker has not answered within {limit_s:g} s") from None

    async def _asked(self, make: MakeRequest) -> bool:
        return await self._asked_on(await self._linked(), make)

    async def _asked_on(self, link: Link, make: MakeRequest) -> bool:
        self.outgoing.flush()  # what was published before is said before
        request = make(link.next_request())
        answer = link.ask(request)
        try:
            await asyncio.shield(answer)
        except GoneError:
            return False
        except asyncio.CancelledError:
            # Also when the answer has come already: whoever asked will not hear of it.
            link.abandon(request, answer)
            raise
        return True

    async def _linked(self) -> Link:
        while True:
            self.check()
            if self.link is not None and self.link.is_open:
                return self.link
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    async def until(self, is_true: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        """Return when it is true; TimedOutError if that takes too long."""
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while not is_true():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise TimedOutError(f"it took longer than {limit_s:g} s until {what}") from None

    # -- what links report -----------------------------------------------------------------------------------

    def deliveries(self, frames: Sequence[bytes]) -> None:
        """Events have come."""
        self.interests.deliveries(frames)

    def taken(self, publisher: int, number: int) -> None:
        """An event is on the broker's disk."""
        self.outgoing.taken(publisher, number)

    def refused(self, error: RefusedError, number: int) -> None:
        """The broker did not take an event, or did not do something for which nobody waits any longer."""
        if not self.outgoing.refused(number, error):
            self.hooks.error(error)

    def has_room(self) -> None:
        """Publishers can go on."""
        self.outgoing.has_room()

    def goodbye(self) -> None:
        """Send what there is: the link ends."""
        self.outgoing.flush()
        self.acknowledgements.flush()

    def lost(self) -> None:
        """What is published waits from now on."""
        self.outgoing.link_down()
