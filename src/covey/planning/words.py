"""The words of a filter: what it asks for, as far as that can be said in words.

Filters that share words match some of the same events. Planning knows every filter and only some events, so for a
filter that no sampled event matches its words are all there is to go by.

keywords    the words of the formula
attributes  each constraint with its attribute: filters share it if they say the very same of that attribute
xpath       the names of elements
"""

from __future__ import annotations

from collections.abc import Hashable

from covey.core.attributes.filter import AttributeFilter
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.core.xpath.filter import XPathFilter
from covey.core.xpath.pattern import WILDCARD, Node


def words_of(filter: Filter) -> frozenset[Hashable]:
    """Return the filter's words; none for a filter that asks for everything."""
    if isinstance(filter, KeywordFilter):
        return frozenset(word for conjunction in filter.conjunctions for word in conjunction)
    if isinstance(filter, AttributeFilter):
        return frozenset(side for conjunction in filter.conjunctions for side in conjunction.constraints)
    if isinstance(filter, XPathFilter):
        return frozenset(_labels(filter.pattern)) - {WILDCARD}
    return frozenset()


def _labels(node: Node) -> list[str]:
    return [node.label, *(label for child in node.children for label in _labels(child))]
