"""The heap's array grows by pages, and keeps what is in it."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

from covey.core.families import parse
from covey.matching.attributes import room
from covey.matching.attributes.room import MAPPED_BYTES, Room
from covey.matching.index import Index


@pytest.mark.parametrize("can_map", [True, False])
def test_growing_keeps_words_and_adds_zeros(can_map: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_CAN_MAP", can_map and sys.platform == "linux")
    one = Room(np.arange(1, 1001, dtype=np.int64))
    known = 1000
    while len(one.array) * 8 < 8 * MAPPED_BYTES:
        before = len(one.array)
        one.grow(before + 1)
        assert len(one.array) > before
        assert np.array_equal(one.array[:known], np.arange(1, known + 1))
        assert not one.array[known:].any()
        known = len(one.array)
        one.array[:] = np.arange(1, known + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux adds pages to memory")
def test_what_is_large_is_not_copied() -> None:
    one = Room(np.zeros(MAPPED_BYTES, np.int64))
    one.grow(MAPPED_BYTES + 1)
    mapped = one._mapped
    assert mapped is not None
    for _ in range(10):
        one.grow(len(one.array) + 1)
    assert one._mapped is mapped


def test_enough_room_stays_as_it_is() -> None:
    one = Room(np.zeros(100, np.int64))
    array = one.array
    one.grow(100)
    assert one.array is array


def test_a_view_that_is_kept_has_what_it_had() -> None:
    """Nobody may keep one; whoever does has an old copy, and no memory that is gone."""
    one = Room(np.arange(MAPPED_BYTES, dtype=np.int64))
    one.grow(MAPPED_BYTES + 1)
    kept = one.array[:10]
    one.grow(10 * MAPPED_BYTES)
    assert np.array_equal(kept, np.arange(10))
    assert np.array_equal(one.array[:MAPPED_BYTES], np.arange(MAPPED_BYTES))


def test_an_index_larger_than_its_first_room_goes_to_another_process() -> None:
    index = Index()
    for number in range(5_000):
        index.add(number, parse(f"a = {number} and b > {number % 97} and c < {number % 89}"))
    event = {"a": 4_321, "b": 98, "c": -1}
    assert set(index.match(event)) == {4_321}
    other = pickle.loads(pickle.dumps(index))
    for number in range(5_000, 6_000):
        other.add(number, parse(f"a = 4321 and b > {number}"))
    assert set(other.match(event)) == {4_321}
    assert set(index.match(event)) == {4_321}
