"""Which events were here before: the last so many of them, oldest forgotten first."""

from __future__ import annotations

import re
from typing import Final

from covey.matching.seen import SeenNames

# An event's name in a network of brokers (`protocol.events.name_of`): two numbers, each written in one way.
_NAME: Final = re.compile(r"(0|[1-9a-f][0-9a-f]{0,15})\.(0|[1-9a-f][0-9a-f]{0,15})")


class Seen:
    """The ids of the last events, at least `size` of them. Names of two numbers are where kernels find them too."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: dict[str, None] = {}
        self._names: SeenNames | None = None

    @property
    def names(self) -> SeenNames:
        """Those that are names of two numbers."""
        if self._names is None:
            self._names = SeenNames(self._size)
        return self._names

    def add(self, id: str) -> bool:
        """Note an event; return whether it is new."""
        name = _NAME.fullmatch(id)
        if name is not None:
            return self.names.add(int(name[1], 16), int(name[2], 16))
        if id in self._ids:
            return False
        self._ids[id] = None
        if len(self._ids) > self._size:
            del self._ids[next(iter(self._ids))]
        return True
