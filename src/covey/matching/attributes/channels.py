"""Channels: the edge between names and values on one side and the numbers that kernels compare on the other.

Each attribute that a filter constrains has up to six kinds of channels:

    number    its value as a float64, when it is a number
    symbol    the number of its value, when that is one of the strings, booleans or large numbers that filters ask for
    absence   1 unless the event has the attribute
    presence  1 if it has
    kind      whether its value is a number or a text
    atom      1 if its value, or absence, satisfies one particular constraint that is none of the above: IN, LIKE …

so that every constraint is an interval on one channel, or two: what holds for all values of a kind but some (<>, NOT
IN, NOT LIKE) asks for the kind, and for an atom, an *exception*, that holds unless the event has one of these values.
So an event says nothing of the exceptions that its values are not named in, however many there are.

Float64 is exact for numbers smaller than 2**53; constraints with larger ones are symbols or atoms, which compare
exactly. Open ends become closed ones at the neighbouring float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain, product
from typing import Any, Final

import numpy as np

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.constraint import Constraint, compare, null, present
from covey.core.attributes.cuts import ALL_NUMBERS, ALL_STRINGS, NumberCut
from covey.core.attributes.forms import encoder, side_form
from covey.core.attributes.values import BOOLEAN, NUMBER, STRING, classify
from covey.core.attributes.wire import Form, constraint_of
from covey.core.event import flatten
from covey.core.work import ACCOUNT
from covey.matching.attributes.atoms import (
    EXACT,
    NUMBERS,
    TEXTS,
    Atoms,
    closed_high,
    closed_low,
    constraint_in,
    filing_of,
    kind_of,
    only_kind,
)
from covey.matching.attributes.judging import AtomTable
from covey.matching.attributes.splitting import choices_of
from covey.matching.jit import Floats, Ints, Longs

# The roles of channels; that of an atom is the form of its constraint, which is bytes.
_NUMBER: Final = "number"
_SYMBOL: Final = "symbol"
_ABSENCE: Final = "absence"
_PRESENCE: Final = "presence"
_KIND: Final = "kind"
_INFINITY: Final = math.inf
_nextafter: Final = math.nextafter
_NAN: Final = math.nan
_NOTHING: Final = (1.0, 0.0)
_NULL: Final = null()
_PRESENT: Final = present()
_ALL_OF: Final = {NUMBERS: Constraint(numbers=ALL_NUMBERS), TEXTS: Constraint(strings=ALL_STRINGS)}
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
        "kind",
        "name",
        "number",
        "presence",
        "symbol",
        "symbols",
        "values_of_symbols",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.symbol = 0
        self.absence = 0
        self.presence = 0
        self.kind = 0
        self.symbols: dict[Any, int] = {}
        self.values_of_symbols: dict[int, Any] = {}
        self.free_symbols: list[int] = []
        self.atoms: Atoms | None = None
        self.is_special = False  # whether it has channels beside those for numbers and symbols

    @property
    def is_unused(self) -> bool:
        """Whether no channel is left."""
        return not (self.number or self.symbol or self.has_special)

    @property
    def has_special(self) -> bool:
        """Whether there are channels of other kinds."""
        return bool(self.absence or self.presence or self.kind or self.atoms)


class Channels:
    """All attributes that filters constrain, and the numbers of their channels.

    `make(channel, absence)` is called for each channel before it is used.
    """

    def __init__(self, make: Any) -> None:
        self.attributes: dict[str, Attribute] = {}
        self._absences: set[int] = set()  # channels that hold unless an event says otherwise
        self._absence_channels: Ints | None = None  # the same as an array, if it is known
        self._make = make
        self._owners: list[Attribute | None] = [None]  # channel 0 is no attribute's
        self._roles: list[str | bytes | None] = [None]  # of channels, for their owners
        self._free: list[int] = []
        self.journal: Journal | None = None  # for one who follows; None again when it has become too long
        self.atoms: AtomTable | None = None  # of all attributes, once there are any

    def _note(self, name: str, value: Any, number: int) -> None:
        if self.journal is not None and (value is None or isinstance(value, str)):
            self.journal.append((name, value, number))
            if len(self.journal) > LONGEST_JOURNAL:
                self.journal = None

    def _add_absence(self, channel: int) -> None:
        self._absences.add(channel)
        self._absence_channels = None

    def absence_channels(self) -> Ints:
        """Return the channels that hold unless an event says otherwise; another array when they have changed."""
        if self._absence_channels is None:
            self._absence_channels = np.array(sorted(self._absences), np.int32)
        return self._absence_channels

    # -- constraints to intervals ----------------------------------------------------------------------------

    def intervals_of(self, name: str, constraint: Constraint) -> list[Interval]:
        """Return the constraint as intervals on channels, which are made when there were none: all have to hold."""
        attribute = self.attributes.get(name)
        if attribute is None:
            attribute = self.attributes[name] = Attribute(name)
        bounds = number_interval(constraint)
        if bounds is not None:
            if not attribute.number:
                attribute.number = self._new(attribute, _NUMBER)
            return [(attribute.number, *bounds)]
        single, value = symbol_value(constraint)
        if single:
            if not attribute.symbol:
                attribute.symbol = self._new(attribute, _SYMBOL)
            number = float(self._symbol(attribute, value))
            return [(attribute.symbol, number, number)]
        if constraint == _NULL:
            if not attribute.absence:
                attribute.absence = self._new(attribute, _ABSENCE, True)
                self._add_absence(attribute.absence)
            return [(attribute.absence, 1.0, 1.0)]
        if constraint == _PRESENT:
            if not attribute.presence:
                attribute.presence = self._new(attribute, _PRESENCE)
            return [(attribute.presence, 1.0, 1.0)]
        side = side_form(constraint)
        return self._atom(attribute, encoder.encode(side), side, constraint)

    def _atom(
        self, attribute: Attribute, form: bytes, side: Any, constraint: Constraint | None = None
    ) -> list[Interval]:
        """Return the intervals of an atom, given in its wire form and as bytes, which is made when there was none."""
        if attribute.atoms is None:
            if self.atoms is None:
                self.atoms = AtomTable()
            attribute.atoms = Atoms(self._roles, self.atoms)
        atoms = attribute.atoms
        channel = atoms.channel_of.get(form)
        if channel is None:
            filing = filing_of(side, constraint)
            absent = filing.program is not None and filing.program.absent
            channel = self._new(attribute, form, absent or bool(filing.excepted))
            if absent:
                self._add_absence(channel)
            atoms.add(form, filing, channel)
            ACCOUNT.spend(ATOM + ATOM_BYTE * len(form))
        kind = atoms.exceptions.get(channel, 0)
        if not kind:
            return [(channel, 1.0, 1.0)]
        if not attribute.kind:
            attribute.kind = self._new(attribute, _KIND)
        return [(attribute.kind, kind, kind), (channel, 1.0, 1.0)]

    def add_rows(
        self,
        sides: Iterable[tuple[str, Any]],
        most: int,
        names: list[int],
        lows: list[float],
        highs: list[float],
        starts: list[int],
    ) -> None:
        """Add the intervals of a conjunction to the lists: those of its only row, or of at most `most` rows if it has
        small sets of values or intervals; `starts` gets where each row ends.

        A side is a constraint, or its wire form, from which no object is made if it can be helped.
        """
        sets: list[tuple[int, str, Any, list[Any]]] = []
        begin = len(names)
        for name, side in sides:
            choices = choices_of(side)
            if choices is None:
                self._add_side(name, side, names, lows, highs)
            else:
                sets.append((len(choices), name, side, choices))
        if not sets:
            starts.append(len(names))
            return
        sets.sort(key=_size_and_name)
        rows = 1
        chosen: list[tuple[list[int], list[float], list[float]]] = []
        for count, name, side, choices in sets:
            if rows * count > most:
                self._add_side(
                    name, side_form(side) if type(side) is Constraint else side, names, lows, highs
                )
                continue
            rows *= count
            some: tuple[list[int], list[float], list[float]] = [], [], []
            for choice in choices:
                self._add_side(name, choice, *some)
            chosen.append(some)
        width = len(names) - begin + len(chosen)
        columns: tuple[list[Any], ...] = (names, lows, highs)
        for column, own in zip(columns, zip(*chosen, strict=True), strict=True):
            common = tuple(column[begin:])
            column[begin:] = chain.from_iterable([common + choice for choice in product(*own)])
        starts.extend(range(begin + width, begin + rows * width + 1, width))

    def _add_side(
        self, name: str, side: Any, names: list[int], lows: list[float], highs: list[float]
    ) -> None:
        """Add the intervals of one constraint to the lists."""
        attribute = self.attributes.get(name)
        channel, low, high = 0, 0.0, 0.0
        kind = type(side)
        if attribute is not None:
            if kind is Constraint:
                numbers = side.numbers
                if len(numbers) == 2 and not (side.strings or side.booleans or side.absent or side.other):
                    low, high = closed_cuts(*numbers)
                    if low <= high:
                        channel = attribute.number
            elif kind is int or kind is float:
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
        if channel:
            names.append(channel)
            lows.append(low)
            highs.append(high)
            return
        if (
            attribute is not None
            and kind is list
            and (len(side) <= 2 or (len(side) == 5 and side != _NULL_FORM))
        ):
            found = self._atom(attribute, encoder.encode(side), side)
        elif kind is Constraint:
            found = self.intervals_of(name, side)
        elif kind is list or side is None:
            found = self.intervals_of(name, constraint_of(side))
        else:
            found = self.intervals_of(name, compare("=", side))
        # A new attribute, text or kind of constraint, or one that has to be looked at closely.
        for one, first, last in found:
            names.append(one)
            lows.append(first)
            highs.append(last)

    def _new(self, attribute: Attribute, role: str | bytes, holds: bool = False) -> int:
        """Return a new channel, which holds unless an event says otherwise, or does not."""
        if self._free:
            channel = self._free.pop()
        else:
            channel = len(self._owners)
            self._owners.append(None)
            self._roles.append(None)
        self._owners[channel], self._roles[channel] = attribute, role
        attribute.is_special |= role not in (_NUMBER, _SYMBOL)
        self._note(attribute.name, None, 0)
        self._make(channel, holds)
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
        if channel in self._absences:
            self._absences.remove(channel)
            self._absence_channels = None
        self._note(attribute.name, None, 0)
        if role == _NUMBER:
            attribute.number = 0
        elif role == _SYMBOL:
            attribute.symbol = 0
        elif role == _ABSENCE:
            attribute.absence = 0
        elif role == _PRESENCE:
            attribute.presence = 0
        elif role == _KIND:
            attribute.kind = 0
        else:
            assert attribute.atoms is not None, "an atom's attribute has atoms"
            assert isinstance(role, bytes), "which have forms"
            attribute.atoms.remove(role)
            ACCOUNT.spend(ATOM + ATOM_BYTE * len(role))
            if not attribute.atoms.channel_of:
                attribute.atoms.close()
                attribute.atoms = None
        attribute.is_special = attribute.has_special
        if attribute.is_unused:
            del self.attributes[attribute.name]

    def constraint_of(self, channel: int, low: float, high: float) -> tuple[str, Constraint]:
        """Return the attribute and constraint that an interval stands for; what `intervals_of` made it from, or an
        equal set of values with closed ends. Of two intervals, what both stand for is that."""
        attribute, role = self._owners[channel], self._roles[channel]
        assert attribute is not None, "the channel is in use"
        if role == _NUMBER:
            return attribute.name, Constraint(numbers=((low, 0), (high, 1)))
        if role == _SYMBOL:
            value = attribute.values_of_symbols[int(low)] if low >= _FIRST_SYMBOL else low == _TRUE
            return attribute.name, compare("=", value)
        if role == _KIND:
            return attribute.name, _ALL_OF[int(low)]
        if role == _PRESENCE:
            return attribute.name, _PRESENT
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
        if attribute.presence:
            names.append(attribute.presence)
            values.append(1.0)
        kind = kind_of(value) if attribute.kind else 0
        if kind:
            names.append(attribute.kind)
            values.append(kind)
        if attribute.atoms is not None:
            some_names, some_values = attribute.atoms.points(value)
            names += some_names
            values += some_values

    # -- conjunctions to intervals of queries ----------------------------------------------------------------

    def covered_intervals(self, sides: tuple[tuple[str, Constraint], ...]) -> list[Interval]:
        """Return what a conjunction says of each channel, such that a constraint containing it covers it."""
        intervals: list[Interval] = []
        get, absences = self.attributes.get, set(self._absences)
        for name, constraint in sides:
            attribute = get(name)
            if attribute is not None:
                self._cover(attribute, constraint, intervals, absences)
        # Without this, what is not constrained would count as absent.
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
        if attribute.presence and not constraint.absent:
            intervals.append((attribute.presence, 1.0, 1.0))
        kind = only_kind(constraint)
        if attribute.kind and kind:
            intervals.append((attribute.kind, kind, kind))
        if attribute.atoms is not None:
            covering = attribute.atoms.covering(constraint)
            absences.difference_update(covering)
            intervals.extend((channel, 1.0, 1.0) for channel in covering)
            if kind:
                left = attribute.atoms.leaving_out(constraint, kind)
                intervals.extend((channel, _NAN, _NAN) for channel in left)

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
            result.extend((*one, place) for one in self._kinds_in(attribute, constraint, overlap))
            if attribute.atoms is not None:
                chosen = attribute.atoms.overlapping if overlap else attribute.atoms.covered
                result.extend((channel, 1.0, 1.0, place) for channel in chosen(constraint))
            if overlap:
                result.extend((channel, _NAN, _NAN, place) for channel in self._all_of(attribute))
        return result

    @staticmethod
    def _kinds_in(attribute: Attribute, constraint: Constraint, overlap: bool) -> list[Interval]:
        """Return the intervals of the presence and kind channels that are inside a constraint, or overlap it.

        What asks for a kind asks for an exception too, and counts once: so no interval of kinds is inside anything.
        """
        result: list[Interval] = []
        if attribute.presence:
            is_met = constraint != _NULL if overlap else constraint.covers(_PRESENT)
            if is_met:
                result.append((attribute.presence, 1.0, 1.0))
        if attribute.kind and overlap:
            if constraint.numbers:
                result.append((attribute.kind, NUMBERS, NUMBERS))
            if constraint.strings:
                result.append((attribute.kind, TEXTS, TEXTS))
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
        channels = [
            attribute.number,
            attribute.symbol,
            attribute.absence,
            attribute.presence,
            attribute.kind,
        ]
        if attribute.atoms is not None:
            channels.extend(attribute.atoms.channel_of.values())
        return [channel for channel in channels if channel]


def _size_and_name(one: tuple[int, str, Any, list[Any]]) -> tuple[int, str]:
    return one[:2]


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


def closed_cuts(low: NumberCut, high: NumberCut) -> tuple[float, float]:
    """Return the closed interval of float64 that says the same as an interval between cuts; an empty one if none."""
    (first, after), (last, before) = low, high
    if not (-EXACT < first < EXACT or first == -_INFINITY) or not (
        -EXACT < last < EXACT or last == _INFINITY
    ):
        return _NOTHING
    # -0.0 is 0
    return (
        (_nextafter(first, _INFINITY) if after else first) + 0.0,
        (last if before else _nextafter(last, -_INFINITY)) + 0.0,
    )


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
