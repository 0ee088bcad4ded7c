"""Settings of all tests.

Random examples are the same in every run of the default profile, so that a failure is a fact about the
change and not about the day. The `long` profile looks further and at new examples each time.

`make test` runs two tests at a time. A file's tests stay in one process, where they share what is slow to make; each
process has a Spark session of its own. The slowest come first, so that none waits long for the other at the end.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine is slow at moments that say nothing about the code under test.
UNHURRIED = [HealthCheck.too_slow]

settings.register_profile(
    "default", derandomize=True, deadline=None, max_examples=60, suppress_health_check=UNHURRIED
)
settings.register_profile("long", deadline=None, max_examples=2000, suppress_health_check=UNHURRIED)
settings.load_profile(os.environ.get("COVEY_HYPOTHESIS_PROFILE", "default"))

SLOWEST_FIRST = ("spark", "papers", "conformance", "property")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow ones."""
    items.sort(key=lambda item: _place(item.path.parent.name))


def _place(folder: str) -> int:
    return SLOWEST_FIRST.index(folder) if folder in SLOWEST_FIRST else len(SLOWEST_FIRST)
