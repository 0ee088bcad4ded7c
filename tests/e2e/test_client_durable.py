"""The client with a broker that keeps: confirmation, durable subscriptions, and both across a restart."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from tests.e2e.helpers.running import eventually, free_port, run
from tests.e2e.helpers.scripted import broker, url

import covey
from covey.broker.config import AdminConfig


def test_what_is_confirmed_reaches_a_worker_that_was_away(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        kept = partial(broker, port, data_dir=str(tmp_path))
        async with kept(), covey.connect(url(port), name="worker") as worker:
            events = await worker.subscribe("job >= 0", durable="jobs")
            await events.unsubscribe()  # it is left, not ended
            async with covey.connect(url(port)) as client:
                await client.publish({"job": 0}, b"first", confirm=True)
                assert await client.publish_many([{"job": n} for n in range(1, 5)], confirm=True) == 4
        async with kept(), covey.connect(url(port), name="worker") as worker:
            events = await worker.subscribe("job >= 0", durable="jobs")
            got = [await events.next(20) for _ in range(5)]
            assert [event["job"] for event in got] == [0, 1, 2, 3, 4]
            assert got[0].data == b"first"
            await got[2].ack(all_before=True)
            await got[4].ack()
            await worker.flush()
        async with kept(), covey.connect(url(port), name="worker") as worker:
            events = await worker.subscribe("job >= 0", durable="jobs")
            assert (await events.next(20))["job"] == 3
            with pytest.raises(covey.TimedOutError):
                await events.next(0.3)
            await events.unsubscribe(forget=True)
            events = await worker.subscribe("job >= 0", durable="jobs")
            with pytest.raises(covey.TimedOutError):
                await events.next(0.3)

    run(main())


def test_publishers_and_workers_outlive_their_broker(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        kept = partial(broker, port, data_dir=str(tmp_path))
        first = kept()
        await first.start()
        async with covey.connect(url(port), name="worker") as worker, covey.connect(url(port)) as client:
            events = await worker.subscribe("n >= 0", durable="jobs")
            await client.publish_many([{"n": n} for n in range(50)], confirm=True)
            done = set()
            for _ in range(20):
                event = await events.next(20)
                done.add(event["n"])
                await event.ack()
            await first.stop()
            await eventually(lambda: not client.is_connected and not worker.is_connected)
            async with kept():
                assert await client.publish_many([{"n": n} for n in range(50, 60)], confirm=True) == 10
                while len(done) < 60:
                    event = await events.next(20)
                    done.add(event["n"])
                    await event.ack()
                await worker.drain()
                await client.close()

    run(main())


def test_a_broker_without_a_disk_says_so() -> None:
    async def main() -> None:
        async with broker() as a, covey.connect(url(a.port), name="worker", timeout_s=5) as client:
            with pytest.raises(covey.RefusedError, match="data_dir"):
                await client.publish({"x": 1}, confirm=True)
            with pytest.raises(covey.RefusedError, match="data_dir"):
                await client.subscribe("x > 0", durable="jobs")

    run(main())


def test_posted_events_are_confirmed_when_they_are_on_disk(tmp_path: Path) -> None:
    one = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    headers = {"Content-Type": "application/cloudevents+json"}

    async def main() -> None:
        for folder, status in ((str(tmp_path), 200), ("", 403)):
            async with (
                broker(admin=AdminConfig(port=0, events=True), data_dir=folder) as a,
                aiohttp.ClientSession() as session,
            ):
                assert a.admin is not None
                address = f"http://127.0.0.1:{a.admin.port}/events"
                async with session.post(
                    address, params={"confirm": "true"}, json=one, headers=headers
                ) as answer:
                    text = json.loads(await answer.text())
                    assert answer.status == status, text
                    assert status == 403 or text == {"events": 1, "confirmed": True}

    run(main())
