"""What strangers may send: garbage, frames that are too long, half greetings; nobody else notices."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.running import eventually, run

from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.server import Broker
from covey.protocol.control import Goodbye, Hello, Welcome, decode_life, encode
from covey.protocol.frames import MAX_GREETING, VERSION, Kind, frame

HELLO = frame(Kind.HELLO, encode(Hello(VERSION, "client")))
BROKER = frame(Kind.HELLO, encode(Hello(VERSION, "broker", "b")))
STRANGER = frame(Kind.HELLO, encode(Hello(VERSION, "broker", "mallory")))
FUTURE = frame(Kind.HELLO, encode(Hello(99, "client")))

SAID = {
    "nothing, then the end": b"",
    "noise": Random(1).randbytes(300),
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an empty frame": b"\x00\x00\x00\x00",
    "a frame of 4 GB": b"\xff\xff\xff\xff" + HELLO,
    "a greeting that is too long": frame(Kind.HELLO, b"\x00" * MAX_GREETING),
    "half a greeting": HELLO[:-3],
    "another version": FUTURE,
    "an unknown broker": STRANGER,
    "an event before a greeting": frame(Kind.EVENT, b"\x00" * 40),
    "two greetings": HELLO + HELLO,
    "an event that is too short": HELLO + frame(Kind.EVENT, b"\x00" * 5),
    "an event that lies about its length": HELLO
    + frame(Kind.EVENT, b"\x00" * 3 + b"\xff" * 4 + b"\x00" * 24),
    "a request that is none": HELLO + frame(Kind.REQUEST, b"\xc1"),
    "a frame of an unknown kind": HELLO + frame(99, b"abc"),
    "a frame beyond the limit": HELLO + (1 << 21).to_bytes(4, "little") + b"\x20" * 100,
    "routing by a client": HELLO + frame(Kind.ROUTE, b"\x00\x00\x92\xa5probe\xa1x"),
    "an overlay by a client": HELLO + frame(Kind.OVERLAY, b"\x91\xa6attach"),
}


async def say(port: int, said: bytes) -> bytes:
    """Say something to a broker; return all that it answers until it ends the stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(said)
        writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("what", SAID)
def test_strangers_harm_nobody(what: str) -> None:
    async def main() -> None:
        async with (
            Live(brokers="a") as net,
            net.client("a") as client,
            client.subscribe("x = 1") as events,
        ):
            await say(net.ports["a"], SAID[what])
            await client.flush()
            await client.publish({"x": 1})
            assert (await anext(events))["x"] == 1
            await eventually(lambda: len(net.brokers["a"].core.peers) == 1)
            assert len(net.brokers["a"].core.clients) == 1

    run(main())


def test_a_stranger_is_told_why() -> None:
    async def main() -> None:
        async with Live(brokers="a") as net:
            answer = await say(net.ports["a"], FUTURE)
            assert decode_life(answer[5:]) == Goodbye(
                "this broker speaks versions 1 to 2 of the protocol, and its peer version 99", False
            )
            answer = await say(net.ports["a"], STRANGER)
            assert decode_life(answer[5:]) == Goodbye("'mallory' is no neighbour of a", False)
            answer = await say(net.ports["a"], HELLO)
            assert isinstance(decode_life(answer[5:]), Welcome)

    run(main())


def test_who_says_nothing_is_sent_away() -> None:
    async def main() -> None:
        async with Live(brokers="a", lease_s=0.3) as net:
            reader, writer = await asyncio.open_connection("127.0.0.1", net.ports["a"])
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", net.ports["a"])
            writer.write(HELLO)
            async with asyncio.timeout(10):  # greeted, but silent for a lease
                while await reader.read(1000):
                    pass
            writer.close()

    run(main())


def test_a_broker_that_answers_to_another_name_is_refused() -> None:
    async def main() -> None:
        async with Live(brokers="a") as net:
            config = BrokerConfig("d", port=0, links=(LinkConfig("b", "127.0.0.1", net.ports["a"]),))
            async with Broker(config) as broker:
                await asyncio.sleep(0.3)
                assert not broker.core.linked

    run(main())


def test_who_still_talks_after_goodbye_is_heard_and_not_answered() -> None:
    async def main() -> None:
        async with Live(brokers="a") as net:
            reader, writer = await asyncio.open_connection("127.0.0.1", net.ports["a"])
            writer.write(HELLO)
            await reader.read(1000)
            stopping = asyncio.ensure_future(net.stop("a"))
            async with asyncio.timeout(10):
                assert decode_life((await reader.read())[5:]) == Goodbye("the broker is going away", True)
                writer.write(frame(Kind.PING, b"") + frame(Kind.PING, b""))
                await asyncio.sleep(0.1)
                writer.close()
                await stopping

    run(main())
