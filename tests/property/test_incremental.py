"""Incremental aggregation in random networks: whatever happens, in whatever order, everything promised holds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.oracles.incremental_runs import Run

KINDS: dict[str, dict[str, Any]] = {
    "links stay": {},
    "links fail": {"faults": True},
    "mixed": {"mixed": True},
    "mixed, links fail": {"mixed": True, "faults": True},
    "no advertisements": {"advertisements": False},
}


def run_all(kind: str, seeds: range) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        run = Run(seed, **KINDS[kind])
        assert run.run() == [], f"replay with Run({seed}, **{KINDS[kind]}).run()"
        total += run.net.router_counters()
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_every_promise_holds(kind: str) -> None:
    run_all(kind, range(30))


def test_the_runs_go_through_everything_that_can_happen() -> None:
    counters = run_all("links stay", range(50, 90))
    assert {"kept", "held", "collected", "adopted", "advanced", "reactivated", "triggered", "spared"} <= set(
        counters
    )


def test_without_advertisements_nothing_is_kept() -> None:
    counters = run_all("no advertisements", range(50, 60))
    assert counters["triggered"]
    assert not counters["kept"]
    assert not counters["held"]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", range(1000, 3000, 500))
def test_every_promise_holds_for_long(kind: str, start: int) -> None:
    run_all(kind, range(start, start + 500))


def test_a_run_is_the_same_every_time() -> None:
    def transcript() -> list[str]:
        run = Run(7)
        lines: list[str] = []
        run.net.observer = lambda sender, receiver, message: lines.append(f"{sender} {receiver} {message!r}")
        run.run()
        return lines

    assert transcript() == transcript()
