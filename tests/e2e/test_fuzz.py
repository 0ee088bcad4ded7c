"""Garbage to a live broker, from strangers, clients and a neighbour: it stays up, and serves all others."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from itertools import count

import pytest
from tests.e2e.helpers.pairs import url
from tests.e2e.helpers.running import eventually, run
from tests.property.test_wire_garbage import EVENTS, OVERLAID, PLANNED, REQUESTS, ROUTED

from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.neighbours import QUIET_S
from covey.broker.server import Broker
from covey.client.client import connect
from covey.protocol.control import (
    Attach,
    BrokerLinks,
    Hello,
    States,
    Welcome,
    decode_life,
    encode,
    encode_overlaid,
    encode_plan,
    encode_routed,
)
from covey.protocol.events import ENVELOPE
from covey.protocol.frames import MAX_FRAME, VERSION, Kind, Splitter, frame, framed
from covey.routing.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Greet, Sync
from covey.routing.router import Router

clock = count(1 << 40).__next__  # of the neighbour's link states

Garble = Callable[[random.Random, bytes], bytes]


def random_bytes(draw: random.Random, sample: bytes) -> bytes:
    return draw.randbytes(draw.randrange(1, 200))


def framed_garbage(draw: random.Random, sample: bytes) -> bytes:
    return frame(draw.randrange(256), draw.randbytes(draw.randrange(60)))


def flipped(draw: random.Random, sample: bytes) -> bytes:
    data = bytearray(sample)
    for _ in range(draw.randrange(1, 4)):
        data[draw.randrange(5, len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xC1, 0xFF, draw.randrange(256)))
    return bytes(data)


def spliced(draw: random.Random, sample: bytes) -> bytes:
    at, end = sorted((draw.randrange(5, len(sample) + 1), draw.randrange(5, len(sample) + 1)))
    body = sample[5:at] + draw.randbytes(draw.randrange(8)) + sample[end:]
    return frame(sample[4], body)


def truncated(draw: random.Random, sample: bytes) -> bytes:
    return frame(sample[4], sample[5 : draw.randrange(5, len(sample) + 1)])


def lengthened(draw: random.Random, sample: bytes) -> bytes:
    return (
        struct.pack("<I", draw.choice((0, len(sample) * 1000, MAX_FRAME + 1, 1 << 31, (1 << 32) - 1)))
        + sample[4:]
    )


def whole(draw: random.Random, sample: bytes) -> bytes:
    return sample


GARBLES: tuple[Garble, ...] = (
    random_bytes, framed_garbage, flipped, flipped, spliced, truncated, lengthened, whole,
)  # fmt: skip


def client_frames(number: int) -> list[bytes]:
    """Return what a client with this number may say."""
    frames = [frame(Kind.REQUEST, encode(request)) for request in REQUESTS]
    for event in EVENTS:
        mine = bytearray(event)
        struct.pack_into("<Q", mine, ENVELOPE.size - 20, number)
        frames.append(frame(mine[0], bytes(mine[1:])))
    return frames


def neighbour_frames(number: int) -> list[bytes]:
    """Return what a neighbour may say."""
    frames = [frame(Kind.ROUTE, encode_routed(message)) for message in ROUTED]
    frames += [frame(Kind.OVERLAY, encode_overlaid(said)) for said in OVERLAID]
    frames += [frame(Kind.PLAN, encode_plan(said)) for said in PLANNED]
    return frames + [framed(event) for event in EVENTS]


def stranger_frames(number: int) -> list[bytes]:
    """Return what somebody may say who has not said who it is."""
    hellos = [
        Hello(VERSION, "client"),
        Hello(VERSION, "broker", "b"),
        Hello(9, "client"),
        Hello(VERSION, "x"),
    ]
    return [frame(Kind.HELLO, encode(hello)) for hello in hellos]


WHO: dict[str, tuple[Hello | None, Callable[[int], list[bytes]]]] = {
    "stranger": (None, stranger_frames),
    "client": (Hello(VERSION, "client"), client_frames),
    "neighbour": (Hello(VERSION, "broker", "b"), neighbour_frames),
}


async def join(writer: asyncio.StreamWriter, draw: random.Random) -> None:
    """Bring the link up as far as the routers, or nearly, so that they hear the garbage."""
    writer.write(frame(Kind.OVERLAY, encode_overlaid(States((BrokerLinks("b", clock(), {"a": (1, True)}),)))))
    writer.write(frame(Kind.OVERLAY, encode_overlaid(Attach())))
    await asyncio.sleep(3 * QUIET_S)
    dialect = Router("b").trees[0].dialect
    said = [Greet(dialect, (), ()), Sync(ADVERTISEMENTS, 1, {}), Sync(SUBSCRIPTIONS, 1, {})]
    for message in said[: draw.randrange(4)]:
        writer.write(frame(Kind.ROUTE, encode_routed(message)))


async def attack(port: int, who: str, draw: random.Random) -> None:
    """Be somebody who talks garbage, until the broker has had enough or we have."""
    hello, samples = WHO[who]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        number = 0
        if hello is not None:
            writer.write(frame(Kind.HELLO, encode(hello)))
            splitter = Splitter(1 << 20)
            frames: list[bytes] = []
            while not frames:
                data = await reader.read(1 << 16)
                if not data:
                    return
                frames += splitter.feed(data)
            said = decode_life(frames[0][1:])
            if not isinstance(said, Welcome):
                return
            number = said.number
            if who == "neighbour" and draw.random() < 0.3:
                await join(writer, draw)
        valid = samples(number)
        for _ in range(draw.randrange(1, 12)):
            garble = draw.choice(GARBLES) if draw.random() < 0.6 else whole
            data = garble(draw, draw.choice(valid))
            writer.write(data if draw.random() < 0.9 else data[: draw.randrange(len(data))])
            if draw.random() < 0.3:
                await writer.drain()
                await asyncio.sleep(0)
        if draw.random() < 0.5:
            writer.write_eof()
            await asyncio.wait_for(reader.read(), 0.02)
        else:
            writer.transport.abort()
    except (OSError, TimeoutError):
        pass
    finally:
        writer.transport.abort()


async def besiege(who: str, attacks: int, seed: int) -> None:
    draw = random.Random(seed)
    config = BrokerConfig("a", port=0, links=(LinkConfig("b"),), lease_s=2.0)
    async with Broker(config) as broker, connect(url(broker)) as good, good.subscribe("good = 1") as events:
        for number in range(attacks):
            await attack(broker.port, who, draw)
            if number % 20 == 19:
                await good.publish({"good": 1, "number": number})
                async with asyncio.timeout(20.0):
                    while (await anext(events)).content.get("number") != number:
                        pass
        # What was sent was heard where it was meant to be.
        heard = set(broker.introspection.counters())
        if who == "client":
            assert {"request_subscribe", "request_replace", "request_flush"} <= heard
            assert broker.introspection.totals()["events_published"] > attacks / 20
        elif who == "neighbour":
            assert {"control_in_greet", "control_in_sync", "control_in_subscribe"} <= heard
            assert broker.introspection.totals()["events_received"] > 0
        await eventually(lambda: len(broker.core.peers) == 1)
        assert broker.core.router.local_size() == 1
        assert len(broker.core.clients) == 1
        async with connect(url(broker)) as another:
            await another.publish({"good": 1, "number": -1})
            assert (await anext(events))["number"] == -1


@pytest.mark.parametrize("who", WHO)
def test_garbage(who: str) -> None:
    run(besiege(who, 200, seed=7), 60.0)


@pytest.mark.long
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("seed", range(5))
def test_much_garbage(who: str, seed: int) -> None:
    run(besiege(who, 3_000, seed), 600.0)


def test_a_frame_that_comes_byte_by_byte_does_not_slow_others() -> None:
    async def work() -> None:
        async with (
            Broker(BrokerConfig("a", port=0)) as broker,
            connect(url(broker)) as good,
            good.subscribe("good = 1") as events,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            for byte in frame(Kind.HELLO, encode(Hello(VERSION, "client"))):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert await reader.read(5)
            writer.write(struct.pack("<IB", MAX_FRAME, Kind.EVENT))
            for _ in range(200):
                writer.write(b"x")
                await asyncio.sleep(0)
            await good.publish({"good": 1})
            assert (await anext(events))["good"] == 1
            writer.close()

    run(work())
