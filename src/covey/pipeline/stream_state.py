"""The state of streams on disk: whether the streams can go on from it, and how they begin anew.

A window is told by its newest slot, and what is late by a watermark that never goes back. Either is spoilt for good by
one time far ahead, and slots that were numbered by another length mean other times. So state says how it was written,
and is looked at before it is used:

    checkpoints/layout        the version of this layout, and the length of a slot
    checkpoints/*/offsets     a watermark for each batch that was begun (JSON, as Spark writes it)
    checkpoints/*/commits     and for each that was ended
    store/*/batch=*/slot=*    rows by the slots of their times

State that streams cannot go on from is removed as a whole, with what is left in the inbox; whoever fills the inbox
fills it again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

LAYOUT: Final = 2  # 1 had no such file, and took rows as they came
STAMP: Final = "layout"
_WATERMARKS: Final = {"offsets": "batchWatermarkMs", "commits": "nextBatchWatermarkMs"}


def slots_in(store: Path) -> Iterator[tuple[Path, int | None]]:
    """Yield the slots that are stored, of all tables, each with its number; None for one that has none."""
    for path in store.glob("*/batch=*/slot=*"):
        text = path.name.removeprefix("slot=")
        yield path, int(text) if text.removeprefix("-").isdecimal() else None


def prepare(directory: Path, slide_s: int) -> None:
    """Write how state is laid out, where there is none yet."""
    checkpoints = directory / "checkpoints"
    if not checkpoints.exists():
        checkpoints.mkdir(parents=True)
        (checkpoints / STAMP).write_text(_stamp(slide_s), encoding="utf-8")


def ailment(directory: Path, slide_s: int, latest_s: float) -> str:
    """Return why streams cannot go on from their state, "" if they can; no row can be later than `latest_s`."""
    checkpoints, store = directory / "checkpoints", directory / "store"
    waiting = any((directory / "inbox").glob("*/*.parquet"))
    if not (checkpoints.exists() or store.exists() or waiting):
        return ""
    try:
        stamp = (checkpoints / STAMP).read_text(encoding="utf-8")
    except (OSError, ValueError):
        stamp = ""
    if stamp != _stamp(slide_s):
        return "it was written by another version, or with another slide"
    ahead_s = max(_watermarks(checkpoints), default=0.0) - latest_s
    if ahead_s > 0:
        return f"its watermark is {ahead_s:,.0f} s ahead of the clock"
    for path, slot in slots_in(store):
        if slot is None:
            return f"it has rows without a time, in {path.name:.80}"
        if slot * slide_s > latest_s:
            return f"it has rows {slot * slide_s - latest_s:,.0f} s ahead of the clock"
    return ""


def begin_anew(directory: Path, slide_s: int) -> None:
    """Remove all state; if that is interrupted, what is left is found to be ailing."""
    for name in ("checkpoints", "store", "inbox"):
        shutil.rmtree(directory / name, ignore_errors=True)
    prepare(directory, slide_s)


def _stamp(slide_s: int) -> str:
    return f"{LAYOUT} {slide_s}\n"


def _watermarks(checkpoints: Path) -> Iterator[float]:
    """Yield the watermarks of all batches that are known, in seconds; what is no JSON is Spark's to complain about."""
    for kind, key in _WATERMARKS.items():
        for file in checkpoints.glob(f"*/{kind}/[0-9]*"):
            with suppress(OSError, ValueError):
                for line in file.read_text(encoding="utf-8").splitlines():
                    yield _milliseconds(line, key) / 1e3


def _milliseconds(line: str, key: str) -> float:
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(line)
    found = value.get(key) if isinstance(value, dict) else None
    return float(found) if isinstance(found, int | float) else 0.0
