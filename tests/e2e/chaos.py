"""Random faults in numbers, on real processes: python -m tests.e2e.chaos --faults 1000 --seed 1

Rounds of some faults each go over a line, a ring, a star and a grid in turn, half of them with the default strategy and
half with any. In a round, confirmed and plain publishers
and durable and ordinary subscribers work all the time, while faults begin and end at random moments and overlap. Then
all faults end, and everything must be well again: what was confirmed is delivered, a plan can be installed and taken
out, and each event that is published comes once to everyone who asks for it. `helpers.promises` judges.

A seed is one sequence of faults, though not one order of events: processes and sockets have their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.e2e.helpers.faulty import EVERYTHING, LEASE_S, TOPOLOGIES, Faulty, Publisher, Reader
from tests.e2e.helpers.network import Pair
from tests.e2e.helpers.nursery import Nursery
from tests.e2e.helpers.plans import installed, plan_for
from tests.e2e.helpers.promises import CONFIRMED, PLAIN
from tests.e2e.helpers.proxy import DIALLER, LISTENER
from tests.e2e.helpers.running import eventually, run

import covey
from covey.errors import CoveyError
from covey.routing.strategy import registered

STRATEGIES = [name for name in covey.strategies() if not registered(name).trees]
FAULTS = 25  # of a round
ROUND_S = 300.0
LONGEST_S = 2.5 * LEASE_S  # of a fault
HEALED_S = 60.0  # within which all must be well again
ATTEMPTS = 5  # to find the network at rest


@dataclass
class Report:
    """What a round was."""

    faults: Counter[str] = field(default_factory=Counter)
    confirmed: int = 0
    delivered: int = 0
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Add another round."""
        self.faults += other.faults
        self.confirmed += other.confirmed
        self.delivered += other.delivered
        self.seconds += other.seconds


class Chaos:
    """Faults that begin and end on a network; a broker or a link has one at a time."""

    def __init__(self, net: Faulty, random: Random) -> None:
        self.net, self.random = net, random
        self.report = Report()
        self._busy: set[str | Pair] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._lives = 0
        self._kinds: dict[str, tuple[int, Callable[[], Awaitable[bool]]]] = {
            "kill": (5, self._kill),
            "hang": (4, self._hang),
            "restart": (2, self._restart),
            "cut": (2, lambda: self._link(lambda pair: net.proxies[pair].cut())),
            "partition": (2, lambda: self._link(lambda pair: net.proxies[pair].stall())),
            "one-way partition": (3, lambda: self._link(self._stall_one_way)),
            "slow link": (1, lambda: self._link(lambda pair: net.proxies[pair].throttle(20_000))),
            "plan in": (2, self._plan_in),
            "plan out": (1, self._plan_out),
            "client killed": (3, self._client),
        }

    async def begin(self) -> None:
        """Begin a fault."""
        while True:
            names = list(self._kinds)
            (kind,) = self.random.choices(names, [self._kinds[name][0] for name in names])
            if await self._kinds[kind][1]():
                self.report.faults[kind] += 1
                return
            await asyncio.sleep(0.02)

    async def end_all(self) -> None:
        """Wait for all faults to end."""
        while self._ending:
            await asyncio.gather(*self._ending)

    def _later(
        self, what: str | Pair, end: Callable[[], Awaitable[None]], within_s: float = LONGEST_S
    ) -> None:
        self._busy.add(what)
        pause_s = self.random.random() ** 2 * within_s

        async def wait() -> None:
            await asyncio.sleep(pause_s)
            await end()
            self._busy.discard(what)

        task = asyncio.get_running_loop().create_task(wait())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _idle_broker(self) -> str | None:
        idle = [name for name in self.net.names if name not in self._busy]
        return self.random.choice(idle) if idle else None

    # -- brokers and links -----------------------------------------------------------------------------------

    async def _kill(self) -> bool:
        name = self._idle_broker()
        if name is None:
            return False

        async def end() -> None:
            self.net.start(name)
            await self._listens(name)

        self.net.kill(name)
        self._later(name, end)
        return True

    async def _listens(self, name: str) -> None:
        process = self.net.processes[name]
        await eventually(lambda: "listening" in process.said(), 30.0, f"{name}: {process.said()}")

    async def _hang(self) -> bool:
        name = self._idle_broker()
        if name is None:
            return False

        async def end() -> None:
            self.net.go_on(name)

        self.net.hang(name)
        self._later(name, end)
        return True

    async def _restart(self) -> bool:
        name = self._idle_broker()
        if name is None:
            return False

        async def end() -> None:
            await self.net.drain(name)
            self.net.start(name)
            await self._listens(name)

        self._later(name, end, 0.0)
        return True

    async def _link(self, fault: Callable[[Pair], None]) -> bool:
        idle = [pair for pair in self.net.links if pair not in self._busy]
        if not idle:
            return False
        pair = self.random.choice(idle)

        async def end() -> None:
            self.net.proxies[pair].heal()

        fault(pair)
        self._later(pair, end)
        return True

    def _stall_one_way(self, pair: Pair) -> None:
        self.net.proxies[pair].stall(self.random.choice((DIALLER, LISTENER)))

    # -- plans -----------------------------------------------------------------------------------------------

    async def _plan_in(self) -> bool:
        plan = plan_for(self.net.links, self.random.randrange(1 << 30))
        return self._ask_for_plan(lambda name: self.net.pages(name).post_bytes("/planz", plan))

    async def _plan_out(self) -> bool:
        if self.random.random() < 0.5:
            return self._ask_for_plan(lambda name: self.net.pages(name).post_bytes("/planz", b""))
        return self._ask_for_plan(lambda name: self.net.pages(name).delete("/planz"))

    def _ask_for_plan(self, ask: Callable[[str], object]) -> bool:
        name = self._idle_broker()
        if name is None:
            return False

        async def end() -> None:
            with suppress(CoveyError):  # one is under way, or the broker is not there
                await asyncio.to_thread(ask, name)

        task = asyncio.get_running_loop().create_task(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return True

    # -- clients ---------------------------------------------------------------------------------------------

    async def _client(self) -> bool:
        which = self.random.randrange(len(self.net.readers) + len(self.net.publishers))
        if which < len(self.net.readers):
            reader = self.net.readers[which]
            await reader.kill()
            reader.go()
            return True
        old = self.net.publishers.pop(which - len(self.net.readers))
        await old.kill()
        self._later(f"publisher {old.noted.name}", lambda: self._replace(old), 0.5)
        return True

    async def _replace(self, old: Publisher) -> None:
        """Have another client come in the place of a publisher, with a name of its own for the checker."""
        self._lives += 1
        broker, kind = self.random.choice(self.net.names), old.noted.kind
        name = f"{kind}-{self._lives}-{broker}"
        while True:
            try:
                await self.net.publisher(broker, f"{name}", kind=kind, pause_s=0.02)
            except CoveyError:
                self.net.promises.publishers.pop(name)
                await asyncio.sleep(0.1)  # its broker is down
            else:
                return


async def play(net: Faulty, random: Random, faults: int) -> Report:
    """Have a round on a network; AssertionError if a promise is broken."""
    began_s = time.monotonic()
    async with net:
        for name in net.names:
            await net.reader(
                name, f"reader-{name}", random.choice((EVERYTHING, "x < 6", "kind = 'confirmed'"))
            )
        for name in random.sample(net.names, 2):
            await net.ordinary(name, f"ordinary-{name}", random.choice((EVERYTHING, "x > 2")))
        for name in random.sample(net.names, 3):
            advertises = random.random() < 0.7
            await net.publisher(name, f"{CONFIRMED}-0-{name}", pause_s=0.02, advertises=advertises)
        await net.publisher(random.choice(net.names), f"{PLAIN}-0", kind=PLAIN, pause_s=0.02)
        chaos = Chaos(net, random)
        for _ in range(faults):
            await chaos.begin()
            await asyncio.sleep(random.random() * 0.6)
        await chaos.end_all()
        await net.ready()
        await net.settle(HEALED_S)
        await _is_well(net, random)
        net.promises.check()
        report = chaos.report
        report.confirmed, report.delivered = net.promises.confirmed, net.promises.delivered
    report.seconds = time.monotonic() - began_s
    return report


async def _is_well(net: Faulty, random: Random) -> None:
    """See that plans go in and out, and that each event comes once to everyone who asks for it."""
    await installed(net, random.choice(net.names), plan_for(net.links, 1), HEALED_S)
    await installed(net, random.choice(net.names), b"", HEALED_S)
    for attempt in range(ATTEMPTS):
        ordinary = [one for one in net.readers if not one.noted.is_durable]
        await asyncio.gather(*(_flushed(one) for one in ordinary))
        last = await net.publisher(random.choice(net.names), f"last-{attempt}", kind=PLAIN, goes=False)
        await last.client.flush()
        before = _breaks(net, last)
        await last.publish(20)
        try:
            await _have_all(ordinary, last)
        except AssertionError:
            if _breaks(net, last) == before:
                raise
        else:
            return
    raise AssertionError(f"links break {ATTEMPTS} times while nothing is done to them")


def _breaks(net: Faulty, publisher: Publisher) -> tuple[int, list[object]]:
    """Return what differs if a link broke in between: on a machine that is busy with others, a lease can run out.

    Then nothing was at rest, and what was published meanwhile may be lost by any promise.
    """
    clients = [publisher.client, *(one.client for one in net.readers if one.client is not None)]
    return sum(net.log(name).count('event="link down"') for name in net.names), [
        one._session.link for one in clients
    ]


async def _have_all(ordinary: list[Reader], publisher: Publisher) -> None:
    """Return once all have what they asked for of a publisher, in its order; AssertionError if they do not get it."""
    name = publisher.noted.name
    due = {
        one.noted.name: [content["n"] for content in publisher.noted.contents if one.noted.asks_for(content)]
        for one in ordinary
    }

    def has_all() -> bool:
        return all(sorted(one.noted.order.get(name, ())) == due[one.noted.name] for one in ordinary)

    await eventually(has_all, 20.0, "everyone gets what is published at rest")
    for one in ordinary:
        assert one.noted.order.get(name, []) == due[one.noted.name], "in the order of publication"


async def _flushed(reader: Reader) -> None:
    await eventually(lambda: reader.client is not None and reader.client.is_connected)
    assert reader.client is not None
    await reader.client.flush()


def one_round(nursery: Nursery, folder: Path, topology: str, seed: str, faults: int = FAULTS) -> Report:
    """Play one round on a topology."""
    folder.mkdir(parents=True, exist_ok=True)
    random = Random(f"{topology} {seed}")
    strategy = "covering" if random.random() < 0.5 else random.choice(STRATEGIES)
    net = Faulty(
        nursery, folder, TOPOLOGIES[topology], seed=seed, has_admin=True, drain_s=2.0, strategy=strategy
    )
    return run(play(net, random, faults), ROUND_S)


def main(words: list[str]) -> int:
    """Play as many rounds as it takes for so many faults; say what they were."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--topology", choices=TOPOLOGIES, help="only this one")
    parser.add_argument(
        "--first", type=int, default=0, metavar="ROUND", help="begin with this round of the seed"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    whole, failed, number = Report(), 0, asked.first
    names = [asked.topology] if asked.topology else list(TOPOLOGIES)
    folder = Path(tempfile.mkdtemp(prefix="covey-chaos-"))
    with Nursery() as nursery:
        while whole.faults.total() < asked.faults:
            topology, seed = names[number % len(names)], f"{asked.seed}/{number}"
            place = folder / f"{number}-{topology}"
            try:
                report = one_round(nursery, place, topology, seed)
            except (AssertionError, TimeoutError, CoveyError) as error:
                failed += 1
                whole.faults["of rounds that failed"] += FAULTS
                only = f"--topology {topology} " if asked.topology else ""
                print(f"round {number} ({topology}) fails: {type(error).__name__}: {error}", flush=True)
                print(
                    f"again: python -m tests.e2e.chaos --seed {asked.seed} {only}--first {number} --faults 1"
                )
                print(f"logs and disks: {place}", flush=True)
            else:
                shutil.rmtree(place)
                whole.add(report)
                if not asked.json:
                    print(
                        f"round {number} ({topology}): {report.faults.total()} faults, {report.confirmed} confirmed, "
                        f"{report.delivered} deliveries, {report.seconds:.1f} s",
                        flush=True,
                    )
            number += 1
    if not failed:
        shutil.rmtree(folder)
    said = {
        "rounds": number - asked.first,
        "failed": failed,
        "faults": dict(whole.faults.most_common()),
        "confirmed": whole.confirmed,
        "deliveries": whole.delivered,
        "seconds": round(whole.seconds),
    }
    print(json.dumps(said) if asked.json else said)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
