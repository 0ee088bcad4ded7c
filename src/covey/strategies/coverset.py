"""Filters that come and go, and the question which of them cover a filter or are covered by it.

A filter that asks for one value of an attribute (`symbol = 'a'`) covers no filter of one conjunction but those that ask
for that very value. So filters are kept by the values they ask for: those who could cover such a filter ask for one of
its values or for no value at all, those whom it could cover ask for each of its values. Other filters, of no or several
conjunctions or another family, are always among the candidates. Few candidates are compared one by one. For more, and
for other questions, an index is asked, which is made when it is needed first. Of a value that more than a few filters
ask for only their number is kept, as the index is asked then.

Whoever adds a filter asks before whom it covers and who covers it. An index that had to be brought up to date each time
would take several times as long as one that takes some filters at a time. So the newest filters wait, and those of them
that can be the answer, by the values they ask for, are compared one by one.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from covey.core.attributes.constraint import TRUE_BIT, Constraint
from covey.core.attributes.filter import LONGEST_REMEMBERED, AttributeFilter
from covey.core.attributes.wire import Form, forms_of
from covey.core.filter import Filter
from covey.matching.index import Index
from covey.routing.work import emptied

FEW: Final = (
    16  # candidates that are compared one by one: an index takes long to add filters with many values to
)

MOST_WAITING: Final = 32  # filters that are not put into the index yet
MOST_BROAD: Final = 4  # of them such as are compared with every other one

Name = TypeVar("Name", bound=Hashable)


class Values(NamedTuple):
    """What single values a filter asks for, as numbers; `plain` are those without a LIKE beside them."""

    every: tuple[int, ...]
    plain: tuple[int, ...]


def values_of(filter: Filter) -> Values | None:
    """Return the single values that a filter of one conjunction asks for; None for any other filter."""
    if not isinstance(filter, AttributeFilter):
        return None
    if filter.wire is not None and len(filter.wire) > LONGEST_REMEMBERED:
        return _find_values(filter)
    return _last_values(filter.compact())  # what is remembered must not keep all that was made of a filter


def _find_values(filter: AttributeFilter) -> Values | None:
    if filter.wire is not None:
        forms = forms_of(filter.wire)
        if len(forms) != 1:
            return None
        found = _values_of_form(forms[0])
        if found is not None:
            return found
    if len(filter.conjunctions) != 1:
        return None
    every: list[int] = []
    plain: list[int] = []
    for name, side in filter.conjunctions[0].constraints:
        if side.is_point:
            value = _value(name, _point(side))
            every.append(value)
            if side.is_plain:
                plain.append(value)
    return Values(tuple(dict.fromkeys(every)), tuple(dict.fromkeys(plain)))


_last_values: Final = lru_cache(maxsize=1 << 12)(_find_values)


def _values_of_form(form: Form) -> Values | None:
    """Return the single values of a conjunction's wire form; None if one of its sides is of the general form."""
    found: list[int] = []
    parts = iter(form)
    for name, side in zip(parts, parts, strict=True):
        if type(side) is not list:
            if side is not None:
                found.append(_value(name, side))
        elif len(side) == 5:
            return None
    values = tuple(dict.fromkeys(found))
    return Values(values, values)


def _point(side: Constraint) -> bool | int | float | str:
    """Return the one value of a constraint that has one."""
    if side.numbers:
        return side.numbers[0][0]
    return side.strings[0][1] if side.strings else side.booleans == TRUE_BIT


def _value(name: str, value: bool | int | float | str) -> int:
    """Return what stands for a value of an attribute: names and values themselves would take three times the room.

    Two that happen to have the same number are taken for one, which makes for a candidate more.
    """
    return hash((name, "is", value) if type(value) is bool else (name, value))  # true is equal to 1


class CoverSet(Generic[Name]):
    """Filters by key; the answers are those of asking each filter in turn."""

    def __init__(self) -> None:
        self._filters: dict[Name, Filter] = {}
        self._by_value: dict[int, tuple[Name, ...] | int] = {}  # who asks for it; their number if not few
        self._free: dict[Name, Filter] = {}  # those that may cover filters of any values
        self._others: dict[
            Name, Filter
        ] = {}  # those that are not of one conjunction; they are among the free
        self._index: Index | None = None
        self._unindexed: dict[
            Name, Filter
        ] = {}  # those that are not in the index yet, while it is being made
        self._waiting: dict[
            Name, Values | None
        ] = {}  # those that have come since, and are to be put into it some at a time
        self._broad_waiting = 0

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def __getitem__(self, key: Name) -> Filter:
        return self._filters[key]

    def get(self, key: Name) -> Filter | None:
        """Return the filter of a key."""
        return self._filters.get(key)

    @property
    def by_key(self) -> Mapping[Name, Filter]:
        """The filters by key, in the order in which they were added."""
        return self._filters

    def items(self) -> ItemsView[Name, Filter]:
        """Return keys and filters in the order in which they were added."""
        return self._filters.items()

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, key: Name, filter: Filter) -> None:
        """Add a filter under a new key; ValueError if the key is in use."""
        if key in self._filters:
            raise ValueError(f"key {key!r} is in use already")
        filter = self._filters[key] = filter.compact()
        values = values_of(filter)
        if values is None:
            self._others[key] = self._free[key] = filter
        else:
            for value in values.every:
                self._ask_for(value, key)
            if not values.plain:
                self._free[key] = filter
        if self._index is not None:
            self._waiting[key] = values
            self._broad_waiting += values is None or not values.plain
            if len(self._waiting) >= MOST_WAITING or self._broad_waiting >= MOST_BROAD:
                self._put_waiting()

    def _ask_for(self, value: int, key: Name) -> None:
        """Note that a filter asks for a value."""
        same = self._by_value.get(value, ())
        if isinstance(same, int):
            self._by_value[value] = same + 1
        else:
            self._by_value[value] = (*same, key) if len(same) < FEW else len(same) + 1

    def _ask_no_more(self, value: int, key: Name) -> None:
        """Note that a filter that asks for a value leaves."""
        same = self._by_value[value]
        left = same - 1 if isinstance(same, int) else tuple(one for one in same if one != key)
        if left:
            self._by_value[value] = left
        else:
            del self._by_value[value]

    def _put_waiting(self) -> None:
        """Put the filters that have come since it was made into the index."""
        assert self._index is not None, "there is an index"
        self._index.add_batch(list(self._waiting), [self._filters[key] for key in self._waiting])
        self._waiting.clear()
        self._broad_waiting = 0

    def remove(self, key: Name) -> Filter:
        """Remove a key; return its filter. KeyError if it is not there."""
        filter = self._filters.pop(key)
        values = values_of(filter)
        for value in () if values is None else values.every:
            self._ask_no_more(value, key)
        self._free.pop(key, None)
        self._others.pop(key, None)
        if self._index is not None:
            if key in self._waiting:
                del self._waiting[key]
                self._broad_waiting -= values is None or not values.plain
            elif self._unindexed.pop(key, None) is None:
                self._index.remove(key)
            if not self._filters:
                self._index = None
        return filter

    def indexing(self, batch: int) -> Iterator[int]:
        """Make the index, so many filters at a time; yield how many were added.

        Filters may come and go meanwhile, and questions be asked: then all that is left is done at once.
        """
        self._begin_index()
        while self._unindexed and self._index is not None:
            some = [self._unindexed.popitem() for _ in range(min(batch, len(self._unindexed)))]
            self._index.add_batch([key for key, _ in some], [filter for _, filter in some])
            yield len(some)

    def preparing(self) -> Iterator[int]:
        """Make what the index needs for `overlapping` and `covered`, a little at a time; see `Index.preparing`."""
        if self._waiting:
            self._put_waiting()
        if self._index is not None:
            yield from self._index.preparing()

    def dissolving(self) -> Iterator[int]:
        """Let go of everything, a little at a time; nothing else may be asked any more."""
        for some in (self._by_value, self._filters, self._free, self._others, self._unindexed, self._waiting):
            yield from emptied(some)

    def _begin_index(self) -> Index:
        if self._index is None:
            self._index, self._unindexed = Index(), dict(self._filters)
        return self._index

    # -- questions -------------------------------------------------------------------------------------------

    def covers(self, filter: Filter) -> bool:
        """Return whether some filter here covers the given one."""
        candidates = self._who_could_cover(filter)
        if candidates is None:
            index = self._asked()
            return any(
                self._filters[key].covers(filter) for key in self._waiting_that_could_cover(filter)
            ) or (index.covers(filter))
        return any(self._filters[key].covers(filter) for key in candidates)

    def covering(self, filter: Filter) -> Iterable[Name]:
        """Return the keys of the filters that cover the given one."""
        candidates = self._who_could_cover(filter)
        if candidates is None:
            found = self._asked().covering(filter)
            newest = [
                key for key in self._waiting_that_could_cover(filter) if self._filters[key].covers(filter)
            ]
            return [*found, *newest] if newest else found
        return [key for key in dict.fromkeys(candidates) if self._filters[key].covers(filter)]

    def covered(self, filter: Filter) -> Iterable[Name]:
        """Return the keys of the filters that the given one covers."""
        candidates = self._whom_it_could_cover(filter)
        if candidates is None:
            found = self._asked().covered(filter)
            newest = [
                key for key in self._waiting_it_could_cover(filter) if filter.covers(self._filters[key])
            ]
            return [*found, *newest] if newest else found
        return [key for key in candidates if filter.covers(self._filters[key])]

    def overlapping(self, filter: Filter) -> Iterable[Name]:
        """Return the keys of the filters that overlap the given one."""
        return self._complete().overlapping(filter)

    def matches(self, event: Any) -> bool:
        """Return whether one of the filters matches the event."""
        return bool(self._complete().match(event))

    def _who_could_cover(self, filter: Filter) -> list[Name] | None:
        """Return the filters that could cover the given one, some perhaps twice; None if they are not few."""
        values = values_of(filter) if len(self._free) <= FEW else None
        if values is None:
            return None
        found = [*self._free]
        for value in values.every:
            same = self._by_value.get(value, ())
            if isinstance(same, int):
                return None
            found += same
        return found if len(found) <= FEW else None

    def _whom_it_could_cover(self, filter: Filter) -> list[Name] | None:
        """Return the filters that the given one could cover, each once; None if they are not few."""
        values = values_of(filter)
        if values is None or not values.plain:
            return None
        few = [same for value in values.plain if not isinstance(same := self._by_value.get(value, ()), int)]
        if not few:
            return None
        fewest, *more = sorted(few, key=len)
        if len(fewest) + len(self._others) > FEW:
            return None
        return [*(key for key in fewest if all(key in same for same in more)), *self._others]

    def _waiting_that_could_cover(self, filter: Filter) -> list[Name]:
        """Return the filters that wait to be put into the index and could cover the given one."""
        if not self._waiting:
            return []
        values = values_of(filter)
        if values is None:  # it may be covered by any of them
            return list(self._waiting)
        asked = frozenset(values.every)
        return [
            key for key, theirs in self._waiting.items() if theirs is None or asked.issuperset(theirs.plain)
        ]

    def _waiting_it_could_cover(self, filter: Filter) -> list[Name]:
        """Return the filters that wait to be put into the index and that the given one could cover."""
        values = values_of(filter) if self._waiting else None
        if values is None:
            return list(self._waiting)
        plain = values.plain
        return [
            key
            for key, theirs in self._waiting.items()
            if theirs is None or all(value in theirs.every for value in plain)
        ]

    def _complete(self) -> Index:
        """Return the index with all filters in it."""
        index = self._asked()
        if self._waiting:
            self._put_waiting()
        return index

    def _asked(self) -> Index:
        index = self._begin_index()
        if self._unindexed:
            some, self._unindexed = self._unindexed, {}
            index.add_batch(list(some), list(some.values()))
        return index
