"""Brokers that die while they install plans: whatever they leave, a later installation is possible, and cleans up."""

from __future__ import annotations

import random

import pytest
from tests.oracles.cores import Cores
from tests.property.test_epochs import LINKS, TREES, mesh_of, plan

from covey.broker.plans import GONE_S, GRACE_S, Installation, Step
from covey.core.families import parse
from covey.errors import PlanError
from covey.protocol.control import BARE, MOST_EPOCHS, PlanState

PLAN = plan(TREES[:2], None)


def kill(mesh: Cores, name: str, *, forgets: bool = False) -> None:
    """Let a broker die and come back with what is on its disk, or with nothing."""
    mesh.kill(name)
    if forgets:
        mesh.machines[name].plans = BARE
    mesh.start(name)
    for link in LINKS:
        if name in link:
            mesh.connect(*link)


def states(mesh: Cores) -> set[tuple[int, frozenset[int]]]:
    """Return what is current and what is installed, at any broker."""
    mesh.settle()
    return {(one.core.epochs.current, frozenset(one.core.epochs.routers)) for one in mesh.alive.values()}


def wedged(*, forgets: bool = False) -> Cores:
    """Return a network in which a has been killed three times while it installed a plan."""
    mesh = mesh_of("covering", 1)
    for _ in range(MOST_EPOCHS - 1):
        mesh.settle()
        mesh.machines["a"].install(PLAN)
        for _ in range(3):
            mesh.step()
        kill(mesh, "a", forgets=forgets)
    mesh.settle()
    assert all(len(one.core.epochs.routers) == MOST_EPOCHS for one in mesh.machines.values())
    return mesh


@pytest.mark.parametrize("forgets", [False, True])
def test_a_broker_that_was_killed_while_it_installed_cleans_up_when_it_is_back(forgets: bool) -> None:
    mesh = wedged(forgets=forgets)
    mesh.pass_time(1.0)
    installation = mesh.core("a").plans.installation
    assert installation is not None
    assert installation.step is Step.ABANDONED
    mesh.pass_time(GRACE_S)
    assert states(mesh) == {(0, frozenset({0}))}
    again = mesh.machines["a"].install(PLAN)
    mesh.settle()
    assert again.step is Step.SWITCHED


@pytest.mark.parametrize("where", ["a", "d"])
@pytest.mark.parametrize("asked", [PLAN, b""])
def test_any_broker_can_install_after_one_was_killed(where: str, asked: bytes) -> None:
    mesh = wedged()
    mesh.pass_time(0.1)  # from which a broker that has restarted counts
    machine = mesh.machines[where]
    if asked:
        with pytest.raises(PlanError, match="are the most at one time"):
            machine.install(asked)  # whoever installs may be alive, as far as this broker knows
    mesh.now_s += GONE_S  # but nobody has any more to say
    made = machine.install(asked)
    mesh.settle()
    assert made.step is Step.SWITCHED
    mesh.pass_time(GRACE_S)
    assert states(mesh) == {(made.epoch, frozenset({0, made.epoch}))}


def test_any_broker_can_roll_back_what_a_dead_one_has_left() -> None:
    mesh = wedged()
    with pytest.raises(PlanError, match="no plan was installed at this broker"):
        mesh.machines["f"].roll_back()
    mesh.now_s += GONE_S
    mesh.machines["f"].roll_back()
    assert states(mesh) == {(0, frozenset({0}))}
    with pytest.raises(PlanError, match="taken back already: rolled back"):
        mesh.machines["f"].roll_back()


def test_what_an_installation_under_way_elsewhere_needs_is_left_alone() -> None:
    mesh = mesh_of("covering", 1)
    mesh.settle()
    made = mesh.machines["a"].install(PLAN)
    mesh.pass_time(0.0)
    with pytest.raises(PlanError, match="no plan was installed at this broker"):
        mesh.machines["f"].roll_back()
    mesh.settle()
    assert made.step is Step.SWITCHED
    second = mesh.machines["a"]
    mesh.pass_time(GRACE_S)
    mesh.settle()
    later = second.install(plan(TREES[:1], None))
    mesh.settle()
    assert later.step is Step.SWITCHED
    overtaking = mesh.machines["f"].install(plan(TREES[1:], None))
    assert {made.epoch, later.epoch, overtaking.epoch} < set(mesh.core("f").epochs.routers), (
        "what set out in the plan before may be on its way"
    )
    mesh.settle()
    mesh.pass_time(GRACE_S)
    assert states(mesh) == {(overtaking.epoch, frozenset({0, overtaking.epoch}))}
    assert (later.step, later.reason) == (Step.FAILED, "broker f has installed another plan meanwhile")


def test_plans_that_come_and_go_leave_nothing() -> None:
    mesh = mesh_of("covering", 1)
    mesh.settle()
    for _ in range(MOST_EPOCHS):
        for asked in (PLAN, b""):
            mesh.machines["c"].install(asked)
            mesh.settle()
            mesh.pass_time(GRACE_S)
    assert states(mesh) == {(0, frozenset({0}))}


def test_the_overlay_is_a_way_out_of_a_plan_whose_broker_is_gone() -> None:
    mesh = mesh_of("covering", 1)
    mesh.settle()
    mesh.machines["a"].install(PLAN)
    mesh.settle()
    mesh.pass_time(GRACE_S)
    mesh.kill("f")
    made = mesh.machines["b"].install(b"")
    mesh.settle()
    assert made.step is Step.SWITCHED
    mesh.pass_time(GRACE_S)
    assert states(mesh) == {(0, frozenset({0}))}


def test_a_broker_whose_own_state_of_before_comes_back_does_not_go_on_from_an_older_one() -> None:
    mesh = mesh_of("covering", 1)
    mesh.settle()
    mesh.machines["a"].install(PLAN)
    mesh.settle()
    mesh.pass_time(GRACE_S)
    mesh.settle()
    version = mesh.core("b").epochs.state.version
    kill(mesh, "a", forgets=True)
    made = mesh.machines["a"].install(PLAN)  # before a neighbour has said what there is
    assert made.state.version <= version
    mesh.settle()
    mesh.pass_time(40.0)
    mesh.settle()
    assert made.step is Step.FAILED
    assert {one.core.epochs.state.version for one in mesh.machines.values()} == {version}


def test_links_begin_anew_where_two_plans_meet_under_one_number() -> None:
    mesh = mesh_of("covering", 1, reconnects=True)
    mesh.settle()
    first, second = mesh.machines["a"].install(PLAN), mesh.machines["f"].install(plan(TREES[:1], None))
    assert first.epoch == second.epoch
    mesh.settle()
    assert (first.step, second.step) == (Step.FAILED, Step.SWITCHED), (
        "of two versions, the larger name counts"
    )
    reasons = mesh.machines["a"].reasons("link down")
    assert any("has the number of another one" in reason for reason in reasons)
    third = mesh.machines["a"].install(PLAN)
    assert third.epoch > second.epoch


@pytest.mark.parametrize("seed", range(30))
def test_every_state_heals(seed: int) -> None:
    """Installations, roll-backs and kills at random; then time passes, and a plan can be installed from anywhere."""
    pick = random.Random(seed)
    mesh = mesh_of("covering", seed, reconnects=True)
    for _ in range(25):
        machine = mesh.machines[pick.choice("abcdef")]
        try:
            match pick.randrange(6):
                case 0 | 1:
                    machine.install(plan(TREES[: pick.randint(1, 3)], None))
                case 2:
                    machine.install(b"")
                case 3:
                    machine.roll_back()
                case 4:
                    kill(mesh, machine.name, forgets=pick.random() < 0.3)
                case _:
                    mesh.pass_time(pick.choice([0.1, 3.0, 12.0]))
        except PlanError:
            pass
        for _ in range(pick.randrange(30)):
            mesh.step()
    for _ in range(8):
        mesh.settle()
        mesh.pass_time(GRACE_S)
    mesh.settle()
    assert len({one.core.epochs.state.order for one in mesh.machines.values()}) == 1
    publisher, subscriber = mesh.client("d"), mesh.client("f")
    publisher.advertise(parse("x > 0"))
    sid = subscriber.subscribe(parse("x > 1"))
    made = mesh.machines[pick.choice("abcdef")].install(PLAN)
    mesh.settle()
    numbers = [publisher.publish({"x": 2}) for _ in range(3)]
    mesh.settle()
    assert subscriber.delivered == [(sid, publisher.number, number) for number in numbers]
    assert made.step is Step.SWITCHED
    mesh.pass_time(GRACE_S)
    assert states(mesh) == {(made.epoch, frozenset({0, made.epoch}))}


def test_epochs_are_found_again_when_numbers_run_out() -> None:
    state = PlanState(9, "a", 65_535, {0: b"", 65_535: PLAN})
    made = Installation(state, "a", PLAN, 0.0, patience_s=1.0, grace_s=1.0)
    assert made.epoch == 1
    assert set(made.state.plans) == {0, 1, 65_535}
