"""Hooks: functions of the program that hear what happens to its client. What they do wrong ends nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from typing import Any

from covey.client.options import Hook, Options

log = logging.getLogger("covey.client")


class Hooks:
    """Calls the program's functions; see `covey.connect`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()

    def disconnected(self, reason: str) -> None:
        """The link is gone."""
        log.info("the link to the broker is gone: %s", reason)
        self._call(self._options.on_disconnect, reason)

    def reconnected(self, broker: str) -> None:
        """There is a link again, and everything is restored."""
        log.info("linked to the broker %s again", broker)
        self._call(self._options.on_reconnect, broker)

    def error(self, error: Exception) -> None:
        """Something went wrong that nobody waits for."""
        if self._options.on_error is None:
            log.error("%s: %s", type(error).__name__, error)
        self._call(self._options.on_error, error)

    def _call(self, hook: Hook | None, argument: object) -> None:
        if hook is None:
            return
        try:
            result = hook(argument)
        except Exception:
            log.exception("a hook failed")
            return
        if inspect.isawaitable(result):
            task = asyncio.get_running_loop().create_task(self._wait(result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception:
            log.exception("a hook failed")

    async def close(self, within_s: float) -> None:
        """Let hooks that still run end; those that take longer are cancelled."""
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=within_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
