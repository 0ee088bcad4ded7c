"""Faults: brokers are killed, hang, lose links and disks, and are updated; what docs/delivery.md promises holds.

Brokers are processes with SQLite on disk, links are TCP through proxies, and a checker that knows the promises alone
judges what publishers were told and subscribers got (`helpers.promises`). docs/reliability.md lists the scenarios by
what each test says of itself, and a test compares the two. Random faults in numbers are in `chaos`.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from tests.e2e.helpers.faulty import GRID, LEASE_S, LINE, RING, Faulty, abort
from tests.e2e.helpers.namespaces import Namespaces, enter, problem
from tests.e2e.helpers.nursery import Nursery
from tests.e2e.helpers.plans import installed, plan_for
from tests.e2e.helpers.proxy import DIALLER, LISTENER
from tests.e2e.helpers.running import eventually, run
from tests.e2e.helpers.small_disk import small_disk

__all__ = ["small_disk"]


def play(net: Faulty, scenario: Callable[[Faulty], Awaitable[None]], limit_s: float = 60.0) -> None:
    """Run a scenario on a network, and see that all promises hold in the end."""

    async def main() -> None:
        async with net:
            await scenario(net)
            await net.settle()

    run(main(), limit_s)


# -- killed --------------------------------------------------------------------------------------------------


def test_subscribers_broker_is_killed(nursery: Nursery, tmp_path: Path) -> None:
    """The broker of a durable subscription is killed with deliveries that nobody has acknowledged."""

    async def scenario(net: Faulty) -> None:
        reader = await net.reader("c", "reader", acknowledges=0.0)
        await net.publisher("a", "p")
        await eventually(lambda: len(reader.noted.got) >= 20)
        before = reader.noted.got.total()
        net.kill("c")
        net.start("c")
        await eventually(lambda: reader.noted.got.total() >= before + 20)
        assert max(reader.noted.got.values()) > 1, "what was not acknowledged is delivered again"

    play(Faulty(nursery, tmp_path, LINE), scenario)


def test_publishers_broker_is_killed_before_it_has_forwarded(nursery: Nursery, tmp_path: Path) -> None:
    """The publisher's broker is killed when it has confirmed events and has forwarded none of them."""

    async def scenario(net: Faulty) -> None:
        reader = await net.reader("c", "reader")
        publisher = await net.publisher("a", "p", goes=False)
        await publisher.client.flush()
        net.proxies["a", "b"].stall()
        await publisher.publish(10)
        assert len(publisher.noted.confirmed) == 10
        net.kill("a")
        assert not reader.noted.got
        net.proxies["a", "b"].heal()
        net.start("a")

    play(Faulty(nursery, tmp_path, LINE), scenario)


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_a_broker_is_killed_again_and_again(nursery: Nursery, tmp_path: Path, victim: str) -> None:
    """A broker at the start, in the middle or at the end of a line is killed again and again under load."""

    async def scenario(net: Faulty) -> None:
        for name in net.names:
            await net.reader(name, f"reader-{name}")
        await net.publisher("a", "p", advertises=False)
        await net.publisher("c", "q")
        for _ in range(4):
            await asyncio.sleep(net.random.random() * 0.3)
            net.kill(victim)
            await asyncio.sleep(net.random.random() * 0.2)
            net.start(victim)

    play(Faulty(nursery, tmp_path, LINE, seed=victim), scenario)


def test_all_brokers_are_killed_at_once(nursery: Nursery, tmp_path: Path) -> None:
    """All brokers are killed at once, as when the power fails, and start in any order."""

    async def scenario(net: Faulty) -> None:
        await net.reader("a", "near")
        await net.reader("c", "far", "x > 4")
        await net.publisher("a", "p")
        await net.publisher("d", "q")
        await net.confirmed(20)
        for name in net.names:
            net.kill(name)
        for name in net.random.sample(net.names, len(net.names)):
            net.start(name)
            await asyncio.sleep(0.05)
        await net.confirmed(20)

    play(Faulty(nursery, tmp_path, RING), scenario)


# -- hanging -------------------------------------------------------------------------------------------------


def test_a_broker_hangs_for_longer_than_a_lease(nursery: Nursery, tmp_path: Path) -> None:
    """A broker in the middle hangs for longer than a lease (SIGSTOP), and goes on (SIGCONT) under load."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        await net.publisher("a", "p")
        await net.confirmed(10)
        net.hang("b")
        await asyncio.sleep(1.5 * LEASE_S)
        net.go_on("b")
        await net.confirmed(10)

    play(Faulty(nursery, tmp_path, LINE), scenario)


@pytest.mark.parametrize("links", [[("a", "d")], [("a", "b"), ("b", "d")]], ids=["next", "behind"])
@pytest.mark.parametrize("end", ["lease", "kill"])
def test_something_is_advertised_while_a_broker_hangs(
    nursery: Nursery, tmp_path: Path, links: list[tuple[str, str]], end: str
) -> None:
    """Something new is advertised while the subscriber's broker hangs, which then loses its link or is killed."""

    async def scenario(net: Faulty) -> None:
        reader = await net.reader("d", "reader", goes=False)
        net.hang("d")
        publisher = await net.publisher("a", "p", goes=False)
        await publisher.publish(1)
        if end == "kill":
            net.kill("d")
            await publisher.publish(20)
            net.start("d")
        else:
            for _ in range(20):
                await publisher.publish()
                await asyncio.sleep(2 * LEASE_S / 20)
            net.go_on("d")
        reader.go()

    play(Faulty(nursery, tmp_path, links, lease_s=0.8), scenario)


# -- partitions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [DIALLER, LISTENER])
def test_one_way_partition(nursery: Nursery, tmp_path: Path, silent: str) -> None:
    """What one end of a link says does not arrive, for longer than a lease; what the other says does."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        await net.reader("a", "back")
        await net.publisher("a", "p")
        await net.publisher("c", "q")
        await net.confirmed(10)
        net.proxies["a", "b"].stall(silent)
        await asyncio.sleep(1.5 * LEASE_S)
        await net.confirmed(10)
        net.proxies["a", "b"].heal()

    play(Faulty(nursery, tmp_path, LINE), scenario)


def test_packets_are_lost_one_way(nursery: Nursery, tmp_path: Path) -> None:
    """Packets from one broker to another are lost, in network namespaces; then those of the other way."""
    if missing := problem():
        pytest.skip(missing)

    async def scenario(net: Faulty) -> None:
        assert net.namespaces is not None
        await net.reader("c", "reader")
        await net.reader("a", "back")
        await net.publisher("a", "p")
        await net.publisher("c", "q")
        for sender, receiver in (("a", "b"), ("b", "a")):
            await net.confirmed(10)
            net.namespaces.lose(sender, receiver)
            await asyncio.sleep(1.5 * LEASE_S)
            await net.confirmed(10)
            net.namespaces.heal()

    def in_the_hub(net: Faulty) -> None:
        enter(space.namespace(""))
        play(net, scenario)

    with Namespaces("abc") as space, ThreadPoolExecutor(1) as thread:
        net = Faulty(nursery, tmp_path, LINE, namespaces=space)
        thread.submit(in_the_hub, net).result()


def test_a_ring_is_cut_in_two_and_healed(nursery: Nursery, tmp_path: Path) -> None:
    """A ring is cut into two halves for longer than a lease, with publishers and subscribers on both sides."""

    async def scenario(net: Faulty) -> None:
        for name in net.names:
            await net.reader(name, f"reader-{name}", "x < 6" if name in "ac" else "n > 0")
        await net.publisher("a", "p")
        await net.publisher("c", "q", advertises=False)
        await net.confirmed(10)
        for pair in (("b", "c"), ("d", "a")):
            net.proxies[pair].stall()
        await asyncio.sleep(1.5 * LEASE_S)
        await net.confirmed(10)
        for pair in (("b", "c"), ("d", "a")):
            net.proxies[pair].heal()
        await net.confirmed(10)

    play(Faulty(nursery, tmp_path, RING), scenario)


def test_a_publisher_moves_during_a_partition(nursery: Nursery, tmp_path: Path) -> None:
    """A publisher moves to another broker while its first one is cut off with what it has confirmed."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        publisher = await net.publisher(["a", "b"], "p")
        await net.confirmed(10)
        first = publisher.client.broker
        cut = [pair for pair in net.links if first in pair]
        for pair in cut:
            net.proxies[pair].stall()
        await net.confirmed(5)  # which only the broker's disk has
        net.kill(first)
        await net.confirmed(10)
        assert publisher.client.broker != first
        for pair in cut:
            net.proxies[pair].heal()
        net.start(first)

    play(Faulty(nursery, tmp_path, RING), scenario)


def test_a_slow_link(nursery: Nursery, tmp_path: Path) -> None:
    """A link lets little pass, so that events wait for it, and is fast again."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        publisher = await net.publisher("a", "p", goes=False)
        net.proxies["b", "c"].throttle(30_000)
        for _ in range(30):
            await publisher.publish(10)
        net.proxies["b", "c"].heal()

    play(Faulty(nursery, tmp_path, LINE), scenario)


# -- disks ---------------------------------------------------------------------------------------------------


def test_a_disk_on_the_way_is_full(nursery: Nursery, tmp_path: Path, small_disk: Path) -> None:
    """The disk of a broker on the way fills up while the next one is down; publishers are confirmed by the first."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        publishers = [await net.publisher("a", f"p{number}", goes=False) for number in range(6)]
        (small_disk / "ballast").write_bytes(bytes(3_700_000))
        net.kill("c")
        await asyncio.gather(*(one.publish(100) for one in publishers))
        assert net.promises.confirmed == 600
        await eventually(lambda: "has no room for events of a" in net.log("b"))
        (small_disk / "ballast").unlink()  # somebody makes room
        net.start("c")

    disks = {"b": {"data_dir": str(small_disk)}}
    play(Faulty(nursery, tmp_path, LINE, per_broker=disks), scenario)


def _damage(file: Path, how: str, random: Random) -> None:
    data = bytearray(file.read_bytes())
    if how == "truncated":
        del data[len(data) * 2 // 3 :]
    else:
        for _ in range(12):
            data[random.randrange(4096, len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


@pytest.mark.parametrize("how", ["truncated", "flipped"])
def test_a_store_is_damaged_while_its_broker_is_down(nursery: Nursery, tmp_path: Path, how: str) -> None:
    """A store is truncated, or bits of it flip, while its broker is down: nothing differs, and a loss is logged."""

    async def main() -> None:
        async with Faulty(nursery, tmp_path, LINE, seed=how) as net:
            reader = await net.reader("c", "reader", goes=False)
            publisher = await net.publisher("a", "p", goes=False)
            await publisher.publish(300)
            store = net.disk("c") / "store.db"
            await eventually(lambda: _waiting(store) == 300, what="all events are on the last disk")
            await net.drain("c")
            _damage(store, how, net.random)
            before = len(net.log("c"))
            net.start("c")
            await net.ready("c")
            await reader.flush()  # which makes the subscription, if it is lost
            reader.go()
            another = await net.publisher("a", "q", goes=False)
            await another.publish(20)
            await net.settle()
            lost = 300 - len(reader.noted.order.get("p", ()))
            said = net.log("c")[before:]
            assert not lost or "damaged" in said, f"{lost} events are lost silently"

    run(main())


def _waiting(store: Path) -> int:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        (count,) = connection.execute("SELECT count(*) FROM queue").fetchone()
    connection.close()
    return int(count)


def test_damaged_events_are_repaired_from_a_neighbour(nursery: Nursery, tmp_path: Path) -> None:
    """Stored events are damaged while their broker is down: others have copies of all but one, which is named."""

    async def main() -> None:
        async with Faulty(nursery, tmp_path, LINE, has_admin=True) as net:
            reader = await net.reader("c", "reader", goes=False)
            await net.reader("a", "keeper", "n <> 3", goes=False)  # broker a keeps copies for it
            publisher = await net.publisher("b", "p", goes=False)
            await publisher.publish(10)
            store = net.disk("c") / "store.db"
            await eventually(lambda: _waiting(store) == 10, what="all events are on the last disk")
            await net.drain("c")
            with closing(sqlite3.connect(store, isolation_level=None)) as connection:
                first, third, last = (_positions(connection)[at] for at in (0, 2, 9))
                connection.execute("UPDATE event SET frame = zeroblob(100) WHERE id = ?", (first,))
                connection.execute("UPDATE event SET frame = substr(frame, 2) WHERE id = ?", (third,))
                connection.execute("UPDATE event SET number = number + 1 WHERE id = ?", (last,))
            net.start("c")
            await net.ready("c")
            reader.go()
            due = [n for n in range(1, 11) if n != 3]
            await eventually(lambda: reader.noted.order.get("p") == due, what=f"{due} come in order")
            page = await asyncio.to_thread(net.pages("c").get, "/storez")
            said = [(one["event"], one["position"]) for one in page["incidents"] if "position" in one]
            assert sorted(said) == sorted(
                [("event damaged", at) for at in (first, third, last)]
                + [("event repaired", first), ("event lost", third), ("event repaired", last)]
            )
            counts = ("damaged_total", "repaired_total", "unrepaired_total")
            assert [page["store"][name] for name in counts] == [3, 2, 1]
            assert all(f'event="{event}"' in net.log("c") for event, _ in said)
            assert net.promises.wrong == []

    run(main())


def test_a_neighbours_copy_is_not_dropped_for_a_damaged_one(nursery: Nursery, tmp_path: Path) -> None:
    """A broker is killed when it has events of a neighbour that has not heard of it; then they are damaged."""

    async def main() -> None:
        async with Faulty(nursery, tmp_path, [("a", "b")], has_admin=True) as net:
            reader = await net.reader("b", "reader", goes=False)
            publisher = await net.publisher("a", "p", goes=False)
            there, here = net.disk("a") / "store.db", net.disk("b") / "store.db"
            net.proxies["a", "b"].stall(DIALLER)
            await publisher.publish(10)
            await eventually(lambda: _waiting(here) == 10, what="b has all events on its disk")
            net.kill("b")
            net.proxies["a", "b"].cut()
            assert _waiting(there) == 10, "nobody has told a"
            with closing(sqlite3.connect(here, isolation_level=None)) as connection:
                damaged = _positions(connection)[2:5]
                connection.execute(
                    "UPDATE event SET frame = zeroblob(100) WHERE id BETWEEN ? AND ?",
                    (damaged[0], damaged[-1]),
                )
            net.proxies["a", "b"].heal()
            net.start("b")
            await net.ready("b")
            await eventually(lambda: _waiting(there) == 0, what="a is told that b has them")
            page = await asyncio.to_thread(net.pages("b").get, "/storez")
            said = [(one["event"], one["position"]) for one in page["incidents"] if "position" in one]
            assert sorted(said) == sorted(
                (event, at) for event in ("event damaged", "event repaired") for at in damaged
            )
            net.kill("a")
            reader.go()
            due = list(range(1, 11))
            await eventually(lambda: reader.noted.order.get("p") == due, what=f"{due} come in order")
            assert net.promises.wrong == []

    run(main())


def _positions(connection: sqlite3.Connection) -> list[int]:
    return [one for (one,) in connection.execute("SELECT position FROM queue ORDER BY position")]


def test_a_broker_is_restored_from_a_backup(nursery: Nursery, tmp_path: Path) -> None:
    """A broker is backed up under load, loses its data directory, and is started with the backup."""

    async def main() -> None:
        async with Faulty(nursery, tmp_path, [("a", "b")]) as net:
            reader = await net.reader("b", "reader", goes=False)
            near = await net.publisher("b", "p")
            far = await net.publisher("a", "q")
            await net.confirmed(100)
            before = {("p", n) for n in near.noted.confirmed}
            backup = tmp_path / "backup"
            await asyncio.to_thread(_back_up, net.disk("b"), backup)
            await net.confirmed(100)
            await net.stop_publishing()
            for _ in range(
                2
            ):  # its neighbour has heard of the first one's position when it hears of the second
                await far.publish()
                outbox = net.disk("a") / "store.db"
                await eventually(lambda: _waiting(outbox) == 0, what="the neighbour has taken all")  # noqa: B023
            net.kill("b")
            shutil.rmtree(net.disk("b"))
            shutil.copytree(backup, net.disk("b"))
            net.start("b")
            await net.ready()
            assert "is a copy, made at" in net.log("b")
            await eventually(
                lambda: 'event="store incomplete"' in net.log("b"), what="the neighbour knows more"
            )
            reader.go()
            await eventually(lambda: before <= set(reader.noted.got), what="all of before the backup arrives")
            first = {one: one.noted.last + 1 for one in (near, far)}
            for one in first:
                await one.publish(20)
            after = {(one.noted.name, n) for one, last in first.items() for n in range(last, last + 20)}
            await eventually(lambda: after <= set(reader.noted.got), what="what is new arrives too")
            assert net.promises.wrong == []

    run(main())


def _back_up(disk: Path, out: Path) -> None:
    """Run the command beside the broker that has this disk."""
    command = [sys.executable, "-m", "covey", "backup", str(disk), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "all checksums are right" in done.stdout


# -- plans ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["a", "c"], ids=["the installing one", "another one"])
def test_a_broker_restarts_while_a_plan_goes_in(nursery: Nursery, tmp_path: Path, victim: str) -> None:
    """A broker is killed while a plan is installed, and comes back; the next installation succeeds."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        await net.publisher("a", "p")
        await net.confirmed(10)
        await asyncio.to_thread(net.pages("a").post_bytes, "/planz", plan_for(net.links, 1))
        net.kill(victim)
        await asyncio.sleep(0.1)
        net.start(victim)
        await net.ready(victim)
        await net.confirmed(10)
        await installed(net, "b", plan_for(net.links, 2))
        await net.confirmed(10)

    play(Faulty(nursery, tmp_path, RING, has_admin=True), scenario)


def test_a_broker_is_killed_during_a_roll_back(nursery: Nursery, tmp_path: Path) -> None:
    """The installing broker is killed while its plan is taken back; the next installation succeeds."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        await net.publisher("a", "p")
        await installed(net, "a", plan_for(net.links, 1))
        await net.confirmed(10)
        await asyncio.to_thread(net.pages("a").delete, "/planz")
        net.kill("a")
        await asyncio.sleep(0.1)
        net.start("a")
        await net.ready("a")
        await net.confirmed(10)
        await installed(net, "c", b"")
        await net.confirmed(10)

    play(Faulty(nursery, tmp_path, RING, has_admin=True), scenario)


# -- clients -------------------------------------------------------------------------------------------------


def test_a_durable_subscription_is_taken_over_while_its_holder_hangs(
    nursery: Nursery, tmp_path: Path
) -> None:
    """A second client takes a durable subscription over while the first hangs with deliveries under way."""

    async def scenario(net: Faulty) -> None:
        reader = await net.reader("c", "reader", goes=False)
        await net.publisher("a", "p")
        async with net.client("c", "reader") as hanging:
            events = await hanging.subscribe("n > 0", durable="all")
            await anext(events)
            hanging._session.link.connection.hold("test")  # type: ignore[union-attr]
            await net.confirmed(20)
            reader.go()
            await eventually(lambda: len(reader.noted.got) > 20)
            abort(hanging)

    play(Faulty(nursery, tmp_path, LINE), scenario)


def test_clients_are_killed(nursery: Nursery, tmp_path: Path) -> None:
    """A publisher and a subscriber are killed with events under way; others of the same names come after them."""

    async def scenario(net: Faulty) -> None:
        reader = await net.reader("c", "reader", acknowledges=0.3)
        for life in range(3):
            publisher = await net.publisher("a", f"p{life}", pause_s=0.0)
            await net.confirmed(20)
            await publisher.kill()
            await reader.kill()
            reader.go()

    play(Faulty(nursery, tmp_path, LINE), scenario)


# -- operators -----------------------------------------------------------------------------------------------


def test_all_brokers_restart_one_after_another(nursery: Nursery, tmp_path: Path) -> None:
    """All brokers of a grid restart, one after another, as for an upgrade, under confirmed load."""

    async def scenario(net: Faulty) -> None:
        await net.reader("f", "far")
        await net.reader("b", "near", "x > 2")
        await net.publisher("a", "p")
        await net.publisher("d", "q")
        for name in net.names:
            await net.drain(name)
            net.start(name)
            await net.ready(name)
        await net.confirmed(10)

    play(Faulty(nursery, tmp_path, GRID), scenario)


def test_a_broker_drains_under_load(nursery: Nursery, tmp_path: Path) -> None:
    """A broker on the way drains and ends under load, is away, and comes back."""

    async def scenario(net: Faulty) -> None:
        await net.reader("c", "reader")
        await net.publisher("a", "p", pause_s=0.0)
        await net.publisher("b", "q", pause_s=0.0)
        await net.confirmed(20)
        await net.drain("b")
        await asyncio.sleep(0.3)
        net.start("b")
        await net.confirmed(20)

    play(Faulty(nursery, tmp_path, LINE), scenario)
