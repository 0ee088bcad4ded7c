"""Which steps lead to a strategy's tables: functions on a partition's batches, and what must be in one partition.

    flooding               nothing
    simple, match-first    (combine equal filters ─ by filter ─) spread
    identity               combine equal filters ─ by filter ─ spread
    covering and its kin   combine what covers ─ by broker ─ the maximal ones ─ all ─ passes
    regions                combine what covers ─ by broker ─ the maximal ones ─ by filter ─ spread
    merging                combine equal filters, or join them ─ by broker ─ again ─ all ─ passes

The last step is given the network as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

import covey.strategies  # noqa: F401 (registers them)
from covey.errors import ConfigError
from covey.pipeline.tables.local import combine_batches, equal_once, joined_once, uncovered_once
from covey.pipeline.tables.passes import cover_batches, maximal_batches, merge_batches
from covey.pipeline.tables.spread import EACH, ONCE, SUM, spread_batches
from covey.routing.strategy import registered
from covey.strategies.merging.reduction import merged
from covey.strategies.reductions import REDUCTIONS, Reduction, distinct, everything, nothing, uncovered


class Step(NamedTuple):
    """A function on the batches of a partition, and the columns by which rows are put into partitions before.

    None: as they are; no column: all of them into one.
    """

    compute: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    together: tuple[str, ...] | None = None


def reduction_of(strategy: str) -> Reduction:
    """Return the reduction of a strategy; ConfigError if there is no such strategy or it has none."""
    name = registered(strategy).name
    found = REDUCTIONS.get(name)
    if found is None:
        raise ConfigError(
            f"the tables of {name} depend on what happened before, so they cannot be computed "
            f"(hint: one of {', '.join(REDUCTIONS)})"
        )
    return found


def steps_of(strategy: str, *, keys: bool, advertisements: bool) -> tuple[Step, ...]:
    """Return the steps from subscriptions to entries; ConfigError for a strategy without a reduction."""
    reduction = reduction_of(strategy)
    reduce = reduction.reduce
    by_filter = Step(partial(combine_batches, combine=equal_once))
    if reduce is nothing:
        return (Step(no_batches),)
    if reduce is everything:
        if keys:
            owners = registered(strategy).name == "match-first"
            return (Step(partial(spread_batches, how=EACH, owners=owners)),)
        return by_filter, Step(partial(spread_batches, how=SUM, owners=False), ("encoded",))
    if reduce is distinct:
        return by_filter, Step(partial(spread_batches, how=ONCE, owners=False), ("encoded",))
    if reduce is uncovered:
        uncovering = Step(partial(combine_batches, combine=uncovered_once))
        at_home = uncovering, Step(maximal_batches, ("broker",))
        if not reduction.by_home:
            return *at_home, Step(cover_batches, ())
        if keys:
            return *at_home, Step(partial(spread_batches, how=EACH, owners=True))
        return *at_home, Step(partial(spread_batches, how=SUM, owners=False), ("encoded",))
    assert not reduction.by_home, strategy
    # With advertisements, filters that are joined may be wanted in different places.
    join_first = reduce is merged and not advertisements
    combining = Step(partial(combine_batches, combine=joined_once if join_first else equal_once))
    merging = Step(partial(merge_batches, reduce=reduce, keys=keys), ())
    return combining, combining._replace(together=("broker",)), merging


def no_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return nothing."""
    return iter(())
