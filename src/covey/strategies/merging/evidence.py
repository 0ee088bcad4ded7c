"""What a broker has seen of the events that one neighbour sends: the evidence on which imperfect mergers are judged.

A neighbour sends only what we told it to send. So its events say nothing about what lies outside of what it was told,
and the price of a looser merger is known only after it was tried: then the events it lets in by mistake come in, and
are counted. They are remembered longer than the others, as *lessons*, so that the same mistake is not made again
soon.

    recent    the last so many events from the neighbour: the window over which the budget holds
    lessons   events that nobody here wanted when they came, up to `patience` windows old, as many as fit a window
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from covey.core.event import content_of
from covey.core.xpath.filter import as_document


class Evidence:
    """Events from one neighbour; `size` is the length of the window."""

    def __init__(self, size: int, patience: int) -> None:
        self._size = size
        self._patience = patience
        self._recent: deque[Any] = deque(maxlen=size)
        self._lessons: deque[tuple[int, Any]] = deque(maxlen=size)
        self.seen = 0  # how many events have come

    def add(self, event: object, *, unwanted: bool) -> None:
        """Note an event that has come, and whether nobody here wanted it."""
        content = content_of(event)
        if isinstance(content, str | bytes):
            content = as_document(content)  # so that it is parsed once, however often it is asked about
        self.seen += 1
        self._recent.append(content)
        if unwanted:
            self._lessons.append((self.seen, content))

    def mistakes(self) -> list[Any]:
        """Return the unwanted events of the window."""
        return [event for number, event in self._lessons if number > self.seen - self._size]

    def known(self) -> Iterable[Any]:
        """Return all that is remembered: the window, and the lessons before it."""
        oldest = self.seen - self._size * self._patience
        while self._lessons and self._lessons[0][0] <= oldest:
            self._lessons.popleft()
        yield from self._recent
        for number, event in self._lessons:
            if number <= self.seen - self._size:
                yield event
