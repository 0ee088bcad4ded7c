"""A thousand random faults over line, ring, star and grid, in the long run; a few in every run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.chaos import FAULTS, one_round
from tests.e2e.helpers.faulty import TOPOLOGIES
from tests.e2e.helpers.nursery import Nursery

ROUNDS = 1_000 // FAULTS // len(TOPOLOGIES)


def test_a_few_random_faults(nursery: Nursery, tmp_path: Path) -> None:
    report = one_round(nursery, tmp_path, "ring", "default", 6)
    assert report.faults.total() == 6
    assert report.confirmed


@pytest.mark.long
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_random_faults(nursery: Nursery, tmp_path: Path, topology: str, number: int) -> None:
    assert one_round(nursery, tmp_path, topology, f"long {number}").faults.total() == FAULTS
