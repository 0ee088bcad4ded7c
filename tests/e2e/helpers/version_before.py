"""The version before this one, as sources in a folder, and processes of either version.

`BEFORE` is a commit in this repository's history. A clone without it, or no clone at all, cannot run it; then `sources`
says why.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from covey.broker.config import BrokerConfig

ROOT: Final = Path(__file__).parents[3]
BEFORE: Final = "d642115"
TODAY: Final = ROOT / "src"
CLIENT: Final = Path(__file__).with_name("either_client.py")


class UnavailableError(Exception):
    """The version before is not to be had."""


def sources(folder: Path) -> Path:
    """Unpack the version before and return what is to be in PYTHONPATH; UnavailableError says why it cannot be."""
    if shutil.which("git") is None:
        raise UnavailableError("there is no git to get the version before with")
    packed = folder / "before.tar"
    with packed.open("wb") as file:
        done = subprocess.run(
            ["git", "archive", BEFORE, "src"], cwd=ROOT, stdout=file, stderr=subprocess.PIPE, check=False
        )
    if done.returncode:
        raise UnavailableError(f"the version before, {BEFORE}, is not in the history of this clone")
    shutil.unpack_archive(packed, folder / "before", filter="data")
    return folder / "before" / "src"


def toml(config: BrokerConfig) -> str:
    """Return what a file must say of this configuration, as far as tests here set it."""
    lines = [f'name = "{config.name}"', f"port = {config.port}", f"lease_s = {config.lease_s}"]
    if config.data_dir:
        lines.append(f'data_dir = "{config.data_dir}"')
    for link in config.links:
        lines += ["[[links]]", f'name = "{link.name}"']
        if link.host:
            lines.append(f'address = "{link.host}:{link.port}"')
    return "\n".join([*lines, ""])


class Process:
    """A process of either version, which is told lines and says lines."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self.lines: list[str] = []
        self._reading = [
            asyncio.create_task(self._read(stream))
            for stream in (process.stdout, process.stderr)
            if stream is not None
        ]

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.lines.append(line.decode().rstrip())

    def has_said(self, what: str) -> bool:
        """Return whether it has said a line with these words."""
        return any(what in line for line in self.lines)

    async def wait(self, what: str, limit_s: float = 60.0) -> None:
        """Return once it has said that; AssertionError if it does not."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        while not self.has_said(what):
            is_late = loop.time() > until_s or self._process.returncode is not None
            assert not is_late, f"{self.name} does not say {what!r}, but: {self.lines[-20:]}"
            await asyncio.sleep(0.02)

    def tell(self, line: str) -> None:
        """Tell it something."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def end(self, number: int = signal.SIGTERM, limit_s: float = 30.0) -> int:
        """Send it a signal, if it is there; return its exit code."""
        if self._process.returncode is None:
            self._process.send_signal(number)
        async with asyncio.timeout(limit_s):
            code = await self._process.wait()
        await asyncio.gather(*self._reading)
        return code


async def start(name: str, source: Path, *arguments: str) -> Process:
    """Start `python …` with the sources of a version."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=source.parent,
    )
    return Process(name, process)


async def start_broker(config: BrokerConfig, source: Path, folder: Path) -> Process:
    """Start `covey broker` of a version; it is ready when it says so."""
    file = folder / f"{config.name}.toml"
    file.write_text(toml(config))
    return await start(f"broker {config.name}", source, "-m", "covey", "broker", "--config", str(file))


async def start_client(name: str, source: Path, port: int) -> Process:
    """Start a client of a version (`either_client`), named so."""
    return await start(f"client {name}", source, str(CLIENT), name, str(port))
