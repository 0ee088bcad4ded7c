"""Publish and subscribe: two brokers in this process, a client at each, and a filter that changes."""

import asyncio
import logging

import covey
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.server import Broker


async def main() -> None:
    paris = Broker(BrokerConfig("paris", port=0, links=(LinkConfig("lyon"),)))
    async with paris:
        lyon = Broker(BrokerConfig("lyon", port=0, links=(LinkConfig("paris", "127.0.0.1", paris.port),)))
        async with lyon:
            while not (paris.is_ready and lyon.is_ready):
                await asyncio.sleep(0.01)
            await trade(f"covey://127.0.0.1:{paris.port}", f"covey://127.0.0.1:{lyon.port}")


async def trade(here: str, there: str) -> None:
    async with covey.connect(here) as publisher, covey.connect(there) as subscriber:
        await publisher.advertise("price > 0")
        async with subscriber.subscribe("symbol = 'IBM' and price > 10") as events:
            await subscriber.flush()  # now the whole network knows
            await publisher.publish({"symbol": "IBM", "price": 12}, data=b"a payload that no filter sees")
            await publisher.publish({"symbol": "SAP", "price": 99})
            event = await events.next(timeout_s=10)
            print(event["symbol"], event["price"], event.data.decode())

            # From one filter to another, without a moment in between.
            await events.replace("symbol = 'SAP'")
            await subscriber.flush()
            await publisher.publish_many([{"symbol": "SAP", "price": price} for price in (5, 7)])
            async for event in events:
                print(event["symbol"], event["price"])
                if event["price"] == 7:
                    break


logging.getLogger("covey").setLevel(
    logging.ERROR
)  # the broker that ends last would say that it misses the other
asyncio.run(main())
