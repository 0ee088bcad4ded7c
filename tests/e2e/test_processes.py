"""Brokers as processes that are killed, stopped, drained, made lame and told other settings."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.e2e.helpers.network import configs
from tests.e2e.helpers.nursery import Nursery, Process
from tests.e2e.helpers.running import eventually, free_port, punctuality, run
from tests.e2e.helpers.traffic import Traffic

from covey.broker.config import BrokerConfig, read_config
from covey.broker.process import run as run_broker
from covey.client.client import Client, connect

LEASE_S = 2.0
LINE = [("a", "b"), ("b", "c")]
RING = [*LINE, ("a", "c")]


def hold(client: Client) -> None:
    """Let a client read nothing."""
    client._session.link.connection.hold("test")  # type: ignore[union-attr]


def go_on(client: Client) -> None:
    """Let it read again."""
    client._session.link.connection.go_on("test")  # type: ignore[union-attr]


class Overlay:
    """Some brokers as processes; with a short lease only where silence is what is tested."""

    def __init__(self, nursery: Nursery, links: list[tuple[str, str]], lease_s: float = 10.0) -> None:
        self.nursery = nursery
        self.ports = {name: free_port() for name in "abc"}
        self.configs = configs(links, self.ports, lease_s=lease_s, drain_s=60.0)
        self.processes: dict[str, Process] = {}
        for name in self.configs:
            self.start(name)
        for process in self.processes.values():
            process.wait("linked")

    def start(self, name: str) -> Process:
        """Start a broker, again or for the first time."""
        self.processes[name] = self.nursery.start(self.configs[name])
        return self.processes[name]

    def client(self, name: str) -> Client:
        """Return a client of a broker."""
        return connect(f"covey://127.0.0.1:{self.ports[name]}")

    def end(self) -> None:
        """End all, and see that they do."""
        for process in self.processes.values():
            if process.is_alive:
                process.end()
        for process in self.processes.values():
            process.wait_gone()


async def until_whole(traffic: Traffic) -> None:
    """Publish marks until they arrive everywhere again: then the tables are whole too."""
    async with asyncio.timeout(30):
        while True:
            for publisher in traffic.publishers:
                await publisher.mark()
            try:
                await traffic.marked(0.2)
            except TimeoutError:
                continue
            await traffic.flush()
            return


def test_a_broker_is_killed_and_started_again(nursery: Nursery) -> None:
    overlay = Overlay(nursery, LINE)
    random = Random("kill")

    async def main() -> None:
        async with Traffic(overlay.client, random) as traffic:
            await traffic.populate("ac")
            overlay.processes["b"].kill()
            await traffic.flush()  # nobody waits for the dead
            overlay.start("b").wait("linked")
            await until_whole(traffic)
            await traffic.judge_anew()

    run(main())
    overlay.end()


def test_a_killed_broker_is_bypassed_where_there_is_another_way(nursery: Nursery) -> None:
    overlay = Overlay(nursery, RING)
    random = Random("bypass")

    async def main() -> None:
        async with Traffic(overlay.client, random) as traffic:
            await traffic.populate("bc")
            overlay.processes["a"].kill()
            await until_whole(traffic)
            traffic.check(whole=False)
            overlay.start("a").wait("linked")
            await until_whole(traffic)
            traffic.check(whole=False)

    run(main())
    overlay.end()


def test_a_stopped_broker_is_noticed_within_a_lease_and_goes_on(nursery: Nursery) -> None:
    overlay = Overlay(nursery, RING, LEASE_S)
    random = Random("stop")

    async def main() -> None:
        async with Traffic(overlay.client, random) as traffic:
            await traffic.populate("bc")
            overlay.processes["a"].stop()
            began_s = time.monotonic()
            async with punctuality() as machine:
                await until_whole(traffic)
            assert time.monotonic() - began_s < 2 * LEASE_S + 1.0 or not machine.is_good
            await asyncio.sleep(LEASE_S)  # the peers have given it up for long
            overlay.processes["a"].go_on()
            async with overlay.client("a") as client, client.subscribe("mark >= 0") as marks:
                got = asyncio.ensure_future(anext(marks))
                while not got.done():
                    await traffic.publishers[0].mark()
                    await asyncio.sleep(0.02)
            await until_whole(traffic)
            traffic.check(whole=False)

    run(main())
    overlay.end()


def test_what_waits_is_delivered_before_a_broker_ends(nursery: Nursery) -> None:
    """A consumer that is slow to read still gets what was published before the broker was told to end."""
    overlay = Overlay(nursery, [("a", "b")])
    count = 20_000

    async def main() -> None:
        async with (
            overlay.client("a") as publisher,
            overlay.client("b") as consumer,
            consumer.subscribe("x >= 0") as events,
        ):
            await consumer.flush()
            hold(consumer)
            for number in range(count):
                await publisher.publish({"x": number}, data=b"." * 200)
            await publisher.flush()
            overlay.processes["b"].end()
            overlay.processes["b"].wait("draining")
            go_on(consumer)
            assert [(await anext(events))["x"] for _ in range(count)] == list(range(count))

    run(main())
    overlay.processes["b"].wait_gone()
    overlay.end()


def test_a_second_signal_ends_at_once(nursery: Nursery) -> None:
    overlay = Overlay(nursery, [("a", "b")])

    async def main() -> None:
        async with overlay.client("b") as consumer, overlay.client("b") as publisher:
            await consumer.subscribe("x >= 0").__aenter__()
            await consumer.flush()
            hold(consumer)
            for number in range(5_000):
                await publisher.publish({"x": number}, data=b"." * 2000)
            await publisher.flush()
            process = overlay.processes["b"]
            process.end()
            process.wait("draining")
            await asyncio.sleep(0.3)
            assert process.is_alive
            process.end()
            process.wait_gone()  # before its time to drain is over
            go_on(consumer)

    run(main())
    overlay.end()


def test_a_lame_duck_sends_its_clients_away_one_after_another(nursery: Nursery) -> None:
    port = free_port()
    process = nursery.start(BrokerConfig("duck", port=port, lame_duck_s=0.6))
    process.wait("ready")

    async def main() -> None:
        clients = [connect(f"covey://127.0.0.1:{port}") for _ in range(4)]
        for client in clients:
            await client.__aenter__()
        process.signal(signal.SIGUSR2)
        left: list[int] = []

        def count() -> bool:
            there = sum(client.is_connected for client in clients)
            if not left or left[-1] != there:
                left.append(there)
            return there == 0

        async with punctuality() as machine:
            await eventually(count, pause_s=0.005)
        assert left == [4, 3, 2, 1, 0] or not machine.is_good
        for client in clients:
            await client.__aexit__(None, None, None)

    run(main())
    process.wait_gone()


def _serve_file(file: Path, report: Callable[[str], None]) -> None:
    run_broker(read_config(file), report, reread=lambda: read_config(file))


def test_a_broker_takes_other_settings_while_it_runs(nursery: Nursery, tmp_path: Path) -> None:
    port, other = free_port(), free_port()
    file = tmp_path / "broker.toml"
    file.write_text(f"name = 'a'\nport = {port}\nmax_subscriptions = 1\nlease_s = 0.8\n")
    process = nursery.run(_serve_file, file)
    process.wait("ready")
    neighbour = nursery.start(configs([("a", "b")], {"a": port, "b": other})["b"])
    neighbour.wait("listening")

    def reload(text: str) -> str:
        before = process.said()
        file.write_text(text)
        process.signal(signal.SIGHUP)
        until_s = time.monotonic() + 30.0
        while process.said() == before and time.monotonic() < until_s:
            time.sleep(0.01)
        time.sleep(0.05)
        return process.said().removeprefix(before)

    async def subscriptions() -> int:
        async with connect(f"covey://127.0.0.1:{port}") as client:
            taken = 0
            for _ in range(3):
                try:
                    await client.subscribe("x = 1").__aenter__()
                    taken += 1
                except Exception:  # noqa: BLE001 (counted)
                    break
            return taken

    assert run(subscriptions()) == 1
    assert (
        reload("name = 'a'\nport = 1\nmax_subscriptions = 2\nlease_s = 0.8\n[[links]]\nname = 'b'\n")
        == "refused port cannot change while the broker runs: restart it for that\nreloaded\n"
    )
    assert run(subscriptions()) == 2
    neighbour.wait("linked")
    assert "refused" in reload("name = 'a'\nmax_subscriptions = 'x'\n")
    assert run(subscriptions()) == 2
    assert "refused port" in reload("name = 'a'\nmax_subscriptions = 2\nlease_s = 0.8\n")
    process.end()
    process.wait_gone()
    neighbour.end()
    neighbour.wait_gone()
