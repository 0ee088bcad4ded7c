"""Why an event is not in a filter: for each alternative of the filter, what of it does not hold.

An attribute filter is a disjunction, and so is one of keywords: the event failed in each alternative, and each is
explained. A pattern is grown from its root, node by node, until it no longer fits the document.

    >>> why_not(parse("price > 10 AND symbol = 'IBM' OR urgent = TRUE"), {"price": 5, "symbol": "IBM"})
    [[Miss('price > 10', 'price is 5')], [Miss('urgent = TRUE', 'there is no urgent')]]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from covey.core.attributes.conjunction import Conjunction
from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.lexer import quote_name
from covey.core.attributes.text import constraint_phrase, write_literal
from covey.core.event import content_of, lookup
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.core.xpath.containment import fits
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter, as_document
from covey.core.xpath.pattern import Node
from covey.core.xpath.text import to_text

_KINDS = {"attributes": "a mapping", "xpath": "an XML document", "keywords": "a set of words"}


class Miss(NamedTuple):
    """A part of a filter that does not hold, and what the event has instead."""

    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.wanted}: {self.found}"


Alternative = list[Miss]


def why_not(filter: Filter, event: object) -> list[Alternative]:
    """Return what fails, by alternative; nothing if the event is in the filter. FALSE has one alternative."""
    if filter.matches(event):
        return []
    content = content_of(event)
    if isinstance(filter, AttributeFilter) and isinstance(content, Mapping):
        failed = [_misses(conjunction, content) for conjunction in filter.conjunctions]
        return failed or [[Miss("FALSE", "no event is in this filter")]]
    if isinstance(filter, KeywordFilter) and isinstance(content, set | frozenset):
        return [
            [Miss(word, "the words lack it") for word in words if word not in content]
            for words in filter.conjunctions
        ]
    if isinstance(filter, XPathFilter):
        document = as_document(content)
        if document is not None:
            return [[_first_unfit(filter.pattern, document)]]
    kind = _KINDS[filter.family]
    return [[Miss(str(filter), f"the event is of another kind: this filter asks for {kind}")]]


def _misses(conjunction: Conjunction, attributes: Mapping[str, Any]) -> Alternative:
    misses = []
    for name, constraint in conjunction.constraints:
        if not Conjunction(((name, constraint),)).matches(attributes):
            value = lookup(attributes, name)
            wanted = constraint_phrase(constraint, quote_name(name), write_literal).text
            found = f"there is no {name}" if value is None else f"{name} is {value!r:.80}"
            misses.append(Miss(wanted, found))
    return misses


def _first_unfit(pattern: Node, document: Document) -> Miss:
    fitting = ""
    for part in _grown(pattern):
        text = to_text(part)
        if not fits(part, document.target):
            return Miss(text, f"the document has {fitting}, but not this" if fitting else "it is not there")
        fitting = text
    raise AssertionError("the whole pattern is the last part, and does not fit")


def _grown(pattern: Node) -> Iterator[Node]:
    """Yield the pattern's beginnings, each with one more node or test than the one before."""
    size = 1
    while True:
        part, left = _beginning(pattern, size)
        yield part
        if left:
            return
        size += 1
        if part == pattern:
            return


def _beginning(node: Node, size: int) -> tuple[Node, int]:
    """Return the node with as much below it as `size` allows, and what is left of `size`."""
    size -= 1
    tests = node.tests[:size]
    size -= len(tests)
    children = []
    for child in node.children:
        if size <= 0:
            break
        part, size = _beginning(child, size)
        children.append(part)
    return Node(node.edge, node.label, tests, tuple(children)), size
