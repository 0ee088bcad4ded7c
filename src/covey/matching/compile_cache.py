"""Compiled kernels on disk: one file for each kernel and types of arguments, named by all that its code depends on.

Numba's own cache has an index for each function, which processes read, change and write. Two that compile the same
kernel for different types at the same moment can both choose the same file for their code; whoever reads it then gets
code for other types, which answers wrongly or writes where it must not. It also begins anew for every place that
sources are at. Here there is no index: a file's name is a digest of the key that numba would look for (types,
processor, bytecode) and of the versions of numba and Python, its content repeats that key under a checksum, and it
appears whole or not at all. So processes never wait for each other, and the worst that two of them do is the same work.

Whoever writes these files can run code as the user who loads them. So a directory and a file are used only if they
belong to this user or to root and nobody else may write to them (`is_ours`), and a directory only if nobody else can
put another one in its place (`why_unsafe`).
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import address_of_symbol
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

_INTRINSIC = "llvm."  # names of what LLVM itself provides begin so
_CHECKSUM = hashlib.sha256().digest_size


def is_ours(status: os.stat_result) -> bool:
    """Return whether what has this status can only have been written by this user or by root."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def why_unsafe(directory: Path) -> str:
    """Return why others could put files into a directory, or another directory in its place; nothing if they cannot.

    Every directory above it counts, also above what symbolic links lead to. One with the sticky bit, as /tmp has it,
    may be written by others: there they cannot replace what is not theirs.
    """
    directory = directory.absolute()
    real = directory.resolve()
    for one in dict.fromkeys((directory, real, *directory.parents, *real.parents)):
        status = one.stat()
        is_above = one not in (directory, real)
        if is_ours(status) or (
            is_above and status.st_mode & stat.S_ISVTX and status.st_uid in (os.geteuid(), 0)
        ):
            continue
        if status.st_uid not in (os.geteuid(), 0):
            return f"{one} belongs to another user (hint: another XDG_CACHE_HOME)"
        return f"{one} can be written by others (hint: chmod go-w {one}, or another XDG_CACHE_HOME)"
    return ""


class _Results(CompileResultCacheImpl):
    """How numba turns compiled code into bytes and back, without its choice of a place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno

    def reduce(self, cres: Any) -> tuple[list[str], Any]:
        """Return what a file holds: the names that the code does not define itself, and the code."""
        module = cres.library._final_module
        names = [
            value.name
            for values in (module.functions, module.global_variables)
            for value in values
            if value.is_declaration and not value.name.startswith(_INTRINSIC)
        ]
        return names, super().reduce(cres)

    def rebuild(self, target_context: Any, payload: tuple[list[str], Any]) -> Any:
        """Return compiled code from what a file holds."""
        names, code = payload
        if any(address_of_symbol(name) is None for name in names):
            target_context.refresh()  # imports whatever of numba may define them
        return super().rebuild(target_context, code)


class CompileCache(FunctionCache):
    """What was compiled of one kernel, in a directory that belongs to one state of the sources."""

    def __init__(self, function: Callable[..., Any], directory: Path) -> None:
        self._py_func = function
        self._impl = _Results(function)
        self._cache_path = str(directory)
        self._cache_file = _Files(directory, f"{function.__module__}.{function.__qualname__}")
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature, None if it must be compiled.

        Numba would first import everything that it can compile, and SciPy with it, which takes longer than to load all
        the kernels of a broker. Only the compiler needs that, and imports it by itself; code needs the runtime.
        """
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._impl.check_cachable(data):
            self._cache_file.save(self._index_key(sig, data.codegen), self._impl.reduce(data))


class _Files:
    """The files of one kernel."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name

    def path(self, key: Any) -> Path:
        """Return where the code for this key is, or would be."""
        all_of_it = (numba.__version__, sys.implementation.cache_tag, key)
        return self._directory / f"{self._name}.{hashlib.sha256(repr(all_of_it).encode()).hexdigest()[:32]}"

    def load(self, key: Any) -> Any:
        """Return what was saved under this key. None if nothing was, if it is damaged, or if others could have written
        it: then it is compiled again."""
        try:
            with self.path(key).open("rb") as file:
                if not is_ours(os.fstat(file.fileno())):
                    return None
                content = file.read()
        except OSError:
            return None
        checksum, code = content[:_CHECKSUM], content[_CHECKSUM:]
        if hashlib.sha256(code).digest() != checksum:
            return None
        found, data = pickle.loads(code)
        return data if found == key else None

    def save(self, key: Any, data: Any) -> None:
        """Save this under its key; where nothing can be written, nothing is kept."""
        code = dumps((key, data))
        with suppress(OSError):
            handle, path = tempfile.mkstemp(dir=self._directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(code).digest() + code)
                os.replace(path, self.path(key))
            except OSError:
                os.unlink(path)
                raise

    def flush(self) -> None:
        """Forget all that was saved of this kernel."""
        for path in self._directory.glob(f"{self._name}.*"):
            path.unlink(missing_ok=True)
