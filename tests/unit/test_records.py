"""Records: compiled code and Python see the same fields in the same places, also beside a mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated, NamedTuple

import numba
import numpy as np
import pytest

from covey.matching import checked
from covey.matching.attributes import layout as attribute_records
from covey.matching.checked import Pointer
from covey.matching.jit import CHECKED, Floats, Ints, Longs, address_of, pointer_to
from covey.matching.records import (
    WORD,
    Float,
    Int,
    Long,
    Of,
    Record,
    addresses_of,
    note_addresses,
    pointers_to,
)
from covey.matching.xpath import memory as xpath_records


class Cell(Record, array="heap", unit=WORD):
    """A record with fields of every type, one of which has to begin at a multiple of its size."""

    small: Int
    large: Long
    number: Float
    last: Int


class Row(Record, array="rows"):
    """A record of a table."""

    first: Int
    second: Int


class Inner(NamedTuple):
    rows: Ints
    place: int


class Outer(NamedTuple):
    heap: Floats
    halves: Annotated[Ints, Of("heap")]
    inner: Inner
    rows: Ints


outer_at = pointers_to(Outer, 1)


def _change(addresses: Longs, place: int) -> int:
    """Change some fields by what others hold."""
    m = outer_at(addresses)
    cell, row = Cell(m, place), Row(m.inner.rows, m.inner.place)
    cell.large = cell.small + (1 << 40)
    cell.last -= 3
    cell.number += 0.5
    row.second = m.halves[2 * place]
    Row(m, 1).first = Row(m.inner.rows, 0).first
    return cell.large


def test_fields_are_where_numpy_finds_them() -> None:
    heap, inner, rows = np.zeros(16), np.arange(8, dtype=np.int32), np.zeros(4, np.int32)
    halves, longs = heap.view(np.int32), heap.view(np.int64)
    halves[2 * 5 + Cell.index_of("small")], halves[2 * 5 + Cell.index_of("last")] = -7, 2**31 - 1
    heap[5 + Cell.index_of("number")] = 1.25
    addresses: Longs = np.zeros(1 + addresses_of(Outer), np.int64)
    note_addresses(addresses, Outer, {"heap": heap, "inner": {"rows": inner, "place": 3}, "rows": rows}, 1)
    assert addresses[0] == 0
    # Not as a kernel: those are kept on disk for each state of their own package.
    change = checked.kernel(_change) if CHECKED else numba.njit(_change)
    assert change(addresses, 5) == 2**40 - 7
    assert longs[5 + Cell.index_of("large")] == 2**40 - 7
    assert heap[5 + Cell.index_of("number")] == 1.75
    assert halves[2 * 5 + Cell.index_of("last")] == 2**31 - 4
    assert inner.tolist() == [0, 1, 2, 3, 4, 5, 6, -7]
    assert rows.tolist() == [0, 0, 0, 0]


def _change_from(start: int, cells: int, rows: Ints, addresses: int) -> int:
    """Change records that are found from an address on, and by the pointer to an array."""
    Cell(cells).large = start
    Cell(cells, 4).large = Cell(cells).large + 1
    Row(pointer_to(rows), 1).second = Row(pointer_to(rows)).first
    return outer_at(addresses).inner.place


def test_records_and_memories_are_found_from_an_address_on() -> None:
    words, rows = np.zeros(8, np.int64), np.array([1, 2, 3, 4], np.int32)
    addresses: Longs = np.zeros(1 + addresses_of(Outer), np.int64)
    note_addresses(addresses, Outer, {"inner": {"place": 77}}, 1)
    change = checked.kernel(_change_from) if CHECKED else numba.njit(_change_from)
    assert change(2**40, address_of(words), rows, address_of(addresses)) == 77
    large = Cell.index_of("large")
    assert (words[large], words[4 + large]) == (2**40, 2**40 + 1)
    assert rows.tolist() == [1, 2, 3, 1]
    assert vars(Cell.PLACES) == {name: Cell.index_of(name) for name in Cell.LAYOUT}


def test_the_size_of_a_record() -> None:
    assert (Cell.BYTES, Cell.length_in(), Cell.length_in(np.int64)) == (28, 7, 4)
    assert [Cell.LAYOUT[name].offset for name in ("small", "large", "number", "last")] == [0, 8, 16, 24]


def test_python_sees_the_same_fields_and_the_end_of_the_array() -> None:
    heap = np.zeros(8)
    checked.register(heap)
    pointer = Pointer(heap.ctypes.data, np.float64)
    cell = Cell(pointer, 4)
    cell.small, cell.large, cell.number, cell.last = -(2**31), -1, 2.5, 4
    assert (cell.small, cell.large, cell.number, cell.last) == (-(2**31), -1, 2.5, 4)
    assert heap.view(np.int32)[8 + Cell.index_of("last")] == 4
    with pytest.raises(OverflowError):  # compiled code would cut it off
        cell.small = 2**31
    with pytest.raises(IndexError):
        _ = Cell(pointer, 5).last
    with pytest.raises(IndexError):
        Cell(pointer, -1).small = 1


def test_this_file_on_checked_memory() -> None:
    if not os.environ.get("COVEY_CHECKED_KERNELS"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__],
            env=os.environ | {"COVEY_CHECKED_KERNELS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2_000:]


@pytest.mark.parametrize("table", [attribute_records, xpath_records])
def test_records_of_the_heap_are_whole_words(table: object) -> None:
    """What follows a header begins with a word; long fields lie at multiples of their size in every row of a table."""
    records = [
        one
        for one in vars(table).values()
        if isinstance(one, type) and issubclass(one, Record) and one is not Record
    ]
    for record in records:
        widest = max((np.dtype(field.type).itemsize for field in record.LAYOUT.values()), default=1)
        assert record.BYTES % widest == 0, record
