"""Kernels and their parts: parts are compiled once and only as LLVM code, kernels work as if they were one function."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.matching.compile_cache import CompileCache, _Results
from covey.matching.jit import called, copy_values, kernel, part, sort

# A function of each kind, one of which fails, and a kernel that calls them with all widths and with literals.
SOURCE = """
def twice(value, most):
    if value > most:
        raise ValueError("too much")
    return 2 * value

def doubled(values, at, most):
    return twice(values[at], most) + twice(1, most)

def total(small, large, most):
    result = 0
    for at in range(len(small)):
        result += doubled(small, at, most) + doubled(large, np.int32(at), 100)
    return result + twice(3, 100)
"""


def compiled(directory: Path) -> Any:
    """Return the kernel as a new process has it before its first call."""
    names: dict[str, Any] = {"__name__": "sums", "np": np}
    exec(compile(SOURCE, "/here/sums.py", "exec"), names)
    function: Callable[..., Any] = names["total"]
    names["twice"], names["doubled"] = part(names["twice"]), called(names["doubled"])
    names["total"] = result = kernel(function)
    result._cache = CompileCache(function, directory)  # type: ignore[attr-defined]
    return names


SMALL, LARGE = np.array([1, 2], np.int32), np.array([3, 4], np.int64)


def test_a_part_is_compiled_once_for_integers_of_all_widths_and_for_literals(tmp_path: Path) -> None:
    names = compiled(tmp_path)
    assert names["total"](SMALL, LARGE, 50) == 34
    assert len(names["twice"].signatures) == 1
    assert len(names["doubled"].signatures) == 2  # arrays of int32 and of int64


def test_only_kernels_become_machine_code(tmp_path: Path) -> None:
    names = compiled(tmp_path)
    names["total"](SMALL, LARGE, 50)
    (of_part,), (of_kernel,) = names["twice"].overloads.values(), names["total"].overloads.values()
    assert of_kernel.library._get_compiled_object()
    with pytest.raises(ValueError, match="not enabled"):
        of_part.library._get_compiled_object()
    assert len(list(tmp_path.iterdir())) == 1


def test_parts_can_fail_in_code_that_was_compiled_and_in_code_that_was_loaded(tmp_path: Path) -> None:
    for hits in (0, 1):
        total = compiled(tmp_path)["total"]
        with pytest.raises(ValueError, match="too much"):
            total(SMALL, LARGE, 1)
        assert total(SMALL, LARGE, 2) == 34
        assert sum(total.stats.cache_hits.values()) == hits


def test_code_that_needs_an_unknown_name_makes_numba_import_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed = []

    class Context:
        def refresh(self) -> None:
            refreshed.append(self)

    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl.rebuild", lambda *given: given[-1])
    results = _Results(compiled)
    assert results.rebuild(Context(), (["PyErr_Clear"], 1)) == 1
    assert not refreshed
    assert results.rebuild(Context(), (["PyErr_Clear", "nobody_defines_this"], 2)) == 2
    assert len(refreshed) == 1


LOADING = """
import sys
from covey.broker.warming import warm_up
warm_up()  # compiles what was not
"""


def test_a_broker_whose_kernels_are_compiled_loads_nothing_that_only_compiling_needs() -> None:
    seen = LOADING + "print([name for name in ('numba.np.arraymath', 'scipy.linalg') if name in sys.modules])"
    subprocess.run([sys.executable, "-c", LOADING], check=True, timeout=600)
    done = subprocess.run(
        [sys.executable, "-c", seen], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@kernel
def sort_some(values: Any, start: int, end: int) -> None:
    sort(values, start, end)


@kernel
def copy_some(target: Any, start: int, source: Any, count: int) -> None:
    copy_values(target, start, source, count)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.data())
def test_sort_sorts_what_it_is_told_to_and_nothing_else(numbers: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(numbers)))
    end = data.draw(st.integers(start, len(numbers)))
    for kind in (np.int32, np.int64, np.float64):
        values = np.array(numbers, kind)
        sort_some(values, start, end)
        assert values.tolist() == numbers[:start] + sorted(numbers[start:end]) + numbers[end:]


def test_sort_sorts_many() -> None:
    draw = np.random.default_rng(3)
    for values in (draw.random(50_000), np.arange(50_000)[::-1].copy(), draw.integers(0, 9, 50_000)):
        expected = np.sort(values)
        sort_some(values, 0, len(values))
        assert (values == expected).all()


def test_copy_values_leaves_the_rest() -> None:
    target = np.zeros(6, np.int64)
    copy_some(target, 2, np.array([7, 8, 9]), 2)
    assert target.tolist() == [0, 0, 7, 8, 0, 0]
