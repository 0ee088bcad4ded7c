"""Plans at one broker: what is installed is learnt, passed on, kept and followed.

A newer state is passed on before anything is said in its epochs, and links are FIFO: nobody hears of an epoch that it
does not know yet. When the current epoch changes, what clients publish waits until a probe in the old one has come
back. By then everything that set out there has arrived, and a publisher's events stay in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from covey.broker.epochs import Epochs, Outputs
from covey.broker.installing import Installation
from covey.broker.peers import Neighbour
from covey.errors import PlanError
from covey.routing.messages import Link, LinkUp, Probe
from covey.wire.frames import Kind
from covey.wire.plans import PlanMessage, PlanState, Ready, decode_plan, encode_plan

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
