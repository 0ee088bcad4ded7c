"""Kernels in plain Python on checked memory: what `COVEY_CHECKED_KERNELS=1` makes of every kernel and part.

Compiled code reaches memory by pointers that know no length. A mistake there reads or writes what belongs to others,
and nobody notices. In this mode functions run as they are written, without a compiler; a pointer knows the array that
it points into, and an access outside it raises IndexError. It is some thousand times slower, and for tests alone.

A pointer finds its array among those that were registered: arguments of kernels, and arrays whose address was taken
with `jit.address_of`. Integers are 64 bits wide and wrap around, as compiled ones do.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

LINE: Final = 8  # numbers of 64 bits in a line

_arrays: dict[int, list[ref[NDArray[Any]]]] = {}  # by address
_bytes: deque[tuple[bytes, NDArray[Any]]] = deque(maxlen=256)  # which may not outlive the call otherwise


def register(array: NDArray[Any]) -> None:
    """Let pointers reach an array."""
    known = [one for one in _arrays.get(array.ctypes.data, ()) if one() is not None]
    if array.size and not any(one() is array for one in known):
        _arrays[array.ctypes.data] = [*known, ref(array)]


def register_bytes(data: bytes, address: int) -> None:
    """Let pointers reach bytes, which may be such that a kernel is to write; those before are forgotten after a
    while."""
    array = np.ctypeslib.as_array((ctypes.c_uint8 * len(data)).from_address(address))
    _bytes.append((data, array))
    register(array)


def _array_at(address: int) -> NDArray[np.uint8]:
    """Return the bytes from an address to the end of the array that it is in; the longest, if there are several."""
    for begins in (address, *sorted((base for base in _arrays if base < address), reverse=True)):
        alive = [array for one in _arrays.get(begins, ()) if (array := one()) is not None]
        if not alive:
            _arrays.pop(begins, None)
            continue
        longest = max(alive, key=lambda array: array.nbytes)
        if address < begins + longest.nbytes:
            return longest.reshape(-1).view(np.uint8)[address - begins :]
    raise IndexError(f"there is no array at {address:#x}")


class Pointer:
    """Numbers of one type from an address on."""

    __slots__ = ("_address", "_bytes", "_type", "_values")

    def __init__(self, address: int, type: type) -> None:
        self._address, self._type = int(address), type
        self._values: NDArray[Any] | None = None
        self._bytes: NDArray[Any] | None = None

    def _place(self, index: int) -> NDArray[Any]:
        if self._values is None:  # an address that is not used need not be one
            some = _array_at(self._address)
            self._values = some[: len(some) - len(some) % np.dtype(self._type).itemsize].view(self._type)
        if not 0 <= index < len(self._values):
            raise IndexError(f"{index} is outside an array of {len(self._values)}")
        return self._values

    def __getitem__(self, index: int) -> Any:
        value = self._place(index)[index]
        return value if self._type is np.float64 else np.int64(value)

    def __setitem__(self, index: int, value: Any) -> None:
        self._place(index)[index] = value if self._type is np.float64 else _wrapped(value)

    def field(self, offset: int, type: type) -> Any:
        """Return the number of a type so many bytes on."""
        value = self._field(offset, type)[0]
        return value if type is np.float64 else np.int64(value)

    def set_field(self, offset: int, type: type, value: Any) -> None:
        """Write the number of a type so many bytes on."""
        self._field(offset, type)[0] = value if type is np.float64 else _wrapped(value)

    def _field(self, offset: int, type: type) -> NDArray[Any]:
        size = np.dtype(type).itemsize
        if self._bytes is None:
            values = self._values
            self._bytes = _array_at(self._address) if values is None else values.view(np.uint8)
        if not 0 <= offset <= len(self._bytes) - size:
            raise IndexError(f"{offset} is outside an array of {len(self._bytes)} bytes")
        return self._bytes[offset : offset + size].view(type)

    def line(self, index: int) -> NDArray[Any]:
        """Return a line of numbers, to read and to write."""
        self._place(index + LINE - 1)
        return self._place(index)[index : index + LINE]


def _wrapped(value: Any) -> np.int64:
    return np.int64((int(value) + 2**63) % 2**64 - 2**63)


def kernel(function: Function) -> Function:
    """Return the function as a kernel: its arrays are registered before it runs."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                register(argument)
        with np.errstate(all="ignore"):
            return function(*arguments)

    return run  # type: ignore[return-value]


def _copy(target: Pointer, index: int, source: Pointer, position: int, count: int) -> None:
    for k in range(count):
        target[index + k] = source[position + k]


def _copy_line(target: Pointer, index: int, source: Pointer, position: int) -> int:
    target.line(index)[:] = source.line(position)
    return int(target.line(index).any())


def _and_line(target: Pointer, index: int, source: Pointer, position: int) -> int:
    target.line(index)[:] &= source.line(position)
    return int(target.line(index).any())


def _edge_line(words: Pointer, target: int, source: int, one: int, other: int) -> int:
    words.line(target)[:] = words.line(source) & ~(words.line(one) & words.line(other))
    return int(words.line(target).any())


def _room(words: int) -> Pointer:
    pointer = Pointer(0, np.int64)
    pointer._values = np.zeros(words, np.int64)
    return pointer


def _prefetch(pointer: Pointer, index: int) -> None:
    """Do nothing: an address that is only asked for may be any."""


def twins(block: int, bits_room: int) -> dict[str, Callable[..., Any]]:
    """Return what stands for the intrinsics of jit.py, by their names; blocks and the room for bits are of these
    sizes."""
    return {
        "bytes_at": lambda address: Pointer(address, np.uint8),
        "ints_at": lambda address: Pointer(address, np.int32),
        "longs_at": lambda address: Pointer(address, np.int64),
        "floats_at": lambda address: Pointer(address, np.float64),
        "pointer_to": lambda array: Pointer(array.ctypes.data, array.dtype.type),
        "prefetch": _prefetch,
        "copy_block": lambda target, index, source, position: _copy(target, index, source, position, block),
        "copy_bytes": _copy,
        "copy_line": _copy_line,
        "and_line": _and_line,
        "edge_line": _edge_line,
        "trailing_zeros": lambda bits: (int(bits) & -int(bits)).bit_length() - 1,
        "room_for_bits": lambda: _room(bits_room),
        "bits_float": lambda bits: struct.unpack("d", struct.pack("q", _wrapped(bits)))[0],
        "float_bits": lambda value: np.int64(struct.unpack("q", struct.pack("d", value))[0]),
    }
