"""A live broker's timer on every event loop."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from covey.broker.config import BrokerConfig
from covey.broker.effects import Effect, Input, Instant, Log, Tick
from covey.broker.process import loop_factory
from covey.broker.server import Broker


@pytest.mark.parametrize("delay_s", [0.0002, 0.0004, 0.01])
def test_a_deadline_that_is_almost_there(monkeypatch: pytest.MonkeyPatch, delay_s: float) -> None:
    # A fast loop's handle of a delay below half a millisecond is no timer's handle.
    async def main() -> None:
        async with Broker(BrokerConfig(name="b", port=0)) as broker:
            asked = 0
            await asyncio.sleep(0.05)  # what starting takes is done

            def deadline() -> float:
                nonlocal asked
                asked += 1
                return time.monotonic() + delay_s

            monkeypatch.setattr(broker.core, "deadline", deadline)
            for _ in range(3):
                broker._set_timer()
            before = asked
            while asked < before + 3:  # it rings, again and again
                await asyncio.sleep(0.001)
            monkeypatch.undo()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(asyncio.wait_for(main(), 30))


def test_the_clock_goes_on_after_a_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with Broker(BrokerConfig(name="b", port=0, lease_s=1.0)) as broker:
            await asyncio.sleep(0.05)
            right, ticks, mistakes = broker.core.step, 0, 0

            def step(given: Input, now: Instant) -> list[Effect]:
                nonlocal ticks, mistakes
                if isinstance(given, Tick):
                    ticks += 1
                    if ticks == 1:
                        mistakes += 1
                        raise RuntimeError("a mistake of ours")
                return right(given, now)

            monkeypatch.setattr(broker.core, "step", step)
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
            while ticks < 4:
                await asyncio.sleep(0.01)
            assert mistakes == 1
            monkeypatch.undo()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(asyncio.wait_for(main(), 30))


def test_an_effect_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Broker(BrokerConfig(name="b", port=0)) as broker:
            caplog.set_level(logging.INFO, "covey.broker")
            broker._carry_out([Log(logging.INFO, "broken", {"broker": 1}), Log(logging.INFO, "whole", {})])

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(asyncio.wait_for(main(), 30))
    said = [record.getMessage() for record in caplog.records]
    assert "whole" in said[said.index("internal error while carrying out Log") :]
