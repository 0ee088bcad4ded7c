"""Every target reads or refuses what a fixed seed draws; the long run takes new time, and judges time, too."""

from __future__ import annotations

from math import inf

import pytest

from tests.fuzz.harness import run
from tests.fuzz.targets import TARGETS

INPUTS = {"frames": 400, "handshakes": 300, "configuration": 150, "samples": 300}
LONG_S = 20.0


@pytest.mark.parametrize("name", TARGETS)
def test_some_inputs(name: str) -> None:
    counts = run(TARGETS[name], 0, inputs=INPUTS.get(name, 1_000), most_cpu_s=inf)
    assert not counts.failures, counts.failures[0]
    assert counts.inputs == INPUTS.get(name, 1_000)
    assert counts.read > counts.inputs / 50, "some are good"


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_much(name: str) -> None:
    counts = run(TARGETS[name], 2, seconds=LONG_S)
    assert not counts.failures, counts.failures[0]
