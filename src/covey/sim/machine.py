"""Machine: one broker in a simulation: its core while it runs, and the disk that outlives it.

It is to a simulated broker what `broker.server` is to a live one: it gives the core inputs and carries out the effects,
with the duties that `broker.effects` lists, and decides nothing. A machine can hang, so that what comes waits, and be
killed, so that what is not on its disk is lost; started again, it begins another life with what is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from covey.broker import effects
from covey.broker.config import BrokerConfig, LinkConfig
from covey.broker.core import BrokerCore
from covey.broker.durable.log import Asked, Fetch, Find
from covey.broker.effects import Effect, Input, Instant
from covey.broker.security import Security
from covey.errors import ConfigError
from covey.protocol.control import BARE, OURS, PlanState
from covey.protocol.frames import STORES
from covey.sim.disk import Disk, DiskLog
from covey.sim.engine import Engine
from covey.sim.streams import End, Streams

WALL_S: Final = 1.8e9  # what clocks on walls show when a simulation begins
KEEPING_S: Final = (0.0, 0.001, 0.01, 0.1)  # that a disk takes for the plans, one of them

Observer = Callable[[str, Input | Effect], None]  # the broker, and what went into its core or came out of it


class Clock:
    """The clocks of a machine: one that measures, a little too fast or slow, and one on the wall, which can be set."""

    def __init__(self, rate: float = 1.0) -> None:
        self._rate, self._origin_s = rate, 0.0
        self.ahead_s = 0.0  # how far the one on the wall is ahead of the true time

    def show(self, true_s: float) -> Instant:
        """Return what the clocks show at a time of the simulation."""
        return Instant(self._origin_s + self._rate * true_s, WALL_S + true_s + self.ahead_s)

    def true_s(self, monotonic_s: float) -> float:
        """Return when the clock that measures shows so many seconds, or a moment later."""
        if self._rate == 1.0 and not self._origin_s:
            return monotonic_s
        return (monotonic_s - self._origin_s) / self._rate + 1e-6

    def jump(self, by_s: float) -> None:
        """Set the clock on the wall."""
        self.ahead_s += by_s

    def reboot(self, true_s: float, shows_s: float) -> None:
        """Let the clock that measures begin anew, as it does when the machine does; the one on the wall goes on."""
        self._origin_s = shows_s - self._rate * true_s


class Machine:
    """One broker; see the module's text. `disk_s` draws how long its disk takes, `dial` has it dial a neighbour.

    What arrives within `turn_s` seconds is one input (Arrived), as in a server; if that is 0, each read is one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        engine: Engine,
        streams: Streams,
        random: Random,
        disk_s: Callable[[], float],
        dial: Callable[[Machine, LinkConfig], None],
        observer: Observer | None = None,
        clock: Clock | None = None,
        turn_s: float = 0.0,
    ) -> None:
        self.name, self.config = config.name, config
        self.clock = clock or Clock()
        self.disk = Disk()
        self.plans: PlanState = BARE  # on disk, too
        self.versions = OURS  # of the protocol, that it speaks from its next start on
        self.core: BrokerCore
        self.is_up = self.is_hung = self.is_listening = False
        self.life = 0
        self.ends: dict[int, End] = {}
        self.log: list[effects.Log] = []
        self._engine, self._streams, self._random = engine, streams, random
        self._disk_s, self._dial_neighbour, self._observer = disk_s, dial, observer
        self._disk_log: DiskLog
        self._effects_left = -1  # until it is killed; negative: it is not
        self._batches_left = -1  # for its disk, until it is killed while one is written; negative: it is not
        self.ran_s = 0.0  # when it ran last, if it is down or hangs
        self.torn = 0  # writes that the end of a life has torn
        self._inputs: deque[Input] = deque()
        self._turn_s = turn_s
        self._arrived: dict[int, bytes] = {}  # in this turn, by connection
        self._is_carrying_out = False  # what happens meanwhile is given after that
        self._timer_s: float | None = None
        self._reported_s = 0.0  # when the last answer of the disk is heard
        self._last_connection = 0

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a life with what is on disk."""
        self.life += 1
        self.is_up, self.is_listening, self.is_hung = True, True, False
        self._effects_left = self._batches_left = -1
        self._inputs.clear()
        self._arrived.clear()
        self._timer_s = None
        self.core = BrokerCore(
            self.config,
            Security(self.config.security, self.config.host),
            self.plans,
            incarnation=self._random.getrandbits(63),
            random=Random(self._random.getrandbits(64)),
            now=self.now(),
            versions=self.versions,
        )
        self._disk_log = DiskLog(self.disk, self.config.max_store_bytes)
        if self.config.data_dir:
            self._carry_out(self.core.recovered(self._disk_log.open(), self.now()))
        self._carry_out(self.core.start(self.now()))
        self._go()

    def kill(self, after: int = 0) -> None:
        """End at once, or after so many more effects: everyone connected notices; what is not on disk is lost."""
        if after or not self.is_up:
            self._effects_left = after
            return
        was_hung = self.is_hung
        self.is_up = self.is_listening = self.is_hung = False
        self.ran_s = self.ran_s if was_hung else self._engine.now_s
        self.torn += self._disk_log.tear()
        ends, self.ends = self.ends, {}
        for end in ends.values():
            self._streams.drop(end)

    def tear(self, batch: int) -> None:
        """End while a batch is being written, that many batches from now: its write is torn."""
        if self.is_up:
            self._batches_left = batch

    @property
    def is_doomed(self) -> bool:
        """Whether it is to be killed after some more effects, or writes."""
        return self.is_up and (self._effects_left > 0 or self._batches_left > 0)

    def hang(self) -> None:
        """Do nothing, while what comes waits."""
        if not self.is_hung:
            self.is_hung, self.ran_s = True, self._engine.now_s

    def go_on(self) -> None:
        """Take what has come meanwhile: first what was said, then what the disk answers, then the time."""
        if self.is_hung:
            self.is_hung = False
            for end in list(self.ends.values()):
                self._streams.read(end)
            self._report(self.life)
            self._write_mark(self.life)
            self._give(effects.Tick())

    def now(self) -> Instant:
        """Return what its clocks show."""
        return self.clock.show(self._engine.now_s)

    def connect(self) -> int:
        """Return the number of a new connection."""
        self._last_connection += 1
        return self._last_connection

    @property
    def used_bytes(self) -> int:
        """How many bytes of events are on its disk."""
        return self._disk_log.room().used_bytes

    def tells_of_its_store(self, other: Machine) -> bool:
        """Return whether it speaks a version with another broker in which they tell each other of their stores."""
        version = self.versions.common(other.versions)
        return version is not None and version >= STORES

    def opened(self, end: End, peer: str, dialled: str = "") -> None:
        """There is a new connection."""
        self.ends[end.number] = end
        self._give(effects.Opened(end.number, peer, peer, dialled=dialled))

    def dial_failed(self, neighbour: str, reason: str) -> None:
        """A neighbour cannot be reached."""
        self._give(effects.DialFailed(neighbour, reason))

    def configure(self, config: BrokerConfig) -> None:
        """Take what can be of other settings, at once if the broker runs and otherwise when it starts."""
        self.config = config
        if self.is_up:
            security = self.core.security.renewed(config.security, config.host)
            self._give(effects.Configured(config, security))

    def do(self, given: Input) -> None:
        """Give the core an input at once; what it raises is the caller's, ConfigError if the broker does not run."""
        if not self.is_up or self.is_hung:
            raise ConfigError(f"the broker {self.name} does not run")
        self._take_arrived()
        self._go()
        self._observe(given)
        self._carry_out(self.core.step(given, self.now()))
        self._go()

    # -- what its streams say --------------------------------------------------------------------------------

    @property
    def is_reading(self) -> bool:
        """Whether it takes what arrives."""
        return self.is_up and not self.is_hung

    def received(self, number: int, data: bytes) -> None:
        """Bytes have come."""
        if not self._turn_s:
            self._give(effects.Received(number, data))
            return
        if not self._arrived:
            self._engine.at(self._engine.now_s + self._turn_s, self._turn, self.life)
        self._arrived[number] = self._arrived.get(number, b"") + data

    def _turn(self, life: int) -> None:
        """Give the core what has arrived, unless something else came before the end of the turn."""
        if life == self.life and self.is_reading and self._arrived:
            arrived, self._arrived = self._arrived, {}
            self._inputs.append(effects.Arrived(arrived))
            self._go()

    def _take_arrived(self) -> None:
        """Put what has arrived before an input that comes now, as a server does."""
        self._inputs += [effects.Received(number, data) for number, data in self._arrived.items()]
        self._arrived = {}

    def heard_eof(self, number: int) -> None:
        """A peer sends nothing more."""
        self._give(effects.HeardEof(number))

    def closed(self, number: int, reason: str) -> None:
        """A stream is gone."""
        if self.ends.pop(number, None) is not None:
            self._give(effects.Closed(number, reason))

    def paused(self, number: int, is_paused: bool) -> None:
        """A stream holds enough, or takes more again."""
        if number in self.ends:
            self._give(effects.Paused(number) if is_paused else effects.Writable(number))

    # -- the core --------------------------------------------------------------------------------------------

    def _give(self, given: Input) -> None:
        """Give the core an input, after those that wait."""
        if self.is_up:
            self._take_arrived()
            self._inputs.append(given)
            self._go()

    def _go(self) -> None:
        while self._inputs and self.is_reading and not self._is_carrying_out:
            one = self._inputs.popleft()
            self._observe(one)
            self._carry_out(self.core.step(one, self.now()))

    def _observe(self, one: Input | Effect) -> None:
        if self._observer is not None:
            self._observer(self.name, one)

    def _carry_out(self, some: list[Effect]) -> None:
        self._is_carrying_out = True
        try:
            for effect in some:
                self._observe(effect)
                _CARRY_OUT[type(effect)](self, effect)
                self._effects_left -= 1
                if self._effects_left == 0:
                    self.kill()
                if not self.is_up:
                    break
        finally:
            self._is_carrying_out = False
        self._set_timer()

    def _set_timer(self) -> None:
        deadline_s = self.core.deadline() if self.is_up else None
        if deadline_s is not None:
            due_s = max(self.clock.true_s(deadline_s), self._engine.now_s)
            if self._timer_s is None or due_s < self._timer_s:
                self._timer_s = due_s
                self._engine.at(due_s, self._tick, due_s, self.life)

    def _tick(self, due_s: float, life: int) -> None:
        if self._timer_s == due_s and life == self.life:
            self._timer_s = None
            if not self.is_hung:
                self._give(effects.Tick())

    # -- effects ---------------------------------------------------------------------------------------------

    def _write(self, effect: effects.Write) -> None:
        if effect.connection in self.ends:
            self._streams.write(self.ends[effect.connection], b"".join(effect.buffers))

    def _hold(self, effect: effects.Hold) -> None:
        if effect.connection in self.ends:
            self._streams.hold(self.ends[effect.connection], True)

    def _resume(self, effect: effects.Resume) -> None:
        if effect.connection in self.ends:
            self._streams.hold(self.ends[effect.connection], False)

    def _end(self, effect: effects.End) -> None:
        if effect.connection in self.ends:
            self._streams.end(self.ends[effect.connection], effect.how)

    def _dial(self, effect: effects.Dial) -> None:
        self._dial_neighbour(self, effect.link)

    def _admitted(self, effect: effects.Admitted) -> None:
        raise AssertionError("nobody speaks HTTP in a simulation")

    def _verify(self, effect: effects.Verify) -> None:
        raise AssertionError("clients of a simulation show no passwords")

    def _commit(self, effect: effects.Commit) -> None:
        self._ask_disk(effect.batch)
        self._batches_left -= 1
        if self._batches_left == 0:
            self.kill()

    def _ask_disk(self, asked: Asked) -> None:
        if self._disk_log.is_idle:
            self._engine.at(self._engine.now_s + self._disk_s(), self._report, self.life)
        self._disk_log.submit([asked])

    def _report(self, life: int) -> None:
        """Let the disk answer; a broker that hangs, with the thread of its log, is answered when it goes on."""
        if self.is_reading and life == self.life and not self._disk_log.is_idle:
            # A broker that is killed in between has on disk what it does not know of.
            answers = tuple(self._disk_log.answers(self._engine.now_s))
            self._write_mark(life)
            self._reported_s = max(self._reported_s, self._engine.now_s + self._disk_s())
            self._engine.at(self._reported_s, self._reported, answers, life)

    def _write_mark(self, life: int) -> None:
        """Bring the mark of the log up to date, now or when that is due."""
        if self.is_reading and life == self.life:
            due_s = self._disk_log.write_mark(self._engine.now_s)
            if due_s is not None:
                self._engine.at(due_s, self._write_mark, life)

    def _reported(self, answers: tuple[Any, ...], life: int) -> None:
        if life == self.life:
            self._give(effects.Answered(answers))

    def _keep_plans(self, effect: effects.KeepPlans) -> None:
        if not self.config.data_dir:
            self._give(effects.PlansKept())
            return
        # Other draws of the network do not depend on it.
        random = Random(f"{self.config.name} {self.life} {effect.state.version}")
        self._engine.at(
            self._engine.now_s + random.choice(KEEPING_S), self._plans_kept, effect.state, self.life
        )

    def _plans_kept(self, state: PlanState, life: int) -> None:
        """The plans are on disk; a broker that hangs hears of it when it goes on."""
        if life == self.life and self.is_up:
            self.plans = state
            self._give(effects.PlansKept())

    def _write_samples(self, effect: effects.WriteSamples) -> None:
        self._give(effects.SamplesWritten())

    def _stop_listening(self, effect: effects.StopListening) -> None:
        self.is_listening = False

    def _stop(self, effect: effects.Stop) -> None:
        if self.config.data_dir and self._disk_log.is_idle:
            self._disk_log.close()
        self.kill()

    def _log_event(self, effect: effects.Log) -> None:
        self.log.append(effect)


_CARRY_OUT: Final[dict[type, Callable[[Machine, Any], None]]] = {
    effects.Write: Machine._write,
    effects.Hold: Machine._hold,
    effects.Resume: Machine._resume,
    effects.End: Machine._end,
    effects.Dial: Machine._dial,
    effects.Admitted: Machine._admitted,
    effects.Verify: Machine._verify,
    effects.Commit: Machine._commit,
    Fetch: Machine._ask_disk,
    Find: Machine._ask_disk,
    effects.KeepPlans: Machine._keep_plans,
    effects.WriteSamples: Machine._write_samples,
    effects.StopListening: Machine._stop_listening,
    effects.Stop: Machine._stop,
    effects.Log: Machine._log_event,
}
