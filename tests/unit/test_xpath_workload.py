"""The generator of patterns and documents, and the reader of document types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from covey.bench.xpath import run
from covey.core.xpath.document import Document
from covey.errors import ConfigError
from covey.workloads.dtd import newspaper, parse_dtd, read_dtd
from covey.workloads.xpath import PatternOptions, XPathWorkload


def test_our_document_type_has_the_size_it_should() -> None:
    doctype = newspaper()
    assert doctype.root == "article"
    assert len(doctype.children) == 123
    assert doctype.attribute_count == 513


def test_the_same_seed_gives_the_same_work() -> None:
    made = []
    for _ in range(2):
        workload = XPathWorkload(newspaper(), np.random.default_rng(9), PatternOptions(attribute=0.2))
        made.append(([str(f) for f in workload.filters(50)], workload.document()))
    assert made[0] == made[1]
    assert len(set(made[0][0])) == 50


def test_documents_follow_the_type() -> None:
    doctype = newspaper()
    workload = XPathWorkload(doctype, np.random.default_rng(3))
    sizes = []
    for _ in range(10):
        text = workload.document()
        document = Document.parse(text)
        sizes.append(len(text))
        assert len(document) == 131
        for name, parent in zip(document.name, document.parent, strict=True):
            if parent >= 0:
                assert document.names[name] in doctype.children[document.names[document.name[parent]]]
    assert 5500 < np.mean(sizes) < 7500


def test_patterns_of_a_small_type_run_out() -> None:
    workload = XPathWorkload(parse_dtd("<!ELEMENT a EMPTY>"), np.random.default_rng(1))
    assert {str(f) for f in workload.filters(10)} == {"/a", "/*"}


def test_reading_a_document_type(tmp_path: Path) -> None:
    path = tmp_path / "a.dtd"
    path.write_text(
        """<!-- <!ELEMENT no EMPTY> --><!ENTITY % inline "b | c"> <!ENTITY % more "%inline; | d">
        <!ELEMENT a (#PCDATA | %more;)*> <!ELEMENT b (a, c?)> <!ELEMENT c EMPTY>
        <!ATTLIST a x CDATA #IMPLIED y (one | two) "one" > <!ATTLIST a z NMTOKEN #FIXED 'a>b'>"""
    )
    doctype = read_dtd(path)
    assert doctype.children == {"a": ("b", "c", "d"), "b": ("a", "c"), "c": (), "d": ()}
    assert doctype.attributes["a"] == ("x", "y", "z")
    assert read_dtd(path, "b").root == "b"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!ENTITY % a '%b;'><!ENTITY % b '%a;'>%a;",
        "<!ENTITY % a '" + "%b;" * 1000 + "'><!ENTITY % b '" + "%c;" * 1000 + "'><!ENTITY % c 'cc'>%a;",
        "x" * 2_000_000,
    ],
)
def test_document_types_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_dtd(text)


def test_a_missing_file_and_a_missing_root(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_dtd(tmp_path / "none.dtd")
    with pytest.raises(ConfigError):
        parse_dtd("<!ELEMENT a EMPTY>", root="b")


def test_the_comparison_agrees_with_the_scan() -> None:
    said: list[str] = []
    (row,) = run([200], said.append, documents=3, seed=1)
    assert row["size"] == 200
    assert row["equal"] is True
    assert said
    assert set(row) == {
        "size", "scan_us", "ours_us", "ratio", "covering_us", "covering_ratio", "add_us", "remove_us", "parse_us",
        "bytes_per_filter", "matches_per_document", "equal", "exponent",
    }  # fmt: skip
