"""The document shows the tables as they are; importing the pipeline costs nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from covey import pipeline
from covey.errors import ConfigError
from covey.pipeline.schemas import INPUTS, TABLES, Table, table_named

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipeline.md"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_document_shows_the_table(table: Table) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    section = re.search(rf"^### {table.name}\n\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    first, *rows = [line for line in section[1].splitlines() if line]
    assert first == f"Each row is {table.comment}."
    given = [
        f"| {column.name} | {column.type} | {column.comment}{' (may be missing)' if column.optional else ''} |"
        for column in table.columns
    ]
    added = [
        f"| {column.name} | {column.type} | added by ingestion: {column.comment} |" for column in table.added
    ]
    assert rows[2:] == given + added


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_spark_has_the_same_types(table: Table) -> None:
    columns = [f"{column.name}:{column.type}" for column in (*table.columns, *table.added)]
    assert table.schema().simpleString() == f"struct<{','.join(columns)}>"


def test_the_document_shows_no_other_table() -> None:
    shown = re.findall(r"^### (\w+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == [table.name for table in TABLES]


def test_tables_by_name() -> None:
    assert [table_named(table.name) for table in INPUTS] == list(INPUTS)
    with pytest.raises(ConfigError, match="no input table 'quarantine'"):
        table_named("quarantine")


def test_the_package_loads_no_spark_and_its_names_are_stages() -> None:
    check = (
        "import sys, covey.pipeline; assert 'pyspark' not in sys.modules\n"
        "import covey.pipeline.match, covey.pipeline.sample\n"
        "from covey import pipeline\n"
        "assert all(callable(getattr(pipeline, name)) for name in pipeline.__all__)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=120)
    assert set(dir(pipeline)) == set(pipeline.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        pipeline.nothing
