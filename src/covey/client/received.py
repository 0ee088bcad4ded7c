"""An event as a client gets it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from covey.wire.events import ENVELOPE, decode_content, envelope_of, family_of, name_of


class Received:
    """An event that matched a subscription. The content is decoded when it is first looked at."""

    def __init__(self, frame: bytes, position: int | None = None) -> None:
        self._frame = frame
        self._envelope = envelope_of(frame)
        self.position = position

    @cached_property
    def content(self) -> Any:
        """What filters judge: a dict, a set of words or a document."""
        last = ENVELOPE.size + self._envelope.content_length
        return decode_content(family_of(self._envelope), self._frame[ENVELOPE.size : last])

    @property
    def data(self) -> bytes:
        """The payload."""
        first = ENVELOPE.size + self._envelope.content_length + self._envelope.notes_length
        return self._frame[first:]

    @property
    def id(self) -> str:
        """The event's name in the network."""
        return name_of(self._envelope.publisher, self._envelope.number)

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def __repr__(self) -> str:
        return f"<event {self.id}: {self.content!r:.80}>"
