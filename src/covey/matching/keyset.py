"""Keys: the answer of an index, a set that is as cheap to make as an array.

An index can find thousands of keys in the time that Python takes to put a hundred of them into a set. So an answer
holds the keys as an array, behaves as an immutable set, and builds a real set only when membership is asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from covey.matching.jit import Ints, Longs, address_of, kernel, pointer_to

_INTEGERS: Final = frozenset((int,))
HANDLES: Final = -1  # instead of the address of keys
MANY: Final = 1_024  # handles; NumPy first makes other integers of them, and a kernel takes less time


@kernel
def take_keys(keys: Longs, handles: Ints, found: Longs) -> None:
    """Write the key of each handle."""
    source, which, target = (
        pointer_to(keys),
        pointer_to(handles),
        pointer_to(found),
    )
    for k in range(len(handles)):
        target[k] = source[which[k]]


class Keys(Set[Any]):
    """Distinct keys: equal to, and usable like, a set of them. `array` has them in no particular order."""

    __slots__ = ("_set", "array")

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self._set: frozenset[Any] | None = None

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> frozenset[Any]:
        return frozenset(it)

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array.tolist())

    def __contains__(self, key: object) -> bool:
        if self._set is None:
            self._set = frozenset(self.array.tolist())
        return key in self._set

    def __repr__(self) -> str:
        return f"Keys({set(self.array.tolist())!r})" if len(self) else "Keys()"


class KeyTable:
    """The key of each handle: an array of integers as long as all keys are integers, of objects otherwise.

    `address` is where kernels find the integers, 0 if there are objects, and HANDLES if each key is its own handle:
    filters are often numbered from 0, and then no table has to be read. `stamps` has a number for each handle that
    changes when the handle gets another key: whoever keeps something by handle sees from it what to forget.
    """

    def __init__(self) -> None:
        self._keys: NDArray[Any] = np.zeros(16, dtype=np.int64)
        self.stamps: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self._stamp = 0
        self._free: list[int] = []
        self._next = 0
        self._are_handles = True
        self._note_address()

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._note_address()

    def _note_address(self) -> None:
        self.address = (
            HANDLES if self._are_handles else 0 if self._keys.dtype == object else address_of(self._keys)
        )

    def add(self, key: Hashable) -> int:
        """Return a handle for the key."""
        if self._free:
            handle = self._free.pop()
        else:
            handle = self._next
            self._next += 1
            if handle == len(self._keys):
                self._keys = np.concatenate([self._keys, np.zeros(len(self._keys), dtype=self._keys.dtype)])
                self.stamps = np.concatenate([self.stamps, np.zeros(len(self.stamps), dtype=np.int64)])
                self._note_address()
        if self._keys.dtype != object and not (type(key) is int and -(2**63) <= key < 2**63):
            self._keys = self._keys.astype(object)
            self._are_handles = False
            self._note_address()
        if self._are_handles and key != handle:
            self._are_handles = False
            self._note_address()
        self._keys[handle] = key
        self._stamp += 1
        self.stamps[handle] = self._stamp
        return handle

    def add_batch(self, keys: Sequence[Hashable]) -> Sequence[int]:
        """Return handles for many keys."""
        if self._free or self._keys.dtype == object or not _INTEGERS.issuperset(map(type, keys)):
            return [self.add(key) for key in keys]
        try:
            integers = np.array(keys, np.int64)
        except OverflowError:
            return [self.add(key) for key in keys]
        handles = range(self._next, self._next + len(keys))
        self._next += len(keys)
        if self._next > len(self._keys):
            more = np.zeros(max(self._next - len(self._keys), len(self._keys)), np.int64)
            self._keys = np.concatenate([self._keys, more])
            self.stamps = np.concatenate([self.stamps, more])
        where = slice(handles.start, handles.stop)
        self._keys[where] = integers
        self.stamps[where] = np.arange(self._stamp + 1, self._stamp + 1 + len(keys))
        self._stamp += len(keys)
        self._are_handles &= bool((integers == np.arange(handles.start, handles.stop)).all())
        self._note_address()
        return handles

    def remove(self, handle: int) -> None:
        """Make a handle free again."""
        self._keys[handle] = 0
        self._free.append(handle)

    def take(self, handles: NDArray[np.int32]) -> NDArray[Any]:
        """Return the keys of handles."""
        if self._are_handles:
            return handles.astype(np.int64)
        if len(handles) < MANY or not self.address:
            return self._keys.take(handles)
        keys: Longs = np.empty(len(handles), np.int64)
        take_keys(self._keys, handles, keys)
        return keys
