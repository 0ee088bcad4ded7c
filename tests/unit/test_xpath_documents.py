"""Documents: what is kept of XML, and what is refused."""

from __future__ import annotations

import pytest

from covey.core.xpath.document import Document
from covey.errors import EventError


def test_what_is_kept() -> None:
    document = Document.parse("<a x='1'>text<b/><!-- no --><c y='2' x='1'><b/></c></a>")
    assert document.names == ("a", "b", "c")
    assert list(document.name) == [0, 1, 2, 1]
    assert list(document.parent) == [-1, 0, 0, 2]
    assert list(document.depth) == [1, 2, 2, 3]
    assert document.attributes == (("x", "1"), ("y", "2"))
    assert list(document.attribute) == [0, 1, 0]
    assert list(document.owner) == [0, 2, 2]
    assert len(document) == 4


def test_text_and_bytes_in_any_encoding() -> None:
    text = "<?xml version='1.0' encoding='iso-8859-1'?><é a='ü'/>"
    for xml in (text, text.encode("iso-8859-1")):
        assert Document.parse(xml).names == ("é",)


def test_names_are_plain() -> None:
    document = Document.parse("<p:a xmlns:p='urn:p'><q:b/></p:a>")
    assert document.names == ("p:a", "q:b")
    assert document.attributes == (("xmlns:p", "urn:p"),)


@pytest.mark.parametrize(
    "xml",
    [
        "",
        b"",
        "text",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a x='1' x='2'/>",
        "<a>&unknown;</a>",
        "<a>\ud800</a>",
        b"\xff\xfe\x00",
        b"<?xml version='1.0' encoding='nonsense'?><a/>",
        b"<?xml version='1.0' encoding='utf-7'?><a/>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        "<!DOCTYPE a [<!ENTITY % b 'c'>]><a/>",
        "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
        "<!DOCTYPE a [<!ENTITY l 'l'><!ENTITY m '&l;&l;&l;&l;'>]><a>&m;</a>",
        "<a>" * 257 + "</a>" * 257,
        "<a>" + "<b/>" * 70_000 + "</a>",
        "<a>" + "x" * (1 << 20) + "</a>",
    ],
)
def test_what_is_refused(xml: str | bytes) -> None:
    with pytest.raises(EventError) as caught:
        Document.parse(xml)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_limits_are_settings() -> None:
    assert len(Document.parse("<a><b/></a>", max_depth=2, max_elements=2, max_bytes=11)) == 2
    for limits in ({"max_depth": 1}, {"max_elements": 1}, {"max_bytes": 10}):
        with pytest.raises(EventError):
            Document.parse("<a><b/></a>", **limits)
    with pytest.raises(EventError):
        Document.parse(5)  # type: ignore[arg-type]


def test_a_doctype_without_entities_is_read() -> None:
    document = Document.parse("<!DOCTYPE a SYSTEM 'a.dtd' [<!ATTLIST a x CDATA 'default'>]><a/>")
    assert document.attributes == (("x", "default"),)
