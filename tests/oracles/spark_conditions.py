"""Spark's conditions, judged one row at a time by the rules of SQL: TRUE, FALSE, or None for UNKNOWN.

tests/spark/test_network_source.py compares this with Spark itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)


def judge(condition: Filter, row: Mapping[str, Any]) -> bool | None:
    """Return whether the condition holds for a row of column values."""
    if isinstance(condition, Not):
        inner = judge(condition.child, row)
        return None if inner is None else not inner
    value = row[".".join(condition.attribute)]  # type: ignore[attr-defined]
    if isinstance(condition, IsNull):
        return value is None
    if isinstance(condition, IsNotNull):
        return value is not None
    if isinstance(condition, EqualNullSafe):
        return (
            value == condition.value
            if value is not None and condition.value is not None
            else (value is None and condition.value is None)
        )
    if value is None:
        return None
    if isinstance(condition, In):
        if any(one is not None and value == one for one in condition.value):
            return True
        return None if None in condition.value else False
    return _compare(condition, value)


def _compare(condition: Filter, value: Any) -> bool | None:
    said: Any = condition.value  # type: ignore[attr-defined]
    if said is None:
        return None
    match condition:
        case EqualTo():
            return bool(value == said)
        case GreaterThan():
            return bool(value > said)
        case GreaterThanOrEqual():
            return bool(value >= said)
        case LessThan():
            return bool(value < said)
        case LessThanOrEqual():
            return bool(value <= said)
        case StringStartsWith():
            return bool(value.startswith(said))
        case StringEndsWith():
            return bool(value.endswith(said))
        case StringContains():
            return bool(said in value)
    raise AssertionError(condition)
