"""Atoms: the constraints on one attribute that are no interval of numbers and no single value.

An event's value is judged against all of them at once. Sets of values and prefixes are found by looking the value and
its beginnings up. A general LIKE pattern is found by a *gram*: three letters that stand side by side in it, so that no
text without them matches it. The others are asked one by one. What was found for a value is remembered until the atoms
change.

An atom is kept as the bytes of its constraint on the wire, which are a tenth of the object, and made again when it is
compared with another one. Which atoms cover a constraint is asked of those that contain one of its values: whatever
covers it contains them all.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, nextafter
from typing import Any, Final

import msgspec

from covey.core.attributes import cuts
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.cuts import NumberCut
from covey.core.attributes.forms import encoder, side_form
from covey.core.attributes.like import MANY, ONE, prepare
from covey.core.attributes.values import BOOLEAN, STRING, classify
from covey.core.attributes.wire import constraint_of
from covey.core.work import ACCOUNT

MEMORY: Final = 4_096
LONGEST_REMEMBERED: Final = 256
GRAM: Final = 3
TRIED: Final = 8  # grams of a pattern, of which the one is taken that the fewest others have

# Units of work (`core.work`).
LOOKED_AT: Final = 0.1  # of an atom that is passed over quickly
COMPARED: Final = 3.0  # of one that is made and compared

_decoder: Final = msgspec.msgpack.Decoder()
_SHORT: Final = 512  # bytes of an atom that is worth remembering as an object


def form_of(constraint: Constraint) -> bytes:
    """Return the bytes that a constraint is on the wire: equal for equal constraints."""
    return encoder.encode(side_form(constraint))


def constraint_in(form: bytes) -> Constraint:
    """Return the constraint that `form_of` made bytes of."""
    return _short_constraint(form) if len(form) <= _SHORT else constraint_of(_decoder.decode(form))


@lru_cache(maxsize=4_096)
def _short_constraint(form: bytes) -> Constraint:
    return constraint_of(_decoder.decode(form))


class Atoms:
    """The atoms of one attribute, each with the number of its channel; `forms` has the form of each channel."""

    __slots__ = (
        "_by_gram",
        "_by_prefix",
        "_by_value",
        "_forms",
        "_general",
        "_lengths",
        "_remembered",
        "channel_of",
        "with_absence",
    )

    def __init__(self, forms: list[Any]) -> None:
        self.channel_of: dict[bytes, int] = {}
        self.with_absence: set[int] = set()  # those that an event without the attribute satisfies
        self._forms = forms
        # Most values, and most grams, are those of one atom: its channel stands there by itself.
        self._by_value: dict[Any, int | list[int]] = {}
        self._by_gram: dict[str, int | list[int]] = {}
        self._by_prefix: dict[str, int] = {}
        self._lengths: dict[int, int] = {}
        self._general: dict[int, None] = {}
        self._remembered: dict[Any, tuple[int, ...]] = {}

    def add(self, form: bytes, constraint: Constraint, channel: int) -> None:
        """Add an atom in both shapes."""
        self._remembered.clear()
        self.channel_of[form] = channel
        if constraint.absent:
            self.with_absence.add(channel)
        prefix, values = prefix_of(constraint), values_of(constraint)
        if prefix is not None:
            self._by_prefix[prefix] = channel
            self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1
        elif values is not None:
            for value in values:
                _file(self._by_value, _key(*value), channel)
        elif grams := _grams_of(constraint):
            _file(self._by_gram, min(grams, key=self._crowd), channel)
        else:
            self._general[channel] = None

    def remove(self, form: bytes, constraint: Constraint) -> None:
        """Remove an atom."""
        self._remembered.clear()
        channel = self.channel_of.pop(form)
        self.with_absence.discard(channel)
        prefix, values = prefix_of(constraint), values_of(constraint)
        if prefix is not None:
            del self._by_prefix[prefix]
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]
        elif values is not None:
            for value in values:
                _unfile(self._by_value, _key(*value), channel)
        elif grams := _grams_of(constraint):
            _unfile(self._by_gram, next(gram for gram in grams if channel in self._filed(gram)), channel)
        else:
            del self._general[channel]

    def _filed(self, gram: str) -> tuple[int, ...] | list[int]:
        found = self._by_gram.get(gram)
        return () if found is None else (found,) if isinstance(found, int) else found

    def _crowd(self, gram: str) -> int:
        return len(self._filed(gram))

    def _constraint(self, channel: int) -> Constraint:
        return constraint_in(self._forms[channel])

    # -- events ----------------------------------------------------------------------------------------------

    def containing(self, value: Any) -> tuple[int, ...]:
        """Return the channels of the atoms that an event's value, which is not None, satisfies."""
        kind, plain = classify(value)
        key = (kind, plain)
        found = self._remembered.get(key)
        if found is None:
            found = self._find(kind, plain, value)
            if kind != STRING or len(plain) <= LONGEST_REMEMBERED:
                if len(self._remembered) >= MEMORY:
                    self._remembered.clear()
                self._remembered[key] = found
        return found

    def _find(self, kind: int, plain: Any, value: Any) -> tuple[int, ...]:
        ACCOUNT.spend(len(self._general))
        found = [channel for channel in self._general if self._constraint(channel).contains(value)]
        same = self._by_value.get(_key(kind == BOOLEAN, plain), ())
        found += (same,) if isinstance(same, int) else same
        if kind == STRING:
            for length in self._lengths:
                channel = self._by_prefix.get(plain[:length])
                if channel is not None and len(plain) >= length:
                    found.append(channel)
            if self._by_gram:
                candidates = self._with_gram_in(plain)
                found += [channel for channel in candidates if self._constraint(channel).contains(value)]
        return tuple(found)

    def _with_gram_in(self, text: str) -> list[int]:
        """Return the channels of the patterns that are filed under letters of a text."""
        if len(text) > 4 * len(self._by_gram):
            grams = [gram for gram in self._by_gram if gram in text]
        else:
            windows = dict.fromkeys(text[at : at + GRAM] for at in range(len(text) - GRAM + 1))
            grams = [gram for gram in windows if gram in self._by_gram]
        found = [channel for gram in grams for channel in self._filed(gram)]
        ACCOUNT.spend(LOOKED_AT * min(len(text), len(self._by_gram)) + len(found))
        return found

    # -- other constraints -----------------------------------------------------------------------------------

    def covering(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that cover the constraint."""
        some = member_of(constraint)
        candidates = self.channel_of.values() if some is None else self.containing(some)
        ACCOUNT.spend(COMPARED * len(candidates))
        return [channel for channel in candidates if self._constraint(channel).covers(constraint)]

    def covered(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that the constraint covers."""
        grams, candidates = _grams_of(constraint), list(self.channel_of.items())
        ACCOUNT.spend(LOOKED_AT * len(candidates))
        if grams:
            # All strings that such a pattern matches have its letters, so what it covers is written with them.
            letters = grams[0].encode()
            candidates = [(form, channel) for form, channel in candidates if letters in form]
        ACCOUNT.spend(COMPARED * len(candidates))
        return [channel for form, channel in candidates if constraint.covers(constraint_in(form))]

    def overlapping(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that overlap the constraint."""
        values = values_of(constraint)
        if values is not None:
            return list(dict.fromkeys(one for _, value in values for one in self.containing(value)))
        ACCOUNT.spend(COMPARED * len(self.channel_of))
        return [
            channel for form, channel in self.channel_of.items() if constraint_in(form).overlaps(constraint)
        ]


def _file(known: dict[Any, int | list[int]], key: Any, channel: int) -> None:
    """Add a channel to those of a key."""
    others = known.get(key)
    if others is None:
        known[key] = channel
    elif isinstance(others, int):
        known[key] = [others, channel]
    else:
        others.append(channel)


def _unfile(known: dict[Any, int | list[int]], key: Any, channel: int) -> None:
    others = known[key]
    if isinstance(others, int):
        del known[key]
        return
    others.remove(channel)
    if len(others) == 1:
        known[key] = others[0]


def _key(is_boolean: bool, value: Any) -> Any:
    return (value,) if is_boolean else value  # true is equal to 1


def _grams_of(constraint: Constraint) -> list[str]:
    """Return grams that every text has which satisfies a general LIKE pattern; none if it is no such constraint."""
    if not constraint.is_like:
        return []
    pieces = prepare(constraint.likes[0]).pieces
    longest = max((text for piece in pieces for _, text in piece.literals), key=len, default="")
    if "\\" in longest or "%" in longest or "_" in longest:
        return []  # they are written otherwise than they match
    return [longest[at : at + GRAM] for at in range(min(TRIED, len(longest) - GRAM + 1))]


def member_of(constraint: Constraint) -> Any:
    """Return a value that satisfies the constraint; None if none is known, or if absence satisfies it."""
    if constraint.absent:
        return None
    if constraint.is_like:
        tokens = prepare(constraint.likes[0]).tokens
        return "".join("a" if token == ONE else token for token in tokens if token != MANY)
    if constraint.booleans:
        return constraint.booleans == 2
    if constraint.numbers:
        return _number_between(*constraint.numbers[:2])
    if constraint.strings and constraint.is_plain:
        return constraint.strings[0][1]
    return None


def _number_between(low: NumberCut, high: NumberCut) -> int | float | None:
    """Return a number between two cuts; None if none is found quickly."""
    (first, after), (last, before) = low, high
    if first > -inf and not after:
        return first
    if last < inf and before:
        return last
    if first == -inf:
        return 0 if last == inf else nextafter(last, -inf)
    found = nextafter(first, inf)
    return found if found < last else None


def prefix_of(constraint: Constraint) -> str | None:
    """Return the text that exactly the strings satisfying the constraint begin with, if there is one."""
    if constraint.numbers or constraint.booleans or constraint.absent or constraint.other:
        return None
    if len(constraint.strings) != 2 or not constraint.is_plain:
        return None
    prefix = constraint.strings[0][1]
    # An event's lone surrogates lie beyond the prefix but before the cut; only text without doubt is looked up.
    if not prefix or cuts.prefix_interval(prefix) != constraint.strings or "\ud7ff" in prefix:
        return None
    return prefix


def values_of(constraint: Constraint) -> list[tuple[bool, Any]] | None:
    """Return the values that satisfy the constraint, each with whether it is a boolean; None if they are too many."""
    if constraint.absent or constraint.other or not constraint.is_plain:
        return None
    values: list[tuple[bool, Any]] = []
    for low, high in zip(constraint.strings[::2], constraint.strings[1::2], strict=True):
        if not cuts.is_string_point(low, high):
            return None
        values.append((False, low[1]))
    for (low_value, low_side), (high_value, high_side) in zip(
        constraint.numbers[::2], constraint.numbers[1::2], strict=True
    ):
        if low_value != high_value or low_side or not high_side:
            return None
        values.append((False, low_value))
    values.extend((True, bool(bit)) for bit in (0, 1) if constraint.booleans >> bit & 1)
    return values
