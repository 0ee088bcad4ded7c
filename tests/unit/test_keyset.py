"""Answers of an index behave as sets."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from covey.matching.keyset import Keys, KeyTable


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
