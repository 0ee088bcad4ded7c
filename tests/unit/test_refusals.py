"""Refusals have a kind: whether to try again is of use, over the wire and in the client's errors."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from covey.client.publishing import Batch
from covey.errors import RefusedError
from covey.protocol.control import BUSY, FULL, Reply, decode_reply, encode, encode_reply


class ReplyBefore(msgspec.Struct, frozen=True, tag="reply", array_like=True):
    """As it was before refusals had kinds."""

    request: int
    error: str = ""
    event: int = 0


def test_programs_that_know_no_kinds_understand_and_are_understood() -> None:
    said = encode_reply(Reply(0, "no room", 7, FULL))
    assert decode_reply(said) == Reply(0, "no room", 7, FULL)
    assert encode_reply(Reply(7)) == encode(ReplyBefore(7)), "the same bytes as ever"
    assert msgspec.msgpack.decode(said, type=ReplyBefore) == ReplyBefore(0, "no room", 7)
    assert decode_reply(encode(ReplyBefore(0, "no room", 7))) == Reply(0, "no room", 7, "")
    assert decode_reply(encode(Reply(3, "no", kind="of a later version"))).kind == "of a later version"


@pytest.mark.parametrize(("kind", "retry"), [("", False), (BUSY, True), (FULL, True)])
def test_an_error_says_whether_to_try_again_is_of_use(kind: str, retry: bool) -> None:
    error = RefusedError("no", {5: "no"}, kind)
    assert (error.kind, error.retry, set(error.retryable)) == (kind, retry, {5} if retry else set())
    assert RefusedError("no", kind=kind).retry is retry
    assert not RefusedError("no", kind="of a later version").retry, "nobody knows"


def refusals_of(*kinds: str) -> RefusedError:
    """Return the error of a batch of ten events of which the first were refused, each with a kind."""

    async def main() -> RefusedError:
        batch = Batch()
        for number, kind in enumerate(kinds, 1):
            batch.refusals[number] = RefusedError(f"no {kind}", {number: f"no {kind}"}, kind)
        with pytest.raises(RefusedError) as caught:
            batch.raise_refusals(10)
        return caught.value

    return asyncio.run(main())


def test_of_several_events_all_must_be_of_use_and_each_can_be_told_apart() -> None:
    mixed = refusals_of(FULL, "", BUSY)
    assert (mixed.retry, mixed.kind, set(mixed.retryable)) == (False, "", {1, 3})
    assert mixed.refusals == {1: "no full", 2: "no ", 3: "no busy"}
    later = refusals_of(BUSY, FULL)
    assert (later.retry, later.kind, set(later.retryable)) == (True, BUSY, {1, 2})
