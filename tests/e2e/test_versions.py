"""Rolling upgrades: peers of several versions of the protocol agree on the newest one that they have in common."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.e2e.helpers.running import eventually, run
from tests.e2e.helpers.scripted import Scripted, broker, url

from covey.broker.config import LinkConfig
from covey.client.client import connect
from covey.client.stream import Stream
from covey.errors import ProtocolError, RefusedError
from covey.protocol.control import (
    OURS,
    Goodbye,
    Hello,
    Versions,
    Welcome,
    agreed_version,
    decode_life,
    encode,
    versions_of,
)
from covey.protocol.frames import Kind, Splitter, frame

# Frames as the first peers of version 1 wrote them, which knew no field `newest`.
OLD_CLIENT = "240000000198a568656c6c6f01a6636c69656e74a6746573746572a0a3616e6ea673656372657400"
OLD_BROKER = "230000000198a568656c6c6f01a662726f6b6572a161a574306b336ea0a0cf1122334455667788"
OLD_STRANGER = "150000000198a568656c6c6f01a6636c69656e74a0a0a0a000"
OLD_WELCOME = (
    "2d0000000297a777656c636f6d6501a161cf112210f47de98115cf1122334455667788ce00100000cb403e000000000000"
)
OLD = {
    OLD_CLIENT: Hello(1, "client", "tester", "", "ann", "secret"),
    OLD_BROKER: Hello(1, "broker", "a", "t0k3n", incarnation=0x1122334455667788),
    OLD_STRANGER: Hello(1, "client"),
    OLD_WELCOME: Welcome(1, "a", 1234567890123456789, 0x1122334455667788, 1 << 20, 30.0),
}


class OldHello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """Hello as the first peers of version 1 read it."""

    version: int
    role: str
    name: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    incarnation: int = 0


class OldWelcome(msgspec.Struct, frozen=True, tag="welcome", array_like=True):
    """Welcome, likewise."""

    version: int
    broker: str
    number: int = 0
    incarnation: int = 0
    max_frame: int = 0
    lease_s: float = 0.0


@pytest.mark.parametrize("recorded", OLD)
def test_what_version_1_wrote_is_understood(recorded: str) -> None:
    (one,) = Splitter().feed(bytes.fromhex(recorded))
    said = decode_life(one[1:])
    assert said == OLD[recorded]
    assert isinstance(said, Hello | Welcome)
    assert agreed_version(OURS, said, "this end") == 1


@pytest.mark.parametrize("newest", [0, 1, 2])
def test_version_1_understands_what_is_written_now(newest: int) -> None:
    hello = Hello(1, "broker", "a", token="t0k3n", incarnation=7, newest=newest)
    assert msgspec.msgpack.decode(encode(hello), type=OldHello) == OldHello(
        1, "broker", "a", token="t0k3n", incarnation=7
    )
    welcome = Welcome(1, "a", 5, 7, 1 << 20, 30.0, newest)
    assert msgspec.msgpack.decode(encode(welcome), type=OldWelcome) == OldWelcome(1, "a", 5, 7, 1 << 20, 30.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "common"),
    [
        ((1, 1), (1, 1), 1),
        ((1, 2), (1, 1), 1),
        ((1, 2), (1, 2), 2),
        ((1, 2), (2, 3), 2),
        ((2, 5), (1, 9), 5),
        ((1, 1), (2, 2), None),
        ((3, 4), (1, 2), None),
    ],
)
def test_the_newest_common_version_is_used(
    ours: tuple[int, int], theirs: tuple[int, int], common: int | None
) -> None:
    assert Versions(*ours).common(Versions(*theirs)) == common
    assert Versions(*theirs).common(Versions(*ours)) == common


def test_the_refusal_names_both_ranges() -> None:
    refusal = "this broker speaks versions 3 to 4 of the protocol, and its peer versions 1 to 2"
    with pytest.raises(ProtocolError, match=refusal):
        agreed_version(Versions(3, 4), Hello(1, "client", newest=2), "this broker")


@pytest.mark.parametrize(("version", "newest"), [(0, 0), (-1, 2), (2, 1), (1, -1)])
def test_versions_that_cannot_be_are_refused(version: int, newest: int) -> None:
    with pytest.raises(ProtocolError):
        versions_of(Hello(version, "client", newest=newest))


async def greet(port: int, hello: bytes) -> Goodbye | Hello | Welcome:
    """Say hello to a broker and return its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(hello)
        async with asyncio.timeout(10):
            length = int.from_bytes(await reader.readexactly(4), "little")
            return decode_life((await reader.readexactly(length))[1:])
    finally:
        writer.close()


def test_a_broker_welcomes_peers_of_other_versions_and_refuses_those_without_a_common_one() -> None:
    async def main() -> None:
        async with broker() as a:
            for hello in (
                bytes.fromhex(OLD_STRANGER),
                frame(Kind.HELLO, encode(Hello(1, "client", newest=3))),
            ):
                answer = await greet(a.port, hello)
                assert isinstance(answer, Welcome)
                assert versions_of(answer) == (1, 2)
            answer = await greet(a.port, frame(Kind.HELLO, encode(Hello(3, "client", newest=4))))
            reason = "this broker speaks versions 1 to 2 of the protocol, and its peer versions 3 to 4"
            assert answer == Goodbye(reason, False)

    run(main())


class Newer(Scripted):
    """A broker that speaks versions 1 to `newest`."""

    newest = 0

    def _hello(self, connection: Stream, hello: Hello) -> None:
        self.hellos.append(hello)
        welcome = Welcome(1, "newer", 7, 0, 1 << 20, 30.0, self.newest)
        connection.send(Kind.WELCOME, encode(welcome))
        connection.greeted(1 << 20, 30.0)


@pytest.mark.parametrize(("newest", "agreed"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_a_newer_client_speaks_as_its_broker_can(
    newest: int, agreed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("covey.client.link.OURS", Versions(1, 2))
        newer = Newer()
        newer.newest = newest
        async with newer, connect(newer.url) as client:
            assert versions_of(newer.hellos[0]) == (1, 2)
            assert client._session.link is not None
            assert client._session.link.connection.version == agreed

    run(main())


@pytest.mark.parametrize("theirs", [1, 2, 3])
def test_a_client_and_a_broker_of_today_speak_the_newest_common_version(
    theirs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("covey.client.link.OURS", Versions(1, theirs))
        async with broker() as a, connect(url(a.port)) as client, client.subscribe("x = 1") as events:
            (peer,) = a.core.peers.values()
            assert client._session.link is not None
            assert peer.connection.version == client._session.link.connection.version == min(theirs, 2)
            await client.publish({"x": 1})
            assert (await anext(events))["x"] == 1

    run(main())


def test_a_client_without_a_common_version_says_why_and_does_not_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        monkeypatch.setattr("covey.client.link.OURS", Versions(3, 4))
        async with broker() as a:
            with pytest.raises(
                RefusedError, match="speaks versions 1 to 2 of the protocol, and its peer versions 3 to 4"
            ):
                await connect(url(a.port))

    run(main())


@pytest.mark.parametrize("dials", [Versions(1, 1), Versions(1, 2)])
def test_neighbours_agree_whoever_dials(dials: Versions) -> None:
    async def main() -> None:
        async with (
            broker(links=(LinkConfig("b"),)) as a,
            broker(name="b", links=(LinkConfig("a", "127.0.0.1", a.port),)) as b,
        ):
            for one in (a, b):
                one.core._versions = dials
            await eventually(lambda: bool(a.core.linked and b.core.linked))
            assert {peer.connection.version for one in (a, b) for peer in one.core.peers.values()} == {
                dials.newest
            }

    run(main())
