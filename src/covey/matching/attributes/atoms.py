"""Atoms: the constraints on one attribute that are no interval of numbers and no single value.

How an event's value is judged against all of them at once is in judging.py; here is where each is filed:

    a set of values (IN)             under each of them
    the texts with a prefix          under it
    a LIKE pattern                   under a *gram*, three bytes that stand side by side in it: no text without them
                                     matches it. Of its grams the one is taken that the fewest others have
    others                           among those that are asked one by one

An *exception* is an atom that all numbers satisfy but some, or all texts but some (<>, NOT IN, NOT LIKE). It is filed
under what it leaves out, so that events whose value is not left out never meet it.

An atom is kept as the bytes of its constraint on the wire, which are a tenth of the object, and made again when it is
compared with another one. Which atoms cover a constraint is asked of those that contain one of its values: whatever
covers it contains them all.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, nextafter
from struct import pack
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from covey.core.attributes import cuts
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.cuts import ALL_NUMBERS, ALL_STRINGS, NumberCut
from covey.core.attributes.forms import encoder, side_form
from covey.core.attributes.values import BOOLEAN, NUMBER, STRING, classify
from covey.core.attributes.wire import constraint_of
from covey.core.work import ACCOUNT
from covey.matching.attributes import judging
from covey.matching.attributes.judging import (
    ADD,
    BY_GRAM,
    BY_LARGE,
    BY_NUMBER,
    BY_PREFIX,
    BY_TEXT,
    BY_TRUTH,
    GENERAL,
    LARGE_KEY,
    LENGTHS,
    NAN_IF,
    NAN_UNLESS,
    PROGRAM_HEAD,
    REMOVE,
    SIZES,
    AtomTable,
)
from covey.matching.attributes.packed import FLOAT, OTHER, TEXT, TRUTH
from covey.matching.attributes.patterns import longest_literal, program_of
from covey.matching.jit import Longs

EXACT: Final = 2.0**53  # smaller numbers are exact as float64
GRAM: Final = 3
TRIED: Final = 8  # grams of a pattern, of which the one is taken that the fewest others have

# Units of work (`core.work`).
LOOKED_AT: Final = 0.1  # of an atom that is passed over quickly
COMPARED: Final = 3.0  # of one that is made and compared

# The kinds of values that an attribute's kind channel tells apart; other values have none.
NUMBERS, TEXTS = 1, 2

_decoder: Final = msgspec.msgpack.Decoder()
_NAN: Final = float("nan")
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


class Filing(NamedTuple):
    """Where an atom is filed. If `excepted`, NUMBERS or TEXTS, it holds for all of these but what is said here."""

    excepted: int = 0
    values: list[Any] | None = None
    prefix: bytes | None = None
    pattern: bytes | None = None
    program: Constraint | None = None


def filing_of(side: Any, constraint: Constraint | None = None) -> Filing:
    """Return where the atom with a wire form is filed; most are read from it as they are, others from the constraint,
    which is made of the form if it is not given."""
    if len(side) == 1:
        return Filing(values=side[0]) if type(side[0]) is list else Filing(pattern=program_of(side[0]))
    if len(side) == 2 and side[0] is None:
        return Filing(TEXTS, pattern=program_of(side[1]))
    if len(side) == 5 and not side[0]:
        _, numbers, texts, *patterns = side
        if numbers and not texts:
            values = excepted_numbers(numbers)
            if values is not None:
                return Filing(NUMBERS, values=values)
        elif texts and not numbers and not any(patterns):
            values = _excepted_texts(texts)
            if values is not None:
                return Filing(TEXTS, values=values)
    if constraint is None:
        constraint = constraint_of(side)
    exceptions = exceptions_of(constraint)
    place = constraint if exceptions is None else exceptions
    some, prefix = values_of(place), prefix_of(place)
    return Filing(
        0 if exceptions is None else TEXTS if exceptions.strings else NUMBERS,
        None if some is None else [value for _, value in some],
        None if prefix is None else prefix.encode(),
        None,
        place if some is None and prefix is None else None,
    )


def excepted_numbers(numbers: list[Any]) -> list[Any] | None:
    """Return the numbers that cuts leave out, listed flat as on the wire, if those are all but a few; None if not."""
    left = numbers[2:-2:4]
    if not left or numbers[0] is not None or numbers[-2] is not None or left != numbers[4:-2:4]:
        return None
    return left if 0 not in numbers[5:-2:4] and 1 not in numbers[3:-2:4] else None


def _excepted_texts(texts: list[Any]) -> list[Any] | None:
    """Do as `excepted_numbers` for texts."""
    left = texts[1:-1:2]
    if not left or texts[0] != "" or texts[-1] is not None:
        return None
    return left if texts[2:-1:2] == [text + "\0" for text in left] else None


def exceptions_of(constraint: Constraint) -> Constraint | None:
    """Return what a constraint leaves out that holds for all numbers, or for all texts, but a few; None for others."""
    if constraint.absent or constraint.other or constraint.booleans:
        return None
    numbers, texts = constraint.numbers, constraint.strings
    if numbers:
        if texts or len(numbers) < 4 or numbers[0] != ALL_NUMBERS[0] or numbers[-1] != ALL_NUMBERS[1]:
            return None
        left = Constraint(numbers=numbers[1:-1])
        return left if values_of(left) is not None else None
    if texts == ALL_STRINGS:
        one = len(constraint.unlikes) == 1 and not constraint.likes
        return Constraint(strings=texts, likes=constraint.unlikes) if one else None
    if not constraint.is_plain or not texts or texts[-1] != ALL_STRINGS[1]:
        return None
    left = Constraint(strings=cuts.complement(texts, *ALL_STRINGS))
    return None if values_of(left) is None and prefix_of(left) is None else left


class Atoms:
    """The atoms of one attribute, each with the number of its channel; `forms` has the form of each channel."""

    __slots__ = (
        "_forms",
        "_general",
        "_lengths",
        "_programs",
        "_sizes",
        "_table",
        "channel_of",
        "exceptions",
        "owner",
        "with_absence",
    )

    def __init__(self, forms: list[Any], table: AtomTable) -> None:
        self.channel_of: dict[bytes, int] = {}
        self.with_absence: set[int] = set()  # those that an event without the attribute satisfies
        self.exceptions: dict[
            int, int
        ] = {}  # channels of atoms that hold for all of a kind but some, and the kind
        self.owner = table.new_owner()
        self._forms = forms
        self._table = table
        self._programs: dict[int, int] = {}
        self._general: dict[int, None] = {}  # channels that no value, prefix or gram leads to
        self._lengths: dict[int, int] = {}  # how many prefixes of each length there are
        self._sizes: dict[int, int] = {}  # how many programs are filed under grams of each length

    def close(self) -> None:
        """Give the owner back, when no atom is left."""
        self._table.drop_owner(self.owner)

    def add(self, form: bytes, filing: Filing, channel: int) -> None:
        """Add an atom."""
        self.channel_of[form] = channel
        if filing.excepted:
            self.exceptions[channel] = filing.excepted
        if filing.pattern is not None:
            words = pattern_words(filing.pattern, channel, NAN_IF if filing.excepted else 0)
            self._add_program(words, longest_literal(filing.pattern), channel)
        elif filing.program is not None:
            if filing.program.absent:
                self.with_absence.add(channel)
            flags = NAN_IF if filing.excepted else NAN_UNLESS if filing.program.absent else 0
            words = _words_of(filing.program, channel, flags)
            self._add_program(words, _literal_of(filing.program), channel)
        else:
            self._file(filing, channel, ADD)

    def _add_program(self, words: Longs, literal: bytes, channel: int) -> None:
        """Add a program, under a gram of bytes that every text has which passes it."""
        program = self._programs[channel] = self._table.new_record(words)
        size = min(GRAM, len(literal))
        if not size:
            self._general[channel] = None
            self._table.file_entry(self.owner, GENERAL, program, ADD)
            return
        self._table.file_program(self.owner, literal[: TRIED + GRAM - 1], size, program)
        self._count(self._sizes, SIZES, size, 1)

    def remove(self, form: bytes) -> None:
        """Remove an atom."""
        channel = self.channel_of.pop(form)
        self.with_absence.discard(channel)
        self.exceptions.pop(channel, None)
        program = self._programs.pop(channel, 0)
        if not program:
            self._file(filing_of(_decoder.decode(form)), channel, REMOVE)
            return
        if channel in self._general:
            del self._general[channel]
            self._table.file_entry(self.owner, GENERAL, program, REMOVE)
        else:
            gram = self._table.gram_of(program)
            self._table.file_texts(self.owner, BY_GRAM, [gram], program, REMOVE)
            self._count(self._sizes, SIZES, len(gram), -1)
        self._table.drop_program(program)

    def _file(self, filing: Filing, channel: int, change: int) -> None:
        """File an atom under values or a prefix, or take it out there."""
        table, owner, entry = self._table, self.owner, 2 * channel + bool(filing.excepted)
        if filing.prefix is not None:
            table.file_texts(owner, BY_PREFIX, [filing.prefix], entry, change)
            self._count(self._lengths, LENGTHS, len(filing.prefix), -1 if change == REMOVE else 1)
            return
        assert filing.values is not None, "it is filed somewhere"
        truths: list[float] = []
        numbers: list[float] = []
        large: list[bytes] = []
        texts: list[bytes] = []
        for value in filing.values:
            if type(value) is str:
                texts.append(value.encode())
            elif value is True or value is False:
                truths.append(float(value))
            elif -EXACT < value < EXACT:
                numbers.append(value)
            else:
                large.append(_large_key(value))
        if numbers:
            table.file_numbers(owner, BY_NUMBER, numbers, entry, change)
        if texts:
            table.file_texts(owner, BY_TEXT, texts, entry, change)
        if truths:
            table.file_numbers(owner, BY_TRUTH, truths, entry, change)
        if large:
            table.file_texts(owner, BY_LARGE, large, entry, change)

    def _count(self, counts: dict[int, int], which: int, length: int, more: int) -> None:
        """Count lengths; those that there are stand in a list of the owner."""
        before = counts.get(length, 0)
        counts[length] = before + more
        if not before:
            self._table.file_entry(self.owner, which, length, ADD)
        elif not counts[length]:
            del counts[length]
            self._table.file_entry(self.owner, which, length, REMOVE)

    def _constraint(self, channel: int) -> Constraint:
        return constraint_in(self._forms[channel])

    # -- events ----------------------------------------------------------------------------------------------

    def points(self, value: Any) -> tuple[list[int], list[float]]:
        """Return the channels that an event's value, which is not None, has something to say of, and what: 1 for an
        atom that it satisfies, NaN for one that holds unless an event says otherwise and does not."""
        kind, plain = classify(value)
        if kind == NUMBER:
            if -EXACT < plain < EXACT:
                return self._table.judge(self.owner, FLOAT, float(plain) + 0.0)
            names, values = self._table.judge(self.owner, LARGE_KEY, 0.0, _large_key(plain))
            return self._with_general(value, names, values)
        if kind == STRING:
            try:
                text = plain.encode()
            except UnicodeEncodeError:  # an event may have unpaired surrogates, which no filter has
                return self._plain_points(value)
            return self._table.judge(self.owner, TEXT, 0.0, text)
        if kind == BOOLEAN:
            return self._table.judge(self.owner, TRUTH, float(plain))
        return self._table.judge(self.owner, OTHER, 0.0)

    def _with_general(
        self, value: Any, names: list[int], values: list[float]
    ) -> tuple[list[int], list[float]]:
        """Add the points of the atoms that are asked one by one, which compare large numbers exactly only here."""
        ACCOUNT.spend(len(self._general))
        for channel in self._general:
            if self.exceptions.get(channel) == TEXTS:
                continue
            holds = self._constraint(channel).contains(value)
            if holds != (channel in self.with_absence or channel in self.exceptions):
                names.append(channel)
                values.append(1.0 if holds else _NAN)
        return names, values

    def _plain_points(self, value: Any) -> tuple[list[int], list[float]]:
        """Return the `points` of a value as its constraints say, one by one."""
        ACCOUNT.spend(len(self.channel_of))
        names: list[int] = []
        values: list[float] = []
        for form, channel in self.channel_of.items():
            holds = constraint_in(form).contains(value)
            if holds != (channel in self.with_absence or channel in self.exceptions):
                names.append(channel)
                values.append(1.0 if holds else _NAN)
        return names, values

    def _judged(self, value: Any) -> tuple[list[int], set[int]]:
        """Return the channels of the atoms that a value satisfies, but for exceptions, and of the exceptions that are
        about values of its kind and do not leave it out."""
        names, values = self.points(value)
        unsaid = {name for name, number in zip(names, values, strict=True) if number != number}
        satisfied = [name for name in names if name not in unsaid]
        satisfied += [channel for channel in self.with_absence if channel not in unsaid]
        kind = kind_of(value)
        return satisfied, {
            channel for channel, one in self.exceptions.items() if one == kind and channel not in unsaid
        }

    # -- other constraints -----------------------------------------------------------------------------------

    def covering(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that cover the constraint, but for exceptions."""
        some = member_of(constraint)
        if some is None:
            candidates = [one for one in self.channel_of.values() if one not in self.exceptions]
        else:
            names, values = self.points(some)
            unsaid = {name for name, number in zip(names, values, strict=True) if number != number}
            candidates = [name for name in names if name not in unsaid]
            candidates += [channel for channel in self.with_absence if channel not in unsaid]
        ACCOUNT.spend(COMPARED * len(candidates))
        return [channel for channel in candidates if self._constraint(channel).covers(constraint)]

    def leaving_out(self, constraint: Constraint, kind: int) -> list[int]:
        """Return the channels of the exceptions, of a kind that the constraint is about alone, that leave out some of
        what satisfies it."""
        if not self.exceptions:
            return []
        values = values_of(constraint)
        if values is not None:
            found: dict[int, None] = {}
            for _, value in values:
                found.update(dict.fromkeys(name for name in self.points(value)[0] if name in self.exceptions))
            return list(found)
        ACCOUNT.spend(COMPARED * len(self.exceptions))
        return [
            channel
            for channel, one in self.exceptions.items()
            if one == kind and not self._constraint(channel).covers(constraint)
        ]

    def covered(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that the constraint covers."""
        letters, candidates = _letters_of(constraint), list(self.channel_of.items())
        ACCOUNT.spend(LOOKED_AT * len(candidates))
        if letters:
            # All strings that such a pattern matches have its letters, so what it covers is written with them.
            candidates = [(form, channel) for form, channel in candidates if letters in form]
        ACCOUNT.spend(COMPARED * len(candidates))
        return [channel for form, channel in candidates if constraint.covers(constraint_in(form))]

    def overlapping(self, constraint: Constraint) -> list[int]:
        """Return the channels of the atoms that overlap the constraint."""
        values = values_of(constraint)
        if values is not None:
            found: dict[int, None] = {}
            for _, value in values:
                for some in self._judged(value):
                    found.update(dict.fromkeys(some))
            return list(found)
        ACCOUNT.spend(COMPARED * len(self.channel_of))
        return [
            channel for form, channel in self.channel_of.items() if constraint_in(form).overlaps(constraint)
        ]


def kind_of(value: Any) -> int:
    """Return which kind an attribute's kind channel tells of a value; 0 for none."""
    kind = classify(value)[0]
    return NUMBERS if kind == NUMBER else TEXTS if kind == STRING else 0


def only_kind(constraint: Constraint) -> int:
    """Return the one kind of values that satisfy the constraint, NUMBERS or TEXTS; 0 if there are others."""
    if constraint.absent or constraint.other or constraint.booleans:
        return 0
    if constraint.numbers:
        return 0 if constraint.strings else NUMBERS
    return TEXTS


def _large_key(number: float) -> bytes:
    """Return the bytes under which a number that no float64 need be equal to is filed: one for equal ones."""
    return b"%x" % int(number) if -inf < number < inf else b"-inf" if number < 0 else b"inf"


def closed_low(value: float, side: int) -> float:
    """Return the first float64 behind a cut, which may stand at an integer that no float64 is."""
    nearest = float(value)
    behind = nearest > value or (nearest == value and not side)
    return (nearest if behind else nextafter(nearest, inf)) + 0.0  # -0.0 is 0


def closed_high(value: float, side: int) -> float:
    """Return the last float64 before a cut, which may stand at an integer that no float64 is."""
    nearest = float(value)
    before = nearest < value or (nearest == value and bool(side))
    return (nearest if before else nextafter(nearest, -inf)) + 0.0


def _words_of(constraint: Constraint, channel: int, flags: int) -> Longs:
    """Return the program of a constraint (judging.py) as words."""
    texts = constraint.strings
    numbers = [
        (closed_low(*low), closed_high(*high))
        for low, high in zip(constraint.numbers[::2], constraint.numbers[1::2], strict=True)
    ]
    numbers = [pair for pair in numbers if pair[0] <= pair[1]]
    pieces: list[bytes | None] = [None if open_end else text.encode() for open_end, text in texts]
    pieces += [program_of(pattern) for pattern in (*constraint.likes, *constraint.unlikes)]
    begin = 8 * (PROGRAM_HEAD + 2 * len(numbers) + len(pieces))
    places: list[int] = []
    for piece in pieces:
        places += (begin, -1 if piece is None else len(piece))
        begin += len(piece or b"")
    words = (begin + 7) // 8
    head = pack(
        "=8i",
        channel,
        flags | constraint.booleans | (judging.PASSES_OTHER if constraint.other else 0),
        len(numbers),
        len(texts) // 2,
        len(constraint.likes),
        len(constraint.unlikes),
        words,
        0,
    )
    floats = pack(f"={2 * len(numbers)}d", *(end for pair in numbers for end in pair))
    data = head + floats + pack(f"={len(places)}i", *places) + b"".join(piece or b"" for piece in pieces)
    return np.frombuffer(data.ljust(8 * words, b"\0"), np.int64)


def pattern_words(pattern: bytes, channel: int, flags: int) -> Longs:
    """Return the program of one LIKE pattern, as `_words_of` does: all texts that match it."""
    begin = 8 * (PROGRAM_HEAD + 3)
    words = (begin + len(pattern) + 7) // 8
    head = pack("=14i", channel, flags, 0, 1, 1, 0, words, 0, begin, 0, begin, -1, begin, len(pattern))
    return np.frombuffer((head + pattern).ljust(8 * words, b"\0"), np.int64)


def _literal_of(constraint: Constraint) -> bytes:
    """Return bytes that every value has which satisfies the constraint; none if none are known."""
    if only_kind(constraint) != TEXTS or not constraint.likes:
        return b""
    return max((longest_literal(program_of(pattern)) for pattern in constraint.likes), key=len)


def _letters_of(constraint: Constraint) -> bytes:
    """Return letters that are in the form of whatever a general LIKE pattern covers; none for another constraint."""
    if not constraint.is_like:
        return b""
    longest = longest_literal(program_of(constraint.likes[0])).decode()
    if "\\" in longest or "%" in longest or "_" in longest:
        return b""  # they are written otherwise than they match
    return longest[:GRAM].encode()


def member_of(constraint: Constraint) -> Any:
    """Return a value that satisfies the constraint; None if none is known, or if absence satisfies it."""
    if constraint.absent:
        return None
    if constraint.is_like:
        return program_of(constraint.likes[0]).replace(b"\xff", b"").replace(b"\xfe", b"a").decode()
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
    # Single values begin and end with the same one. Most sets are of one kind, and most have a few values.
    texts, numbers = constraint.strings, constraint.numbers
    words = [text for _, text in texts[::2]]
    figures = [number for number, _ in numbers[::2]]
    if texts and [(0, word + "\0") for word in words] != list(texts[1::2]):
        return None
    if numbers and figures != [number for number, _ in numbers[1::2]]:
        return None
    values: list[tuple[bool, Any]] = [(False, value) for value in (*words, *figures)]
    values.extend((True, bool(bit)) for bit in (0, 1) if constraint.booleans >> bit & 1)
    return values
