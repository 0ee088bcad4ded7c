"""The admin pages of brokers, without holding up the event loop: what is counted, which trees there are, plans.

The only place of the demonstration that asks for pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from covey.client import admin
from covey.client.admin import Metrics, Pages, metrics_of


class Admin:
    """The pages of several brokers: `addresses` are theirs by name."""

    def __init__(self, addresses: Mapping[str, str], token: str) -> None:
        self._pages = {name: Pages(address, token) for name, address in addresses.items()}

    async def metrics(self) -> dict[str, Metrics]:
        """Return what each broker counts."""
        asked = (asyncio.to_thread(pages.get_bytes, "/metrics") for pages in self._pages.values())
        texts = await asyncio.gather(*asked)
        return {name: metrics_of(text.decode()) for name, text in zip(self._pages, texts, strict=True)}

    async def tree(self) -> frozenset[tuple[str, str]]:
        """Return the links over which brokers route without a plan: those that both ends have open."""
        sides = []
        for name, pages in self._pages.items():
            said = await asyncio.to_thread(pages.get, "/planz")
            own = next(epoch for epoch in said["epochs"] if not epoch["planned"])
            sides += [(name, other) for tree in own["trees"] for other in tree["open"]]
        return frozenset((a, b) for a, b in sides if a < b and (b, a) in sides)

    async def install(self, plan: bytes, at: str) -> None:
        """Have a plan installed by one broker; return when the network has switched. CoveyError if it does not."""
        await asyncio.to_thread(admin.install_plan, self._pages[at], plan)

    async def current_epochs(self) -> set[int]:
        """Return in which epochs events set out now, of all brokers."""
        found = set()
        for pages in self._pages.values():
            said = await asyncio.to_thread(pages.get, "/planz")
            found |= {epoch["epoch"] for epoch in said["epochs"] if epoch["current"]}
        return found
