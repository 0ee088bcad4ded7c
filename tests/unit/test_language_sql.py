"""Filters as Spark SQL: how names, values and the differences between the languages are written."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.attributes.filter import conjunction
from covey.core.attributes.parser import parse_attributes
from covey.core.attributes.sql import to_spark_sql, write_spark_literal
from covey.errors import FilterError

BELOW_NAN = "<= CAST('Infinity' AS DOUBLE)"


@pytest.mark.parametrize(
    ("text", "schema", "sql"),
    [
        ("symbol = 'IBM' AND price BETWEEN 10 AND 20", {}, "`price` BETWEEN 10 AND 20 AND `symbol` = 'IBM'"),
        ("TRUE", {}, "TRUE"),
        ("FALSE", {}, "FALSE"),
        ("a IS NULL AND b IS NOT NULL", {}, "`a` IS NULL AND `b` IS NOT NULL"),
        ("quote.price < 1.5", {}, "`quote`.`price` < 1.5D"),
        ("a = 1 OR b = TRUE", {}, "`a` = 1 OR `b` = TRUE"),
        ("a LIKE '5!%%' ESCAPE '!'", {}, r"`a` LIKE '5\\%%' ESCAPE '\\'"),
        # NaN is above all numbers in Spark and in no range of ours
        ("a > 5", {}, f"`a` > 5 AND `a` {BELOW_NAN}"),
        ("a <> 5", {"a": "double"}, f"`a` <> 5 AND `a` {BELOW_NAN}"),
        ("a > 5", {"a": "bigint"}, "`a` > 5"),
        ("a < 5 OR a >= 5", {}, f"`a` {BELOW_NAN}"),
        ("a < 5 OR a >= 5", {"a": "bigint"}, "`a` IS NOT NULL"),
        ("a > 5 OR a IS NULL", {}, f"`a` > 5 AND `a` {BELOW_NAN} OR `a` IS NULL"),
        # values that a BIGINT and a DOUBLE column compare with differently
        ("a = 9007199254740993", {"a": "bigint"}, "`a` = 9007199254740993L"),
        ("a = 9007199254740993", {"a": "double"}, "FALSE"),
        ("a >= 9007199254740993", {"a": "double"}, f"`a` > 9007199254740992L AND `a` {BELOW_NAN}"),
        (
            "a <= 9007199254740993",
            {},
            "IF(typeof(`a`) IN ('double', 'float'), `a` <= 9007199254740992L, `a` <= 9007199254740993L)",
        ),
        (
            "a IN (1.5, 9007199254740992)",
            {},
            "IF(typeof(`a`) IN ('double', 'float'), `a` IN (1.5D, 9007199254740992L), `a` = 9007199254740992L)",
        ),
        (
            "a < 9223372036854775808.0",
            {},
            "IF(typeof(`a`) IN ('double', 'float'), `a` < 9.223372036854776E+18D, `a` IS NOT NULL)",
        ),
        ("a < 1.5", {"a": "bigint"}, "`a` < 2"),
        ("a IN (1, 1.5, 1e300)", {"a": "bigint"}, "`a` = 1"),
        ("a < 1e300", {"a": "bigint"}, "`a` IS NOT NULL"),
        # one column, one type
        ("a IN (1, 'x', TRUE)", {"a": "number"}, "`a` = 1"),
        ("a IN (1, 'x', TRUE)", {"a": "string"}, "`a` = 'x'"),
        ("a IN (1, 'x', TRUE)", {"a": "boolean"}, "`a` = TRUE"),
        ("a LIKE '%x%' OR a IS NULL", {"a": "double"}, "`a` IS NULL"),
        ("a > 5 AND b = 1", {"a": "string"}, "FALSE AND `b` = 1"),
    ],
)
def test_expressions(text: str, schema: dict[str, str], sql: str) -> None:
    assert to_spark_sql(parse_attributes(text), schema) == sql


@pytest.mark.parametrize(
    ("name", "nested", "flat"),
    [
        ("a", "`a`", "`a`"),
        ("a.b.c", "`a`.`b`.`c`", "`a.b.c`"),
        ("a b", "`a b`", "`a b`"),
        ("a`; DROP TABLE x; --", "`a``; DROP TABLE x; --`", "`a``; DROP TABLE x; --`"),
    ],
)
def test_columns(name: str, nested: str, flat: str) -> None:
    filter = conjunction([(name, "is null")])
    assert to_spark_sql(filter) == f"{nested} IS NULL"
    assert to_spark_sql(filter, flat=True) == f"{flat} IS NULL"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "TRUE"),
        (5, "5"),
        (-5, "-5"),
        (2**31 - 1, "2147483647"),
        (2**31, "2147483648L"),
        (-(2**63), "-9223372036854775808L"),
        (0.1, "0.1D"),
        (1e300, "1E+300D"),
        (5e-324, "5E-324D"),
        ("it's", r"'it\'s'"),
        ("back\\slash", r"'back\\slash'"),
        ("line\nend\0", r"'line\u000aend\u0000'"),
        ("${spark.app.name}", r"'\u0024{spark.app.name}'"),
        ("größe 🐦", "'größe 🐦'"),
    ],
)
def test_literals(value: Any, written: str) -> None:
    assert write_spark_literal(value) == written


@pytest.mark.parametrize(
    ("filter", "schema", "problem"),
    [
        (parse_attributes("a IN (1, 'x')"), {}, "'a' be a number or a string"),
        (parse_attributes("a = 1 AND b = 1 OR a = 'x'"), {}, "'a' be a number or a string"),
        (parse_attributes("a = 1"), {"a": "decimal"}, "unknown kind 'decimal'"),
        (conjunction([("${x}", "=", 1)]), {}, "cannot be written"),
        (conjunction([("a..b", "=", 1)]), {}, "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_refused(filter: Any, schema: dict[str, str], problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        to_spark_sql(filter, schema)
    assert problem in caught.value.problem
