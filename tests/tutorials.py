"""A tutorial, run as its reader runs it: files are written, commands are typed, what is printed is compared.

A block of TOML or Python whose first line is a comment with a file's name is that file. In a block of the language
`console` a line that begins with `$` is a command, and the lines below it are what it prints, `...` standing for
anything. A command that goes on (`covey up`, or `covey sub` without an end) is left running until the tutorial is over.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 60  # a loaded machine may be slow; what is right is printed at once


class Command(NamedTuple):
    """A command of a tutorial, and what it prints there."""

    words: list[str]
    shown: str

    @property
    def goes_on(self) -> bool:
        """Whether the reader leaves it running."""
        return self.words[:2] == ["covey", "up"] or (
            self.words[:2] == ["covey", "sub"] and not {"--count", "--timeout"} & {*self.words}
        )


class Page(NamedTuple):
    """What a tutorial has to write and to type, in its order."""

    steps: list[tuple[str, str] | Command]

    @property
    def commands(self) -> list[Command]:
        """The commands alone."""
        return [step for step in self.steps if isinstance(step, Command)]


def page(document: Path, ports: dict[str, str]) -> Page:
    """Return a tutorial's steps, with its ports replaced by others."""
    text = document.read_text(encoding="utf-8")
    for port, free in ports.items():
        text = text.replace(port, free)
    steps: list[tuple[str, str] | Command] = []
    for language, block in FENCE.findall(text):
        if language == "console":
            for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, shown = session.partition("\n")
                steps.append(Command(shlex.split(line), shown))
        else:
            named = re.match(r"# ([\w.]+)\n", block)
            assert named, f"{document.name}: a block of {language} does not say its file"
            steps.append((named[1], block))
    return Page(steps)


def free_ports(first: int, count: int) -> dict[str, str]:
    """Return names of ports from `first` on, and as many consecutive ones that are free now."""
    for start in range(20_000 + os.getpid() % 1_000 * 10, 32_000, count):
        with ExitStack() as held:
            try:
                for port in range(start, start + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return {str(first + number): str(start + number) for number in range(count)}
    raise AssertionError("no free ports")


def typed(command: Command) -> list[str]:
    """Return the words to run, with this Python for `covey` and `python`."""
    program, *rest = command.words
    assert program in ("covey", "python"), program
    return [sys.executable, *(["-m", "covey"] if program == "covey" else []), *rest]


def agrees(command: Command, printed: str) -> bool:
    """Return whether a command has printed what the page shows."""
    return doctest.OutputChecker().check_output(command.shown, printed, doctest.ELLIPSIS)


@contextmanager
def running(command: Command, folder: Path) -> Iterator[None]:
    """Leave a command running, once it has printed what is shown."""
    log = folder / f"{'-'.join(command.words[:2])}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(typed(command), cwd=folder, stdout=file, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + PATIENCE_S
        while not agrees(command, log.read_text(encoding="utf-8")):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < until, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


def follow(steps: Page, folder: Path) -> str:
    """Do all that a tutorial says, and return what its last running command has printed until then."""
    with ExitStack() as left_running:
        log = ""
        for step in steps.steps:
            if not isinstance(step, Command):
                (folder / step[0]).write_text(step[1], encoding="utf-8")
            elif step.goes_on:
                left_running.enter_context(running(step, folder))
                log = f"{'-'.join(step.words[:2])}.log"
            else:
                done = subprocess.run(
                    typed(step), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    timeout=PATIENCE_S, check=False,
                )  # fmt: skip
                assert agrees(step, done.stdout), f"{shlex.join(step.words)}\n{done.stdout}"
        return (folder / log).read_text(encoding="utf-8")
