"""Questions about filters, read from their wire forms by a kernel or from their constraints by Python: one answer."""

from __future__ import annotations

import pytest
from tests.model.test_index import ask_of_filters
from tests.special_values import filters

import covey
from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.parser import parse_attributes
from covey.core.filter import Filter
from covey.matching.attributes.asking import COVERING, INSIDE, LEFT, MEETS
from covey.matching.index import Index
from covey.matching.scan import ScanIndex

READABLE = ("a = 1", "a = 'x'", "a = true", "a > 1", "a <= 2.5", "a between 1 and 2", "a > 1 and b = 'x'")
LEFT_TO_PYTHON = (
    "a <> 1",
    "a in (1, 2)",
    "a like 'x%'",
    "a is null",
    "a = 9007199254740993",
    "a = 1 or b = 2",
)


def filled(some: list[Filter]) -> tuple[Index, ScanIndex]:
    index, scan = Index(), ScanIndex()
    index.attributes()
    for key, filter in enumerate(some):
        index.add(key, filter)
        scan.add(key, filter)
    return index, scan


def is_special(filter: AttributeFilter) -> bool:
    """Return whether an index with this filter needs channels that the kernel leaves to Python."""
    index, _ = filled([filter])
    return any(attribute.is_special for attribute in index.attributes().channels.attributes.values())


@pytest.mark.parametrize("decoded", [True, False])
def test_special_values_are_read_alike(decoded: bool) -> None:
    all_of_them: list[Filter] = [*filters()]
    plain = [filter for filter in filters() if not is_special(filter)]
    assert 20 < len(plain) < len(all_of_them)
    for some in (plain, all_of_them[::3]):
        index, scan = filled([*some])
        for filter in all_of_them:
            ask_of_filters(index, scan, covey.decode(filter.encode()) if decoded else filter)


@pytest.mark.parametrize("text", READABLE)
def test_the_kernel_reads_what_most_filters_say(text: str) -> None:
    index, _ = filled([parse_attributes(t) for t in ("a = 2", "b = 'x'", "d > 3", "c is null")])
    for question in (COVERING, MEETS):
        assert index.attributes()._ask_form(parse_attributes(text), question, 1) >= 0


@pytest.mark.parametrize("text", LEFT_TO_PYTHON)
def test_the_kernel_leaves_the_rest(text: str) -> None:
    index, _ = filled([parse_attributes("a = 2")])
    assert index.attributes()._ask_form(parse_attributes(text), INSIDE, 0) == LEFT


def test_the_first_question_of_all_finds_its_room() -> None:
    """Its room is made while it is asked, and the answer stands in the new one."""
    for text in ("a is not null or b < 2.5", "a >= 0", "a <> 1"):
        index, scan = filled([parse_attributes("a = 0")])
        asked = parse_attributes(text)
        assert set(index.covered(asked)) == scan.covered(asked) == {0}
        index, scan = filled([parse_attributes("a = 0")])
        assert set(index.overlapping(asked)) == scan.overlapping(asked) == {0}


def test_what_is_not_constrained_is_not_absent() -> None:
    index, _ = filled([parse_attributes("b is null"), parse_attributes("a > 0 and c is null")])
    assert not index.covers(parse_attributes("a = 1"))
    assert index.covers(parse_attributes("a = 1 and c is null"))


def test_overlaps_stops_early_and_is_right_without_stopping() -> None:
    """One row among many overlaps, or none; each constrains the attribute that is asked about, or one does not."""
    some: list[Filter] = [parse_attributes(f"topic = {n} and x > {n}") for n in range(500)]
    index, scan = filled(some)
    for text in (
        "topic = 77",
        "topic = 77 and x < 3",
        "topic = 501",
        "x < 0",
        "x > 600",
        "topic > 498",
        "y = 1",
    ):
        asked = parse_attributes(text)
        assert index.overlaps(asked) == bool(scan.overlapping(asked)), text
    index.add("free", parse_attributes("y = 2"))
    assert index.overlaps(parse_attributes("topic = 501"))
    assert not index.overlaps(parse_attributes("topic = 501 and y = 1"))
    index.remove("free")
    assert not index.overlaps(parse_attributes("topic = 501"))


def test_a_filter_too_long_for_the_kernel_is_left_to_python() -> None:
    index, scan = filled([parse_attributes("a0 = 0"), parse_attributes("a1 > 5")])
    long = covey.conjunction([(f"a{n}", "=", n) for n in range(600)])
    assert index.attributes()._ask_form(long, COVERING, 1) == LEFT
    ask_of_filters(index, scan, long)


def test_an_attribute_that_is_in_use_no_more_is_unknown() -> None:
    index, scan = filled([parse_attributes("a = 1"), parse_attributes("b = 'x'")])
    ask_of_filters(index, scan, parse_attributes("b = 'x'"))
    index.remove(1)
    scan.remove(1)
    for text in ("b = 'x'", "a = 1 and b = 'x'", "b > 2"):
        ask_of_filters(index, scan, parse_attributes(text))
