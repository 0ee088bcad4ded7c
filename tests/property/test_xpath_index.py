"""The XPath index against asking every filter, and its kernels against their twin in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from tests.xpath_strategies import documents, patterns

from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter
from covey.matching.xpath.index import XPathIndex
from covey.matching.xpath.plain import PlainIndex
from covey.workloads.dtd import newspaper
from covey.workloads.xpath import PatternOptions, XPathWorkload


class IndexMachine(RuleBasedStateMachine):
    """Filters come and go in any order; every question is answered as a scan answers it."""

    entered = Bundle("entered")

    def __init__(self) -> None:
        super().__init__()
        self.index = XPathIndex()
        self.twin = PlainIndex()
        self.filters: dict[int, XPathFilter] = {}
        self.free = list(range(200, -1, -1))

    @rule(target=entered, filter=patterns())
    def add(self, filter: XPathFilter) -> int:
        handle = self.free.pop()
        self.filters[handle] = filter
        self.index.add(handle, filter)
        self.twin.add(handle, filter)
        return handle

    @rule(handle=consumes(entered))
    def remove(self, handle: int) -> None:
        filter = self.filters.pop(handle)
        self.index.remove(handle, filter)
        self.twin.remove(handle, filter)
        self.free.append(handle)

    @rule()
    def lay_out(self) -> None:
        self.index.lay_out()

    @rule(document=documents())
    def match(self, document: Document) -> None:
        expected = {handle for handle, filter in self.filters.items() if filter.matches(document)}
        assert as_set(self.index.match(document)) == expected == self.twin.match(document)

    @rule(filter=patterns())
    def relations(self, filter: XPathFilter) -> None:
        filters = self.filters
        expected = {handle for handle, other in filters.items() if other.covers(filter)}
        assert as_set(self.index.covering(filter)) == expected == self.twin.covering(filter)
        expected = {handle for handle, other in filters.items() if filter.covers(other)}
        assert as_set(self.index.covered(filter)) == expected == self.twin.covered(filter)
        expected = {handle for handle, other in filters.items() if filter.overlaps(other)}
        assert as_set(self.index.overlapping(filter)) == expected == self.twin.overlapping(filter)

    @invariant()
    def shares_as_much_as_the_twin(self) -> None:
        assert len(self.index) == len(self.twin) == len(self.filters)
        assert self.index.node_count == self.twin.node_count


def as_set(handles: np.ndarray) -> set[int]:
    """Return the handles as a set, each of them once."""
    found = handles.tolist()
    assert handles.dtype == np.int32
    assert len(set(found)) == len(found)
    return set(found)


IndexMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestIndexMachine = IndexMachine.TestCase


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_a_large_index_answers_as_a_scan(seed: int) -> None:
    workload = XPathWorkload(newspaper(), np.random.default_rng(seed), PatternOptions(attribute=0.1))
    filters = workload.filters(600)
    index = XPathIndex()
    for handle, filter in enumerate(filters):
        index.add(handle, filter)
    for handle in range(0, 600, 3):
        index.remove(handle, filters[handle])
    held = [handle for handle in range(600) if handle % 3]
    for elements in (1, 20, 131, 400):
        document = Document.parse(workload.document(elements))
        expected = {handle for handle in held if filters[handle].matches(document)}
        assert as_set(index.match(document)) == expected
    for asked in workload.filters(10):
        assert as_set(index.covering(asked)) == {h for h in held if filters[h].covers(asked)}
        assert as_set(index.covered(asked)) == {h for h in held if asked.covers(filters[h])}
        assert as_set(index.overlapping(asked)) == {h for h in held if asked.overlaps(filters[h])}


@given(st.lists(patterns(), max_size=12), st.lists(documents(), max_size=3))
def test_equal_filters_under_many_handles(filters: list[XPathFilter], events: list[Document]) -> None:
    index = XPathIndex()
    for handle, filter in enumerate(filters * 3):
        index.add(handle, filter)
    for event in events:
        expected = {h for h, filter in enumerate(filters * 3) if filter.matches(event)}
        assert as_set(index.match(event)) == expected
    for handle, filter in enumerate(filters * 3):
        index.remove(handle, filter)
    assert index.node_count == len(index) == 0
