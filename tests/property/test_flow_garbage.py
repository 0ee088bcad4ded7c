"""Garbage in batches: compiled kernels refuse what plain code refuses, and do as much before it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.one_by_one import OneByOne
from tests.property.test_flow import CONTENTS, Network, event, prepared

from covey.broker.core import BrokerCore
from covey.protocol.frames import frame

PLAN = [
    ("advertise", 1, "n is not null"),
    ("subscribe", 2, "n > 1 and n < 5"),
    ("subscribe", 3, "n > 3"),
    ("subscribe", 4, "s = 'x'"),
    ("subscribe", 3, "word"),
]
# What means much to MessagePack, and to lengths.
VALUES = (
    0,
    1,
    0x20,
    0x7F,
    0x80,
    0x8F,
    0x90,
    0xA1,
    0xBF,
    0xC0,
    0xC1,
    0xC7,
    0xCB,
    0xCF,
    0xD9,
    0xDB,
    0xDE,
    0xFF,
)

# Of a frame's body. What is of an epoch that is not known is dropped unread in rows, and read first if it is alone.
EPOCH = (23, 24)

changes = st.lists(
    st.tuples(st.integers(0, 10_000), st.one_of(st.sampled_from(VALUES), st.integers(0, 255))),
    min_size=1,
    max_size=3,
)
contents = st.lists(st.sampled_from(CONTENTS), min_size=6, max_size=16)


def garbled(one: bytes, change: list[tuple[int, int]], cut: int) -> bytes:
    """Return a frame with some bytes of its body changed, and some cut off."""
    body = bytearray(one[5:])
    for at, value in change:
        if at % len(body) not in EPOCH:
            body[at % len(body)] = value
    return frame(one[4], bytes(body[: len(body) - cut % len(body)] if cut else body))


def outcome(network: Network, say: Any, data: bytes) -> tuple[str, dict[str, Any]]:
    return "taken" if say(network, data) else "refused", network.heard()


def by_client(network: Network, data: bytes) -> bool:
    network.say(1, data)
    return network.joined[1].is_open


def by_neighbour(network: Network, data: bytes) -> bool:
    is_taken = network.heard_from("a", "b", data)
    network.settle()
    return is_taken


@pytest.mark.parametrize("say", [by_client, by_neighbour])
@given(published=contents, which=st.integers(0, 15), change=changes, cut=st.sampled_from([0, 0, 0, 1, 3, 20]))
def test_garbled_events_in_batches(say: Any, published: list[Any], which: int, change: Any, cut: int) -> None:
    frames = [event(content, 1, number, b"payload") for number, content in enumerate(published, 1)]
    which %= len(frames)
    frames[which] = garbled(frames[which], change, cut)
    data = b"".join(frames)
    networks = [prepared("covering", sort, PLAN) for sort in (BrokerCore, OneByOne)]
    fast, slow = (outcome(network, say, data) for network in networks)
    assert fast == slow


@given(st.lists(st.binary(max_size=60), min_size=6, max_size=12))
def test_random_bodies_in_batches(bodies: list[bytes]) -> None:
    data = b"".join(frame(0x20, body) for body in bodies)
    networks = [prepared("covering", sort, PLAN) for sort in (BrokerCore, OneByOne)]
    fast, slow = (outcome(network, by_neighbour, data) for network in networks)
    assert fast == slow
