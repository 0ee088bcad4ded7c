"""The XPath family: filters that are tree patterns over XML documents.

A filter holds one canonical pattern and nothing else; every question is answered by the module that knows how:
containment.py (matches, covers), merging.py, text.py, wire.py. docs/filters-xpath.md is the specification.
"""

from __future__ import annotations

from typing import ClassVar

from covey.core.event import content_of
from covey.core.filter import Filter, Merge
from covey.core.xpath.containment import fits, pattern_covers
from covey.core.xpath.document import Document
from covey.core.xpath.merging import merge_patterns
from covey.core.xpath.parser import parse_pattern
from covey.core.xpath.pattern import WILDCARD, Node
from covey.core.xpath.text import to_text
from covey.core.xpath.wire import decode_pattern, encode_pattern
from covey.errors import FilterError


class XPathFilter(Filter):
    """A tree pattern as a filter on XML documents; make one with `parse_xpath` or `decode_xpath`."""

    __slots__ = ("_hash", "pattern")

    family: ClassVar[str] = "xpath"

    pattern: Node

    def __init__(self, pattern: Node) -> None:
        """Take a canonical pattern: one from the parser, the decoder, a merge or `make_node`."""
        self.pattern = pattern
        self._hash: int | None = None

    def matches(self, event: object) -> bool:
        """Return whether the document matches; raise EventError for text that is not XML."""
        document = as_document(content_of(event))
        return document is not None and fits(self.pattern, document.target)

    def covers(self, other: Filter) -> bool:
        """Return whether this pattern maps into the other one."""
        return isinstance(other, XPathFilter) and pattern_covers(self.pattern, other.pattern)

    def overlaps(self, other: Filter) -> bool:
        """Return whether one document can match both: exactly, as only two root elements can be at odds."""
        return isinstance(other, XPathFilter) and patterns_overlap(self.pattern, other.pattern)

    def merge(self, other: Filter) -> Merge:
        """Return a small pattern that covers both; exact when one of the two covers the other."""
        if not isinstance(other, XPathFilter):
            raise FilterError(f"an xpath filter does not merge with a filter of {other.family}")
        if self.covers(other):
            return Merge(self, True)
        if other.covers(self):
            return Merge(other, True)
        return Merge(XPathFilter(merge_patterns(self.pattern, other.pattern)), False)

    def encode(self) -> bytes:
        """Return the wire form."""
        return encode_pattern(self.pattern)

    def __str__(self) -> str:
        return to_text(self.pattern)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XPathFilter) and self.pattern == other.pattern

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.pattern)
        return self._hash


def parse_xpath(text: str) -> XPathFilter:
    """Return the filter that the text says; raise FilterError with position, expectation and hint."""
    return XPathFilter(parse_pattern(text))


def decode_xpath(data: bytes) -> XPathFilter:
    """Return the filter of its wire form; raise FilterError for any other bytes."""
    return XPathFilter(decode_pattern(data))


def as_document(content: object) -> Document | None:
    """Return the content as a document, parsing XML text or bytes; None for content of another kind."""
    if type(content) is Document:
        return content
    if isinstance(content, (str, bytes)):
        return Document.parse(content)
    return None


def patterns_overlap(one: Node, two: Node) -> bool:
    """Return whether a document can match both patterns.

    An element takes any number of children, so the branches of both fit below it side by side; and a pattern that
    floats (edge > 0) finds room further down. At odds can only be what both demand of the one root element.
    """
    if one.edge or two.edge:
        return True
    if one.label != two.label and WILDCARD not in (one.label, two.label):
        return False
    if not one.tests or not two.tests:
        return True
    values = {test[0]: test[1] for test in one.tests if len(test) == 2}
    return not any(len(test) == 2 and values.get(test[0], test[1]) != test[1] for test in two.tests)
