"""A durable worker: jobs are confirmed, kept while the worker is away, and come again until they are acknowledged."""

import asyncio
import logging
from tempfile import TemporaryDirectory

import covey
from covey.broker.config import BrokerConfig
from covey.broker.server import Broker


async def work(url: str, jobs: int, *, fail_at: int | None = None) -> None:
    """Do some jobs; fail before one is acknowledged, if that is wanted. A job may come twice, and never less."""
    async with (
        covey.connect(url, name="worker") as client,
        client.subscribe("kind = 'job'", durable="jobs") as events,
    ):
        for _ in range(jobs):
            event = await events.next(timeout_s=20)
            if event["number"] == fail_at:
                print("failed at job", event["number"])
                return
            print("did job", event["number"], event.data.decode())
            await event.ack()


async def main() -> None:
    with TemporaryDirectory() as folder:
        config = BrokerConfig("paris", port=0, data_dir=folder)
        async with Broker(config) as broker:
            url = f"covey://127.0.0.1:{broker.port}"
            await work(url, 0)  # from now on the broker keeps what the worker wants
            async with covey.connect(url) as client:
                for number in range(3):
                    # When this returns, the event is on the broker's disk.
                    await client.publish({"kind": "job", "number": number}, b"payload", confirm=True)
        # The broker has ended, and begins again with what is on its disk.
        async with Broker(config) as broker:
            url = f"covey://127.0.0.1:{broker.port}"
            await work(url, 3, fail_at=1)
            await work(url, 2)


logging.getLogger("covey").setLevel(logging.ERROR)
asyncio.run(main())
