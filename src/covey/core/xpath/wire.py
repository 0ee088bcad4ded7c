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

from covey.core.xpath.canonical import fold, reduce_branches
from covey.core.xpath.pattern import MAX_NODES, WILDCARD, Node, Test, is_name
from covey.core.xpath.text import check_size
from covey.errors import FilterError

MARK = b"X"
MAX_WIRE_LENGTH = 65_536

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list).decode


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
    try:
        items = _decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FilterError(f"the wire form is not MessagePack: {error}") from None
    budget = [MAX_NODES]
    pattern = _read(items, budget)
    check_size(pattern)
    return pattern


def _read(items: list[Any], budget: list[int]) -> Node:
    """Return the node of a path, read backwards so that every child is there before its parent."""
    children: list[Node] = []
    tests: list[Test] = []
    label: str | None = None
    node: Node | None = None
    for item in reversed(items):
        kind = type(item)
        if kind is int and label is not None:
            budget[0] -= 1
            node = _check(item, label, tests, children)
            children, tests, label = [node], [], None
        elif kind is str and label is None:
            label = item
        elif kind is list and item and label is None:
            if type(item[0]) is str:
                tests.append(_read_test(item))
            elif not tests and budget[0] > 0:
                children.append(_read(item, budget))
            else:
                raise _broken()
        else:
            raise _broken()
    # Whatever was read after the last complete step has no step to belong to.
    if node is None or label is not None or tests or len(children) != 1 or budget[0] < 0:
        raise _broken()
    return node


def _check(edge: int, label: str, tests: list[Test], children: list[Node]) -> Node:
    if not 0 <= edge <= MAX_NODES or not (label == WILDCARD or is_name(label)):
        raise _broken()
    below = tuple(children[::-1]) if len(children) > 1 else tuple(children)
    if len(below) > 1 and reduce_branches(below) != below:
        raise _broken()
    asked = tuple(reversed(tests)) if tests else ()
    if len(asked) > 1 and any(asked[i][0] >= asked[i + 1][0] for i in range(len(asked) - 1)):
        raise _broken()
    if label == WILDCARD and not asked:
        node = fold(edge, label, asked, below)
        if node.edge != edge or node.children != below:
            raise _broken()
        return node
    return Node(edge, label, asked, below)


def _read_test(item: list[Any]) -> Test:
    if len(item) > 2 or not is_name(item[0]) or type(item[-1]) is not str:
        raise _broken()
    return tuple(item)


def _broken() -> FilterError:
    return FilterError("the wire form is not that of a canonical xpath filter")
