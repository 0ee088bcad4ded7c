"""Durable delivery over real sockets: clients that come and go, acknowledgements, takeovers, full stores."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.e2e.helpers.network import Live
from tests.e2e.helpers.running import eventually, run

from covey.broker.config import AdminConfig, QueueLimits
from covey.broker.durable.delivery import Durable
from covey.broker.durable.mark import State, read_mark, write_mark
from covey.broker.http.admin import Admin
from covey.client.client import Client, connect
from covey.client.subscription import Subscription
from covey.errors import CoveyError, RefusedError

CHAIN = [("a", "b"), ("b", "c")]


def stored(folder: Path, links: Any = CHAIN, **settings: Any) -> Live:
    """Return a network whose brokers have stores."""
    names = dict.fromkeys(name for pair in links for name in pair) or {"a": None}
    per_broker = {name: {"data_dir": str(folder / name)} for name in names}
    return Live(links, brokers=names, per_broker=per_broker, **settings)


def reader_at(net: Live, broker: str, **settings: Any) -> Client:
    """Return the client that has the durable subscriptions."""
    return connect(net.url(broker), name="reader", **settings)


async def take(events: Subscription, count: int, *, ack: bool = True) -> list[Any]:
    """Return the numbers of the next events."""
    found = []
    for _ in range(count):
        event = await events.next(timeout_s=10)
        found.append(event["n"])
        if ack:
            await event.ack()
    return found


def durable_at(net: Live, name: str) -> Durable:
    """Return what a broker keeps."""
    durable = net.brokers[name].core.durable
    assert isinstance(durable, Durable)
    return durable


def waiting(net: Live, name: str) -> int:
    """Return how much is stored at a broker, for whomever."""
    numbers = durable_at(net, name).report()
    return int(numbers["outbox_events"] + numbers["queued_events"])


def kept(net: Live, name: str) -> int:
    """Return how many events a broker has taken since it was started."""
    return durable_at(net, name).kept


def test_a_durable_subscription_gets_what_was_published_while_its_client_was_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path) as net:
            await net.linked()
            async with net.client("a") as publisher:
                async with reader_at(net, "c") as reader, reader.subscribe("n > 0", durable="mine") as events:
                    await reader.flush()
                    await publisher.publish({"n": 1}, confirm=True)
                    assert await take(events, 1) == [1]
                await publisher.publish_many([{"n": n} for n in range(2, 50)], confirm=True)
                await publisher.publish({"n": 0}, confirm=True)  # not for it
                await publisher.publish({"n": 50})  # nobody confirms it, and it is stored all the same
                await publisher.flush()
                await eventually(lambda: waiting(net, "c") == 49, what="49 events are stored")
                async with reader_at(net, "c") as reader, reader.subscribe("n > 0", durable="mine") as events:
                    got = await take(events, 49)
                    assert sorted(got) == list(range(2, 51))
                    assert [n for n in got if n < 50] == list(range(2, 50))
                await eventually(
                    lambda: not any(waiting(net, name) for name in "abc"), what="nothing is left"
                )

    run(main())


def test_what_is_not_acknowledged_comes_again_and_a_second_connection_takes_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path, []) as net, net.client("a") as publisher, reader_at(net, "a") as first:
            errors: list[Exception] = []
            events = await first.subscribe("n > 0", durable="mine")
            for n in range(1, 6):
                await publisher.publish({"n": n}, confirm=True)
            assert await take(events, 5, ack=False) == [1, 2, 3, 4, 5]
            async with reader_at(net, "a", on_error=errors.append) as second:
                again = await second.subscribe("n > 0", durable="mine")
                got = [await again.next(timeout_s=20) for _ in range(5)]
                assert [event["n"] for event in got] == [1, 2, 3, 4, 5]
                await got[1].ack()
                await got[3].ack()
                await publisher.publish({"n": 6}, confirm=True)
                assert await take(again, 1, ack=False) == [6]
                await eventually(lambda: waiting(net, "a") == 4)
                async with reader_at(net, "a") as third:
                    events = await third.subscribe("n > 0", durable="mine")
                    got = [await events.next(timeout_s=20) for _ in range(4)]
                    assert [event["n"] for event in got] == [1, 3, 5, 6]
                    await got[2].ack(all_before=True)
                    await eventually(lambda: waiting(net, "a") == 1)
                    await events.unsubscribe(forget=True)
                    await eventually(lambda: waiting(net, "a") == 0)
                await publisher.publish({"n": 7}, confirm=True)
                with contextlib.closing(sqlite3.connect(tmp_path / "a" / "store.db")) as disk:
                    assert disk.execute("SELECT * FROM owner").fetchall() == []
                # What was taken over is left without a complaint.
                await again.unsubscribe()

    run(main())


def test_deliveries_are_repeated_when_acknowledgements_are_lost(tmp_path: Path) -> None:
    async def main() -> None:
        limits = QueueLimits(again_after_s=0.3)
        async with stored(tmp_path, [], durable=limits, lease_s=0.8) as net, reader_at(net, "a") as client:
            events = await client.subscribe("n > 0", durable="mine")
            await client.publish({"n": 1}, confirm=True)
            await client.publish({"n": 2}, confirm=True)
            first = await take(events, 2, ack=False)
            second = await take(events, 2)
            assert first == second == [1, 2]
            await eventually(lambda: waiting(net, "a") == 0)

    run(main())


def test_a_window_bounds_what_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path, [], durable=QueueLimits(window=10)) as net, reader_at(net, "a") as client:
            events = await client.subscribe("n > 0", durable="mine")
            await client.publish_many([{"n": n} for n in range(1, 1001)], confirm=True)
            first = [await events.next(timeout_s=20) for _ in range(10)]
            with pytest.raises(TimeoutError):
                await events.next(timeout_s=0.3)
            await first[-1].ack(all_before=True)
            assert await take(events, 990) == list(range(11, 1001))

    run(main())


def test_the_filter_of_a_durable_subscription_can_change(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path) as net:
            await net.linked()
            async with net.client("a") as publisher, reader_at(net, "c") as reader:
                events = await reader.subscribe("n < 10", durable="mine")
                await reader.flush()
                await publisher.publish({"n": 1}, confirm=True)
                await publisher.publish({"n": 11}, confirm=True)
                assert await take(events, 1) == [1]
                await eventually(lambda: kept(net, "c") == 2, what="the other one has arrived, too")
                await events.replace("n > 10")
                await reader.flush()
                await publisher.publish({"n": 2}, confirm=True)
                await publisher.publish({"n": 12}, confirm=True)
                assert await take(events, 1) == [12]
            await net.stop("c")
            await net.start("c")
            await net.linked()
            async with net.client("a") as publisher, reader_at(net, "c") as reader:
                await publisher.publish({"n": 3}, confirm=True)
                await publisher.publish({"n": 13}, confirm=True)
                await eventually(lambda: kept(net, "c") == 2)
                # Another filter when it attaches.
                events = await reader.subscribe("n < 10", durable="mine")
                assert await take(events, 1) == [13]
                await reader.flush()
                await publisher.publish({"n": 4}, confirm=True)
                assert await take(events, 1) == [4]

    run(main())


def test_confirmed_events_wait_for_brokers_that_are_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path) as net:
            await net.linked()
            async with reader_at(net, "c") as reader:
                await reader.subscribe("n > 0", durable="mine")
                await reader.flush()
            async with net.client("a") as publisher:
                await publisher.advertise("n > 0")
                await publisher.flush()
                await net.stop("c")
                await publisher.publish({"n": 1}, confirm=True)
                await eventually(lambda: waiting(net, "a") == 0 and waiting(net, "b") == 1)
                await net.stop("b")
                for n in range(2, 10):
                    await publisher.publish({"n": n}, confirm=True)
            # The publisher and what it advertised are gone before anybody is back.
            assert waiting(net, "a") == 8
            await net.stop("a")
            for name in "bca":
                await net.start(name)
            async with reader_at(net, "c") as reader, reader.subscribe("n > 0", durable="mine") as events:
                assert await take(events, 9) == list(range(1, 10))
            await eventually(lambda: not any(waiting(net, name) for name in "abc"))

    run(main())


def test_what_is_newly_advertised_reaches_those_who_were_away_then(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path) as net:
            await net.linked()
            async with reader_at(net, "c") as reader:
                await reader.subscribe("n > 0", durable="mine")
                await reader.flush()
            await net.stop("c")
            # Nobody in the network has ever heard that somebody at c wants what this one advertises.
            async with net.client("a") as publisher:
                await publisher.advertise("n > 0")
                await publisher.flush()
                for n in range(1, 5):
                    await publisher.publish({"n": n}, confirm=True)
            await net.start("c")
            async with reader_at(net, "c") as reader, reader.subscribe("n > 0", durable="mine") as events:
                assert await take(events, 4) == [1, 2, 3, 4]

    run(main())


def test_in_quiet_times_confirmed_events_go_only_where_they_are_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path, [*CHAIN, ("b", "d")]) as net:
            await net.linked()
            async with net.client("a") as publisher, reader_at(net, "c") as reader:
                await publisher.advertise("n > 0")
                async with reader.subscribe("n > 0", durable="mine") as events:
                    await reader.flush()
                    durables = {name: durable_at(net, name) for name in "abcd"}
                    await eventually(lambda: all(one.completeness.is_complete for one in durables.values()))
                    await publisher.publish(
                        {"n": 1}, confirm=True
                    )  # asks whether all know what is advertised
                    assert await take(events, 1) == [1]
                    await publisher.flush()
                    await eventually(lambda: kept(net, "d") == 1)  # that one went everywhere
                    before = {name: one.kept for name, one in durables.items()}
                    for n in range(2, 20):
                        await publisher.publish({"n": n}, confirm=True)
                    assert await take(events, 18) == list(range(2, 20))
                    after = {name: one.kept for name, one in durables.items()}
                    assert {name: after[name] - before[name] for name in "abcd"} == {
                        "a": 18,
                        "b": 18,
                        "c": 18,
                        "d": 0,
                    }

    run(main())


# -- no room -----------------------------------------------------------------------------------------------------


def test_a_full_store_refuses_publishers_and_takes_them_again_when_there_is_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path, [], max_store_bytes=1 << 20) as net, reader_at(net, "a") as client:
            async with client.subscribe("n > 0", durable="mine"):
                pass
            confirmed: list[int] = []
            while len(confirmed) < 100:
                try:
                    await client.publish({"n": len(confirmed) + 1}, bytes(50_000), confirm=True)
                except RefusedError:
                    break
                confirmed.append(len(confirmed) + 1)
            assert 5 < len(confirmed) < 100
            with pytest.raises(RefusedError, match="store is full"):
                await client.publish({"n": 1000}, bytes(50_000), confirm=True)
            async with client.subscribe("n > 0", durable="mine") as events:
                assert await take(events, len(confirmed)) == confirmed
                await eventually(lambda: waiting(net, "a") == 0)
                await client.publish({"n": 2000}, bytes(50_000), confirm=True)
                assert await take(events, 1) == [2000]

    run(main())


def test_a_neighbour_waits_for_room_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored(tmp_path, [("a", "b")], lease_s=1.0) as net:
            net.configs["b"] = net.configs["b"].__class__(
                **{**net.configs["b"].__dict__, "max_store_bytes": 1 << 20}
            )
            await net.stop("b")
            await net.start("b")
            await net.linked()
            async with net.client("a") as publisher, reader_at(net, "b") as reader:
                async with reader.subscribe("n > 0", durable="mine"):
                    await reader.flush()
                for n in range(1, 61):
                    await publisher.publish({"n": n}, bytes(50_000), confirm=True)
                await asyncio.sleep(0.5)
                assert waiting(net, "a") > 20
                async with reader.subscribe("n > 0", durable="mine") as events:
                    assert await take(events, 60) == list(range(1, 61))
                await eventually(lambda: waiting(net, "a") + waiting(net, "b") == 0)

    run(main())


def test_a_queue_beyond_its_limits_loses_its_oldest_events(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        limits = QueueLimits(events=100)
        async with stored(tmp_path, [], durable=limits) as net, reader_at(net, "a") as client:
            async with client.subscribe("n > 0", durable="mine"):
                pass
            await client.publish_many([{"n": n} for n in range(1, 301)], confirm=True)
            await eventually(lambda: waiting(net, "a") == 100)
            async with client.subscribe("n > 0", durable="mine") as events:
                assert await take(events, 100) == list(range(201, 301))

    with caplog.at_level(logging.WARNING, "covey.broker"):
        run(main())
    assert "reader/mine is too long: its oldest" in caplog.text


# -- what cannot be ----------------------------------------------------------------------------------------------


def test_without_a_store_nothing_is_confirmed_or_durable() -> None:
    async def main() -> None:
        async with Live(brokers=["a"]) as net, reader_at(net, "a") as client:
            with pytest.raises(RefusedError, match="keeps nothing"):
                await client.publish({"n": 1}, confirm=True)
            with pytest.raises(RefusedError, match="keeps nothing"):
                await client.subscribe("n > 0", durable="mine")

    run(main())


def test_a_broker_without_a_store_on_the_way_passes_on_what_it_gets(tmp_path: Path) -> None:
    async def main() -> None:
        per_broker = {name: {"data_dir": str(tmp_path / name)} for name in "ac"}
        async with Live(CHAIN, per_broker=per_broker) as net:
            await net.linked()
            async with net.client("a") as publisher, reader_at(net, "c") as reader:
                events = await reader.subscribe("n > 0", durable="mine")
                await reader.flush()
                await publisher.publish({"n": 1}, confirm=True)
                assert await take(events, 1) == [1]
            await eventually(lambda: waiting(net, "a") + waiting(net, "c") == 0)

    run(main())


def test_a_damaged_store_is_said_and_the_broker_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with stored(tmp_path, []) as net:
            async with reader_at(net, "a") as client:
                async with client.subscribe("n > 0", durable="mine"):
                    pass
                await client.publish_many([({"n": n}, bytes(500)) for n in range(1, 200)], confirm=True)
            await net.stop("a")
            path = tmp_path / "a" / "store.db"
            path.write_bytes(path.read_bytes()[:-20_000])
            await net.start("a")
            async with reader_at(net, "a") as client, client.subscribe("n > 0", durable="mine") as events:
                recovered = waiting(net, "a")
                got = await take(events, recovered)
                assert got == sorted(got)
                await client.publish({"n": 1000}, confirm=True)
                assert await take(events, 1) == [1000]

    with caplog.at_level(logging.ERROR, "covey.broker"):
        run(main())
    assert "was damaged" in caplog.text
    assert (tmp_path / "a" / "store.db.damaged-1").exists()


def test_clients_and_names_that_are_not_acceptable(tmp_path: Path) -> None:
    async def main() -> None:
        limits = QueueLimits(subscriptions=1)
        async with stored(tmp_path, [], durable=limits) as net, reader_at(net, "a") as client:
            await client.subscribe("n > 0", durable="one")
            with pytest.raises(CoveyError, match="1 durable subscriptions"):
                await client.subscribe("n > 0", durable="two")

    run(main())


def test_a_client_that_reconnects_knows_what_the_disk_has_forgotten(tmp_path: Path) -> None:
    """The disk has lost the end of the store and of its mark; there is no neighbour, and all was acknowledged."""

    async def main() -> None:
        async with (
            stored(tmp_path, []) as net,
            reader_at(net, "a", longest_pause_s=0.1) as reader,
            reader.subscribe("n > 0", durable="mine") as events,
        ):
            await publish(net, range(1, 4))
            assert await take(events, 3) == [1, 2, 3]
            await net.stop("a")
            shutil.copytree(tmp_path / "a", tmp_path / "older")
            await net.start("a")
            await publish(net, range(4, 11))
            assert await take(events, 7) == [4, 5, 6, 7, 8, 9, 10]
            await net.stop("a")
            shutil.rmtree(tmp_path / "a")
            shutil.move(tmp_path / "older", tmp_path / "a")
            mark = read_mark(tmp_path / "a" / "store.db")
            assert mark is not None
            write_mark(tmp_path / "a" / "store.db", msgspec.structs.replace(mark, state=State.OPEN))
            await net.start("a")
            durable = durable_at(net, "a")
            await eventually(durable.incidents, what="the client has said so")
            (incident,) = durable.incidents()
            assert incident.event == "store incomplete"
            assert incident.fields == {"missing_events": 7, "known_from": "a client"}
            assert durable.report()["missing_total"] == 7
            await publish(net, [11])
            assert await take(events, 1) == [11], "a position that was given is not given again"

    async def publish(net: Live, numbers: Iterable[int]) -> None:
        async with net.client("a") as publisher:
            for n in numbers:
                await publisher.publish({"n": n}, confirm=True)

    run(main())


def test_what_is_confirmed_while_the_broker_still_starts_goes_to_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients are let in before the admin pages are there, which take a second or two on a busy machine."""

    async def main() -> None:
        async with stored(tmp_path, [("a", "b")]) as net:
            async with reader_at(net, "b") as reader, reader.subscribe("n > 0", durable="mine"):
                await reader.flush()
            await net.stop("a")
            net.configs["a"] = replace(net.configs["a"], admin=AdminConfig(port=0))
            starting = Admin.start

            async def start(admin: Admin) -> None:
                async with net.client("a") as publisher:
                    await publisher.publish({"n": 1}, confirm=True)
                await starting(admin)

            monkeypatch.setattr(Admin, "start", start)
            await net.start("a")
            async with reader_at(net, "b") as reader, reader.subscribe("n > 0", durable="mine") as events:
                assert await take(events, 1) == [1]

    run(main())
