"""The dashboard's collector beside admin pages that lie, hang and break off; and what commands give it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.unit.test_dashboard_model import said

from covey.commands.dashboard import addresses, read_token
from covey.dashboard.collector import Collector, address_of
from covey.dashboard.model import Source
from covey.dashboard.reading import MAX_LINE
from covey.errors import ConfigError, CoveyError

LINE = msgspec.json.encode(said("a")) + b"\n"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def pages(watchz: Handler, planz: Handler | None = None) -> AsyncIterator[str]:
    """Give the address of admin pages with these handlers."""
    application = web.Application()
    application.router.add_get("/watchz", watchz)
    application.router.add_get("/planz", planz or answers({"epochs": [{"current": True, "trees": []}]}))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answers(row: Any, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response(row, status=status)

    return handler


def lines(*some: bytes, then_hangs: bool = True) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in some:
            await response.write(line)
        if then_hangs:
            await asyncio.Event().wait()
        return response

    return handler


async def hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def until(source: Source, is_so: Callable[[Source], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so(source):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("watchz", "complaint"),
    [
        (answers({"error": "wants a token"}, 401), "answers: wants a token"),
        (answers({}, 404), "is it a broker of this version?"),
        (answers([1], 500), "answers: 500"),
        (lines(b"<html>\n"), "/watchz cannot be read"),
        (lines(LINE, b"{}\n"), "/watchz cannot be read"),
        (lines(LINE, then_hangs=False), "has ended its page"),
        (lines(b"x" * (3 * MAX_LINE)), "Got more than"),
    ],
    ids=["401", "404", "500", "html", "no snapshot", "end", "long line"],
)
def test_what_is_wrong_with_a_broker_is_said_in_one_line(watchz: Handler, complaint: str) -> None:
    async def work() -> None:
        async with pages(watchz) as url, Collector([url]) as collector:
            (source,) = collector.sources
            await until(source, lambda one: complaint in one.error)
            assert "\n" not in source.error

    asyncio.run(work())


def test_a_page_of_trees_that_hangs_does_not_make_the_broker_silent() -> None:
    async def work() -> None:
        async def watchz(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                told[0] += 1
                await response.write(msgspec.json.encode(said("a", told[0])) + b"\n")
                await asyncio.sleep(0.01)

        told = [0]
        async with pages(watchz, hangs) as url, Collector([url]) as collector:
            (source,) = collector.sources
            await until(source, lambda one: one.now is not None and one.now.uptime_s > 5)
            assert (source.error, source.trees) == ("", {})

    asyncio.run(work())


def test_a_broker_that_comes_later_is_found() -> None:
    async def work() -> None:
        async with pages(lines(LINE)) as url:
            port = int(url.rpartition(":")[2])
        async with Collector([f"127.0.0.1:{port}"]) as collector:
            (source,) = collector.sources
            await until(source, lambda one: bool(one.error))
            assert collector.names() == []
            with pytest.raises(CoveyError, match="nobody said where"):
                collector.url_of("a")
            with pytest.raises(CoveyError, match="does not answer"):
                await collector.ask(source.url, "/varz")

    asyncio.run(work())


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a:1", "http://", "http://a:99999", "http://a:1/path", "http://u:p@a:1", "http://a:1?x=1"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of admin pages"):
        address_of(url)


def test_addresses_of_commands(tmp_path: Path) -> None:
    (tmp_path / "brokers").write_text("http://a:1\nb:7-8\n")
    assert addresses(["http://127.0.0.1:7500-7502", f"@{tmp_path / 'brokers'}"]) == [
        *("http://127.0.0.1:7500", "http://127.0.0.1:7501", "http://127.0.0.1:7502"),
        *("http://a:1", "b:7", "b:8"),
    ]
    for wrong in ("a:9-8", "a:0-5", "a:1-70000", f"@{tmp_path}"):
        with pytest.raises(ConfigError):
            addresses([wrong])


def test_tokens_of_files(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  a-long-token\n")
    assert read_token(file) == "a-long-token"
    for wrong in ("", "short", "two\nlines-of-it", "x" * 1_001):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match="has no token"):
            read_token(file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_token(tmp_path / "missing")
