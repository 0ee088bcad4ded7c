"""Compiled kernels on disk: the right code for its types, whatever other processes keep meanwhile."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from covey.matching.compile_cache import CompileCache
from covey.matching.jit import _cache_directory

LONGS = np.array([1, 2, 4], np.int64)
FLOATS = np.array([0.5, 0.25, 8.0])
SOURCE = """
def total(values):
    result = values[0]
    for at in range(1, len(values)):
        result += values[at]
    return result
"""


def at(place: str) -> Callable[..., Any]:
    """Return the function as a module at this place has it."""
    names: dict[str, Any] = {"__name__": "sums"}
    exec(compile(SOURCE, place, "exec"), names)
    function: Callable[..., Any] = names["total"]
    return function


def dispatcher(directory: Path, place: str = "/here/sums.py") -> Any:
    """Return what a new process would have before its first call."""
    function = at(place)
    compiled: Any = numba.njit(function)
    compiled._cache = CompileCache(function, directory)
    return compiled


def hits(compiled: Any) -> int:
    return sum(compiled.stats.cache_hits.values())


def test_another_process_finds_code_for_each_of_its_types(tmp_path: Path) -> None:
    first = dispatcher(tmp_path)
    assert (first(LONGS), first(FLOATS), hits(first)) == (7, 8.75, 0)
    assert len(list(tmp_path.iterdir())) == 2
    second = dispatcher(tmp_path)
    assert (second(FLOATS), second(LONGS), hits(second)) == (8.75, 7, 2)


@pytest.mark.parametrize("others", [0o020, 0o002])
def test_files_that_others_could_have_written_are_not_loaded(tmp_path: Path, others: int) -> None:
    first = dispatcher(tmp_path)
    assert first(LONGS) == 7
    (file,) = tmp_path.iterdir()
    file.chmod(0o600 | others)
    second = dispatcher(tmp_path)
    assert (second(LONGS), hits(second)) == (7, 0)
    third = dispatcher(tmp_path)  # the second has put a file of its own in that one's place
    assert (third(LONGS), hits(third)) == (7, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_files_of_another_user_are_not_loaded(tmp_path: Path) -> None:
    assert dispatcher(tmp_path)(LONGS) == 7
    (file,) = tmp_path.iterdir()
    os.chown(file, 12345, 12345)
    second = dispatcher(tmp_path)
    assert (second(LONGS), hits(second)) == (7, 0)


def test_a_directory_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    directory = _cache_directory.__wrapped__(package)
    assert directory is not None
    directory.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="can be written by others"):
        assert _cache_directory.__wrapped__(package) is None


@pytest.mark.parametrize(("mode", "is_used"), [(0o777, False), (0o775, False), (0o1777, True), (0o755, True)])
def test_a_directory_below_one_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_used: bool
) -> None:
    """Whoever can write to a parent can put another directory in this one's place, unless it is sticky."""
    package, parent = tmp_path / "package", tmp_path / "parent"
    package.mkdir()
    parent.mkdir()
    parent.chmod(mode)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(parent / "cache"))
    if is_used:
        assert _cache_directory.__wrapped__(package) is not None
    else:
        with pytest.warns(RuntimeWarning, match=f"{parent} can be written by others .*chmod go-w {parent}"):
            assert _cache_directory.__wrapped__(package) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_directory_below_one_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, parent = tmp_path / "package", tmp_path / "parent"
    package.mkdir()
    parent.mkdir()
    os.chown(parent, 12345, 12345)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(parent / "cache"))
    with pytest.warns(RuntimeWarning, match=f"{parent} belongs to another user"):
        assert _cache_directory.__wrapped__(package) is None


def test_a_directory_that_cannot_be_written_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image: root has compiled, and another user runs. What is not there is compiled and not kept."""
    with tempfile.TemporaryDirectory() as name:
        above = Path(name)
        above.chmod(0o755)
        (above / "package").mkdir()
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(above / "cache"))
        directory = _cache_directory.__wrapped__(above / "package")
        assert directory is not None
        assert dispatcher(directory)(LONGS) == 7
        (file,) = directory.iterdir()
        file.chmod(0o444)
        for one in (directory, directory.parent, above / "cache"):
            one.chmod(0o555)
        try:
            with another_user():
                assert _cache_directory.__wrapped__(above / "package") == directory
                reader = dispatcher(directory)
                assert (reader(LONGS), reader(FLOATS), hits(reader)) == (7, 8.75, 1)
        finally:
            for one in (above / "cache", directory.parent, directory):
                one.chmod(0o700)
        assert list(directory.iterdir()) == [file]


@contextmanager
def another_user() -> Iterator[None]:
    """Do something as a user to whom nothing belongs; only root can, others stay who they are."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(12345)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_link_through_a_directory_that_others_can_write_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, shared, own = tmp_path / "package", tmp_path / "shared", tmp_path / "own"
    for one in (package, shared, own):
        one.mkdir()
    shared.chmod(0o777)
    (shared / "link").symlink_to(own)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared / "link"))
    with pytest.warns(RuntimeWarning, match="can be written by others"):
        assert _cache_directory.__wrapped__(package) is None


class TakingTurns:
    """Two that save at the same time: neither writes before both want to, then in one order, then in the other.

    Then each has looked at what there is before the other wrote. With an index of what is kept, as numba has it, the
    one that writes the index last writes its code first, and the index leads to the other's code.
    """

    def __init__(self) -> None:
        self._both = threading.Barrier(2, timeout=20)
        self._first_is_done = [threading.Event(), threading.Event()]
        self._mine = threading.local()
        self._replace = os.replace

    def replace(self, source: str, target: str) -> None:
        """Put a file in its place, in turn."""
        with suppress(threading.BrokenBarrierError):  # the other has nothing more to write
            self._both.wait()
            if self._mine.place == 1:
                assert self._first_is_done[self._mine.writes].wait(20)
        self._replace(source, target)
        self._first_is_done[self._mine.writes].set()
        self._mine.writes += 1
        self._mine.place = 1 - self._mine.place

    def run(self, save: Callable[[], None], place: int) -> None:
        """Save, as the one who writes first (0) or second (1)."""
        self._mine.place, self._mine.writes = place, 0
        save()
        self._both.abort()


def test_processes_that_save_at_the_same_moment_do_not_take_each_others_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves: list[Callable[[], None]] = []
    for values, total in ((LONGS, 7), (FLOATS, 8.75)):
        compiled = dispatcher(tmp_path)
        save = compiled._cache.save_overload
        compiled._cache.save_overload = lambda sig, data, save=save: saves.append(lambda: save(sig, data))
        assert compiled(values) == total
    turns = TakingTurns()
    monkeypatch.setattr(os, "replace", turns.replace)
    with ThreadPoolExecutor(2) as pool:
        for saving in [pool.submit(turns.run, save, place) for place, save in enumerate(saves)]:
            saving.result(60)
    monkeypatch.undo()
    later = dispatcher(tmp_path)
    assert (later(LONGS), later(FLOATS), hits(later)) == (7, 8.75, 2)


def test_code_is_found_wherever_the_sources_are(tmp_path: Path) -> None:
    assert dispatcher(tmp_path, "/here/sums.py")(LONGS) == 7
    elsewhere = dispatcher(tmp_path, "/there/sums.py")
    assert (elsewhere(LONGS), hits(elsewhere)) == (7, 1)


def test_damaged_code_and_that_of_other_types_are_compiled_again(tmp_path: Path) -> None:
    first = dispatcher(tmp_path)
    first(LONGS)
    (of_longs,) = tmp_path.iterdir()
    first(FLOATS)
    (of_floats,) = set(tmp_path.iterdir()) - {of_longs}
    of_floats.write_bytes(of_longs.read_bytes())
    of_longs.write_bytes(of_longs.read_bytes()[:-1])
    second = dispatcher(tmp_path)
    assert (second(FLOATS), second(LONGS), hits(second)) == (8.75, 7, 0)
    third = dispatcher(tmp_path)
    assert (third(FLOATS), third(LONGS), hits(third)) == (8.75, 7, 2)


def test_without_room_on_disk_kernels_work(tmp_path: Path) -> None:
    nowhere = dispatcher(tmp_path / "gone")
    assert nowhere(LONGS) == 7
    assert not list(tmp_path.iterdir())


def test_what_was_kept_can_be_forgotten(tmp_path: Path) -> None:
    first = dispatcher(tmp_path)
    first(LONGS)
    first._cache.flush()
    assert not list(tmp_path.iterdir())
