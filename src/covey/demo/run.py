"""The demonstration from beginning to end: processes are started, the acts are played, everything is ended again.

The planner's process starts first: while this one compiles what brokers need, Spark starts.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from covey.broker.local import Brokers, Overlay
from covey.broker.process import loop_factory
from covey.broker.warming import warm_up
from covey.demo import burst
from covey.demo.acts import Acts
from covey.demo.findings import Findings
from covey.demo.planning import Planner
from covey.demo.scene import CITIES, LINKS, Scene
from covey.demo.settings import Settings
from covey.demo.telling import Teller
from covey.errors import ConfigError
from covey.pipeline.session import java_home

# What runs beside the brokers while they do: given the addresses of their pages, and the token for them.
Beside = Callable[[Sequence[str], str], AbstractContextManager[None]]


def play(settings: Settings, keep: Path | None = None, beside: Beside | None = None) -> Findings:
    """Play all acts; return what was found. CoveyError if something cannot be started.

    Whatever is written goes to `keep`, or to a directory that is removed again. No process is left behind.
    """
    begun_s = time.monotonic()
    java_home()  # without which there is no plan; it is better to hear of that now
    teller = Teller()
    scene = Scene(settings.seed, settings.subscriptions, settings.clients)
    found = Findings(
        settings.seed, len(CITIES), len(LINKS), settings.subscriptions, settings.clients * len(CITIES)
    )
    with _directory(keep) as directory, _terminated():
        planner = Planner(directory / "spark")
        brokers = Brokers(directory / "brokers")
        try:
            words = "compiling what brokers need, one to two minutes the first time; meanwhile Spark starts"
            with teller.act("compile", words):
                warm_up()
            rows = burst.rows()
            count = len(CITIES) + sum(len(row.brokers) for row in rows)
            with teller.act("start", f"{count} brokers start, a process each", still=True):
                brokers.start([Overlay(list(CITIES), LINKS, "covering", sampled=True), *rows])
            acts = Acts(scene, settings, brokers, planner, teller, found)
            pages = [brokers.pages[city] for city in CITIES]
            with nullcontext() if beside is None else beside(pages, brokers.token):
                _run(acts, directory)
        finally:
            brokers.stop()
            planner.stop()
    found.acts_s = teller.acts_s
    found.total_s = time.monotonic() - begun_s
    return found


def _run(acts: Acts, directory: Path) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await acts.run(directory)

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Make the directory for everything; it goes away unless it is one to keep, which must be new or empty."""
    if keep is not None:
        if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
            raise ConfigError(f"{str(keep)!r:.200} is there already (hint: name a new directory)")
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make {str(keep)!r:.200}: {error.strerror or error}") from None
        yield keep.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="covey-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _terminated() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: end everything in order."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
