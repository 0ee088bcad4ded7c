"""The collector: asks all brokers, all the time, and keeps what they said last.

Each broker is followed on its page `/watchz`, a line a second; one that cannot be reached is tried again every second.
The trees of a plan are asked for when the plan or the links of a broker change. Pages that somebody wants to see are
asked for when they are wanted, a few at a time. Every answer is bounded in time and size.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp.http_exceptions import HttpProcessingError

from covey.dashboard.model import MAX_GAP_S, Source
from covey.dashboard.reading import MAX_LINE, read_snapshot, trees_of
from covey.errors import ConfigError, CoveyError

AGAIN_S: Final = 1.0  # before a broker is tried again
CONNECT_S: Final = 3.0
SILENCE_S: Final = (
    2.5 * MAX_GAP_S
)  # of a stream, which is then opened again; the model judges earlier who is down
ANSWER_S: Final = 15.0
AT_ONCE: Final = 16  # requests for pages that are under way
MAX_ANSWER: Final = 32 << 20
MAX_BROKERS: Final = 2_000
# What aiohttp raises for a peer that is not there or does not speak as one should; the last for one that has just gone.
BROKEN: Final = (aiohttp.ClientError, HttpProcessingError, OSError, TimeoutError, ValueError, RuntimeError)


class Collector:
    """The brokers at some addresses, shown a token; `async with` it to follow them."""

    def __init__(self, urls: Sequence[str], token: str = "", authority: str = "") -> None:
        if not 1 <= len(urls) <= MAX_BROKERS:
            raise ConfigError(f"expected the admin pages of 1 to {MAX_BROKERS:,} brokers, not {len(urls):,}")
        self.sources = [Source(address_of(url)) for url in dict.fromkeys(urls)]
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._tls = ssl.create_default_context(cafile=authority or None)
        except OSError as error:
            raise ConfigError(
                f"the authority {authority} cannot be used: {error.strerror or error}"
            ) from None
        self._session: aiohttp.ClientSession
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Collector:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls, enable_cleanup_closed=False)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            read_bufsize=MAX_LINE,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow(source)) for source in self.sources]
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()

    # -- following -------------------------------------------------------------------------------------------

    async def _follow(self, source: Source) -> None:
        while True:
            try:
                await self._stream(source)
                source.fail("the broker has ended its page /watchz")
            except CoveyError as error:
                source.fail(str(error))
            except BROKEN as error:
                source.fail(_line(error))
            await asyncio.sleep(AGAIN_S)

    async def _stream(self, source: Source) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        async with self._session.get(
            f"{source.url}/watchz", params={"every": "1"}, timeout=timeout, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise CoveyError(await _complaint(source.url, answer))
            asked: object = None
            asking: asyncio.Task[None] | None = None
            try:
                while line := await answer.content.readline(max_line_length=MAX_LINE):
                    snapshot = read_snapshot(line)
                    source.hear(snapshot, time.monotonic())
                    state = (snapshot.plan, [(link.link, link.up, link.open) for link in snapshot.links])
                    if state != asked and (asking is None or asking.done()):
                        # Beside this: a page that is slow to come must not make the broker look silent.
                        asking, asked = asyncio.create_task(self._look_at_trees(source)), state
            finally:
                if asking is not None:
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)

    async def _look_at_trees(self, source: Source) -> None:
        while True:
            try:
                source.trees = trees_of(await self.ask(source.url, "/planz"))
                return
            except CoveyError:
                await asyncio.sleep(AGAIN_S)  # the stream says whether the broker is there

    # -- pages that are wanted -------------------------------------------------------------------------------

    def url_of(self, broker: str) -> str:
        """Return where the pages of a broker are, by its name; CoveyError if that is not known."""
        for source in self.sources:
            if source.name == broker:
                return source.url
        raise CoveyError(f"nobody said where the admin pages of {broker!r:.80} are")

    def names(self) -> list[str]:
        """Return the brokers that answer."""
        return [source.name for source in self.sources if source.now is not None and not source.error]

    async def ask(self, url: str, path: str, **query: object) -> Any:
        """Return a page; CoveyError if it cannot be had."""
        async with self._request("GET", url, path, params=_texts(query)) as answer:
            return await _json(url, answer)

    async def fetch(self, url: str, path: str, **query: object) -> bytes:
        """Return a page as it is."""
        async with self._request("GET", url, path, params=_texts(query)) as answer:
            return await _bytes(url, answer)

    async def post(self, url: str, path: str, body: bytes) -> Any:
        """Send bytes, and return the answer."""
        async with self._request("POST", url, path, data=body) as answer:
            return await _json(url, answer)

    async def delete(self, url: str, path: str, **query: object) -> Any:
        """Delete what is at a page, and return the answer."""
        async with self._request("DELETE", url, path, params=_texts(query)) as answer:
            return await _json(url, answer)

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, path: str, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S)
        try:
            async with (
                self._room,
                self._session.request(
                    method, url + path, timeout=timeout, allow_redirects=False, **more
                ) as answer,
            ):
                if answer.status >= 300:
                    raise CoveyError(await _complaint(url, answer))
                yield answer
        except BROKEN as error:
            raise CoveyError(f"{url} does not answer: {_line(error)}") from None


def address_of(url: str) -> str:
    """Return an address of admin pages as it is asked; a bare `host:port` is taken as http."""
    whole = (url if "://" in url else f"http://{url}").rstrip("/")
    parts = urlsplit(whole)
    try:
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.path or parts.query or "@" in parts.netloc:
        raise ConfigError(f"{url!r:.80} is no address of admin pages (hint: http://127.0.0.1:7401)")
    return whole


def _texts(query: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in query.items() if value not in (None, "")}


async def _bytes(url: str, answer: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for chunk in answer.content.iter_any():
        found += chunk
        if len(found) > MAX_ANSWER:
            raise CoveyError(f"{url} answers with more than {MAX_ANSWER:,} bytes")
    return bytes(found)


async def _json(url: str, answer: aiohttp.ClientResponse) -> Any:
    try:
        return msgspec.json.decode(await _bytes(url, answer))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise CoveyError(f"{url} does not answer with JSON: is it a broker's admin port?") from None


async def _complaint(url: str, answer: aiohttp.ClientResponse) -> str:
    """Return in one line why a broker does not answer as asked."""
    if answer.status == 404:
        return f"{url} has no such page: is it a broker of this version?"
    try:
        said = await _json(url, answer)
    except CoveyError as error:
        return str(error)
    reason = said.get("error", "") if isinstance(said, dict) else ""
    return f"{url} answers: {reason or answer.status!s:.300}"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
