"""What a target is, how an input is judged, and how a failing one is made smaller.

An input is a tuple of byte strings, its *parts*, whose meaning is the target's. Input i of seed s is always the same. A
target reads an input, or refuses it with an error of ours in one line. Anything else is a failure:

    crash      another exception, or a message that is no line for people
    slow       more than `MOST_CPU_S` of CPU time, three times in a row
    memory     more than `MOST_BYTES` at a time, by what the process has (each input), or by what Python allocates
               (one in `LOOK_EVERY`)
"""

from __future__ import annotations

import gc
import resource
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from covey.errors import CoveyError

Input = tuple[bytes, ...]

MOST_CPU_S = 0.1
MOST_BYTES = 64 << 20
MOST_GROWTH = 512 << 20  # of the process in a whole run
LONGEST_LINE = 1_000  # characters of an error
LOOK_EVERY = 1_000
SHRINK_S = 30.0


@dataclass(frozen=True)
class Target:
    """Something that reads what comes from outside.

    `draw` makes an input; `read` reads it, or raises one of `refusals`. `valid` are inputs that are read.
    """

    name: str
    draw: Callable[[Random], Input]
    read: Callable[[Input], None]
    valid: tuple[Input, ...]
    refusals: tuple[type[CoveyError], ...] = (CoveyError,)


@dataclass
class FailureError(Exception):
    """An input that fails, and how."""

    kind: str
    text: str
    cause: str = ""  # the exception's type, or what else tells this failure from others

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Counts:
    """What a run has seen."""

    inputs: int = 0
    read: int = 0
    slowest_s: float = 0.0
    slowest: int = 0  # the number of that input
    peak_bytes: int = 0  # of those that were looked at
    failures: list[str] = field(default_factory=list)


def drawn(target: Target, seed: int, number: int) -> Input:
    """Return input `number` of a seed."""
    return target.draw(Random(f"{target.name} {seed} {number}"))


def attempt(
    target: Target,
    given: Input,
    counts: Counts | None = None,
    look: bool = False,
    most_cpu_s: float = MOST_CPU_S,
) -> float:
    """Let a target read an input; return the seconds of CPU time it took. Raises FailureError.

    With `look`, what Python allocates is watched, which takes time: then no time is judged.
    """
    before = _process_bytes()
    if look:
        tracemalloc.start()
    try:
        took_s, is_read = _timed(target, given)
        if look:
            peak = tracemalloc.get_traced_memory()[1]
            if counts is not None:
                counts.peak_bytes = max(counts.peak_bytes, peak)
            if peak > MOST_BYTES:
                raise FailureError("memory", f"{peak / (1 << 20):.0f} MiB are allocated for one input")
    finally:
        if look:
            tracemalloc.stop()
    if _process_bytes() - before > MOST_BYTES:
        grown = (_process_bytes() - before) / (1 << 20)
        raise FailureError("memory", f"the process grows by {grown:.0f} MiB for one input")
    if took_s > most_cpu_s and not look:
        # A collection of garbage, or the first use of something, says nothing about the input.
        took_s = min(took_s, *(_timed(target, given)[0] for _ in range(2)))
        if took_s > most_cpu_s:
            raise FailureError("slow", f"{took_s * 1e3:.0f} ms of CPU time for one input")
    if counts is not None:
        counts.inputs += 1
        counts.read += is_read
    return 0.0 if look else took_s


def _timed(target: Target, given: Input) -> tuple[float, bool]:
    began_s = time.process_time()
    try:
        target.read(given)
    except target.refusals as error:
        took_s = time.process_time() - began_s
        line = str(error)
        if not line.isprintable() or not 0 < len(line) <= LONGEST_LINE:
            raise FailureError(
                "crash", f"this is no line for people: {line[:200]!r}", type(error).__name__
            ) from None
        return took_s, False
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what we look for)
        raise FailureError("crash", traceback.format_exc(limit=-6), _place(error)) from None
    return time.process_time() - began_s, True


def _place(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.name}"


def _process_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(
    target: Target,
    seed: int,
    *,
    seconds: float | None = None,
    inputs: int | None = None,
    most_cpu_s: float = MOST_CPU_S,
    most_failures: int = 5,
) -> Counts:
    """Give a target the inputs of a seed for some time, or so many of them; return what was seen.

    A failure is made smaller and noted; after some of them, each of another cause, the run ends.
    """
    counts = Counts()
    for given in target.valid:
        target.read(given)  # which also compiles and loads what is needed
    for number in range(min(200, inputs or 200)):
        _warm(target, drawn(target, seed, number))
    gc.collect()
    gc.freeze()
    began_bytes, until_s = _process_bytes(), None if seconds is None else time.monotonic() + seconds
    causes: set[tuple[str, str]] = set()
    try:
        for number in _numbers(until_s, inputs):
            given = drawn(target, seed, number)
            try:
                look = number % LOOK_EVERY == LOOK_EVERY - 1
                took_s = attempt(target, given, counts, look, most_cpu_s)
                if _process_bytes() - began_bytes > MOST_GROWTH:
                    raise FailureError(
                        "memory", f"the process has grown by {MOST_GROWTH >> 20} MiB in this run"
                    )
            except FailureError as failure:
                if (failure.kind, failure.cause) not in causes:
                    causes.add((failure.kind, failure.cause))
                    counts.failures.append(report(target, seed, number, given, failure))
                if failure.kind == "memory" or len(causes) >= most_failures:
                    break
                continue
            if took_s > counts.slowest_s:
                counts.slowest_s, counts.slowest = took_s, number
    finally:
        gc.unfreeze()
    return counts


def _warm(target: Target, given: Input) -> None:
    try:
        target.read(given)
    except Exception:  # noqa: BLE001 (it comes again, and is judged then)
        return


def _numbers(until_s: float | None, inputs: int | None) -> Iterator[int]:
    number = 0
    while (inputs is None or number < inputs) and (until_s is None or time.monotonic() < until_s):
        yield number
        number += 1


# -- failing inputs ------------------------------------------------------------------------------------------


def report(target: Target, seed: int, number: int, given: Input, failure: FailureError) -> str:
    """Return what people need to look into a failure."""
    small = shrunk(target, given, failure)
    lines = [
        f"{target.name}: {failure}",
        f"again: python -m tests.fuzz {target.name} --seed {seed} --only {number}",
        f"made smaller, {sum(map(len, given))} to {sum(map(len, small))} bytes: {_shown(small)}",
    ]
    return "\n".join(lines)


def _shown(given: Input) -> str:
    text = repr(given)
    return text if len(text) <= 2_000 else f"{text[:2_000]}…"


def fails_alike(target: Target, given: Input, failure: FailureError) -> bool:
    """Return whether an input fails in the same way."""
    try:
        attempt(target, given, look=failure.kind == "memory")
    except FailureError as other:
        return (other.kind, other.cause) == (failure.kind, failure.cause)
    return False


def shrunk(target: Target, given: Input, failure: FailureError) -> Input:
    """Return a smaller input that fails in the same way, by leaving out parts and pieces for as long as that helps."""
    until_s = time.monotonic() + SHRINK_S
    best, is_smaller = given, True
    while is_smaller and time.monotonic() < until_s:
        is_smaller = False
        for candidate in _smaller(best):
            if time.monotonic() > until_s:
                break
            if fails_alike(target, candidate, failure):
                best, is_smaller = candidate, True
                break
    return best


def _smaller(given: Input) -> Iterator[Input]:
    for at in range(len(given)):
        yield given[:at] + given[at + 1 :]
    for at, part in enumerate(given):
        size = len(part) // 2
        while size:
            for start in range(0, len(part), size):
                yield (*given[:at], part[:start] + part[start + size :], *given[at + 1 :])
            size //= 2
