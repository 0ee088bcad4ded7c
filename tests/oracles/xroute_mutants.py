"""XROUTE with one repair undone at a time: what the checks must find.

The printed protocol needs nine repairs. Each class here puts one mistake back, as far as it can be put into repaired
code, and leaves the rest as it is. A tenth takes filters that cover each other for mutually above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from covey.core.filter import Filter
from covey.routing.messages import Triple
from covey.strategies.xroute.counted import XRoute
from covey.strategies.xroute.forest import Entry
from covey.strategies.xroute.instance import Instance, Triples
from covey.strategies.xroute.table import Held, LinkTable


class NeverTold(Instance):
    """D1: whether a filter is a top is asked of what stands for it, which is there always; so it is told as a count."""

    def announcement(self, entry: Entry, own: int, others: int) -> Triple:
        return Triple(self.top(entry).filter, 0, own + others)


class NeverRepresented(LinkTable):
    """D2: a filter must have been counted at a link before it can represent others there."""

    def represented(self, link: str, filter: Filter) -> list[Held]:
        return []


def cancels_by_count(strategy: XRoute, held: Held, first: Triple) -> bool:
    """D3: the last of a filter goes from a link as a change of counts, unless it stood for others there."""
    return first.own == -held.own and held.others > 0


def lets_pass(strategy: XRoute, link: str, after: Mapping[Filter, tuple[int, int]]) -> None:
    """D3, too: nothing is refused, so that what is wrong shows where it does harm."""


class Dangling(Instance):
    """D4: what is below an entry that is dropped stays below it."""

    def drop(self, entry: Entry) -> None:
        assert entry.above is not None
        del entry.above.below[entry], self.entries[entry.filter]


class CountsWhileTop(Instance):
    """D5: of what is substituted, only those are counted that came while it was a top."""

    def __init__(self, wanted: Callable[[Filter], bool]) -> None:
        super().__init__(wanted)
        self.while_top: dict[Entry, int] = {}

    def add(self, entry: Entry, own: int, others: int) -> None:
        if entry.above is None:
            self.while_top[entry] = self.while_top.get(entry, 0) + own
        super().add(entry, own, others)

    def weight(self, entry: Entry) -> int:
        return self.while_top.get(entry, 0) + entry.others


class FallsInSilence(Instance):
    """D6: the neighbour is not told that a top stands for an entry that was freed."""

    def fallen(self, entry: Entry, top: Entry) -> Triples:
        return []


class ReadsAfterClearing(Instance):
    """D7: how many others go is read when the count has been cleared already."""

    def clear(self, entry: Entry, own: int, others: int) -> int:
        super().clear(entry, own, 0)
        entry.others -= others
        return 0


class ForgetsExtras(Instance):
    """D8: what comes instead, below other tops, is told only if the filter is gone altogether."""

    def sort_out(self, entry: Entry, rest: Sequence[Triple]) -> tuple[list[tuple[Entry, Triple]], Triples]:
        kept, extras = super().sort_out(entry, rest)
        return kept, extras if entry.above is None and not self._is_live_elsewhere else []

    def cancel(self, filter: Filter, own: int, others: int, rest: Sequence[Triple] = ()) -> list[Triples]:
        entry = self.entries.get(filter)
        self._is_live_elsewhere = entry is not None and entry.own > own
        return super().cancel(filter, own, others, rest)


class KeepsAdditional(Instance):
    """D9: the triples that follow a registration are carried out and not passed on."""

    def additional(self, rest: Sequence[Triple]) -> Triples:
        super().additional(rest)
        return []


def covers_another(filter: Filter, other: Filter) -> bool:
    """Return whether a filter covers another one that is not equal: no strict order."""
    return filter != other and filter.covers(other)


class MutualTable(LinkTable):
    """Filters that cover each other are above each other, at a link."""

    def is_above(self, filter: Filter, other: Filter) -> bool:
        return covers_another(filter, other)


class MutualInstance(Instance):
    """Filters that cover each other are above each other, in an instance."""

    def is_above(self, filter: Filter, other: Filter) -> bool:
        return covers_another(filter, other)


# By the number of the repair: what of a strategy is put in the place of what.
MUTANTS: dict[str, dict[str, Any]] = {
    "D1": {"instance_type": NeverTold},
    "D2": {"table_type": NeverRepresented},
    "D3": {"is_cancellation": cancels_by_count, "check": lets_pass},
    "D4": {"instance_type": Dangling},
    "D5": {"instance_type": CountsWhileTop},
    "D6": {"instance_type": FallsInSilence},
    "D7": {"instance_type": ReadsAfterClearing},
    "D8": {"instance_type": ForgetsExtras},
    "D9": {"instance_type": KeepsAdditional},
}
MUTUAL: dict[str, Any] = {"instance_type": MutualInstance, "table_type": MutualTable}
