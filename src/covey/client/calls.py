"""Calls: an event loop in a thread of its own, and how other threads have it do something."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from covey.errors import CoveyError, LinkError

Answer = TypeVar("Answer")

CLOSED = "the client is closed"


def new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop, which is faster, or asyncio's where there is none."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Calls:
    """A loop in a thread. No call outlives it: what is under way when it stops is cancelled, and its caller told."""

    def __init__(self, name: str) -> None:
        self.loop = new_loop()
        self._gate = threading.Lock()  # what is asked is asked before the loop is told to stop
        self._has_stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._has_stopped

    def call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Have the loop do something, and return what came of it; LinkError if the loop has stopped."""
        future: Future[Answer]
        if threading.current_thread() is self._thread:
            work.close()
            raise CoveyError("a hook must not wait for its own client")
        with self._gate:
            if self._has_stopped:
                work.close()
                raise LinkError(CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise LinkError(CLOSED) from None
        except BaseException:
            future.cancel()  # Ctrl-C: nobody waits any longer
            raise

    def do(self, function: Callable[..., object], *arguments: object) -> None:
        """Have the loop call a function, without waiting for it; LinkError if the loop has stopped."""
        with self._gate:
            if self._has_stopped:
                raise LinkError(CLOSED)
            self.loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """End the thread."""
        with self._gate:
            if self._has_stopped:
                return
            self._has_stopped = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._end())
        finally:
            self.loop.close()

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The answers of tasks go to their callers in later turns of the loop.
        for _ in range(3):
            await asyncio.sleep(0)
