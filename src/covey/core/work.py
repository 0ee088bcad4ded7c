"""Counted work: what comparing and indexing filters has cost, in units of about a microsecond of processor time.

A request that takes long (a filter with many patterns, asked which of thousands it covers) must not be charged like one
that does not, and how long it takes is only known once it is done. Whoever does such work adds to the process's one
ACCOUNT, and whoever shares out turns (`broker.core`) looks how much was added meanwhile. The count depends on what is
done and not on the machine, so the same inputs give the same turns. `benchmarks/filter_costs.py` compares it with
processor time.
"""

from __future__ import annotations

from typing import Final


class Account:
    """Units of work that were done; they only grow."""

    __slots__ = ("units",)

    def __init__(self) -> None:
        self.units = 0.0

    def spend(self, units: float) -> None:
        """Add what was done."""
        self.units += units


ACCOUNT: Final = Account()
