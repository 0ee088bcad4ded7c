"""The Spark SQL of a filter is TRUE exactly for the rows that the filter matches."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from tests import special_values
from tests.oracles.filter_texts import NAMES, NUMBERS, STRINGS, one_attribute_trees, texts, trees
from tests.oracles.spark_sql import judge_spark

from covey.core.attributes.parser import parse_attributes
from covey.core.attributes.sql import to_spark_sql, write_spark_literal
from covey.errors import FilterError

INTEGERS = (0, 1, 2, -1, 3, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63 - 513, -(2**63))
DOUBLES = (
    *map(float, (*NUMBERS, *special_values.NUMBERS)), math.nan, math.inf, -math.inf, 2.0**63, 2.0**53 + 2,
)  # fmt: skip
COLUMNS = {
    "bigint": st.sampled_from([None, *INTEGERS]),
    "double": st.sampled_from([None, *DOUBLES]),
    "string": st.sampled_from([None, *STRINGS, "aab", "${a}", "$"]),
    "boolean": st.sampled_from([None, True, False]),
}
column_types = st.sampled_from(sorted(COLUMNS))


def spark_name(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


@given(st.data())
def test_the_expression_selects_the_rows_that_match(data: st.DataObject) -> None:
    filter = parse(data.draw(st.one_of(trees, one_attribute_trees).flatmap(texts)))
    types = {name: data.draw(column_types) for name in NAMES}
    # A column of numbers may be declared as what it is, or left open between the two types.
    schema = {
        name: data.draw(st.sampled_from([kind, "number"])) if kind in ("bigint", "double") else kind
        for name, kind in types.items()
    }
    sql = to_spark_sql(filter, schema)
    for _ in range(6):
        event = {name: data.draw(COLUMNS[kind]) for name, kind in types.items()}
        row = {spark_name(name): (types[name], value) for name, value in event.items()}
        assert (judge_spark(sql, row) is True) == filter.matches(event), (str(filter), sql, event)


@given(st.data())
def test_without_a_schema_the_types_are_those_of_the_conditions(data: st.DataObject) -> None:
    filter = parse(data.draw(one_attribute_trees.flatmap(texts)))
    try:
        sql = to_spark_sql(filter)
    except FilterError as error:
        assert "a column has one type" in error.problem
        return
    assert sql in {to_spark_sql(filter, {"a": kind}) for kind in ("number", "string", "boolean")}


@given(
    st.one_of(
        st.text(), st.sampled_from(["${x}", "\\", "'", "\\'", "\n\r\t\0", "\\u0041", "\\%", "\x7f\x9f"])
    )
)
def test_string_literals_survive_spark_s_escapes(value: str) -> None:
    written = write_spark_literal(value)
    assert "${" not in written
    assert judge_spark(f"`a` = {written}", {"`a`": ("string", value)}) is True


def parse(text: str) -> Any:
    try:
        return parse_attributes(text)
    except FilterError as error:
        assume("conjunctions" not in error.problem)
        raise
