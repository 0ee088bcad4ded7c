"""Nobody gets in: certificates, passwords, tokens and permissions on real sockets."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
import trustme
from tests.e2e.helpers.pairs import dialling, is_linked, url
from tests.e2e.helpers.running import eventually, run

from covey.broker.admission import Place
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.security import (
    Security,
    SecurityConfig,
    check_password,
    hash_password,
    hash_token,
    read_security,
)
from covey.broker.server import Broker
from covey.client.client import connect
from covey.errors import CoveyError
from covey.protocol.control import FlushRequest, Goodbye, Hello, decode_life, decode_reply, encode
from covey.protocol.frames import VERSION, Kind, Splitter, frame

PAST = datetime(2020, 1, 1, tzinfo=UTC)


class Certificates:
    """An authority, and brokers' certificates as files."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.authority = trustme.CA()
        self.folder = folder
        self.file = folder / f"{name}.pem"
        self.authority.cert_pem.write_to_path(self.file)

    def security(self, *names: str, **settings: Any) -> SecurityConfig:
        """Return the section `[tls]` with a new certificate for the names."""
        tls = {key: settings.pop(key) for key in ("authority", "require_certificate") if key in settings}
        leaf = self.authority.issue_cert(*names, **settings)
        file = self.folder / f"{'-'.join(names) or 'common'}-{id(leaf):x}"
        leaf.private_key_pem.write_to_path(f"{file}.key")
        for number, pem in enumerate(leaf.cert_chain_pems):
            pem.write_to_path(f"{file}.pem", append=number > 0)
        section = {"certificate": f"{file.name}.pem", "key": f"{file.name}.key", "authority": self.file.name}
        return read_security({"tls": section | tls}, str(self.folder))

    def client(self, **names: Any) -> ssl.SSLContext:
        """Return a client's context."""
        return ssl.create_default_context(cafile=str(self.file))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def listening(security: SecurityConfig, **settings: Any) -> BrokerConfig:
    return BrokerConfig("a", port=0, links=(LinkConfig("b"),), security=security, **settings)


async def round_trip(broker: Broker, **how: Any) -> None:
    """Publish and receive one event."""
    async with connect(url(broker), **how) as client, client.subscribe("a = 1") as events:
        await client.flush()
        await client.publish({"a": 1}, b"x")
        event = await anext(events)
        assert event.data == b"x"


async def refusal(broker: Broker, **how: Any) -> str:
    """Return why a client does not get in."""
    with pytest.raises(CoveyError) as caught:
        async with connect(url(broker), **how):
            pass
    return str(caught.value)


# -- TLS -----------------------------------------------------------------------------------------------------


def test_clients_and_links_over_tls(certificates: Certificates) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(Broker(listening(certificates.security("a", "127.0.0.1"))))
            b = await stack.enter_async_context(
                Broker(dialling("b", a, security=certificates.security("b", "127.0.0.1")))
            )
            await eventually(lambda: is_linked(a, "b") and is_linked(b, "a"))
            tls = certificates.client()
            one = await stack.enter_async_context(connect(url(a), tls=tls))
            two = await stack.enter_async_context(connect(url(b), tls=tls))
            events = await stack.enter_async_context(two.subscribe("a = 1"))
            await two.flush()
            await one.publish({"a": 1}, b"across")
            assert (await anext(events)).data == b"across"

    run(work())


def test_a_brokers_name_may_be_the_common_name(certificates: Certificates) -> None:
    async def work() -> None:
        async with Broker(listening(certificates.security("127.0.0.1", common_name="a"))) as a:
            security = certificates.security("127.0.0.1", common_name="b")
            async with Broker(dialling("b", a, security=security)) as b:
                await eventually(lambda: is_linked(a, "b") and is_linked(b, "a"))

    run(work())


async def never_linked(a: BrokerConfig, b_security: SecurityConfig) -> list[Broker]:
    async with Broker(a) as one, Broker(dialling("b", one, security=b_security)) as two:
        await asyncio.sleep(0.7)  # some attempts
        assert not is_linked(one, "b")
        assert not is_linked(two, "a")
        assert not one.core.linked
        assert not two.core.linked
        return [one, two]


@pytest.mark.parametrize("wrong", ["authority", "expired", "name", "none"])
@pytest.mark.parametrize("side", ["listens", "dials"])
def test_a_neighbour_whose_certificate_is_wrong(
    certificates: Certificates, tmp_path: Path, side: str, wrong: str
) -> None:
    mine, theirs = ("b", "a") if side == "dials" else ("a", "b")
    good = certificates.security(theirs, "127.0.0.1")
    if wrong == "authority":
        bad = Certificates(tmp_path, "other").security(mine, "127.0.0.1")
        # It trusts the other side, and is not trusted.
        bad = read_security({"tls": {**_tls(bad), "authority": str(certificates.file)}}, bad.folder)
    elif wrong == "expired":
        bad = certificates.security(mine, "127.0.0.1", not_before=PAST, not_after=PAST + timedelta(days=9))
    elif wrong == "name":
        bad = certificates.security(mine + "x", "127.0.0.1", "a.b", common_name="c")
    else:
        bad = SecurityConfig()
    a, b = (good, bad) if side == "dials" else (bad, good)
    run(never_linked(listening(a), b))


def _tls(security: SecurityConfig) -> dict[str, Any]:
    assert security.tls is not None
    return {"certificate": security.tls.certificate, "key": security.tls.key}


def test_a_client_refuses_a_broker_of_another_authority(certificates: Certificates, tmp_path: Path) -> None:
    async def work() -> None:
        async with Broker(listening(certificates.security("a", "127.0.0.1"))) as a:
            assert "certificate" in await refusal(a, tls=Certificates(tmp_path).client())
            await round_trip(a, tls=certificates.client())

    run(work())


def test_a_client_refuses_an_expired_broker(certificates: Certificates) -> None:
    async def work() -> None:
        expired = certificates.security("a", "127.0.0.1", not_before=PAST, not_after=PAST + timedelta(days=9))
        async with Broker(listening(expired)) as a:
            assert "expired" in await refusal(a, tls=certificates.client())

    run(work())


def test_old_tls_is_not_spoken(certificates: Certificates) -> None:
    contexts = Security(certificates.security("a")).contexts
    assert contexts is not None
    for context in (contexts.listen, contexts.dial):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert contexts.dial.verify_mode == ssl.CERT_REQUIRED


def test_clients_may_have_to_show_a_certificate(certificates: Certificates) -> None:
    async def work() -> None:
        strict = certificates.security("a", "127.0.0.1", require_certificate=True)
        async with Broker(listening(strict)) as a:
            await refusal(a, tls=certificates.client())
            with_one = certificates.client()
            certificates.authority.issue_cert("ann").configure_cert(with_one)
            await round_trip(a, tls=with_one)

    run(work())


def test_plain_text_at_a_tls_port(certificates: Certificates) -> None:
    async def work() -> None:
        async with Broker(listening(certificates.security("a", "127.0.0.1"))) as a:
            await refusal(a)
            reader, writer = await asyncio.open_connection("127.0.0.1", a.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
            assert await reader.read(100) in (
                b"",
                b"\x15\x03\x03\x00\x02\x02\x46",
                b"\x15\x03\x01\x00\x02\x02F",
            )
            writer.close()
            await round_trip(a, tls=certificates.client())

    run(work())


def test_half_handshakes_are_strangers(certificates: Certificates) -> None:
    async def work() -> None:
        config = listening(certificates.security("127.0.0.1"), max_unauthenticated_per_address=5)
        async with Broker(config) as a:
            writers = []
            for _ in range(40):
                _, writer = await asyncio.open_connection("127.0.0.1", a.port)
                writer.write(b"\x16\x03")
                writers.append(writer)
            await eventually(lambda: a.core.counters["refused_crowded"] == 35)
            assert a.core.admission.counted(Place.STRANGER) == 5
            await eventually(lambda: len(a.streams) == 5)
            await round_trip(a, tls=certificates.client())
            for writer in writers:
                writer.close()
            await eventually(lambda: not a.streams)
            assert a.core.admission.counted(Place.STRANGER) == 0

    run(work())


def test_tls_at_a_plain_port(certificates: Certificates) -> None:
    async def work() -> None:
        async with Broker(listening(SecurityConfig())) as a:
            await refusal(a, tls=certificates.client())
            await round_trip(a)

    run(work())


def test_a_renewed_certificate_is_taken(certificates: Certificates) -> None:
    async def work() -> None:
        security = certificates.security(
            "a", "127.0.0.1", not_before=PAST, not_after=PAST + timedelta(days=9)
        )
        assert security.tls is not None
        async with Broker(listening(security)) as a:
            assert "expired" in await refusal(a, tls=certificates.client())
            leaf = certificates.authority.issue_cert("a", "127.0.0.1")
            leaf.private_key_pem.write_to_path(certificates.folder / security.tls.key)
            leaf.cert_chain_pems[0].write_to_path(certificates.folder / security.tls.certificate)
            assert a.security.contexts is not None
            a.security.contexts.reload()
            await round_trip(a, tls=certificates.client())

    run(work())


def test_neighbours_with_a_shared_token() -> None:
    async def work() -> None:
        shared = read_security({"neighbours": {"token": "shared"}})
        other = read_security({"neighbours": {"token": "other"}})
        await never_linked(listening(shared), other)
        await never_linked(listening(shared), SecurityConfig())
        async with Broker(listening(shared)) as a, Broker(dialling("b", a, security=shared)) as b:
            await eventually(lambda: is_linked(a, "b") and is_linked(b, "a"))

    run(work())


# -- credentials ---------------------------------------------------------------------------------------------

GUARDED: dict[str, Any] = {
    "users": [
        {
            "name": "ann",
            "password": str(hash_password("correct horse")),
            "subscribe": ["price > 10", {"language": "xpath", "filter": "/a"}],
            "publish": ["price > 0", {"language": "keywords", "filter": "taxi"}],
        },
        {"name": "bob", "password": str(hash_password("battery staple"))},
    ],
    "tokens": [{"name": "till", "hash": hash_token("paper clip"), "subscribe": "FALSE"}],
}


class Credentials(TypedDict):
    """What a client says of itself, as arguments of `connect`."""

    user: str
    password: str


ANN: Credentials = {"user": "ann", "password": "correct horse"}
BOB: Credentials = {"user": "bob", "password": "battery staple"}


def test_credentials(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> list[str]:
        async with Broker(listening(read_security(GUARDED))) as a:
            await round_trip(a, **BOB)
            await round_trip(a, **BOB)
            async with connect(url(a), token="paper clip"):
                pass
            refused = [
                await refusal(a),
                await refusal(a, user="bob", password="cow"),
                await refusal(a, user="bob"),
                await refusal(a, user="eve", password="battery staple"),
                await refusal(a, token="stapler"),
                await refusal(a, token="correct horse"),
            ]
            assert a.core.counters["refused_credentials"] == 6
            assert not a.core.clients
            return refused

    with caplog.at_level(logging.DEBUG):
        refused = run(work())
    assert "wants a token" in refused[0]
    assert all("not those of anybody" in reason for reason in refused[1:])
    for secret in ("horse", "staple", "clip", "cow", "scrypt$", "sha256$"):
        assert secret not in caplog.text + "".join(refused)


async def goodbye(broker: Broker, hello: Hello) -> Goodbye:
    """Return what somebody is told who is not let in."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    writer.write(frame(Kind.HELLO, encode(hello)))
    (one,) = Splitter(1 << 16).feed(await reader.read())
    writer.close()
    said = decode_life(one[1:])
    assert isinstance(said, Goodbye)
    return said


def test_wrong_tokens_of_an_address_keep_no_neighbour_of_that_address_out() -> None:
    async def work() -> None:
        security = read_security({"neighbours": {"token": "shared"}})
        async with Broker(listening(security)) as a:
            hello = Hello(VERSION, "broker", "b", token="guess")
            said = [await goodbye(a, hello) for _ in range(20)]
            assert [one.retry for one in said] == [False] * 5 + [True] * 15
            assert "come back in" in said[-1].reason
            async with Broker(dialling("b", a, security=security)) as b:
                await eventually(lambda: is_linked(a, "b") and is_linked(b, "a"))

    run(work())


def test_a_flood_of_unknown_names_delays_nobody_who_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 logins of nobody at once: a check for those who exist is always free, and the order of checks shows it."""
    begun: list[str] = []

    def check(password: str, expected: Any) -> bool:
        begun.append(password)
        return check_password(password, expected)

    monkeypatch.setattr("covey.broker.server.check_password", check)

    async def work() -> None:
        async with (
            Broker(listening(read_security(GUARDED))) as a,
            connect(url(a), token="paper clip") as client,
        ):
            names = [Hello(VERSION, "client", user=f"nobody {n}", password="nobody") for n in range(300)]
            flood = [asyncio.ensure_future(goodbye(a, hello)) for hello in names]
            await eventually(lambda: begun)
            async with connect(url(a), **ANN), connect(url(a), **BOB):
                assert [one for one in begun if one != "nobody"] == [ANN["password"], BOB["password"]]
            answers = await asyncio.gather(*flood)
            refused = [one for one in answers if not one.retry]
            assert all("not those of anybody" in one.reason for one in refused)
            assert all("come back a little later" in one.reason for one in answers if one.retry)
            assert begun.count("nobody") == len(refused) < 100
            assert client.is_connected

    run(work())


def test_guesses_are_throttled() -> None:
    async def work() -> None:
        async with Broker(listening(read_security(GUARDED))) as a:
            guesses = [goodbye(a, Hello(VERSION, "client", user="bob", password=str(n))) for n in range(20)]
            answers = await asyncio.gather(*guesses)
            looked_at = [answer for answer in answers if "not those" in answer.reason]
            assert len(looked_at) == 5
            assert not any(answer.retry for answer in looked_at)
            for answer in answers:
                assert answer in looked_at or ("come back" in answer.reason and answer.retry)
            async with connect(url(a), **ANN):
                pass  # others come in

    run(work())


def test_whoever_is_checked_waits_with_what_it_says() -> None:
    """Frames that a client sends before it is welcome are handled after its password, or not at all."""

    async def talk(port: int, password: str) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        hello = frame(Kind.HELLO, encode(Hello(VERSION, "client", user="bob", password=password)))
        writer.write(hello + frame(Kind.REQUEST, encode(FlushRequest(7))))
        splitter = Splitter(1 << 16)
        frames: list[bytes] = []
        while len(frames) < 2:
            data = await reader.read(1 << 16)
            if not data:
                break
            frames += splitter.feed(data)
        writer.close()
        return frames

    async def work() -> None:
        async with Broker(listening(read_security(GUARDED))) as a:
            welcome, reply = await talk(a.port, "battery staple")
            assert welcome[0] == Kind.WELCOME
            assert decode_reply(reply[1:]).request == 7
            (goodbye,) = await talk(a.port, "battery")
            assert decode_life(goodbye[1:]).retry is False  # type: ignore[union-attr]

    run(work())


def test_a_broker_that_listens_further_wants_credentials() -> None:
    async def work() -> None:
        async with Broker(BrokerConfig("a", host="0.0.0.0", port=0)) as a:
            assert "wants a token" in await refusal(a)

    run(work())


def test_nobody_poses_as_a_neighbour_to_get_around_permissions() -> None:
    async def work() -> None:
        async with Broker(listening(read_security(GUARDED))) as a, Broker(dialling("b", a)):
            await asyncio.sleep(0.5)
            assert not a.core.linked
            assert a.core.counters["refused_credentials"] > 0

    run(work())


# -- permissions ---------------------------------------------------------------------------------------------


def test_permissions_to_subscribe() -> None:
    async def work() -> None:
        async with Broker(listening(read_security(GUARDED))) as a, connect(url(a), **ANN) as client:
            for text, language in (
                ("price > 5", "attributes"),
                ("symbol = 'IBM'", "attributes"),
                ("//b", "xpath"),
                ("/b", "xpath"),
                ("taxi", "keywords"),
            ):
                with pytest.raises(CoveyError, match="ann may not subscribe"):
                    async with client.subscribe(text, language):
                        pass
            for text, language in (("price BETWEEN 11 AND 12", "attributes"), ("/a[@c]//d", "xpath")):
                async with client.subscribe(text, language):
                    pass
            assert a.core.router.local_size() == 0

    run(work())


def test_permissions_to_publish() -> None:
    async def work() -> None:
        async with (
            Broker(listening(read_security(GUARDED))) as a,
            connect(url(a), **ANN) as ann,
            connect(url(a), **BOB) as bob,
            bob.subscribe("TRUE") as events,
            bob.subscribe("taxi OR rain", "keywords") as words,
        ):
            for content in (
                {"price": -1},
                {"symbol": "IBM"},
                {"rain"},
                "<a/>",
                {"price": 1},
                {"taxi", "rain"},
            ):
                await ann.publish(content)
            await ann.flush()
            assert (await anext(events)).content == {"price": 1}
            assert (await anext(words)).content == {"taxi", "rain"}
            (client,) = (one for one in a.core.clients.values() if one.permissions.name == "ann")
            assert client.refused == 4
            with pytest.raises(CoveyError, match="may not publish all that it advertises"):
                await ann.advertise("price > -1")
            await ann.advertise("price > 3")

    run(work())


def test_permissions_to_replace() -> None:
    async def work() -> None:
        async with (
            Broker(listening(read_security(GUARDED))) as a,
            connect(url(a), **ANN) as ann,
            connect(url(a), **BOB) as bob,
            ann.subscribe("price > 20") as events,
        ):
            with pytest.raises(CoveyError, match="ann may not subscribe"):
                await events.replace("price > 0")
            await bob.publish({"price": 5})
            await bob.publish({"price": 25})
            assert (await anext(events)).content == {"price": 25}
            await events.replace("price > 10")
            await bob.publish({"price": 5})
            await bob.publish({"price": 15})
            assert (await anext(events)).content == {"price": 15}

    run(work())
