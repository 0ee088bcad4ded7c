"""The broker on the network: sockets, timers and threads around a core. It decides nothing.

What happens becomes an input of `BrokerCore.step`, and the effects of that are carried out in their order before the
next input (`effects` has the duties in full). One turn of the event loop reads all sockets that have something, each
into the same buffer; then one Tick handles what has come, and each connection is written to once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import resource
import secrets
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from covey import __version__
from covey.broker import effects
from covey.broker.admission import CHECKS, Shown
from covey.broker.config import BrokerConfig, LinkConfig, changed
from covey.broker.core import BrokerCore
from covey.broker.durable.log import Answer, Asked, Committed, Fetch, Find
from covey.broker.durable.sqlite import SqliteLog
from covey.broker.effects import Effect, Ending, Input, Instant
from covey.broker.introspection import Introspection, Latencies
from covey.broker.listening import Listener, Pace, bound_sockets
from covey.broker.logs import say
from covey.broker.plans import Installation, keep_state, load_state
from covey.broker.scheduling import SMALL, Joining
from covey.broker.security import HANDSHAKE_S, Permissions, Security, check_password, names_of
from covey.broker.warming import warm_up
from covey.errors import CoveyError, LinkError
from covey.protocol.control import BARE

log = logging.getLogger("covey.broker")

HIGH_WATER: Final = 1 << 18  # bytes that a transport may hold
MOST_READ: Final = 1 << 20  # bytes that are read of one socket before others have their turn again,
ALL_READ: Final = 1 << 22  # and of all sockets together
CONNECT_S: Final = 10.0  # within which a neighbour's machine answers
ABORT_S: Final = 5.0  # that a closing transport has to send what it holds
STOP_S: Final = 2.0
SILENCE_S: Final = 3.0  # before a starting broker says what it is waiting for
ARRIVALS: Final = 8  # streams that are taken in, in one turn of the loop,
HANDSHAKES: Final = 2  # and those with TLS, of which each takes a millisecond
NICE: Final = 10  # by which threads that check passwords give way to the event loop


class _Arriving:
    """A stream that was accepted and is not there yet: TLS takes its time."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.has_to_go = False

    def end(self, how: Ending) -> None:
        self.has_to_go = True
        if self.task is not None:
            self.task.cancel()

    def write(self, buffers: list[bytes]) -> None:
        raise AssertionError("nothing is written before it is there")

    def hold(self, on: bool) -> None:
        raise AssertionError("nothing is read before it is there")


class _Stream(asyncio.Protocol):
    """One socket: what happens to it becomes an input.

    uvloop reads into one buffer for all sockets and gives out bytes of their own, which last as long as they wait. A
    BufferedProtocol would read into a buffer of ours, and cost another call and a view for each read.
    """

    def __init__(self, shell: Broker, number: int, dialled: str = "") -> None:
        self.shell = shell
        self.number = number
        self.dialled = dialled
        self.transport: asyncio.Transport
        self._is_held = self._is_resting = False
        self._full_s = 0.0  # when the socket was full last
        self._turn = -1  # of the shell, in which it was read last,
        self._taken = 0  # and how many bytes of it by large reads

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        if not self.dialled and not self.shell.is_expected(self.number):
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(HIGH_WATER)
        address = transport.get_extra_info("peername")
        tls = transport.get_extra_info("ssl_object")
        self.shell.streams[self.number] = self
        self.shell.step(
            effects.Opened(
                self.number,
                f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or ""),
                _host_of(address),
                None if tls is None else frozenset(names_of(cast(ssl.SSLObject, tls).getpeercert())),
                self.dialled,
                self.transport.can_write_eof(),
            )
        )

    def data_received(self, data: bytes) -> None:
        shell = self.shell
        if len(data) > SMALL:
            self._count(len(data))
            shell.step(effects.Received(self.number, data))
        elif self.number in shell.arrived:
            shell.step(effects.Received(self.number, data))
        else:
            shell.arrived[self.number] = data
            if not shell.is_ticking:
                shell.tick_soon()

    def _count(self, size: int) -> None:
        """Let others have their turn after so many bytes: uvloop goes on as long as there are some, up to 8 MB."""
        shell = self.shell
        if self._turn != shell.turns:
            self._turn, self._taken = shell.turns, 0
        self._taken += size
        shell.taken += size
        if (self._taken >= MOST_READ or shell.taken >= ALL_READ) and not self._is_resting:
            self._is_resting = True
            shell.rests(self)
            self._read_or_not()

    def go_on(self) -> None:
        """Be read again, after others."""
        self._is_resting, self._taken = False, 0
        self._read_or_not()

    def eof_received(self) -> bool:
        self.shell.step(effects.HeardEof(self.number))
        return self.transport.can_write_eof() and not self.transport.is_closing()

    def pause_writing(self) -> None:
        self._full_s = time.monotonic()
        self.shell.step(effects.Paused(self.number))

    def resume_writing(self) -> None:
        self.shell.latencies.queue.observe(time.monotonic() - self._full_s)
        self.shell.step(effects.Writable(self.number))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.shell.streams.pop(self.number, None) is not None:
            reason = "" if exc is None else str(exc) or type(exc).__name__
            self.shell.step(effects.Closed(self.number, reason))

    # -- effects ---------------------------------------------------------------------------------------------

    def write(self, buffers: list[bytes]) -> None:
        if not self.transport.is_closing():
            if len(buffers) == 1:
                self.transport.write(buffers[0])
            else:
                self.transport.writelines(buffers)

    def end(self, how: Ending) -> None:
        transport = self.transport
        if how is Ending.ABORT:
            transport.abort()
        elif how is Ending.SHUT and transport.can_write_eof():
            if not transport.is_closing():
                try:
                    transport.write_eof()
                except OSError:
                    transport.abort()  # it is gone, and we have not heard of it yet
        elif how is Ending.CLOSE:
            transport.close()
            # A peer that does not read keeps a closing transport open for ever.
            asyncio.get_running_loop().call_later(ABORT_S, transport.abort)

    def hold(self, on: bool) -> None:
        self._is_held = on
        self._read_or_not()

    def _read_or_not(self) -> None:
        if not self.transport.is_closing():
            if self._is_held or self._is_resting:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()


class Local:
    """A client in this process: `take` gets what the broker writes to it, `ended` and `resumed` hear what it does."""

    def __init__(
        self,
        shell: Broker,
        take: Callable[[bytes], None],
        ended: Callable[[], None],
        resumed: Callable[[], None],
    ) -> None:
        self.number = shell.next_connection()
        self.is_held = False
        self._shell, self._take, self._ended, self._resumed = shell, take, ended, resumed
        self._is_open = True

    def open(self, permissions: Permissions, peer: str) -> None:
        """Begin; the broker greets it."""
        self._shell.streams[self.number] = self
        self._shell.step(effects.Attached(self.number, peer, permissions))

    def send(self, data: bytes) -> None:
        """Say something."""
        if self._is_open:
            self._shell.step(effects.Received(self.number, data))

    def close(self) -> None:
        """End it."""
        if self._is_open:
            self._is_open = False
            self._shell.streams.pop(self.number, None)
            self._shell.step(effects.Closed(self.number, ""))

    def write(self, buffers: list[bytes]) -> None:
        self._take(buffers[0] if len(buffers) == 1 else b"".join(buffers))

    def end(self, how: Ending) -> None:
        if self._is_open:
            self.close()
            self._ended()

    def hold(self, on: bool) -> None:
        self.is_held = on
        if not on:
            self._resumed()


class Broker:
    """One broker on the network: `async with Broker(config) as broker` runs it.

    `listening` is a socket that listens already, if somebody else has opened it.
    """

    def __init__(self, config: BrokerConfig, listening: socket.socket | None = None) -> None:
        self._config = config
        self._listening = listening
        self._directory = Path(config.data_dir) if config.data_dir else None
        security = Security(config.security, config.host)
        self._log: SqliteLog | None = None
        self.incarnation = secrets.randbits(63)
        self.core = BrokerCore(
            config,
            security,
            BARE if self._directory is None else load_state(self._directory),
            incarnation=self.incarnation,
            random=random.Random(secrets.randbits(64)),
            now=_now(),
            descriptors=_descriptors(),
        )
        self.streams: dict[int, Any] = {}  # _Arriving, then _Stream, or a visitor of the HTTP door; or Local
        self._last_connection = 0
        self._inputs: deque[Input] = deque()
        self.arrived: dict[int, bytes] = {}  # small reads of this turn of the loop, one of each connection
        self._is_stepping = False
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0  # when it rings; uvloop's handle of a very short delay does not know
        self.is_ticking = False  # a turn is on its way
        self._joining = Joining()
        self._reads = 0  # small ones of sockets since the last turn, that do not wait for the next one
        self.turns = 0  # so far
        self.after_work: Callable[[], object] = _no_work  # called after turns in which there was work
        self.taken = 0  # bytes by large reads of sockets, since the last time that all could be read
        self._resting: list[_Stream] = []  # that are not read until all others had their turn
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: list[Asked] = []  # of the log, in this turn of the loop
        self._passwords = ThreadPoolExecutor(CHECKS, "covey-password", initializer=_give_way)
        self._shown: dict[
            int, asyncio.Future[Permissions]
        ] = {}  # requests over HTTP that wait to be admitted
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self.listener: Listener | None = None
        self._arrivals, self._handshakes = Pace(ARRIVALS), Pace(HANDSHAKES)
        self.latencies = Latencies()
        self._asked_s = 0.0  # when the turn that is on its way was asked for, by the first read
        self.introspection = Introspection(self.core, lambda: f"{config.host}:{self.port}", self.latencies)
        self.admin: Any = None

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def next_connection(self) -> int:
        """Return a number that no connection has had."""
        self._last_connection += 1
        return self._last_connection

    # -- the machine -----------------------------------------------------------------------------------------

    def step(self, given: Input) -> None:
        """Give the core an input and carry out what it asks for; what happens meanwhile is given after that."""
        if self.arrived:  # before it
            self._inputs += [effects.Received(number, data) for number, data in self.arrived.items()]
            self._reads += len(self.arrived)
            self.arrived = {}
        self._inputs.append(given)
        if not self._is_stepping:
            self._go_on()

    def _go_on(self) -> None:
        self._is_stepping = True
        try:
            while self._inputs:
                self._carry_out(self.core.step(self._inputs.popleft(), _now()))
        finally:  # also after a mistake of ours: the broker's clock must go on
            self._is_stepping = False
            if self._timer is None or not self.core.calm_until_s:
                self._set_timer()  # otherwise events were passed through, and the timer is right

    def _carry_out(self, some: Sequence[Effect]) -> None:
        """Carry out effects. If one fails by a mistake of ours, that is logged and the others are carried out."""
        for effect in some:
            try:
                if type(effect) is _WRITE:  # as most are
                    stream = self.streams.get(effect.connection)
                    if stream is not None:
                        stream.write(effect.buffers)
                else:
                    _CARRY_OUT[type(effect)](self, effect)
            except Exception:
                log.exception("internal error while carrying out %s", type(effect).__name__)

    def _set_timer(self) -> None:
        if self.is_ticking:
            return  # a Tick is on its way, and after it this is asked again
        deadline_s = self.core.deadline()
        if deadline_s is None:
            return
        now_s = time.monotonic()
        if deadline_s <= now_s:
            self.tick_soon()
        elif self._timer is None or deadline_s < self._timer_s - 0.001:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_s = deadline_s
            self._timer = self._loop.call_later(deadline_s - now_s, self._wake)

    def rests(self, stream: _Stream) -> None:
        """A stream was read for long: it is read again in the next turn of the loop, as others are."""
        if not self._resting:
            self._loop.call_soon(self._read_again)
        self._resting.append(stream)

    def _read_again(self) -> None:
        resting, self._resting, self.taken = self._resting, [], 0
        for stream in resting:
            stream.go_on()

    def tick_soon(self) -> None:
        """Have a turn after all sockets that have something were read: what they say is handled together."""
        self.is_ticking = True
        self._asked_s = time.monotonic()
        self._loop.call_soon(self._tick)

    def _wake(self) -> None:
        self._timer = None
        self.step(effects.Tick())

    def _tick(self) -> None:
        self.is_ticking = False
        self.turns += 1
        self.taken = 0
        began_s, arrived, joining = time.monotonic(), self.arrived, self._joining
        joining.reads += self._reads + len(arrived)
        joining.turns += 1
        self._reads = 0
        if arrived:
            self.arrived = {}
            self._inputs.append(effects.Arrived(arrived))
        else:
            self._inputs.append(effects.Tick())
        asked_s = self._asked_s
        self._go_on()
        if not self.core.calm_until_s:  # there is more to do than to pass events through
            self.after_work()
        self.latencies.hop.observe(time.monotonic() - asked_s)
        if not self.is_ticking and began_s >= joining.look_s:
            pause_s = joining.pause_s(began_s, time.monotonic())
            if pause_s > 0:
                # What was written is sent before that, and afterwards all sockets that have something are read.
                self.is_ticking = True
                self._loop.call_soon(self._pause, pause_s)

    def _pause(self, pause_s: float) -> None:
        time.sleep(pause_s)
        self._asked_s = time.monotonic()
        self._loop.call_soon(self._tick)

    # -- effects ---------------------------------------------------------------------------------------------

    def _hold(self, effect: effects.Hold) -> None:
        stream = self.streams.get(effect.connection)
        if stream is not None:
            stream.hold(True)

    def _resume(self, effect: effects.Resume) -> None:
        stream = self.streams.get(effect.connection)
        if stream is not None:
            stream.hold(False)

    def _end(self, effect: effects.End) -> None:
        stream = self.streams.get(effect.connection)
        if stream is not None:
            stream.end(effect.how)

    def _dial(self, effect: effects.Dial) -> None:
        self._run(self._reach(effect.link))

    async def _reach(self, link: LinkConfig) -> None:
        contexts = self.core.security.contexts
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._loop.create_connection(
                    lambda: _Stream(self, self.next_connection(), link.name),
                    link.host,
                    link.port,
                    ssl=None if contexts is None else contexts.dial,
                )
        except (OSError, TimeoutError) as error:
            self.step(effects.DialFailed(link.name, str(error) or type(error).__name__))

    def _verify(self, effect: effects.Verify) -> None:
        self._run(self._check(effect))

    async def _check(self, effect: effects.Verify) -> None:
        is_right = await self._loop.run_in_executor(
            self._passwords, check_password, effect.password, effect.expected
        )
        self.step(effects.Verified(effect.check, is_right))

    # -- streams that others open ----------------------------------------------------------------------------

    def arrive(
        self,
        stream: socket.socket,
        address: Any,
        make: Callable[[int], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Take in a stream that was accepted; `make` gives its protocol, from its number."""
        number = self.next_connection()
        arriving = self.streams[number] = _Arriving()
        self.step(effects.Knocked(number, _host_of(address)))

        async def take_in() -> None:
            await (self._arrivals if tls is None else self._handshakes).turn()
            with contextlib.suppress(OSError):
                await self._loop.connect_accepted_socket(
                    lambda: make(number),
                    stream,
                    ssl=tls,
                    ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
                )

        def done(task: asyncio.Task[None]) -> None:
            if self.streams.get(number) is arriving:  # it never came: TLS failed, or it had to go before
                stream.close()
                self.closed(number)

        arriving.task = self._run(take_in())
        arriving.task.add_done_callback(done)

    def is_expected(self, number: int) -> bool:
        """Return whether a stream that arrives is to be there: it may have had to go meanwhile."""
        arriving = self.streams.get(number)
        return isinstance(arriving, _Arriving) and not arriving.has_to_go

    def opened(self, number: int, stream: Any) -> bool:
        """A stream of the HTTP door is there; return whether it is to be."""
        if not self.is_expected(number):
            return False
        self.streams[number] = stream
        return True

    def closed(self, number: int) -> None:
        """A stream that is none of our protocol is gone."""
        if self.streams.pop(number, None) is not None:
            self.step(effects.Closed(number, ""))
        waiting = self._shown.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(LinkError("the peer has gone"))

    def turned_away(self, reason: str) -> None:
        """Count a request over HTTP that was refused."""
        self.step(effects.TurnedAway(reason))

    async def show(self, number: int, host: str, shown: Shown) -> Permissions:
        """Return what a request over HTTP may do; AccessError or BusyError if nothing."""
        return await self._answer_to(number, effects.Showed(number, host, shown))

    async def operate(self, number: int) -> None:
        """Give a request over HTTP a place for operators; BusyError if there is none."""
        await self._answer_to(number, effects.Operated(number))

    async def _answer_to(self, number: int, given: effects.Showed | effects.Operated) -> Permissions:
        waiting: asyncio.Future[Permissions] = self._loop.create_future()
        self._shown[number] = waiting
        self.step(given)
        return await waiting

    def _admitted(self, effect: effects.Admitted) -> None:
        waiting = self._shown.pop(effect.connection, None)
        if waiting is not None and not waiting.done():
            if effect.error is None:
                waiting.set_result(effect.permissions)
            else:
                waiting.set_exception(effect.error)

    def attach(
        self, take: Callable[[bytes], None], ended: Callable[[], None], resumed: Callable[[], None]
    ) -> Local:
        """Return a connection of a client in this process; see `Local`."""
        return Local(self, take, ended, resumed)

    def _run(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _commit(self, effect: effects.Commit) -> None:
        if not self.latencies.waits_for_commit and effect.batch.keeps:
            self.latencies.commit_begins(effect.batch.ticket, time.monotonic())
        self._ask_log(effect.batch)

    def _ask_log(self, asked: Asked) -> None:
        # Once a turn: whenever the log's thread is woken, the two take turns, and both wait.
        if not self._asked:
            self._loop.call_soon(self._hand_over)
        self._asked.append(asked)

    def _hand_over(self) -> None:
        if self._asked and self._log is not None:
            asked, self._asked = self._asked, []
            self._log.submit(asked)

    def _report(self, answers: Sequence[Answer]) -> None:
        """Hear from the log, in its own thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
            self._loop.call_soon_threadsafe(self._answered, tuple(answers))

    def _answered(self, answers: tuple[Answer, ...]) -> None:
        for one in answers:
            if isinstance(one, Committed):
                self.latencies.committed(one.tickets, time.monotonic())
        self.step(effects.Answered(answers))

    def _keep_plans(self, effect: effects.KeepPlans) -> None:
        directory = self._directory
        if directory is None:
            self.step(effects.PlansKept())
            return

        async def keep() -> None:
            error = ""
            try:
                await self._loop.run_in_executor(None, keep_state, directory, effect.state)
            except OSError as problem:
                error = problem.strerror or str(problem)
            self.step(effects.PlansKept(error))

        self._run(keep())

    def _write_samples(self, effect: effects.WriteSamples) -> None:
        async def write() -> None:
            error = ""
            try:
                await self._loop.run_in_executor(None, effect.work)
            except (OSError, CoveyError) as problem:
                error = str(problem)
            self.step(effects.SamplesWritten(error))

        self._run(write())

    def _stop_listening(self, effect: effects.StopListening) -> None:
        if self.listener is not None:
            self.listener.close()

    def _stop(self, effect: effects.Stop) -> None:
        self._stopped.set()

    def _log_event(self, effect: effects.Log) -> None:
        self.say(effect.level, effect.event, **effect.fields)

    def say(self, level: int, event: str, /, **fields: object) -> None:
        """Log an event of this broker's life."""
        say(log, level, event, broker=self._config.name, **fields)

    # -- life ------------------------------------------------------------------------------------------------

    @property
    def config(self) -> BrokerConfig:
        """The settings in force."""
        return self.core.config

    @property
    def security(self) -> Security:
        """Who may come in."""
        return self.core.security

    def reconfigure(self, config: BrokerConfig) -> list[str]:
        """Take what can be taken of another configuration; return a line for each setting that cannot.

        ConfigError, and nothing is changed, if anything is wrong with it.
        """
        security = self.security.renewed(config.security, self.config.host)
        _, refused = changed(self.config, config)
        self.step(effects.Configured(config, security))
        logging.getLogger("covey").setLevel(self.config.log_level.upper())
        return [f"{name} cannot change while the broker runs: restart it for that" for name in refused]

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self.listener is not None
        return self.listener.port

    @property
    def is_ready(self) -> bool:
        """Whether it listens and has compared tables with its neighbours, or has waited a lease for them."""
        return self.listener is not None and self.core.is_ready(time.monotonic())

    async def start(self) -> None:
        """Listen, and dial the neighbours; what must be compiled is compiled before."""
        self._loop = asyncio.get_running_loop()
        self.say(logging.INFO, "start", version=__version__)
        warming = self._loop.run_in_executor(None, warm_up)
        if not (await asyncio.wait({warming}, timeout=SILENCE_S))[0]:
            self.say(logging.INFO, "compiling", hint="about a minute, once; covey compile does it ahead")
        await warming
        config = self._config
        if self._directory is not None:
            self._open_log(self._directory)
        contexts = self.core.security.contexts
        tls, make = None if contexts is None else contexts.listen, partial(_Stream, self)
        try:
            sockets = [self._listening] if self._listening else await bound_sockets(config.host, config.port)
        except OSError as error:
            raise CoveyError(
                f"broker {config.name} cannot listen on {config.host}:{config.port}: {error.strerror or error}"
            ) from None
        # Before anybody is let in: whoever publishes must not find a broker that knows of no neighbours yet.
        self._carry_out(self.core.start(_now()))
        self._set_timer()
        self.listener = Listener(
            sockets, lambda stream, address: self.arrive(stream, address, make, tls), self.say
        )
        self.say(logging.INFO, "listening", host=config.host, port=self.port, strategy=config.strategy)
        if config.admin is not None:
            from covey.broker.http.admin import Admin  # aiohttp takes its time
            from covey.broker.http.events import gateway_of

            self.admin = Admin(self, self.introspection, config.admin, self.step, contexts, gateway_of(self))
            await self.admin.start()

    def _open_log(self, directory: Path) -> None:
        """Open the log and have the core take up what is in it; ConfigError if it cannot be used."""
        config = self._config
        self._log = SqliteLog(directory / "store.db", config.name, config.max_store_bytes)
        recovered = self._log.open()
        self._log.start(self._report)
        self._carry_out(self.core.recovered(recovered, _now()))
        self._set_timer()

    def install(self, plan: bytes, **settings: float) -> Installation:
        """Begin to install a plan, its file; b"" is none. PlanError if it cannot be, or one is under way."""
        self.step(effects.Install(plan, **settings))
        assert self.core.plans.installation is not None, "which has begun"
        return self.core.plans.installation

    def roll_back(self) -> None:
        """Take back the plan that was installed here last; PlanError if that cannot be."""
        self.step(effects.RollBack())

    async def drain(self, within_s: float, spread_s: float = 0.0) -> None:
        """Send what waits, end every link and listen no more; `spread_s` is over how long clients are sent away."""
        if not self._stopped.is_set():
            self.step(effects.Drain(within_s, spread_s))
            await self._stopped.wait()

    def abort(self) -> None:
        """End every link at once; who drains is done then."""
        self.step(effects.Abort())

    async def stop(self, within_s: float = STOP_S) -> None:
        """Drain, and give back everything."""
        await self.drain(within_s)
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._passwords.shutdown(wait=False, cancel_futures=True)
        if self.admin is not None:
            await self.admin.stop()
        if self._log is not None:
            self._hand_over()
            await self._loop.run_in_executor(None, self._log.close)


def _descriptors() -> int | None:
    """Return how many descriptors this process may have, None for any number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _host_of(address: Any) -> str:
    """Return where a peer is, without its port."""
    return str(address[0]) if isinstance(address, tuple) else str(address or "")


def _no_work() -> None:
    pass


def _give_way() -> None:
    """Let this thread run only while the event loop has nothing to do, where that can be had."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _now() -> Instant:
    return Instant(time.monotonic(), time.time())


_WRITE: Final = effects.Write
_CARRY_OUT: Final[dict[type, Callable[[Broker, Any], None]]] = {
    effects.Hold: Broker._hold,
    effects.Resume: Broker._resume,
    effects.End: Broker._end,
    effects.Dial: Broker._dial,
    effects.Admitted: Broker._admitted,
    effects.Verify: Broker._verify,
    effects.Commit: Broker._commit,
    Fetch: Broker._ask_log,
    Find: Broker._ask_log,
    effects.KeepPlans: Broker._keep_plans,
    effects.WriteSamples: Broker._write_samples,
    effects.StopListening: Broker._stop_listening,
    effects.Stop: Broker._stop,
    effects.Log: Broker._log_event,
}
