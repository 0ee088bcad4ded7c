"""Answers of an index behave as sets."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import pytest

from covey.matching.keyset import HANDLES, MANY, Keys, KeyTable


def test_keys_are_a_set() -> None:
    keys: Set[int] = Keys(np.array([3, 1, 2]))
    assert keys == {1, 2, 3}
    assert {1, 2, 3} == keys
    assert keys != {1, 2}
    assert len(keys) == 3
    assert 2 in keys
    assert 9 not in keys
    assert sorted(keys) == [1, 2, 3]
    assert keys & {2, 5} == {2}
    assert keys | {5} == {1, 2, 3, 5}
    assert keys - {1} == {2, 3}
    assert keys <= {1, 2, 3, 4}
    assert repr(Keys(np.array([7]))) == "Keys({7})"
    assert repr(Keys(np.array([], dtype=np.int64))) == "Keys()"
    assert not Keys(np.array([], dtype=np.int64))


def test_keys_are_plain_python_values() -> None:
    assert all(type(key) is int for key in Keys(np.array([1, 2])))


def test_a_table_holds_keys_of_every_kind() -> None:
    table = KeyTable()
    handles = [table.add(key) for key in (1, 2**62, -5)]
    assert table.take(np.array(handles, dtype=np.int32)).tolist() == [1, 2**62, -5]
    assert table.take(np.array(handles, dtype=np.int32)).dtype == np.int64
    handles += [table.add(key) for key in ("x", (1, 2), 2**70, True, None)]
    assert table.take(np.array(handles, dtype=np.int32)).tolist() == [
        1,
        2**62,
        -5,
        "x",
        (1, 2),
        2**70,
        True,
        None,
    ]
    table.remove(handles[1])
    assert table.add("again") == handles[1]


@pytest.mark.parametrize(
    "keys",
    [
        list(range(40)),
        [5, 3, *range(100, 140)],
        [*range(20), 2**63, 21],
        [True, 1, 2],
        ["a", 1, ("b", 2)],
        [],
    ],
)
@pytest.mark.parametrize("before", [[], [0], [7], ["x"], [0, 1, 2]])
@pytest.mark.parametrize("gone", [[], [0]])
def test_many_keys_at_once_are_as_one_by_one(keys: list[Any], before: list[Any], gone: list[int]) -> None:
    one, many = KeyTable(), KeyTable()
    for table in (one, many):
        for key in before:
            table.add(key)
        for handle in gone[: len(before)]:
            table.remove(handle)
    handles = [one.add(key) for key in keys]
    assert list(many.add_batch(keys)) == handles
    found = np.array(handles, np.int32)
    assert many.take(found).tolist() == one.take(found).tolist() == keys
    assert many.take(found).dtype == one.take(found).dtype
    assert many.stamps[handles].tolist() == one.stamps[handles].tolist()
    assert (many.address == HANDLES) == (one.address == HANDLES)
    assert (many.address == 0) == (one.address == 0)


def test_many_handles_are_looked_up_as_few() -> None:
    table = KeyTable()
    table.add_batch([3 * n for n in range(2 * MANY)])
    handles = np.random.default_rng(1).integers(0, 2 * MANY, MANY).astype(np.int32)
    assert table.take(handles).tolist() == [3 * n for n in handles.tolist()]
    assert table.take(handles[:5]).tolist() == [3 * n for n in handles[:5].tolist()]
