"""Plans at one broker: how a plan goes in and out, what is installed, and what of it is kept on disk.

An installation is made by the broker that was asked for it, step by step:

    waiting    a version with the plan under a new epoch is told to everyone; brokers complete their tables
    probing    every broker of the plan is ready; a probe in the new epoch asks whether what they said is in force
    switched   a version whose current epoch is the new one is told to everyone; the plan before is kept for a grace
    done       after the grace, in which what set out before has arrived: a version without the plan before
    back       rolled back; the epochs that are not in use are kept for a grace, and then retired
    failed     taken back: a broker was not ready in time, or another broker has installed something meanwhile
    abandoned  the broker has restarted, and with it ended what it was installing; retired after a grace

`MOVES` says which input leads from which step to which. From every step there is a way to one in which another plan can
be installed, whatever the other brokers do.

Who retires what. Besides the current epoch and the overlay's own, a state has epochs that are on their way in or out.
They are in the care of the state's author: its installation retires them when it ends, and an author that has no
installation under way, because it has restarted, does so after a grace. Any other broker takes them over by installing
something: its state is the newer one, it is the author from then on, and an installation under way elsewhere fails,
overtaken. If a state has stood still for longer than any installation takes, its author is considered gone, and
the next installation or roll-back at any broker begins by retiring what that author has left. A broker retires nothing
of another's state in any other case: an installation elsewhere may need it.

An epoch's number is not used again, as far as the installing broker knows. Two brokers that install something at the
same moment may still choose the same number, and an epoch that one state retires may come back with another. A broker
that makes a router under a number which it has used before ends its links: they begin anew, without what was said in
the epoch of before.

A newer state is passed on before anything is said in its epochs, and links are FIFO: no broker hears of an epoch that
it does not know. Before it is passed on it is on disk (`KeepPlans`, answered by `kept`), so that no broker that comes
back makes another state under a version that others have heard of. Until then neighbours are told the state before; a
router for a new epoch has no neighbours yet, and clients wait if their epoch is another one. If a newer state comes
meanwhile, only that one is kept next, and passed on. When the current epoch changes, what clients say is held until a
probe in the old epoch has come back. By then everything that set out there has arrived, and a publisher's events stay
in order.

The state is kept over a restart in one small file: a checksum and the state, as brokers tell it to each other. The file
is replaced as a whole. One that cannot be read is an error and not a fresh start: a broker that forgot its plan would
learn it from its neighbours, but the operator should know that a disk forgets.

`Epochs` has the routers of one broker, one for each plan that is installed, and which of them events set out in. A plan
is installed beside what runs. Every broker makes a router of its own for it, with the same clients and neighbours, and
both are kept up to date; an event travels in the epoch in which it set out, which its frame says, so it is delivered
once however many epochs there are. When the new tables are complete everywhere the network switches: brokers let events
set out in the new epoch. Nothing is taken away before that, and until the old epoch is retired the network can switch
back.

What is installed is one small value, `PlanState`, the same at all brokers: the newest version is told to everyone, and
to whoever comes back.

A new router is told what clients have asked for in slices (`fill`), as there may be hundreds of thousands of
subscriptions. Until it knows all of them the epoch is being *adopted*:

- the router has no neighbours; what they say in that epoch waits, in its order, and is handled once their links are up
  (events here, the rest with `neighbours`);
- what clients say meanwhile goes to it too, except that a subscription or an advertisement that it has not been told
  of yet is simply not told when it ends.

So the router ends with what it would know if it had been told everything at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final

from covey.broker.actions import Actions, Adopted, Close, KeepPlans, Release, Replay, Send, Tell, Work
from covey.broker.config import BrokerConfig
from covey.broker.private_files import replace_file, with_sum, without_sum
from covey.core.filter import Filter
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
from covey.routing import jobs
from covey.routing.messages import (
    Advertise,
    Congestion,
    Key,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Probe,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from covey.routing.outputs import Output
from covey.routing.router import Router

MakeRouter = Callable[[bytes], Router]  # of a plan's file; b"" is no plan
Outputs = list[tuple[int, list[Output]]]
Waiting = deque[tuple[Link, bytes]]  # events of neighbours, in the order in which they have come

SLICE: Final = 6  # subscriptions that a new router is told at a time: a third of a millisecond


class Adoption:
    """A router on its way to what the others know of clients; see the module's text."""

    def __init__(self, router: Router, model: Router, now_s: float) -> None:
        self.router = router
        self._now_s = now_s
        self.waiting: Waiting = deque()
        self._advertised: dict[Link, dict[Key, Filter]] = {}  # that it has not been told yet
        self._subscribed = model.local_subscriptions()
        for link in self._subscribed:
            self._advertised[link] = model.advertised_by(link)
            router.handle(LinkUp(client=True), link, now_s)
        self._messages = self._untold()
        self.is_full = False  # the router knows all

    def _untold(self) -> Iterator[tuple[Link, Message]]:
        """Yield what the router has not been told, each as it is when its turn has come."""
        for link, advertised in self._advertised.items():
            for key in list(advertised):
                if key in advertised:
                    yield link, Advertise(key, advertised.pop(key))
        for link, subscribed in self._subscribed.items():
            for key in list(subscribed):
                if key in subscribed:
                    yield link, Subscribe(key, subscribed.pop(key))

    def fill(self, most: int | None) -> None:
        """Tell the router at most so many things."""
        count = 0
        for link, message in islice(self._messages, most):
            outputs = self.router.handle(message, link, self._now_s)
            assert not outputs, "a router without neighbours has nobody to tell"
            count += 1
        self.is_full = most is None or count < most

    def lets(self, message: Message, source: Link) -> bool:
        """Return whether the router is to hear this now; if not, what it says is seen to."""
        if isinstance(message, LinkUp):
            return message.client
        if not self.router.has_client(source):
            if isinstance(message, LinkDown):
                self.drop_waiting(source)
            return isinstance(message, Congestion)
        if isinstance(message, Unsubscribe):
            return self._subscribed.get(source, {}).pop(message.key, None) is None
        if isinstance(message, Unadvertise):
            return self._advertised.get(source, {}).pop(message.key, None) is None
        if isinstance(message, LinkDown):
            self._subscribed.get(source, {}).clear()
            self._advertised.get(source, {}).clear()
        return True

    def drop_waiting(self, link: Link) -> None:
        """A neighbour is gone, and its events."""
        self.waiting = deque(one for one in self.waiting if one[0] != link)


class Epochs:
    """The routers by epoch; see the module's text."""

    def __init__(self, make_router: MakeRouter, state: PlanState = BARE) -> None:
        self._make_router = make_router
        self.state = state
        self.routers = {epoch: make_router(plan) for epoch, plan in sorted(state.plans.items())}
        self.adopting: dict[int, Adoption] = {}  # epochs whose routers do not know all clients yet

    @property
    def current(self) -> int:
        """The epoch in which events of clients here set out."""
        return self.state.current

    @property
    def router(self) -> Router:
        """The router of that epoch."""
        return self.routers[self.state.current]

    def handle(self, message: Message, source: Link, now_s: float) -> Outputs:
        """Tell all routers what concerns them alike: links, and what clients ask for."""
        return [(epoch, self.tell(epoch, message, source, now_s)) for epoch in self.routers]

    def tell(self, epoch: int, message: Message, source: Link, now_s: float) -> list[Output]:
        """Tell the router of one epoch something, in whatever state it is, and return what it answers."""
        adoption = self.adopting.get(epoch)
        if adoption is not None and not adoption.lets(message, source):
            return []
        return self.routers[epoch].handle(message, source, now_s)

    def of_plans(self) -> list[tuple[int, Router]]:
        """Return the routers that follow a plan, over all links that it uses."""
        return [(epoch, router) for epoch, router in self.routers.items() if self.state.plans[epoch]]

    def of_overlay(self) -> list[tuple[int, Router]]:
        """Return the routers that use the overlay's own tree."""
        return [(epoch, router) for epoch, router in self.routers.items() if not self.state.plans[epoch]]

    def is_planned(self, epoch: int) -> bool:
        """Return whether the router of that epoch follows a plan."""
        return bool(self.state.plans[epoch])

    def remember_events(self) -> None:
        """Let routers of the overlay's tree remember events, as links may form a cycle for a moment."""
        for _, router in self.of_overlay():
            router.remember_events()

    def is_newer(self, state: PlanState) -> bool:
        """Return whether a state is to be adopted."""
        return state.order > self.state.order

    # -- states ----------------------------------------------------------------------------------------------

    def adopt(self, state: PlanState, now_s: float) -> set[int]:
        """Begin to adopt what is new, drop what is retired; return the epochs that are new.

        PlanError, and nothing is changed, if a plan cannot be used here.
        """
        made = {
            epoch: self._make_router(plan)
            for epoch, plan in sorted(state.plans.items())
            if epoch not in self.routers or self.state.plans[epoch] != plan
        }
        begun = {epoch: Adoption(router, self.complete, now_s) for epoch, router in made.items()}
        self.adopting = {e: one for e, one in self.adopting.items() if e in state.plans} | begun
        kept = {epoch: router for epoch, router in self.routers.items() if epoch in state.plans}
        self.routers = dict(sorted({**kept, **made}.items()))
        self.state = state
        return set(made)

    @property
    def complete(self) -> Router:
        """A router that knows all that clients have asked for."""
        for epoch, router in self.routers.items():
            if epoch not in self.adopting:
                return router
        # One plan has followed another before its router was complete, and nothing else was left.
        adoption = next(iter(self.adopting.values()))
        adoption.fill(None)
        return adoption.router

    @property
    def is_filling(self) -> bool:
        """Whether a new router is still to be told some of what clients want."""
        return not all(adoption.is_full for adoption in self.adopting.values())

    def fill(self) -> None:
        """Tell a new router some of what clients want."""
        next(adoption for adoption in self.adopting.values() if not adoption.is_full).fill(SLICE)

    def take_up(self) -> tuple[int, Waiting]:
        """Return an epoch whose new router knows all, and what waited for it.

        From then on it is a router like the others, which hears next that links are up.
        """
        epoch, adoption = next(iter(self.adopting.items()))
        del self.adopting[epoch]
        return epoch, adoption.waiting

    def drop_waiting(self, link: Link) -> None:
        """A neighbour is gone, and its events of epochs that are being adopted."""
        for adoption in self.adopting.values():
            adoption.drop_waiting(link)

    def is_busy(self, epoch: int, link: Link) -> bool:
        """Return whether the router of an epoch is not ready for what a neighbour says, except events."""
        return epoch in self.adopting or self.routers[epoch].is_busy(link)

    def is_ready(self, epoch: int) -> bool:
        """Return whether the tables of an epoch are complete, as far as this broker sees."""
        return epoch not in self.adopting and self.routers[epoch].is_synchronised()


def overlay_epoch(state: PlanState) -> int | None:
    """Return the epoch of the overlay itself, which no plan replaces."""
    return min((epoch for epoch, plan in state.plans.items() if not plan), default=None)


def idle_epochs(state: PlanState) -> set[int]:
    """Return the epochs that are on their way in or out: neither the current one nor the overlay's own."""
    return state.plans.keys() - {state.current, overlay_epoch(state)}


def router_maker(config: BrokerConfig) -> MakeRouter:
    """Return what makes the routers of a broker: by its settings, or as a plan says."""

    def make(plan: bytes) -> Router:
        if not plan:
            return Router(
                config.name,
                config.strategy,
                advertisements=config.advertisements,
                reduce_advertisements=config.reduce_advertisements,
                options=config.options,
                slice_units=jobs.SLICE,
            )
        decoded = Plan.decode(plan)
        if config.name not in decoded.brokers:
            raise PlanError(f"the plan does not know the broker {config.name}")
        trees = decoded.to_tree_plan()
        return Router(
            config.name,
            trees.strategy,
            advertisements=config.advertisements,
            reduce_advertisements=config.reduce_advertisements,
            plan=trees,
            slice_units=jobs.SLICE,
        )

    return make


OWN: Final = "~plans"  # the link of the broker itself, as a client of its routers
PATIENCE_S: Final = 30.0
GRACE_S: Final = 10.0
LONGEST_HOLD_S: Final = 5.0
GONE_S: Final = PATIENCE_S + 2 * GRACE_S  # no step of an installation with the usual times takes that long


# -- an installation ---------------------------------------------------------------------------------------------


class Step(Enum):
    """How far an installation has come."""

    WAITING = "waits until all brokers are ready"
    PROBING = "waits until the tables are in force"
    SWITCHED = "switched; the old plan is kept for a while"
    BACK = "switched back; the plan is kept until what set out in it has arrived"
    ABANDONED = "the broker has restarted; what it was installing is retired after a while"
    DONE = "done"
    FAILED = "failed"


class Input(Enum):
    """What happens to an installation."""

    READY = "the last broker is ready"
    ECHOED = "the probe has come back"
    DUE = "the step's time is over"
    ROLL_BACK = "somebody wants it taken back"
    OVERTAKEN = "there is a newer state that this installation has not made"
    INSTALL = "somebody wants to install another plan here"


class Refused(str):
    """Why an input is refused in a step: an error for whoever asks."""

    __slots__ = ()


_LATE: Final = "ignored: the answer to a question of an earlier step"
_OVER: Final = "ignored: the installation has ended"
_FIRST: Final = Refused("a plan is being installed")
_TAKEN_BACK: Final = Refused("the plan is taken back already")

# What each input does in each step: a move, or why there is none. A move by INSTALL is that of the next installation.
MOVES: Final[dict[tuple[Step, Input], Step | str]] = {
    (Step.WAITING, Input.READY): Step.PROBING,
    (Step.WAITING, Input.ECHOED): "ignored: nothing was asked yet",
    (Step.WAITING, Input.DUE): Step.FAILED,
    (Step.WAITING, Input.ROLL_BACK): Step.BACK,
    (Step.WAITING, Input.OVERTAKEN): Step.FAILED,
    (Step.WAITING, Input.INSTALL): _FIRST,
    (Step.PROBING, Input.READY): _LATE,
    (Step.PROBING, Input.ECHOED): Step.SWITCHED,
    (Step.PROBING, Input.DUE): Step.FAILED,
    (Step.PROBING, Input.ROLL_BACK): Step.BACK,
    (Step.PROBING, Input.OVERTAKEN): Step.FAILED,
    (Step.PROBING, Input.INSTALL): _FIRST,
    (Step.SWITCHED, Input.READY): _LATE,
    (Step.SWITCHED, Input.ECHOED): _LATE,
    (Step.SWITCHED, Input.DUE): Step.DONE,
    (Step.SWITCHED, Input.ROLL_BACK): Step.BACK,
    (Step.SWITCHED, Input.OVERTAKEN): Step.FAILED,
    (Step.SWITCHED, Input.INSTALL): _FIRST,
    (Step.BACK, Input.READY): _LATE,
    (Step.BACK, Input.ECHOED): _LATE,
    (Step.BACK, Input.DUE): Step.FAILED,
    (Step.BACK, Input.ROLL_BACK): _TAKEN_BACK,
    (Step.BACK, Input.OVERTAKEN): Step.FAILED,
    (Step.BACK, Input.INSTALL): Step.WAITING,
    (Step.ABANDONED, Input.READY): _LATE,
    (Step.ABANDONED, Input.ECHOED): _LATE,
    (Step.ABANDONED, Input.DUE): Step.FAILED,
    (Step.ABANDONED, Input.ROLL_BACK): Step.FAILED,
    (Step.ABANDONED, Input.OVERTAKEN): Step.FAILED,
    (Step.ABANDONED, Input.INSTALL): Step.WAITING,
    (Step.DONE, Input.READY): _OVER,
    (Step.DONE, Input.ECHOED): _OVER,
    (Step.DONE, Input.DUE): _OVER,
    (Step.DONE, Input.ROLL_BACK): Refused("the plan before is retired (hint: install it again)"),
    (Step.DONE, Input.OVERTAKEN): _OVER,
    (Step.DONE, Input.INSTALL): Step.WAITING,
    (Step.FAILED, Input.READY): _OVER,
    (Step.FAILED, Input.ECHOED): _OVER,
    (Step.FAILED, Input.DUE): _OVER,
    (Step.FAILED, Input.ROLL_BACK): _TAKEN_BACK,
    (Step.FAILED, Input.OVERTAKEN): _OVER,
    (Step.FAILED, Input.INSTALL): Step.WAITING,
}


class Installation:
    """One plan on its way in. Each input returns the state to be told to everyone, or None if nothing changes."""

    def __init__(
        self,
        state: PlanState,
        broker: str,
        plan: bytes,
        now_s: float,
        *,
        patience_s: float,
        grace_s: float,
        used: int = 0,
    ) -> None:
        decoded = Plan.decode(plan) if plan else None
        self.broker = broker
        self.before = state.current
        self.step = Step.WAITING
        self.reason = ""
        self.probe = ""  # that asks whether the tables are in force
        self.missing = set(decoded.brokers) if decoded is not None else {broker}
        self.until_s = now_s + patience_s
        self._grace_s = grace_s
        own = overlay_epoch(state)
        # The overlay's own epoch is never retired: there is nothing to add.
        self.is_new = bool(plan) or own is None
        self.epoch = _free_epoch(state, used) if self.is_new or own is None else own
        self.state = self._next(state, state.current, {**state.plans, self.epoch: plan})

    @classmethod
    def abandoned(cls, state: PlanState, broker: str, now_s: float, grace_s: float) -> Installation:
        """Return what is left of an installation of which only its last state is known."""
        self = cls.__new__(cls)
        self.broker, self.before, self.state = broker, state.current, state
        self.step, self.reason, self.probe = Step.ABANDONED, "the broker has restarted", ""
        self.missing = set()
        self.until_s, self._grace_s = now_s + grace_s, grace_s
        self.is_new, self.epoch = False, max(idle_epochs(state), default=state.current)
        return self

    def _next(self, state: PlanState, current: int, plans: dict[int, bytes]) -> PlanState:
        return PlanState(state.version + 1, self.broker, current, plans)

    @property
    def is_under_way(self) -> bool:
        """Whether something is still to come."""
        return self.step not in (Step.DONE, Step.FAILED)

    def _move(self, given: Input) -> bool:
        """Make the step that an input leads to; return whether there is one. PlanError if the input is refused."""
        move = MOVES[self.step, given]
        if isinstance(move, Refused):
            raise PlanError(f"{move}: {self.reason}" if self.reason else move)
        if isinstance(move, Step):
            self.step = move
            return True
        return False

    def check_free(self) -> None:
        """PlanError if another plan cannot be installed now."""
        move = MOVES[self.step, Input.INSTALL]
        if isinstance(move, Refused):
            raise PlanError(f"{move}: {self.step.value}")

    def overtaken(self, author: str) -> None:
        """A newer state is adopted that is not of this installation."""
        if self._move(Input.OVERTAKEN):
            self.reason = f"broker {author} has installed another plan meanwhile"

    def ready(self, broker: str) -> bool:
        """Note a broker that is ready; return whether it is time to probe the new epoch."""
        if self.step is Step.WAITING:
            self.missing.discard(broker)
        return not self.missing and self._move(Input.READY)

    def probed(self, now_s: float) -> PlanState | None:
        """The probe has come back: switch."""
        if not self._move(Input.ECHOED):
            return None
        self.until_s = now_s + self._grace_s
        self.state = self._next(self.state, self.epoch, self.state.plans)
        return self.state

    def tick(self, now_s: float) -> PlanState | None:
        """Time passes: give up, or retire what is not in use."""
        if now_s < self.until_s:
            return None
        before = self.step
        if not self._move(Input.DUE):
            return None
        if before in (Step.WAITING, Step.PROBING):
            missing = ", ".join(sorted(self.missing)[:5]) or "the probe's echo"
            self.reason = f"not ready in time: {missing}"
        return self._retire()

    def _retire(self) -> PlanState | None:
        """Leave only what is in use: nothing has set out elsewhere since the grace began."""
        idle = idle_epochs(self.state)
        if not idle:
            return None
        plans = {epoch: plan for epoch, plan in self.state.plans.items() if epoch not in idle}
        self.state = self._next(self.state, self.state.current, plans)
        return self.state

    def roll_back(self, now_s: float) -> PlanState | None:
        """Switch back to what was before; PlanError if that is gone."""
        before = self.step
        self._move(Input.ROLL_BACK)
        self.reason, self.until_s = "rolled back", now_s + self._grace_s
        if before is Step.ABANDONED:
            return self._retire()
        plans = dict(self.state.plans)
        if before is not Step.SWITCHED and self.is_new:
            del plans[self.epoch]  # in which nothing has set out
        self.state = self._next(self.state, self.before, plans)
        return self.state


def _free_epoch(state: PlanState, used: int) -> int:
    """Return an epoch for another plan, after all that were used; PlanError if there are too many plans."""
    if len(state.plans) >= MOST_EPOCHS:
        raise PlanError(f"{len(state.plans)} plans are installed; {MOST_EPOCHS} are the most at one time")
    last = max(used, *state.plans)
    if last < LAST_EPOCH:
        return last + 1
    return next(epoch for epoch in range(1, LAST_EPOCH) if epoch not in state.plans)


def without_idle(state: PlanState) -> PlanState:
    """Return the state without the epochs that are on their way in or out."""
    idle = idle_epochs(state)
    plans = {epoch: plan for epoch, plan in state.plans.items() if epoch not in idle}
    return PlanState(state.version, state.author, state.current, plans)


# -- the file ----------------------------------------------------------------------------------------------------

FILE: Final = "plans.bin"
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
    try:
        state = decode_plan(without_sum(data))
        if not isinstance(state, PlanState):
            raise ProtocolError("it is no state")
    except (ProtocolError, ValueError) as error:
        raise ConfigError(f"{file} is damaged: {error} (hint: remove it; neighbours know the plan)") from None
    return state


def keep_state(directory: Path, state: PlanState) -> None:
    """Keep a state in place of the one before; OSError if the disk does not take it."""
    replace_file(directory / FILE, with_sum(encode_plan(state)))


# -- the part ----------------------------------------------------------------------------------------------------


class Plans:
    """What one broker does about plans; see the module's text. A part: its methods yield what the owner is to do."""

    def __init__(self, broker: str, epochs: Epochs) -> None:
        self._broker = broker
        self._epochs = epochs
        # Neighbours, in order, and whether they take a Sync in pieces. Plans use their links.
        self._connected: dict[Link, bool] = {}
        self._attached: dict[Link, None] = {}  # those on the overlay's own tree
        self._used = set(epochs.state.plans)  # numbers, now or before
        self._ready: set[tuple[int, str, str]] = set()
        self._is_told = True  # nobody waits for the first state
        self._probes = 0
        self._holds: dict[
            str, int
        ] = {}  # probes without whose echo clients are held, with the epoch they ask
        self._held_until_s = 0.0
        self._since_s: float | None = (
            None  # when the state was adopted; None until the first input tells the time
        )
        self._kept = epochs.state  # that is on disk, and that neighbours know
        self._keeping: PlanState | None = None  # that is being kept
        self._from: Link = ""  # the neighbour that has told the newest one
        self._begins_anew = False  # an epoch has come under the number of another one
        self.installation: Installation | None = None
        epochs.handle(LinkUp(client=True), OWN, 0.0)

    @property
    def is_holding(self) -> bool:
        """Whether what clients say has to wait."""
        current = self._epochs.current
        return bool(self._holds) or current in self._epochs.adopting or current != self._kept.current

    @property
    def is_keeping(self) -> bool:
        """Whether a state is on its way to the disk."""
        return self._keeping is not None

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return bool(self._epochs.adopting) and (self._epochs.is_filling or not self.is_keeping)

    # -- links -----------------------------------------------------------------------------------------------

    def connected(self, link: Link, pieces: bool) -> Actions:
        """There is a connection to a neighbour: tell it what is installed, before its link is up in any epoch."""
        self._epochs.drop_waiting(link)
        self._connected[link] = pieces
        state = self._kept
        if state.version:
            yield _said(link, state)
        if idle_epochs(
            state
        ):  # somebody may wait for it: who is ready is said once, and may have been lost with the link
            for version, author, broker in sorted(self._ready):
                if (version, author) == state.order:
                    yield _said(link, Ready(version, author, broker))

    def disconnected(self, link: Link) -> None:
        """The connection to a neighbour is gone, and what it said in epochs that were not ready for it."""
        self._connected.pop(link, None)
        self._epochs.drop_waiting(link)
        if link == self._from:
            self._from = ""  # when it is back it may have to be told

    def attached(self, link: Link, is_attached: bool) -> None:
        """A neighbour's link is on the overlay's own tree from now on, or no longer."""
        if is_attached:
            self._attached[link] = None
        else:
            self._attached.pop(link, None)

    def received(self, link: Link, body: memoryview, now_s: float) -> Actions:
        """Hear what a neighbour says of plans."""
        said = decode_plan(body)
        if isinstance(said, PlanState):
            if self._epochs.is_newer(said):
                yield from self._adopt(said, now_s, not_to=link)
        elif (said.version, said.author, said.broker) not in self._ready:
            yield from self._note_ready(said, not_to=link)

    def _flood(self, said: PlanMessage, not_to: Link = "") -> Actions:
        for link in list(self._connected):
            if link != not_to:
                yield _said(link, said)

    # -- states ----------------------------------------------------------------------------------------------

    def _adopt(self, state: PlanState, now_s: float, not_to: Link = "") -> Actions:
        before, was_holding, installation = self._epochs.current, self.is_holding, self.installation
        made = self._epochs.adopt(state, now_s)
        self._begins_anew |= bool(made & self._used)
        self._used |= made
        self._since_s, self._from = now_s, not_to
        if installation is not None and installation.state is not state:
            installation.overtaken(state.author)
        self._ready = {ready for ready in self._ready if ready[0] >= state.version}
        self._is_told = False
        self._holds = {probe: epoch for probe, epoch in self._holds.items() if epoch in self._epochs.routers}
        yield from self._keep()
        if before != state.current and before in self._epochs.routers:
            yield from self._hold(before, now_s)
        if self._epochs.adopting:
            yield Work()
        if was_holding and not self.is_holding:
            yield Release()  # the epoch for which clients were held is gone
        yield Adopted()
        yield from self.settle()

    def _keep(self) -> Actions:
        if self._keeping is None:
            self._keeping = self._epochs.state
            yield KeepPlans(self._keeping)

    def kept(self) -> Actions:
        """A state is on disk, or cannot be brought there: pass it on, unless a newer one is to be kept before."""
        was_holding, kept, self._keeping = self.is_holding, self._keeping, None
        if kept is not self._epochs.state:
            yield from self._keep()
            return
        self._kept = self._epochs.state
        yield from self._flood(self._kept, self._from)
        anew, self._begins_anew = self._begins_anew, False
        for link in list(self._connected) if anew else ():
            yield Close(link, "a plan has the number of another one: the link begins anew")
        if was_holding and not self.is_holding:
            yield Release()
        yield from self.settle()

    def _hold(self, epoch: int, now_s: float) -> Actions:
        self._held_until_s = now_s + LONGEST_HOLD_S
        probe = self._name()
        self._holds[probe] = epoch
        yield Tell(Probe(probe), OWN, epoch)

    def _name(self) -> str:
        self._probes += 1
        return f"{self._broker}{OWN}{self._probes}"

    def echoed(self, probe: str, now_s: float) -> Actions:
        """A probe of this broker has come back."""
        if self._holds.pop(probe, None) is not None:
            if not self.is_holding:
                yield Release()
        elif self.installation is not None and probe == self.installation.probe:
            state = self.installation.probed(now_s)
            if state is not None:
                yield from self._adopt(state, now_s)

    def settle(self) -> Actions:
        """See whether this broker's tables are complete, and say so once; called when they may have become so."""
        state, installation = self._epochs.state, self.installation
        epoch = max(state.plans)  # that of a plan which others install
        if installation is not None and installation.step is Step.WAITING:
            epoch = installation.epoch
        if not self._is_told and not self.is_keeping and self._epochs.is_ready(epoch):
            self._is_told = True
            yield from self._note_ready(Ready(state.version, state.author, self._broker))

    def _note_ready(self, ready: Ready, not_to: Link = "") -> Actions:
        self._ready.add((ready.version, ready.author, ready.broker))
        yield from self._flood(ready, not_to)
        installation = self.installation
        if installation is None or (ready.version, ready.author) != installation.state.order:
            return
        if installation.ready(ready.broker):
            installation.probe = self._name()
            yield Tell(Probe(installation.probe), OWN, installation.epoch)

    # -- work in slices --------------------------------------------------------------------------------------

    def work(self) -> Actions:
        """Do one slice of what new epochs take; to be called until `has_work` is False, with other input in between."""
        if self._epochs.is_filling:
            self._epochs.fill()
        if not self._epochs.adopting or self._epochs.is_filling or self.is_keeping:
            return
        was_holding = self.is_holding
        epoch, waiting = self._epochs.take_up()
        links = self._connected if self._epochs.is_planned(epoch) else self._attached
        for link in list(links):
            yield Tell(LinkUp(pieces=self._connected.get(link, False)), link, epoch)
        for link, frame in waiting:
            yield Replay(link, frame)
        if was_holding and not self.is_holding:
            yield Release()
        yield from self.settle()

    # -- what people ask for ---------------------------------------------------------------------------------

    def install(
        self, plan: bytes, now_s: float, *, patience_s: float = PATIENCE_S, grace_s: float = GRACE_S
    ) -> Actions:
        """Begin to install a plan as `installation`; b"" is the overlay itself.

        PlanError, and nothing is changed, if it cannot be installed, or if one is under way here.
        """
        before = self.installation
        if before is not None:
            before.check_free()
        state = self._epochs.state
        if self._is_left(now_s):
            state = without_idle(state)
        made = Installation(
            state,
            self._broker,
            plan,
            now_s,
            patience_s=patience_s,
            grace_s=grace_s,
            used=max(self._used),
        )
        self.installation = made
        try:
            yield from self._adopt(made.state, now_s)
        except PlanError:
            self.installation = before
            raise

    def _is_left(self, now_s: float) -> bool:
        """Return whether no installation cares for the epochs that are on their way in or out."""
        since_s = now_s if self._since_s is None else self._since_s
        is_mine = self._epochs.state.author == self._broker
        return now_s - since_s >= (GRACE_S if is_mine else GONE_S)

    def roll_back(self, now_s: float) -> Actions:
        """Take back the plan that was installed here last, or retire what a broker that is gone has left.

        PlanError if there is neither.
        """
        state = self._epochs.state
        is_idle = self.installation is None or not self.installation.is_under_way
        if is_idle and self._is_left(now_s) and idle_epochs(state):
            self.installation = Installation.abandoned(state, self._broker, now_s, GRACE_S)
        if self.installation is None:
            raise PlanError("no plan was installed at this broker")
        changed = self.installation.roll_back(now_s)
        if changed is not None:
            yield from self._adopt(changed, now_s)

    def deadline(self) -> float | None:
        """Return when `tick` is due; None if nothing waits for time to pass."""
        due_s = self._held_until_s if self._holds else None
        installation = self.installation
        if installation is not None and installation.is_under_way:
            due_s = installation.until_s if due_s is None else min(due_s, installation.until_s)
        return due_s

    def tick(self, now_s: float) -> Actions:
        """Time passes."""
        if self._since_s is None:
            self._since_s = now_s
        if self._holds and now_s >= self._held_until_s:
            self._holds.clear()
            if not self.is_holding:
                yield Release()
        state, installation = self._epochs.state, self.installation
        is_idle = installation is None or not installation.is_under_way
        if is_idle and state.author == self._broker and idle_epochs(state):
            installation = self.installation = Installation.abandoned(state, self._broker, now_s, GRACE_S)
        if installation is not None:
            changed = installation.tick(now_s)
            if changed is not None:
                yield from self._adopt(changed, now_s)


def _said(link: Link, said: PlanMessage) -> Send:
    # Behind the events that set out before it.
    return Send(link, Kind.PLAN, encode_plan(said), barrier=True)
