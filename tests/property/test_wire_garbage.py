"""Whatever bytes come, the answer is a message or one of our errors: nothing else, in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import covey
from covey.errors import EventError, FilterError, ProtocolError
from covey.protocol import control as wire
from covey.protocol.control import (
    Attach,
    BrokerLinks,
    Detach,
    Detached,
    PlanState,
    Ready,
    States,
    decode_overlaid,
    decode_plan,
    encode_overlaid,
    encode_plan,
)
from covey.protocol.events import (
    ATTRIBUTES,
    ENVELOPE,
    KEYWORDS,
    XPATH,
    Delivery,
    decode_content,
    delivery_of,
    encode_content,
    encode_delivery,
    encode_event,
    envelope_of,
    family_of,
    forwarded,
    publish_of,
)
from covey.protocol.frames import LENGTH, Kind, Splitter, frame, framed
from covey.routing.digest import Fact
from covey.routing.messages import (
    Advertise,
    Change,
    Echo,
    Greet,
    Pack,
    Probe,
    Publish,
    Subscribe,
    Sync,
    Triple,
    Unadvertise,
    Unsubscribe,
    Update,
)

EXPECTED = (ProtocolError, EventError, FilterError)

FILTERS = [
    covey.parse("price > 10 AND symbol = 'IBM' OR a LIKE 'x%y'"),
    covey.parse("a IN (1, 2, 'x', TRUE) AND b.c IS NULL"),
    covey.parse("/a[@k='1']//b", "xpath"),
    covey.parse("new AND york OR taxi", "keywords"),
]
ROUTED = [
    Advertise("k", FILTERS[0], "p", 1),
    Unadvertise("k"),
    Subscribe("~1/1", FILTERS[1], "home"),
    Unsubscribe("~1/1", {"p": (1.0, 2.5)}),
    Pack((Subscribe("a", FILTERS[2]), Unsubscribe("b"))),
    Update((Triple(FILTERS[3], 1, 2),)),
    Change((FILTERS[0],), (FILTERS[3],)),
    Greet("covering", (1, 2, 3), ()),
    Sync("subscriptions", 4, {1: (Fact("k", FILTERS[0], "o", (1, 2)),)}),
    Probe("p"),
    Echo("p"),
]
LIFE = [
    wire.Hello(1, "client", "name", "token", "user", "password", 7, 2),
    wire.Welcome(1, "b", 9, 8, 1 << 20, 10.0, 2),
    wire.Goodbye("why", False),
]
REQUESTS = [
    wire.SubscribeRequest(1, 2, FILTERS[0].encode(), "durable"),
    wire.ReplaceRequest(1, 2, FILTERS[1].encode()),
    wire.UnsubscribeRequest(1, 2, True),
    wire.AdvertiseRequest(1, 2, FILTERS[2].encode()),
    wire.UnadvertiseRequest(1, 2),
    wire.FlushRequest(1),
]
OVERLAID = [States((BrokerLinks("a", 7, {"b": (1, True), "c": (2, False)}),)), Attach(), Detach(), Detached()]
PLANNED = [PlanState(3, "a", 1, {0: b"", 1: b"a plan"}), Ready(3, "a", "b")]
CONTENTS = [
    {"price": 5, "symbol": "IBM", "nested": {"a": 1.5, "b": True, "c": None}},
    {"big": 1 << 80, "text": "é" * 50},
    {"new", "york"},
    "<a k='1'><b>text</b></a>",
    {},
]


def events() -> list[bytes]:
    found = []
    for number, content in enumerate(CONTENTS):
        family, encoded = encode_content(content)
        found.append(encode_event(encoded, b"payload", family=family, publisher=5, number=number))
    one = found[0]
    envelope = envelope_of(one)
    noted = Publish(None, "", distance=1.5, destinations=("a", "b"), detours=2, flooded=True, tree=3)
    return [*found, forwarded(one, envelope, noted, 4)]


EVENTS = events()
DELIVERIES = [encode_delivery(EVENTS[0], [1, 2, 3]), encode_delivery(EVENTS[2], [7], 1 << 40)]


def read_event(data: bytes) -> None:
    envelope = envelope_of(data)
    publish = publish_of(data, envelope)
    again = forwarded(data, envelope, publish, envelope.epoch)
    assert publish_of(again, envelope_of(again)).id == publish.id


def read_delivery(data: bytes) -> None:
    delivery = delivery_of(data)
    assert isinstance(delivery, Delivery)
    envelope = envelope_of(delivery.event)
    decode_content(
        family_of(envelope), delivery.event[ENVELOPE.size : ENVELOPE.size + envelope.content_length]
    )


DECODERS: dict[str, tuple[Callable[[bytes], Any], list[bytes]]] = {
    "life": (wire.decode_life, [wire.encode(one) for one in LIFE]),
    "request": (wire.decode_request, [wire.encode(one) for one in REQUESTS]),
    "reply": (wire.decode_reply, [wire.encode(wire.Reply(3, "error"))]),
    "routed": (wire.decode_routed, [wire.encode_routed(one, 3) for one in ROUTED]),
    "overlay": (decode_overlaid, [encode_overlaid(one) for one in OVERLAID]),
    "plan": (decode_plan, [encode_plan(one) for one in PLANNED]),
    "event": (read_event, EVENTS),
    "delivery": (read_delivery, DELIVERIES),
    "filter": (covey.decode, [one.encode() for one in FILTERS]),
    "attributes": (lambda data: decode_content(ATTRIBUTES, data), [encode_content(CONTENTS[0])[1]]),
    "xml": (lambda data: decode_content(XPATH, data), [encode_content(CONTENTS[3])[1]]),
    "words": (lambda data: decode_content(KEYWORDS, data), [encode_content(CONTENTS[2])[1]]),
}


def attempt(decoder: Callable[[bytes], Any], data: bytes) -> None:
    try:
        decoder(data)
    except EXPECTED as error:
        text = str(error)
        assert "\n" not in text
        assert len(text) < 1_000


@pytest.mark.parametrize("name", DECODERS)
def test_what_we_write_is_read(name: str) -> None:
    decoder, samples = DECODERS[name]
    for sample in samples:
        decoder(sample)


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.binary(max_size=200))
def test_random_bytes(name: str, data: bytes) -> None:
    attempt(DECODERS[name][0], data)


@pytest.mark.parametrize("name", DECODERS)
def test_every_truncation(name: str) -> None:
    decoder, samples = DECODERS[name]
    for sample in samples:
        for length in range(len(sample)):
            attempt(decoder, sample[:length])


@pytest.mark.parametrize("name", DECODERS)
def test_every_byte_changed(name: str) -> None:
    """Each byte of each sample becomes each of some that mean much to MessagePack, XML or lengths."""
    decoder, samples = DECODERS[name]
    for sample in samples:
        for at in range(len(sample)):
            for value in (0, 1, 0x7F, 0x80, 0x90, 0xC0, 0xC4, 0xD9, 0xDD, 0xDF, 0xFF, sample[at] ^ 1):
                attempt(decoder, sample[:at] + bytes([value]) + sample[at + 1 :])


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_mutations(name: str, data: st.DataObject) -> None:
    decoder, samples = DECODERS[name]
    sample = bytearray(data.draw(st.sampled_from(samples)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(sample)))
        end = data.draw(st.integers(at, min(len(sample), at + 8)))
        piece = data.draw(st.one_of(st.binary(max_size=8), st.sampled_from(samples)))
        sample[at:end] = piece
    attempt(decoder, bytes(sample))


DEEP = 50_000
BOMBS = {
    "nested arrays": b"\x91" * DEEP,
    "nested maps": b"\x81\xa1a" * DEEP,
    "an array of four thousand millions": b"\xdd\xff\xff\xff\xff",
    "a map of four thousand millions": b"\xdf\xff\xff\xff\xff",
    "bytes that are not there": b"\xc6\xff\xff\xff\xff",
    "text that is not there": b"\xdb\xff\xff\xff\xff",
    "a tag and nested arrays": b"\x95\xa9subscribe" + b"\x91" * DEEP,
    "a long tag": b"\x91\xda\xff\xff" + b"x" * 65_535,
    "billion laughs": b"<!DOCTYPE a [<!ENTITY b 'c'><!ENTITY d '&b;&b;&b;&b;'>]><a>&d;</a>",
    "deep elements": b"<a>" * DEEP,
    "many attributes": b"<a " + b" ".join(b"a%d='1'" % number for number in range(20_000)) + b"/>",
}


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_cost_little(name: str, bomb: str) -> None:
    decoder, _ = DECODERS[name]
    for prefix in (b"", b"\x00\x00", b"A", b"K", b"X"):
        tracemalloc.start()
        before_s = time.process_time()
        try:
            attempt(decoder, prefix + BOMBS[bomb])
            took_s = time.process_time() - before_s
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert took_s < 3.0
        assert peak < 64 << 20


@pytest.mark.parametrize("sequence", [-1, 1 << 62, (1 << 64) - 1])
def test_a_number_after_which_there_is_none(sequence: int) -> None:
    """What counts up from a peer's number must be able to."""
    with pytest.raises(ProtocolError):
        decode_overlaid(encode_overlaid(States((BrokerLinks("a", sequence, {}),))))
    with pytest.raises(ProtocolError):
        decode_plan(encode_plan(PlanState(sequence, "a", 0, {0: b""})))


# -- the splitter --------------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10), st.lists(st.integers(1, 30), max_size=40))
def test_frames_come_out_as_they_went_in_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(framed(body) for body in bodies)
    splitter = Splitter(50)
    frames: list[bytes] = []
    for cut in cuts:
        frames += splitter.feed(stream[:cut])
        stream = stream[cut:]
    frames += splitter.feed(stream)
    assert frames == bodies
    assert splitter.waiting == 0


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 64))
@example([b"\xff\xff\xff\xff"], 64)
@example([b"\x00\x00\x00\x00"], 64)
def test_a_splitter_keeps_no_more_than_a_frame(chunks: list[bytes], limit: int) -> None:
    splitter = Splitter(limit)
    for chunk in chunks:
        try:
            frames = splitter.feed(chunk)
        except ProtocolError:
            return
        assert all(1 <= len(one) <= limit for one in frames)
        assert splitter.waiting < limit + LENGTH.size


def test_a_frame_in_small_pieces_costs_no_more_than_its_size() -> None:
    """A peer that sends a large frame byte by byte must not make us copy it each time."""
    size = 16 << 20
    splitter = Splitter(size)
    data = frame(Kind.EVENT, bytes(size - 1))
    before_s = time.process_time()
    frames: list[bytes] = []
    for at in range(0, len(data), 1_000):
        frames += splitter.feed(data[at : at + 1_000])
    assert [len(one) for one in frames] == [size]
    assert time.process_time() - before_s < 1.0
