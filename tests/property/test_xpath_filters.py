"""What must hold of all XPath filters: the order of covering, its soundness and its completeness where promised."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.xpath_strategies import documents, paths, patterns

from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter, decode_xpath, parse_xpath
from covey.core.xpath.pattern import WILDCARD, Node
from covey.errors import FilterError

FRESH = "z"


def canonical_documents(pattern: Node, longest: int) -> Iterator[str]:
    """Yield the documents that decide containment in `pattern` (Miklau and Suciu, PODS 2002).

    Each is the pattern with a fresh name for every wildcard and, for every edge n, a chain of n to n + longest fresh
    elements, the last being the node. Another pattern covers this one if it matches all of them, when `longest` is
    more than the longest run of wildcards in it.
    """
    edges = list(_edges(pattern))
    for more in itertools.product(*[range(longest + 1) if edge else (0,) for edge in edges]):
        yield _write(pattern, iter(more))


def _edges(node: Node) -> Iterator[int]:
    yield node.edge
    for child in node.children:
        yield from _edges(child)


def _write(node: Node, more: Iterator[int]) -> str:
    extra = max(node.edge - 1, 0) + next(more)
    label = FRESH if node.label == WILDCARD else node.label
    attributes = "".join(f' {t[0]}="{t[1] if len(t) == 2 else "fresh"}"' for t in node.tests)
    inner = "".join(_write(child, more) for child in node.children)
    return f"<{FRESH}>" * extra + f"<{label}{attributes}>{inner}</{label}>" + f"</{FRESH}>" * extra


def longest_gap(node: Node) -> int:
    """Return a bound of the longest run of wildcards and counted levels in the pattern."""
    return node.edge + (node.label == WILDCARD) + max(map(longest_gap, node.children), default=0)


def contained(special: XPathFilter, general: XPathFilter) -> bool:
    """Decide containment by brute force over the canonical documents."""
    assume(sum(edge > 0 for edge in _edges(special.pattern)) <= 3)
    longest = min(longest_gap(general.pattern) + 1, 5)
    return all(general.matches(text) for text in canonical_documents(special.pattern, longest))


@given(patterns(), patterns(), patterns())
def test_covering_is_a_partial_order(a: XPathFilter, b: XPathFilter, c: XPathFilter) -> None:
    assert a.covers(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)
    if a.covers(b) and b.covers(a):
        assert a == b
        assert hash(a) == hash(b)
        assert str(a) == str(b)
        assert a.encode() == b.encode()


@given(patterns(), patterns(), documents())
def test_what_is_covered_is_matched(a: XPathFilter, b: XPathFilter, document: Document) -> None:
    if a.covers(b) and b.matches(document):
        assert a.matches(document)


@given(patterns(depth=3), patterns(depth=3))
def test_covering_is_sound(a: XPathFilter, b: XPathFilter) -> None:
    if a.covers(b):
        assert contained(b, a)


@given(patterns(wildcards=False, depth=3), patterns(wildcards=False, depth=3))
def test_covering_is_complete_without_wildcards(a: XPathFilter, b: XPathFilter) -> None:
    assert a.covers(b) == contained(b, a)


@given(patterns(descendants=False, depth=3), patterns(descendants=False, depth=3))
def test_covering_is_complete_without_descendants(a: XPathFilter, b: XPathFilter) -> None:
    assert a.covers(b) == contained(b, a)


@given(paths(), paths())
def test_covering_is_complete_for_paths(a: XPathFilter, b: XPathFilter) -> None:
    assert a.covers(b) == contained(b, a)


@given(patterns(), patterns(), documents())
def test_overlap_is_symmetric_and_implied_by_a_common_match(
    a: XPathFilter, b: XPathFilter, document: Document
) -> None:
    assert a.overlaps(b) == b.overlaps(a)
    if (a.matches(document) and b.matches(document)) or a.covers(b):
        assert a.overlaps(b)


@given(patterns(depth=3), patterns(depth=3))
def test_overlap_is_exact(a: XPathFilter, b: XPathFilter) -> None:
    """When the filters overlap, the document that joins both at the root, or one below the other, matches both."""
    if not a.overlaps(b):
        return
    one, two = next(canonical_documents(a.pattern, 0)), next(canonical_documents(b.pattern, 0))
    candidates = [
        one[: one.rindex("<")] + two + one[one.rindex("<") :],
        two[: two.rindex("<")] + one + two[two.rindex("<") :],
    ]
    candidates.append(_joined(a.pattern, b.pattern))
    assert any(a.matches(text) and b.matches(text) for text in candidates)


def _joined(a: Node, b: Node) -> str:
    label = b.label if a.label == WILDCARD else a.label
    label = FRESH if label == WILDCARD else label
    values = {t[0]: "fresh" for t in (*a.tests, *b.tests)}
    values.update({t[0]: t[1] for t in (*a.tests, *b.tests) if len(t) == 2})
    attributes = "".join(f' {name}="{value}"' for name, value in values.items())
    inner = "".join(_write(child, itertools.repeat(0)) for child in (*a.children, *b.children))
    return f"<{label}{attributes}>{inner}</{label}>"


@given(patterns(), patterns())
def test_a_merge_covers_both(a: XPathFilter, b: XPathFilter) -> None:
    merged, exact = a.merge(b)
    assert merged.covers(a)
    assert merged.covers(b)
    assert exact == (a.covers(b) or b.covers(a))
    assert exact == (merged in (a, b))
    assert b.merge(a).filter == merged
    assert decode_xpath(merged.encode()) == merged
    assert parse_xpath(str(merged)) == merged


@given(patterns())
def test_text_and_wire_form_come_back(a: XPathFilter) -> None:
    again = parse_xpath(str(a))
    assert again == a
    assert hash(again) == hash(a)
    assert str(again) == str(a)
    decoded = decode_xpath(a.encode())
    assert decoded == a
    assert hash(decoded) == hash(a)
    assert decoded.encode() == a.encode()


@given(patterns(depth=3))
def test_wordy_texts_mean_the_same(a: XPathFilter) -> None:
    """Doubled branches, presence beside equality and [*] beside a branch add nothing."""
    text = _wordy(a.pattern)
    assume(sum(text.count(mark) for mark in "./[]@=*abcxy12") <= 200)
    assert parse_xpath(text) == a


def _wordy(node: Node) -> str:
    step = "/" if node.edge == 0 else "/*" * (node.edge - 1) + "//"
    tests = "".join(f"[@{t[0]}][@{t[0]}='{t[1]}']" if len(t) == 2 else f"[@{t[0]}]" for t in node.tests)
    branches = [_wordy(child) for child in reversed(node.children)]
    more = "[*]" if branches else ""
    return f"{step}{node.label}{tests}{more}" + "".join(f"[.{b}][.{b}]" for b in branches)


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_give_a_filter_or_a_filter_error(data: bytes) -> None:
    for candidate in (data, b"X" + data):
        try:
            found = decode_xpath(candidate)
        except FilterError:
            continue
        assert found.encode() == candidate


@settings(max_examples=300)
@given(patterns(), st.data())
def test_damaged_wire_forms_give_a_filter_or_a_filter_error(a: XPathFilter, data: st.DataObject) -> None:
    wire = bytearray(a.encode())
    position = data.draw(st.integers(0, len(wire) - 1))
    wire[position] = data.draw(st.integers(0, 255))
    try:
        found = decode_xpath(bytes(wire))
    except FilterError:
        return
    assert found.encode() == bytes(wire)
    assert parse_xpath(str(found)) == found


@settings(max_examples=300)
@given(st.text(alphabet="ab/*[]@.='\" \ud800()|and", max_size=30))
def test_any_text_gives_a_filter_or_a_filter_error(text: str) -> None:
    try:
        found = parse_xpath(text)
    except FilterError as error:
        assert "\n" not in str(error)
        return
    assert parse_xpath(str(found)) == found
