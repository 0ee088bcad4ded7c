"""The entries of one instance of XROUTE, and which of them stands for which.

    own       how many subscriptions there are to exactly this filter, over all links of the instance
    others    how many to filters that this one stands for: those it substitutes here, with all that they stand for, and
              those that neighbours said it stands for behind them
    above     the entry that substitutes this one; an entry without one is a *top*
    below     the entries that this one substitutes

1. No top is above another top; whatever an entry substitutes is below it in the order of filters, too.
2. others = what links said it stands for + the sum over `below` of (own + others).

Which of several tops above a filter substitutes it is a free choice: here it is the oldest. Tops are in an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from covey.core.filter import Filter
from covey.matching.index import Index
from covey.strategies.coverset import FEW
from covey.strategies.xroute.table import is_above


class Entry:
    """One filter of an instance; see the module's text."""

    __slots__ = ("above", "below", "filter", "number", "others", "own")

    def __init__(self, filter: Filter, number: int) -> None:
        self.filter = filter
        self.number = number
        self.own = 0
        self.others = 0
        self.above: Entry | None = None
        self.below: dict[Entry, None] = {}


class Forest:
    """Entries by filter; see the module's text."""

    def __init__(self) -> None:
        self.entries: dict[Filter, Entry] = {}
        self.tops: dict[int, Entry] = {}
        self._index = Index()
        self._next_number = 0

    def top(self, entry: Entry) -> Entry:
        """Return the top that stands for an entry: itself if it is one."""
        while entry.above is not None:
            entry = entry.above
        return entry

    def place(self, filter: Filter) -> Entry:
        """Create an entry below a top, or above some."""
        top = self.top_above(filter)
        entry = self.create(filter)
        if top is not None:
            self.substitute(entry, top)
            return entry
        numbers = sorted(self._index.covered(filter))
        lower = [self.tops[number] for number in numbers if self.is_above(filter, self.tops[number].filter)]
        for former in lower:
            self.substitute(former, entry)
        self.make_top(entry)
        return entry

    def substitute(self, entry: Entry, above: Entry) -> None:
        """Put an entry that is a top, or about to be one, below another one."""
        if self.tops.pop(entry.number, None) is not None:
            self._index.remove(entry.number)
        entry.above = above
        above.below[entry] = None
        weight = self.weight(entry)
        for upper in self._upwards(above):
            upper.others += weight

    def drop(self, entry: Entry) -> None:
        """Remove a dead entry that is no top; what was below it is below the next one above."""
        assert entry.above is not None
        for lower in entry.below:
            lower.above = entry.above
            entry.above.below[lower] = None
        del entry.above.below[entry], self.entries[entry.filter]

    def is_above(self, filter: Filter, other: Filter) -> bool:
        """Return whether a filter is above another one."""
        return is_above(filter, other)

    def create(self, filter: Filter) -> Entry:
        """Create an entry that is nowhere yet."""
        entry = self.entries[filter] = Entry(filter, self._next_number)
        self._next_number += 1
        return entry

    def make_top(self, entry: Entry) -> None:
        """Let an entry be a top."""
        self.tops[entry.number] = entry
        self._index.add(entry.number, entry.filter)

    def delete(self, entry: Entry) -> None:
        """Remove a top."""
        del self.entries[entry.filter], self.tops[entry.number]
        self._index.remove(entry.number)

    def add(self, entry: Entry, own: int, others: int) -> None:
        """Add to the counts of an entry, and of all that stand for it."""
        entry.own += own
        entry.others += others
        if entry.above is not None:
            for upper in self._upwards(entry.above):
                upper.others += own + others

    def _upwards(self, entry: Entry | None) -> Iterator[Entry]:
        while entry is not None:
            yield entry
            entry = entry.above

    def top_above(self, filter: Filter) -> Entry | None:
        """Return the first of the tops that are above a filter."""
        if not self._index.covers(filter):
            return None
        for number in sorted(self._index.covering(filter)):
            if self.is_above(self.tops[number].filter, filter):
                return self.tops[number]
        return None

    def larger(self, entries: Sequence[Entry]) -> dict[Entry, Entry | None]:
        """Return for each entry a maximal one of them that is above it, None for the maximal ones themselves."""
        if len(entries) <= FEW:
            found = {entry: list(entries) for entry in entries}
        else:
            index = Index()
            numbered = {entry.number: entry for entry in entries}
            index.add_batch(list(numbered), [entry.filter for entry in entries])
            found = {
                entry: [numbered[number] for number in sorted(index.covering(entry.filter))]
                for entry in entries
            }
        above = {
            entry: [upper for upper in uppers if self.is_above(upper.filter, entry.filter)]
            for entry, uppers in found.items()
        }
        return {
            entry: next((upper for upper in uppers if not above[upper]), None)
            for entry, uppers in above.items()
        }

    def weight(self, entry: Entry) -> int:
        """Return how many subscriptions another entry stands for by substituting this one."""
        return entry.own + entry.others
