"""The mirror holds at every moment: a broker's entries and what is under way to it make up what it was told.

After every single arrival, not only at rest. XROUTE's own invariants, at every step, are in property/test_xroute.py.
"""

from __future__ import annotations

import pytest

import covey
from covey.routing.messages import Unsubscribe
from covey.sim.checkers import mirror_under_way
from covey.sim.trial import Trial
from covey.strategies.subscriptions import SubscriptionStrategy

KEYED = [name for name in covey.strategies() if name not in ("flooding", "xroute", "xroute-sets")]
SEEDS = 12


@pytest.mark.parametrize("strategy", KEYED)
def test_the_mirror_holds_after_every_arrival(strategy: str) -> None:
    for seed in range(SEEDS):
        outcome = Trial(strategy, seed % 2 == 0, "tree", seed, faults=seed % 3 == 0).run(mirror_under_way)
        assert not outcome.findings, f"{outcome.findings[0]}; repeat it: {outcome.trial.command}"


def test_a_broker_that_deletes_on_its_own_account_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SubscriptionStrategy._receive_subscribe

    def receive_and_delete(self: SubscriptionStrategy, link: str, message: covey.Filter) -> None:
        right(self, link, message)  # type: ignore[arg-type]
        for key, filter in list(self.table.of_link(link).items()):
            if filter != message.filter and message.filter.covers(filter):  # type: ignore[attr-defined]
                self.receive(link, Unsubscribe(key))

    monkeypatch.setattr(SubscriptionStrategy, "_receive_subscribe", receive_and_delete)
    outcomes = (Trial("covering-lazy", False, "tree", seed).run(mirror_under_way) for seed in range(60))
    assert any(finding.startswith("mirror") for outcome in outcomes for finding in outcome.findings)
