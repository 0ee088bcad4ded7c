"""The admin pages of brokers, without holding up the event loop: what is counted, which trees there are, plans.

The only place of the demonstration that asks for pages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import aiohttp
import msgspec

from covey.errors import CoveyError

TIMEOUT_S: Final = 20.0
STEP_S: Final = 0.05
INSTALL_S: Final = 60.0

# A metric's values by its first label, which is "" where it has none.
Metrics = Mapping[str, Mapping[str, float]]

_LINE: Final = re.compile(r'(\w+)(?:\{\w+="([^"]*)"[^}]*\})? (\S+)')


def metrics_of(text: str) -> Metrics:
    """Return metrics from Prometheus' text."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        parts = _LINE.fullmatch(line)
        if parts is not None:
            found.setdefault(parts[1], {})[parts[2] or ""] = float(parts[3])
    return found


def total(metrics: Mapping[str, Metrics], name: str) -> int:
    """Return the sum of a metric over all its labels and all brokers."""
    return int(sum(sum(mine.get(name, {}).values()) for mine in metrics.values()))


class Admin:
    """The pages of several brokers: `addresses` are theirs by name. An asynchronous context manager."""

    def __init__(self, addresses: Mapping[str, str], token: str) -> None:
        self._addresses = addresses
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Admin:
        self._session = aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def metrics(self) -> dict[str, Metrics]:
        """Return what each broker counts."""
        texts = await asyncio.gather(*(self._ask("GET", name, "/metrics") for name in self._addresses))
        return {name: metrics_of(text) for name, text in zip(self._addresses, texts, strict=True)}

    async def tree(self) -> frozenset[tuple[str, str]]:
        """Return the links over which brokers route without a plan: those that both ends have open."""
        sides = []
        for name in self._addresses:
            said = await self._json("GET", name, "/planz")
            own = next(epoch for epoch in said["epochs"] if not epoch["planned"])
            sides += [(name, other) for tree in own["trees"] for other in tree["open"]]
        return frozenset((a, b) for a, b in sides if a < b and (b, a) in sides)

    async def install(self, plan: bytes, at: str) -> None:
        """Have a plan installed by one broker; return when the network has switched. CoveyError if it does not."""
        said = await self._json("POST", at, "/planz", plan)
        until_s = asyncio.get_running_loop().time() + INSTALL_S
        while said["installation"]["step"] not in ("switched", "done"):
            if said["installation"]["step"] in ("failed", "back"):
                raise CoveyError(f"the plan is not installed: {said['installation']['reason']}")
            if asyncio.get_running_loop().time() > until_s:
                raise CoveyError(f"the plan is not in use yet: {said['installation']['says']}")
            await asyncio.sleep(STEP_S)
            said = await self._json("GET", at, "/planz")

    async def current_epochs(self) -> set[int]:
        """Return in which epochs events set out now, of all brokers."""
        found = set()
        for name in self._addresses:
            said = await self._json("GET", name, "/planz")
            found |= {epoch["epoch"] for epoch in said["epochs"] if epoch["current"]}
        return found

    async def _json(self, method: str, name: str, path: str, body: bytes | None = None) -> Any:
        return msgspec.json.decode(await self._ask(method, name, path, body))

    async def _ask(self, method: str, name: str, path: str, body: bytes | None = None) -> str:
        try:
            async with self._session.request(method, self._addresses[name] + path, data=body) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CoveyError(
                f"the pages of {name} cannot be had: {str(error) or type(error).__name__}"
            ) from None
        if answer.status >= 400:
            raise CoveyError(f"{name} answers: {text:.300}")
        return text
