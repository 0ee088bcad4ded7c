"""TLS in the event loop that daemons run in, where there is one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.e2e.helpers.pairs import dialling, is_linked, url
from tests.e2e.helpers.running import eventually
from tests.e2e.test_security import ANN, GUARDED, Certificates, listening, never_linked, refusal

from covey.broker.config import AdminConfig, BrokerConfig
from covey.broker.process import loop_factory
from covey.broker.security import read_security
from covey.broker.server import Broker
from covey.client.client import connect

pytest.importorskip("uvloop")


def test_links_clients_and_strangers(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    async def work() -> None:
        guarded = certificates.security("a", "127.0.0.1")
        assert guarded.tls is not None
        tls = {name: getattr(guarded.tls, name) for name in ("certificate", "key", "authority")}
        security = read_security({**GUARDED, "tls": tls}, str(tmp_path))
        async with (
            Broker(listening(security)) as a,
            Broker(dialling("b", a, security=certificates.security("b", "127.0.0.1"))) as b,
        ):
            await eventually(lambda: is_linked(a, "b") and is_linked(b, "a"))
            context = certificates.client()
            await refusal(a)  # plain text
            assert "wants a token" in await refusal(a, tls=context)
            async with (
                connect(url(a), tls=context, **ANN) as one,
                connect(url(b), tls=context) as two,
                two.subscribe("price > 1") as events,
            ):
                await two.flush()
                await one.publish({"price": 2}, b"x" * 500_000)
                assert len((await anext(events)).data) == 500_000
        await never_linked(listening(security), certificates.security("c", "127.0.0.1"))

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(asyncio.wait_for(work(), 60.0))


def test_streams_that_have_to_go_while_they_arrive_are_gone() -> None:
    """uvloop says nothing of the end of a stream whose arrival is cancelled."""

    async def work() -> None:
        config = BrokerConfig("a", port=0, admin=AdminConfig(port=0), max_unauthenticated_per_address=5)
        async with Broker(config) as a:
            for port in (a.port, a.admin.port):
                some = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(300)))
                await eventually(lambda: len(a.streams) == 5)
                assert len(a.core.peers) in (0, 5)
                for _, writer in some:
                    writer.close()
                await eventually(lambda: not a.streams and not a.core.peers)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(asyncio.wait_for(work(), 60.0))
