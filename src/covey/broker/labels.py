"""Labels: for each local subscription, by its handle in the router's index, which client it is of and its number there.

A handle says nothing to a client, and a key is a text: to look one up costs more than to match and copy an event. So
what was looked up once is kept by handle, as numbers, until the handle gets another key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from covey.matching.index import Index
from covey.matching.jit import Ints, Longs
from covey.routing.table import Place

Label = tuple[int, int]  # the client's slot, and the number of its subscription

NOBODY: Final = (0, 0)


class Labels:
    """Two numbers for each handle of an index; `label_of` says those of a place when they are first asked for."""

    def __init__(self, index: Index, label_of: Callable[[Place], Label]) -> None:
        self._index = index
        self._label_of = label_of
        self._stamps: Longs = np.zeros(0, np.int64)
        self._slots: Ints = np.zeros(0, np.int32)
        self._sids: Longs = np.zeros(0, np.int64)

    def of(self, handles: Ints) -> tuple[Ints, Longs]:
        """Return the slots and numbers of handles."""
        stamps = self._index.stamps()
        if len(stamps) > len(self._stamps):
            more = len(stamps) - len(self._stamps)
            self._stamps = np.concatenate([self._stamps, np.full(more, -1, np.int64)])
            self._slots = np.concatenate([self._slots, np.zeros(more, np.int32)])
            self._sids = np.concatenate([self._sids, np.zeros(more, np.int64)])
        stale = self._stamps[handles] != stamps[handles]
        if np.count_nonzero(stale):
            some = np.unique(handles[stale])
            labels = [self._label_of(place) for place in self._index.keys_of(some).tolist()]
            self._slots[some] = [slot for slot, _ in labels]
            self._sids[some] = [sid for _, sid in labels]
            self._stamps[some] = stamps[some]
        return self._slots[handles], self._sids[handles]
