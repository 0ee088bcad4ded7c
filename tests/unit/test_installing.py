"""Installing a plan: each step, and every way in which it can fail."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import covey.strategies  # noqa: F401 (registers them)
from covey.broker.actions import KeepPlans, Release, Send, Tell
from covey.broker.config import BrokerConfig
from covey.broker.plans import MOVES, Epochs, Input, Installation, Plans, Refused, Step, router_maker
from covey.errors import PlanError, ProtocolError
from covey.planning.plan import Plan, PlannedTree
from covey.protocol.control import BARE, MOST_EPOCHS, PlanState, Ready, decode_plan, encode_plan
from covey.routing.messages import LinkUp

PLAN = Plan(
    "mine",
    1,
    ("a", "b", "c"),
    (("a", "b", 1.0), ("a", "c", 1.0), ("b", "c", 1.0)),
    (PlannedTree("a", (("a", "b"), ("a", "c"))), PlannedTree("c", (("a", "b"), ("b", "c")))),
).encode()


def begin(state: PlanState = BARE) -> Installation:
    return Installation(state, "a", PLAN, 100.0, patience_s=30.0, grace_s=5.0)


def step_of(installation: Installation) -> Step:
    """Return the step, read anew: a type checker takes an attribute that was compared for one that stays."""
    return installation.step


def test_a_plan_goes_in_step_by_step() -> None:
    installation = begin()
    asked = installation.state
    assert (asked.version, asked.current, asked.plans) == (1, 0, {0: b"", 1: PLAN})
    assert [installation.ready(broker) for broker in ("b", "b", "a", "c")] == [False, False, False, True]
    assert step_of(installation) is Step.PROBING
    switched = installation.probed(110.0)
    assert switched is not None
    assert (switched.version, switched.current, set(switched.plans)) == (2, 1, {0, 1})
    assert installation.tick(114.9) is None
    assert installation.tick(115.0) is None, "the overlay's own epoch stays"
    assert step_of(installation) is Step.DONE
    assert installation.tick(1e9) is None
    with pytest.raises(PlanError, match="retired"):
        installation.roll_back(1e9)


def test_a_plan_is_retired_after_the_next_one() -> None:
    before = PlanState(4, "b", 3, {0: b"", 3: PLAN})
    installation = begin(before)
    for broker in "abc":
        installation.ready(broker)
    installation.probed(101.0)
    retired = installation.tick(106.0)
    assert retired is not None
    assert (retired.version, retired.current, set(retired.plans)) == (7, 4, {0, 4})


def test_a_broker_that_is_not_ready_in_time_stops_it() -> None:
    installation = begin()
    installation.ready("a")
    assert installation.tick(129.0) is None
    state = installation.tick(130.0)
    assert state is not None
    assert (state.version, state.current, state.plans) == (2, 0, {0: b""})
    assert installation.step is Step.FAILED
    assert installation.reason == "not ready in time: b, c"
    assert not installation.ready("b")
    assert installation.probed(131.0) is None


def test_a_plan_in_use_is_rolled_back_and_stays_for_what_is_on_its_way() -> None:
    installation = begin()
    for broker in "abc":
        installation.ready(broker)
    installation.probed(101.0)
    back = installation.roll_back(102.0)
    assert back is not None
    assert (back.current, set(back.plans)) == (0, {0, 1})
    with pytest.raises(PlanError, match="taken back already: rolled back"):
        installation.roll_back(103.0)
    assert installation.tick(106.9) is None
    state = installation.tick(107.0)
    assert state is not None
    assert (state.current, set(state.plans)) == (0, {0})
    assert installation.step is Step.FAILED


def at(step: Step) -> Installation:
    """Return an installation at a step."""
    if step is Step.ABANDONED:
        return Installation.abandoned(PlanState(3, "a", 0, {0: b"", 7: PLAN}), "a", 100.0, 5.0)
    made = begin()
    if step in (Step.PROBING, Step.SWITCHED, Step.DONE, Step.BACK):
        assert [made.ready(broker) for broker in "abc"] == [False, False, True]
    if step in (Step.SWITCHED, Step.DONE, Step.BACK):
        made.probed(101.0)
    if step is Step.DONE:
        made.tick(200.0)
    elif step is Step.BACK:
        made.roll_back(101.0)
    elif step is Step.FAILED:
        made.tick(200.0)
    assert made.step is step
    return made


def give(made: Installation, given: Input) -> PlanState | None:
    match given:
        case Input.READY:
            made.missing.clear()
            made.ready("c")
        case Input.ECHOED:
            return made.probed(102.0)
        case Input.DUE:
            return made.tick(1_000.0)
        case Input.ROLL_BACK:
            return made.roll_back(102.0)
        case Input.OVERTAKEN:
            made.overtaken("z")
        case Input.INSTALL:
            made.check_free()
    return None


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("given", Input)
def test_every_step_knows_every_input(step: Step, given: Input) -> None:
    made, move = at(step), MOVES[step, given]
    version = made.state.version
    if isinstance(move, Refused):
        with pytest.raises(PlanError, match=str(move).partition(" (")[0]):
            give(made, given)
        assert made.step is step
        return
    said = give(made, given)
    assert said is None or said.version == version + 1
    if given is Input.INSTALL:
        assert move is Step.WAITING, "of the next one"
    else:
        assert made.step is (move if isinstance(move, Step) else step)
    assert isinstance(move, Step) or said is None, "what is ignored changes nothing"


def test_from_every_step_another_plan_can_be_installed_in_time() -> None:
    """Whatever other brokers do or do not, time leads to a step in which the next plan is taken."""
    for step in Step:
        made = at(step)
        for _ in Step:
            made.tick(1e9)
        made.check_free()
        assert not made.is_under_way


def test_there_are_never_too_many_plans() -> None:
    plans = dict.fromkeys(range(MOST_EPOCHS), b"")
    with pytest.raises(PlanError, match="are the most at one time"):
        begin(PlanState(7, "b", 0, plans))


def test_clients_are_released_where_the_epoch_they_wait_for_goes_as_another_comes() -> None:
    epochs = Epochs(router_maker(BrokerConfig("a")), PlanState(1, "b", 1, {0: b"", 1: PLAN}))
    plans = Plans("a", epochs)
    for state in (PlanState(2, "b", 0, {0: b"", 1: PLAN}), PlanState(3, "b", 0, {0: b"", 2: PLAN})):
        said = list(plans.received("b", memoryview(encode_plan(state)), 100.0))
        assert (Release() in said) == (state.version == 3)
        assert Release() not in list(plans.kept())
        assert plans.is_holding == (state.version == 2)
    assert plans.has_work


def told(said: Iterable[object]) -> list[tuple[str, object]]:
    """Return who is told which state."""
    sent = ((one.link, decode_plan(one.body)) for one in said if isinstance(one, Send))
    return [(link, message) for link, message in sent if isinstance(message, PlanState)]


def test_a_state_is_on_disk_before_anybody_hears_of_it() -> None:
    plans = Plans("a", Epochs(router_maker(BrokerConfig("a"))))
    for link in "bc":
        assert not list(plans.connected(link, pieces=True))
    state = PlanState(1, "b", 0, {0: b"", 1: PLAN})
    said = list(plans.received("b", memoryview(encode_plan(state)), 100.0))
    assert KeepPlans(state) in said
    assert not told(said)
    while plans.has_work:
        assert not list(plans.work()), "the new router has no neighbours before they know of it"
    assert not told(plans.connected("d", pieces=True)), "it is told what is on disk"
    assert told(plans.kept()) == [("c", state), ("d", state)], "b has said it"
    assert plans.has_work
    assert Tell(LinkUp(pieces=True), "d", 1) in list(plans.work())
    assert not plans.has_work


def test_of_states_that_come_while_one_is_kept_the_newest_is_kept_next() -> None:
    plans = Plans("a", Epochs(router_maker(BrokerConfig("a"))))
    list(plans.connected("b", pieces=True))
    states = [PlanState(version, "c", 0, {0: b"", version: PLAN}) for version in (1, 2, 3)]
    said = [
        action
        for state in states
        for action in plans.received("c", memoryview(encode_plan(state)), 100.0)
        if isinstance(action, KeepPlans | Send)
    ]
    assert said == [KeepPlans(states[0])], "one at a time"
    assert list(plans.kept()) == [KeepPlans(states[2])]
    assert told(plans.connected("d", pieces=True)) == []
    assert told(plans.kept()) == [("b", states[2]), ("d", states[2])]
    assert not plans.is_keeping


def test_a_neighbour_that_has_told_a_state_and_is_back_is_told_it() -> None:
    plans = Plans("a", Epochs(router_maker(BrokerConfig("a"))))
    state = PlanState(1, "b", 0, {0: b"", 1: PLAN})
    list(plans.connected("b", pieces=True))
    list(plans.received("b", memoryview(encode_plan(state)), 100.0))
    plans.disconnected("b")
    list(plans.connected("b", pieces=True))
    assert told(plans.kept()) == [("b", state)]


def test_clients_do_not_publish_in_an_epoch_of_which_nobody_was_told() -> None:
    epochs = Epochs(router_maker(BrokerConfig("a")), PlanState(1, "b", 0, {0: b"", 1: PLAN}))
    plans = Plans("a", epochs)
    list(plans.received("b", memoryview(encode_plan(PlanState(2, "b", 1, {0: b"", 1: PLAN}))), 100.0))
    (probe,) = plans._holds
    assert Release() not in list(plans.echoed(probe, 100.0))
    assert plans.is_holding
    assert Release() in list(plans.kept())
    assert not plans.is_holding


def test_what_is_no_plan_is_refused_before_anybody_hears_of_it() -> None:
    with pytest.raises(PlanError):
        Installation(BARE, "a", b"{}", 0.0, patience_s=1.0, grace_s=1.0)


@pytest.mark.parametrize("said", [BARE, PlanState(3, "x", 2, {2: PLAN, 0: b""}), Ready(3, "x", "b")])
def test_messages_travel(said: PlanState | Ready) -> None:
    assert decode_plan(encode_plan(said)) == said


@pytest.mark.parametrize(
    "said",
    [
        PlanState(1, "x", 3, {0: b""}),
        PlanState(1, "x", 0, {}),
        PlanState(1, "x", 0, dict.fromkeys(range(MOST_EPOCHS + 1), b"")),
        PlanState(1, "x", 0, {0: b"", 1 << 16: b""}),
        b"",
        ["state"],
    ],
)
def test_what_cannot_be_is_refused(said: object) -> None:
    with pytest.raises(ProtocolError):
        decode_plan(encode_plan(said))
