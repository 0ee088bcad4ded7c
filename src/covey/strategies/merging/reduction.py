"""The steady state of exact merging, as one pure function.

    boxes      joined along one attribute after the other, to a fixpoint (`boxes`)
    keywords   united, in parts that fit (`keywords`)
    others     attribute filters of several conjunctions and tree patterns have no exact merge but covering

and of what that gives, the maximal ones: those that no other one covers. Of several that cover each other the one
with the smallest wire form is kept. So the result depends on the set of filters and on nothing else, merging it again
changes nothing, every filter is covered by one of the result, and the result matches exactly what the filters match.
"""

from __future__ import annotations

from collections.abc import Iterable

from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.strategies.maximal import maximal
from covey.strategies.merging.boxes import Box, box_of, filter_of, joined
from covey.strategies.merging.keywords import merged_keywords


def merged(filters: Iterable[Filter]) -> list[Filter]:
    """Return the exact merge of the filters, ordered by wire form; see the module's text."""
    boxes: list[Box] = []
    words: list[KeywordFilter] = []
    found: set[Filter] = set()
    for filter in filters:
        box = box_of(filter)
        if box is not None:
            boxes.append(box)
        elif isinstance(filter, KeywordFilter):
            words.append(filter)
        else:
            found.add(filter)
    found.update(filter_of(box) for box in joined(boxes))
    found.update(merged_keywords(words))
    return [item[1] for item in maximal([("", filter) for filter in sorted(found, key=wire_form)])]


def wire_form(filter: Filter) -> bytes:
    """Return the wire form, by which filters are ordered."""
    return filter.encode()
