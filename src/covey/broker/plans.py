"""Installing a plan, step by step, as the broker that was asked to does it.

    asked      a version with the plan under a new epoch, told to everyone
    ready      every broker of the plan has said that its tables are complete
    probed     a probe in the new epoch has come back: what those tables caused on their way is in force too
    switched   a version whose current epoch is the new one, told to everyone
    retired    after a grace, in which what set out before has arrived: a version without the old plan

The overlay's own epoch is never retired. If some broker is not ready in time, the plan is taken back, and the reason
names who was missing. Until the old plan is retired, `roll_back` switches back to it, and retires the new one after the
grace instead.


What is installed, kept over a restart: one small file in the data directory.

The file is a checksum and the state, as brokers tell it to each other. It is replaced as a whole. One that cannot be
read is an error and not a fresh start: a broker that forgot its plan would tell its neighbours nothing new, and learn
the plan from them, but the operator should know that a disk forgets.


Plans at one broker: what is installed is learnt, passed on, kept and followed.

A newer state is passed on before anything is said in its epochs, and links are FIFO: nobody hears of an epoch that it
does not know yet. When the current epoch changes, what clients publish waits until a probe in the old one has come
back. By then everything that set out there has arrived, and a publisher's events stay in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from covey.broker.epochs import Epochs, Outputs
from covey.broker.neighbours import Neighbour
from covey.broker.private_files import opener
from covey.errors import ConfigError, PlanError, ProtocolError
from covey.planning.plan import Plan
from covey.protocol.control import (
    BARE,
    LAST_EPOCH,
    MOST_EPOCHS,
    PlanMessage,
    PlanState,
    Ready,
    decode_plan,
    encode_plan,
)
from covey.protocol.frames import Kind
from covey.routing.messages import Link, LinkUp, Probe


class Step(Enum):
    """How far an installation has come."""

    WAITING = "waits until all brokers are ready"
    PROBING = "waits until the tables are in force"
    SWITCHED = "switched; the old plan is kept for a while"
    BACK = "switched back; the plan is kept until what set out in it has arrived"
    DONE = "done"
    FAILED = "failed"


class Installation:
    """One plan on its way in. Each step returns the state to be told to everyone, or None if nothing changes."""

    def __init__(
        self, state: PlanState, broker: str, plan: bytes, now_s: float, *, patience_s: float, grace_s: float
    ) -> None:
        decoded = Plan.decode(plan) if plan else None
        if len(state.plans) >= MOST_EPOCHS:
            raise PlanError(f"{len(state.plans)} plans are installed; {MOST_EPOCHS} are the most at one time")
        self.broker = broker
        self.before = state.current
        self.epoch = 0 if max(state.plans) >= LAST_EPOCH else max(state.plans) + 1
        self.step = Step.WAITING
        self.reason = ""
        self.probe = ""  # that asks whether the tables are in force
        self.missing = set(decoded.brokers) if decoded is not None else {broker}
        self._until_s = now_s + patience_s
        self._grace_s = grace_s
        self.state = self._next(state, state.current, {**state.plans, self.epoch: plan})

    def _next(self, state: PlanState, current: int, plans: dict[int, bytes]) -> PlanState:
        return PlanState(state.version + 1, self.broker, current, plans)

    @property
    def is_under_way(self) -> bool:
        """Whether something is still to come."""
        return self.step not in (Step.DONE, Step.FAILED)

    def overtaken(self, author: str) -> None:
        """Another broker has installed something meanwhile."""
        if self.is_under_way:
            self.step, self.reason = Step.FAILED, f"broker {author} has installed another plan meanwhile"

    def ready(self, broker: str) -> bool:
        """Note a broker that is ready; return whether it is time to probe the new epoch."""
        if self.step is not Step.WAITING:
            return False
        self.missing.discard(broker)
        if self.missing:
            return False
        self.step = Step.PROBING
        return True

    def probed(self, now_s: float) -> PlanState | None:
        """The probe has come back: switch."""
        if self.step is not Step.PROBING:
            return None
        self.step = Step.SWITCHED
        self._until_s = now_s + self._grace_s
        self.state = self._next(self.state, self.epoch, self.state.plans)
        return self.state

    def tick(self, now_s: float) -> PlanState | None:
        """Time passes: give up, or retire the old epoch."""
        if now_s < self._until_s or not self.is_under_way:
            return None
        if self.step in (Step.SWITCHED, Step.BACK):
            switched = self.step is Step.SWITCHED
            self.step = Step.DONE if switched else Step.FAILED
            gone = self.before if switched else self.epoch
            # The overlay's own epoch stays: confirmed events travel in it, and it is there when a plan is not.
            plans = {epoch: plan for epoch, plan in self.state.plans.items() if epoch != gone or not plan}
            if plans == self.state.plans:
                return None
            self.state = self._next(self.state, self.state.current, plans)
            return self.state
        missing = ", ".join(sorted(self.missing)[:5]) or "the probe's echo"
        return self._take_back(f"not ready in time: {missing}", now_s)

    def roll_back(self, now_s: float) -> PlanState:
        """Switch back to what was before; PlanError if that is gone."""
        if self.step is Step.DONE:
            raise PlanError("the plan before is retired (hint: install it again)")
        if self.step in (Step.BACK, Step.FAILED):
            raise PlanError(f"the plan is taken back already: {self.reason}")
        return self._take_back("rolled back", now_s)

    def _take_back(self, reason: str, now_s: float) -> PlanState:
        self.reason = reason
        plans = dict(self.state.plans)
        if self.step is Step.SWITCHED:
            self.step, self._until_s = Step.BACK, now_s + self._grace_s
        else:
            self.step = Step.FAILED
            del plans[self.epoch]  # in which nothing has set out
        self.state = self._next(self.state, self.before, plans)
        return self.state


FILE: Final = "plans.bin"
_SUM: Final = 16  # bytes of the checksum
MOST_BYTES: Final = 256 << 20


def load_state(directory: Path) -> PlanState:
    """Return the state that was kept there, the bare one if none was; ConfigError if it is damaged."""
    file = directory / FILE
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{file} is larger than a state of plans can be (hint: remove it)")
        data = file.read_bytes()
    except FileNotFoundError:
        return BARE
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from None
    body = data[_SUM:]
    try:
        if blake2b(body, digest_size=_SUM).digest() != data[:_SUM]:
            raise ProtocolError("its checksum is wrong")
        state = decode_plan(body)
        if not isinstance(state, PlanState):
            raise ProtocolError("it is no state")
    except ProtocolError as error:
        raise ConfigError(f"{file} is damaged: {error} (hint: remove it; neighbours know the plan)") from None
    return state


def keep_state(directory: Path, state: PlanState) -> None:
    """Keep a state in place of the one before; OSError if the disk does not take it."""
    body = encode_plan(state)
    beside = directory / f"{FILE}.new"
    with open(beside, "wb", opener=opener) as file:
        file.write(blake2b(body, digest_size=_SUM).digest() + body)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(directory / FILE)


OWN: Final = "~plans"  # the link of the broker itself, as a client of its routers
PATIENCE_S: Final = 30.0
GRACE_S: Final = 10.0
LONGEST_HOLD_S: Final = 5.0


class Place(Protocol):
    """What plans need of the exchange around them."""

    broker: str
    epochs: Epochs
    now_s: float

    @property
    def neighbours(self) -> Mapping[Link, Neighbour]:
        """The brokers to which there is a connection."""

    @property
    def attached(self) -> Mapping[Link, None]:
        """The neighbours whose links are on the overlay's tree, in order."""

    def carry_out_all(self, outputs: Outputs) -> None:
        """Carry out what routers say."""

    def release(self) -> None:
        """Handle what clients said while they were held."""


class Plans:
    """What one broker does about plans; see the module's text. `keep` is told of every state that is adopted."""

    def __init__(self, place: Place, keep: Callable[[PlanState], None] = lambda state: None) -> None:
        self._place = place
        self._keep = keep
        self._ready: set[tuple[int, str, str]] = set()
        self._is_told = True  # nobody waits for the first state
        self._probes = 0
        self._held_by = ""  # the probe that ends the hold
        self._held_until_s = 0.0
        self.installation: Installation | None = None
        place.carry_out_all(place.epochs.handle(LinkUp(client=True), OWN, place.now_s))

    @property
    def is_holding(self) -> bool:
        """Whether what clients publish has to wait."""
        return bool(self._held_by)

    # -- links -----------------------------------------------------------------------------------------------

    def greet(self, neighbour: Neighbour) -> None:
        """Tell a neighbour that comes up what is installed; before its link is up in any epoch."""
        state = self._place.epochs.state
        if state.version:
            self._say(neighbour, state)

    def received(self, neighbour: Neighbour, body: memoryview) -> None:
        """Hear what a neighbour says of plans."""
        said = decode_plan(body)
        if isinstance(said, PlanState):
            if self._place.epochs.is_newer(said):
                self._adopt(said, not_to=neighbour.link)
        elif (said.version, said.author, said.broker) not in self._ready:
            self._note_ready(said, not_to=neighbour.link)

    def _say(self, neighbour: Neighbour, said: PlanMessage) -> None:
        # Behind the events that set out before it.
        neighbour.outlet.send(Kind.PLAN, encode_plan(said), barrier=True)

    def _flood(self, said: PlanMessage, not_to: Link = "") -> None:
        for link, neighbour in self._place.neighbours.items():
            if link != not_to:
                self._say(neighbour, said)

    # -- states ----------------------------------------------------------------------------------------------

    def _adopt(self, state: PlanState, not_to: Link = "") -> None:
        place = self._place
        before = place.epochs.current
        outputs = place.epochs.adopt(state, list(place.neighbours), list(place.attached), place.now_s)
        if self.installation is not None and state.author != place.broker:
            self.installation.overtaken(state.author)
        self._flood(state, not_to)
        self._ready = {ready for ready in self._ready if ready[0] >= state.version}
        self._is_told = False
        self._keep(state)
        place.carry_out_all(outputs)
        if before != state.current and before in place.epochs.routers:
            self._hold(before)
        self.settle()

    def _hold(self, epoch: int) -> None:
        self._held_until_s = self._place.now_s + LONGEST_HOLD_S
        self._held_by = self._name()
        self._ask(epoch, self._held_by)

    def _name(self) -> str:
        self._probes += 1
        return f"{self._place.broker}{OWN}{self._probes}"

    def _ask(self, epoch: int, probe: str) -> None:
        router = self._place.epochs.routers[epoch]
        self._place.carry_out_all([(epoch, router.handle(Probe(probe), OWN, self._place.now_s))])

    def echoed(self, probe: str) -> None:
        """A probe of this broker has come back."""
        if probe == self._held_by:
            self._release()
        elif self.installation is not None and probe == self.installation.probe:
            state = self.installation.probed(self._place.now_s)
            if state is not None:
                self._adopt(state)

    def _release(self) -> None:
        self._held_by = ""
        self._place.release()

    def settle(self) -> None:
        """See whether this broker's tables are complete, and say so once; called when they may have become so."""
        if not self._is_told and self._place.epochs.is_ready():
            self._is_told = True
            state = self._place.epochs.state
            self._note_ready(Ready(state.version, state.author, self._place.broker))

    def _note_ready(self, ready: Ready, not_to: Link = "") -> None:
        self._ready.add((ready.version, ready.author, ready.broker))
        self._flood(ready, not_to)
        installation = self.installation
        if installation is None or (ready.version, ready.author) != installation.state.order:
            return
        if installation.ready(ready.broker):
            installation.probe = self._name()
            self._ask(installation.epoch, installation.probe)

    # -- what people ask for ---------------------------------------------------------------------------------

    def install(
        self, plan: bytes, *, patience_s: float = PATIENCE_S, grace_s: float = GRACE_S
    ) -> Installation:
        """Begin to install a plan; b"" is the overlay itself. PlanError if it cannot be, or one is under way."""
        place = self._place
        if self.installation is not None and self.installation.is_under_way:
            raise PlanError(f"a plan is being installed: {self.installation.step.value}")
        made = Installation(
            place.epochs.state, place.broker, plan, place.now_s, patience_s=patience_s, grace_s=grace_s
        )
        self.installation = made
        try:
            self._adopt(made.state)
        except PlanError:
            self.installation = None
            raise
        return made

    def roll_back(self) -> None:
        """Take back the plan that was installed here last; PlanError if that cannot be."""
        if self.installation is None:
            raise PlanError("no plan was installed at this broker")
        self._adopt(self.installation.roll_back(self._place.now_s))

    def tick(self) -> None:
        """Time passes."""
        now_s = self._place.now_s
        if self._held_by and now_s >= self._held_until_s:
            self._release()
        if self.installation is not None:
            state = self.installation.tick(now_s)
            if state is not None:
                self._adopt(state)
