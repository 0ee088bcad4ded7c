"""One instance of XROUTE: what a broker lets one neighbour know, and what it keeps back, with counts.

An instance holds the filters of all other links that the neighbour wants, as a forest of entries with counts. The
neighbour is told the tops, with both counts, and nothing else. After an operation no entry is dead: own > 0. Three
operations change an instance, each for one link, and each returns messages for the neighbour: lists of triples.

    bump       the counts of an entry change; whoever stands for it is counted, and the change told
    register   a filter appears at a link: it goes below a top that is above it, or takes the tops below it. What the
               link itself had below it is represented now and leaves; the neighbour does the same by itself
    cancel     a filter goes from a link, and what it stood for there comes in its stead. A dead top frees what it
               substituted: each goes below another one, or is a top again and is told

A filter that the neighbour does not want is not here, whatever is said of it. If it is wanted later, it is registered
then with all its counts (`admit`); what is wanted no more leaves (`expel`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from covey.core.filter import Filter
from covey.routing.messages import Triple
from covey.strategies.maximal import maximal
from covey.strategies.xroute.forest import Entry, Forest

Triples = list[Triple]


class Instance(Forest):
    """The entries that one neighbour wants; `wanted` says which these are."""

    def __init__(self, wanted: Callable[[Filter], bool]) -> None:
        super().__init__()
        self.wanted = wanted

    # -- operations ------------------------------------------------------------------------------------------

    def bump(self, filter: Filter, own: int, others: int) -> Triples:
        """Change the counts of a filter; it stays alive."""
        entry = self.entries.get(filter)
        if entry is None:
            return []
        self.add(entry, own, others)
        return [self.announcement(entry, own, others)]

    def bump_all(self, triples: Iterable[Triple]) -> Triples:
        """Change the counts of several filters."""
        return [told for triple in triples for told in self.bump(triple.filter, triple.own, triple.others)]

    def register(
        self,
        filter: Filter,
        own: int,
        others: int,
        represented: Sequence[Triple] = (),
        rest: Sequence[Triple] = (),
    ) -> list[Triples]:
        """Let a filter appear at a link that had none of it, and leave what it represents there, with these counts."""
        entry = self.entries.get(filter)
        if entry is None and self.wanted(filter):
            entry = self.place(filter)
        if entry is None:
            left = [message for gone in represented for message in self.leave(gone)]
            return [*left, self.additional(rest)]
        top = self.top(entry)
        moved, gathered = 0, 0  # what the neighbour must be told of, and all that is represented
        less: dict[Filter, int] = {}
        uprooted: list[Triple] = []
        for gone in represented:
            weight = gone.own + gone.others
            gathered += weight
            lower = self.entries.get(gone.filter)
            if lower is None:
                moved += weight  # unwanted until it was counted with a wanted one
            elif lower.above is None:
                moved += weight  # not below the top of what is above it: the order is not transitive there
                uprooted.append(gone)
            else:
                other_top = self.top(lower)
                if other_top is not top:
                    moved += weight
                    less[other_top.filter] = less.get(other_top.filter, 0) - weight
                self.add(lower, -gone.own, -gone.others)
                if not lower.own:
                    self.drop(lower)
        self.add(entry, own, others + gathered)
        told = [self.announcement(entry, own, others + moved)]
        told += [Triple(other, 0, count) for other, count in less.items()]
        left = [message for gone in uprooted for message in self.leave(gone)]
        return [told + self.additional(rest), *left]

    def cancel(self, filter: Filter, own: int, others: int, rest: Sequence[Triple] = ()) -> list[Triples]:
        """Let a filter, with all its counts, go from a link, and let what it stood for there come in its stead."""
        entry = self.entries.get(filter)
        if entry is None:
            return self._instead(rest)
        strangers = self._strangers(entry, rest)
        if strangers:
            later = [triple for triple in rest if triple.filter in strangers]
            rest = [triple for triple in rest if triple.filter not in strangers]
            return [*self.cancel(filter, own, others, rest), *self._instead(later)]
        top = self.top(entry)
        kept, extras = self.sort_out(entry, rest)
        left = self.clear(entry, own, others)
        for lower, triple in kept:
            self.add(lower, triple.own, triple.others)
        keep = sum(triple.own + triple.others for _, triple in kept)
        if entry.above is not None:
            if not entry.own:
                self.drop(entry)
            return [[Triple(top.filter, 0, keep - own - left), *extras]]
        if entry.own:
            return [[Triple(filter, -own, keep - left), *extras]]
        freed = list(entry.below)
        self.delete(entry)
        return [[Triple(filter, -own, 0), *self.reinsert(freed), *extras]]

    def _strangers(self, entry: Entry, rest: Sequence[Triple]) -> set[Filter]:
        """Return what is new and not below the entry that goes: nothing, as long as the order is transitive."""
        new = {t.filter for t in rest if t.own > 0 and t.filter not in self.entries}
        return {filter for filter in new if not self.is_above(entry.filter, filter)}

    def _instead(self, rest: Sequence[Triple]) -> list[Triples]:
        """Take what comes instead of a filter that is not here, or not above it."""
        messages: list[Triples] = []
        for triple in rest:
            if triple.filter in self.entries or triple.own <= 0:
                messages.append(self.bump(*_values(triple)))
            else:
                messages += self.register(*_values(triple))
        return messages

    def leave(self, gone: Triple) -> list[Triples]:
        """Let a filter go from a link where something represents it that is not here."""
        return self.cancel(*_values(gone)) if gone.filter in self.entries else []

    # -- their parts -----------------------------------------------------------------------------------------

    def announcement(self, entry: Entry, own: int, others: int) -> Triple:
        """Return how the neighbour is told that counts of an entry have changed."""
        if entry.above is None:
            return Triple(entry.filter, own, others)
        return Triple(self.top(entry).filter, 0, own + others)

    def additional(self, rest: Sequence[Triple]) -> Triples:
        """Carry out the triples that follow a registration, and pass them on."""
        return self.bump_all(rest)

    def sort_out(self, entry: Entry, rest: Sequence[Triple]) -> tuple[list[tuple[Entry, Triple]], Triples]:
        """Part what comes in the stead of an entry into what its own top stands for, and messages on the other."""
        top = self.top(entry)
        kept: list[tuple[Entry, Triple]] = []
        extras: Triples = []
        for triple in rest:
            lower = self.entries.get(triple.filter)
            if lower is None and triple.own > 0 and self.wanted(triple.filter):
                lower = self.create(triple.filter)
                self.substitute(lower, entry)
            if lower is None:
                continue
            if self.top(lower) is top:
                kept.append((lower, triple))
            else:
                extras += self.bump(*_values(triple))
        return kept, extras

    def clear(self, entry: Entry, own: int, others: int) -> int:
        """Take a link's counts from an entry; return how many others go with it."""
        self.add(entry, -own, -others)
        return others

    def reinsert(self, freed: Sequence[Entry]) -> Triples:
        """Put entries that nothing substitutes any more below each other or below tops, or tell them as tops."""
        for entry in freed:
            entry.above = None
        larger = self.larger(freed)
        for entry, upper in larger.items():
            if upper is not None:
                self.substitute(entry, upper)
        told: Triples = []
        for entry, upper in larger.items():
            if upper is None:
                top = self.top_above(entry.filter)
                if top is None:
                    self.make_top(entry)
                    told.append(Triple(entry.filter, entry.own, entry.others))
                else:
                    self.substitute(entry, top)
                    told += self.fallen(entry, top)
        return told

    def fallen(self, entry: Entry, top: Entry) -> Triples:
        """Return how the neighbour is told that a top stands for an entry that was freed."""
        return [Triple(top.filter, 0, self.weight(entry))]

    # -- what the neighbour wants ----------------------------------------------------------------------------

    def admit(self, triples: Iterable[Triple]) -> list[Triples]:
        """Register filters that are wanted now, with all their counts: the maximal ones first."""
        triples = list(triples)
        first = {filter for _, filter in maximal([("", triple.filter) for triple in triples])}
        triples.sort(key=lambda triple: triple.filter not in first)
        messages: list[Triples] = []
        bumps: dict[Filter, int] = {}
        for triple in triples:
            for message in self.register(*_values(triple)):
                if message[0].own == 0:
                    bumps[message[0].filter] = bumps.get(message[0].filter, 0) + message[0].others
                else:
                    messages += [_bumps(bumps), message]
                    bumps = {}
        return [*messages, _bumps(bumps)]

    def expel(self, triples: Iterable[Triple]) -> list[Triples]:
        """Let filters go that are wanted no more: those that a top stands for are taken from its count."""
        triples = list(triples)
        doomed = {triple.filter for triple in triples}
        bumps: dict[Filter, int] = {}
        messages: list[Triples] = []
        for triple in triples:
            entry = self.entries[triple.filter]
            if entry.above is not None:
                top = self.top(entry).filter
                self.add(entry, -triple.own, -triple.others)
                self.drop(entry)
                if top not in doomed:
                    bumps[top] = bumps.get(top, 0) - triple.own - triple.others
        for triple in triples:
            if triple.filter in self.entries:
                messages += self.cancel(*_values(triple))
        return [_bumps(bumps), *messages]


def _values(triple: Triple) -> tuple[Filter, int, int]:
    return triple.filter, triple.own, triple.others


def _bumps(counts: dict[Filter, int]) -> Triples:
    return [Triple(filter, 0, count) for filter, count in counts.items()]
