"""What end-to-end tests are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.e2e.helpers.nursery import Nursery

from covey.broker.warming import warm_up


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    """Compile before the first test begins, whose time is limited."""
    warm_up()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """A process that forks brokers, one for all tests."""
    with Nursery() as one:
        yield one
