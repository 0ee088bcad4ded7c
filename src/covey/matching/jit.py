"""The one way a function becomes compiled code.

Kernels are free functions on flat arrays, made of parts (`compiler` says how). They are compiled once and kept on disk
(`compile_cache`), which brings two dangers. A kernel freezes module-level arrays at the value they had when it was
compiled: every array it reads must be an argument (integers at module level are constants and may be used). And its
code depends on the files of its parts: so each state of a package's sources has a directory of its own, wherever these
sources are, and a kernel takes its parts from its own package or from this file.

With COVEY_CHECKED_KERNELS=1 in the environment nothing is compiled: kernels run in Python on checked memory, which
`checked` says more of.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core.cgutils import alloca_once, raw_memcpy
from numpy.typing import NDArray

from covey.matching import checked, compile_cache, compiler
from covey.matching.compile_cache import CompileCache, why_unsafe
from covey.matching.compiler import CallTypes, KernelCompiler, PartCompiler

KEPT_STATES = 8
BLOCK = 8  # numbers that `copy_block` copies
BITS_ROOM = 4_128  # numbers that `room_for_bits` has
CHECKED: Final = bool(os.environ.get("COVEY_CHECKED_KERNELS"))  # nothing is compiled, and memory is checked

Function = TypeVar("Function", bound=Callable[..., Any])

Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


def _package_of(function: Callable[..., Any]) -> Path:
    """Return the directory of the package next below ours in which a function is written."""
    ours, source = Path(__file__).parents[1], Path(function.__code__.co_filename)
    return ours / source.relative_to(ours).parts[0] if source.is_relative_to(ours) else source.parent


@lru_cache
def _cache_directory(package: Path) -> Path | None:
    """Return the directory for the kernels of a package as its sources are; None if there can be none.

    If it cannot be written, as in an image, kernels are loaded from it and what is missing there is not kept.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256()
    for source in (
        *map(Path, (__file__, compiler.__file__, compile_cache.__file__)),
        *sorted(package.rglob("*.py")),
    ):
        digest.update(source.read_bytes())
    path = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home, "covey", "kernels"), package.name)
    path /= digest.hexdigest()[:16]
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if reason := why_unsafe(path):
            warnings.warn(
                f"compiled code is neither loaded from {path} nor kept there: {reason}",
                RuntimeWarning,
                stacklevel=1,
            )
            return None
    except OSError:
        return None
    with suppress(OSError):  # one that cannot be written, as in an image, is read all the same
        os.utime(path)
        _forget_old(path.parent)
    return path


def _forget_old(directory: Path) -> None:
    """Remove what was compiled for sources that were used longest ago; whoever still needs it compiles it again."""
    ages = []
    for path in directory.iterdir():
        with suppress(FileNotFoundError):  # another process forgets it too
            ages.append((path.stat().st_mtime, path))
    for _, path in sorted(ages, reverse=True)[KEPT_STATES:]:
        shutil.rmtree(path, ignore_errors=True)


def kernel(function: Function) -> Function:
    """Compile `function`; the compiled one has the same signature."""
    if CHECKED:
        return checked.kernel(function)
    compiled = _compiled(function, pipeline_class=KernelCompiler, no_cfunc_wrapper=True)
    directory = _cache_directory(_package_of(function))
    if directory is not None:
        compiled._cache = CompileCache(function, directory)
    result: Function = compiled
    return result


# Parts are never called from Python and need no code for that.
_PART: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}


def part(function: Function) -> Function:
    """Compile `function` as a part of kernels: its code is put in place of each call."""
    compiled: Function = _compiled(function, **_PART, forceinline=True)
    return compiled


def called(function: Function) -> Function:
    """Compile `function` as a part that kernels call: for what is large and rarely needed, which would only make
    every kernel take long to compile."""
    compiled: Function = _compiled(function, **_PART)
    return compiled


def _compiled(function: Function, **options: Any) -> Any:
    if CHECKED:
        return function
    compiled: Any = numba.njit(error_model="numpy", nogil=True, **options)(function)
    compiled._compiler.__class__ = CallTypes
    return compiled


@called
def sort(values: Any, start: int, end: int) -> None:
    """Sort `values[start:end]` in place (Shell's way: most are short, none may take long).

    Numba's own sort takes a second to compile, for each type of arrays.
    """
    gap = 1
    while gap < (end - start) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(start + gap, end):
            value, free = values[at], at
            while free >= start + gap and values[free - gap] > value:
                values[free] = values[free - gap]
                free -= gap
            values[free] = value
        gap //= 3


@part
def copy_values(target: Any, start: int, source: Any, count: int) -> None:
    """Copy `source[:count]` to `target[start:]`.

    An assignment between slices would also compile how to tell people which shapes do not fit: another second.
    """
    for at in range(count):
        target[start + at] = source[at]


def address_of(array: NDArray[Any]) -> int:
    """Return where the values of an array are, for kernels that find it there."""
    if CHECKED:
        checked.register(array)
    return array.ctypes.data


_BEFORE_BYTES: Final = bytes.__basicsize__ - 1  # from a bytes object to its bytes, behind which is one more


def address_of_bytes(data: bytes) -> int:
    """Return where bytes are, for a kernel that is called while they are alive."""
    if CHECKED:
        checked.register_bytes(data, id(data) + _BEFORE_BYTES)
    return id(data) + _BEFORE_BYTES


def _pointer_at(element: numba.types.Type) -> Any:
    """Return an intrinsic that makes a pointer of an address."""

    @numba.extending.intrinsic
    def pointer_at(typing_context, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return numba.types.CPointer(element)(numba.types.int64), generate

    return pointer_at


bytes_at = _pointer_at(numba.types.uint8)
ints_at = _pointer_at(numba.types.int32)
longs_at = _pointer_at(numba.types.int64)
floats_at = _pointer_at(numba.types.float64)


@numba.extending.intrinsic
def pointer_to(typing_context, array):  # type: ignore[no-untyped-def]
    """Return the pointer to the values of an array that a kernel was given."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return context.make_array(array)(context, builder, arguments[0]).data

    return numba.types.CPointer(array.dtype)(array), generate


@numba.extending.intrinsic
def prefetch(typing_context, pointer, index):  # type: ignore[no-untyped-def]
    """Ask the processor to bring `pointer[index]` near; never fails, changes nothing."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        hint = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], hint)
        address = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), byte)
        builder.call(function, [address, *(number(n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return numba.types.void(pointer, numba.types.intp), generate


@numba.extending.intrinsic
def copy_block(typing_context, target, index, source, position):  # type: ignore[no-untyped-def]
    """Copy BLOCK int32 from `source[position:]` to `target[index:]` at once."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        block = ir.VectorType(ir.IntType(32), BLOCK).as_pointer()
        to, index, of, position = arguments
        values = builder.load(builder.bitcast(builder.gep(of, [position]), block), align=4)
        builder.store(values, builder.bitcast(builder.gep(to, [index]), block), align=4)
        return context.get_dummy_value()

    return numba.types.void(target, numba.types.intp, source, numba.types.intp), generate


LINE = ir.VectorType(ir.IntType(64), 8)


def _line_at(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [index]), LINE.as_pointer())


def _any_bit(builder: Any, line: Any) -> Any:
    kind, name = ir.FunctionType(ir.IntType(64), [LINE]), "llvm.vector.reduce.or.v8i64"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, [line])


@numba.extending.intrinsic
def copy_line(typing_context, target, index, source, position):  # type: ignore[no-untyped-def]
    """Copy the 512 bits at `source[position:]` to `target[index:]`; return 0 if none is set."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        to, index, of, position = arguments
        line = builder.load(_line_at(builder, of, position), align=8)
        builder.store(line, _line_at(builder, to, index), align=8)
        return _any_bit(builder, line)

    return numba.types.int64(target, numba.types.intp, source, numba.types.intp), generate


@numba.extending.intrinsic
def and_line(typing_context, target, index, source, position):  # type: ignore[no-untyped-def]
    """Keep of the 512 bits at `target[index:]` those that are set at `source[position:]` too; return 0 if none is."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        to, index, of, position = arguments
        kept = _line_at(builder, to, index)
        line = builder.and_(
            builder.load(kept, align=8), builder.load(_line_at(builder, of, position), align=8)
        )
        builder.store(line, kept, align=8)
        return _any_bit(builder, line)

    return numba.types.int64(target, numba.types.intp, source, numba.types.intp), generate


@numba.extending.intrinsic
def edge_line(typing_context, words, target, source, one, other):  # type: ignore[no-untyped-def]
    """Write to `words[target:]` those of the 512 bits at `words[source:]` that are not set at both other places; return
    0 if there is none."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        words, *places = arguments
        target, source, one, other = (_line_at(builder, words, place) for place in places)
        source, one, other = (builder.load(line, align=8) for line in (source, one, other))
        line = builder.and_(source, builder.not_(builder.and_(one, other)))
        builder.store(line, target, align=8)
        return _any_bit(builder, line)

    return numba.types.int64(words, *(numba.types.intp,) * 4), generate


@numba.extending.intrinsic
def trailing_zeros(typing_context, bits):  # type: ignore[no-untyped-def]
    """Return the number of the lowest bit that is set; there is one."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return numba.types.int64(numba.types.int64), generate


@numba.extending.intrinsic
def copy_bytes(typing_context, target, index, source, position, count):  # type: ignore[no-untyped-def]
    """Copy `count` bytes from `source[position:]` to `target[index:]`, which do not overlap."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        to, index, of, position, count = arguments
        raw_memcpy(builder, builder.gep(to, [index]), builder.gep(of, [position]), count, 1)
        return context.get_dummy_value()

    places = (target, numba.types.intp, source, numba.types.intp, numba.types.intp)
    return numba.types.void(*places), generate


@numba.extending.intrinsic
def room_for_bits(typing_context):  # type: ignore[no-untyped-def]
    """Return a pointer to BITS_ROOM 64-bit numbers that live until the calling part returns; call it in no loop."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        words = alloca_once(builder, ir.ArrayType(ir.IntType(64), BITS_ROOM))
        return builder.bitcast(words, context.get_value_type(signature.return_type))

    return numba.types.CPointer(numba.types.int64)(), generate


@numba.extending.intrinsic
def bits_float(typing_context, bits):  # type: ignore[no-untyped-def]
    """Return the float64 that has these bits."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return numba.types.float64(numba.types.int64), generate


@numba.extending.intrinsic
def float_bits(typing_context, value):  # type: ignore[no-untyped-def]
    """Return the bits of a float64 as an int64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return numba.types.int64(numba.types.float64), generate


if CHECKED:
    globals().update(checked.twins(BLOCK, BITS_ROOM))
