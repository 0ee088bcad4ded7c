"""Events: nested names, and that looking up and flattening agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.event import MAX_EVENT_DEPTH, Event, content_of, flatten, lookup
from covey.errors import EventError

names = st.sampled_from(("a", "b", "a.b", "b.c", "a.b.c"))
events = st.recursive(
    st.one_of(st.integers(0, 3), st.none(), st.just("x")),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
).filter(lambda event: isinstance(event, dict))


@given(events)
def test_flattening_and_looking_up_agree(event: dict[str, Any]) -> None:
    flat = flatten(event)
    assert all(lookup(event, name) == value for name, value in flat.items())
    for name in ("a", "b", "a.b", "b.c", "a.b.c", "a.a", "b.a.b", "a.b.a", "a.b.b.c"):
        assert lookup(event, name) == flat.get(name)


def test_a_dotted_name_wins_over_a_nested_one() -> None:
    event = {"a": {"b": 1}, "a.b": 2}
    assert lookup(event, "a.b") == 2
    assert flatten(event) == {"a.b": 2}


def test_none_is_absence_and_a_mapping_is_no_value() -> None:
    event = {"a": None, "b": {"c": None}, "d": {}}
    assert flatten(event) == {}
    assert lookup(event, "b") is None


def test_names_that_are_no_text_are_passed_over() -> None:
    assert flatten({"a": {1: 2, "b": 3}, 5: {"c": 1}}) == {"a.b": 3}  # type: ignore[dict-item]  # on purpose


def test_deep_events_are_refused() -> None:
    event: dict[str, Any] = {"a": 1}
    for _ in range(MAX_EVENT_DEPTH - 1):
        event = {"a": event}
    assert len(flatten(event)) == 1
    with pytest.raises(EventError, match="deeper than 32"):
        flatten({"a": {"a": event}})


def test_the_payload_is_not_looked_at() -> None:
    event = Event({"a": 1}, b"anything")
    assert content_of(event) == {"a": 1}
    assert content_of({"a": 1}) == {"a": 1}
