"""Spark's conditions, judged one row at a time by the rules of SQL: TRUE, FALSE, or None for UNKNOWN.

tests/spark/test_network_source.py compares this with Spark itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import datasource as sql


def judge(condition: sql.Filter, row: Mapping[str, Any]) -> bool | None:
    """Return whether the condition holds for a row of column values."""
    if isinstance(condition, sql.Not):
        inner = judge(condition.child, row)
        return None if inner is None else not inner
    value = row[".".join(condition.attribute)]  # type: ignore[attr-defined]
    if isinstance(condition, sql.IsNull):
        return value is None
    if isinstance(condition, sql.IsNotNull):
        return value is not None
    if isinstance(condition, sql.EqualNullSafe):
        return (
            value == condition.value
            if value is not None and condition.value is not None
            else (value is None and condition.value is None)
        )
    if value is None:
        return None
    if isinstance(condition, sql.In):
        if any(one is not None and value == one for one in condition.value):
            return True
        return None if None in condition.value else False
    return _compare(condition, value)


def _compare(condition: sql.Filter, value: Any) -> bool | None:
    said: Any = condition.value  # type: ignore[attr-defined]
    if said is None:
        return None
    match condition:
        case sql.EqualTo():
            return bool(value == said)
        case sql.GreaterThan():
            return bool(value > said)
        case sql.GreaterThanOrEqual():
            return bool(value >= said)
        case sql.LessThan():
            return bool(value < said)
        case sql.LessThanOrEqual():
            return bool(value <= said)
        case sql.StringStartsWith():
            return bool(value.startswith(said))
        case sql.StringEndsWith():
            return bool(value.endswith(said))
        case sql.StringContains():
            return bool(said in value)
    raise AssertionError(condition)
