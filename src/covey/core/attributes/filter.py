"""Attribute filters: disjunctions of conjunctions of constraints on an event's attributes.

The normal form is simplified (see simplify.py): () is FALSE and one empty conjunction is TRUE. Filters with
equal normal forms are equal; so are their texts, wire forms and hashes.

    f = conjunction([("symbol", "=", "IBM"), ("price", "between", (10, 20))])
    f.matches({"symbol": "IBM", "price": 12})

A filter has its normal form in one or both of two shapes: as conjunctions, and as its wire form (wire.py). One that was
decoded has the bytes alone until somebody asks for its conjunctions, which take some ten times the room. `compact`
gives a filter for keeping, which never holds its conjunctions: a broker may have very many and asks for those of few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeGuard

from covey.core.attributes import boxes, builder, imperfect, simplify, wire
from covey.core.attributes.conjunction import ANYTHING, Conjunction, satisfied
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.forms import encode_conjunctions
from covey.core.attributes.text import to_text
from covey.core.attributes.values import attribute_name
from covey.core.event import Event
from covey.core.filter import Filter, Merge
from covey.errors import FilterError

# Conjunctions take some twenty times the room of the wire form: those of longer ones are remembered by their bytes.
LONGEST_REMEMBERED: Final = 512


class AttributeFilter(Filter):
    """A predicate on mappings of names to scalars; immutable."""

    __slots__ = ("conjunctions", "wire")

    family: ClassVar[str] = "attributes"
    conjunctions: tuple[Conjunction, ...]
    wire: bytes | None  # the wire form, if it is known

    def __init__(self, conjunctions: Iterable[Conjunction]) -> None:
        """Make the filter that matches what any of the conjunctions matches."""
        _set_conjunctions(self, simplify.simplify(conjunctions))
        _set_wire(self, None)

    @classmethod
    def of(cls, name: str, constraint: Constraint) -> AttributeFilter:
        """Return the filter with one constraint."""
        attribute_name(name)
        if constraint.is_empty:
            return FALSE
        if constraint.is_everything:
            return TRUE
        return trusted((Conjunction(((name, constraint),)),))

    @classmethod
    def all_of(cls, filters: Iterable[AttributeFilter]) -> AttributeFilter:
        """Return the filter that matches what all of them match; FilterError if it grows too large."""
        factors = [f.conjunctions for f in filters]
        if len(factors) == 1:
            return trusted(factors[0])
        return trusted(simplify.product(factors))

    @classmethod
    def any_of(cls, filters: Iterable[AttributeFilter]) -> AttributeFilter:
        """Return the filter that matches what any of them matches; FilterError if it grows too large."""
        return trusted(simplify.simplify([c for f in filters for c in f.conjunctions]))

    def matches(self, event: object) -> bool:
        if type(event) is Event:
            event = event.content
        if type(event) is not dict and not isinstance(event, Mapping):
            return False
        for conjunction in self.conjunctions:  # noqa: SIM110 - `any` with a generator takes half as long again
            if satisfied(conjunction.constraints, event):
                return True
        return False

    def covers(self, other: Filter) -> bool:
        """Return True only if every event that `other` matches is matched by this filter.

        Complete for a single conjunction on this side or the other, and for unions as far as the work limit
        of boxes.py goes, if no general LIKE is involved.
        """
        if self is other:
            return True
        if _is_short(self) and _is_short(other):
            found = wire.covers(self.wire, other.wire)
            if found is not None:
                return found
        if not isinstance(other, AttributeFilter):
            return False
        mine, theirs = self.conjunctions, other.conjunctions
        if len(mine) == 1:
            coverer = mine[0]
            return all(coverer.covers(box) for box in theirs)
        return boxes.covers(mine, theirs)

    def overlaps(self, other: Filter) -> bool:
        if not isinstance(other, AttributeFilter):
            return False
        # What may be anything, as many producers announce, is compared without making the other's conjunctions.
        if _is_anything(self):
            return not _is_nothing(other)
        if _is_anything(other):
            return not _is_nothing(self)
        if _is_short(self) and _is_short(other):
            return wire.overlaps(self.wire, other.wire)
        return any(a.overlaps(b) for a in self.conjunctions for b in other.conjunctions)

    def merge(self, other: Filter) -> Merge:
        """Return the coverer of the two, else their perfect merge or disjunction (exact), else their hull."""
        if not isinstance(other, AttributeFilter):
            raise FilterError(f"an attribute filter does not merge with one of the family {other.family}")
        if self.covers(other):
            return Merge(self, True)
        if other.covers(self):
            return Merge(other, True)
        try:
            both = AttributeFilter.any_of((self, other))
            both.encode()
        except FilterError:
            return Merge(hull(self, other), False)
        return Merge(both, True)

    def encode(self) -> bytes:
        encoded = self.wire
        if encoded is None:
            encoded = encode_conjunctions(self.conjunctions)
            _set_wire(self, encoded)
        return encoded

    def compact(self) -> AttributeFilter:
        return self

    def __str__(self) -> str:
        return to_text(self.conjunctions)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, AttributeFilter):
            return False
        if self.wire is not None and other.wire is not None:
            return self.wire == other.wire
        return self.conjunctions == other.conjunctions

    def __hash__(self) -> int:
        try:
            return hash(self.wire or self.encode())
        except FilterError:  # it is too long for the wire, as all that are equal to it
            return hash(self.conjunctions)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a filter is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a filter is immutable: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return (trusted, (self.conjunctions,)) if self.wire is None else (_of_wire, (self.wire,))


# The slots themselves, because setting attributes is what an immutable object refuses.
_set_conjunctions = vars(AttributeFilter)["conjunctions"].__set__
_set_wire = vars(AttributeFilter)["wire"].__set__


def trusted(conjunctions: tuple[Conjunction, ...]) -> AttributeFilter:
    """Return the filter with these conjunctions, which must already be in normal form."""
    result = object.__new__(AttributeFilter)
    _set_conjunctions(result, conjunctions)
    _set_wire(result, None)
    return result


class _Decoded(AttributeFilter):
    """A filter made from its wire form; its conjunctions are made when they are first asked for."""

    __slots__ = ()
    wire: bytes

    def __getattr__(self, name: str) -> Any:
        # Python asks for what it has not found: a slot that is empty, or what no filter has.
        if name != "conjunctions":
            raise AttributeError(f"a filter has no attribute {name!r}")
        return self._conjunctions()

    def _conjunctions(self) -> tuple[Conjunction, ...]:
        found = wire.conjunctions_of(self.wire)
        _set_conjunctions(self, found)
        return found

    def compact(self) -> AttributeFilter:
        return _of_wire(self.wire, _Compact)


class _Compact(_Decoded):
    """A filter that has its wire form alone; of all of these together the last few conjunctions are remembered."""

    __slots__ = ()

    def _conjunctions(self) -> tuple[Conjunction, ...]:
        if len(self.wire) > LONGEST_REMEMBERED:
            return _recent.conjunctions_of(self.wire)
        return _last_conjunctions(self.wire)

    def compact(self) -> AttributeFilter:
        return self


class _Recent:
    """The conjunctions of the large filters that were asked for last, at most so many bytes of wire form together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._found: dict[bytes, tuple[Conjunction, ...]] = {}

    def conjunctions_of(self, data: bytes) -> tuple[Conjunction, ...]:
        """Return the conjunctions of a wire form that was checked."""
        found = self._found.get(data)
        return self.note(data, wire.conjunctions_of(data) if found is None else found)

    def note(self, data: bytes, found: tuple[Conjunction, ...]) -> tuple[Conjunction, ...]:
        """Remember the conjunctions of a wire form, and return them."""
        if self._found.pop(data, None) is None:
            self._bytes += len(data)
        self._found[data] = found
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._found))
            self._bytes -= len(oldest)
            del self._found[oldest]
        return found

    def clear(self) -> None:
        """Forget all of them."""
        self._found.clear()
        self._bytes = 0


_recent: Final = _Recent(1 << 19)
_last_conjunctions = lru_cache(maxsize=1 << 14)(wire.conjunctions_of)


def forget_recent() -> None:
    """Forget the conjunctions and constraints that were made last, which are remembered to save time only."""
    _recent.clear()
    _last_conjunctions.cache_clear()
    wire.forget_known()


def _of_wire(data: bytes, kind: type[_Decoded] = _Decoded) -> AttributeFilter:
    """Return the filter with this wire form, which must have been checked."""
    result = object.__new__(kind)
    _set_wire(result, data)
    return result


def decode_attributes(data: bytes) -> AttributeFilter:
    """Return the filter of a wire form; raise FilterError for bytes that are no filter's wire form."""
    made = wire.check(data)
    if made is not None and len(data) > LONGEST_REMEMBERED:
        _recent.note(data, made)  # an index will ask for them
    return _of_wire(data)


TRUE: Final = trusted((ANYTHING,))
FALSE: Final = trusted(())
_TRUE_ENCODED: Final = encode_conjunctions((ANYTHING,))
_FALSE_ENCODED: Final = encode_conjunctions(())


def _is_short(filter: Filter) -> TypeGuard[_Decoded]:
    """Return whether a filter has a short wire form and, as a rule, nothing else: then that is compared."""
    kind = type(filter)  # abstract classes take long to say what is an instance of theirs
    return (kind is _Compact or kind is _Decoded) and len(filter.wire) <= LONGEST_REMEMBERED  # type: ignore[attr-defined]


def _is_anything(filter: AttributeFilter) -> bool:
    """Return whether every event matches."""
    if filter.wire is None:
        return len(filter.conjunctions) == 1 and not filter.conjunctions[0].constraints
    return filter.wire == _TRUE_ENCODED


def _is_nothing(filter: AttributeFilter) -> bool:
    """Return whether no event matches."""
    return not filter.conjunctions if filter.wire is None else filter.wire == _FALSE_ENCODED


def conjunction(items: Iterable[Sequence[object]]) -> AttributeFilter:
    """Return the filter in which all of the items hold, without parsing text.

    An item is (name, op, value): op is one of = <> < <= > >= with a scalar, "between" with a pair, "in" with
    a list, "like" with a pattern or a pair (pattern, escape), any of these three after "not "; or (name, op)
    with "is null", "is not null" or "exists". Raises FilterError that names the index of a bad item.
    """
    sides = builder.constraints(items)
    if sides is None:
        return FALSE
    return trusted((Conjunction(sides),))


def hull(a: AttributeFilter, b: AttributeFilter) -> AttributeFilter:
    """Return the smallest single conjunction that covers both and can be sent: it limits what all of them limit."""
    found = a.conjunctions + b.conjunctions
    if not found:
        return FALSE
    result = trusted((imperfect.hull_of_boxes(found),))
    if is_sendable(result):
        return result
    spans = {name: constraint.span() for name, constraint in result.conjunctions[0].constraints}
    result = trusted((Conjunction(tuple(spans.items())),))
    return result if is_sendable(result) else TRUE


def is_sendable(filter: AttributeFilter) -> bool:
    """Return whether a filter has a wire form: it is not too large."""
    try:
        filter.encode()
    except FilterError:
        return False
    return True
