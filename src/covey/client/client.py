"""The client: one connection to a broker, on which everything of a program travels.

async with covey.connect("covey://127.0.0.1:7400") as client:
    await client.publish({"symbol": "IBM", "price": 12}, data=b"...")
    async with client.subscribe("price > 10") as events:
        async for event in events:
            print(event["symbol"], event.data)

What a program wants is remembered (`subscription.Interests`) and said again on every new link (`session`); what it
publishes goes through `publishing`. Every wait ends: with its answer, when the client is closed or gives up, or after a
time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Generator, Iterable
from math import inf
from types import TracebackType
from typing import Any, Final

from covey.client.link import DEFAULT_URL, DROP_NEW, Address, Hook, Limits, Options, addresses_of
from covey.client.publishing import Batch
from covey.client.session import Session
from covey.client.subscription import Callback, Interests, Subscription, filter_of
from covey.core.families import DEFAULT_LANGUAGE
from covey.core.filter import Filter
from covey.errors import ConfigError, EventError, LinkError, TimedOutError
from covey.protocol.control import MAX_NAME, FlushRequest

MOST_UNCONFIRMED: Final = 10_000  # events of one `publish_many` that wait for the broker's disk at a time


class Client:
    """A program's connection to the network; see `covey.connect`, which makes one."""

    def __init__(self, addresses: tuple[Address, ...], options: Options) -> None:
        self._session = Session(addresses, options)
        self._interests = Interests(self._session)
        self._outgoing = self._session.outgoing
        self._closing: asyncio.Future[None] | None = None

    # -- life ------------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        return await self._connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _connect(self) -> Client:
        await self._session.open()
        return self

    @property
    def is_open(self) -> bool:
        """Whether the client is in use: it has connected, is not closed, and has not given up."""
        return self._session.refusal is None

    @property
    def is_connected(self) -> bool:
        """Whether there is a link to a broker at this moment."""
        return self._session.link is not None and self._session.link.is_open

    @property
    def broker(self) -> str:
        """The name of the broker to which there is, or was last, a link."""
        return self._session.broker

    @property
    def reconnects(self) -> int:
        """How many links there were after the first."""
        return self._session.reconnects

    @property
    def waiting(self) -> int:
        """How many published events wait for a link."""
        return self._outgoing.waiting

    async def close(self) -> None:
        """End everything; what was published is sent first, and what has come can still be taken."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._session.close())
        await asyncio.shield(self._closing)

    async def drain(self, timeout_s: float | None = None) -> None:
        """Take nothing more, finish what is pending, and close.

        Subscriptions end, and their programs take what has come; what was published is sent, and confirmed where that
        was asked for. TimedOutError if that is not done in time; the client is closed then too.
        """
        self._session.check()
        self._outgoing.refusal = LinkError("the client is being drained")
        subscriptions = self._interests.subscriptions
        try:
            await asyncio.gather(*(one.unsubscribe() for one in subscriptions))

            def is_done() -> bool:
                return self._outgoing.is_empty and all(one.is_taken for one in subscriptions)

            await self._until(is_done, timeout_s, "everything that was pending was done")
        finally:
            await self.close()

    # -- publishing ------------------------------------------------------------------------------------------

    async def publish(
        self, content: Any, data: bytes = b"", *, confirm: bool = False, timeout_s: float | None = None
    ) -> None:
        """Publish an event: a mapping of attributes, a set of words or the text of an XML document, and a payload.

        Without `confirm` it is on its way when this returns, and arrives at most once. With it the first broker has it
        on disk: it is sent until then, and arrives at least once. TimedOutError if that takes too long: it may arrive
        nevertheless. RefusedError if the broker does not take it; without `confirm`, `on_error` is told of that.

        EventError, naming the attribute, for what cannot be carried, and for what is too large: nothing is sent.
        LinkError if there is no link and no room to wait.
        """
        if confirm:
            await self._confirmed([(content, data)], timeout_s)
        elif self._outgoing.put(content, data):
            await self._outgoing.room()

    async def publish_many(
        self, events: Iterable[Any], *, confirm: bool = False, timeout_s: float | None = None
    ) -> int:
        """Publish events, each content, (content, data) or a covey.Event; return how many. As `publish`, but faster.

        The first that is no event ends it; those before it are published, and confirmed where that is asked for.
        RefusedError says which were refused (`refusals`), once all others are confirmed.
        """
        if not confirm:
            count = _Counter(events)
            for _ in self._outgoing.put_all(count, None):
                await self._outgoing.room()
            return count.count
        total, some = 0, []
        for event in events:
            some.append(event)
            if len(some) == MOST_UNCONFIRMED:
                total += await self._confirmed(some, timeout_s)
                some = []
        return total + (await self._confirmed(some, timeout_s) if some else 0)

    async def _confirmed(self, events: list[Any], timeout_s: float | None) -> int:
        batch = Batch()
        problem: EventError | None = None
        limit_s = self._session.options.timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                try:
                    for _ in self._outgoing.put_all(events, batch):
                        await self._outgoing.room()
                except EventError as error:
                    problem = error  # those before it are on their way
                batch.complete()
                await batch.done
        except TimeoutError:
            raise TimedOutError(f"{batch.left:,} events are not confirmed within {limit_s:g} s") from None
        finally:
            self._outgoing.forget(batch)
        if problem is not None:
            raise problem
        batch.raise_refusals(len(events))
        return len(events)

    async def advertise(self, filter: Filter | str, language: str = DEFAULT_LANGUAGE) -> int:
        """Say what this client may publish; return a number for `unadvertise`.

        Events that no advertisement covers arrive too, but cost the network more.
        """
        return await self._interests.advertise(filter_of(filter, language))

    async def unadvertise(self, advertisement: int) -> None:
        """Take back an advertisement."""
        await self._interests.unadvertise(advertisement)

    # -- subscribing -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        filter: Filter | str,
        language: str = DEFAULT_LANGUAGE,
        *,
        callback: Callback | None = None,
        durable: str = "",
        pending_events: int = Limits.events,
        pending_bytes: int = Limits.bytes,
        policy: str = DROP_NEW,
    ) -> Subscription:
        """Return a subscription, which begins when it is entered or awaited; then it is in force at the broker.

        `callback` gets each event, instead of an iteration. `durable` is a name under which the broker keeps what
        matches until it is acknowledged, also while this client is away; the client needs a name for that, too.
        What comes while `pending_events` or `pending_bytes` wait for the program is dealt with by `policy`:
        "drop-new", "drop-oldest" or "error"; `on_error` is told.
        """
        if durable and not self._session.options.name:
            raise ConfigError(
                "a durable subscription needs a client with a name (hint: connect(..., name=...))"
            )
        if len(durable) > MAX_NAME:
            raise ConfigError(f"a durable subscription's name has at most {MAX_NAME} characters")
        limits = Limits(pending_events, pending_bytes, policy)
        return Subscription(
            self._interests, filter_of(filter, language), durable=durable, callback=callback, limits=limits
        )

    # -- waiting ---------------------------------------------------------------------------------------------

    async def flush(self, timeout_s: float | None = None, *, near: bool = False) -> None:
        """Return once everything said before is in force in the whole network, and everything published is on its way.

        TimedOutError if that takes too long, as it does while a broker on the way is down. With `near` it is enough
        that this client's broker has handled everything. Either way `on_error` has been told of the events that the
        broker refused before.
        """
        await self._session.ask(lambda number: FlushRequest(number, near), timeout_s)

    async def _until(self, is_true: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        await self._session.until(is_true, timeout_s, what)


class _Counter:
    """Counts what is taken from an iterable."""

    def __init__(self, events: Iterable[Any]) -> None:
        self._events = events
        self.count = 0

    def __iter__(self) -> Generator[Any, None, None]:
        for event in self._events:
            yield event
            self.count += 1


def connect(
    urls: str | Iterable[str] = DEFAULT_URL,
    *,
    name: str = "",
    token: str = "",
    user: str = "",
    password: str = "",
    tls: ssl.SSLContext | bool = False,
    connect_timeout_s: float = 10.0,
    timeout_s: float = 30.0,
    reconnect_for_s: float = inf,
    longest_pause_s: float = 5.0,
    buffer_events: int = 100_000,
    buffer_bytes: int = 16 << 20,
    on_disconnect: Hook | None = None,
    on_reconnect: Hook | None = None,
    on_error: Hook | None = None,
) -> Client:
    """Return a client for one of the brokers at the addresses; it connects when it is entered or awaited.

    async with covey.connect("covey://127.0.0.1:7400") as client: ...
    client = await covey.connect(["covey://one:7400", "covey://two:7400"], token="...")

    When the link breaks it connects again, to any of them, for `reconnect_for_s` (0: not at all), and restores
    advertisements and subscriptions; meanwhile `buffer_events` and `buffer_bytes` of what is published wait.
    `tls` is True, or an ssl.SSLContext with a certificate of ours. `timeout_s` is for every answer of a broker.

    The hooks are functions or coroutine functions: `on_disconnect(reason)`, `on_reconnect(broker)`, and
    `on_error(error)` for what nobody waits for: a callback's exception, dropped events, a refused event, the end.
    """
    options = Options(
        name, token, user, password, tls, connect_timeout_s, timeout_s, reconnect_for_s, longest_pause_s,
        buffer_events, buffer_bytes, on_disconnect, on_reconnect, on_error,
    )  # fmt: skip
    return Client(addresses_of(urls), options)
