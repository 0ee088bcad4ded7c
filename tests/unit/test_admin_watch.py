"""Who watches a broker may go at any moment, also before the first line: that is no error of the broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientConnectionResetError
from aiohttp.test_utils import make_mocked_request

from covey.broker.http.admin import Admin


class Gone:
    """A way to a client that closes it after so many writes."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def __getattr__(self, name: str) -> Any:
        async def done(*_: object, **__: object) -> None:
            if name in ("write", "write_headers"):
                self.left -= 1
                if self.left < 0:
                    raise ClientConnectionResetError("Cannot write to closing transport")

        return (lambda *_, **__: None) if name in ("send_headers", "enable_chunking") else done


@pytest.mark.parametrize("writes", [0, 1, 3])
def test_who_watches_may_go(writes: int) -> None:
    said: list[int] = []

    def line() -> bytes:
        said.append(1)
        return b"{}\n"

    pages: Any = SimpleNamespace(_pulse=SimpleNamespace(line=line, wait_s=lambda every_s: 0.0))
    request = make_mocked_request("GET", "/watchz?every=0", writer=Gone(writes))
    answer = asyncio.run(asyncio.wait_for(Admin._watchz(pages, request), 10))
    assert answer.status == 200
    assert len(said) == writes
