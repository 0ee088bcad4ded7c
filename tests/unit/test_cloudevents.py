"""CloudEvents as events and back: the mapping, and one line for what is none."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.broker.http.cloudevents import Posted, is_json, read_binary, read_structured, split_batch, write
from covey.core.event import flatten
from covey.core.packing import pack, unpack
from covey.errors import EventError

BASE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def structured(**members: Any) -> Posted:
    return read_structured(json.dumps({**BASE, **members}).encode())


def round_trip(posted: Posted) -> Any:
    content = unpack(pack(posted.content))
    line = write("name", "publisher", content, posted.payload)
    assert b"\n" not in line
    return json.loads(line)


def test_context_attributes_and_the_fields_of_data_are_attributes() -> None:
    posted = structured(
        subject="x", priority=5, urgent=True, gone=None, data={"price": 12, "quote": {"size": 3}}
    )
    assert flatten(posted.content) == {
        **BASE,
        "subject": "x",
        "priority": 5,
        "urgent": True,
        "data.price": 12,
        "data.quote.size": 3,
    }
    assert json.loads(posted.payload) == {"price": 12, "quote": {"size": 3}}
    assert round_trip(posted) == {
        **BASE,
        "subject": "x",
        "priority": 5,
        "urgent": True,
        "data": {"price": 12, "quote": {"size": 3}},
    }


@pytest.mark.parametrize(
    ("members", "payload"),
    [
        ({}, b""),
        ({"data": None}, b""),
        ({"data": [1, 2]}, b"[1, 2]"),
        ({"data": "text"}, b'"text"'),
        ({"data": "text", "datacontenttype": "text/plain; charset=utf-8"}, b"text"),
        ({"data": "<a/>", "datacontenttype": "application/xml"}, b"<a/>"),
        ({"data_base64": "/wA=", "datacontenttype": "image/png"}, b"\xff\x00"),
        ({"data_base64": "/wA="}, b"\xff\x00"),
    ],
)
def test_other_data_is_the_payload_and_comes_back(members: dict[str, Any], payload: bytes) -> None:
    posted = structured(**members)
    assert posted.payload == payload
    assert not any(name.startswith("data.") for name in flatten(posted.content))
    expected = {**BASE, **{name: value for name, value in members.items() if value is not None}}
    assert round_trip(posted) == expected


def test_numbers_come_back_as_they_were_written() -> None:
    data = b'{"a":1.10,\n"b":123456789012345678901234567890}'
    posted = read_structured(json.dumps(BASE).encode()[:-1] + b',"data":' + data + b"}")
    line = write("name", "publisher", unpack(pack(posted.content)), posted.payload)
    assert b'{"a":1.10,"b":123456789012345678901234567890}' in line


def test_binary_mode() -> None:
    headers = {
        "Ce-SpecVersion": "1.0",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "t",
        "ce-subject": '"Euro %E2%82%AC \\"x\\""',
        "ce-priority": "5",
        "X-Other": "no",
    }
    posted = read_binary(headers, "application/json", b'{"x": 1}')
    assert posted.content == {
        **BASE,
        "subject": 'Euro € "x"',
        "priority": "5",
        "datacontenttype": "application/json",
        "data": {"x": 1},
    }
    assert posted.payload == b'{"x": 1}'
    assert read_binary(headers, "", b"\xff").payload == b"\xff"
    assert read_binary(headers, "text/plain", b"{").payload == b"{"
    with pytest.raises(EventError, match="data: "):
        read_binary(headers, "application/json", b"{")
    with pytest.raises(EventError, match="percent"):
        read_binary({**headers, "ce-subject": "%ff"}, "", b"")


def test_batches_are_bounded() -> None:
    body = json.dumps([{**BASE, "id": str(n)} for n in range(3)]).encode()
    assert [read_structured(one).content["id"] for one in split_batch(body, 3)] == ["0", "1", "2"]
    with pytest.raises(EventError, match="at most 2 objects: there are more"):
        split_batch(body, 2)
    with pytest.raises(EventError, match="JSON array"):
        split_batch(b"{}", 2)
    with pytest.raises(EventError, match="of at most 2 objects"):
        split_batch(b"[1,2,3]", 2)
    assert split_batch(b"[]", 0) == []


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"id": ""}, "attribute id"),
        ({"id": 5}, "attribute id"),
        ({"source": None}, "attribute source"),
        ({"specversion": "0.3"}, "1.0 are taken"),
        ({"Upper": "x"}, "'Upper' is no name"),
        ({"a.b": "x"}, "no name"),
        ({"list": [1]}, "attribute list"),
        ({"float": 1.5}, "attribute float"),
        ({"data": 1, "data_base64": ""}, "not both"),
        ({"data_base64": "?"}, "not base64"),
        ({"data_base64": 5}, "not base64"),
        ({"data": 5, "datacontenttype": "text/plain"}, "is a text, or data_base64"),
        ({"datacontenttype": 5}, "datacontenttype is a text"),
    ],
)
def test_what_is_no_cloud_event(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        structured(**members)


def test_other_events_are_shown_as_cloud_events() -> None:
    shown = json.loads(write("7.1", "7", {"price": 12}, b"\xff"))
    assert shown == {
        "specversion": "1.0",
        "id": "7.1",
        "source": "/clients/7",
        "type": "covey.event",
        "datacontenttype": "application/json",
        "data": {"price": 12},
        "payload": b64encode(b"\xff").decode(),
    }
    assert json.loads(write("7.1", "7", frozenset("ba"), b""))["data"] == ["a", "b"]
    assert json.loads(write("7.1", "7", "<a/>", b""))["datacontenttype"] == "application/xml"


def test_types_of_data() -> None:
    assert all(map(is_json, ("", "application/json", "text/json; charset=x", "application/ld+json")))
    assert not any(map(is_json, ("text/plain", "application/xml", "json")))


@given(st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    for read in (read_structured, lambda one: [read_structured(each) for each in split_batch(one, 3)]):
        try:
            read(body)
        except EventError as error:
            assert "\n" not in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.dictionaries(st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True), st.text(max_size=4)))
def test_json_data_comes_back_the_same(data: Any, extensions: dict[str, str]) -> None:
    extensions = {
        name: text for name, text in extensions.items() if name not in (*BASE, "data", "datacontenttype")
    }
    try:
        posted = structured(**extensions, data=data)
    except EventError:
        pytest.fail("it is a CloudEvent")
    expected = {**BASE, **extensions} | ({} if data is None else {"data": data})
    assert round_trip(posted) == expected
    assert isinstance(msgspec.json.encode(expected), bytes)


def peak_bytes(work: Callable[[], object]) -> int:
    """Return how many bytes a piece of work has had at most; its EventError is none of ours."""
    tracemalloc.start()
    try:
        with suppress(EventError):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("one", [b"1", b"{}", b"[]", b'""', json.dumps(BASE).encode()])
def test_a_batch_of_too_many_is_refused_before_all_are_looked_at(one: bytes) -> None:
    """It is done in one call that nothing interrupts: 2 million of `1` took 150 ms."""
    body = b"[" + one + (b"," + one) * 200_000 + b"]"
    with pytest.raises(EventError, match="a batch of"):
        split_batch(body, 100)
    assert peak_bytes(lambda: split_batch(body, 100)) < 100_000


def test_a_batch_with_many_commas_in_few_events_is_taken() -> None:
    body = json.dumps([{**BASE, "data": {"x": [1] * 1_000}}] * 3).encode()
    assert len(split_batch(body, 3)) == 3
    with pytest.raises(EventError, match="at most 2 objects: there are more"):
        split_batch(body, 2)
    assert len(split_batch(body, 3)) == 3


LISTS = b"[" + b"{}," * 100_000 + b"1]"


def test_data_that_is_no_object_is_not_made_into_anything() -> None:
    """It is the payload as it stands, and only has to be JSON."""
    head = json.dumps(BASE).encode()[:-1] + b',"data":'
    headers = {f"ce-{name}": value for name, value in BASE.items()}
    for read in (
        lambda: read_structured(head + LISTS + b"}"),
        lambda: read_binary(headers, "application/json", LISTS),
    ):
        assert read().payload == LISTS
        assert peak_bytes(read) < 3 * len(LISTS) + 100_000
    written = write("name", "publisher", BASE, LISTS)
    assert json.loads(written)["data"] == json.loads(LISTS)
    assert peak_bytes(lambda: write("name", "publisher", BASE, LISTS)) < 6 * len(LISTS)


def test_data_that_is_too_large_for_an_event_is_not_made_into_anything() -> None:
    data = b'{"x":' + LISTS + b"}"
    head = json.dumps(BASE).encode()[:-1] + b',"data":'
    headers = {f"ce-{name}": value for name, value in BASE.items()}
    for read in (
        lambda: read_structured(head + data + b"}", 10_000),
        lambda: read_binary(headers, "application/json", data, 10_000),
    ):
        with pytest.raises(EventError, match=r"data of 300,\d* bytes; the broker takes events of 10,000"):
            read()
        assert peak_bytes(read) < 3 * len(data)


@pytest.mark.parametrize("data", [b'["\xff"]', b'"\xc3("', b"[1,]", b"[01]", b'["\x01"]', b"[1"])
def test_data_that_is_not_json_is_refused_although_nothing_is_made_of_it(data: bytes) -> None:
    headers = {f"ce-{name}": value for name, value in BASE.items()}
    with pytest.raises(EventError):
        read_structured(json.dumps(BASE).encode()[:-1] + b',"data":' + data + b"}")
    with pytest.raises(EventError):
        read_binary(headers, "application/json", data)
    assert "data_base64" in json.loads(write("name", "publisher", BASE, data))
