"""Which events were here before: the last so many of them, oldest forgotten first."""

from __future__ import annotations


class Seen:
    """The ids of the last `size` events."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: dict[str, None] = {}

    def add(self, id: str) -> bool:
        """Note an event; return whether it is new."""
        if id in self._ids:
            return False
        self._ids[id] = None
        if len(self._ids) > self._size:
            del self._ids[next(iter(self._ids))]
        return True
