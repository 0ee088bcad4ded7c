"""What incremental aggregation remembers of events, and its settings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.oracles.incremental_chain import chain

from covey.errors import ConfigError
from covey.sim import Network
from covey.strategies.incremental.settings import Settings, Tier
from covey.strategies.incremental.statistics import FAR, Distances, Window

# -- the window ----------------------------------------------------------------------------------------------


def test_distances_give_similarity_and_critical_distance() -> None:
    distances = Distances()
    for hops in (2.0, 0.0, FAR, 2.0):
        distances.add(hops)
    assert [distances.similarity(hops) for hops in range(4)] == [0.25, 0.25, 0.75, 0.75]
    assert [distances.critical(share) for share in (0.25, 0.5, 0.75, 0.9, 1.0)] == [0, 2, 2, FAR, FAR]
    for _ in range(6):
        distances.add(2.0)
    assert distances.critical(0.9) == 2
    assert distances.critical(1.0) == FAR
    assert Distances().similarity(3) == 0


def test_eleven_in_twenty_are_55_percent() -> None:
    distances = Distances()
    for number in range(20):
        distances.add(1.0 if number < 11 else 2.0)
    assert distances.critical(0.55) == 1


def test_rows_leave_with_their_time_and_when_there_are_too_many() -> None:
    window = Window(10.0, 3, minimum_samples=1)
    place = ("client", "s")
    window.begin(place, 0.0)
    for number in range(5):
        window.record([place], "p", f"e{number}", float(number), float(number))
    assert [row.event for row in window.rows(place)] == ["e2", "e3", "e4"]
    assert window.critical(place, "p", 0.5, 4.0) == 3
    assert window.critical(place, "p", 0.5, 13.5) == 4
    assert window.rows(place) != []
    assert (
        window.critical(place, "p", 0.5, 100.0) == 0
    )  # nothing left of a subscription older than the window
    assert len(window) == 0


def test_rows_go_with_their_subscription() -> None:
    window = Window(10.0, 100, minimum_samples=1)
    place = ("client", "s")
    window.begin(place, 0.0)
    window.record([place], "p", "e1", 1.0, 1.0)
    window.forget(place)
    window.begin(place, 2.0)
    assert window.rows(place) == []
    window.record([place], "p", "e2", 5.0, 3.0)
    assert window.critical(place, "p", 0.5, 3.0) == 5
    assert window.critical(place, "p", 0.5, 12.0) == 5  # the old row has left the window, and nobody noticed
    window.record([("client", "another")], "p", "e3", 1.0, 3.0)  # never begun
    assert window.critical(("client", "another"), "p", 0.5, 3.0) == FAR


def test_without_evidence_a_young_subscription_is_removed_and_a_silent_publisher_is_harmless() -> None:
    window = Window(10.0, 100, minimum_samples=3)
    place = ("client", "s")
    window.begin(place, 0.0)
    assert window.critical(place, "p", 0.9, 9.0) == FAR
    assert window.critical(place, "p", 0.9, 10.0) == 0
    for number in range(3):
        assert window.critical(place, "p", 0.9, 10.0) == 0
        window.record([place], "p", f"e{number}", 4.0, 10.0)
    assert window.critical(place, "p", 0.9, 10.0) == 4


def test_a_window_that_is_cut_short_has_seen_less_time() -> None:
    window = Window(1000.0, 2, minimum_samples=1)
    quiet, busy = ("client", "quiet"), ("client", "busy")
    window.begin(quiet, 1.0)
    window.begin(busy, 1.0)
    window.record([busy], "p", "e1", 1.0, 2.0)
    assert window.critical(quiet, "p", 0.9, 5.0) == FAR
    for number in range(3):
        window.record([busy], "p", f"e{number + 2}", 1.0, 3.0 + number)
    assert window.critical(quiet, "p", 0.9, 6.0) == 0


# -- settings ------------------------------------------------------------------------------------------------


def test_default_tiers_are_those_of_the_formula() -> None:
    settings = Settings()
    assert [settings.tier(count) for count in (0, 9, 10, 5011, 5012)] == [None, None, 1, 1, 0]
    assert settings.least == 10


def test_tiers_may_be_lists_in_any_order() -> None:
    settings = Settings(tiers=[[10, 0.9], [100, 1]])  # type: ignore[arg-type]  # on purpose: as in a file
    assert settings.tiers == (Tier(100, 1), Tier(10, 0.9))


def test_without_tiers_nothing_is_kept() -> None:
    assert chain(tiers=()).kept() == {}


@pytest.mark.parametrize(
    "options",
    [
        {"tiers": 5},
        {"tiers": [5]},
        {"tiers": [(1, 0.5, 3)]},
        {"tiers": [(0, 0.5)]},
        {"tiers": [(1.5, 0.5)]},
        {"tiers": [(True, 0.5)]},
        {"tiers": [(1, 0)]},
        {"tiers": [(1, 1.1)]},
        {"tiers": [(1, "0.5")]},
        {"tiers": [(1, 0.5), (1, 0.6)]},
        {"burst": "network"},
        {"window_s": 0},
        {"window_s": float("nan")},
        {"window_s": float("inf")},
        {"window_rows": 0},
        {"window_rows": 1.5},
        {"minimum_samples": 0},
        {"meter_events": -1},
        {"tires": ()},
    ],
    ids=str,
)
def test_a_wrong_setting_is_one_clear_line(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Network([("a", "b")], "incremental", options=options)
    text = str(caught.value)
    assert next(iter(options)) in text or "tiers" in text
    assert "\n" not in text
