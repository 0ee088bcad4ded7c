"""Whatever waits is woken: after every step of whole brokers, whoever waits has somebody who ends that, or a deadline.

A wake-up that is lost shows as a broker that does nothing, and only where nothing else comes along: in a simulation the
next input hides it. So what must hold after each step is looked at directly.
"""

from __future__ import annotations

from typing import Any

import pytest

from covey.broker import core as core_module
from covey.broker.core import BrokerCore, Peer, Phase
from covey.broker.effects import Arrived, Effect, Input, Instant, Received
from covey.broker.fastpath import FastPath
from covey.broker.neighbours import Neighbour
from covey.protocol.connection import State
from covey.sim.broker_trial import BrokerTrial


def check_peer(core: BrokerCore, peer: Peer) -> None:
    """A connection that is not read, or has more to send, waits for somebody."""
    connection, scheduler = peer.connection, core.scheduler
    waiting = scheduler._waiting.get(peer.number)
    is_blocked = scheduler.is_blocked(peer.number)
    if waiting is not None and waiting.chunks:
        assert waiting.is_due or is_blocked, "frames that nobody would handle"
        assert not waiting.is_due or peer.number in (*scheduler._fresh, *scheduler._due)
    if is_blocked:
        is_held_back = any(read.peer is peer.who for read in core._held)
        assert core.pressure.waits(peer.number) or is_held_back or core.plans.is_holding
    if connection.state is State.CLOSED:
        return
    for why in connection.holds:
        if why == core_module.FULL:
            assert waiting is not None
            assert waiting.chunks
        elif why == core_module.BLOCKED:
            assert core.pressure.waits(peer.number)
        elif why == core_module.BUSY:
            assert isinstance(peer.who, Neighbour)
            assert core.neighbours._waiting_bytes[peer.who.link] > 0
            assert core.neighbours.has_work or core.epochs.adopting
        else:
            assert why == core_module.PASSWORD
            assert peer.shows is not None, "its proof is being checked"
    if connection.outbox and connection.writable:
        assert peer in core._unsent, "something to send that nobody would send"
    due_s = connection.next_timeout()
    assert due_s is None or peer.due_s <= due_s, "a time-out that nobody looks at"


def check(core: BrokerCore) -> None:
    """See that whatever waits is woken."""
    if core.phase is Phase.ENDED:
        return
    for peer in core.peers.values():
        check_peer(core, peer)
    if core.epochs.adopting:
        assert core.plans.has_work or core.plans.is_keeping
    if core._held:
        assert core.plans.is_holding
    deadline_s, now_s = core.deadline(), core.now.monotonic_s
    assert deadline_s is not None, "a broker always looks around again"
    if core.scheduler.has_work or core._has_jobs or core._unsent:
        assert deadline_s <= now_s
        return
    plans, installation = core.plans, core.plans.installation
    if plans._holds:
        assert deadline_s <= plans._held_until_s
    if installation is not None and installation.is_under_way:
        assert deadline_s <= installation.until_s
    assert deadline_s <= core._next_tick_s
    if core._timeouts:
        assert deadline_s <= core._timeouts[0][0]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every step of every core looked at; return the list in which these are counted."""
    counted, step = [0], BrokerCore.step

    def looked_at(core: BrokerCore, given: Input, now: Instant) -> list[Effect]:
        found = step(core, given, now)
        check(core)
        counted[0] += 1
        return found

    monkeypatch.setattr(BrokerCore, "step", looked_at)
    return counted


@pytest.mark.parametrize("seed", range(25))
def test_whatever_waits_is_woken(seed: int, steps: list[int]) -> None:
    assert BrokerTrial.of_seed(seed).run().findings == ()
    assert steps[0] > 100


def test_the_same_where_events_are_passed_through(steps: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Here whatever comes from a connection arrives in a turn of its own, as from a shell with little to do."""
    step, pass_through, passed = BrokerCore.step, FastPath.pass_through, 0

    def arrived(core: BrokerCore, given: Input, now: Instant) -> list[Effect]:
        if isinstance(given, Received):
            given = Arrived({given.connection: given.data})
        return step(core, given, now)

    def counted(*given: Any) -> Any:
        nonlocal passed
        writes, left = pass_through(*given)
        passed += len(writes)
        return writes, left

    monkeypatch.setattr(BrokerCore, "step", arrived)
    monkeypatch.setattr(FastPath, "pass_through", counted)
    for seed in range(25, 50):
        assert BrokerTrial.of_seed(seed).run().findings == ()
    assert steps[0] > 10_000
    assert passed > 50
