"""What users of the data source say: options, the schema, and the filters that Spark offers to a reader.

A part is an option, NAME=VALUE, or a column, ":NAME TYPE". Nothing connects to a broker: what is read here is all that
is looked at before that.
"""

from __future__ import annotations

from random import Random
from typing import Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNull, Not, StringContains
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from covey.core.attributes.filter import AttributeFilter
from covey.core.families import LANGUAGES, decode
from covey.errors import ConfigError
from covey.pipeline.network.columns import attribute_kinds, converter
from covey.pipeline.network.options import OPTIONS, USES, options_of
from covey.pipeline.network.pushdown import push
from covey.pipeline.network.source import CoveySource
from tests.fuzz.filters import PIECES, TEXTS
from tests.fuzz.harness import Input, Target
from tests.fuzz.mutation import SCALARS, mutated

TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "double": DoubleType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "array": ArrayType(StringType()),
    "struct": StructType(
        [StructField("x", StringType()), StructField("y", StructType([StructField("z", LongType())]))]
    ),
}
GOOD: Final = (
    b"url=covey://127.0.0.1:7400",
    b"url=coveys://[::1]:7400, covey://b:2",
    b"token=t",
    b"user=ann",
    b"password=p",
    b"timeout=2.5",
    b"language=xpath",
    b"language=keywords",
    b"events=100",
    b"seconds=1",
    b"pushdown=true",
    b"durable=jobs",
    b"name=spark",
    b"policy=drop-oldest",
    b"idle=1",
    b"confirm=false",
    b"checkpointLocation=/nowhere",
    *(f"filter={text}".encode() for language in LANGUAGES for text in TEXTS[language]),
    b"advertise=price > 10",
    *(f":{name} {name}".encode() for name in TYPES),
    b":_event string",
    b":_data binary",
)


def draw_options(draw: Random) -> Input:
    """Return a use, some options and some columns."""
    parts = []
    for _ in range(draw.randrange(6)):
        lot = draw.random()
        if lot < 0.4:
            parts.append(draw.choice(GOOD))
        elif lot < 0.7:
            parts.append(mutated(draw, GOOD))
        elif lot < 0.85:
            parts.append(f"{draw.choice(OPTIONS).name}={draw.choice(SCALARS)}".encode(errors="surrogatepass"))
        else:
            text = "".join(draw.choices(PIECES[draw.choice(LANGUAGES)], k=draw.randrange(1, 12)))
            parts.append(f"{draw.choice(('filter', 'advertise'))}={text}".encode(errors="surrogatepass"))
    return (draw.choice(USES).encode(), *parts)


def read_options(given: Input) -> None:
    """Read the options and the columns as Spark's driver does."""
    if not given or given[0].decode(errors="replace") not in USES:
        return
    use, options, fields = given[0].decode(), {}, []
    for part in given[1:]:
        text = part.decode(errors="replace")
        if text.startswith(":"):
            name, _, kind = text[1:].rpartition(" ")
            fields.append(StructField(name, TYPES.get(kind, StringType())))
        else:
            key, _, value = text.partition("=")
            options[key] = value
    found = options_of(options, use)
    assert "hunter2" not in repr(found)
    CoveySource(options)
    schema = StructType(fields) if fields else CoveySource(options).schema()
    if use == "write":
        found.advertised()
        return
    wanted = found.wanted()
    converter(schema, found.language)([])
    if isinstance(wanted, AttributeFilter):
        kinds = attribute_kinds(schema)
        pushed = push(wanted, list(_offered(kinds)), kinds)
        assert decode(pushed.filter.encode()) == pushed.filter


def _offered(kinds: dict[str, str]) -> list[Filter]:
    found: list[Filter] = []
    for name in list(kinds)[:8]:
        path = tuple(name.split("."))
        found += [EqualTo(path, 5), Not(GreaterThan(path, 2.5)), In(path, ("a", None, "%")), IsNull(path)]
        found.append(StringContains(path, "a%_"))
    return found


VALID: Final = ((b"read",), (b"stream", b"durable=x"), (b"write",))
TARGETS: Final = (Target("spark-options", draw_options, read_options, VALID, (ConfigError,)),)
