"""Curves over the number of subscriptions, from kept rows: what figures draw and claims are judged by.

Values are means over seeds. Ratios are of means, at each number of subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from covey.lab.experiment import Results, Value
from covey.lab.paper_x.population import OURS
from covey.lab.paper_x.tables import NAME

SIZE = "subscriptions"


class Curve(NamedTuple):
    """Values by number of subscriptions; `simulated` says for which the simulator ran."""

    sizes: Sequence[int]
    values: Sequence[float]
    simulated: Sequence[bool]

    @property
    def last(self) -> float:
        """The value of the largest number of subscriptions."""
        return self.values[-1]

    @property
    def widens(self) -> bool:
        """Whether each value is above the one before."""
        return len(self.values) > 1 and all(a < b for a, b in zip(self.values, self.values[1:], strict=False))


def doctype_shown(results: Results) -> str:
    """Return the document type to show: that of the file, if it was given."""
    found = {str(row["doctype"]) for row in results.rows(NAME)}
    return min(found - {OURS}, default=OURS)


def curve(results: Results, column: str, strategy: str, *, unique: bool, walks: str = "full") -> Curve:
    """Return a column of one strategy, for the walks of the results' reading if it names some."""
    walks = str(results.reading.get("walks", walks))
    where: dict[str, Value] = {"strategy": strategy, "unique": unique, "walks": walks}
    where["doctype"] = doctype_shown(results)
    sizes, values = results.series(NAME, SIZE, column, **where)
    simulated = {row[SIZE] for row in results.rows(NAME, **where) if row.get("computed_from") == "simulation"}
    return Curve([int(size) for size in sizes], values, [size in simulated for size in sizes])


def ratio(one: Curve, other: Curve) -> Curve:
    """Return one curve divided by another one, which has the same numbers of subscriptions."""
    assert one.sizes == other.sizes, "curves of one grid have the same sizes"
    values = [a / b for a, b in zip(one.values, other.values, strict=True)]
    both = [a and b for a, b in zip(one.simulated, other.simulated, strict=True)]
    return Curve(one.sizes, values, both)


def mean_gain(results: Results, *, unique: bool, walks: str = "full", column: str = "mean_filters") -> Curve:
    """Return how many times the mean table of XROUTE is smaller than that of simple routing."""
    simple = curve(results, column, "identity", unique=unique, walks=walks)
    return ratio(simple, curve(results, column, "xroute", unique=unique, walks=walks))


def max_gain(results: Results, strategy: str, *, unique: bool = False, walks: str = "full") -> Curve:
    """Return how many times the largest table of XROUTE is smaller than that of another strategy."""
    other = curve(results, size_of(strategy), strategy, unique=unique, walks=walks)
    return ratio(other, curve(results, "max_filters", "xroute", unique=unique, walks=walks))


def imbalance(results: Results, strategy: str, *, walks: str = "full", used: bool = False) -> Curve:
    """Return the largest table by the mean one, with multiple sets; of routers with consumers behind them if `used`."""
    largest = curve(results, "max_filters", strategy, unique=False, walks=walks)
    mean = "mean_used_filters" if used else "mean_filters"
    return ratio(largest, curve(results, mean, strategy, unique=False, walks=walks))


def size_of(strategy: str) -> str:
    """Return the column of a strategy's largest table: match-first has an entry for each subscription."""
    return "max_entries" if strategy == "match-first" else "max_filters"
