"""What end-to-end tests are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.e2e.helpers.nursery import Nursery
from tests.e2e.helpers.scripted import broker, url

from covey.broker.server import Broker
from covey.broker.warming import warm_up
from covey.client.sync import Calls


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    """Compile before the first test begins, whose time is limited."""
    warm_up()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """A process that forks brokers, one for all tests."""
    with Nursery() as one:
        yield one


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a broker that runs in a thread of its own, for what blocks."""
    calls = Calls("broker")

    async def start() -> Broker:
        one = broker()
        await one.start()
        return one

    one = calls.call(start())
    yield url(one.port)
    calls.call(one.stop())
    calls.stop()
