"""The contract that every family of filters keeps.

A filter is an immutable predicate on events. Four questions are asked of it:

    matches(event)   is the event in the filter
    covers(other)    is every event of `other` in this filter: sound always, complete as far as the family says
    overlaps(other)  can one event be in both: never a false "no", so it is safe to route by it
    merge(other)     the smallest filter of the language that covers both

Filters of different families never cover each other and never overlap: their events are of different kinds.
Equal filters have equal text, equal wire form and equal hash; `covers` is reflexive and transitive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple


class Merge(NamedTuple):
    """One filter that stands for several; `exact` when it matches nothing that none of them matches."""

    filter: Filter
    exact: bool


class Filter(ABC):
    """An immutable predicate on events; see the module's text for the contract."""

    __slots__ = ()

    family: ClassVar[str]

    @abstractmethod
    def matches(self, event: object) -> bool:
        """Return whether `event` is in this filter; an event of another family's kind is not."""

    @abstractmethod
    def covers(self, other: Filter) -> bool:
        """Return True only if every event that `other` matches is matched by this filter."""

    @abstractmethod
    def overlaps(self, other: Filter) -> bool:
        """Return False only if no event can match both filters."""

    @abstractmethod
    def merge(self, other: Filter) -> Merge:
        """Return a filter that covers both; raise FilterError if `other` is of another family."""

    @abstractmethod
    def encode(self) -> bytes:
        """Return the compact wire form; `covey.decode` gives back an equal filter."""

    def compact(self) -> Filter:
        """Return an equal filter that takes as little room as one can, for keeping; perhaps this one itself."""
        return self

    @abstractmethod
    def __str__(self) -> str:
        """Return the canonical text; parsing it gives back an equal filter."""

    @abstractmethod
    def __eq__(self, other: object) -> bool: ...

    @abstractmethod
    def __hash__(self) -> int: ...

    def __repr__(self) -> str:
        return f"<{self.family} filter: {self}>"
