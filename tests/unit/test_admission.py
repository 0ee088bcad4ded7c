"""Places at a broker: strangers make room for those who come after them, known peers are bounded, some are reserved."""

from __future__ import annotations

import resource

import pytest

from covey.broker.admission import DESCRIPTORS_KEPT, Admission, Place, Places, descriptors_of, places_of
from covey.broker.config import AdminConfig, BrokerConfig, LinkConfig
from covey.broker.process import raise_descriptors


def test_beyond_its_bound_an_address_loses_its_first_stranger() -> None:
    doors = Admission(Places(clients=10, strangers=100, strangers_per_address=3))
    assert [doors.knock(number, "evil") for number in (1, 2, 3)] == [[], [], []]
    assert doors.knock(4, "good") == []
    assert doors.knock(5, "evil") == [1]
    doors.leave(2)
    assert doors.knock(6, "evil") == []
    assert doors.knock(7, "evil") == [3]
    assert doors.counted(Place.STRANGER) == 4


def test_beyond_the_bound_of_all_the_first_stranger_goes() -> None:
    doors = Admission(Places(clients=10, strangers=3, strangers_per_address=3))
    for number in (1, 2, 3):
        assert doors.knock(number, f"host {number}") == []
    assert doors.knock(4, "host 4") == [1]
    assert doors.take(2, Place.CLIENT)
    assert doors.knock(5, "host 5") == []
    assert doors.knock(6, "host 6") == [3]


def test_a_peer_whose_password_is_checked_does_not_make_room() -> None:
    doors = Admission(Places(clients=10, strangers=3, strangers_per_address=1))
    doors.knock(1, "host")
    assert doors.take(1, Place.VERIFYING)
    assert doors.knock(2, "host") == []
    assert doors.knock(3, "host") == [2]


def test_clients_leave_room_for_operators_and_neighbours() -> None:
    doors = Admission(Places(clients=2, reserved=1, strangers=10, strangers_per_address=10))
    for number in range(1, 9):
        doors.knock(number, "host")
    assert [doors.take(number, Place.CLIENT) for number in (1, 2, 3)] == [True, True, False]
    assert doors.take(1, Place.CLIENT), "it has its place"
    assert [doors.take(number, Place.ADMIN) for number in (3, 4)] == [True, False]
    assert all(doors.take(number, Place.NEIGHBOUR) for number in (5, 6, 7))
    doors.leave(1)
    assert doors.take(8, Place.CLIENT)
    doors.leave(99)  # of whom nobody knows


@pytest.mark.parametrize("first", [Place.ADMIN, Place.CLIENT])
def test_operators_and_clients_together_are_never_more_than_there_are_places(first: Place) -> None:
    doors = Admission(places_of(BrokerConfig("a", max_connections=100, admin=AdminConfig()), 1_000))
    second = Place.CLIENT if first is Place.ADMIN else Place.ADMIN
    for number in range(400):
        doors.knock(number, f"host {number}")
        doors.take(number, first if number < 200 else second)
    assert doors.counted(Place.CLIENT) + doors.counted(Place.ADMIN) == 100
    assert doors.counted(Place.CLIENT) >= 92 // 2, "operators leave half of their places to clients"
    assert doors.counted(Place.ADMIN) >= 8


def test_a_connection_that_goes_on_as_another_kind_needs_no_second_place() -> None:
    doors = Admission(Places(clients=2, reserved=1, strangers=10, strangers_per_address=10))
    for number in (1, 2, 3, 4):
        doors.knock(number, "host")
    assert all(
        doors.take(number, place)
        for number, place in ((1, Place.CLIENT), (2, Place.CLIENT), (3, Place.ADMIN))
    )
    assert doors.take(2, Place.ADMIN)
    assert doors.take(2, Place.CLIENT)
    assert not doors.take(4, Place.CLIENT)
    assert not doors.take(4, Place.ADMIN)


@pytest.mark.parametrize(
    ("descriptors", "clients", "strangers"),
    [
        (None, 10_000 - 8, 1_000),
        (20_000, 10_000 - 8, 1_000),
        (1_024, 1_024 - 2 * 128 - DESCRIPTORS_KEPT - 8, 128),
        (10, 1, 1),
    ],
)
def test_there_are_no_more_places_than_descriptors(
    descriptors: int | None, clients: int, strangers: int
) -> None:
    found = places_of(BrokerConfig("a", admin=AdminConfig()), descriptors)
    assert (found.clients, found.strangers) == (clients, strangers)


def test_places_are_reserved_for_neighbours_that_are_configured() -> None:
    config = BrokerConfig("a", links=(LinkConfig("b"), LinkConfig("c")), max_connections=10)
    assert places_of(config, None).clients == 8
    assert places_of(BrokerConfig("a", max_connections=1, links=config.links), None).clients == 1


@pytest.mark.parametrize(
    "config",
    [
        BrokerConfig("a"),
        BrokerConfig("a", admin=AdminConfig(), links=(LinkConfig("b"),)),
        BrokerConfig("a", max_connections=100),
        BrokerConfig("a", max_connections=100, max_unauthenticated=5_000),
        BrokerConfig("a", max_connections=1, max_unauthenticated=1),
    ],
)
def test_a_process_asks_for_so_many_descriptors_that_no_place_is_missing(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft = 1
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, 1 << 20))

    def set_limit(which: int, limits: tuple[int, int]) -> None:
        nonlocal soft
        soft = limits[0]

    monkeypatch.setattr(resource, "setrlimit", set_limit)
    raise_descriptors(config)
    assert places_of(config, soft) == places_of(config, None)


@pytest.mark.parametrize("connections", [100, 10**9])
def test_a_process_asks_for_the_descriptors_that_it_wants(connections: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    config = BrokerConfig("a", max_connections=connections)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (900, before[1]))
        raise_descriptors(config)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert (soft, hard) == (min(descriptors_of(config), before[1]), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
