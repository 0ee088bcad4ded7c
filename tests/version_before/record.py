"""Record what peers of the version before say to a broker of that version, and what it answers: the files beside this.

    git archive d642115 src | tar x -C /tmp/before
    PYTHONPATH=/tmp/before/src .venv/bin/python tests/version_before/record.py

It runs with the sources of that version, and needs nothing of today's. A recording is of one broker, `a`: all frames of
its connections, in their order, one a line:

    y > REQUEST 96a9…      the peer y has said this to a
    y < REPLY 93a5…        a has said this to y

`y client`, `b dials` and `b dialled` say that a connection begins, with a client, by a neighbour and to a neighbour; `y
ends` that the peer has ended it. Pings are left out. `# …` lines are for the reader.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

WALL_S = 1_700_000_000
time.time = lambda: float(WALL_S)  # link states and stored events have it
time.time_ns = lambda: WALL_S * 1_000_000_000

from covey.wire.frames import Kind  # type: ignore[import-not-found]  # noqa: E402

from covey import connect  # noqa: E402
from covey.broker.config import BrokerConfig, LinkConfig  # noqa: E402
from covey.broker.server import Broker  # noqa: E402

HERE = Path(__file__).parent
SILENT = (Kind.PING, Kind.PONG)
SETTLE_S = 0.3
# What a broker does by the clock it does every eighth of a lease: a, for which time is played, does none of it here.
LEASES_S = {"a": 600.0, "b": 8.0, "c": 8.0}


class Recording:
    """The lines of a recording, and proxies that write them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def remark(self, text: str) -> None:
        self.lines.append(f"# {text}")

    async def listen(self, name: str, begins: str, target: int, outward: bool = False) -> int:
        """Return the port of a proxy. `outward`: a dials through it, others dial a."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                their_reader, their_writer = await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                writer.close()
                return
            self.lines.append(f"{name} {begins}")
            there, back = ("<", ">") if outward else (">", "<")
            await asyncio.gather(
                self._pass(name, there, reader, their_writer), self._pass(name, back, their_reader, writer)
            )
            for one in (writer, their_writer):
                one.close()

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _pass(
        self, name: str, sign: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                length = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(length, "little"))
                if frame[0] not in SILENT:
                    self.lines.append(f"{name} {sign} {Kind(frame[0]).name} {frame[1:].hex()}".rstrip())
                writer.write(length + frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            if sign == ">":
                self.lines.append(f"{name} ends")
            if writer.can_write_eof() and not writer.is_closing():
                with suppress(OSError):
                    writer.write_eof()

    async def step(self, text: str, *what: Awaitable[Any]) -> None:
        """Do something, and let all that follows from it happen."""
        self.remark(text)
        for one in what:
            await one
        await asyncio.sleep(SETTLE_S)

    def close(self) -> None:
        for server in self._servers:
            server.close()


def client(port: int, name: str) -> Any:
    """Return a client, to be entered."""
    return connect(f"covey://127.0.0.1:{port}", name=name)


@asynccontextmanager
async def broker(name: str, folder: Path, *links: LinkConfig) -> AsyncIterator[Broker]:
    config = BrokerConfig(name, port=0, links=links, lease_s=LEASES_S[name], data_dir=str(folder / name))
    async with Broker(config) as one:
        yield one


async def acknowledged(subscription: Any, count: int) -> None:
    """Take so many events and acknowledge them."""
    for _ in range(count):
        await (await anext(subscription)).ack()


async def taken(subscription: Any, count: int) -> None:
    """Take so many events."""
    for _ in range(count):
        await anext(subscription)


async def of_clients(it: Recording, folder: Path) -> None:
    """Two clients of one broker: all that a client can say."""
    async with broker("a", folder) as a:
        x = client(await it.listen("x", "client", a.port), "x")
        y = client(await it.listen("y", "client", a.port), "y")
        await it.step("x comes", x)
        plain = x.subscribe("price > 10 and name like 'A%'")
        words = x.subscribe("nokia or motorola", "keywords")
        pages = x.subscribe("//item[title]", "xpath")
        durable = x.subscribe("kind = 'kept'", durable="all")
        await it.step(
            "x subscribes: attributes, words, a document, and durably", plain, words, pages, durable
        )
        await it.step("y comes and advertises", y, y.advertise("price > 0"))
        number = await y.advertise("kind in ('kept', 'other')")
        await it.step("y publishes plain events", y.publish({"price": 5, "name": "A"}))
        await it.step("… which x wants", y.publish({"price": 20.5, "name": "ABC"}, b"payload"))
        await it.step("… of words", y.publish({"nokia", "phone"}), y.publish("<item><title>t</title></item>"))
        await taken(plain, 1)
        await it.step("y publishes a confirmed event", y.publish({"kind": "kept", "n": 1}, confirm=True))
        await it.step("x acknowledges it", acknowledged(durable, 1))
        await it.step(
            "y publishes many", y.publish_many([{"kind": "kept", "n": n} for n in (2, 3)], confirm=True)
        )
        await it.step("x acknowledges both at once", _both(durable))
        await it.step("x wants something else instead", plain.replace("price < 3 or price > 30"))
        await it.step(
            "y publishes that", y.publish({"price": 1}), y.publish({"price": 20}), y.publish({"price": 31})
        )
        await it.step("y flushes, near and far", y.flush(near=True), y.flush())
        await it.step(
            "x unsubscribes, and forgets what is durable",
            words.unsubscribe(),
            durable.unsubscribe(forget=True),
        )
        await it.step("y may publish less", y.unadvertise(number))
        await it.step("both go", x.close(), y.close())


async def _both(subscription: Any) -> None:
    await anext(subscription)
    await (await anext(subscription)).ack(all_before=True)


async def of_neighbours(it: Recording, folder: Path) -> None:
    """Brokers b and c dial a; the link of a and b is in reserve once c is there. A client x is at a, z at b."""
    async with broker("a", folder, LinkConfig("b", priority=2), LinkConfig("c")) as a:
        x = client(await it.listen("x", "client", a.port), "x")
        await it.step("x comes, subscribes and advertises", x, x.advertise("source = 'x'"))
        plain, durable = x.subscribe("kind = 'plain'"), x.subscribe("kind = 'kept'", durable="all")
        await it.step("…", plain, durable)
        to_a = LinkConfig("a", "127.0.0.1", await it.listen("b", "dials", a.port), 2)
        it.remark("b comes")
        async with broker("b", folder, to_a, LinkConfig("c")) as b:
            await asyncio.sleep(4 * SETTLE_S)
            z = client(b.port, "z")
            await it.step("at b a client comes, subscribes and advertises", z, z.advertise("source = 'z'"))
            wanted, kept = (
                z.subscribe("kind = 'plain' and n > 0"),
                z.subscribe("kind = 'kept'", durable="all"),
            )
            await it.step("…", wanted, kept)
            await it.step(
                "x publishes, also what nobody wants", x.publish({"source": "x", "kind": "plain", "n": 1})
            )
            await it.step("…", x.publish({"source": "x", "kind": "other", "n": 1}))
            await it.step(
                "at b something is published", z.publish({"source": "z", "kind": "plain", "n": 2}, b"payload")
            )
            event = {"source": "x", "kind": "kept"}
            await it.step("x publishes confirmed", x.publish(event, confirm=True), acknowledged(durable, 1))
            event = {"source": "z", "kind": "kept"}
            await it.step("at b something is published confirmed", z.publish(event, confirm=True))
            await it.step("x acknowledges it", acknowledged(durable, 1))
            await it.step("x flushes", x.flush())
            await it.step("at b somebody flushes", z.flush())
            it.remark("at b an empty plan is installed in all the network")
            before: Any = b  # whose broker has an exchange
            before.exchange.plans.install(b"", grace_s=0.5)
            await asyncio.sleep(3 + 4 * SETTLE_S)
            await it.step("x publishes in the new epoch", x.publish({"source": "x", "kind": "plain", "n": 3}))
            to_a = LinkConfig("a", "127.0.0.1", await it.listen("c", "dials", a.port))
            it.remark("c comes: the way from a to b is by c, and the link of a and b is left")
            async with broker("c", folder, to_a, LinkConfig("b", "127.0.0.1", b.port)):
                await asyncio.sleep(8 * SETTLE_S)
                await it.step("x publishes by c", x.publish({"source": "x", "kind": "plain", "n": 4}))
                await it.step(
                    "at b something is published", z.publish({"source": "z", "kind": "plain", "n": 5})
                )
                it.remark("c goes: a and b use their link again")
            await asyncio.sleep(8 * SETTLE_S)
            await it.step(
                "x publishes", x.publish({"source": "x", "kind": "plain", "n": 6}), taken(wanted, 4)
            )
            await it.step("at b a client unsubscribes", wanted.unsubscribe(), z.close())
            it.remark("b goes")
        await asyncio.sleep(SETTLE_S)
        await it.step("x goes", taken(plain, 6), x.close())


async def of_dialling(it: Recording, folder: Path) -> None:
    """The broker a dials b; a client x is at a, z at b."""
    async with broker("b", folder, LinkConfig("a")) as b:
        to_b = LinkConfig("b", "127.0.0.1", await it.listen("b", "dialled", b.port, outward=True))
        z = client(b.port, "z")
        await it.step("at b there is a subscription already", z, z.subscribe("n > 0"))
        it.remark("a comes and dials b")
        async with broker("a", folder, to_b) as a:
            await asyncio.sleep(4 * SETTLE_S)
            x = client(await it.listen("x", "client", a.port), "x")
            plain = x.subscribe("n < 0")
            await it.step("x comes and subscribes", x, x.advertise("n > -10"), plain)
            await it.step("x publishes", x.publish({"n": 1}), x.publish({"n": 2}, confirm=True))
            await it.step("at b something is published", z.publish({"n": -1}), taken(plain, 1))
            await it.step("x flushes and goes", x.flush(), x.close())
            await it.step("at b the client goes", z.close())
            await b.stop()
            await asyncio.sleep(SETTLE_S)


async def record(name: str, scenario: Callable[[Recording, Path], Awaitable[None]]) -> None:
    it = Recording()
    with tempfile.TemporaryDirectory() as folder:
        async with asyncio.timeout(120):
            await scenario(it, Path(folder))
    it.close()
    text = "\n".join([f"# {scenario.__doc__}", *it.lines, ""])
    (HERE / f"{name}.txt").write_text(text, encoding="utf-8")
    print(f"{name}: {len(it.lines)} lines")


SCENARIOS = {"clients": of_clients, "neighbours": of_neighbours, "dialling": of_dialling}

if __name__ == "__main__":
    for one in sys.argv[1:] or SCENARIOS:
        asyncio.run(record(one, SCENARIOS[one]))
