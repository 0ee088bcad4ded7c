"""Links to neighbours, one broker alone: what every input does in every state, and what is done at which time."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest

import covey.strategies  # noqa: F401 (registers them)
from covey.broker.actions import (
    Action,
    Actions,
    Advertised,
    Answered,
    Attached,
    Close,
    Dial,
    Expect,
    Lost,
    Tell,
)
from covey.broker.config import LinkConfig
from covey.broker.neighbours import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    LONGEST_S,
    QUIET_S,
    STEADY_S,
    TABLE,
    Greeting,
    Ignored,
    LinkInput,
    LinkState,
    Move,
    Neighbours,
    Overlay,
    Refused,
    Routing,
    diagram,
)
from covey.broker.plans import Epochs
from covey.core.families import parse
from covey.errors import ProtocolError
from covey.protocol.control import (
    BARE,
    Attach,
    BrokerLinks,
    Detach,
    Detached,
    Overlaid,
    PlanState,
    States,
    decode_overlaid,
    encode_overlaid,
    encode_routed,
)
from covey.protocol.frames import VERSION, Kind
from covey.protocol.outbox import Verdict
from covey.routing.messages import Advertise, Echo, LinkDown, LinkUp, Probe
from covey.routing.router import Router

ROOT = Path(__file__).parents[2]
FORGET_AFTER_S = 100.0


class Wire:
    """The sending end of a connection; it keeps what it is given."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, kind: int, body: bytes, *, barrier: bool = False) -> None:
        self.frames.append(bytes([kind]) + body)

    def send_events(self, chunk: bytes, count: int = 1) -> Verdict:
        return Verdict.TAKEN

    def end(self, reason: str) -> None:
        raise AssertionError(f"nobody ends a link here: {reason}")


class One:
    """The neighbours of the broker a: b, and whichever are given. What routers would say is not carried out."""

    def __init__(self, *configs: LinkConfig, state: PlanState = BARE) -> None:
        self.epochs = Epochs(lambda plan: Router("a"), state)
        self.links = Neighbours(self.epochs, Overlay("a", 0), FORGET_AFTER_S, Random(1))
        self.wire = Wire()
        self.sequence = 0
        self.did(self.links.configure(configs or [LinkConfig("b")], 0.0))
        self.b = self.links.records["b"]

    def did(self, actions: Actions) -> list[Action]:
        """Return what was asked for; routers hear what they are told."""
        found = []
        for action in actions:
            found.append(action)
            if isinstance(action, Tell):
                assert action.epoch is not None
                self.epochs.routers[action.epoch].handle(action.message, action.source, 0.0)
        return found

    def greet(self, now_s: float = 0.0) -> list[Action]:
        self.wire = Wire()
        return self.did(self.links.greeted("b", Greeting(self.wire, 1, VERSION), now_s))

    def lose(self, now_s: float = 0.0) -> list[Action]:
        return self.did(self.links.disconnected("b", now_s))

    def hear(self, said: Overlaid, now_s: float = 0.0) -> list[Action]:
        return self.did(self.links.received("b", encode_overlaid(said), now_s))

    def state(self, is_up: bool, now_s: float = 0.0) -> list[Action]:
        """Let b say whether its link to a is up: that decides whether the link is on the tree."""
        self.sequence += 1
        return self.hear(States((BrokerLinks("b", self.sequence, {"a": (1, is_up)}),)), now_s)

    def is_in(self, state: LinkState | Routing) -> bool:
        """Return whether the link to b is in a state, or that is what routers have of it."""
        return state in (self.b.state, self.b.routing)

    def said(self) -> list[Overlaid]:
        """Return what b was told of the use of the link since this was asked last."""
        found = [decode_overlaid(one[1:]) for one in self.wire.frames if one[0] == Kind.OVERLAY]
        self.wire.frames.clear()
        return [one for one in found if not isinstance(one, States)]


def brought_to(state: LinkState) -> One:
    """Return a broker whose link to b is in a state, by what brings it there."""
    one = One()
    if state is LinkState.GIVEN_UP:
        one.did(one.links.tick(FORGET_AFTER_S))
    if state in (LinkState.AWAY, LinkState.GIVEN_UP):
        return one
    one.greet()
    if state in (LinkState.INVITED, LinkState.ATTACHED, LinkState.LEAVING):
        one.hear(Attach())
    if state in (LinkState.OFFERED, LinkState.ATTACHED, LinkState.LEAVING):
        one.state(True)
        one.did(one.links.tick(LONGEST_S))
    if state is LinkState.LEAVING:
        one.state(False)
    one.said()
    return one


def give(one: One, given: LinkInput) -> list[Action]:
    """Let something happen to the link to b, by the way in which it happens."""
    match given:
        case LinkInput.GREETED:
            return one.greet()
        case LinkInput.LOST:
            return one.lose()
        case LinkInput.EXPIRED:
            return one.did(one.links.tick(FORGET_AFTER_S))
        case LinkInput.ATTACH:
            return one.hear(Attach())
        case LinkInput.DETACH:
            return one.hear(Detach())
        case LinkInput.DETACHED:
            return one.hear(Detached())
        case LinkInput.WANTED | LinkInput.UNWANTED:
            return one.did(one.links._handle(one.b, given))


def test_the_table_has_every_pair() -> None:
    assert list(TABLE) == list(LinkState)
    for row in TABLE.values():
        assert list(row) == list(LinkInput)


@pytest.mark.parametrize(("state", "given"), list(product(LinkState, LinkInput)))
def test_every_input_in_every_state_does_what_the_table_says(state: LinkState, given: LinkInput) -> None:
    one = brought_to(state)
    assert one.b.state is state
    wire = one.wire
    outcome = TABLE[state][given]
    if isinstance(outcome, Refused):
        with pytest.raises(ProtocolError, match=outcome.because):
            give(one, given)
    else:
        give(one, given)
    expected = outcome.to if isinstance(outcome, Move) else state
    assert one.b.state is expected
    assert (one.b.routing is Routing.LIVE) == (expected is LinkState.ATTACHED)
    assert one.b.is_connected == (expected not in (LinkState.AWAY, LinkState.GIVEN_UP))
    if one.wire is wire:
        assert one.said() == list(outcome.says if isinstance(outcome, Move) else ())


def test_every_reason_is_said() -> None:
    reasons = [
        one.because for row in TABLE.values() for one in row.values() if isinstance(one, Ignored | Refused)
    ]
    assert all(reasons)


def test_every_state_can_be_reached_and_left() -> None:
    moves = [(a, one.to) for a, row in TABLE.items() for one in row.values() if isinstance(one, Move)]
    reached = {LinkState.AWAY}
    for _ in LinkState:
        reached |= {to for a, to in moves if a in reached}
    assert reached == set(LinkState)
    assert all(any(a is state and to is not state for a, to in moves) for state in LinkState)


def test_the_diagram_in_the_architecture_is_that_of_the_table() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert f"```mermaid\n{diagram()}\n```" in text, f"put this there:\n{diagram()}"


# -- what routers have -------------------------------------------------------------------------------------------


def kinds(actions: list[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def test_a_link_that_breaks_is_remembered_and_compared_when_it_is_back() -> None:
    one = brought_to(LinkState.ATTACHED)
    asked = one.lose(5.0)
    assert kinds(asked) == ["Attached", "Lost", "Disconnected", "Expect"], "routers hear nothing"
    assert asked[0] == Attached("b", False)
    assert one.is_in(Routing.REMEMBERED)
    assert "b" not in one.links.attached
    one.greet(6.0)
    one.hear(Attach(), 6.0)
    one.state(True, 6.0)
    told = [action.message for action in one.did(one.links.tick(7.0)) if isinstance(action, Tell)]
    assert told == [LinkDown(), LinkUp(pieces=True)]
    assert one.is_in(Routing.LIVE)


def test_a_link_that_broke_is_bypassed_when_there_is_another_way() -> None:
    one = One(LinkConfig("b"), LinkConfig("c"))
    one.greet()
    one.hear(Attach())
    one.state(True)
    one.did(one.links.tick(LONGEST_S))
    one.did(one.links.greeted("c", Greeting(Wire(), 1, VERSION), 2.0))
    one.lose(3.0)
    assert one.is_in(Routing.REMEMBERED)
    states = (
        BrokerLinks("b", 8, {"a": (1, False), "c": (1, True)}),
        BrokerLinks("c", 8, {"a": (1, True), "b": (1, True)}),
    )
    asked = one.did(one.links.received("c", encode_overlaid(States(states)), 3.0))
    assert [action.message for action in asked if isinstance(action, Tell)] == [LinkDown()]
    assert one.is_in(Routing.NOTHING)
    assert asked[-1] == Expect(("b", "c"), ("c",), True)


def test_what_is_no_neighbour_any_longer_is_forgotten_and_what_it_says_is_stale() -> None:
    one = brought_to(LinkState.ATTACHED)
    asked = one.did(one.links.configure([LinkConfig("c")], 1.0))
    assert asked[0] == Close("b", "b is no neighbour of a any longer")
    assert kinds(asked[1:]) == ["Attached", "Lost", "Disconnected", "Withdrawing", "Tell", "Expect"]
    assert asked[-1] == Expect(("c",), ("c",), False)
    assert not one.links.connected
    one.hear(Attach())
    assert one.links.counters["stale_frames"] == 1
    assert one.lose(2.0) == [], "its connection is gone at last"


def test_probes_are_echoed_in_place_of_who_is_away_once_each() -> None:
    one = brought_to(LinkState.ATTACHED)
    for number in range(3):
        assert one.did(one.links.send("b", Probe(f"p{number}"), 0)) == []
    asked = one.lose()
    echoed = [action for action in asked if isinstance(action, Tell)]
    assert {action.message for action in echoed} == {Echo(f"p{number}") for number in range(3)}
    assert asked.index(Lost("b")) < asked.index(echoed[0]), "an echo in its place proves nothing"
    assert one.did(one.links.send("b", Probe("q"), 0)) == []
    assert one.did(one.links.echo_for_others()) == [Tell(Echo("q"), "b", 0)]
    assert one.did(one.links.echo_for_others()) == []


def test_an_echo_answers_what_was_advertised_before_its_probe() -> None:
    one = brought_to(LinkState.ATTACHED)
    filter = parse("x > 1")
    asked = one.did(one.links.send("b", Advertise("k1", filter), 0))
    assert asked == [Advertised("b", "k1", filter, 1)]
    one.did(one.links.send("b", Probe("p"), 0))
    assert one.did(one.links.send("b", Advertise("k2", filter), 0)) == [Advertised("b", "k2", filter, 2)]
    heard = []
    for action in one.links.routed("b", encode_routed(Echo("p"))):
        heard.append(action)
    assert heard[0] == Answered("b", 1)
    one.lose()
    assert one.did(one.links.send("b", Advertise("k3", filter), 0)) == [Advertised("b", "k3", filter, 0)]


# -- time --------------------------------------------------------------------------------------------------------


def test_a_link_joins_once_the_overlay_is_quiet() -> None:
    one = One()
    one.greet(10.0)
    assert one.links.deadline() is None, "b has not said that the link is up"
    one.state(True, 10.0)
    assert one.links.deadline() == 10.0 + QUIET_S
    one.state(True, 10.04)
    assert one.links.deadline() == 10.04 + QUIET_S, "there was news"
    one.did(one.links.tick(10.06))
    assert one.is_in(LinkState.CONNECTED)
    one.did(one.links.tick(10.04 + QUIET_S))
    assert one.is_in(LinkState.OFFERED)
    assert one.links.deadline() is None


def test_a_link_joins_though_there_is_always_news() -> None:
    one = One()
    one.greet(0.0)
    now_s = 0.0
    while one.is_in(LinkState.CONNECTED):
        one.state(True, now_s)
        now_s += QUIET_S / 2
        one.did(one.links.tick(now_s))
        assert now_s < LONGEST_S + QUIET_S
    assert now_s >= LONGEST_S


def test_a_link_that_left_the_tree_joins_it_again_once_its_detach_is_answered() -> None:
    one = brought_to(LinkState.LEAVING)
    one.state(True, 5.0)
    assert one.links.deadline() is None, "the Detach is not answered"
    one.hear(Detached(), 6.0)
    assert one.links.deadline() == 5.0 + QUIET_S
    one.did(one.links.tick(6.0))
    assert one.is_in(LinkState.OFFERED)
    assert one.said() == [Attach()]


def test_who_is_away_too_long_is_given_up() -> None:
    one = brought_to(LinkState.ATTACHED)
    one.lose(50.0)
    assert one.links.deadline() == 50.0 + FORGET_AFTER_S
    assert one.did(one.links.tick(50.0 + FORGET_AFTER_S - 0.5)) == []
    asked = one.did(one.links.tick(50.0 + FORGET_AFTER_S))
    assert kinds(asked) == ["Say", "Withdrawing", "Tell", "Expect"]
    assert asked[-1] == Expect((), (), False)
    assert one.is_in(Routing.NOTHING)
    assert one.links.deadline() is None
    assert one.greet(200.0)[-1] == Expect(("b",), ("b",), False), "it is back, and waited for again"


def test_a_link_that_only_plans_use_is_given_up_too() -> None:
    one = One(state=PlanState(0, "", 0, {0: b"plan"}))
    assert Tell(LinkUp(pieces=True), "b", 0) in one.greet()
    assert not any(isinstance(action, Tell) for action in one.lose(1.0))
    assert Tell(LinkDown(), "b", 0) in one.did(one.links.tick(1.0 + FORGET_AFTER_S))


def test_when_a_neighbour_is_given_up_can_change() -> None:
    one = One()
    one.links.forget_after(7.0)
    assert one.links.deadline() == 7.0


def test_a_neighbour_is_dialled_with_growing_pauses() -> None:
    one = One(LinkConfig("b", "127.0.0.1", 7400))
    assert one.links.deadline() == FORGET_AFTER_S, "nobody is dialled before others can dial us"
    one.links.start_dialling()
    now_s, pauses = 0.0, []
    for _ in range(12):
        assert one.links.deadline() == now_s
        assert one.did(one.links.tick(now_s)) == [Dial("b")]
        assert one.did(one.links.tick(now_s)) == [], "one attempt at a time"
        one.links.dial_ended("b", now_s)
        due_s = one.b.dialling.due_s
        pauses.append(due_s - now_s)
        now_s = due_s
        one.links.forget_after(now_s + 1000.0)
    longest_s = [min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S) for number in range(12)]
    assert all(
        0.5 * most_s <= pause_s <= 1.5 * most_s for pause_s, most_s in zip(pauses, longest_s, strict=True)
    )
    one.links.stop_dialling()
    assert one.did(one.links.tick(now_s)) == []


def test_after_a_steady_connection_the_pause_is_short_again() -> None:
    one = One(LinkConfig("b", "127.0.0.1", 7400))
    one.links.start_dialling()
    one.b.dialling.pause_s = LONGEST_PAUSE_S
    one.did(one.links.tick(0.0))
    one.links.dialled("b", 0.0)
    one.greet(0.1)
    assert one.links.deadline() is None
    now_s = 0.1 + 2 * STEADY_S
    one.links.dial_ended("b", now_s)
    one.lose(now_s)
    due_s = one.links.deadline()
    assert due_s is not None
    assert now_s < due_s <= now_s + 1.5 * FIRST_PAUSE_S


def test_who_has_dialled_us_is_not_dialled_until_it_is_away() -> None:
    one = One(LinkConfig("b", "127.0.0.1", 7400))
    one.greet(0.0)
    one.links.start_dialling()
    assert one.did(one.links.tick(1.0)) == []
    one.lose(2.0)
    due_s = one.links.deadline()
    assert due_s is not None
    assert 2.0 <= due_s <= 2.0 + FIRST_PAUSE_S
    assert one.did(one.links.tick(due_s)) == [Dial("b")]


def test_a_neighbour_with_another_address_is_dialled_there() -> None:
    one = One(LinkConfig("b", "127.0.0.1", 7400))
    one.links.start_dialling()
    one.did(one.links.tick(0.0))
    one.links.dialled("b", 0.0)
    one.greet(0.0)
    asked = one.did(one.links.configure([LinkConfig("b", "127.0.0.1", 7401)], 5.0))
    assert asked[0] == Close("b", "the neighbour has another address")
    one.links.dial_ended("b", 5.0)
    one.lose(5.0)
    assert one.did(one.links.tick(5.0 + FIRST_PAUSE_S)) == [Dial("b")]
