"""The wire form of a pattern: the letter X and one MessagePack array.

    path   = [ edge, label, extra ..., edge, label, extra ..., ... ]      each step is the last child of the one before
    extra  = [ name ] | [ name, value ]                                   a test
           | path                                                         a child that is not the last

Only the canonical form is accepted, so equal filters are equal bytes, and whatever comes in is checked completely:
types, names, limits and canonical order.
"""

from __future__ import annotations

from typing import Any

import msgspec

from covey.core.xpath.canonical import is_canonical
from covey.core.xpath.pattern import MAX_TEXT_LENGTH, MAX_TOKENS, WILDCARD, Node, Test, is_name
from covey.core.xpath.text import check_size
from covey.errors import FilterError

MARK = b"X"
MAX_WIRE_LENGTH = 65_536

# No filter within the limits of texts takes more from the budget of `_read`.
WORK_LIMIT = 5 * MAX_TOKENS

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list).decode

# Half the time of calling Node, which matters where a hundred thousand filters are restored.
_new = tuple.__new__

# Labels that were found to be names, so that a step takes one look; emptied when it is full.
_labels = {WILDCARD}
MAX_LABELS = 8192


def encode_pattern(pattern: Node) -> bytes:
    """Return the wire form of a canonical pattern."""
    return MARK + _encode(_path(pattern))


def _path(node: Node) -> list[Any]:
    items: list[Any] = []
    while True:
        edge, label, tests, children = node
        items.append(edge)
        items.append(label)
        if tests:
            items.extend(tests)
        if not children:
            return items
        if len(children) > 1:
            items.extend(map(_path, children[:-1]))
        node = children[-1]


def decode_pattern(data: bytes) -> Node:
    """Return the pattern of its wire form; raise FilterError for any bytes that are not one."""
    if data[:1] != MARK:
        raise FilterError("this is not the wire form of an xpath filter", expected="bytes that begin with X")
    if len(data) > MAX_WIRE_LENGTH:
        raise FilterError(f"the wire form has {len(data)} bytes", expected=f"at most {MAX_WIRE_LENGTH}")
    body = data[1:]
    try:
        items = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FilterError(f"the wire form is not MessagePack: {error}") from None
    budget = [WORK_LIMIT]
    pattern = _read(items, budget)
    # A short form with few nodes, levels and tests cannot have a text beyond the limits.
    if WORK_LIMIT - budget[0] > MAX_TOKENS or len(data) > MAX_TEXT_LENGTH // 4:
        check_size(pattern)
    # MessagePack has several forms for one number or string. What was read is in canonical order, so its items are
    # those of the pattern.
    if _encode(items) != body:
        raise _broken()
    return pattern


def _read(items: list[Any], budget: list[int]) -> Node:
    """Return the node of a path, read backwards so that every child is there before its parent.

    The budget bounds the work; what is taken from it is never less than the tokens of the text.
    """
    budget[0] -= 3 * len(items)
    if budget[0] < 0:
        raise _broken()
    children: tuple[Node, ...] = ()
    tests: tuple[Test, ...] = ()
    parts = reversed(items)
    for part in parts:
        if type(part) is str:
            edge = next(parts, None)
            if part not in _labels:
                _learn(part)
            if type(edge) is not int:
                raise _broken()
            if edge:
                budget[0] -= 2 * edge
                if edge < 0 or budget[0] < 0:
                    raise _broken()
            if (part == WILDCARD or len(children) > 1 or len(tests) > 1) and not is_canonical(
                edge, part, tests, children
            ):
                raise _broken()
            children = (_new(Node, (edge, part, tests, children)),)
            tests = ()
        elif type(part) is list and part:
            budget[0] -= 3
            if type(part[0]) is str:
                tests = (_read_test(part), *tests)
            elif children and not tests:
                children = (_read(part, budget), *children)
            else:
                raise _broken()
        else:
            raise _broken()
    # Whatever was read after the last complete step has no step to belong to.
    if tests or len(children) != 1:
        raise _broken()
    return children[0]


def _learn(label: str) -> None:
    if not is_name(label):
        raise _broken()
    if len(_labels) >= MAX_LABELS:
        _labels.clear()
        _labels.add(WILDCARD)
    _labels.add(label)


def _read_test(item: list[Any]) -> Test:
    if len(item) > 2 or not is_name(item[0]) or type(item[-1]) is not str:
        raise _broken()
    return tuple(item)


def _broken() -> FilterError:
    return FilterError("the wire form is not that of a canonical xpath filter")
