"""Aggregation as planned: filters leave a broker as one where a plan says so, exactly or with a stated excess.

After N. Wang and J. Wu (*Minimizing the Subscription Aggregation Cost in the Content-based Pub/Sub System*). The paper
decides which filters to merge at which broker on their way to a producer (`planning.aggregation`); this strategy does
so.

    block     filters that the plan merges towards a neighbour (`routing.aggregation`)
    merger    what a block is told as: the exact merge of its members; or one filter that covers them all, if of the
              sampled events no more than the plan's excess match it and none of them
    release   a member leaves: the merger of the members that stay is told, then the merger before is withdrawn
    others    what belongs to no block is told as it is; of all that is told only what is maximal

Where the paper differs:

1. An aggregator of the paper forgets what it has merged and must ask for it again, which takes up to as many hops as
   the furthest member is away. A broker here has what its neighbours told it in its table. So it collects from there,
   in the step in which the member leaves, and a release costs one message more than a withdrawal and no waiting.
2. The new merger is told before the old one is withdrawn, on a FIFO link: there is no gap. A merger's label is a digest
   of it, so that no label ever stands for another filter.
3. What a block is told as depends on the plan and on the set of filters that a neighbour must know, not on the order in
   which they came: `aggregated` says it at once.

Towards neighbours for which nothing is planned, filters are told as under covering.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from covey.core.filter import Filter
from covey.routing.aggregation import Aggregation, Block
from covey.routing.messages import Link
from covey.routing.strategy import Registered, Site, add
from covey.strategies.coverset import CoverSet
from covey.strategies.maximal import maximal
from covey.strategies.merging.groups import loosely_merged
from covey.strategies.merging.maximal import Changes
from covey.strategies.merging.perfect import Merging, Needs
from covey.strategies.merging.reduction import merged, wire_form

MOST_PARTS: Final = 256  # exact mergers of a block that are told as one with an excess


class Blocks:
    """The blocks planned towards one neighbour: to which of them a filter belongs, and how loosely to merge."""

    def __init__(self, planned: Sequence[Block], aggregation: Aggregation) -> None:
        self._inputs: CoverSet[tuple[int, int]] = CoverSet()
        self._told: CoverSet[tuple[int, int]] = CoverSet()
        for number, block in enumerate(planned):
            for place, filter in enumerate(dict.fromkeys(block.inputs)):
                self._inputs.add((number, place), filter)
            for place, filter in enumerate(dict.fromkeys(block.told)):
                self._told.add((number, place), filter)
        self._events = aggregation.events
        self._allowed = aggregation.allowed if aggregation.excess else -1

    def block_of(self, filter: Filter) -> int | None:
        """Return the number of the block to which a filter belongs; None if to none."""
        for known in (self._inputs, self._told):
            found = sorted(known.covering(filter))
            if found:
                smallest = min(found, key=lambda place: (_covered(known, place, found), place))
                return smallest[0]
        return None

    def let_in(self, filter: Filter) -> int:
        """Return which of the sampled events a filter matches, as bits."""
        return sum(1 << place for place, event in enumerate(self._events) if filter.matches(event))

    def is_within(self, loose: Filter, wanted: int) -> bool:
        """Return whether a merger lets in no more than it may beside the events that are wanted."""
        return (self.let_in(loose) & ~wanted).bit_count() <= self._allowed

    @property
    def is_loose(self) -> bool:
        """Whether mergers may let in anything that their members do not want."""
        return self._allowed >= 0


def _covered(
    known: CoverSet[tuple[int, int]], place: tuple[int, int], found: Sequence[tuple[int, int]]
) -> int:
    """Return how many of the found filters one covers: the fewer, the smaller it is."""
    return sum(known[place].covers(known[other]) for other in found)


def told_as(parts: Sequence[Filter], blocks: Blocks, bits: dict[Filter, int]) -> list[Filter]:
    """Return what a block is told as, from its exact mergers, with what each of these matches of the sampled events."""
    ordered = sorted(parts, key=wire_form)
    if not blocks.is_loose or not 1 < len(ordered) <= MOST_PARTS:
        return ordered
    loose = loosely_merged(ordered)
    wanted = 0
    for part in ordered:
        wanted |= bits[part]
    return [loose] if loose is not None and blocks.is_within(loose, wanted) else ordered


def block_of(inputs: Sequence[Filter], events: Sequence[Any], excess: float) -> Block:
    """Return the block of these inputs, as it is told when all of them are there."""
    blocks = Blocks((), Aggregation({}, events, excess))
    parts = merged(inputs)
    told = told_as(parts, blocks, {part: blocks.let_in(part) for part in parts})
    return Block(tuple(dict.fromkeys(inputs)), tuple(told))


def aggregated(filters: Iterable[Filter], blocks: Blocks) -> list[Filter]:
    """Return what a neighbour is told that must know these filters, ordered by wire form: the steady state."""
    members: dict[int | None, list[Filter]] = {}
    for filter in dict.fromkeys(filters):
        members.setdefault(blocks.block_of(filter), []).append(filter)
    told = dict.fromkeys(members.pop(None, []))
    for mine in members.values():
        parts = merged(mine)
        told.update(dict.fromkeys(told_as(parts, blocks, {part: blocks.let_in(part) for part in parts})))
    return [item[1] for item in maximal([("", filter) for filter in sorted(told, key=wire_form)])]


class _Members:
    """The members of one block that are there, their exact mergers, and what they are told as."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._exact = Needs()
        self._bits: dict[Filter, int] = {}  # of each exact merger, the sampled events that it matches
        self.told: list[Filter] = []

    def __bool__(self) -> bool:
        return bool(self._exact.filters)

    def change(self, removed: Sequence[Filter], added: Sequence[Filter]) -> None:
        """Take members out and put members in; `told` follows."""
        changes = self._exact.change(removed, added)
        for item in changes.left:
            self._bits.pop(item.filter, None)
        if self._blocks.is_loose:
            self._bits.update((item.filter, self._blocks.let_in(item.filter)) for item in changes.entered)
        self.told = told_as([item.filter for item in self._exact.items()], self._blocks, self._bits)


class PlannedNeeds(Needs):
    """What one neighbour must know, in the blocks of the plan: `aggregated`, kept up to date step by step."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__()
        self._blocks = blocks
        self._members: dict[int, _Members] = {}
        self._tellers: Counter[Filter] = Counter()  # how many blocks a filter is told for, and itself

    def change(self, removed: Iterable[Filter], added: Iterable[Filter]) -> Changes:
        """Take filters out that are there, put filters in that are not; return what changes of what is told."""
        touched: dict[int, tuple[list[Filter], list[Filter]]] = {}
        tellers: Counter[Filter] = Counter()
        for count, filters in ((-1, removed), (1, added)):
            for filter in filters:
                self._note(filter, count)
                number = self._blocks.block_of(filter)
                if number is None:
                    tellers[filter] += count
                else:
                    touched.setdefault(number, ([], []))[count > 0].append(filter)
        for number, (gone, come) in touched.items():
            members = self._members.setdefault(number, _Members(self._blocks))
            tellers.subtract(members.told)
            members.change(gone, come)
            tellers.update(members.told)
            if not members:
                del self._members[number]
        return self._tell(tellers)

    def _tell(self, tellers: Counter[Filter]) -> Changes:
        """Let each filter be told for so many more blocks, or fewer; return what changes of the maximal ones."""
        gone, come = [], []
        for filter, count in tellers.items():
            before = self._tellers[filter]
            now = before + count
            if now:
                self._tellers[filter] = now
            else:
                del self._tellers[filter]
            if before and not now:
                gone.append(self.item(filter))
            elif now and not before:
                come.append(self.item(filter))
        return self._mergers.change(gone, come)


class PlannedMerging(Merging):
    """Blocks are told as the plan says."""

    name = "aggregation"
    dialect = "aggregation"
    perfect = False
    description = (
        "filters are merged where a plan says, exactly or with a stated excess; trees as under `trees`"
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._planned: dict[Link, Blocks] = {}  # the plan never changes, and links come and go

    def new_needs(self, link: Link) -> Needs:
        """Return the state of a neighbour that was told nothing."""
        blocks = self._planned.get(link)
        if blocks is None:
            aggregation = self.site.plan.aggregation
            planned = aggregation.blocks(self.site.tree, self.site.broker, link)
            blocks = self._planned[link] = Blocks(planned, aggregation)
        return PlannedNeeds(blocks)


add(
    Registered(
        name=PlannedMerging.name,
        make=PlannedMerging,
        dialect=PlannedMerging.dialect,
        perfect=PlannedMerging.perfect,
        description=PlannedMerging.description,
        trees=True,
    )
)
