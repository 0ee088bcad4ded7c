"""What is said while the demonstration goes on, on standard error: a line for each act, and words of the moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status


class Teller:
    """Says what goes on, and notes how long each act takes. On a terminal the moment's words are replaced by the next.

    A terminal's words are drawn by a thread: within `still` there is none, so that processes can be forked.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._begun_s = time.monotonic()
        self._status: Status | None = None
        self.acts_s: dict[str, float] = {}

    @contextmanager
    def act(self, name: str, words: str, still: bool = False) -> Iterator[None]:
        """Tell of an act that begins, and what it took."""
        begun_s = time.monotonic()
        self.line(f"{begun_s - self._begun_s:3.0f} s  {words} …")
        if self._console.is_terminal and not still:
            self._status = self._console.status(escape(words))
            self._status.start()
        try:
            yield
        finally:
            if self._status is not None:
                self._status.stop()
                self._status = None
        self.acts_s[name] = time.monotonic() - begun_s

    def passing(self, words: str) -> None:
        """Say what is done at this moment."""
        if self._status is not None:
            self._status.update(escape(words))
        else:
            self.note(words)

    def note(self, words: str) -> None:
        """Say what an act has found."""
        self.line(f"       {words}")

    def line(self, words: str) -> None:
        """Say something that stays."""
        self._console.print(escape(words), highlight=False, soft_wrap=True)
