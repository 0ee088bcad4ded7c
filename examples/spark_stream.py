"""Spark on the network: a stream over a durable subscription that loses nothing between its runs, and a sink."""

import asyncio
import logging
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import covey
from covey.broker.config import BrokerConfig
from covey.broker.server import Broker
from covey.pipeline.session import session


def run_once(spark: SparkSession, url: str, folder: Path) -> None:
    """Publish an alarm for each trade above 100 since the last run, and end."""
    trades = (
        spark.readStream.format("covey")
        .schema("symbol string, price double")
        .options(url=url, durable="trades", filter="kind = 'trade' and price > 100", idle=0.5)
        .load()
    )
    query = (
        trades.selectExpr("'alarm' as kind", "symbol", "price")
        .writeStream.format("covey")
        .options(url=url, advertise="kind = 'alarm'", checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def work(spark: SparkSession, url: str, folder: Path) -> None:
    """Let the stream run twice, and publish trades in between; print the alarms."""
    with covey.connect_sync(url) as client, client.subscribe("kind = 'alarm'") as alarms:
        run_once(spark, url, folder)  # from now on the broker keeps what the stream wants
        trades = [{"kind": "trade", "symbol": "IBM", "price": price} for price in (90, 120, 101, 99)]
        client.publish_many(trades, confirm=True)  # while no stream runs
        run_once(spark, url, folder)
        for _ in range(2):
            print("alarm:", alarms.next(timeout_s=20).content)


async def main() -> None:
    with TemporaryDirectory() as folder:
        spark = session("local[2]", Path(folder) / "spark.log")
        async with Broker(BrokerConfig("paris", port=0, data_dir=folder)) as broker:
            await asyncio.to_thread(work, spark, f"covey://127.0.0.1:{broker.port}", Path(folder))
        spark.stop()


if __name__ == "__main__":
    logging.getLogger("covey").setLevel(logging.ERROR)
    asyncio.run(main())
