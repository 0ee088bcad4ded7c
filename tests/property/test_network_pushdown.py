"""What is pushed down never loses a row that Spark would keep, and what Spark need not look at again is exact."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as sql
from tests.oracles.spark_conditions import judge

from covey.core.attributes.filter import AttributeFilter
from covey.core.families import decode, parse
from covey.core.packing import pack, unpack
from covey.pipeline.network.columns import KINDS, WHOLE, reading
from covey.pipeline.network.pushdown import push, translate

EDGES = [
    0,
    1,
    -1,
    5,
    127,
    128,
    -128,
    -129,
    2**31 - 1,
    2**31,
    2**53 - 1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 1,
]
FLOATS = [0.0, -0.0, 0.1, 0.5, 5.0, 12.5, 2.0**53, 1e300, -1e300, float("inf"), float("-inf"), float("nan")]
TEXTS = ["", "a", "ab", "a%", "%", "_", "a_b", "!", "a!%", "\\", "é", "\U0001f600", "z\uffff", "5", "true"]

ODD = [None, True, False, 2**63, 2**64, 10**400, -(10**400), [1]]

texts = st.sampled_from(TEXTS) | st.text("ab%_!", max_size=4)
values = st.sampled_from([*ODD, *EDGES, *FLOATS]) | texts
COMPARING = [
    sql.EqualTo,
    sql.EqualNullSafe,
    sql.GreaterThan,
    sql.GreaterThanOrEqual,
    sql.LessThan,
    sql.LessThanOrEqual,
]
SHAPES = [sql.StringStartsWith, sql.StringEndsWith, sql.StringContains]
NAMES = [*KINDS, "nested.string"]
COLUMNS = {name: name.rpartition(".")[2] for name in NAMES}


def compared_with(kind: str) -> list[Any]:
    """What Spark compares a column of this kind with: values of that type."""
    if kind == "string":
        return TEXTS
    if kind == "boolean":
        return [True, False]
    if kind in ("double", "float"):
        return [*FLOATS, *map(float, EDGES)]
    high = 1 << (WHOLE[kind] - 1)
    return [edge for edge in EDGES if -high <= edge < high]


def literals(kind: str) -> st.SearchStrategy[Any]:
    return texts if kind == "string" else st.sampled_from(compared_with(kind))


@st.composite
def conditions(draw: st.DrawFn) -> sql.Filter:
    name = draw(st.sampled_from(NAMES))
    path = tuple(name.split("."))
    of_kind = literals(COLUMNS[name])
    choices = [
        st.sampled_from([sql.IsNull(path), sql.IsNotNull(path)]),
        st.builds(lambda make, value: make(path, value), st.sampled_from(COMPARING), of_kind),
        st.builds(
            lambda some: sql.In(path, tuple(some)), st.lists(of_kind | st.none(), min_size=1, max_size=4)
        ),
        st.just(sql.EqualNullSafe(path, None)),
    ]
    if COLUMNS[name] == "string":
        choices.append(st.builds(lambda make, text: make(path, text), st.sampled_from(SHAPES), texts))
    one: sql.Filter = draw(st.one_of(choices))
    return sql.Not(one) if draw(st.booleans()) else one


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    return {name: value for name in NAMES if (value := draw(values)) is not None}


def check(asked: AttributeFilter, offered: list[sql.Filter], some: Iterable[dict[str, Any]]) -> None:
    """Both ways to find rows agree: all conditions judged by Spark, or the network's filter and what is left."""
    pushed = push(asked, offered, COLUMNS)
    assert all(any(one is given for given in offered) for one in pushed.left)
    travels = decode(pushed.filter.encode())
    for event in some:
        received = unpack(pack(event))
        row = {name: reading(kind)(received.get(name)) for name, kind in COLUMNS.items()}
        kept = asked.matches(received) and all(judge(one, row) is True for one in offered)
        found = travels.matches(received) and all(judge(one, row) is True for one in pushed.left)
        assert kept == found, (event, row, offered, pushed)


def plain_conditions(name: str) -> list[sql.Filter]:
    path, some = tuple(name.split(".")), compared_with(COLUMNS[name])
    found: list[sql.Filter] = [sql.IsNull(path), sql.IsNotNull(path), sql.EqualNullSafe(path, None)]
    found += [make(path, value) for make in COMPARING for value in some]
    found += [sql.In(path, both) for both in itertools.pairwise([*some, None, some[0]])]
    if COLUMNS[name] == "string":
        found += [make(path, text) for make in SHAPES for text in some]
    return found + [sql.Not(one) for one in found]


@pytest.mark.parametrize("name", NAMES)
def test_each_condition_for_each_value(name: str) -> None:
    everything = parse("TRUE")
    assert isinstance(everything, AttributeFilter)
    some = [{name: value} for value in (*ODD, *EDGES, *FLOATS, *TEXTS) if value is not None] + [{}]
    for one in plain_conditions(name):
        check(everything, [one], some)


@given(st.lists(conditions(), max_size=4), st.lists(events(), min_size=1, max_size=8), st.booleans())
def test_conditions_together(offered: list[sql.Filter], some: list[dict[str, Any]], narrowed: bool) -> None:
    asked = parse("string is null or string <> 'ab'" if narrowed else "TRUE")
    assert isinstance(asked, AttributeFilter)
    check(asked, offered, some)


@given(conditions())
def test_most_conditions_are_taken_over(one: sql.Filter) -> None:
    plain = one.child if isinstance(one, sql.Not) else one
    kind = COLUMNS[".".join(plain.attribute)]  # type: ignore[attr-defined]
    if kind in ("string", "boolean") and isinstance(plain, sql.EqualTo | sql.IsNull | sql.IsNotNull):
        condition = translate(one, COLUMNS)
        assert condition is not None
        assert condition.is_exact


def test_what_is_left_to_spark() -> None:
    everything = AttributeFilter.all_of([parse("TRUE")])  # type: ignore[list-item]
    left = [
        sql.EqualTo(("double",), 2.0**53),  # 2**53 + 1 is it too, as a double
        sql.EqualTo(("float",), 0.5),
        sql.GreaterThan(("boolean",), False),
        sql.IsNull(("int",)),
        sql.EqualTo(("unknown",), 1),
        sql.In(("string",), tuple(f"{n}" for n in range(300))),
        sql.StringContains(("string",), "x" * 300),
        sql.Not(sql.In(("string",), ("a", None))),
        sql.Not(sql.EqualNullSafe(("string",), "a")),
        sql.EqualTo(("int",), "five"),
    ]
    pushed = push(everything, left, COLUMNS)
    assert pushed.left == left
    assert pushed.filter == everything
    # These are pushed, and looked at again: 12.5 is a number behind 5, and null in a column of whole numbers.
    wider = [sql.GreaterThan(("int",), 5), sql.IsNotNull(("bigint",))]
    pushed = push(everything, wider, COLUMNS)
    assert pushed.left == wider
    assert not pushed.filter.matches({"int": 5, "bigint": 1})
    assert pushed.filter.matches({"int": 12.5, "bigint": 1})


def test_a_filter_that_would_be_too_large_is_left_to_spark() -> None:
    many = [sql.Not(sql.StringContains(("string",), f"{n}_{n}")) for n in range(40)]
    pushed = push(parse("TRUE"), many, COLUMNS)  # type: ignore[arg-type]
    assert 0 < len(pushed.left) < len(many)
    assert decode(pushed.filter.encode()) == pushed.filter
