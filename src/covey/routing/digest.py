"""Digest and difference: two brokers compare what they know without sending it.

What a neighbour knows is a set of *facts*. The end that remembers some from before puts each into one of 2ᵏ buckets
and sends the digest of each bucket; the end that knows what is true now does the same with its own facts and answers
with the whole content of the buckets whose digests differ. A bucket holds about eight facts, so that a difference costs
a few facts and agreement costs a byte each. Digests are of bytes, never Python's hash: they mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from covey.core.filter import Filter
from covey.errors import ProtocolError
from covey.routing.work import BATCH, Work, batches

BUCKET_SIZE: Final = 8
MAX_BUCKETS: Final = 1 << 16
DIGEST_UNITS: Final = 4  # of work, for each fact

Digest: TypeAlias = tuple[int, ...]  # one number a bucket; empty when nothing is remembered


class Fact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One thing that a broker lets a neighbour know: a filter under a key, an owner where it has one, and counts."""

    key: str
    filter: Filter
    owner: str = ""
    counts: tuple[int, ...] = ()


def bucket_of(fact: Fact, buckets: int) -> int:
    """Return the bucket of a fact: by its key and filter, not by its counts, so that a changed one stays in place."""
    label = blake2b(fact.key.encode() + b"\0" + fact.filter.encode(), digest_size=8).digest()
    return int.from_bytes(label, "big") % buckets


def digest(facts: Sequence[Fact]) -> Work[Digest]:
    """Return the digest of what is remembered."""
    if not facts:
        return ()
    buckets = 1
    while buckets * BUCKET_SIZE < len(facts) and buckets < MAX_BUCKETS:
        buckets *= 2
    return (yield from _digest(facts, buckets))


def _digest(facts: Sequence[Fact], buckets: int) -> Work[Digest]:
    sums = [0] * buckets
    for some in batches(facts, BATCH):
        for fact in some:
            sums[bucket_of(fact, buckets)] ^= _number(fact)
        yield DIGEST_UNITS * len(some)
    return tuple(sums)


def _number(fact: Fact) -> int:
    """Return 63 bits that stand for the fact: as many as every wire format has for an integer."""
    body = f"{fact.key}\0{fact.owner}\0{fact.counts}\0".encode() + fact.filter.encode()
    return int.from_bytes(blake2b(body, digest_size=8).digest(), "big") >> 1


def difference(facts: Sequence[Fact], theirs: Digest) -> Work[tuple[int, dict[int, list[Fact]]]]:
    """Return the number of buckets, and the content of each in which `facts` differ from the digest `theirs`."""
    if len(theirs) > MAX_BUCKETS:
        raise ProtocolError(f"a digest has {len(theirs):,} buckets; {MAX_BUCKETS:,} is the most")
    if not theirs:
        return 1, {0: list(facts)} if facts else {}
    mine = yield from _digest(facts, len(theirs))
    changed: dict[int, list[Fact]] = {
        bucket: [] for bucket, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]
    }
    for some in batches(facts if changed else (), BATCH):
        for fact in some:
            bucket = bucket_of(fact, len(theirs))
            if bucket in changed:
                changed[bucket].append(fact)
        yield DIGEST_UNITS * len(some)
    return len(theirs), changed


def pieces(changed: Mapping[int, Sequence[Fact]], size: int) -> Iterator[dict[int, tuple[Fact, ...]]]:
    """Yield the content of buckets in pieces of at most `size` facts, one at least; a bucket may be in several."""
    piece: dict[int, tuple[Fact, ...]] = {bucket: () for bucket, content in changed.items() if not content}
    facts = ((bucket, fact) for bucket, content in changed.items() for fact in content)
    for some in batches(facts, size):
        for bucket, same in groupby(some, itemgetter(0)):
            piece[bucket] = tuple(fact for _, fact in same)
        yield piece
        piece = {}
    if piece or not changed:
        yield piece


def check(buckets: int, changed: Iterable[int]) -> None:
    """Raise ProtocolError for a difference that names a bucket which is not there."""
    if not 1 <= buckets <= MAX_BUCKETS or not all(0 <= bucket < buckets for bucket in changed):
        raise ProtocolError("a difference names a bucket that is not there")


def unchanged(remembered: Sequence[Fact], buckets: int, changed: Container[int]) -> Work[list[Fact]]:
    """Return what of the remembered facts is still true: those in the buckets that have not changed."""
    facts: list[Fact] = []
    for some in batches(remembered, BATCH):
        facts += [fact for fact in some if bucket_of(fact, buckets) not in changed]
        yield DIGEST_UNITS * len(some)
    return facts
