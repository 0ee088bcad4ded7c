"""Session: what a client keeps over reconnections: its links, one after another, and what is asked over them.

A request that a link's end cut short is asked again on the next link, within the time that its caller gave. So each
request is one that may be asked twice.

Reconnecting: the first time every address is tried once, in order, and a failure is the caller's; only if a broker asks
to come back later, they are tried again, for as long as connecting may take. Later they are tried round and round,
beginning with the one after the broken link's. Pauses grow, and each is a random part of what it may be (full jitter),
so that a thousand clients of a broker that has restarted do not come at once. A broker that says that coming back is of
no use is believed.

Hooks are functions of the program that hear of all this. What they do wrong ends nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from covey.client.link import Address, GoneError, Hook, Link, Options, Receiver, dial
from covey.client.publishing import Outgoing, raise_again
from covey.errors import BusyError, CoveyError, LinkError, RefusedError, TimedOutError
from covey.protocol.control import Request

log = logging.getLogger("covey.client")

FIRST_PAUSE_S: Final = 0.05
STEADY_S: Final = 2.0  # a link that held so long was a good one: pauses begin anew
MOST_TO_END_S: Final = 10.0  # that a broker has to read what was published before the end

# Makes a request from its number; called again for every link that it is asked on.
MakeRequest: TypeAlias = Callable[[int], Request]


class Hooks:
    """Calls the program's functions; see `covey.connect`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()

    def disconnected(self, reason: str) -> None:
        """The link is gone."""
        log.info("the link to the broker is gone: %s", reason)
        self._call(self._options.on_disconnect, reason)

    def reconnected(self, broker: str) -> None:
        """There is a link again, and everything is restored."""
        log.info("linked to the broker %s again", broker)
        self._call(self._options.on_reconnect, broker)

    def error(self, error: Exception) -> None:
        """Something went wrong that nobody waits for."""
        if self._options.on_error is None:
            log.error("%s: %s", type(error).__name__, error)
        self._call(self._options.on_error, error)

    def _call(self, hook: Hook | None, argument: object) -> None:
        if hook is None:
            return
        try:
            result = hook(argument)
        except Exception:
            log.exception("a hook failed")
            return
        if inspect.isawaitable(result):
            task = asyncio.get_running_loop().create_task(self._wait(result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception:
            log.exception("a hook failed")

    async def close(self, within_s: float) -> None:
        """Let hooks that still run end; those that take longer are cancelled."""
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=within_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


class Reconnector:
    """Dials brokers until one answers, at first and after a link broke; see the module's text."""

    def __init__(self, addresses: Sequence[Address], options: Options) -> None:
        self._addresses = addresses
        self._options = options
        self._pause_s = FIRST_PAUSE_S
        # The shared generator is the program's: what it draws must not depend on our links.
        self._random = random.Random()

    async def first(self, receiver: Receiver) -> Link:
        """Return a link to the first broker that answers; the error of the last if none does.

        A broker that asks to come back later is asked again, within the time for connecting.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._options.connect_timeout_s
        while True:
            errors: dict[Address, CoveyError] = {}
            for address in self._addresses:
                try:
                    return await dial(receiver, address, self._options)
                except CoveyError as error:
                    errors[address] = error
            pause_s = self._next_pause_s()
            is_busy = any(isinstance(error, BusyError) for error in errors.values())
            if not is_busy or loop.time() + pause_s >= until_s:
                break
            await asyncio.sleep(pause_s)
        if len(errors) == 1:
            raise errors[self._addresses[0]]
        raise LinkError(
            "no broker can be reached: " + "; ".join(str(error) for error in errors.values())[:1_000]
        )

    def was_steady(self) -> None:
        """The last link was a good one."""
        self._pause_s = FIRST_PAUSE_S

    async def again(self, receiver: Receiver, broken: Address, *, must_return: bool) -> Link:
        """Return a link after the one to `broken`, and to no other broker if it `must_return`.

        The last RefusedError if every broker refuses us, LinkError if none is reached for as long as the options say.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        order = self._order(broken, must_return)
        while True:
            await asyncio.sleep(self._next_pause_s())
            refusals: list[RefusedError] = []
            last: CoveyError | None = None
            for address in order:
                try:
                    return await dial(receiver, address, self._options)
                except RefusedError as error:
                    refusals.append(error)
                    last = error
                except CoveyError as error:
                    last = error
            if len(refusals) == len(order):
                raise refusals[-1]
            if loop.time() - began_s >= self._options.reconnect_for_s:
                raise LinkError(f"no broker was reached for {self._options.reconnect_for_s:g} s: {last}")

    def _next_pause_s(self) -> float:
        pause_s = min(self._pause_s, self._options.longest_pause_s)
        self._pause_s = 2 * pause_s
        # Not for secrets: only to spread clients out.
        return self._random.uniform(0.0, pause_s)

    def _order(self, broken: Address, must_return: bool) -> list[Address]:
        if must_return or broken not in self._addresses:
            return [broken]
        after = self._addresses.index(broken) + 1
        return [*self._addresses[after:], *self._addresses[:after]]


class Restored(Protocol):
    """What is kept in force over links: the client's `Interests`."""

    def must_return(self) -> bool:
        """Whether no other broker will do."""

    def restore(self, link: Link) -> list[asyncio.Future[None]]:
        """Ask for everything on a new link; the futures are done when all is in force."""

    def deliveries(self, frames: Sequence[bytes]) -> None:
        """DELIVERY frames, in order."""

    def flush(self, link: Link) -> None:
        """Tell the broker what it is to know before anything else is said."""

    def end(self, error: CoveyError | None) -> None:
        """Nothing more will come."""


class Session:
    """The owner of a client's links; see the module's text."""

    interests: Restored

    def __init__(self, addresses: Sequence[Address], options: Options) -> None:
        self._reconnector = Reconnector(addresses, options)
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._has_begun = False
        self.options = options
        self.hooks = Hooks(options)
        self.link: Link | None = None
        self.outgoing = Outgoing(options.buffer_events, options.buffer_bytes)
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
        link = await self._reconnector.first(self)
        self.refusal = self.outgoing.refusal = None
        self._use(link)
        self._task = asyncio.get_running_loop().create_task(self._reconnect(link))

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

    async def _reconnect(self, link: Link) -> None:
        """Wait for the link to break, and make another one, until there can be none."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            reason = await asyncio.shield(link.ended)
            if loop.time() - began_s > STEADY_S:
                self._reconnector.was_steady()
            if not link.may_return or self.options.reconnect_for_s == 0:
                self._give_up(LinkError(f"the link to the broker at {link.address} is gone: {reason}"))
                return
            self.link = None
            self.hooks.disconnected(reason)
            try:
                link = await self._reconnector.again(
                    self, link.address, must_return=self.interests.must_return()
                )
            except CoveyError as error:
                self._give_up(error)
                return
            await self._restore(link)

    async def _restore(self, link: Link) -> None:
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
        self.interests.flush(link)
        for error in self.outgoing.link_up(link):
            self.hooks.error(error)
        self._wake()
        return restored

    def _give_up(self, error: CoveyError) -> None:
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
        if self.link is not None:
            self.interests.flush(self.link)

    def lost(self) -> None:
        """What is published waits from now on."""
        self.outgoing.link_down()
