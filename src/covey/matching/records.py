"""Records in the memory of kernels: what a layout says once, and how compiled code reads and writes it.

A layout is a class that lists the fields of a record in their order:

    class Cell(Record, array="heap", unit=WORD):
        value: Float
        users: Int

In a kernel, `Cell(m, 7)` is the record at place 7 of the array `heap` of the memory `m`, counted in units, and
`Cell(m, 7).users += 1` changes it. Without a unit places count whole records, as in a table with a row for each thing.
Instead of a memory, a record can be found in a pointer, `Cell(pointer, 7)`, or from an address on, `Cell(address, 7)`,
which is `Cell(address)` for the first one. Compiled code has no object for a record: the class stands for an address,
and a field is one load or one store. Integers are 64 bits wide once they are read.

A memory is a named tuple of pointers, which kernels make from one array of addresses (`pointers_to`). Everything that
an index knows of the places of its arrays is in that array, in the order of the tuple's fields.

Functions that run in Python, as all do on checked memory (`checked`), use the same classes: fields are properties then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import lower_builtin, type_callable

from covey.matching.checked import Pointer
from covey.matching.jit import CHECKED, Longs, address_of

WORD: Final = 8  # bytes

Int: TypeAlias = Annotated[int, np.int32]
Long: TypeAlias = Annotated[int, np.int64]
Float: TypeAlias = Annotated[float, np.float64]

Memory = TypeVar("Memory")


class Field(NamedTuple):
    """Where a field is, in bytes from the record's start, and what it holds."""

    offset: int
    type: type[np.generic]


class Places:
    """The number of each field, by its name, in an array of numbers of its type."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        vars(self).update(numbers)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> int: ...


class Record:
    """A record; see the module's text."""

    LAYOUT: ClassVar[dict[str, Field]]
    PLACES: ClassVar[Places]
    BYTES: ClassVar[int]
    _array: ClassVar[str]
    _unit: ClassVar[int]

    def __init_subclass__(cls, array: str = "", unit: int = 0) -> None:
        cls.LAYOUT, offset = {}, 0
        for name, hint in get_type_hints(cls, include_extras=True).items():
            if name not in Record.__annotations__:
                type_ = hint.__metadata__[0]
                width = np.dtype(type_).itemsize
                offset = -(-offset // width) * width
                cls.LAYOUT[name] = Field(offset, type_)
                setattr(cls, name, _property(cls.LAYOUT[name]))
                offset += width
        cls.PLACES = Places({name: cls.index_of(name) for name in cls.LAYOUT})
        cls.BYTES, cls._array, cls._unit = offset, array, unit or offset
        if not CHECKED:
            _teach_numba(cls)

    def __init__(self, memory: Any, place: int = 0) -> None:
        if isinstance(memory, tuple):
            memory = getattr(memory, self._array)
        self._pointer: Pointer = _numbers_at(memory)
        self._at = int(place) * self._unit

    @classmethod
    def index_of(cls, name: str) -> int:
        """Return the number of a field in an array of numbers of its type, from the record's start."""
        field = cls.LAYOUT[name]
        return field.offset // np.dtype(field.type).itemsize

    @classmethod
    def length_in(cls, type: type[np.generic] = np.int32) -> int:
        """Return how many numbers of a type a record is as large as."""
        return -(-cls.BYTES // np.dtype(type).itemsize)


def _property(field: Field) -> property:
    def get(record: Record) -> Any:
        return record._pointer.field(record._at + field.offset, field.type)

    def put(record: Record, value: Any) -> None:
        record._pointer.set_field(record._at + field.offset, field.type, value)

    return property(get, put)


class _RecordType(types.Type):
    """The type of a record in compiled code: an address."""

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        super().__init__(f"{record.__module__}.{record.__qualname__}")


register_default(_RecordType)(models.OpaqueModel)


def _teach_numba(record: type[Record]) -> None:
    """Let kernels call the class."""
    result = _RecordType(record)

    @type_callable(record)
    def type_record(context: Any) -> Callable[[Any, Any], Any]:
        def typer(memory: Any, place: Any = types.int64) -> Any:
            found = isinstance(memory, types.CPointer | types.Integer)
            found = found or record._array in getattr(memory, "fields", ())
            return result if found and isinstance(place, types.Integer) else None

        return typer

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (memory, place), (pointer, number) = signature.args, arguments
        byte = _bytes_of(context, builder, memory, record._array, pointer)
        number = context.cast(builder, number, place, types.int64)
        return builder.gep(byte, [builder.mul(number, number.type(record._unit))])

    def make_first(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _bytes_of(context, builder, signature.args[0], record._array, arguments[0])

    for kind in (types.BaseTuple, types.CPointer, types.Integer):
        lower_builtin(record, kind, types.Integer)(make)
        lower_builtin(record, kind)(make_first)


def _bytes_of(context: Any, builder: Any, memory: Any, array: str, value: Any) -> Any:
    """Return the pointer from which the places of records are counted, of what is given for a memory."""
    byte = ir.IntType(8).as_pointer()
    if isinstance(memory, types.Integer):
        return builder.inttoptr(context.cast(builder, value, memory, types.int64), byte)
    if isinstance(memory, types.BaseTuple):
        value = builder.extract_value(value, memory.fields.index(array))
    return builder.bitcast(value, byte)


@infer_getattr
class _Fields(AttributeTemplate):
    key = _RecordType

    def generic_resolve(self, record: Any, name: str) -> Any:
        field = record.record.LAYOUT.get(name)
        if field is None:
            return None
        return types.float64 if issubclass(field.type, np.floating) else types.int64


def _place_of(builder: Any, record: _RecordType, pointer: Any, name: str) -> tuple[Any, Any]:
    """Return the pointer to a field and the field's type in memory."""
    field = record.record.LAYOUT[name]
    plain = ir.DoubleType() if issubclass(field.type, np.floating) else ir.IntType(8 * field.type().itemsize)
    place = builder.gep(pointer, [ir.IntType(64)(field.offset)])
    return builder.bitcast(place, plain.as_pointer()), plain


@lower_getattr_generic(_RecordType)
def _get_field(context: Any, builder: Any, record: _RecordType, pointer: Any, name: str) -> Any:
    place, plain = _place_of(builder, record, pointer, name)
    value = builder.load(place)
    return value if plain == ir.DoubleType() else builder.sext(value, ir.IntType(64))


@lower_setattr_generic(_RecordType)
def _set_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    pointer, value = arguments
    place, plain = _place_of(builder, signature.args[0], pointer, name)
    builder.store(value if plain == ir.DoubleType() else builder.trunc(value, plain), place)


# -- memories ----------------------------------------------------------------------------------------------------


class Of(NamedTuple):
    """Marks a field of a memory as the array of another field, seen as numbers of another type."""

    field: str


class _Pointed(NamedTuple):
    """A field of a memory: the number of its address, and the type of its numbers, None if it is a number itself."""

    number: int
    type: type[np.generic] | None


_Layout: TypeAlias = tuple[dict[str, Any], int]

_LAYOUTS: Final[dict[Any, _Layout]] = {}  # reading types takes long, and every small index notes addresses


def _layout(memory: type[Any], first: int) -> _Layout:
    """Return where the fields of a memory are among the addresses, of which it has those from `first` on, and where the
    next memory's begin. Callers must not change the result: it is the same each time."""
    if (memory, first) not in _LAYOUTS:
        _LAYOUTS[memory, first] = _read_layout(memory, first)
    return _LAYOUTS[memory, first]


def _read_layout(memory: type[Any], first: int) -> _Layout:
    layout: dict[str, Any] = {}
    for name, hint in get_type_hints(memory, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, tuple):
            layout[name], first = _layout(hint, first)
            continue
        number = first
        if get_origin(hint) is Annotated:
            number, hint = layout[hint.__metadata__[0].field].number, hint.__origin__
        else:
            first += 1
        layout[name] = _Pointed(number, None if hint is int else get_args(get_args(hint)[1])[0])
    return layout, first


def addresses_of(memory: type[Any]) -> int:
    """Return how many addresses a memory has."""
    return _layout(memory, 0)[1]


def note_addresses(addresses: Longs, memory: type[Any], arrays: Mapping[str, Any], first: int = 0) -> None:
    """Write where some of a memory's arrays are, by the names of their fields; numbers are written as they are.

    For a field that is a memory itself there is a mapping.
    """
    _note(addresses, _layout(memory, first)[0], arrays)


def _note(addresses: Longs, layout: dict[str, Any], arrays: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        one = layout[name]
        if isinstance(one, dict):
            _note(addresses, one, array)
        else:
            addresses[one.number] = array if one.type is None else address_of(array)


def pointers_to(memory: type[Memory], first: int = 0) -> Callable[[Longs | int], Memory]:
    """Return a part that makes a memory of addresses, an array, a pointer or where they are, of which it has those from
    `first` on."""
    layout, _ = _layout(memory, first)
    if CHECKED:
        return lambda addresses: _checked_memory(memory, layout, _numbers_at(addresses))

    @numba.extending.intrinsic
    def memory_at(typing_context, addresses):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            pointer = arguments[0]
            if isinstance(addresses, types.Array):
                pointer = context.make_array(addresses)(context, builder, pointer).data
            elif isinstance(addresses, types.Integer):
                pointer = builder.inttoptr(pointer, ir.IntType(64).as_pointer())
            return _make_memory(context, builder, signature.return_type, layout, pointer)

        return _memory_type(memory, layout)(addresses), generate

    part: Callable[[Longs | int], Memory] = memory_at
    return part


def _memory_type(memory: type[Any], layout: dict[str, Any]) -> Any:
    hints = get_type_hints(memory)
    fields = [
        _memory_type(hints[name], one) if isinstance(one, dict) else _pointer_type(one)
        for name, one in layout.items()
    ]
    return types.BaseTuple.from_types(fields, memory)


def _pointer_type(one: _Pointed) -> Any:
    return types.int64 if one.type is None else types.CPointer(numba.from_dtype(np.dtype(one.type)))


def _make_memory(context: Any, builder: Any, type: Any, layout: dict[str, Any], pointer: Any) -> Any:
    values = []
    for of, one in zip(type.types, layout.values(), strict=True):
        if isinstance(one, dict):
            values.append(_make_memory(context, builder, of, one, pointer))
            continue
        value = builder.load(builder.gep(pointer, [ir.IntType(64)(one.number)]))
        values.append(value if one.type is None else builder.inttoptr(value, context.get_value_type(of)))
    return context.make_tuple(builder, type, values)


def _numbers_at(addresses: Any) -> Any:
    return Pointer(int(addresses), np.int64) if isinstance(addresses, int | np.integer) else addresses


def _checked_memory(memory: type[Memory], layout: dict[str, Any], addresses: Any) -> Memory:
    hints = get_type_hints(memory)
    fields = []
    for name, one in layout.items():
        if isinstance(one, dict):
            fields.append(_checked_memory(hints[name], one, addresses))
        else:
            value = addresses[one.number]
            fields.append(value if one.type is None else Pointer(value, one.type))
    return memory(*fields)
