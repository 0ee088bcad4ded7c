"""An index that changes answers packed events, wherever they lie in a buffer, as it answers dictionaries."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import special_values
from tests.oracles.filter_texts import events_for, texts, trees

from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.parser import parse_attributes
from covey.core.filter import Filter
from covey.core.packing import pack, unpack
from covey.errors import EventError, FilterError
from covey.matching.attributes import channels as channels_module
from covey.matching.attributes.checking import MOST_NAMES, are_packed
from covey.matching.attributes.packed import PackedEvents
from covey.matching.attributes.texts import Texts, find_one
from covey.matching.index import Index


def packed(contents: list[bytes], gap: bytes = b"") -> PackedEvents:
    """Return events that lie apart from each other, the last one first."""
    data = b""
    places: list[tuple[int, int]] = []
    for content in reversed(contents):
        data += gap
        places.insert(0, (len(data), len(data) + len(content)))
        data += content
    pairs = np.array(places, np.int64).reshape(-1, 2)
    return PackedEvents(np.frombuffer(data + b"\xc1", np.uint8), pairs[:, 0].copy(), pairs[:, 1].copy())


def matched(index: Index, events: PackedEvents) -> list[set[Any]]:
    handles, ends = index.match_packed(events)
    keys = index.keys_of(handles).tolist()
    return [set(keys[start:end]) for start, end in pairwise([0, *ends.tolist()])]


def linked(index: Index, events: PackedEvents) -> list[set[Any]]:
    links, hits = index.links_packed(events)
    return [
        {link for link, hit in zip(links, row, strict=True) if hit and link is not None}
        for row in hits.T.tolist()
    ]


def check(index: Index, there: dict[int, Filter], events: list[dict[str, Any]], gap: bytes) -> None:
    """Ask an index that has the filters `there` about events, packed and plain."""
    batch = packed([pack(event) for event in events], gap)
    plain = [unpack(pack(event)) for event in events]
    found = matched(index, batch)
    assert found == [{key for key, filter in there.items() if filter.matches(event)} for event in events]
    assert found == [set(index.match(event)) for event in plain]
    assert [len(keys) for keys in found] == np.diff([0, *index.match_packed(batch)[1].tolist()]).tolist()
    assert linked(index, batch) == [index.links(event) for event in plain]


@given(data=st.data())
def test_a_changing_index_answers_packed_events(data: st.DataObject) -> None:
    index, key = Index(), 0
    filters: list[AttributeFilter] = []
    events: list[dict[str, Any]] = [{}]
    for tree in data.draw(st.lists(trees, min_size=1, max_size=4)):
        try:
            filters.append(parse_attributes(data.draw(texts(tree))))
        except FilterError as error:
            assert "conjunctions" in error.problem
            continue
        for event in data.draw(st.lists(events_for(tree), max_size=3)):
            try:
                pack(event)
            except EventError:
                continue
            events.append(event)
    filters += [parse_attributes(f"s = '{letter}' and n > {k}") for k, letter in enumerate("abc")]
    events += [{"s": "a", "n": 1.5}, {"s": "c", "n": 7, "é": "ü"}, *special_values.events()]
    there: dict[int, Filter] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        if len(there) > 0 and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(list(there)))
            index.remove(gone)
            del there[gone]
        else:
            link = data.draw(st.sampled_from([None, "x", "y", "z"]))
            there[key] = data.draw(
                st.one_of(st.sampled_from(filters), st.sampled_from(special_values.filters()))
            )
            index.add(key, there[key], link)
            key += 1
        if data.draw(st.booleans()):
            check(index, there, events, data.draw(st.sampled_from([b"", b"\0\xffgap"])))
    check(index, there, events, b"gap")


def test_many_texts_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels_module, "LONGEST_JOURNAL", 700)
    index, rng = Index(), np.random.default_rng(6)
    events = [{"s": f"text{n}", f"name{n % 90}": n} for n in range(0, 400, 7)]
    there: dict[int, Filter] = {}
    for turn in range(60):
        # Now and then so many that the journal is given up.
        for key in rng.integers(0, 400, 900 if turn % 20 == 19 else 40).tolist():
            if key in there:
                index.remove(key)
                del there[key]
            else:
                there[key] = parse_attributes(f"s = 'text{key}' and name{key % 90} >= {key}")
                index.add(key, there[key], key % 70)
        check(index, there, events, b"-")
    assert any(there)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.binary(max_size=3)), max_size=200))
def test_texts_are_a_dictionary(steps: list[tuple[bool, int, bytes]]) -> None:
    texts_, model = Texts([(0, b"first", 7)]), {(0, b"first"): 7}
    for number, (adds, owner, text) in enumerate(steps):
        if adds and (owner, text) not in model:
            texts_.add(owner, text, number)
            model[owner, text] = number
        elif not adds and model:
            owner, text = list(model)[number % len(model)]
            texts_.remove(owner, text)
            del model[owner, text]
        assert len(texts_) == len(model)
    for (owner, text), value in model.items():
        found = find_one(np.frombuffer(text, np.uint8), owner, *texts_.arrays)
        assert texts_.values[found] == value
        assert find_one(np.frombuffer(text + b"!!!!", np.uint8), owner, *texts_.arrays) == -1


def passes(content: bytes) -> bool:
    return bool(are_packed(packed([content], b"\x81"))[0])


def map_of(*items: tuple[bytes, bytes]) -> bytes:
    return bytes([0x80 + len(items)]) + b"".join(
        bytes([0xA0 + len(name)]) + name + value for name, value in items
    )


@given(st.binary(max_size=6))
def test_what_passes_can_be_unpacked(text: bytes) -> None:
    for content in (map_of((text, b"\1")), map_of((b"a", bytes([0xA0 + len(text)]) + text)), text):
        try:
            known = unpack(content)
        except EventError:
            assert not passes(content)
        else:
            # Numbers may be written longer than needed: that passes, and is not what `pack` writes.
            assert passes(content) or pack(known) != content


@settings(max_examples=300)
@given(st.text(max_size=12), st.integers(0, 8), st.integers(0, 255))
def test_utf8_is_judged_as_python_does(text: str, place: int, byte: int) -> None:
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    assert passes(map_of((bytes(content)[:31], b"\1"))) == is_utf8(bytes(content)[:31])
    if content:
        content[place % len(content)] = byte
        assert passes(map_of((bytes(content)[:31], b"\1"))) == is_utf8(bytes(content)[:31])


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_what_is_written_in_a_rare_way_does_not_pass() -> None:
    assert passes(pack({"a": 1, "b": "ü", "c": True, "e": 2**64 - 1, "f": 1e300}))
    assert passes(pack({f"n{k}": k for k in range(MOST_NAMES)}))
    assert not passes(pack({f"n{k}": k for k in range(MOST_NAMES + 1)}))
    assert not passes(pack({"a": 2**64}))
    assert not passes(pack({"a": [1]}))  # and this one cannot be published at all
    assert not passes(msgspec.msgpack.encode({"a": float("nan")}))
    assert not passes(map_of((b"a", b"\1"), (b"b", b"\1"), (b"a", b"\2")))
    assert not passes(msgspec.msgpack.encode({"a": {"b": 1}}))
    assert not passes(pack({"a": 1}) + b"\0")
    assert not passes(b"")


def test_an_attribute_twice_is_refused_before_it_is_matched_twice() -> None:
    index = Index()
    index.add("x", parse_attributes("a = 1"))
    with pytest.raises(EventError, match="event 0 "):
        index.match_packed(packed([map_of((b"a", b"\1"), (b"a", b"\1"))]))
