"""Texts by owner, in a hash table of flat arrays that kernels search and that follows changes.

Each text belongs to an owner (a number) and has a value (a number). They lie one behind the other in the order of their
arrival; one that is removed leaves a hole, and when holes outnumber texts the others move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from covey.matching.attributes.packed import Bytes, hash_of
from covey.matching.jit import Ints, Longs, kernel, part, pointer_to

FREE: Final = -1  # of a slot: nothing was ever here
HOLE: Final = -2  # of a slot: what was here is gone


class TextTable(NamedTuple):
    """Pointers to the arrays of `Texts`; the mask is the length of its table less one."""

    table: Ints
    mask: int
    owners: Ints
    starts: Longs
    texts: Bytes


@part
def find_hashed(t: TextTable, data: Bytes, first: int, last: int, owner: int, hashed: int) -> int:
    """Return the number of an owner's text, whose `hash_of` is known, or -1."""
    slot = hashed & t.mask
    while t.table[slot] != FREE:
        number = t.table[slot]
        slot = (slot + 1) & t.mask
        if number == HOLE:
            continue
        begin = t.starts[number]
        if t.owners[number] == owner and t.starts[number + 1] - begin == last - first:
            same = True
            for k in range(last - first):
                if t.texts[begin + k] != data[first + k]:
                    same = False
                    break
            if same:
                return number
    return -1


@part
def find(t: TextTable, data: Bytes, first: int, last: int, owner: int) -> int:
    """Return the number of an owner's text, or -1."""
    return find_hashed(t, data, first, last, owner, hash_of(data, first, last, owner))


@kernel
def find_one(data: Bytes, owner: int, table: Ints, owners: Ints, starts: Longs, texts: Bytes) -> int:
    """Return the number of an owner's text, or -1."""
    known = TextTable(
        pointer_to(table),
        len(table) - 1,
        pointer_to(owners),
        pointer_to(starts),
        pointer_to(texts),
    )
    return find(known, pointer_to(data), 0, len(data), owner)


@kernel
def put_texts(table: Ints, owners: Ints, starts: Longs, texts: Bytes, first: int, last: int) -> None:
    """Put the texts from number `first` to `last`, which are not there yet, into the table."""
    data = pointer_to(texts)
    for number in range(first, last):
        slot = hash_of(data, starts[number], starts[number + 1], owners[number]) & (len(table) - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = number


@kernel
def drop_text(table: Ints, owners: Ints, starts: Longs, texts: Bytes, number: int) -> None:
    """Make a hole of the slot of a text that is there."""
    data = pointer_to(texts)
    slot = hash_of(data, starts[number], starts[number + 1], owners[number]) & (len(table) - 1)
    while table[slot] != number:
        slot = (slot + 1) & (len(table) - 1)
    table[slot] = HOLE


class Texts:
    """Texts of owners, with values; see the module's text. An owner has a text once."""

    def __init__(self, items: Sequence[tuple[int, bytes, int]] = ()) -> None:
        self._count = len(items)  # holes too
        self._holes = 0
        self.owners: Ints = np.array([owner for owner, _, _ in items], np.int32)
        self.values: Ints = np.array([value for _, _, value in items], np.int32)
        self.starts: Longs = np.zeros(len(items) + 1, np.int64)
        np.cumsum([len(text) for _, text, _ in items], out=self.starts[1:])
        self.texts: Bytes = np.frombuffer(b"".join(text for _, text, _ in items) + b"\0", np.uint8).copy()
        self.table: Ints
        self._fill()

    def __len__(self) -> int:
        return self._count - self._holes

    @property
    def arrays(self) -> tuple[Ints, Ints, Longs, Bytes]:
        """What `find_one` takes."""
        return self.table, self.owners, self.starts, self.texts

    @property
    def places(self) -> dict[str, Any]:
        """What a `TextTable` points to."""
        arrays = zip(("table", "owners", "starts", "texts"), self.arrays, strict=True)
        return {"mask": len(self.table) - 1, **dict(arrays)}

    def _fill(self) -> None:
        self.table = np.full(1 << max(4, (2 * self._count).bit_length()), FREE, np.int32)
        put_texts(*self.arrays, 0, self._count)

    def add(self, owner: int, text: bytes, value: int) -> None:
        """Add a text that the owner does not have."""
        number, begin = self._count, int(self.starts[self._count])
        if 2 * (number + 1) > len(self.table):
            self._move_together()
            number, begin = self._count, int(self.starts[self._count])
        if number == len(self.owners):
            more = max(16, number)
            self.owners = np.concatenate([self.owners, np.zeros(more, np.int32)])
            self.values = np.concatenate([self.values, np.zeros(more, np.int32)])
            self.starts = np.concatenate([self.starts, np.zeros(more, np.int64)])
        end = begin + len(text)
        if end >= len(self.texts):
            self.texts = np.concatenate([self.texts, np.zeros(max(64, end), np.uint8)])
        self.texts[begin:end] = np.frombuffer(text, np.uint8)
        self.owners[number], self.values[number], self.starts[number + 1] = owner, value, end
        self._count += 1
        put_texts(*self.arrays, number, self._count)

    def add_batch(self, items: Sequence[tuple[int, bytes, int]]) -> None:
        """Add many texts that their owners do not have, none of which was removed before."""
        assert not self._holes, "numbers would change"
        count, old = self._count, self._count
        begin, sizes = int(self.starts[count]), [len(text) for _, text, _ in items]
        self._count += len(items)
        self.owners = np.concatenate([self.owners[:count], np.array([i[0] for i in items], np.int32)])
        self.values = np.concatenate([self.values[:count], np.array([i[2] for i in items], np.int32)])
        ends = begin + np.cumsum(np.array(sizes, np.int64))
        self.starts = np.concatenate([self.starts[: count + 1], ends])
        text = np.frombuffer(b"".join(i[1] for i in items) + b"\0", np.uint8)
        self.texts = np.concatenate([self.texts[:begin], text])
        if 2 * self._count > len(self.table):
            self.table = np.full(1 << max(4, (4 * self._count).bit_length()), FREE, np.int32)
            old = 0
        put_texts(*self.arrays, old, self._count)

    def remove(self, owner: int, text: bytes) -> None:
        """Remove a text that the owner has."""
        number = find_one(np.frombuffer(text, np.uint8), owner, *self.arrays)
        assert number >= 0, "what is removed is there"
        drop_text(*self.arrays, number)
        self.owners[number] = -1
        self._holes += 1

    def _move_together(self) -> None:
        """Make room: without the holes, in a table that is large enough for as many texts again."""
        count = self._count
        stays = self.owners[:count] >= 0
        sizes = np.diff(self.starts[: count + 1])
        self.texts = np.concatenate(
            [self.texts[: self.starts[count]][np.repeat(stays, sizes)], np.zeros(64, np.uint8)]
        )
        self.owners, self.values = self.owners[:count][stays], self.values[:count][stays]
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[stays])])
        self._count, self._holes = len(self.owners), 0
        self.table = np.full(1 << max(4, (4 * self._count).bit_length()), FREE, np.int32)
        put_texts(*self.arrays, 0, self._count)
