"""Events: what producers publish and filters judge.

An event's content is one of three kinds, each judged by one family of filters:

    a mapping of names to scalars     attributes   {"symbol": "IBM", "quote": {"price": 12}}
    a Document, or XML text or bytes  xpath        <news><item/></news>
    a set or frozenset of words       keywords     {"nokia", "phone"}

Names of nested mappings join with dots: the event above has the attributes `symbol` and `quote.price`. A name
that contains a dot itself wins over a nested one. None is the same as absence. A value that is neither number,
string nor boolean (a list, NaN) is present and equal to nothing for filters, and refused when it is published
(`core/content.py`). The payload is carried, never looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from covey.errors import EventError

MAX_EVENT_DEPTH = 32
MAX_ATTRIBUTES = 4_096  # of an event that is published: a few milliseconds of work

_SCALARS = frozenset((str, int, float, bool))  # asked first: to ask whether something is a Mapping takes long


@dataclass(frozen=True, slots=True)
class Event:
    """What a producer publishes: content that filters judge, and bytes that they do not."""

    content: Any
    payload: bytes = b""


def content_of(event: object) -> Any:
    """Return what filters judge: the content of an Event, or `event` itself when it is bare content."""
    return event.content if type(event) is Event else event


def lookup(attributes: Mapping[str, Any], name: str) -> Any:
    """Return the value of the attribute `name`, following nested mappings; None when there is none."""
    value = attributes.get(name)
    if value is None and "." in name:
        value = _lookup_nested(attributes, name)
    return None if isinstance(value, Mapping) else value


def _lookup_nested(attributes: Mapping[str, Any], name: str) -> Any:
    head, dot, rest = name.partition(".")
    while dot:
        inner = attributes.get(head)
        if isinstance(inner, Mapping):
            value = lookup(inner, rest)
            if value is not None:
                return value
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def flatten(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes as one flat mapping; for each name the same value that `lookup` gives.

    Raises EventError when mappings nest deeper than MAX_EVENT_DEPTH.
    """
    flat: dict[str, Any] = {}
    nested: list[tuple[str, Mapping[str, Any]]] = []
    for name, value in attributes.items():
        kind = type(value)
        if kind in _SCALARS:
            flat[name] = value
        elif kind is dict or isinstance(value, Mapping):
            nested.append((name, value))
        elif value is not None:
            flat[name] = value
    if nested:
        _flatten_nested(flat, nested, depth=1)
    return flat


def _flatten_nested(flat: dict[str, Any], nested: list[tuple[str, Mapping[str, Any]]], depth: int) -> None:
    if depth > MAX_EVENT_DEPTH:
        raise EventError(f"an event's mappings nest deeper than {MAX_EVENT_DEPTH} levels")
    if len(nested) > 1:
        # Shorter heads first: `lookup` splits a dotted name at its first dot first.
        nested.sort(key=lambda item: str(item[0]).count("."))
    for name, mapping in nested:
        if not isinstance(name, str):
            continue
        inner: list[tuple[str, Mapping[str, Any]]] = []
        for key, value in mapping.items():
            if not isinstance(key, str) or value is None:
                continue
            kind = type(value)
            if kind not in _SCALARS and (kind is dict or isinstance(value, Mapping)):
                inner.append((key, value))
            else:
                flat.setdefault(f"{name}.{key}", value)
        if inner:
            deeper: dict[str, Any] = {}
            _flatten_nested(deeper, inner, depth + 1)
            for key, value in deeper.items():
                flat.setdefault(f"{name}.{key}", value)
