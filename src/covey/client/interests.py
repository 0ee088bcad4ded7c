"""Interests: subscriptions and advertisements of a client, kept in force over one link after another.

Only what a broker has granted is restored on a new link: whatever is not yet answered is still being asked for by
whoever waits for it (`session.ask`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from covey.client.link import Link
from covey.client.received import Kept, Received
from covey.client.session import Session
from covey.client.subscription import Subscription
from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import ConfigError, CoveyError, RefusedError, SlowError
from covey.protocol.control import (
    AdvertiseRequest,
    ReplaceRequest,
    Request,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from covey.protocol.events import DELIVERED, delivery_of
from covey.protocol.frames import Kind

_ONE: Final = Struct("<BBHI")  # how a delivery to one subscription, not durable, begins


def known(filter: Filter | str, language: str) -> Filter:
    """Return the filter that a text describes, or the filter itself; FilterError if it describes none."""
    if isinstance(filter, str):
        return parse(filter, language)
    if not isinstance(filter, Filter):
        raise ConfigError(f"a filter is a text or a covey.Filter, not {type(filter).__name__}")
    return filter


class Interests:
    """What a client wants and offers; see the module's text."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.interests = self
        self._subscriptions: dict[int, Subscription] = {}
        self._by_beginning: dict[bytes, Subscription] = {}
        self._granted: set[int] = set()
        self._advertised: dict[int, Filter] = {}
        self._last_sid = 0

    @property
    def subscriptions(self) -> list[Subscription]:
        """All that have not ended."""
        return list(self._subscriptions.values())

    # -- links -----------------------------------------------------------------------------------------------

    def must_return(self) -> bool:
        """Whether no other broker will do: what is stored for a durable subscription is at one."""
        return any(self._subscriptions[sid].durable for sid in self._granted)

    def restore(self, link: Link) -> list[asyncio.Future[None]]:
        """Ask for everything on a new link, in one go."""
        answers = [
            link.ask(AdvertiseRequest(link.next_request(), aid, filter.encode()))
            for aid, filter in self._advertised.items()
        ]
        for sid in sorted(self._granted):
            answer = link.ask(self._subscribe_request(link.next_request(), self._subscriptions[sid]))
            answer.add_done_callback(self._if_refused(sid))
            answers.append(answer)
        return answers

    def _if_refused(self, sid: int) -> Callable[[asyncio.Future[None]], None]:
        def end(answer: asyncio.Future[None]) -> None:
            error = None if answer.cancelled() else answer.exception()
            subscription = self._subscriptions.get(sid)
            if isinstance(error, RefusedError) and subscription is not None:
                self._drop(subscription)
                subscription._end(error)

        return end

    def end(self, error: CoveyError | None) -> None:
        """Nothing more will come."""
        for subscription in self.subscriptions:
            self._drop(subscription)
            subscription._end(error)

    # -- subscribing -----------------------------------------------------------------------------------------

    async def subscribe(self, subscription: Subscription) -> None:
        """Ask for a subscription, and return when the broker has it."""
        self._session.check()

        def make(number: int) -> Request:
            # A broker wants growing numbers, and those of a link that is gone are taken.
            self._drop(subscription)
            self._last_sid += 1
            subscription.sid = self._last_sid
            self._subscriptions[subscription.sid] = subscription
            beginning = _ONE.pack(Kind.DELIVERY, 0, 1, subscription.sid)
            self._by_beginning[beginning] = subscription
            return self._subscribe_request(number, subscription)

        try:
            await self._session.ask(make)
        except BaseException:
            self._drop(subscription)
            subscription._end()
            raise
        self._granted.add(subscription.sid)

    def _subscribe_request(self, number: int, subscription: Subscription) -> SubscribeRequest:
        return SubscribeRequest(number, subscription.sid, subscription.filter.encode(), subscription.durable)

    def _drop(self, subscription: Subscription) -> None:
        sid = subscription.sid
        if self._subscriptions.pop(sid, None) is not None:
            self._by_beginning.pop(_ONE.pack(Kind.DELIVERY, 0, 1, sid), None)
            self._granted.discard(sid)

    async def replace(self, subscription: Subscription, wanted: Filter | str, language: str) -> None:
        """Ask for another filter; the subscription has it once that is granted."""
        filter = known(wanted, language)
        if subscription.sid not in self._granted:
            raise CoveyError("the subscription has ended")
        # On a new link the subscription is restored with its old filter first, so that this may be asked again.
        await self._session.ask(lambda number: ReplaceRequest(number, subscription.sid, filter.encode()))
        subscription.filter = filter

    async def unsubscribe(self, subscription: Subscription, forget: bool) -> None:
        """End a subscription; what comes until the broker answers is still taken."""
        sid = subscription.sid
        link = self._session.link
        if sid not in self._granted:
            subscription._end()
            return
        self._session.acknowledgements.flush()  # the broker knows the number of a subscription that has not ended
        try:
            if forget:
                await self._session.ask(lambda number: UnsubscribeRequest(number, sid, True))
            else:
                self._granted.discard(sid)  # on another link it is not restored
                if link is not None and link.is_open:
                    await self._session.ask_on(link, lambda number: UnsubscribeRequest(number, sid))
        finally:
            self._session.acknowledgements.forget(sid)
            self._drop(subscription)
            subscription._end()

    # -- events ----------------------------------------------------------------------------------------------

    def deliveries(self, frames: Sequence[bytes]) -> None:
        """Give events to subscriptions; most are for one, as were those before them."""
        find = self._by_beginning.get
        last = b""
        subscription: Subscription | None = None
        events: list[Received] = []
        size = 0
        for one in frames:
            beginning = one[:8]
            if beginning != last:
                if subscription is not None and events:
                    subscription._put(events, size)
                events, size, last = [], 0, beginning
                subscription = find(beginning)
                if subscription is None:
                    last = b""
                    self._seldom(one)
                    continue
            events.append(Received(one))
            size += len(one)
        if subscription is not None and events:
            subscription._put(events, size)

    def _seldom(self, one: bytes) -> None:
        """Give an event to several subscriptions, or to a durable one; those that have just ended miss nothing."""
        delivery = delivery_of(one)
        for sid in delivery.sids:
            subscription = self._subscriptions.get(sid)
            if subscription is None:
                continue
            if delivery.position is None:
                subscription._put([Received(one)], len(one))
            else:
                subscription._put([Kept(one, subscription._acknowledge)], len(one))

    def is_slow(self, subscription: Subscription) -> None:
        """A subscription's limits are reached: say so, and end it if that is its policy."""
        error = SlowError(
            f"{len(subscription.pending):,} events of {subscription.filter!s:.80} wait for the program "
            f"({subscription.pending.limits.policy})"
        )
        self._session.hooks.error(error)
        link = self._session.link
        if subscription.pending.has_ended and link is not None and subscription.sid in self._granted:
            link.ask(UnsubscribeRequest(link.next_request(), subscription.sid))
            self._drop(subscription)

    def report(self, error: Exception) -> None:
        """Say that a callback failed."""
        self._session.hooks.error(error)

    def acknowledge(self, sid: int, position: int, all_before: bool) -> bool:
        """An event of a durable subscription is done with; return False if that is too late to be told."""
        if sid not in self._granted:
            return False
        self._session.acknowledgements.put(sid, position, all_before)
        return True

    async def until(self, is_true: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        """Return when it is true; TimedOutError if that takes too long."""
        await self._session.until(is_true, timeout_s, what)

    # -- advertising -----------------------------------------------------------------------------------------

    async def advertise(self, filter: Filter) -> int:
        """Ask for an advertisement; return its number."""
        aid = 0

        def make(number: int) -> Request:
            nonlocal aid
            self._last_sid += 1
            aid = self._last_sid
            return AdvertiseRequest(number, aid, filter.encode())

        await self._session.ask(make)
        self._advertised[aid] = filter
        return aid

    async def unadvertise(self, aid: int) -> None:
        """Take an advertisement back."""
        if self._advertised.pop(aid, None) is None:
            raise CoveyError(f"there is no advertisement {aid}")
        link = self._session.link
        if link is not None and link.is_open:
            await self._session.ask_on(link, lambda number: UnadvertiseRequest(number, aid))


assert _ONE.size == DELIVERED.size + 4
