"""The XPath index: growth, large documents, and what it forgets."""

from __future__ import annotations

import numpy as np
import pytest

from covey.core.xpath.document import Document
from covey.core.xpath.filter import parse_xpath
from covey.matching.xpath.index import XPathIndex
from covey.workloads.dtd import newspaper
from covey.workloads.xpath import XPathWorkload


def test_answers_of_an_empty_index() -> None:
    index = XPathIndex()
    found = parse_xpath("//a")
    for answer in (
        index.match("<a/>"),
        index.covering(found),
        index.covered(found),
        index.overlapping(found),
        index.match({"a": 1}),
    ):
        assert answer.dtype == np.int32
        assert len(answer) == 0


def test_content_of_other_kinds_matches_nothing() -> None:
    index = XPathIndex()
    index.add(0, parse_xpath("//*"))
    for other in ({"a": 1}, {"word"}, None):
        assert len(index.match(other)) == 0
    for document in ("<a/>", b"<a/>", Document.parse("<a/>")):
        assert index.match(document).tolist() == [0]


def test_what_is_removed_is_forgotten() -> None:
    workload = XPathWorkload(newspaper(), np.random.default_rng(5))
    filters = workload.filters(3000)
    index = XPathIndex()
    filled = 0
    for _ in range(3):
        for handle, filter in enumerate(filters):
            index.add(handle, filter)
        filled = index.memory_bytes
        index.match(workload.document())
        for handle, filter in enumerate(filters):
            index.remove(handle, filter)
        assert index.node_count == 0
        assert len(index) == 0
        assert len(index.match(workload.document())) == 0
    # Room that was given back is used again: the third round takes no more than the first, but for fragments.
    assert index.memory_bytes <= 1.6 * filled


def test_wide_and_deep_documents() -> None:
    filters = [
        parse_xpath(t) for t in ("//b[c][@x]", "/a/*/*//b", "//*[b/c]//b", "/a//b[@x='3']", "//*[.//*]")
    ]
    index = XPathIndex()
    for handle, filter in enumerate(filters):
        index.add(handle, filter)
    wide = "<a>" + "".join(f"<b x='{i % 5}'><c/></b>" for i in range(8000)) + "</a>"
    deep = "<b>" * 250 + "<c/>" + "</b>" * 250
    for text in (wide, f"<a>{deep}</a>", "<a/>"):
        document = Document.parse(text)
        expected = [handle for handle, filter in enumerate(filters) if filter.matches(document)]
        assert sorted(index.match(document).tolist()) == expected


def test_many_names_and_long_lists() -> None:
    texts = [f"/n{i}/b" for i in range(3000)] + [f"/a[@t{i}='v']" for i in range(300)]
    filters = [parse_xpath(text) for text in texts]
    index = XPathIndex()
    for handle, filter in enumerate(filters):
        index.add(handle, filter)
    index.lay_out()
    assert index.match("<n2999><b/></n2999>").tolist() == [2999]
    assert index.match("<a t299='v' t298='w'/>").tolist() == [3299]
    assert index.covering(parse_xpath("/n7[c]/b")).tolist() == [7]
    assert sorted(index.covered(parse_xpath("/*/b")).tolist()) == list(range(3000))


def test_a_pattern_too_wide_for_a_word_of_bits() -> None:
    wide = parse_xpath("/a" + "".join(f"[b{i}]" for i in range(64)))
    index = XPathIndex()
    index.add(3, wide)
    index.add(4, parse_xpath("/a[b1]"))
    assert index.covered(wide).tolist() == [3]
    assert sorted(index.covering(wide).tolist()) == [3, 4]


@pytest.mark.parametrize("limit", [1 << 26, 0])
def test_the_run_starts_again_or_gives_up_when_places_run_out(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.matching.xpath.index.MAX_PLACES", limit)
    index = XPathIndex()
    texts = ["//*" + "[.//b]" * 1 + "/c" * i for i in range(1, 12)] + [f"//*[.//b][@x{i}]" for i in range(40)]
    filters = [parse_xpath(text) for text in texts]
    for handle, filter in enumerate(filters):
        index.add(handle, filter)
    leaf = "<c>" * 12 + "<b/>" + "</c>" * 12
    document = Document.parse("<a>" + leaf * 300 + "</a>")
    expected = [handle for handle, filter in enumerate(filters) if filter.matches(document)]
    assert sorted(index.match(document).tolist()) == expected
    assert sorted(index.match(document).tolist()) == expected
