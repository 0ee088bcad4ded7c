"""Digest and difference: two brokers compare what they know without sending it.

What a neighbour knows is a set of *facts*. The end that remembers some from before puts each into one of 2ᵏ buckets
and sends the digest of each bucket; the end that knows what is true now does the same with its own facts and answers
with the whole content of the buckets whose digests differ. A bucket holds about eight facts, so that a difference costs
a few facts and agreement costs a byte each. Digests are of bytes, never Python's hash: they mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from covey.core.filter import Filter
from covey.errors import ProtocolError

BUCKET_SIZE: Final = 8
MAX_BUCKETS: Final = 1 << 16

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


def digest(facts: Iterable[Fact]) -> Digest:
    """Return the digest of what is remembered."""
    facts = list(facts)
    if not facts:
        return ()
    buckets = 1
    while buckets * BUCKET_SIZE < len(facts) and buckets < MAX_BUCKETS:
        buckets *= 2
    return _digest(facts, buckets)


def _digest(facts: Sequence[Fact], buckets: int) -> Digest:
    sums = [0] * buckets
    for fact in facts:
        sums[bucket_of(fact, buckets)] ^= _number(fact)
    return tuple(sums)


def _number(fact: Fact) -> int:
    """Return 63 bits that stand for the fact: as many as every wire format has for an integer."""
    body = f"{fact.key}\0{fact.owner}\0{fact.counts}\0".encode() + fact.filter.encode()
    return int.from_bytes(blake2b(body, digest_size=8).digest(), "big") >> 1


def difference(facts: Sequence[Fact], theirs: Digest) -> tuple[int, dict[int, tuple[Fact, ...]]]:
    """Return the number of buckets, and the content of each in which `facts` differ from the digest `theirs`."""
    if len(theirs) > MAX_BUCKETS:
        raise ProtocolError(f"a digest has {len(theirs):,} buckets; {MAX_BUCKETS:,} is the most")
    if not theirs:
        return 1, {0: tuple(facts)} if facts else {}
    mine = _digest(facts, len(theirs))
    changed: dict[int, list[Fact]] = {
        bucket: [] for bucket, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]
    }
    if changed:
        for fact in facts:
            bucket = bucket_of(fact, len(theirs))
            if bucket in changed:
                changed[bucket].append(fact)
    return len(theirs), {bucket: tuple(content) for bucket, content in changed.items()}


def restore(remembered: Iterable[Fact], buckets: int, changed: Mapping[int, Sequence[Fact]]) -> list[Fact]:
    """Return what is true now: the remembered facts of unchanged buckets, and the content of the changed ones."""
    if not 1 <= buckets <= MAX_BUCKETS or not all(0 <= bucket < buckets for bucket in changed):
        raise ProtocolError("a difference names a bucket that is not there")
    facts = [fact for fact in remembered if bucket_of(fact, buckets) not in changed]
    for bucket in sorted(changed):
        facts += changed[bucket]
    return facts
