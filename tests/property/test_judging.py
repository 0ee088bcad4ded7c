"""Values judged against atoms in compiled code, as constraints judge them one by one; and LIKE over bytes."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import special_values

from covey.core.attributes.constraint import (
    Constraint,
    compare,
    like,
    not_between,
    not_like,
    not_within,
    null,
    within,
)
from covey.core.attributes.like import like as is_like_plainly
from covey.core.attributes.like import parse_pattern, pattern_text
from covey.core.packing import pack
from covey.errors import FilterError
from covey.matching.attributes.atoms import (
    Atoms,
    constraint_in,
    filing_of,
    form_of,
    kind_of,
    pattern_words,
)
from covey.matching.attributes.channels import number_interval, symbol_value
from covey.matching.attributes.judging import ADD, GENERAL, AtomTable
from covey.matching.attributes.packed import TEXT, PackedEvents
from covey.matching.attributes.patterns import longest_literal, program_of
from covey.matching.index import Index
from covey.matching.scan import ScanIndex

LETTERS = ("a", "b", "é", "€", "😀", "%", "_", "\\", "\0")
words = st.text(st.sampled_from(LETTERS), max_size=8)
patterns = st.text(st.sampled_from((*LETTERS, "%", "_", "%", "_")), max_size=9)


def compiled_like(text: str, pattern: str) -> bool:
    """Return whether a text passes a program that is nothing but one pattern."""
    table = AtomTable()
    owner = table.new_owner()
    program = table.new_record(pattern_words(program_of(pattern), 7, 0))
    table.file_entry(owner, GENERAL, program, ADD)
    return table.judge(owner, TEXT, 0.0, text.encode()) == ([7], [1.0])


@given(words, patterns)
def test_like_over_bytes_is_like_over_characters(text: str, pattern: str) -> None:
    canonical = pattern_text(parse_pattern(pattern))
    assert compiled_like(text, canonical) == is_like_plainly(text, canonical)
    assert longest_literal(program_of(canonical)) in text.encode() or not is_like_plainly(text, canonical)


@pytest.mark.parametrize(
    "pattern",
    [
        "%a%a%a%a%b",
        "%a%a%a%a%b%",
        f"%{'a' * 60}b%",
        f"%{'a' * 100}_{'a' * 100}b%",
        f"%{'aé' * 60}_b%",
        f"%{'a_' * 50}b%",
        f"_%{'a' * 250}%",
    ],
)
def test_patterns_that_almost_match_everywhere(pattern: str) -> None:
    canonical = pattern_text(parse_pattern(pattern))
    alike = "a" * 5_000, "aé" * 3_000, "aéa" * 2_000
    for text in [one + end for one in alike for end in ("", "b", "bb", "éb", "€b", "😀b")]:
        assert compiled_like(text, canonical) == is_like_plainly(text, canonical)


numbers = st.one_of(st.integers(-3, 6), st.sampled_from(special_values.NUMBERS))
texts = st.text(st.sampled_from(LETTERS[:5]), max_size=3)
lists = st.lists(st.one_of(numbers, texts, st.booleans()), min_size=2, max_size=6)


def _union(constraint: Constraint, other: Constraint) -> Constraint:
    both = constraint.union(other)
    return constraint if both is None else both


constraints = st.one_of(
    patterns.map(like),
    patterns.map(not_like),
    lists.map(within),
    st.lists(numbers, min_size=1, max_size=5).map(not_within),
    st.lists(texts, min_size=1, max_size=5).map(not_within),
    st.tuples(numbers, numbers).map(lambda ends: not_between(*ends)),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), texts).map(lambda one: compare(*one)),
    st.tuples(patterns, patterns).map(lambda two: like(two[0]).intersect(not_like(two[1]))),
    st.tuples(patterns, patterns).map(lambda two: like(two[0]).intersect(like(two[1]))),
    st.one_of(numbers, texts).map(lambda value: _union(null(), compare("<>", value))),
    st.tuples(lists.map(within), texts).map(lambda two: _union(two[0], compare(">", two[1]))),
)
values = st.one_of(
    numbers,
    numbers.map(float),
    words,
    texts,
    special_values.values().filter(lambda value: value is not None),
    st.sampled_from([[], math.inf, -math.inf, math.nan, "\ud800", "a\udfffb", 10**5_000]),
)


def is_atom(constraint: Constraint) -> bool:
    return not (
        constraint.is_empty
        or constraint == null()
        or number_interval(constraint) is not None
        or symbol_value(constraint)[0]
    )


class Judged:
    """Atoms that come and go, and what they say."""

    def __init__(self) -> None:
        self.table = AtomTable()
        self.forms: list[bytes | None] = [None] * 100
        self.atoms = [Atoms(self.forms, self.table) for _ in range(2)]

    def add(self, which: int, constraint: Constraint) -> None:
        form = form_of(constraint)
        if form in self.atoms[which].channel_of or None not in self.forms[1:]:
            return
        channel = self.forms.index(None, 1)
        self.forms[channel] = form
        self.atoms[which].add(form, filing_of(msgspec.msgpack.decode(form)), channel)

    def remove(self, which: int, number: int) -> None:
        there = list(self.atoms[which].channel_of.items())
        if there:
            form, channel = there[number % len(there)]
            self.atoms[which].remove(form)
            self.forms[channel] = None

    def check(self, value: Any) -> None:
        for atoms in self.atoms:
            names, points = atoms.points(value)
            said = {name: point == point for name, point in zip(names, points, strict=True)}
            assert len(said) == len(names)
            for form, channel in atoms.channel_of.items():
                holds = constraint_in(form).contains(value)
                if channel in atoms.exceptions:
                    # Of values of another kind nothing need be said: the kind channel fails.
                    if kind_of(value) == atoms.exceptions[channel]:
                        assert said.get(channel, True) == holds
                elif channel in atoms.with_absence:
                    assert said.get(channel, True) == holds
                else:
                    assert said.get(channel, False) == holds


@settings(max_examples=60)
@given(st.data())
def test_values_are_judged_as_constraints_judge_them(data: st.DataObject) -> None:
    judged = Judged()
    for _ in range(data.draw(st.integers(1, 30))):
        which = data.draw(st.integers(0, 1))
        if data.draw(st.integers(0, 2)):
            try:
                constraint = data.draw(constraints)
            except FilterError:
                continue
            if is_atom(constraint):
                judged.add(which, constraint)
        else:
            judged.remove(which, data.draw(st.integers(0, 99)))
        judged.check(data.draw(values))
    for which in range(2):
        while judged.atoms[which].channel_of:
            judged.remove(which, 0)
        judged.atoms[which].close()
    assert judged.table.used_words == 1, "all that was taken is given back"


def condition(generator: np.random.Generator, number: int) -> tuple[Any, ...]:
    """Return a constraint of a kind that depends on the number."""
    word = "".join(generator.choice(list("abcdé"), 4))
    some = generator.integers(0, 60, 20).tolist()
    low = int(generator.integers(0, 60))
    return [
        ("like", f"%{word[:3]}%"),
        ("like", f"{word}%"),
        ("not like", f"%{word[:2]}_%"),
        ("<>", low),
        ("<>", word),
        ("not in", some[:3]),
        ("not in", [word, word[:2]]),
        ("not between", (low, low + 9)),
        ("in", some),
        ("in", [*some[:5], word, True]),
        (">", word),
        ("is not null",),
        ("is null",),
        ("like", f"%{word[0]}%{word[1]}%"),
    ][number % 14]


def test_thousands_of_conditions_come_and_go() -> None:
    """Sizes at which lists of entries, the table of keys and the heap grow, and shrink again."""
    from covey.core.attributes.filter import conjunction

    generator = np.random.default_rng(18)
    index, scan = Index(), ScanIndex()
    alive: list[int] = []
    for turn in range(3):
        for key in range(turn * 900, (turn + 1) * 900):
            items = [("a", *condition(generator, key))]
            if key % 3:
                items.append(("b", *condition(generator, key // 14)))
            if key % 5 == 0:
                items.append(("c", "=", key % 4))
            filter = conjunction(items)
            index.add(key, filter, link=key % 70)
            scan.add(key, filter, link=key % 70)
            alive.append(key)
        generator.shuffle(alive)
        gone, alive = alive[: len(alive) * 2 // 3], alive[len(alive) * 2 // 3 :]
        for key in gone:
            index.remove(key)
            scan.remove(key)
        events: list[dict[str, Any]] = []
        for number in range(25):
            word = "".join(generator.choice(list("abcdé"), number % 9))
            value = int(generator.integers(0, 60))
            one: Any = [word, value, value + 0.5, True, 2**60 + value][number % 5]
            events.append({"a": one, "b": word, "c": number % 4} if number % 6 else {"b": one})
        for event in events:
            assert set(index.match(event)) == scan.match(event)
            assert index.links(event) == scan.links(event)
        packed = [pack(event) for event in events]
        ends = np.cumsum([len(one) for one in packed])
        handles, stops = index.match_packed(
            PackedEvents(np.frombuffer(b"".join(packed), np.uint8), np.r_[0, ends[:-1]], ends)
        )
        parts = np.split(handles, stops[:-1])
        assert [set(index.keys_of(part).tolist()) for part in parts] == [scan.match(one) for one in events]
    index.remove_batch(alive)
    assert index.attributes().channels.attributes == {}
    table = index.attributes().channels.atoms
    assert table is not None
    assert table.used_words == 1


def test_more_points_than_there_is_room_for() -> None:
    """An event that satisfies thousands of atoms gives more points than it has bytes."""
    from covey.core.attributes.filter import conjunction

    index = Index()
    for key in range(3_000):
        index.add(key, conjunction([("a", "like", f"%x%{key}%")] if key % 2 else [("a", "<>", f"{key}")]))
    text = "x" + "".join(f"{key} " for key in range(3_000))
    for event in ({"a": text}, {"a": "1998"}, {"a": 5}, {"a": "x1"}):
        data = np.frombuffer(pack(event), np.uint8)
        handles, _ = index.match_packed(PackedEvents(data, np.zeros(1, np.int64), np.array([len(data)])))
        assert len(handles) == len(index.match(event))
        expected = [
            key
            for key in range(3_000)
            if isinstance(event["a"], str)
            and (
                event["a"].startswith("x") and f"{key}" in event["a"][1:]
                if key % 2
                else event["a"] != f"{key}"
            )
        ]
        assert set(index.match(event)) == set(expected)
