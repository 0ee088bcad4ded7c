"""Admin pages of many brokers that are not there: what a dashboard of a large network costs, and how it looks.

    python -m tests.browser.many 500 30      brokers, and for how many seconds; prints what the dashboard used

Each broker is a port of one process, which says on /watchz every second what a busy broker would say. All brokers
together publish 5,000 events a second. The network has regions, as large overlays do: a ring of hubs with their trees.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
from aiohttp import web

EVENTS = 5_000  # a second, of all brokers
CITIES = (
    "amsterdam", "athens", "berlin", "brussels", "dublin", "geneva", "helsinki", "lisbon", "london", "lyon",
    "madrid", "milan", "munich", "oslo", "paris", "prague", "rome", "stockholm", "vienna", "zurich",
)  # fmt: skip


def overlay(count: int, seed: int = 1) -> tuple[list[str], list[tuple[str, str]]]:
    """Return brokers in regions, and their links: hubs in a ring with chords, a tree in each region."""
    random = Random(seed)
    names = [f"{CITIES[number % len(CITIES)]}-{number // len(CITIES)}" for number in range(count)]
    regions: dict[str, list[str]] = {}
    for name in names:
        regions.setdefault(name.split("-")[0], []).append(name)
    hubs = [members[0] for members in regions.values()]
    links = (
        [(hubs[place], hubs[(place + 1) % len(hubs)]) for place in range(len(hubs))] if len(hubs) > 2 else []
    )
    links += [
        (hubs[place], hubs[(place + len(hubs) // 2) % len(hubs)]) for place in range(0, len(hubs) // 2, 3)
    ]
    for members in regions.values():
        links += [
            (name, random.choice(members[max(0, place - 8) : place]))
            for place, name in enumerate(members)
            if place
        ]
    return names, sorted({(min(pair), max(pair)) for pair in links})


class Many:
    """The brokers; `urls` are their pages."""

    def __init__(self, count: int) -> None:
        self.names, self.links = overlay(count)
        self.urls: list[str] = []
        self._ports: dict[int, str] = {}
        self._neighbours: dict[str, list[str]] = {name: [] for name in self.names}
        for a, b in self.links:
            self._neighbours[a].append(b)
            self._neighbours[b].append(a)
        self._began_s = time.monotonic()

    def said(self, name: str) -> dict[str, Any]:
        """Return what a broker says now."""
        up_s = time.monotonic() - self._began_s + 1_000
        count = int(up_s * EVENTS / len(self.names))
        totals = {
            "events_published": count,
            "events_received": 3 * count,
            "events_forwarded": 3 * count,
            "events_delivered": count,
            "events_dropped": 0,
            "events_refused": 0,
        }
        links = [
            {
                "link": other,
                "up": True,
                "open": True,
                "received": count,
                "sent": count,
                "received_bytes": 200 * count,
                "sent_bytes": 200 * count,
                "dropped": 0,
                "queue_events": hash((name, other)) % 7,
                "queue_bytes": 900,
            }
            for other in self._neighbours[name]
        ]
        return {
            "broker": name, "version": "1", "strategy": "covering", "uptime_s": up_s, "time_s": up_s, "ready": True,
            "clients": 20, "subscriptions": 200, "entries": 900, "totals": totals, "links": links,
            "cpu_s": up_s * 0.05, "peak_memory_bytes": 90 << 20, "control_in": count // 50, "control_out": count // 50,
            "inbox": {"frames": 0, "longest": 9, "congested": False}, "slow": [], "client_queue_events": 0, "store": {},
            "plan": {"version": 0, "epoch": 0, "planned": False, "step": "", "reason": ""},
            "latency_bounds_s": [0.001, 0.01, 0.1],
            "latencies": {"hop": [count, count // 9, 3, 0], "queue": [0] * 4, "commit": [0] * 4},
        }  # fmt: skip

    def _name(self, request: web.Request) -> str:
        assert request.transport is not None
        return self._ports[request.transport.get_extra_info("sockname")[1]]

    async def _watchz(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        name = self._name(request)
        while True:
            await response.write(msgspec.json.encode(self.said(name)) + b"\n")
            await asyncio.sleep(1.0)

    async def _planz(self, request: web.Request) -> web.Response:
        trees = [{"tree": 0, "links_up": self._neighbours[self._name(request)]}]
        return web.json_response({"epochs": [{"current": True, "trees": trees}]})

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Serve all pages."""
        application = web.Application()
        application.router.add_get("/watchz", self._watchz)
        application.router.add_get("/planz", self._planz)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        for name in self.names:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[-1][1]
            self._ports[port] = name
            self.urls.append(f"http://127.0.0.1:{port}")
        try:
            yield
        finally:
            await runner.cleanup()


def used_s(pid: int) -> float:
    """Return the processor time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(count: int, seconds: float) -> None:
    """Print what a dashboard of so many brokers uses, without and with a page that watches."""
    import aiohttp

    many = Many(count)
    async with many.serve():
        environment = {**os.environ, "COVEY_ADMIN_TOKEN": "the-token-of-the-load"}
        command = [sys.executable, "-m", "covey", "dashboard", *many.urls, "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            url = line.split()[1]
            print(line.strip(), flush=True)
            await asyncio.sleep(15)  # until the map is drawn

            async def look(what: str) -> None:
                before, begun_s = used_s(process.pid), time.monotonic()
                await asyncio.sleep(seconds)
                share = (used_s(process.pid) - before) / (time.monotonic() - begun_s)
                print(f"{count} brokers, {what}: {share:.0%} of a core", flush=True)

            await look("nobody watches")
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                await session.post(f"{url}api/login", json={"token": "the-token-of-the-load"})
                async with session.get(
                    f"{url}api/stream", timeout=aiohttp.ClientTimeout(total=None)
                ) as answer:

                    async def read() -> None:
                        async for _ in answer.content.iter_any():
                            pass

                    reading = asyncio.create_task(read())
                    await look("one page watches")
                    reading.cancel()
            print(f"memory {_memory(process.pid)}", flush=True)
        finally:
            process.terminate()
            process.wait(20)
            process.stdout.close()


def _memory(pid: int) -> str:
    with open(f"/proc/{pid}/status") as file:
        return next(line.split(":")[1].strip() for line in file if line.startswith("VmRSS"))


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]), float(sys.argv[2])))
