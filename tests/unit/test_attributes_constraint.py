"""Values, cuts, LIKE patterns and constraints: the cases that the rules name."""

from __future__ import annotations

import enum
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from covey.core.attributes import constraint as conditions
from covey.core.attributes import cuts
from covey.core.attributes.constraint import EVERYTHING, NOTHING, Constraint
from covey.core.attributes.like import like, parse_pattern, pattern_text
from covey.core.attributes.values import ABSENT, BOOLEAN, NUMBER, OTHER, STRING, classify, literal
from covey.errors import FilterError

NAN, INFINITY = float("nan"), float("inf")


class Colour(enum.IntEnum):
    RED = 1


class Word(str):
    def __lt__(self, other: str) -> bool:
        raise AssertionError("a subclass's order is not asked")


@pytest.mark.parametrize(
    ("value", "kind", "plain"),
    [
        (None, ABSENT, None),
        ({"a": 1}, ABSENT, None),
        (True, BOOLEAN, True),
        (np.bool_(False), BOOLEAN, False),
        (1, NUMBER, 1),
        (2**100, NUMBER, 2**100),
        (-INFINITY, NUMBER, -INFINITY),
        (np.int16(3), NUMBER, 3),
        (np.float32(0.5), NUMBER, 0.5),
        (Fraction(1, 4), NUMBER, 0.25),
        (Colour.RED, NUMBER, 1),
        ("a", STRING, "a"),
        (Word("a"), STRING, "a"),
        (np.str_("a"), STRING, "a"),
        ("\ud800", STRING, "\ud800"),
        (NAN, OTHER, None),
        (np.float64("nan"), OTHER, None),
        (Decimal(1), OTHER, None),
        ([1], OTHER, None),
        (b"a", OTHER, None),
        (1j, OTHER, None),
        (Fraction(10) ** 400, OTHER, None),
    ],
)
def test_kinds_of_values(value: object, kind: int, plain: object) -> None:
    assert classify(value) == (kind, plain)
    assert type(classify(value)[1]) is type(plain)


@pytest.mark.parametrize(
    ("value", "form"), [(1.0, 1), (-0.0, 0), (2.0**63, 2.0**63), (True, True), (1e300, 1e300), ("é", "é")]
)
def test_literals_have_one_form(value: object, form: object) -> None:
    assert literal(value) == form
    assert type(literal(value)) is type(form)


@pytest.mark.parametrize(
    "value",
    [NAN, INFINITY, -INFINITY, 2**63, -(2**63) - 1, None, [1], Decimal(1), "\ud800", "x" * 5000, b"a"],
)
def test_values_that_no_filter_holds(value: object) -> None:
    with pytest.raises(FilterError):
        literal(value)


def holds(constraint: Constraint, *values: object) -> list[object]:
    return [value for value in values if constraint.contains(value)]


SOME: tuple[Any, ...] = (None, True, False, 4, 5, 5.5, 6, "", "a", "ab", "b", NAN, [1])


@pytest.mark.parametrize(
    ("constraint", "held"),
    [
        (conditions.compare("=", 5), [5]),
        (conditions.compare("<>", 5), [4, 5.5, 6]),
        (conditions.compare("<", 5.5), [4, 5]),
        (conditions.compare("<=", 5), [4, 5]),
        (conditions.compare(">", 5), [5.5, 6]),
        (conditions.compare(">=", "ab"), ["ab", "b"]),
        (conditions.compare("<", ""), []),
        (conditions.compare("<>", ""), ["a", "ab", "b"]),
        (conditions.compare("=", True), [True]),
        (conditions.compare("<>", True), [False]),
        (conditions.between(5, 6), [5, 5.5, 6]),
        (conditions.between(6, 5), []),
        (conditions.between(5, "b"), []),
        (conditions.not_between(5, 5.5), [4, 6]),
        (conditions.not_between(5, "a"), [4, "ab", "b"]),
        (conditions.within([5, "a", True]), [True, 5, "a"]),
        (conditions.not_within([5, 6]), [4, 5.5]),
        (conditions.not_within(["a"]), ["", "ab", "b"]),
        (conditions.not_within([True]), [False]),
        (conditions.not_within([5, "a"]), []),
        (conditions.like("a%"), ["a", "ab"]),
        (conditions.like("%b"), ["ab", "b"]),
        (conditions.like("_"), ["a", "b"]),
        (conditions.like(""), [""]),
        (conditions.not_like("%b"), ["", "a"]),
        (conditions.not_like("a%"), ["", "b"]),
        (conditions.null(), [None]),
        (conditions.present(), [v for v in SOME if v is not None]),
    ],
)
def test_conditions_hold_where_they_are_true(constraint: Constraint, held: list[object]) -> None:
    assert [repr(v) for v in holds(constraint, *SOME)] == [repr(v) for v in held]


def test_numbers_are_compared_exactly() -> None:
    big = 2**53
    assert holds(conditions.compare("=", big + 1), big, float(big), big + 1, big + 2) == [big + 1]
    assert holds(conditions.compare(">", float(big)), big, big + 1) == [big + 1]
    assert holds(conditions.compare(">", 0), INFINITY, -INFINITY, 10**400) == [INFINITY, 10**400]
    assert conditions.compare("=", 1) == conditions.compare("=", 1.0)
    assert conditions.compare("=", 0) == conditions.compare("=", -0.0)
    assert not conditions.compare("=", 1).contains(True)
    assert not conditions.compare("=", True).contains(1)


@pytest.mark.parametrize(
    "build",
    [
        lambda: conditions.compare("==", 1),
        lambda: conditions.compare("<", True),
        lambda: conditions.between(False, True),
        lambda: conditions.compare("=", None),
        lambda: conditions.within([]),
        lambda: conditions.within("abc"),
        lambda: conditions.within(5),  # type: ignore[arg-type]
        lambda: conditions.within(range(257)),
        lambda: conditions.like(5),
        lambda: conditions.like("a" * 257),
        lambda: conditions.like("a!", "!"),
        lambda: conditions.like("!a", "!"),
        lambda: conditions.like("a", "ab"),
        lambda: conditions.like("a", "%"),
        lambda: conditions.like("\ud800%"),
    ],
)
def test_bad_conditions_are_refused(build: Any) -> None:
    with pytest.raises(FilterError):
        build()


def test_sets_have_one_form() -> None:
    either = conditions.compare("<", 5).union(conditions.compare(">=", 5))
    assert either == Constraint(numbers=cuts.ALL_NUMBERS)
    assert conditions.null().union(conditions.present()) == EVERYTHING
    assert conditions.compare("<", 5).intersect(conditions.compare(">", 5)) == NOTHING
    assert conditions.within(["a", "a\0"]).strings == ((0, "a"), (0, "a\0\0"))
    assert conditions.like("a%").union(conditions.not_like("a%")) == Constraint(strings=cuts.ALL_STRINGS)
    assert conditions.like("%a").union(conditions.not_like("%a")) == Constraint(strings=cuts.ALL_STRINGS)
    assert conditions.like("x%a").union(conditions.not_like("x%a")) == Constraint(strings=cuts.ALL_STRINGS)
    assert conditions.not_like("a_").union(conditions.not_like("b_")) == Constraint(strings=cuts.ALL_STRINGS)
    assert conditions.like("_%") == conditions.compare("<>", "")
    assert conditions.like("ab_%") == conditions.like("ab%").intersect(conditions.compare("<>", "ab"))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("%%", "%"),
        ("%_", "_%"),
        ("%_%_a", "__%a"),
        ("a%_%", "a_%"),
        ("a\\%", "a\\\\%"),
        ("é_", "é_"),
    ],
)
def test_canonical_patterns(written: str, canonical: str) -> None:
    assert pattern_text(parse_pattern(written)) == canonical


def test_escapes() -> None:
    assert conditions.like("100!%", "!") == conditions.compare("=", "100%")
    assert conditions.like("!_!!%", "!") == conditions.like("#_!%", "#")
    assert holds(conditions.like("%!%", "!"), "%", "5%", "5", "%5") == ["%", "5%"]
    assert holds(conditions.like("%!%%", "!"), "%", "5%", "5") == ["%", "5%"]
    assert holds(conditions.like("a\\b%_"), "a\\bc", "abc") == ["a\\bc"]


def test_patterns_that_others_make_superfluous_are_left_out() -> None:
    both = conditions.like("%a%").intersect(conditions.like("%ab%"))
    assert both == conditions.like("%ab%")
    assert conditions.like("%a").intersect(conditions.like("%b")) == NOTHING
    assert conditions.like("%a%").intersect(conditions.not_like("%a%")) == NOTHING
    assert conditions.like("%a").intersect(conditions.not_like("%b")) == conditions.like("%a")
    assert conditions.like("ab%").intersect(conditions.like("%b%")) == conditions.like("ab%")
    assert conditions.within(["ab", "ac"]).intersect(conditions.like("%b")) == conditions.compare("=", "ab")
    assert conditions.like("ab%").intersect(conditions.not_like("a%")) == NOTHING


def test_covers_with_patterns() -> None:
    assert conditions.like("%b%").covers(conditions.like("a_b"))
    assert conditions.like("a%").covers(conditions.like("ab%c"))
    assert conditions.like("%b%").covers(conditions.like("ab%"))
    assert conditions.like("_%_").covers(conditions.like("%ab%"))
    assert not conditions.like("a_").covers(conditions.like("a%"))
    assert conditions.not_like("%a").covers(conditions.like("%b"))
    assert conditions.not_like("a_").covers(conditions.not_like("a%"))
    assert conditions.compare(">=", "a").covers(conditions.like("b%x"))
    assert not conditions.compare(">", "b").covers(conditions.like("b%x%"))


def test_prefixes_at_the_end_of_the_alphabet() -> None:
    last = "\U0010ffff"
    assert cuts.prefix_interval(last) == ((0, last), cuts.STRING_TOP)
    assert cuts.prefix_interval("a" + last) == ((0, "a" + last), (0, "b"))
    assert cuts.prefix_interval("\ud7ff") == ((0, "\ud7ff"), (0, "\ue000"))
    assert cuts.prefix_interval("") == cuts.ALL_STRINGS
    assert cuts.common_prefix((0, "abc"), (0, "abd")) == "abc"
    assert cuts.common_prefix((0, "abc"), cuts.STRING_TOP) == ""
    assert cuts.common_prefix((0, "abc"), (0, "ac")) == "ab"


@pytest.mark.parametrize("text", ["a" * 1_000_000, "ab" * 500_000, "a" * 999_999 + "b"])
@pytest.mark.parametrize("pattern", ["%a" * 128, "_%" * 100, "%a_a_a_b%" * 25])
def test_long_strings_against_bombs(text: str, pattern: str) -> None:
    # Only that it ends: a backtracking matcher would not.
    like(text, pattern_text(parse_pattern(pattern)))


def test_limits_of_one_constraint() -> None:
    narrow = EVERYTHING
    for k in range(10, 26):
        narrow = narrow.intersect(conditions.like(f"%{k}%"))
    with pytest.raises(FilterError, match="LIKE patterns"):
        narrow.intersect(conditions.like("%99%"))
    many = NOTHING
    for k in range(0, 2 * cuts.MAX_INTERVALS, 2):
        joined = many.union(conditions.compare("=", k))
        assert joined is not None
        many = joined
    one_more = conditions.compare("=", -2)
    assert many.union(one_more) is None
    assert many.hull(one_more) == conditions.between(-2, 2 * cuts.MAX_INTERVALS - 2)


def test_a_constraint_is_a_value() -> None:
    constraint = conditions.compare("=", 5)
    with pytest.raises(AttributeError):
        constraint.absent = True  # type: ignore[misc]
    assert hash(constraint) == hash(conditions.compare("=", 5.0))
    assert constraint.is_point
    assert conditions.compare("=", "a").is_point
    assert conditions.compare("=", True).is_point
    assert not conditions.null().is_point
    assert not conditions.between(1, 2).is_point
    assert EVERYTHING.is_everything
    assert NOTHING.is_empty
