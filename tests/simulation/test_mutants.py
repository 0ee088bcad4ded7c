"""Known bugs put back into whole brokers: trials find each of them (`mutants`)."""

from __future__ import annotations

import pytest

from covey.sim.broker_trial import BrokerTrial
from tests.simulation.mutants import MOST, MUTANTS, search, stored_scripts

AT_LEAST = 20


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= AT_LEAST
    assert list(stored_scripts()) == list(MUTANTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_short_script_finds_it(name: str) -> None:
    script = stored_scripts()[name]
    assert BrokerTrial(script).run().findings == (), "it finds something without the bug"
    assert MUTANTS[name].findings(script), "it finds the bug no longer (hint: store another script)"


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_it_is_found_within_two_thousand_seeds(name: str) -> None:
    assert search(MUTANTS[name], MOST).seed is not None
