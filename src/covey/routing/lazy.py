"""An index that takes filters in when it is asked something: they wait until then, and are then added all at once.

Adding many filters at once takes a third of the time that they take one by one, and most of what a broker
keeps is not asked about between two changes; a filter that leaves before anything is asked costs nothing. At most
MOST_WAITING wait, so that no question has to add more than that.

An index that never had anything is only a name: the arrays of one take 60 KB, and a broker with many trees has many
tables that stay empty.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from covey.core.filter import Filter
from covey.matching.attributes.packed import PackedEvents
from covey.matching.attributes.view import IndexView
from covey.matching.index import Index
from covey.matching.jit import Ints, Longs
from covey.matching.keyset import Keys

MOST_WAITING: Final = 1_000


class LazyIndex(Index):
    """An `Index` with the same answers and the same errors."""

    def __init__(self) -> None:
        self._is_made = False
        self._waiting: dict[Hashable, tuple[Filter, Hashable]] = {}

    def __len__(self) -> int:
        return len(self._waiting) + (super().__len__() if self._is_made else 0)

    def __contains__(self, key: object) -> bool:
        return key in self._waiting or (self._is_made and super().__contains__(key))

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, key: Hashable, filter: Filter, link: Hashable = None) -> None:
        """Add a filter under a new key; `link` says where events go that match it. ValueError if the key is in use."""
        if key in self._waiting:
            raise ValueError(f"key {key!r} is in the index already")
        if key in self or not isinstance(filter, Filter):
            self._take_in()
            super().add(key, filter, link)  # which says what is wrong
        self._waiting[key] = filter, link
        if len(self._waiting) >= MOST_WAITING:
            self._take_in()

    def add_batch(
        self, keys: Sequence[Hashable], filters: Sequence[Filter], links: Sequence[Hashable] | None = None
    ) -> None:
        """Add many filters at once; nothing is added if one of the keys is in use."""
        self._take_in()
        super().add_batch(keys, filters, links)

    def _take_in(self) -> None:
        if not self._is_made:
            super().__init__()
            self._is_made = True
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            filters, links = zip(*waiting.values(), strict=True)
            super().add_batch(list(waiting), filters, links)

    def remove(self, key: Hashable) -> None:
        """Remove a key and its filter; KeyError if it is not there."""
        if self._waiting.pop(key, None) is None:
            self._take_in()
            super().remove(key)

    def remove_batch(self, keys: Iterable[Hashable]) -> None:
        """Remove many keys; KeyError, and nothing is removed, if one is not there."""
        self._take_in()
        super().remove_batch(keys)

    # -- questions -------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays of the attribute index take, keys and links not counted."""
        self._take_in()
        return super().nbytes

    def match(self, event: object) -> Keys:
        """Return the keys of filters that match the event."""
        self._take_in()
        return super().match(event)

    def match_batch(self, events: Iterable[object]) -> list[NDArray[Any]]:
        """Return for each event the keys of filters that match it, as an array."""
        self._take_in()
        return super().match_batch(events)

    def links(self, event: object) -> set[Hashable]:
        """Return the links of filters that match the event: where it must go."""
        self._take_in()
        return super().links(event)

    def links_batch(self, events: Iterable[object]) -> list[set[Hashable]]:
        """Return for each event the links of filters that match it."""
        self._take_in()
        return super().links_batch(events)

    def match_packed(self, events: PackedEvents) -> tuple[Ints, Longs]:
        """Return the handles of filters that match each packed event, and where those of each event end."""
        self._take_in()
        return super().match_packed(events)

    def stamps(self) -> Longs:
        """Return a number for each handle, which changes when the handle gets another key."""
        self._take_in()
        return super().stamps()

    def links_packed(self, events: PackedEvents) -> tuple[list[Hashable], NDArray[np.bool_]]:
        """Return links, and for each of them and each packed event whether it must go there."""
        self._take_in()
        return super().links_packed(events)

    def view(self) -> IndexView:
        """Return the filters of attributes as kernels see them; it holds until the index changes."""
        self._take_in()
        return super().view()

    def numbered_links(self) -> Sequence[Hashable]:
        """Return the link of each number that kernels know it by; None for a number that is not in use."""
        self._take_in()
        return super().numbered_links()

    def covers(self, filter: Filter) -> bool:
        """Return whether some filter here covers the given one; quicker than `covering`."""
        self._take_in()
        return super().covers(filter)

    def covering(self, filter: Filter) -> Keys:
        """Return the keys of filters that cover the given one."""
        self._take_in()
        return super().covering(filter)

    def covered(self, filter: Filter) -> Keys:
        """Return the keys of filters that the given one covers."""
        self._take_in()
        return super().covered(filter)

    def overlapping(self, filter: Filter) -> Keys:
        """Return the keys of filters that overlap the given one."""
        self._take_in()
        return super().overlapping(filter)
