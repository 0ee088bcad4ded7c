"""A live broker's timer on every event loop."""

from __future__ import annotations

import asyncio
import time

import pytest

from covey.broker.config import BrokerConfig
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
