"""Filters as Spark SQL, on tables that have a column for each attribute.

Matching by the index needs no such table and is faster by orders of magnitude as soon as there are several filters.
This is for people who query their own tables with a filter, and an oracle: it shares nothing with the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.parser import parse_attributes
from covey.core.attributes.sql import to_spark_sql
from covey.errors import FilterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_KINDS = {
    "tinyint": "bigint",
    "smallint": "bigint",
    "int": "bigint",
    "bigint": "bigint",
    "float": "double",
    "double": "double",
    "string": "string",
    "boolean": "boolean",
}


def where(frame: DataFrame, *, filter: AttributeFilter | str) -> DataFrame:
    """Return the rows that an attribute filter matches; each column is an attribute, each struct a nested one.

    FilterError if the filter asks for an attribute whose column has a type that no attribute has.
    """
    asked = parse_attributes(filter) if isinstance(filter, str) else filter
    kinds = column_kinds(frame)
    names = {name for conjunction in asked.conjunctions for name, _ in conjunction.constraints}
    for name in sorted(names):
        if name not in kinds:
            raise FilterError(f"the table has no column {name!r} of a type that an attribute has")
    return frame.where(F.expr(to_spark_sql(asked, {name: kinds[name] for name in names})))


def column_kinds(frame: DataFrame) -> dict[str, str]:
    """Return the columns that can be attributes, by dotted name, with their kinds as `to_spark_sql` takes them."""
    found: dict[str, str] = {}

    def look(prefix: str, type_: DataType) -> None:
        for field in getattr(type_, "fields", ()):
            name = f"{prefix}{field.name}"
            kind = _KINDS.get(field.dataType.simpleString())
            if kind is not None:
                found.setdefault(name, kind)
            look(f"{name}.", field.dataType)

    look("", frame.schema)
    return found
