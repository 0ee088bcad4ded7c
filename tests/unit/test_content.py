"""What can be published: everything else is refused by a line that names the attribute, wherever it is published."""

from __future__ import annotations

import datetime
import enum
import math
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covey
from covey.core.content import check_content, is_plain, published_attributes, published_payload
from covey.core.event import MAX_EVENT_DEPTH, flatten
from covey.core.packing import pack, pack_published, unpack
from covey.core.xpath.document import MAX_DOCUMENT_BYTES, Document
from covey.errors import EventError
from covey.pipeline.network.rows import content_of
from covey.protocol.events import KEYWORDS, XPATH, decode_content, encode_content
from covey.sim import Network


class Size(enum.IntEnum):
    LARGE = 3


class Colour(enum.StrEnum):
    RED = "red"


class Plain(enum.Enum):
    ONE = 1


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]


NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
CYCLE: dict[str, Any] = {}
CYCLE["again"] = CYCLE

# The event, the attribute that is named, and what else the line says.
REFUSED: list[tuple[Any, str, str]] = [
    ({"tags": ["a", "b"]}, "'tags'", "of the type list, ['a', 'b']"),
    ({"tags": []}, "'tags'", "of the type list"),
    ({"tags": ("a",)}, "'tags'", "of the type tuple"),
    ({"tags": {"a"}}, "'tags'", "hint: an attribute for each element"),
    ({"at": NOON}, "'at'", "isoformat()"),
    ({"at": NOON.date()}, "'at'", "isoformat()"),
    ({"for": datetime.timedelta(1)}, "'for'", "total_seconds()"),
    ({"price": Decimal("12.5")}, "'price'", "Decimal('12.5')"),
    ({"price": Decimal("NaN")}, "'price'", "of the type Decimal"),
    ({"image": b"\x00"}, "'image'", "hint: publish them as the payload"),
    ({"image": bytearray(1)}, "'image'", "of the type bytearray"),
    ({"n": math.nan}, "'n'", "not a number (NaN)"),
    ({"n": np.float32("nan")}, "'n'", "not a number (NaN)"),
    ({"n": np.array([1, 2])}, "'n'", "of the type ndarray"),
    ({"n": np.datetime64("2026-01-02")}, "'n'", "of the type datetime64"),
    ({"n": 1j}, "'n'", "of the type complex"),
    ({"n": Plain.ONE}, "'n'", "hint: its value"),
    ({"n": Fraction(1, 3)}, "'n'", "exactly"),
    ({"n": np.nextafter(np.longdouble(1), np.longdouble(2))}, "'n'", "exactly"),
    ({"n": object}, "'n'", "of the type type"),
    ({"n": Rude()}, "'n'", "of the type Rude"),
    ({"n": list(range(10**6))}, "'n'", "of the type list"),
    ({"quote": {"sizes": [1]}, "n": 1}, "'quote.sizes'", "of the type list"),
    ({1: 2}, "the name 1 ", "names of attributes are strings"),
    ({b"a": 2}, "the name b'a' ", "of the type bytes"),
    ({"quote": {1: 2}}, "the name 1 in 'quote'", "strings"),
    ({5: {"c": None}}, "the name 5 ", "strings"),
    ({"text": "\ud800"}, "'text'", "unpaired surrogate"),
    ({"n\udfff": 1}, "'n\\udfff'", "unpaired surrogate"),
    ({"n": 10**5_000}, "'n'", "more than 4300 digits"),
    ({"n": -(10**4_299)}, "'n'", "more than 4300 digits"),
    (CYCLE, "'again.again", f"deeper than {MAX_EVENT_DEPTH} levels"),
]
CARRIED: list[tuple[Any, dict[str, Any]]] = [
    ({}, {}),
    ({"a": None, "b": {}, "c": {"d": None}}, {}),
    ({"a": math.inf, "b": -math.inf, "c": -0.0}, {"a": math.inf, "b": -math.inf, "c": -0.0}),
    ({"a": 2**63, "b": -(2**80), "c": 10**4_000}, {"a": 2**63, "b": -(2**80), "c": 10**4_000}),
    ({"a": {"b": {"c": 1}}, "a.x": True}, {"a.b.c": 1, "a.x": True}),
    ({"a": {"b": [1]}, "a.b": 2}, {"a.b": 2}),  # the dotted name wins, so the other is no attribute
    ({"": 1, "n" * 1_000: "x" * 10_000}, {"": 1, "n" * 1_000: "x" * 10_000}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (
        {
            "a": np.float64(1.5),
            "b": np.int64(7),
            "c": np.bool_(True),
            "d": np.str_("x"),
            "e": np.float32(0.1),
        },
        {"a": 1.5, "b": 7, "c": True, "d": "x", "e": float(np.float32(0.1))},
    ),
    ({"a": Size.LARGE, "b": Colour.RED, "c": Fraction(1, 2)}, {"a": 3, "b": "red", "c": 0.5}),
    ({Colour.RED: 1, np.str_("é"): 2}, {"red": 1, "é": 2}),
]


@pytest.mark.parametrize(("event", "attribute", "said"), REFUSED, ids=lambda value: f"{type(value).__name__}")
def test_what_cannot_be_carried_is_refused_by_name(event: Any, attribute: str, said: str) -> None:
    net = Network([("a", "b")], strategy="simple")
    for publish in (check_content, encode_content, pack_published, lambda event: net.publish("a", event)):
        with pytest.raises(EventError) as caught:
            publish(event)
        line = str(caught.value)
        assert attribute in line
        assert said in line
        assert "\n" not in line
        assert len(line) < 300


@pytest.mark.parametrize(("event", "carried"), CARRIED)
def test_what_is_carried_arrives_as_it_is(event: Any, carried: dict[str, Any]) -> None:
    check_content(event)
    arrived = unpack(encode_content(event)[1])
    assert arrived == carried
    assert {name: type(value) for name, value in arrived.items()} == {
        name: type(value) for name, value in carried.items()
    }


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([2**64, "\ud800", [1], b"x", 1j])
)
NAMES = st.text(max_size=2) | st.sampled_from(["a", "a.b", "\udfff"]) | st.integers(0, 2)


@given(st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=2), max_size=4))
def test_all_who_check_agree_and_nothing_changes_on_the_way(event: dict[Any, Any]) -> None:
    def answer(check: Any) -> str:
        try:
            check(event)
        except EventError as error:
            return str(error)
        return ""

    said = answer(check_content)
    assert said == answer(pack_published) == answer(published_attributes)
    if said:
        assert not is_plain(event) or "surrogate" in said
    else:
        assert pack_published(event) == pack(event)
        assert unpack(pack_published(event)) == flatten(event)


def test_judging_takes_what_publishing_refuses() -> None:
    event = {"tags": ["a"], "n": 5}
    assert covey.parse("tags IS NOT NULL and n = 5").matches(event)
    assert not covey.parse("tags = 'a'").matches(event)
    net = Network([("a", "b")], strategy="simple")
    subscription = net.subscribe("b", "tags IS NOT NULL")
    net.settle()
    net.publish("a", event, check=False)
    net.settle()
    assert net.deliveries == [(subscription, event)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<order>", "not well-formed XML"),
        (b"<order>", "not well-formed XML"),
        ("", "not well-formed XML"),
        ("<a>" * 300 + "</a>" * 300, "deeper than 256"),
        (f"<a>{' ' * MAX_DOCUMENT_BYTES}</a>", "bytes; at most"),
        (f"<a>{'é' * (MAX_DOCUMENT_BYTES // 2)}</a>", "bytes; at most"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a/>', "entity"),
        ("<a b='\ud800'/>", "unpaired surrogate"),
        ("<?xml version='1.0' encoding='utf-16'?><a/>", "encoding"),
        ("<?xml version='1.0' encoding='latin-1'?><a b='é'/>", "declares the encoding latin-1"),
        ({1, 2}, "the word 1 is of the type int"),
        ({"a", None}, "and no string"),
        ({"a", "\ud800"}, "unpaired surrogate"),
        (5, "a mapping, a set of words or XML, not int"),
        (["a"], "not list"),
        (None, "not NoneType"),
    ],
)
def test_documents_and_words_that_brokers_could_not_read(content: Any, said: str) -> None:
    for publish in (check_content, encode_content):
        with pytest.raises(EventError, match=said):
            publish(content)


def test_documents_and_words_that_brokers_read() -> None:
    assert encode_content({"b", Colour.RED}) == (KEYWORDS, b"\x92\xa1b\xa3red")
    for text in ("<a b='é'/>", "<?xml version='1.0' encoding='UTF-8'?><a b='é'/>"):
        family, data = encode_content(text)
        assert family == XPATH
        assert decode_content(family, data).attributes == (("b", "é"),)
    latin = "<?xml version='1.0' encoding='latin-1'?><a b='é'/>".encode("latin-1")
    assert decode_content(*encode_content(latin)).attributes == (("b", "é"),)
    check_content(Document.parse("<a/>"))
    with pytest.raises(EventError, match="publish its text"):
        encode_content(Document.parse("<a/>"))


def test_a_payload_is_bytes() -> None:
    assert published_payload(np.array([1], np.int32).data) == b"\1\0\0\0"
    assert published_payload(bytearray(b"x")) == b"x"
    for data in ("x", None, 5, ["x"]):
        with pytest.raises(EventError, match="a payload is bytes, not"):
            published_payload(data)


def test_rows_with_contents_are_asked_too() -> None:
    with pytest.raises(EventError, match="'tags'"):
        encode_content(content_of('{"tags": [1]}', "attributes"))
    with pytest.raises(EventError, match="well-formed"):
        encode_content(content_of("<a>", "xpath"))
