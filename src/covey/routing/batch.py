"""Many packed events of one source at once: what `Router.handle` would do with them one by one, as arrays.

For strategies that send an event on as it came to whoever has a matching entry. What one of these arrays says of an
event, it says by the event's number in the batch; for each link the order is that of the outputs one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.matching.attributes.packed import PackedEvents
from covey.matching.jit import Ints, Longs
from covey.routing.messages import Link, Tree
from covey.routing.seen import Seen
from covey.routing.tree import TreePart

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Events from one source. Trees and `flooded` are what a neighbour has written on them; a client's are ignored.

    Each is a packed event in its one form (`matching.attributes.checking`).
    """

    events: PackedEvents
    trees: Ints
    flooded: Mask
    name_of: Callable[[int], str]  # the id of an event, by its number

    def __len__(self) -> int:
        return len(self.events)

    def some(self, which: Mask) -> EventBatch:
        """Return some of the events, numbered anew."""
        numbers = np.flatnonzero(which).tolist()
        return EventBatch(
            self.events.some(which),
            self.trees[which],
            self.flooded[which],
            lambda number: self.name_of(numbers[number]),
        )


class Onward(NamedTuple):
    """What goes over one link: events in their order, and what is on the envelope of each."""

    link: Link
    events: Longs
    trees: Ints
    flooded: Mask


class BatchOutputs(NamedTuple):
    """What is to be done with a batch.

    `handles` are those of the local subscriptions that get events, event by event, and `ends` says where those of each
    event end; `Router.local` has their places. They are a view, valid until the next input.
    """

    handles: Ints
    ends: Longs
    onward: list[Onward]


_Ways = dict[Link, list[tuple[Longs, Tree, bool]]]


def own_ways(
    batch: EventBatch, source: Link, telling: Sequence[tuple[Tree, TreePart]], counters: Counter[str]
) -> list[Onward]:
    """Return where the events of a client go: on every tree that tells, or flooded on the first."""
    first, part = telling[0]
    advertised = part.are_advertised(source, batch.events)
    ways: _Ways = {}
    if advertised.all():
        which = np.arange(len(batch))
    else:
        which = np.flatnonzero(~advertised)
        counters["unadvertised_events"] += len(which)
        for link in part.neighbours():
            ways.setdefault(link, []).append((which, first, True))
        which = np.flatnonzero(advertised)
    if len(which):
        events = batch.events if len(which) == len(batch) else batch.events.some(which)
        for tree, part in telling:
            for link, hits in _hops(part, events, source):
                ways.setdefault(link, []).append((which[hits], tree, False))
    return _onward(ways)


def carried_ways(batch: EventBatch, source: Link, parts: dict[Tree, TreePart]) -> list[Onward]:
    """Return where the events of a neighbour go on, each on its tree."""
    ways: _Ways = {}
    for tree in np.unique(batch.trees).tolist():
        part = parts[tree]
        mine = batch.trees == tree
        which = np.flatnonzero(mine & batch.flooded)
        if len(which):
            for link in part.neighbours():
                if link != source:
                    ways.setdefault(link, []).append((which, tree, True))
        which = np.flatnonzero(mine & ~batch.flooded)
        if len(which):
            events = batch.events if len(which) == len(batch) else batch.events.some(which)
            for link, hits in _hops(part, events, source):
                ways.setdefault(link, []).append((which[hits], tree, False))
    return _onward(ways)


def _hops(part: TreePart, events: PackedEvents, source: Link) -> Iterator[tuple[Link, Mask]]:
    """Yield the open neighbours but the source, and which events go there."""
    if not any(link != source for link in part.neighbours()):
        return
    links, hits = part.strategy.next_hops_packed(events)
    row_of = {link: row for row, link in enumerate(links)}
    for link in part.neighbours():
        row = row_of.get(link)
        if row is not None and link != source:
            yield link, hits[row]


def _onward(ways: _Ways) -> list[Onward]:
    result: list[Onward] = []
    for link, some in ways.items():
        if len(some) == 1:
            which, tree, is_flooded = some[0]
            if len(which):
                trees, flooded = np.full(len(which), tree, np.int32), np.full(len(which), is_flooded)
                result.append(Onward(link, which, trees, flooded))
            continue
        which = np.concatenate([events for events, _, _ in some])
        if not len(which):
            continue
        sizes = [len(events) for events, _, _ in some]
        trees = np.repeat(np.array([tree for _, tree, _ in some], np.int32), sizes)
        flooded = np.repeat(np.array([is_flooded for _, _, is_flooded in some]), sizes)
        # What there is of one event stays in the order in which it was found.
        order = np.argsort(which, kind="stable")
        result.append(Onward(link, which[order], trees[order], flooded[order]))
    return result


def first_times(batch: EventBatch, seen: Seen) -> Mask:
    """Note the events; return which are new."""
    return np.array([seen.add(batch.name_of(number)) for number in range(len(batch))], np.bool_)


def only(handles: Ints, ends: Longs, which: Mask) -> tuple[Ints, Longs]:
    """Return what was found for the events that are chosen; nothing is left of the others."""
    sizes = np.diff(ends, prepend=0)
    return handles[np.repeat(which, sizes)], np.cumsum(np.where(which, sizes, 0))
