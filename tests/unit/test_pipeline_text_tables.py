"""Tables as text: every record is a row with its line and its text; what cannot be read says why, and loses nothing."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.errors import ConfigError
from covey.pipeline import text_tables
from covey.pipeline.inputs import check_columns, check_tables, missing
from covey.pipeline.schemas import BY_NAME
from covey.pipeline.text_tables import Row, csv_records, header_of, pieces_of, rows_in


def rows_of(path: Path, table: str, units: Mapping[str, str] | None = None, size: int = 1 << 20) -> list[Row]:
    return [row for piece in pieces_of(path, size) for row in rows_in(piece, BY_NAME[table], units or {})]


def write(directory: Path, name: str, data: str | bytes) -> Path:
    file = directory / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return file


def test_lines_of_json_keep_their_place_and_text(tmp_path: Path) -> None:
    good = {"event": 17, "broker": "b", "language": "keywords", "content": "[]", "at": "2026-01-02T03:04:05Z"}
    lines: list[tuple[str | bytes, str | None]] = [
        (json.dumps(good), None),
        ('{"event": "e2", "bro', "the line is not JSON: Unterminated string"),
        (json.dumps(good | {"at": "yesterday"}), "the column at is not an ISO 8601 time"),
        (json.dumps(good | {"at": 1767323045}), "the column at is a bare number (hint: --epochs events.at=s"),
        (
            json.dumps(good | {"at": "2026-02-30T00:00:00Z"}),
            "the column at is a date or a time that does not",
        ),
        ('["a"]', "the line is not a JSON object"),
        ('{"event": "e", "event": "f"}', "the JSON object has a name twice"),
        ('{"event": NaN}', "NaN is no JSON number"),
        ('{"event": "\\ud800"}', "the column event holds an unpaired surrogate"),
        (json.dumps(good | {"content": {"a": 1}}), "the column content is a JSON object and not a text"),
        (json.dumps(good | {"At": "2026-01-02"}), "the column 'At' is not at (hint: leave it out)"),
        (b'{"event": "\xff"}', "the line is not UTF-8"),
        ("[" * 100_000, "it nests too deep"),
        (json.dumps(good | {"event": True, "at": None, "more": {"x": [1]}}), None),
    ]
    data = b"\xef\xbb\xbf" + b"\r\n\n".join(
        line if isinstance(line, bytes) else line.encode() for line, _ in lines
    )
    rows = rows_of(write(tmp_path, "events.jsonl", data), "events")
    assert [row.line for row in rows] == [2 * place + 1 for place in range(len(lines))]
    for row, (line, said) in zip(rows, lines, strict=True):
        assert row.text == (line if isinstance(line, str) else '{"event": "\\xff"}')
        assert (row.reason is None) if said is None else said in str(row.reason), (row.reason, said)
    assert list(rows[0].values) == ["17", None, "b", 1_767_323_045_000_000, "keywords", "[]"]
    assert list(rows[2].values) == ["17", None, "b", None, "keywords", "[]"], "what can be read stays"
    assert not any(rows[1].values)
    assert rows[-1].values[0] == "true"
    assert rows_of(tmp_path / "events.jsonl", "events", {"at": "s"})[3].values[3] == 1_767_323_045_000_000


def test_pieces_have_every_line_once(tmp_path: Path) -> None:
    lines = [json.dumps({"a": f"x{place}", "b": "y" * (place % 50)}) for place in range(300)]
    file = write(tmp_path, "topology.json", "\n".join(lines))
    assert len(pieces_of(file, 1000)) > 10
    found = rows_of(file, "topology", size=1000)
    assert [(row.line, row.text) for row in found] == list(enumerate(lines, 1))
    folder = tmp_path / "parts" / "topology.json"
    folder.mkdir(parents=True)
    with gzip.open(folder / "part-1.json.gz", "wt") as packed:
        packed.write("\n".join(lines))
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-1.crc").write_text("x")
    (piece,) = pieces_of(folder, 1000)
    assert piece.name == "topology.json/part-1.json.gz"
    assert [row.text for row in rows_of(folder, "topology", size=1000)] == lines
    (folder / "part-2.zst").write_text("x")
    with pytest.raises(ConfigError, match=r"only \.gz and \.bz2"):
        pieces_of(folder)
    (folder / "part-2.zst").unlink()
    (folder / "part-1.json.gz").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match=r"part-1\.json\.gz cannot be read"):
        rows_of(folder, "topology")


def test_csv_keeps_lines_over_which_a_record_goes(tmp_path: Path) -> None:
    text = (
        "b,a,note,cost\r\n"
        "y,x,fine,2.5\r\n"
        '"y, z","say ""x""","two\nlines",\n'
        "\n"
        "y,x,bad,abc\n"
        "y,x,bad,NaN\n"
        "y,x,bad,inf\n"
        "y,x,short\n"
        "y,x,long,1,2\n"
        'y,x,"open,1\n'
        "y,x,after,4\n"
        'y,x,"odd"quote,1\n'
        "y,x,far,1e999\n"
        "y,x,last,5"
    )
    rows = rows_of(write(tmp_path, "topology.csv", text), "topology")
    assert [(row.line, row.reason and row.reason.split(" (")[0], *row.values) for row in rows] == [
        (2, None, "x", "y", 2.5),
        (3, None, 'say "x"', "y, z", None),
        (6, "the column cost is not a number", "x", "y", None),
        (7, "the column cost is not a number", "x", "y", None),
        (8, "the column cost is not a number", "x", "y", None),
        (9, "the row has 3 fields and the header 4", None, None, None),
        (10, "the row has 5 fields and the header 4", None, None, None),
        (11, rows[7].reason, None, None, None),
        (12, None, "x", "y", 4.0),
        (13, "',' expected after '\"'", None, None, None),
        (14, "the column cost is out of range", "x", "y", None),
        (15, None, "x", "y", 5.0),
    ]
    assert rows[1].text == '"y, z","say ""x""","two\nlines",'
    assert rows[7].text == 'y,x,"open,1'
    assert rows[7].reason


@given(
    st.lists(
        st.sampled_from(["a", ",", '"', "\n", "\r", "\r\n", "\0", " ", "\x85", "\u2028", "é"]), max_size=12
    )
)
def test_lines_without_quotes_are_records_as_the_reader_of_csv_has_them(pieces: list[str]) -> None:
    line = "".join(pieces).replace("\n", "") + "\n"
    try:
        fields = next(csv.reader([line], strict=True), [])
    except csv.Error:
        expected: list[list[str] | None] = [None]
    else:
        expected = [fields] if fields else []
    if '"' in line:
        return
    found = list(csv_records(iter([(7, line.encode())])))
    assert [fields for _, fields, _, _ in found] == expected
    assert all(number == 7 and text == line.rstrip("\r\n") for number, _, text, _ in found)


def test_what_is_too_long_is_cut_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "MAX_RECORD", 100)
    monkeypatch.setattr(text_tables, "KEPT_TEXT", 20)
    long = "x" * 1000
    file = write(tmp_path, "topology.csv", f'a,b\n{long},y\np,q\n"{long[:60]}\n{long[:60]}\nr,s\n')
    rows = rows_of(file, "topology")
    assert [(row.line, row.text, row.reason and row.reason[:15]) for row in rows] == [
        (2, "x" * 20, "the record has "),
        (3, "p,q", None),
        (4, '"' + "x" * 60, "the record has "),
        (5, "x" * 60, "the row has 1 f"),
        (6, "r,s", None),
    ]
    file = write(tmp_path, "topology.json", f'{{"a": "{long}"}}\n{{"a": "p", "b": "q"}}\n')
    assert [row.line for row in rows_of(file, "topology") if row.reason] == [1]


def test_a_field_as_long_as_a_content_may_be_is_read(tmp_path: Path) -> None:
    content = "x" * (1 << 20)
    csv.field_size_limit(1 << 17)
    file = write(tmp_path, "events.csv", f"event,broker,language,content\ne,b,xpath,{content}\n")
    (row,) = rows_of(file, "events")
    assert row.values[-1] == content


def test_headers(tmp_path: Path) -> None:
    assert header_of(write(tmp_path, "a.csv", b"\xef\xbb\xbfa,b\n1,2\n")) == ["a", "b"]
    assert header_of(write(tmp_path, "b.csv", "")) is None
    with pytest.raises(ConfigError, match="has the column 'a' twice"):
        header_of(write(tmp_path, "c.csv", "a,b,a\n"))
    with pytest.raises(ConfigError, match="which names the columns, cannot be read: the line is not UTF-8"):
        header_of(write(tmp_path, "d.csv", b"a,\xff\n"))


def test_columns_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    columns = {"event": "Id", "at": "meta.time", "content": "a.b"}
    lines: list[tuple[str, list[object], str | None]] = [
        (
            '{"Id": "e", "broker": "b", "language": "keywords", "a.b": "[]", "meta": {"time": "2026-01-02T03:04:05Z"}}',
            ["e", None, "b", 1_767_323_045_000_000, "keywords", "[]"],
            None,
        ),
        (
            '{"Id": "e", "broker": "b", "event": "x", "a": {"b": "[1]"}, "meta": 3}',
            ["e", None, "b", None, None, "[1]"],
            None,
        ),
        ('{"Id": "e", "a": {"b": "1", "b": "2"}}', [None] * 6, "a JSON object has a name twice"),
        ('{"Id": "e", "a": {"b": {}}}', ["e", *[None] * 5], "the column content is a JSON object"),
        ('{"Id": "e", "Broker": "b"}', [None] * 6, "the column 'Broker' is not broker"),
    ]
    file = write(tmp_path, "events.jsonl", "\n".join(line for line, _, _ in lines))
    (piece,) = pieces_of(file)
    for row, (_, values, said) in zip(rows_in(piece, BY_NAME["events"], {}, columns), lines, strict=True):
        assert list(row.values) == values
        assert row.reason is None if said is None else said in str(row.reason)
    file = write(tmp_path, "topology.csv", "from,b,a,Price\nx,y,z,2.5\n")
    (piece,) = pieces_of(file)
    (row,) = rows_in(piece, BY_NAME["topology"], {}, {"a": "from", "cost": "Price"})
    assert list(row.values) == ["x", "y", 2.5]


def test_all_that_is_missing_is_said_before_anything_runs(tmp_path: Path) -> None:
    write(tmp_path, "topology.csv", "from,b\n")
    parquet.write_table(
        pa.table({"subscription": ["s"], "broker": ["b"], "spoken": [{"language": "keywords"}]}),
        tmp_path / "subscriptions.parquet",
    )
    write(tmp_path, "deliveries.json", "{}")
    asked = (tmp_path, ("topology", "subscriptions", "events"), ("advertisements", "deliveries"))
    found = list(missing(*asked, {}))
    assert [line.partition(" has no ")[2].partition(" (")[0] for line in found] == [
        "column a",
        "column language, filter",
        "table events",
    ]
    columns = {
        "topology.a": "from",
        "subscriptions.language": "spoken.language",
        "subscriptions.filter": "text",
    }
    (line,) = missing(*asked, columns, without={"events": "catalog.db.events"})
    assert line.startswith("the table subscriptions in ")
    assert line.endswith(" has no column text (it has subscription, broker, spoken)")
    columns["subscriptions.filter"] = "broker"
    assert list(missing(*asked, columns, without=["events"])) == []
    assert len(list(missing(tmp_path / "nothing", *asked[1:], {}))) == 1
    for wrong in ({"events.when": "at"}, {"events.at": "a..b"}, {"events.at": "`"}, {"events": "x"}):
        with pytest.raises(ConfigError):
            check_columns(wrong)
    for wrong in ({"event": "db.t"}, {"events": "db."}, {"events": ""}):
        with pytest.raises(ConfigError):
            check_tables(wrong)
