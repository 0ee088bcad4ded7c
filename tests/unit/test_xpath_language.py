"""The XPath language by example: what texts mean, what they are written as, and what is said about mistakes."""

from __future__ import annotations

import pytest

from covey.core.event import Event
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter, decode_xpath, parse_xpath
from covey.errors import EventError, FilterError

NEWS = "<news><item lang='en'><title/><body><p><b/></p></body></item><x:item/></news>"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/news//item[title]/body", "/news//item[title]/body"),
        (" / news // item [ title ] / body ", "/news//item[title]/body"),
        ("/a[b][c]", "/a[c]/b"),
        ("/a[c][b]", "/a[c]/b"),
        ("/a[b and c]", "/a[c]/b"),
        ("/a[b][b]", "/a/b"),
        ("/a[b]/b/c", "/a/b/c"),
        ("/a[.//c][b/c]", "/a/b/c"),
        ("/a[*]/b", "/a/b"),
        ("/a/*//b", "/a/*//b"),
        ("/a//*/b", "/a/*//b"),
        ("/a//*//b", "/a/*//b"),
        ("//*", "/*"),
        ("/a//*", "/a/*"),
        ("/a/b/@c", "/a/b[@c]"),
        ("//@c", "//*[@c]"),
        ("/a[b/@c='v']", "/a/b[@c='v']"),
        ("/a[./@c]", "/a[@c]"),
        ("/a[@c][@c='v']", "/a[@c='v']"),
        ('/a[@c="it\'s"]', "/a[@c='it''s']"),
        ("/a[@c='it''s']", "/a[@c='it''s']"),
        ("/x:a/b-c.d/é", "/x:a/b-c.d/é"),
        ("/and[and and and]", "/and/and"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    found = parse_xpath(text)
    assert str(found) == canonical
    assert parse_xpath(canonical) == found
    assert decode_xpath(found.encode()) == found


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("/news", True),
        ("/item", False),
        ("//item", True),
        ("/news/item[title]/body", True),
        ("/news/item/body/b", False),
        ("/news/item/body//b", True),
        ("/news/*/*/*/b", True),
        ("/news/*/*/b", False),
        ("/*/*//b", True),
        ("/*/*/*/*/*/*", False),
        ("//item[@lang]", True),
        ("//item[@lang='en']", True),
        ("//item[@lang='fr']", False),
        ("//title[@lang]", False),
        ("//item[title][.//b]", True),
        ("//x:item", True),
        ("//x:item/*", False),
    ],
)
def test_matching(text: str, matches: bool) -> None:
    found = parse_xpath(text)
    document = Document.parse(NEWS)
    for event in (document, NEWS, NEWS.encode(), Event(document), Event(NEWS, b"payload")):
        assert found.matches(event) == matches


def test_events_of_other_kinds_do_not_match() -> None:
    found = parse_xpath("//*")
    for event in ({"a": 1}, {"words"}, frozenset({"words"}), None, 5, Event({"a": 1})):
        assert not found.matches(event)
    with pytest.raises(EventError):
        found.matches("not XML")


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "/ or //"),
        ("news", 0, "/ or //"),
        ("/", 1, "a name or *"),
        ("/a/", 3, "a name or *"),
        ("///a", 2, "a name or *"),
        ("/a[", 3, "a name or *"),
        ("/a[]", 3, "a name or *"),
        ("/a[b", 4, "], and, / or //"),
        ("/a]", 2, "/, //, [ or the end"),
        ("/a b", 3, "/, //, [ or the end"),
        ("/a[b='c']", 4, "], and, / or //"),
        ("/a[@b=c]", 6, "a value in quotes"),
        ("/a[@b=5]", 6, "a name, *, /, //, @ or ["),
        ("/a[@]", 4, "an attribute's name"),
        ("/a/@b='c'", 5, "the end"),
        ("/a//@b", 4, "a name or *"),
        ("/a[.//@b]", 6, "a name or *"),
        ("/a[/b]", 3, "a name, *, @ or ."),
        ("/a[.]", 4, "/ or //"),
        ("/a/..", 3, "a name, *, /, //, @ or ["),
        ("/a[@b='c]", 6, "a name, *, /, //, @ or ["),
        ("/child::a", 6, "a name, *, /, //, @ or ["),
        ("/a[not(b)]", 6, "a name, *, /, //, @ or ["),
        ("/a|/b", 2, "a name, *, /, //, @ or ["),
    ],
)
def test_mistakes_are_located(text: str, position: int, expected: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_xpath(text)
    assert caught.value.position == position
    assert caught.value.expected == expected
    assert "\n" not in str(caught.value)


def test_what_can_never_match_is_refused() -> None:
    with pytest.raises(FilterError, match="two values") as caught:
        parse_xpath("/news/a[@x='1'][@x='2']")
    assert caught.value.position == 6


@pytest.mark.parametrize(
    "text",
    [
        "/a" * 101,
        "/a" + "[b" * 33 + "]" * 33,
        "[" * 100_000,
        "/a[" * 100_000,
        "/" + "a" * 10_000_000,
        "/a[@b='" + "'" * 100_001 + "]",
        "/a\ud800",
        "/a[@b='\udfff']",
        "/a[@b='\x00" * 3,
        "/a/@b[@c]",
    ],
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_xpath(text)
    assert len(str(caught.value)) < 400


def test_limits_hold_for_the_canonical_text_too() -> None:
    assert parse_xpath("/a" * 100)
    assert parse_xpath("/a" + "[b" * 31 + "]" * 31)
    # [b/@c] is six tokens, and seven as it is written canonically: 200 tokens in, more out.
    with pytest.raises(FilterError, match="too many tokens"):
        parse_xpath("/a" + "".join(f"[b{i}/@c]" for i in range(33)))
    many = parse_xpath("/a" + "".join(f"[b{i}]" for i in range(60)))
    assert parse_xpath(str(many)) == many
    assert decode_xpath(many.encode()) == many


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"A",
        b"X",
        b"X\x90",
        b"X\x92\x00\xa1*",  # a bare wildcard at the end hangs by 1
        b"X\x92\x00\xa11",  # not a name
        b"X\x92\xff\xa1a",  # an edge below 0
        b"X\x92\xc3\xa1a",  # True is not an edge
        b"X\x92\xcc\x00\xa1a",  # 0 written in two bytes
        b"X\x93\x00\xa1a\x91\xa1b\x00",
        b"X\x95\x00\xa1a\x92\x00\xa1b\x00\xa1b",  # the same branch twice
        b"X\x94\x00\xa1a\x91\xa1c\x91\xa1b",  # tests out of order
        b"X\x93\x00\xa1a\x92\x00\xa1b",  # a single child written as a branch
        b"X" + b"\x91" * 60_000,
        b"X" + b"\x92\x00" * 500,
        b"X\xdd\xff\xff\xff\xff",
        b"X" + b"\xc1" * 70_000,
    ],
)
def test_bytes_that_are_no_wire_form(data: bytes) -> None:
    with pytest.raises(FilterError):
        decode_xpath(data)


def test_merges() -> None:
    def merged(one: str, two: str) -> tuple[str, bool]:
        found, exact = parse_xpath(one).merge(parse_xpath(two))
        return str(found), exact

    assert merged("/a/b", "/a//b") == ("/a//b", True)
    assert merged("/a/b/c", "/a/x/c") == ("/a/*/c", False)
    assert merged("/a/b", "/c//b") == ("/*//b", False)
    assert merged("/a[b][c]/d", "/a[c]/e") == ("/a/c", False)
    assert merged("/a[@x='1']", "/a[@x='2']") == ("/a[@x]", False)
    assert merged("/a", "/b") == ("/*", False)


def test_overlap_is_a_matter_of_the_root() -> None:
    def overlap(one: str, two: str) -> bool:
        return parse_xpath(one).overlaps(parse_xpath(two))

    assert not overlap("/a", "/b")
    assert not overlap("/a[@x='1']/b", "/a[@x='2']/b")
    assert overlap("/a/b", "/a/c")
    assert overlap("/a", "//b")
    assert overlap("/a[@x]", "/*[@x='2']")


def test_covering_by_example() -> None:
    def covers(one: str, two: str) -> bool:
        return parse_xpath(one).covers(parse_xpath(two))

    assert covers("//item", "/news/item[title]")
    assert covers("/a/*//b", "/a//c/b")
    assert covers("/a/*//b", "/a/c//b")
    assert covers("/a[*/*]", "/a/b/c")
    assert covers("//*[@x]", "/a[@x='1']")
    assert not covers("/a/*/b", "/a//b")
    assert not covers("/a[@x='1']", "/a[@x]")
    # True of all documents, and not found: the answer of section 5 of the specification.
    assert not covers("/a//*[c][*/d]", "/a//*/c[d]")


def test_filters_are_values() -> None:
    one, two = parse_xpath("/a[b][c]"), parse_xpath("/a[c][b]")
    assert one == two
    assert hash(one) == hash(two)
    assert len({one, two}) == 1
    assert one != "text"
    assert repr(one) == "<xpath filter: /a[c]/b>"
    assert isinstance(one, XPathFilter)
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]
