"""Channels: the edge between names and values on one side and the numbers that kernels compare on the other.

Each attribute that a filter constrains has up to four kinds of channels:

    number    its value as a float64, when it is a number
    symbol    the number of its value, when that is one of the strings, booleans or large numbers that filters ask for
    absence   1 unless the event has the attribute
    atom      1 if its value, or absence, satisfies one particular constraint that is none of the above: IN, LIKE, <> …

so that every constraint is an interval on one channel. Float64 is exact for numbers smaller than 2**53; constraints
with larger ones are symbols or atoms, which compare exactly. Open ends become closed ones at the neighbouring float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, compare, null
from covey.core.attributes.forms import encoder
from covey.core.attributes.values import BOOLEAN, NUMBER, STRING, classify
from covey.core.attributes.wire import Form, constraint_of
from covey.core.event import flatten
from covey.core.work import ACCOUNT
from covey.matching.attributes.atoms import Atoms, constraint_in, form_of
from covey.matching.jit import Floats, Ints, Longs

EXACT: Final = 2.0**53

# The roles of channels; that of an atom is the form of its constraint, which is bytes.
_NUMBER: Final = "number"
_SYMBOL: Final = "symbol"
_ABSENCE: Final = "absence"
_INFINITY: Final = math.inf
_nextafter: Final = math.nextafter
_NAN: Final = math.nan
_NOTHING: Final = (1.0, 0.0)
_NULL: Final = null()
_NULL_FORM: Final[Form] = [1, [], [], [], []]
_FALSE, _TRUE, _FIRST_SYMBOL = 0, 1, 2

Interval = tuple[int, float, float]
Batch = tuple[Longs, Ints, Floats]
# What has changed: of an attribute its channels (None), or a text that has a number now, or none any more (-1).
Journal = list[tuple[str, str | None, int]]

LONGEST_JOURNAL: Final = 1 << 16

ATOM, ATOM_BYTE = (
    8.0,
    0.2,
)  # units of work (`core.work`) of an atom that comes or goes, and of each byte of its form


class Attribute:
    """The channels of one attribute; 0 where it has none of a kind."""

    __slots__ = (
        "absence",
        "atoms",
        "free_symbols",
        "is_special",
        "name",
        "number",
        "symbol",
        "symbols",
        "values_of_symbols",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.symbol = 0
        self.absence = 0
        self.symbols: dict[Any, int] = {}
        self.values_of_symbols: dict[int, Any] = {}
        self.free_symbols: list[int] = []
        self.atoms: Atoms | None = None
        self.is_special = False  # whether it has an absence channel or atoms

    @property
    def is_unused(self) -> bool:
        """Whether no channel is left."""
        return not (self.number or self.symbol or self.absence or self.atoms)


class Channels:
    """All attributes that filters constrain, and the numbers of their channels.

    `make(channel, absence)` is called for each channel before it is used.
    """

    def __init__(self, make: Any) -> None:
        self.attributes: dict[str, Attribute] = {}
        self.absences: set[int] = set()  # channels that hold unless an event says otherwise
        self._make = make
        self._owners: list[Attribute | None] = [None]  # channel 0 is no attribute's
        self._roles: list[str | bytes | None] = [None]  # of channels, for their owners
        self._free: list[int] = []
        self.journal: Journal | None = None  # for one who follows; None again when it has become too long

    def _note(self, name: str, value: Any, number: int) -> None:
        if self.journal is not None and (value is None or isinstance(value, str)):
            self.journal.append((name, value, number))
            if len(self.journal) > LONGEST_JOURNAL:
                self.journal = None

    # -- constraints to intervals ----------------------------------------------------------------------------

    def interval_of(self, name: str, constraint: Constraint) -> Interval:
        """Return the constraint as an interval on one channel, which is made when there was none."""
        attribute = self.attributes.get(name)
        if attribute is None:
            attribute = self.attributes[name] = Attribute(name)
        bounds = number_interval(constraint)
        if bounds is not None:
            if not attribute.number:
                attribute.number = self._new(attribute, _NUMBER)
            return attribute.number, *bounds
        single, value = symbol_value(constraint)
        if single:
            if not attribute.symbol:
                attribute.symbol = self._new(attribute, _SYMBOL)
            number = float(self._symbol(attribute, value))
            return attribute.symbol, number, number
        if constraint == _NULL:
            if not attribute.absence:
                attribute.absence = self._new(attribute, _ABSENCE, True)
            return attribute.absence, 1.0, 1.0
        return self._atom(attribute, form_of(constraint), constraint), 1.0, 1.0

    def _atom(self, attribute: Attribute, form: bytes, constraint: Constraint | None) -> int:
        """Return the channel of an atom, which is made when there was none."""
        if attribute.atoms is None:
            attribute.atoms = Atoms(self._roles)
        channel = attribute.atoms.channel_of.get(form)
        if channel is None:
            constraint = constraint_in(form) if constraint is None else constraint
            channel = self._new(attribute, form, constraint.absent)
            attribute.atoms.add(form, constraint, channel)
            ACCOUNT.spend(ATOM + ATOM_BYTE * len(form))
        return channel

    def add_form(self, form: Form, names: list[int], lows: list[float], highs: list[float]) -> None:
        """Add the intervals of a conjunction to the lists, straight from its wire form, as `interval_of` makes them."""
        attributes = self.attributes
        sides = iter(form)
        for name, side in zip(sides, sides, strict=True):
            attribute = attributes.get(name)
            channel, low, high = 0, 0.0, 0.0
            if attribute is not None:
                kind = type(side)
                if kind is int or kind is float:
                    if -EXACT < side < EXACT:
                        channel, low, high = attribute.number, side, side
                elif kind is str:
                    number = attribute.symbols.get(side)
                    if number is not None:
                        channel, low, high = attribute.symbol, number, number
                elif kind is list and len(side) == 3:
                    low, high = _closed(*side)
                    if low <= high:
                        channel = attribute.number
                elif kind is list and (len(side) <= 2 or side != _NULL_FORM):
                    channel, low, high = self._atom(attribute, encoder.encode(side), None), 1.0, 1.0
            if not channel:
                # A new attribute, text or kind of constraint, or one that has to be looked at closely.
                channel, low, high = self.interval_of(name, constraint_of(side))
            names.append(channel)
            lows.append(low)
            highs.append(high)

    def _new(self, attribute: Attribute, role: str | bytes, absence: bool = False) -> int:
        if self._free:
            channel = self._free.pop()
        else:
            channel = len(self._owners)
            self._owners.append(None)
            self._roles.append(None)
        self._owners[channel], self._roles[channel] = attribute, role
        attribute.is_special |= role not in (_NUMBER, _SYMBOL)
        self._note(attribute.name, None, 0)
        if absence:
            self.absences.add(channel)
        self._make(channel, absence)
        return channel

    def _symbol(self, attribute: Attribute, value: Any) -> int:
        if value is True or value is False:
            return _TRUE if value else _FALSE
        number = attribute.symbols.get(value)
        if number is None:
            number = (
                attribute.free_symbols.pop()
                if attribute.free_symbols
                else _FIRST_SYMBOL + len(attribute.symbols)
            )
            attribute.symbols[value] = number
            attribute.values_of_symbols[number] = value
            self._note(attribute.name, value, number)
        return number

    def release(self, freed: Iterable[tuple[int, float]]) -> None:
        """Forget symbols, and with NaN channels, that no constraint uses any more."""
        for channel, value in freed:
            attribute, role = self._owners[channel], self._roles[channel]
            assert attribute is not None, "a channel is freed once"
            assert role is not None, "and has a role"
            if value == value:
                if role == _SYMBOL and value >= _FIRST_SYMBOL:
                    number = int(value)
                    text = attribute.values_of_symbols.pop(number)
                    del attribute.symbols[text]
                    attribute.free_symbols.append(number)
                    self._note(attribute.name, text, -1)
                continue
            self._owners[channel] = self._roles[channel] = None
            self._free.append(channel)
            self._forget(attribute, role, channel)

    def _forget(self, attribute: Attribute, role: str | bytes, channel: int) -> None:
        self.absences.discard(channel)
        self._note(attribute.name, None, 0)
        if role == _NUMBER:
            attribute.number = 0
        elif role == _SYMBOL:
            attribute.symbol = 0
        elif role == _ABSENCE:
            attribute.absence = 0
        else:
            assert attribute.atoms is not None, "an atom's attribute has atoms"
            assert isinstance(role, bytes), "which have forms"
            attribute.atoms.remove(role, constraint_in(role))
            ACCOUNT.spend(ATOM + ATOM_BYTE * len(role))
            if not attribute.atoms.channel_of:
                attribute.atoms = None
        attribute.is_special = bool(attribute.absence or attribute.atoms)
        if attribute.is_unused:
            del self.attributes[attribute.name]

    def constraint_of(self, channel: int, low: float, high: float) -> tuple[str, Constraint]:
        """Return the attribute and constraint that an interval stands for; what `interval_of` made it from, or an equal
        set of values with closed ends."""
        attribute, role = self._owners[channel], self._roles[channel]
        assert attribute is not None, "the channel is in use"
        if role == _NUMBER:
            return attribute.name, Constraint(numbers=((low, 0), (high, 1)))
        if role == _SYMBOL:
            value = attribute.values_of_symbols[int(low)] if low >= _FIRST_SYMBOL else low == _TRUE
            return attribute.name, compare("=", value)
        return attribute.name, constraint_in(role) if isinstance(role, bytes) else _NULL

    # -- events to points ------------------------------------------------------------------------------------

    def points(self, event: Mapping[str, Any], names: list[int], values: list[float]) -> None:
        """Add the channels and values of an event."""
        get, add_name, add_value = self.attributes.get, names.append, values.append
        for name, value in event.items():
            attribute = get(name)
            kind = type(value)
            if attribute is None:
                # Inner names may be known even if this one is not.
                if kind is dict or (kind not in _SCALARS and isinstance(value, Mapping)):
                    self._nested_points(event, names, values)
                    return
                continue
            if (kind is int or kind is float) and -EXACT < value < EXACT:
                if attribute.number:
                    add_name(attribute.number)
                    add_value(value + 0.0)  # -0.0 is 0
            elif kind is str:
                number = attribute.symbols.get(value)
                if number is not None:
                    add_name(attribute.symbol)
                    add_value(number)
            elif kind not in _SCALARS and isinstance(value, Mapping):
                self._nested_points(event, names, values)
                return
            else:
                self._rare_point(attribute, value, names, values)
            if attribute.is_special and value is not None:
                self._atom_points(attribute, value, names, values)

    def encode(self, events: Iterable[Mapping[str, Any]]) -> Batch:
        """Return the channels and values of events: those of event n from starts[n] to starts[n + 1].

        It holds until a filter is added or removed.
        """
        starts = [0]
        names: list[int] = []
        values: list[float] = []
        some_names: list[int] = []
        some_values: list[float] = []
        for event in events:
            self.points(event, some_names, some_values)
            names += some_names
            values += some_values
            starts.append(len(names))
            some_names.clear()
            some_values.clear()
        return np.array(starts, np.int64), np.array(names, np.int32), np.array(values, np.float64)

    def _nested_points(self, event: Mapping[str, Any], names: list[int], values: list[float]) -> None:
        names.clear()
        values.clear()
        self.points(flatten(event), names, values)

    @staticmethod
    def _rare_point(attribute: Attribute, value: Any, names: list[int], values: list[float]) -> None:
        """Add a boolean, a number that is large or of a rare type, or nothing for what compares with nothing."""
        kind, plain = classify(value)
        if kind == NUMBER:
            if attribute.number:
                names.append(attribute.number)
                values.append(nearest_float(plain))
            if attribute.symbols and not -EXACT < plain < EXACT:
                number = attribute.symbols.get(plain)
                if number is not None:
                    names.append(attribute.symbol)
                    values.append(number)
        elif kind == BOOLEAN and attribute.symbol:
            names.append(attribute.symbol)
            values.append(_TRUE if plain else _FALSE)
        elif kind == STRING:
            number = attribute.symbols.get(plain)
            if number is not None:
                names.append(attribute.symbol)
                values.append(number)

    @staticmethod
    def _atom_points(attribute: Attribute, value: Any, names: list[int], values: list[float]) -> None:
        if attribute.absence:
            names.append(attribute.absence)
            values.append(_NAN)
        if attribute.atoms is not None:
            satisfied = attribute.atoms.containing(value)
            names.extend(satisfied)
            values.extend([1.0] * len(satisfied))
            for channel in attribute.atoms.with_absence:
                if channel not in satisfied:
                    names.append(channel)
                    values.append(_NAN)

    # -- conjunctions to intervals of queries ----------------------------------------------------------------

    def covered_intervals(self, sides: tuple[tuple[str, Constraint], ...]) -> list[Interval]:
        """Return what a conjunction says of each channel, such that a constraint containing it covers it."""
        intervals: list[Interval] = []
        get, absences = self.attributes.get, set(self.absences)
        for name, constraint in sides:
            attribute = get(name)
            if attribute is not None:
                self._cover(attribute, constraint, intervals, absences)
        # Without this, what is not constrained would count as absent.
        intervals.extend((channel, _NAN, _NAN) for channel in absences)
        return intervals

    def covered_form(self, form: Form) -> list[Interval]:
        """Return the `covered_intervals` of a conjunction, straight from its wire form."""
        intervals: list[Interval] = []
        get, absences = self.attributes.get, set(self.absences)
        parts = iter(form)
        for name, side in zip(parts, parts, strict=True):
            attribute = get(name)
            if attribute is None:
                continue
            if not attribute.is_special:
                kind = type(side)
                if (kind is int or kind is float) and -EXACT < side < EXACT:
                    if attribute.number:
                        intervals.append((attribute.number, side, side))
                    continue
                if kind is str:
                    number = attribute.symbols.get(side)
                    if number is not None:
                        intervals.append((attribute.symbol, number, number))
                    continue
                if kind is list and len(side) == 3:
                    low, high = _closed(*side)
                    if low <= high:
                        if attribute.number:
                            intervals.append((attribute.number, low, high))
                        continue
            self._cover(attribute, constraint_of(side), intervals, absences)
        intervals.extend((channel, _NAN, _NAN) for channel in absences)
        return intervals

    def _cover(
        self, attribute: Attribute, constraint: Constraint, intervals: list[Interval], absences: set[int]
    ) -> None:
        if is_numeric(constraint) and attribute.number:
            (low, low_side), (high, high_side) = constraint.numbers[0], constraint.numbers[-1]
            intervals.append((attribute.number, closed_low(low, low_side), closed_high(high, high_side)))
        if attribute.symbol:
            single, value = symbol_value(constraint)
            number = self._known_symbol(attribute, value) if single else None
            if number is not None:
                intervals.append((attribute.symbol, number, number))
        if attribute.is_special:
            self._cover_specially(attribute, constraint, intervals, absences)

    @staticmethod
    def _cover_specially(
        attribute: Attribute, constraint: Constraint, intervals: list[Interval], absences: set[int]
    ) -> None:
        if constraint == _NULL:
            absences.discard(attribute.absence)
        if attribute.atoms is not None:
            covering = attribute.atoms.covering(constraint)
            absences.difference_update(covering)
            intervals.extend((channel, 1.0, 1.0) for channel in covering)

    def acceptors(self, conjunction: Conjunction, *, overlap: bool) -> list[tuple[int, float, float, int]]:
        """Return the intervals (channel, low, high, attribute's place) of constraints inside the conjunction's.

        With `overlap`, of constraints that have a value in common with it; every channel of a constrained attribute is
        named at least once, with NaN if no interval on it would do.
        """
        result: list[tuple[int, float, float, int]] = []
        for place, (name, constraint) in enumerate(conjunction.constraints):
            attribute = self.attributes.get(name)
            if attribute is None:
                continue
            if attribute.number:
                numbers = constraint.numbers
                for k in range(0, len(numbers), 2):
                    result.append(
                        (attribute.number, closed_low(*numbers[k]), closed_high(*numbers[k + 1]), place)
                    )
            if attribute.symbol and not (is_numeric(constraint) and is_small(constraint)):
                for number in self._symbols_in(attribute, constraint):
                    result.append((attribute.symbol, number, number, place))
            if attribute.absence and constraint.absent:
                result.append((attribute.absence, 1.0, 1.0, place))
            if attribute.atoms is not None:
                chosen = attribute.atoms.overlapping if overlap else attribute.atoms.covered
                result.extend((channel, 1.0, 1.0, place) for channel in chosen(constraint))
            if overlap:
                result.extend((channel, _NAN, _NAN, place) for channel in self._all_of(attribute))
        return result

    @staticmethod
    def _known_symbol(attribute: Attribute, value: Any) -> float | None:
        if value is True or value is False:
            return float(_TRUE if value else _FALSE)
        number = attribute.symbols.get(value)
        return None if number is None else float(number)

    def _symbols_in(self, attribute: Attribute, constraint: Constraint) -> list[float]:
        single, value = symbol_value(constraint)
        if single:
            number = self._known_symbol(attribute, value)
            return [] if number is None else [number]
        found = [float(number) for value, number in attribute.symbols.items() if constraint.contains(value)]
        return found + [float(truth) for truth in (_FALSE, _TRUE) if constraint.booleans >> truth & 1]

    @staticmethod
    def _all_of(attribute: Attribute) -> list[int]:
        channels = [attribute.number, attribute.symbol, attribute.absence]
        if attribute.atoms is not None:
            channels.extend(attribute.atoms.channel_of.values())
        return [channel for channel in channels if channel]


_SCALARS: Final = frozenset((int, float, str, bool, type(None), bytes, list))


def is_numeric(constraint: Constraint) -> bool:
    """Return whether only numbers satisfy the constraint."""
    return bool(constraint.numbers) and not (
        constraint.strings or constraint.booleans or constraint.absent or constraint.other
    )


def is_small(constraint: Constraint) -> bool:
    """Return whether all numbers that satisfy the constraint, of which there are some, are smaller than EXACT."""
    return constraint.numbers[0][0] > -EXACT and constraint.numbers[-1][0] < EXACT


def number_interval(constraint: Constraint) -> tuple[float, float] | None:
    """Return the closed interval of float64 that says the same as the constraint, or None."""
    if not is_numeric(constraint) or len(constraint.numbers) != 2:
        return None
    (low, low_side), (high, high_side) = constraint.numbers
    if (low != -_INFINITY and not -EXACT < low < EXACT) or (high != _INFINITY and not -EXACT < high < EXACT):
        return None
    first, last = closed_low(low, low_side), closed_high(high, high_side)
    return (first, last) if first <= last else None


def _closed(low: float | None, high: float | None, sides: int) -> tuple[float, float]:
    """Return the closed interval of float64 that says the same as an interval's wire form; an empty one if none."""
    if low is None:
        low = -_INFINITY
    elif not -EXACT < low < EXACT:
        return _NOTHING
    elif sides & 1:
        low = _nextafter(low, _INFINITY)
    if high is None:
        return low, _INFINITY
    if not -EXACT < high < EXACT:
        return _NOTHING
    return low, high if sides & 2 else _nextafter(high, -_INFINITY)


def closed_low(value: float, side: int) -> float:
    """Return the first float64 behind a cut, which may stand at an integer that no float64 is."""
    nearest = float(value)
    behind = nearest > value or (nearest == value and not side)
    return (nearest if behind else math.nextafter(nearest, _INFINITY)) + 0.0  # -0.0 is 0


def closed_high(value: float, side: int) -> float:
    """Return the last float64 before a cut, which may stand at an integer that no float64 is."""
    nearest = float(value)
    before = nearest < value or (nearest == value and bool(side))
    return (nearest if before else math.nextafter(nearest, -_INFINITY)) + 0.0


def symbol_value(constraint: Constraint) -> tuple[bool, Any]:
    """Return whether a single value satisfies the constraint, one that is a symbol, and that value."""
    if not constraint.is_point or constraint.likes or constraint.unlikes:
        return False, None
    if constraint.numbers:
        value = constraint.numbers[0][0]
        return not -EXACT < value < EXACT, value
    if constraint.strings:
        return True, constraint.strings[0][1]
    return True, constraint.booleans == 2


def nearest_float(number: float) -> float:
    """Return the float64 nearest to a number of any size."""
    try:
        return float(number) + 0.0  # -0.0 is 0
    except OverflowError:
        return _INFINITY if number > 0 else -_INFINITY
