"""From the brokers' samples to a plan: the planner's process from outside."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as parquet

from covey.errors import CoveyError
from covey.planning.plan import Plan

PATIENCE_S: Final = 300.0
END_S: Final = 10.0
TABLES: Final = ("topology", "subscriptions", "events")


@dataclass(frozen=True)
class Made:
    """A plan, as the planner made it."""

    plan: Plan
    data: bytes
    explain: str
    seconds: float
    sampled: int  # events


class Planner:
    """The process; it is started before everything else, as it takes long to be ready."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True)
        # What Java and Spark leave behind stays in our directory. A group of its own: Ctrl-C is for us.
        environment = {**os.environ, "TMPDIR": str(directory), "SPARK_LOCAL_DIRS": str(directory)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "covey.demo.planner", str(directory / "planner")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(directory / "planner.log").open("wb"),
            env=environment,
            start_new_session=True,
        )
        self._lines: asyncio.StreamReader | None = None
        self.is_ready = False
        self.step = "starting"  # what it does

    async def ready(self) -> None:
        """Return when it can begin; CoveyError if it cannot plan."""
        while not self.is_ready:
            self.is_ready = "ready" in await self._next()

    async def plan(self, input_dir: Path, on_step: Callable[[str], None]) -> Made:
        """Return a plan for the tables in a directory, once it is ready."""
        assert self.is_ready, "it has said so"
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"input_dir": str(input_dir)}).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            said = await self._next()
            if "plan" in said:
                break
            on_step(self.step)
        if said["set_aside"]:
            raise CoveyError(f"{said['set_aside']} rows of what brokers sampled cannot be used")
        data = Path(said["plan"]).read_bytes()
        plan = Plan.decode(data)
        return Made(plan, data, said["explain"], said["seconds"], int(plan.basis["sampled"]))

    def stop(self) -> None:
        """End it, and Spark with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S if self.is_ready else 0.1)
        with suppress(ProcessLookupError):  # the group may live longer than its first process
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    async def _next(self) -> dict[str, Any]:
        """Return what it says next."""
        if self._lines is None:
            self._lines = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(self._lines)
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._process.stdout)
        try:
            line = await asyncio.wait_for(self._lines.readline(), PATIENCE_S)
        except TimeoutError:
            raise CoveyError("the planner does not answer") from None
        if not line:
            raise CoveyError(f"the planner has ended (its log: {self._directory / 'planner.log'})")
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            raise CoveyError(f"there is no plan: {said['error']}")
        self.step = said.get("says", self.step)
        return said


async def gathered(samples: Iterable[Path], into: Path, events: int, within_s: float) -> int:
    """Copy all brokers' samples into one directory, once they have so many events; return how many there are."""
    sources = list(samples)
    until_s = time.monotonic() + within_s
    while (found := _sampled(sources)) < events:
        if time.monotonic() > until_s:
            raise CoveyError(f"brokers have sampled {found} of {events} events")
        await asyncio.sleep(0.2)
    for source in sources:
        for table in TABLES:
            (into / table).mkdir(parents=True, exist_ok=True)
            for file in sorted(source.glob(f"{table}/*.parquet")):
                shutil.copy(file, into / table / file.name)
    return _sampled([into])


def _sampled(sources: Iterable[Path]) -> int:
    """Return how many events are in the samples."""
    return sum(
        parquet.read_metadata(file).num_rows for source in sources for file in source.glob("events/*.parquet")
    )
