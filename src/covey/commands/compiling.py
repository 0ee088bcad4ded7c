"""`covey compile`: all kernels, now, instead of each at its first use: for installations and images of machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context
from typing import Final

from covey.commands.options import Json
from covey.commands.output import print_json, print_pairs, progress_lines
from covey.extras import installed, require

# The longest first. Each runs in a process of its own; what two of them use may be compiled twice at once.
PARTS: Final[Mapping[str, str]] = {
    "brokers": "covey.broker.warming",
    "planning": "covey.planning.warming",
    "pipeline": "covey.pipeline.warming",
}
EXTRAS: Final = {
    "brokers": "broker",
    "planning": "spark",
    "pipeline": "spark",
}  # without which a part is left out


def compile_all(json: Json = False) -> None:
    """Compile everything that is compiled, or see that it was: one to two minutes once, seconds after that.

    It is kept in ~/.cache/covey (or XDG_CACHE_HOME). Otherwise whoever comes first waits for it: the first broker, the
    first plan.
    """
    require("broker", "covey compile")
    parts = {part: module for part, module in PARTS.items() if installed(EXTRAS[part])}
    took_s: dict[str, float] = {}
    with (
        progress_lines("compile") as tell,
        ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as pool,
    ):
        working = {pool.submit(warm, module): part for part, module in parts.items()}
        tell(f"compile: {', '.join(parts)}", False)
        for done in as_completed(working):
            took_s[working[done]] = round(done.result(), 1)
            tell(f"compile: {working[done]}, {took_s[working[done]]:.1f} s", True)
    if json:
        print_json({"seconds": {part: took_s[part] for part in parts}})
    else:
        print_pairs({part: f"{took_s[part]:.1f} s" for part in parts})


def warm(module: str) -> float:
    """Call the `warm_up` of a module; return how long that took, in seconds."""
    began_s = time.monotonic()
    warm_up: Callable[[], None] = import_module(module).warm_up
    warm_up()
    return time.monotonic() - began_s
