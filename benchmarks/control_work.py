"""How long events wait while a live broker does control work: two brokers, real sockets, a process each.

    python benchmarks/control_work.py [--subscriptions 20000] [--leaving 100000] [--rate 500] [--calm 5] [--json]

A probe, a process of its own, publishes single events at an even pace at one broker and receives them there. While it
does so nothing else happens (calm), and then, one after the other:

    burst       another client makes many subscriptions, all at once
    link up     the link to a neighbour comes up, and everything that clients here want is told: at broker b, which
                tells, and at broker a, which hears it
    plan        a plan goes in: a second router is told what clients want, and tells the neighbour
    leaving     a client with very many subscriptions ends its connection

Before each of them there is another calm stretch; ratios are to all calm stretches at that broker together. Events
count for the stretch in which they were published. Beside each percentile are the broker's CPU time and its waiting for
a CPU (`covey.bench.usage`) and the steal of the machine, without which a percentile says little.

A hook in the brokers' processes (`Watch`) measures each `BrokerCore.step` and each garbage collection in CPU time. The
longest is what an event has to wait for at most, on a machine with nothing else to do. "p99 CPU" says what events wait
for there: of each step in which events come, its CPU time with that of the step before it, during which they may have
come, if the broker did not sleep in between. Where others use the machine, that is the figure to look at, and its ratio
to calm stretches: percentiles of elapsed time are then those of waiting for a CPU.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import c_char, c_double
from dataclasses import asdict, dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from secrets import token_urlsafe
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from covey import parse
from covey.bench import usage
from covey.bench.network_load import STAMP, Batch, Counter, Program, payload_of
from covey.bench.network_peers import CoveyClient
from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig, Queue
from covey.broker.core import BrokerCore
from covey.broker.effects import Arrived, Effect, Input, Instant
from covey.broker.process import Family, listen
from covey.broker.security import hash_token
from covey.client.admin import Pages, install_plan
from covey.core.packing import pack
from covey.errors import CoveyError
from covey.planning.plan import Plan, PlannedTree
from covey.protocol.control import SubscribeRequest, encode
from covey.protocol.events import ATTRIBUTES, encode_event
from covey.protocol.frames import Kind, frame, framed

HOST: Final = "127.0.0.1"
PAYLOAD_BYTES: Final = 200
SETTLE_S: Final = 0.3
PATIENCE_S: Final = 120.0
NAME_BYTES: Final = 120
BUCKETS: Final = 280
AWAKE_S: Final = 1e-4  # a step that begins so soon after another one has not been waited for


def filter_of(number: int) -> str:
    """Return another filter for each number, none of which wants a probe's events, and few of which cover others."""
    return f"symbol = 'S{number % 5_000}' and price > {number % 97}.5 and volume < {number * 7 % 1_000 + 1}"


def bucket_of(wait_ms: float) -> int:
    """Return the bucket of a wait; each is a fortieth of a decade wide, the first is a microsecond."""
    return min(BUCKETS - 1, max(0, int(40 * math.log10(max(wait_ms, 1e-3) / 1e-3))))


def percentile_of(waits: Sequence[float], share: float) -> float:
    """Return the wait in ms that so large a share of those in buckets does not exceed; 0 if there are none."""
    left = share * sum(waits)
    for bucket, some in enumerate(waits):
        left -= some
        if some and left <= 0:
            return float(1e-3 * 10 ** ((bucket + 1) / 40))
    return 0.0


# -- the hook in brokers -------------------------------------------------------------------------------------


class Watch:
    """What one broker's process says of itself, in memory that it shares with this one."""

    _LONGEST, _COLLECTING, _BUSY, _LINKED, _STEPS = range(5)

    def __init__(self) -> None:
        self._figures = RawArray(c_double, 5)
        self._what = RawArray(c_char, NAME_BYTES)
        self._waits = RawArray(c_double, BUCKETS)  # how many steps with events had to be waited for so long
        self._collecting_s = 0.0
        self._before_ms = self._before_s = 0.0  # the CPU time of the step before, and when it ended
        self._has_more = False  # it had left something to do

    def clear(self) -> None:
        """Begin a stretch."""
        self._figures[self._LONGEST] = self._figures[self._COLLECTING] = self._figures[self._STEPS] = 0.0
        self._what.value = b""
        self._waits[:] = [0.0] * BUCKETS

    @property
    def waits(self) -> list[float]:
        """How many steps with events had to be waited for how long, in CPU time: by bucket."""
        return list(self._waits)

    @property
    def longest_ms(self) -> float:
        """CPU time of the longest step, and `what` it was."""
        return self._figures[self._LONGEST]

    @property
    def what(self) -> str:
        """The input of the longest step, and how many frames were handled in it."""
        return self._what.value.decode()

    @property
    def collecting_ms(self) -> float:
        """The longest garbage collection."""
        return self._figures[self._COLLECTING]

    @property
    def is_busy(self) -> bool:
        """Whether a client is leaving or a router is being filled."""
        return bool(self._figures[self._BUSY])

    @property
    def is_linked(self) -> bool:
        """Whether tables were compared with all neighbours."""
        return bool(self._figures[self._LINKED])

    def collected(self, phase: str, info: dict[str, int]) -> None:
        """Hear of a garbage collection (`gc.callbacks`)."""
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            took_ms = (time.thread_time() - self._collecting_s) * 1e3
            self._figures[self._COLLECTING] = max(self._figures[self._COLLECTING], took_ms)

    def stepped(self, core: BrokerCore, given: Input, took_ms: float, frames: int, begun_s: float) -> None:
        """Note a step."""
        figures = self._figures
        if type(given) is Arrived and any(
            len(data) > 4 and data[4] == Kind.EVENT for data in given.reads.values()
        ):
            slept = not self._has_more and begun_s - self._before_s > AWAKE_S
            self._waits[bucket_of(took_ms if slept else took_ms + self._before_ms)] += 1
        self._before_ms, self._before_s = took_ms, time.monotonic()
        self._has_more = core.scheduler.has_work or core.sessions.has_work or core.plans.has_work
        figures[self._STEPS] += 1
        figures[self._BUSY] = core.sessions.has_work or core.plans.has_work or core.neighbours.has_work
        figures[self._LINKED] = all(map(core.neighbours.is_open, core.neighbours.records))
        if took_ms > figures[self._LONGEST]:
            figures[self._LONGEST] = took_ms
            doing = [
                name
                for name, on in (
                    ("departure", core.sessions.has_work),
                    ("filling", core.plans.has_work),
                    ("links", core.neighbours.has_work),
                )
                if on
            ]
            self._what.value = " ".join((type(given).__name__, f"{frames} frames", *doing)).encode()


def watch_steps(watches: dict[str, Watch]) -> None:
    """Have every core of this process and its children measured, by the broker's name."""
    step = BrokerCore.step

    def measured(core: BrokerCore, given: Input, now: Instant) -> list[Effect]:
        watch = watches[core.config.name]
        if watch.collected not in gc.callbacks:
            gc.callbacks.append(watch.collected)
        came_s, waiting, begun_s = time.monotonic(), core.scheduler.count, time.thread_time()
        found = step(core, given, now)
        took_ms = (time.thread_time() - begun_s) * 1e3
        watch.stepped(core, given, took_ms, max(0, waiting - core.scheduler.count), came_s)
        return found

    setattr(BrokerCore, "step", measured)  # noqa: B010 (a method is not assigned to otherwise)


# -- the probe -----------------------------------------------------------------------------------------------


class ProbeClient(CoveyClient):
    """A client whose events are for itself, wherever other probes are."""

    def take(self, place: str) -> None:
        """Subscribe to the events of the probes at a place."""
        self._ask(frame(Kind.REQUEST, encode(SubscribeRequest(1, 1, parse(f"symbol = '{place}'").encode()))))

    def probe_batch(self, place: str) -> Batch:
        """Return one event of a place, numbered on."""
        content = pack({"symbol": place, "price": 0.5, "volume": 256, "venue": "XNYS"})
        payload = payload_of(PAYLOAD_BYTES)
        data = encode_event(content, payload, family=ATTRIBUTES, publisher=self._number, number=self._NUMBER)
        batch = Batch.of(framed(data))
        at, number = bytes(batch.data).index(self._NUMBER.to_bytes(8, "little")), count(1)

        def advance() -> None:
            batch.data[at : at + 8] = next(number).to_bytes(8, "little")

        advance()
        return Batch(batch.data, batch.stamps, advance)


def probe(pipe: Connection, port: int, rate: float, place: str) -> None:
    """Publish and receive until asked for what came: the times of sending, and how long each event took, both in ns."""
    receiving, sending = ProbeClient(port), ProbeClient(port)
    receiving.take(place)
    sending.announce()
    batch = sending.probe_batch(place)
    room = bytearray(1 << 18)
    counter = Counter(room, PAYLOAD_BYTES)
    receiving.socket.setblocking(False)
    sent_ns: list[int] = []
    delays_ns: list[int] = []
    published, next_s, every_s = 0, time.monotonic(), 1 / rate
    pipe.send("ready")
    while True:
        left_s = next_s - time.monotonic()
        if left_s <= 0:
            STAMP.pack_into(batch.data, batch.stamps[0], time.monotonic_ns())
            sending.socket.sendall(batch.data)
            batch.advance()
            published += 1
            next_s = max(next_s + every_s, time.monotonic() - 0.1)
            continue
        readable, _, _ = select.select([receiving.socket.fileno(), pipe.fileno()], [], [], left_s)
        for one in readable:
            if one == pipe.fileno():
                pipe.recv()
                pipe.send((published, np.array(sent_ns, np.int64), np.array(delays_ns, np.int64)))
                continue
            stamps = counter.take(receiving.socket.recv_into)
            now_ns = time.monotonic_ns()
            for at in stamps.tolist():
                (then_ns,) = STAMP.unpack_from(room, at)
                sent_ns.append(then_ns)
                delays_ns.append(now_ns - then_ns)


# -- stretches -----------------------------------------------------------------------------------------------


@dataclass
class Stretch:
    """What was found in a stretch of time at one broker."""

    act: str
    broker: str
    begun_ns: int
    ended_ns: int
    steal_ms: float
    cpu_ms: float
    waited_ms: float
    longest_step_ms: float
    longest_step: str
    longest_collection_ms: float
    waits: list[float] = field(repr=False)
    events: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    worst_ms: float = 0.0
    p50_ratio: float = 0.0
    p99_ratio: float = 0.0
    cpu_p99_ms: float = 0.0
    cpu_p99_ratio: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended_ns - self.begun_ns) / 1e9

    def judge(self, sent_ns: NDArray[np.int64], delays_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Take in what the probe has found; return the delays of this stretch."""
        mine: NDArray[np.float64] = (
            delays_ns[(sent_ns >= self.begun_ns) & (sent_ns <= self.ended_ns)].astype(np.float64) / 1e6
        )
        self.events = len(mine)
        if len(mine):
            self.p50_ms, self.p99_ms, self.worst_ms = np.percentile(mine, [50, 99, 100]).tolist()
        return mine


class Client(CoveyClient):
    """A client with many subscriptions."""

    def subscribe_many(self, first: int, many: int) -> None:
        """Make subscriptions, all at once; return when they are in force."""
        self._ask(
            b"".join(
                frame(Kind.REQUEST, encode(SubscribeRequest(n, n, parse(filter_of(first + n)).encode())))
                for n in range(1, many + 1)
            )
        )


class Forwarder:
    """A port that forwards to another one once `open` is called: so a link comes up when that is wanted."""

    def __init__(self, target: int) -> None:
        held = listen(HOST, 0)
        self.port = int(held.getsockname()[1])
        held.close()
        self._target = target

    def open(self) -> None:
        """Begin to listen."""
        threading.Thread(target=self._serve, args=(listen(HOST, self.port),), daemon=True).start()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            one, _ = listening.accept()
            other = socket.create_connection((HOST, self._target))
            for end in (one, other):  # or small answers wait 40 ms for the acknowledgement of the one before
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, target in ((one, other), (other, one)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(1 << 18):
            target.sendall(data)


class Run:
    """Two brokers with a probe each, and what was found so far."""

    def __init__(self, watches: dict[str, Watch], pids: dict[str, int], say: Callable[[str], None]) -> None:
        self.stretches: list[Stretch] = []
        self._watches, self._pids, self._say = watches, pids, say

    @contextmanager
    def act(self, name: str, *brokers: str) -> Iterator[None]:
        """Measure what is done meanwhile."""
        self._say(name)
        for broker in brokers:
            self._watches[broker].clear()
        steal_s, before = usage.steal_s(), {one: usage.reading([self._pids[one]]) for one in brokers}
        begun_ns = time.monotonic_ns()
        yield
        ended_ns = time.monotonic_ns()
        steal_s = usage.steal_s() - steal_s
        for broker in brokers:
            used = usage.between(before[broker], usage.reading([self._pids[broker]]))
            watch = self._watches[broker]
            self.stretches.append(
                Stretch(
                    name,
                    broker,
                    begun_ns,
                    ended_ns,
                    steal_s * 1e3,
                    used.cpu_s * 1e3,
                    used.waited_s * 1e3,
                    watch.longest_ms,
                    watch.what,
                    watch.collecting_ms,
                    watch.waits,
                )
            )

    def until(self, is_true: Callable[[], bool]) -> None:
        """Wait; CoveyError if it takes too long."""
        until_s = time.monotonic() + PATIENCE_S
        while not is_true():
            if time.monotonic() > until_s:
                raise CoveyError("a broker has not done its work in time")
            time.sleep(0.01)

    def judge(self, probes: dict[str, Program]) -> None:
        """Take in what probes have found; CoveyError if an event is missing."""
        for broker, one in probes.items():
            time.sleep(SETTLE_S)
            one.say("tell")
            published, sent_ns, delays_ns = one.expect()
            if published - len(sent_ns) > 50:
                raise CoveyError(f"{published - len(sent_ns)} events of the probe at {broker} are missing")
            mine = [stretch for stretch in self.stretches if stretch.broker == broker]
            calm = np.concatenate([one.judge(sent_ns, delays_ns) for one in mine if one.act == "calm"])
            p50, p99 = np.percentile(calm, [50, 99]).tolist()
            waits = np.sum([stretch.waits for stretch in mine if stretch.act == "calm"], axis=0).tolist()
            for stretch in mine:
                stretch.judge(sent_ns, delays_ns)
                stretch.p50_ratio, stretch.p99_ratio = stretch.p50_ms / p50, stretch.p99_ms / p99
                stretch.cpu_p99_ms = percentile_of(stretch.waits, 0.99)
                stretch.cpu_p99_ratio = stretch.cpu_p99_ms / percentile_of(waits, 0.99)


def a_plan() -> bytes:
    """Return a plan for the two brokers."""
    links = (("a", "b"),)
    return Plan(
        "mine", 1, ("a", "b"), (("a", "b", 1.0),), (PlannedTree("a", links),), "nearest", home={}
    ).encode()


def measured(options: argparse.Namespace, say: Callable[[str], None]) -> list[Stretch]:
    """Do everything once."""
    watches = {name: Watch() for name in "ab"}
    watch_steps(watches)
    Counter.compile()
    sockets = {name: listen(HOST, 0) for name in "ab"}
    ports = {name: int(one.getsockname()[1]) for name, one in sockets.items()}
    forwarder = Forwarder(ports["a"])
    pages = listen(HOST, 0)
    pages_port = int(pages.getsockname()[1])
    pages.close()
    token = token_urlsafe()
    common: dict[str, Any] = {
        "lease_s": 600.0,
        "log_level": "error",
        "client_bounds": Queue(2_000_000, 1 << 30),
        "link_bounds": Queue(2_000_000, 1 << 30),
        "drain_s": 2.0,
    }
    configs = {
        "a": BrokerConfig(name="a", port=ports["a"], links=(LinkConfig("b"),), **common),
        "b": BrokerConfig(
            name="b",
            port=ports["b"],
            links=(LinkConfig("a", HOST, forwarder.port),),
            admin=AdminConfig(port=pages_port, token=hash_token(token)),
            **common,
        ),
    }
    family = Family()
    with ExitStack() as stack:
        stack.callback(family.stop, 10.0)
        family.start(configs, sockets)
        family.wait("listening", 60.0)
        run = Run(watches, {child.name: child.pid for child in family.children}, say)
        probes = {
            name: stack.enter_context(Program(probe, ports[name], options.rate, name, patience_s=PATIENCE_S))
            for name in "ab"
        }
        _acts(run, options, ports["b"], forwarder, Pages(f"http://{HOST}:{pages_port}", token), watches)
        run.judge(probes)
    return run.stretches


def _acts(
    run: Run,
    options: argparse.Namespace,
    port: int,
    forwarder: Forwarder,
    pages: Pages,
    watches: dict[str, Watch],
) -> None:
    def calm() -> None:
        with run.act("calm", "a", "b"):
            time.sleep(options.calm)
        time.sleep(0.1)

    staying = Client(port)
    time.sleep(1.0)
    calm()
    with run.act("burst", "b"):
        staying.subscribe_many(0, options.subscriptions)
    calm()
    with run.act("link up", "a", "b"):
        forwarder.open()
        run.until(lambda: all(watch.is_linked for watch in watches.values()))
        staying.subscribe_many(0, 0)  # whatever was told has been heard
    calm()
    with run.act("plan", "a", "b"):
        install_plan(pages, a_plan())
        run.until(lambda: not any(watch.is_busy for watch in watches.values()))
    calm()
    leaving = Client(port)
    with run.act("burst, two epochs", "a", "b"):
        leaving.subscribe_many(options.subscriptions, options.leaving)
    calm()
    with run.act("leaving", "a", "b"):
        leaving.socket.close()
        run.until(lambda: watches["b"].is_busy)
        run.until(lambda: not watches["b"].is_busy)
    staying.socket.close()


def show(stretches: list[Stretch]) -> None:
    """Print a row for each stretch."""
    heads = (
        "at",
        "act",
        "s",
        "events",
        "p50 ms",
        "p99 ms",
        "worst ms",
        "p99 ratio",
        "p99 CPU ms",
        "ratio",
        "CPU s",
        "waited s",
    )
    table = Table(*heads, "steal s", "longest step ms", "in", "collection ms")
    for one in sorted(stretches, key=lambda one: one.broker):
        table.add_row(
            one.broker,
            one.act,
            f"{one.seconds:.1f}",
            f"{one.events:,}",
            f"{one.p50_ms:.2f}",
            f"{one.p99_ms:.2f}",
            f"{one.worst_ms:.1f}",
            f"{one.p99_ratio:.1f}",
            f"{one.cpu_p99_ms:.2f}",
            f"{one.cpu_p99_ratio:.1f}",
            f"{one.cpu_ms / 1e3:.2f}",
            f"{one.waited_ms / 1e3:.2f}",
            f"{one.steal_ms / 1e3:.2f}",
            f"{one.longest_step_ms:.1f}",
            one.longest_step,
            f"{one.longest_collection_ms:.1f}",
        )
    Console(width=200).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="How long events wait while a live broker does control work."
    )
    parser.add_argument("--subscriptions", type=int, default=20_000)
    parser.add_argument("--leaving", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--calm", type=float, default=5.0, help="seconds of each calm stretch")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    console = Console(stderr=True)
    stretches = measured(options, lambda text: console.print(f"… {text}", highlight=False))
    if options.json:
        plain = [{name: value for name, value in asdict(one).items() if name != "waits"} for one in stretches]
        print(json.dumps({"load": os.getloadavg()[0], "stretches": plain}))
    else:
        show(stretches)


if __name__ == "__main__":
    main()
