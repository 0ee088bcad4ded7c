"""Events as dictionaries: whatever they hold, the index answers as the scan, one by one and in batches.

An event of plain values goes to a kernel in its packed form, and others do not. MessagePack has a text for some values
that are no texts for filters (times, decimals, enumerations), which must not be taken for one.
"""

from __future__ import annotations

import ctypes
import datetime
import enum
import math
import uuid
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import special_values
from tests.strategies import attribute_events, attribute_filters

from covey.core import packing
from covey.core.attributes.filter import conjunction
from covey.core.attributes.parser import parse_attributes
from covey.core.event import MAX_EVENT_DEPTH, flatten
from covey.core.packing import pack, pack_many, pack_plain
from covey.errors import EventError
from covey.matching.attributes import channels, view
from covey.matching.index import BATCH, Index
from covey.matching.jit import address_of_bytes
from covey.matching.keyset import HANDLES
from covey.matching.scan import ScanIndex

_DAY = datetime.date(2026, 11, 18)
_ID = uuid.UUID(int=7)


class Colour(enum.Enum):
    RED = "red"


class Name(enum.StrEnum):
    """Its text and the value that MessagePack has for it are different."""

    A = "a"

    def __new__(cls, text: str) -> Name:
        self = str.__new__(cls, text)
        self._value_ = "b"
        return self


class Text(str):
    pass


class Whole(int):
    pass


class Table(dict[str, Any]):
    pass


ODD: tuple[Any, ...] = (
    *(Decimal("1.5"), _DAY, datetime.datetime(2026, 11, 18), datetime.timedelta(1), _ID, Colour.RED, Name.A),
    *(Text("red"), Whole(3), np.int64(3), np.float64(1.5), np.bool_(True), Fraction(3, 2), Fraction(1, 3)),
    *(
        math.nan,
        math.inf,
        -math.inf,
        [],
        [1],
        (),
        b"red",
        bytearray(b"red"),
        {1},
        object(),
        10**5_000,
        3 + 0j,
    ),
    *("red", "\ud800", "a\ud800", "é" * 40, 3, 1.5, True, None, 2**64, -(2**63)),
)
TEXTS = ("red", "1.5", str(_DAY), "2026-11-18T00:00:00", "P1D", str(_ID), "a", "b", "é" * 40, "")
FILTERS = [
    *special_values.filters(),
    *(conjunction([("a", "=", text)]) for text in TEXTS),
    *(conjunction([("a", "like", text[:1] + "%")]) for text in TEXTS if text),
    *map(
        parse_attributes,
        ("a = 3", "a > 1", "a < 2 or b = 3", "n.a = 3", "n.m.a is not null", "a in (1.5, 3)"),
    ),
    *map(parse_attributes, ("b is null", "b <> 'red'", "a is not null and b = true", "TRUE", "FALSE")),
]
SHAPES: tuple[Callable[[Any], Any], ...] = (
    lambda value: {"a": value},
    lambda value: {"a": value, "b": 3, "other": "x"},
    lambda value: {"n": {"a": value, "m": {"a": value}}, "b": True},
    lambda value: {"n.a": 3, "n": {"a": value}},
    lambda value: MappingProxyType({"a": value, "b": "red"}),
    lambda value: Table(a=value),
    lambda value: {1: value, None: value, "a": value},
    lambda value: {Name.A: value, Text("b"): value},
    lambda value: {_DAY: value, _ID: value, Decimal(1): value},
    lambda value: {"a": value} | {f"c{n}": n for n in range(80)},
)


def filled(filters: list[Any], key_of: Callable[[int], Hashable]) -> tuple[Index, ScanIndex]:
    index, scan = Index(), ScanIndex()
    for number, filter in enumerate(filters):
        index.add(key_of(number), filter, f"link {number % 5}")
        scan.add(key_of(number), filter, f"link {number % 5}")
    return index, scan


def check(index: Index, scan: ScanIndex, events: list[Any]) -> None:
    expected = [scan.match(event) for event in events]
    assert [set(index.match(event)) for event in events] == expected
    batch = index.match_batch(events)
    assert [set(keys.tolist()) for keys in batch] == expected
    assert [len(keys) for keys in batch] == [len(index.match(event)) for event in events]
    assert index.links_batch(events) == [index.links(event) for event in events]
    assert index.links_batch(events) == [scan.links(event) for event in events]


KEYS: dict[str, Callable[[int], Hashable]] = {
    "handles": lambda number: number,
    "integers": lambda number: 2**40 - number,
    "texts": lambda number: f"key {number}",
}


@pytest.mark.parametrize("kind", KEYS)
def test_whatever_an_event_holds(kind: str) -> None:
    index, scan = filled(FILTERS, KEYS[kind])
    check(index, scan, [shape(value) for shape in SHAPES for value in ODD])
    check(index, scan, special_values.events())


@given(
    filters=st.lists(attribute_filters(), max_size=8),
    events=st.lists(st.one_of(attribute_events(), st.sampled_from(special_values.events())), max_size=8),
    odd=st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(ODD)), max_size=3),
    kind=st.sampled_from(list(KEYS)),
)
def test_any_filters_and_events(
    filters: list[Any], events: list[Any], odd: list[tuple[Callable[[Any], Any], Any]], kind: str
) -> None:
    index, scan = filled([*filters, *FILTERS], KEYS[kind])
    check(index, scan, [*events, *(shape(value) for shape, value in odd)])


def test_batches_are_matched_in_parts() -> None:
    index, scan = filled(FILTERS, KEYS["integers"])
    events: list[Any] = [{"a": number % 5, "b": "red"} for number in range(2 * BATCH + 3)]
    events[BATCH] = {"a": "\ud800", "b": Decimal(1)}
    check(index, scan, events)
    assert index.match_batch([]) == []


def test_keys_come_and_go() -> None:
    index, scan = Index(), ScanIndex()
    for number in range(3_000):
        index.add(number, parse_attributes(f"a >= {number % 50}"))
    assert index._keys.address == HANDLES
    assert sorted(index.match({"a": 0})) == list(range(0, 3_000, 50))
    index.remove(50)
    index.add(3_000, parse_attributes("a = 0"))  # where 50 has been
    assert index._keys.address not in (0, HANDLES)
    for number in (*range(50), *range(51, 3_001)):
        scan.add(number, parse_attributes(f"a >= {number % 50}" if number < 3_000 else "a = 0"))
    check(index, scan, [{"a": 0}, {"a": 49}, {"a": 30.5}, {}])
    index.add("text", parse_attributes("a = 0"))
    scan.add("text", parse_attributes("a = 0"))
    assert not index._keys.address
    check(index, scan, [{"a": 0}, {"a": 49}])


def test_room_for_keys_grows_whoever_asks_first() -> None:
    """Where keys are written is known to the view alone, which questions about links bring up to date too."""
    index, scan = filled(FILTERS, KEYS["integers"])
    event = {"a": 3}
    for first, last in ((0, 100), (100, 1_100), (1_100, 4_100)):
        assert set(index.match(event)) == scan.match(event)
        for key in range(first, last):
            index.add(key, parse_attributes("a = 3"), "link")
            scan.add(key, parse_attributes("a = 3"), "link")
        assert index.links(event) == scan.links(event)
    assert set(index.match(event)) == scan.match(event)


@pytest.mark.parametrize("extra", [{}, {"huge": 2**70}, {"list": [1]}])
def test_a_nested_event_is_flattened_once(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]) -> None:
    flattened: list[Mapping[str, Any]] = []

    def counted(event: Mapping[str, Any]) -> dict[str, Any]:
        if any(isinstance(value, Mapping) for value in event.values()):
            flattened.append(event)
        return flatten(event)

    index, scan = filled(FILTERS, KEYS["handles"])
    wide = {"a": {**{f"b{number}": number for number in range(5_000)}, "word": "x"}, **extra}
    expected = scan.match(wide)
    for module in (channels, packing):
        monkeypatch.setattr(module, "flatten", counted)
    assert set(index.match(wide)) == expected
    assert len(flattened) == 1


def test_an_event_that_nests_too_deep() -> None:
    index, _ = filled(FILTERS, KEYS["handles"])
    event: dict[str, Any] = {"a": 1}
    for _ in range(MAX_EVENT_DEPTH + 1):
        event = {"n": event}
    for ask in (index.match, index.links, lambda event: index.match_batch([{"a": 1}, event])):
        with pytest.raises(EventError, match="nest deeper than 32 levels"):
            ask(event)


def test_the_address_of_bytes() -> None:
    for data in (b"", b"x", pack({"a": "text", "b": 2**60})):
        assert ctypes.string_at(address_of_bytes(data), len(data) + 1) == data + b"\0"


def test_what_is_packed_without_a_look() -> None:
    plain = {"a": 1, "b": 1.5, "c": "x", "d": True}
    assert pack_plain(plain) == (pack(plain), plain)
    assert pack_plain({"n": plain}) == (pack({"n": plain}), {f"n.{name}": one for name, one in plain.items()})
    assert pack_plain({"a": None, "b": 1})[0] is not None
    odd: tuple[Any, ...] = (Decimal(1), _DAY, _ID, Colour.RED, Name.A, 2**64, "\ud800", [], b"")
    for event in (*({"a": value} for value in odd), *({name: 1} for name in odd[:5])):
        assert pack_plain(event)[0] is None
    assert pack_many([plain, {"a": _DAY}]) == [pack(plain), pack({"a": _DAY})]


def test_kernels_say_what_they_cannot_judge() -> None:
    index, _ = filled([parse_attributes("a <> 3"), parse_attributes("b > 1")], KEYS["handles"])
    rows = index.attributes()

    def ask(data: bytes) -> int:
        return view.match_one(rows.view(None).address, address_of_bytes(data), len(data), 0)

    assert ask(pack({"b": 2})) == 1
    assert ask(pack({"b": 2**60})) == view.MISSING
    assert ask(b"\x81\x01\x02") == view.UNREADABLE
    assert ask(pack({"b": math.nan})) == view.UNREADABLE
    assert ask(b"") == view.UNREADABLE
