"""What one neighbour was told and what has not been withdrawn: labels and filters, with the index that reduces them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import Final, NamedTuple

from covey.core.filter import Filter
from covey.routing.messages import Key
from covey.routing.work import Job, as_they_are, emptied
from covey.strategies.coverset import CoverSet

INDEX_BATCH: Final = 32  # filters that are put into an index between two values of work
INDEX_UNITS: Final = 6  # of work, for each


class Item(NamedTuple):
    """A filter to be told, under the label it is told by."""

    key: Key
    filter: Filter


class Told:
    """Filters by label, none twice unless the strategy tells one twice."""

    def __init__(self) -> None:
        self._filters: CoverSet[Key] = CoverSet()
        # Most filters have one label, which stands there by itself.
        self._labels: dict[Filter, Key | dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, label: Key) -> bool:
        return label in self._filters

    def add(self, label: Key, filter: Filter) -> None:
        """Note that the neighbour was told."""
        self._filters.add(label, filter)
        filter = self._filters[
            label
        ]  # the compact one: as a key, the other would keep all that was made of it
        labels = self._labels.get(filter)
        if labels is None:
            self._labels[filter] = label
        elif isinstance(labels, str):
            self._labels[filter] = {labels: None, label: None}
        else:
            labels[label] = None

    def remove(self, label: Key) -> Filter:
        """Note that it was withdrawn; return the filter."""
        filter = self._filters.remove(label)
        labels = self._labels[filter]
        if isinstance(labels, str) or len(labels) == 1:
            del self._labels[filter]
        else:
            del labels[label]
        return filter

    def filter_of(self, label: Key) -> Filter | None:
        """Return the filter under the label."""
        return self._filters.get(label)

    def label_of(self, filter: Filter) -> Key | None:
        """Return the first label under which exactly this filter was told."""
        labels = self._labels.get(filter)
        return labels if labels is None or isinstance(labels, str) else next(iter(labels))

    def items(self) -> list[Item]:
        """Return labels and filters in the order in which they were told."""
        return list(self.iter_items())

    def iter_items(self) -> Iterator[Item]:
        """Return labels and filters, likewise, as they are now, whatever changes while one looks at them."""
        return starmap(Item, as_they_are(self._filters.by_key))

    def labels(self) -> list[Key]:
        """Return the labels, in that order."""
        return [label for label, _ in self._filters.items()]

    def dissolving(self) -> Job:
        """Let go of everything, a little at a time; nothing else may be asked any more."""
        yield from emptied(self._labels)
        yield from self._filters.dissolving()

    def preparing(self) -> Job:
        """Make what `labels_overlapping` needs to answer quickly."""
        for count in self._filters.indexing(INDEX_BATCH):
            yield INDEX_UNITS * count
        yield from self._filters.preparing()

    def labels_overlapping(self, filter: Filter) -> Iterable[Key]:
        """Return the labels of what overlaps the filter, in any order."""
        return self._filters.overlapping(filter)

    def cover(self, filter: Filter) -> bool:
        """Return whether something told covers the filter."""
        return self._filters.covers(filter)

    def covered(self, filter: Filter) -> list[Item]:
        """Return what the filter covers, ordered by label."""
        return [Item(label, self._filters[label]) for label in sorted(self._filters.covered(filter))]
