"""Events over HTTP with nothing but the standard library: post CloudEvents, listen to those that match a filter."""

import asyncio
import json
from urllib.parse import quote
from urllib.request import Request, urlopen

from covey.broker.config import AdminConfig, BrokerConfig
from covey.broker.server import Broker


async def main() -> None:
    config = BrokerConfig("paris", port=0, admin=AdminConfig(port=0, events=True))
    async with Broker(config) as broker:
        assert broker.admin is not None
        # The program below knows nothing of Covey and could be anywhere, in any language.
        await asyncio.to_thread(program, f"http://127.0.0.1:{broker.admin.port}/events")


def program(url: str) -> None:
    wanted = quote("type = 'org.example.order' and data.total > 100")
    with urlopen(f"{url}?filter={wanted}", timeout=10) as stream:
        assert stream.readline() == b": subscribed\n"
        for number, total in enumerate((50, 150, 250)):
            print("posted", post(url, str(number), total))
        heard = 0
        while heard < 2:
            field, _, value = stream.readline().decode().rstrip("\n").partition(": ")
            if field == "data":
                event = json.loads(value)
                print("heard", event["id"], event["data"])
                heard += 1


def post(url: str, number: str, total: int) -> int:
    event = {
        "specversion": "1.0",
        "id": number,
        "source": "/shop",
        "type": "org.example.order",
        "data": {"total": total},
    }
    headers = {"Content-Type": "application/cloudevents+json"}
    with urlopen(Request(url, json.dumps(event).encode(), headers), timeout=10) as answer:
        return int(answer.status)


asyncio.run(main())
