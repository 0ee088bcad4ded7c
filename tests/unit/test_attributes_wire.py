"""The wire form: its bytes, its sizes, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from covey.core.attributes import constraint as conditions
from covey.core.attributes.filter import FALSE, TRUE, AttributeFilter, conjunction, decode_attributes
from covey.core.attributes.parser import parse_attributes
from covey.errors import FilterError


def wire(form: object) -> bytes:
    return b"A" + msgspec.msgpack.encode(form)


@pytest.mark.parametrize(
    ("items", "side"),
    [
        (("a", "=", 5), 5),
        (("a", "=", 2.5), 2.5),
        (("a", "=", "x"), "x"),
        (("a", "=", True), True),
        (("a", "exists"), None),
        (("a", "<", 5), [None, 5, 0]),
        (("a", "between", (1, 5)), [1, 5, 2]),
        (("a", ">", 5), [5, None, 3]),
        (("a", "like", "ab%"), ["ab", "ac"]),
        (("a", ">=", "x"), ["x", None]),
        (("a", "in", ["x", 2, True, 1]), [[True, 1, 2, "x"]]),
        (("a", "like", "a%b"), ["a%b"]),
        (("a", "not like", "%b"), [None, "%b"]),
        (("a", "<>", 5), [0, [None, 0, 5, 0, 5, 1, None, 1], [], [], []]),
        (("a", "<>", "x"), [0, [], ["", "x", "x\0", None], [], []]),
        (("a", "is null"), [1, [], [], [], []]),
    ],
)
def test_forms(items: tuple[Any, ...], side: object) -> None:
    f = conjunction([items])
    assert f.encode() == wire([["a", side]])
    assert decode_attributes(f.encode()) == f


def test_true_and_false() -> None:
    assert TRUE.encode() == wire([[]])
    assert FALSE.encode() == wire([])
    assert decode_attributes(TRUE.encode()) == TRUE
    assert decode_attributes(FALSE.encode()) == FALSE


@pytest.mark.parametrize(
    "form",
    [
        None,
        [[], []],
        ["a"],
        [["a"]],
        [["", 1]],
        [["b", 1, "a", 1]],
        [["a", 1, "a", 1]],
        [["n" * 257, 1]],
        [[1, 1]],
        [["a", 2.0]],
        [["a", -0.0]],
        [["a", float("inf")]],
        [["a", float("nan")]],
        [["a", 2**63]],
        [["a", "x" * 4097]],
        [["a", [5, 5, 2]]],
        [["a", [5, 4, 2]]],
        [["a", [5, 5, 0]]],
        [["a", [1, 5, 4]]],
        [["a", [1, 5, True]]],
        [["a", [None, 5, 1]]],
        [["a", ["x", "x\0"]]],
        [["a", ["b", "a"]]],
        [["a", [None, None]]],
        [["a", [[]]]],
        [["a", [[1]]]],
        [["a", [[2, 1]]]],
        [["a", [["x", 1]]]],
        [["a", [["a", "a\0"]]]],
        [["a", [[None]]]],
        [["a", ["ab%"]]],
        [["a", ["ab"]]],
        [["a", ["%%a"]]],
        [["a", ["%\\a"]]],
        [["a", ["%a\\"]]],
        [["a", [None, "_%"]]],
        [["a", []]],
        [["a", [1, 2, 3, 4]]],
        [["a", [0, [], [], [], []]]],
        [["a", [16, [], [], [], []]]],
        [["a", [15, [None, 0, None, 1], ["", None], [], []]]],
        [["a", [0, [1, 0, 1, 1], [], [], []]]],
        [["a", [0, [1, 0, 2, 1, 2, 1, 3, 1], [], [], []]]],
        [["a", [0, [1, 0], [], [], []]]],
        [["a", [1, [], ["a", "b"], ["%a%"], []]]],
        [["a", [1, [], ["", None], ["%b", "%a"], []]]],
        [["a", [1, None, [], [], []]]],
        [["a", 1], ["a", 2]],
        [["b", 1], ["a", 2]],
        [["a", 1], ["a", 1, "b", 1]],
        [["a", 1], ["a", 1]],
        [[f"n{k:02}", 1] for k in range(65)],
        [["a", [2, [], [], [], []]]],  # other kinds alone: no text says this
        {"a": 1},
        [["a", {"a": 1}]],
        [["a", b"x"]],
        [["a", [[[1]]]]],
    ],
)
def test_forms_that_no_filter_has(form: object) -> None:
    with pytest.raises(FilterError):
        decode_attributes(wire(form))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"A",
        b"X\x90",
        b"A\x90\x90",
        b"A\x91\x92\xa1a\xd0\x05",  # 5 in two bytes
        b"A\x91\x92\xd9\x01a\x05",  # a name with a longer length than needed
        b"A\x91\x92\xa1a\xca\x40\x20\x00\x00",  # a short float
        b"A\x91\x92\xa2\xed\xa0\x05",
        b"A\x91\x92\xa1a\xa3\xed\xa0\x80",  # a surrogate
        b"A\xdd\xff\xff\xff\xff",
        b"A" + b"\x91" * 60_000,
        b"A" + b"\x90" * 70_000,
    ],
)
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(FilterError):
        decode_attributes(data)


def test_a_filter_too_long_for_the_wire() -> None:
    long = AttributeFilter.any_of(
        [AttributeFilter.of("a", conditions.compare("=", f"{k:03}" + "x" * 400)) for k in range(300)]
    )
    with pytest.raises(FilterError, match="65536"):
        long.encode()


def test_what_filters_say_alike_is_kept_once() -> None:
    first, second = (
        decode_attributes(parse_attributes(text).encode()) for text in ("a > 1 and b = 'x'", "a > 1")
    )
    assert first.conjunctions[0].constraints[0] is second.conjunctions[0].constraints[0]


def test_numbers_that_are_equal_but_written_otherwise_are_not_taken_for_each_other() -> None:
    good = parse_attributes("a between 1 and 2").encode()
    assert decode_attributes(good).encode() == good
    for wrong in (b"\xc3", b"\xca\x3f\x80\0\0", b"\xcb\x3f\xf0" + 6 * b"\0"):  # true, 1.0 and 1.0 again
        with pytest.raises(FilterError):
            decode_attributes(good.replace(b"\x01", wrong, 1))
