"""The arrays behind the attribute index, and the loops that add and remove rows in batches.

`Store` owns every array that kernels work on and makes room before they run: kernels report that they stopped for
lack of room, the store grows what is short, and the kernel goes on where it stopped. Nothing here knows of names,
strings or filters; channels.py does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from covey.matching.attributes.changing import (
    CONSIDER,
    GIVE_BACK,
    NOTE,
    PLACE,
    POST,
    ROOM_WORDS,
    TAKE,
    change_rows,
)
from covey.matching.attributes.constraints import rehash
from covey.matching.attributes.forwarding import links_batch
from covey.matching.attributes.grids import (
    FIRST_WORDS,
    QUERY_ROOM,
    is_in_block,
    refresh_block_links,
)
from covey.matching.attributes.heap import (
    ACCEPTOR_ROOM,
    BLOCK_ROOM,
    BLOCK_TOP,
    CONSTRAINTS,
    EXTRA_ROWS,
    FREED,
    FREED_ROOM,
    HANDLES,
    HEAP_ROOM,
    LARGEST_BLOCK,
    LINKED,
    META_LENGTH,
    MOVED,
    POSTED_EXTRA,
    QUERIES,
    QUESTION_ROOM,
    ROWS,
    SMALL_GRID,
    TABLE_MASK,
    TOP,
    VERIFIED,
    WANTED,
    WIDEST,
)
from covey.matching.attributes.layout import LINE, Channel, Extra
from covey.matching.attributes.lists import SHARED_BIT, refresh_links
from covey.matching.attributes.memory import ADDRESSES, WORKSPACE, Memory, Workspace, memory_at
from covey.matching.attributes.moving import CROWD_WORDS
from covey.matching.attributes.postings import (
    EVERY,
    read_rows,
)
from covey.matching.attributes.query import query_batch
from covey.matching.attributes.room import Room, grown
from covey.matching.jit import (
    BLOCK,
    Floats,
    Ints,
    Longs,
    kernel,
    part,
)
from covey.matching.records import note_addresses

# When rows are moved to grids: if a query has to verify MUCH rows on the average.
MUCH = 128
LEAST_QUERIES = 32
ENOUGH_VERIFIED = MUCH * LEAST_QUERIES
A_LOOK = 64  # rows that are verified in the time in which one is looked at and moved
MOST_LOOKS, FEW_LOOKS = 2048, 256  # at a time; and where others wait: that is a millisecond
MOST_PATIENCE = 1024
CHANGED = 8  # one of so many rows must be new for patience to end
FEW_ACCEPTORS = 256  # for which there is always room


@kernel
def refresh_all_links(addresses: Longs, handles: int) -> None:
    """Compute the masks of all lists anew."""
    m = memory_at(addresses)
    for handle in range(handles):
        _refresh_home(m, m.homes[handle])
    for row in range(m.meta[EXTRA_ROWS]):
        _refresh_home(m, Extra(m, row).home)


@part
def _refresh_home(m: Memory, home: int) -> None:
    if is_in_block(home):
        refresh_block_links(m, -home)
    elif home != 0:
        refresh_links(m, home)


def _on_lines(array: Longs, length: int) -> Longs:
    """Return a longer copy of the array that begins with a cache line, so that no line of a block is in two of them."""
    room: Longs = np.empty(length + LINE, dtype=np.int64)
    shift = -room.ctypes.data % (8 * LINE) // 8
    room[shift : shift + len(array)] = array
    return room[shift : shift + length]


_NONE_SEEN: Ints = np.zeros((1, 1), dtype=np.int32)

Rows: TypeAlias = tuple[Ints, Longs, Ints, Floats, Floats]  # ids, and constraints as `change_rows` takes them
_NO_ROWS: Rows = (
    np.zeros(0, np.int32),
    np.zeros(1, np.int64),
    np.zeros(0, np.int32),
    np.zeros(0),
    np.zeros(0),
)


class Store:
    """Rows of constraints on numbered channels, and the queries on them."""

    def __init__(self) -> None:
        self._heap = Room(np.zeros(2 * ROOM_WORDS, dtype=np.int64))
        self.table: Ints = np.zeros(1024, dtype=np.int32)
        self.channels: Ints = np.zeros((16, Channel.length_in()), dtype=np.int32)
        self.values: Floats = np.full((16, 2), np.nan)
        self.values[0] = 0.0
        self.bounds: Floats = np.empty((16, 2))
        self.homes: Ints = np.zeros(16, dtype=np.int32)
        self.extra: Ints = np.zeros((1, Extra.length_in()), dtype=np.int32)
        self.links: Ints = np.zeros(1, dtype=np.int32)
        self.blocks: Longs = np.zeros(0, dtype=np.int64)
        self.meta: Longs = np.zeros(META_LENGTH, dtype=np.int64)
        self.meta[TOP] = 1  # word 0 is null
        self.meta[BLOCK_TOP] = QUERY_ROOM  # and so is line 0 of blocks
        self.meta[WIDEST] = 16
        self.names: Ints = np.zeros(64, dtype=np.int32)
        self.lows: Floats = np.zeros(64)
        self.highs: Floats = np.zeros(64)
        self.cells: Ints = np.zeros(64, dtype=np.int32)
        self.out: Ints = np.zeros(64, dtype=np.int32)
        self._batch_out: Ints = np.zeros(64, dtype=np.int32)
        self._one_start: Longs = np.zeros(2, dtype=np.int64)
        self._one_end: Longs = np.zeros(1, dtype=np.int64)
        self._one_mask: Longs = np.zeros(1, dtype=np.int64)
        self._freed_channels: Ints = np.zeros(1024, dtype=np.int32)
        self._freed_values: Floats = np.zeros(1024)
        # Room for a question about a filter (asking.py): its acceptors, groups, and their sizes; rows.
        self._acceptors: Ints = np.zeros(FEW_ACCEPTORS, dtype=np.int32)
        self._acceptor_lows: Floats = np.zeros(FEW_ACCEPTORS)
        self._acceptor_highs: Floats = np.zeros(FEW_ACCEPTORS)
        self._groups: Ints = np.zeros(FEW_ACCEPTORS + 1, dtype=np.int32)
        self._sizes: Longs = np.zeros(FEW_ACCEPTORS, dtype=np.int64)
        self._marks: Longs = np.zeros(1, dtype=np.int64)
        self.candidates: Ints = np.zeros(0, dtype=np.int32)
        self._crowds: Longs = np.zeros(CROWD_WORDS, dtype=np.int64)
        self._tidied, self._looked, self._credit, self._patience, self._added = 0, 0, 0.0, 1, 0
        self.addresses: Longs = np.zeros(ADDRESSES, dtype=np.int64)
        self._note_addresses()

    def __getstate__(self) -> dict[str, object]:
        """Return the arrays without those that only hold answers: an index can go to another process as it is."""
        answers: Ints = np.zeros(64, dtype=np.int32)
        return vars(self) | {
            "out": answers,
            "_batch_out": answers.copy(),
            "_marks": self._marks[:1],
            "candidates": answers[:0].copy(),
            "_heap": Room(self._heap.array[: self._used()]),
            "blocks": self.blocks[: int(self.meta[BLOCK_TOP])],
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self.blocks = _on_lines(self.blocks, len(self.blocks))
        self.addresses = np.zeros_like(self.addresses)
        self._note_addresses()

    def _used(self) -> int:
        """Return how many words of the heap hold records, with the block that is read beyond them."""
        return min(len(self._heap.array), int(self.meta[TOP]) + 2 * BLOCK)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.meta[ROWS])

    @property
    def nbytes(self) -> int:
        """How many bytes all arrays take, free room included."""
        return sum(array.nbytes for array in self._memory().values())

    def _memory(self) -> dict[str, np.ndarray]:
        """Return the arrays of `memory.Memory` by its fields."""
        return {
            "f": self._heap.array,
            "table": self.table,
            "channels": self.channels,
            "values": self.values,
            "bounds": self.bounds,
            "homes": self.homes,
            "extra": self.extra,
            "links": self.links,
            "meta": self.meta,
            "b": self.blocks,
        }

    def _note_addresses(self) -> None:
        """Tell kernels where the arrays are; to be called after any of them was replaced."""
        self.meta[TABLE_MASK] = len(self.table) - 1
        self.meta[EXTRA_ROWS] = len(self.extra)
        self.meta[BLOCK_ROOM] = len(self.blocks)
        self.meta[HANDLES] = len(self.homes)
        self.meta[QUESTION_ROOM] = min(64 * len(self._marks), len(self.candidates) // 2)
        self.meta[ACCEPTOR_ROOM] = len(self._acceptors)
        self.meta[HEAP_ROOM] = (
            len(self._heap.array) - BLOCK
        )  # copying ids by the block reads up to a block more
        self.meta[FREED_ROOM] = len(self._freed_channels)
        note_addresses(self.addresses, Memory, self._memory())
        room = {
            "intervals": {"names": self.names, "lows": self.lows, "highs": self.highs},
            "cells": self.cells,
            "out": self.out,
            "acceptors": {
                "names": self._acceptors,
                "lows": self._acceptor_lows,
                "highs": self._acceptor_highs,
            },
            "groups": self._groups,
            "sizes": self._sizes,
            "marks": self._marks,
            "candidates": self.candidates,
            "freed_channels": self._freed_channels,
            "freed_values": self._freed_values,
            "crowds": self._crowds,
        }
        note_addresses(self.addresses, Workspace, room, WORKSPACE)

    def make_channel(self, channel: int, absence: bool) -> None:
        """Make a channel usable; one for absence holds for every event that does not say otherwise."""
        if channel >= len(self.channels):
            self.channels = grown(self.channels, channel + 1)
            self.bounds = grown(self.bounds, channel + 1)
            self.values = grown(self.values, channel + 1, fill=np.nan)
            self._note_addresses()
        self.channels[channel] = 0
        self.channels[channel, Channel.index_of("absence")] = int(absence)
        self.bounds[channel] = (np.inf, -np.inf)
        self.values[channel] = 1.0 if absence else np.nan

    def make_handles(self, count: int) -> None:
        """Make room for handles below `count`."""
        if count > len(self.homes):
            self.homes = grown(self.homes, count)
            if self.meta[LINKED]:
                self.links = grown(self.links, len(self.homes))
            self._note_addresses()

    def set_link(self, handle: int, link: int) -> None:
        """Note the link, a number from 0 up, of a handle about to be added."""
        if not self.meta[LINKED]:
            self.links = grown(self.links, len(self.homes))
            self.meta[LINKED] = 1
            self._note_addresses()
            refresh_all_links(self.addresses, len(self.homes))
        self.links[handle] = link

    def make_extra(self, count: int) -> None:
        """Make room for that many rows of filters with several conjunctions."""
        if count > len(self.extra):
            self.extra = grown(self.extra, count)
            self._note_addresses()

    def _grow(self) -> None:
        old = self.table
        if 2 * (self.meta[CONSTRAINTS] + self.meta[WIDEST]) > self.meta[TABLE_MASK]:
            self.table = np.zeros(2 * len(old), dtype=np.int32)
        self._heap.grow(int(self.meta[TOP] + self.meta[WANTED]) + BLOCK)
        self._grow_blocks()
        self._note_addresses()
        if old is not self.table:
            rehash(self.addresses, old)

    def _grow_blocks(self) -> None:
        """Make room for one more block of a grid."""
        needed = int(self.meta[BLOCK_TOP] + self.meta[LARGEST_BLOCK])
        if self.meta[LARGEST_BLOCK] and needed > len(self.blocks):
            self.blocks = _on_lines(self.blocks, max(needed, len(self.blocks) * 5 // 4))

    def add_rows(
        self, ids: Ints, starts: Longs, names: Ints, lows: Floats, highs: Floats, widest: int
    ) -> None:
        """Add rows: row n has the constraints from starts[n] to starts[n + 1], at most `widest` of them."""
        if len(ids) == 0:
            return
        self.meta[WIDEST] = max(self.meta[WIDEST], widest)
        self.make_intervals(int(self.meta[WIDEST]))
        self._added += len(ids)
        for work in (NOTE, PLACE):
            self._change(work, 0, len(ids), (ids, starts, names, lows, highs))

    def _change(self, work: int, first: int, last: int, given: Rows | None = None) -> None:
        """Let the kernel do a kind of work with rows, and grow what it finds too short."""
        given = _NO_ROWS if given is None else given
        while (first := change_rows(self.addresses, work, *given, first, last)) < last:
            self._grow()

    def remove_rows(self, ids: Ints) -> list[tuple[int, float]]:
        """Remove rows; return the equalities, and with NaN the channels, that no row uses any more."""
        freed: list[tuple[int, float]] = []
        if len(self._freed_channels) < 4 * self.meta[WIDEST]:
            self._freed_channels = np.zeros(4 * self.meta[WIDEST], dtype=np.int32)
            self._freed_values = np.zeros(len(self._freed_channels))
            self._note_addresses()
        done, given = 0, (ids, *_NO_ROWS[1:])
        while done < len(ids):
            done = change_rows(self.addresses, TAKE, *given, done, len(ids))
            count = int(self.meta[FREED])
            channels, values = self._freed_channels[:count].tolist(), self._freed_values[:count].tolist()
            freed.extend(zip(channels, values, strict=True))
            self.meta[FREED] = 0
            if done < len(ids):
                self._grow()
        if self.meta[SMALL_GRID]:
            self.give_back()
        return freed

    def give_back(self) -> None:
        """Move the rows of grids that have few left to lists."""
        self._change(GIVE_BACK, 0, 1)

    def tidy(self, most: int = MOST_LOOKS) -> None:
        """Move some rows to where queries find them with less work, if those since the last call have spent much.

        Of so many rows that were verified one is looked at. If none was found to move for a whole round, the next one
        waits for more, and again for more, until many filters have come.
        """
        if self.meta[VERIFIED] < ENOUGH_VERIFIED:
            return
        verified, queries = int(self.meta[VERIFIED]), int(self.meta[QUERIES]) - self._tidied
        self.meta[VERIFIED] = 0
        self._tidied += queries
        if CHANGED * self._added > self.rows:
            self._patience, self._added = 1, 0
        if verified < MUCH * queries:
            return
        self._credit += verified / (A_LOOK * self._patience)
        count = min(int(self._credit), most)
        if count:
            self._credit = min(self._credit - count, MOST_LOOKS)
            self.consider(count)

    def consider(self, count: int) -> None:
        """Move those of the next `count` rows to grids that are better there."""
        self.meta[LARGEST_BLOCK] = max(self.meta[LARGEST_BLOCK], FIRST_WORDS)
        rows = len(self.homes) + len(self.extra)
        if self._looked >= rows:
            self._patience = 1 if self.meta[MOVED] else min(2 * self._patience, MOST_PATIENCE)
            self._crowds[:] = 0
            self.meta[MOVED] = 0
            self._looked = 0
        last = min(self._looked + count, rows)
        self._change(CONSIDER, self._looked, last)
        self._looked = last

    def in_grids(self) -> int:
        """Return how many rows stand in grids."""
        return int((self.homes < 0).sum() + (self.extra[:, Extra.index_of("home")] < 0).sum())

    def make_postings(self, most: int) -> bool:
        """Make postings of so many more rows, and keep them from now on; return whether all rows have theirs."""
        self._change(POST, 0, most)
        return bool(self.meta[POSTED_EXTRA] == EVERY)

    def make_question(self) -> None:
        """Make postings of all rows, and room to mark every row and to write all of them twice."""
        while self.meta[POSTED_EXTRA] != EVERY:
            self.make_postings(EVERY)
        rows = len(self.homes) + len(self.extra)
        self._marks = grown(self._marks, rows // 64 + 1)
        if len(self.candidates) < 2 * rows:
            self.candidates = np.empty(2 * rows * 5 // 4, dtype=np.int32)
        self._note_addresses()

    def set_acceptors(self, acceptors: Sequence[tuple[int, float, float, int]], groups: int) -> None:
        """Write the acceptors (channel, low, high, group) of a conjunction, in order of groups, where kernels look for
        them."""
        count = len(acceptors)
        if count > len(self._acceptors) or groups > len(self._sizes):
            self._acceptors = grown(self._acceptors, max(count, groups))
            self._acceptor_lows = grown(self._acceptor_lows, len(self._acceptors))
            self._acceptor_highs = grown(self._acceptor_highs, len(self._acceptors))
            self._groups = grown(self._groups, len(self._acceptors) + 1)
            self._sizes = grown(self._sizes, len(self._acceptors))
            self._note_addresses()
        names, lows, highs, group_of = zip(*acceptors, strict=True) if acceptors else ((), (), (), ())
        self._acceptors[:count] = names
        self._acceptor_lows[:count] = lows
        self._acceptor_highs[:count] = highs
        self._groups[: groups + 1] = np.searchsorted(group_of, range(groups + 1))

    def read(self, ids: Ints) -> tuple[Longs, Ints, Floats, Floats]:
        """Return the constraints of rows in the form that `add_rows` takes."""
        size = len(ids) * int(self.meta[WIDEST])
        starts = np.zeros(len(ids) + 1, dtype=np.int64)
        names, lows, highs = np.zeros(size, dtype=np.int32), np.zeros(size), np.zeros(size)
        read_rows(self.addresses, ids, starts, names, lows, highs, 0)
        return starts, names, lows, highs

    def links_batch(self, starts: Longs, names: Ints, points: Floats, links: int) -> list[list[int]]:
        """Return the links, of which there are `links`, that each event must go to."""
        count = len(starts) - 1
        width = links + 1 if links > SHARED_BIT else 0
        seen = np.zeros((count, width) if width else (1, 1), dtype=np.int32)
        masks = self.link_masks(starts, names, points, links, seen)
        result = [
            [link for link in range(1, min(links, SHARED_BIT)) if mask >> link & 1] for mask in masks.tolist()
        ]
        if width:
            for number, row in enumerate(seen):
                result[number] += np.flatnonzero(row[:links]).tolist()
        return result

    def link_hits(self, starts: Longs, names: Ints, points: Floats, links: int) -> NDArray[np.bool_]:
        """Return for each of the `links` links, and each event, whether the event must go there."""
        count = len(starts) - 1
        width = links + 1 if links > SHARED_BIT else 0
        seen = np.zeros((count, width) if width else (1, 1), dtype=np.int32)
        masks = self.link_masks(starts, names, points, links, seen)
        own = min(links, SHARED_BIT)
        hits = np.zeros((links, count), np.bool_)
        hits[:own] = masks >> np.arange(own)[:, None] & 1
        if width:
            hits[own:] = seen[:, own:links].T != 0
        return hits

    def links_one(self, names: Ints, points: Floats, count: int, links: int) -> int:
        """Return the mask of links, fewer than SHARED_BIT, for one event: the first `count` of `names` and `points`."""
        self.make_out()
        self.make_intervals(count)
        self._one_start[1] = count
        links_batch(self.addresses, self._one_start, names, points, links, _NONE_SEEN, self._one_mask)
        self.tidy()
        return int(self._one_mask[0])

    def link_masks(self, starts: Longs, names: Ints, points: Floats, links: int, seen: Ints) -> Longs:
        """Return the links below SHARED_BIT that each event must go to, as masks; the others are marked in `seen`."""
        masks = np.zeros(len(starts) - 1, dtype=np.int64)
        self.make_out()
        if len(masks):
            self.make_intervals(int((starts[1:] - starts[:-1]).max()))
        links_batch(self.addresses, starts, names, points, links, seen, masks)
        self.tidy()
        return masks

    def make_intervals(self, count: int) -> None:
        """Make room in `names`, `lows` and `highs` for a query with that many channels."""
        if count > len(self.names):
            self.names = grown(self.names, count)
            self.lows = grown(self.lows, len(self.names))
            self.highs = grown(self.highs, len(self.names))
            self.cells = grown(self.cells, len(self.names))
            self._note_addresses()

    def query(self, count: int) -> Ints:
        """Return the handles of rows whose constraints contain the first `count` intervals of `names`, `lows`, `highs`.

        The answer is a view, valid until the next query.
        """
        self.make_out()
        self._one_start[1] = count
        intervals = (self.names, self.lows, self.highs)
        query_batch(self.addresses, self._one_start, *intervals, 0, self.out, self._one_end)
        self.tidy()
        return self.out[: self._one_end[0]]

    def make_out(self) -> None:
        """Make room for the answer of one query."""
        if len(self.out) < self.meta[ROWS] + BLOCK:
            self.out = np.empty(self.rows * 5 // 4 + 64, dtype=np.int32)
            self._note_addresses()

    def query_batch(self, starts: Longs, names: Ints, points: Floats) -> tuple[Ints, Longs]:
        """Match many events; return all handles in one array, and where those of each event end.

        The array is a view, valid until the next batch: fresh memory for each batch costs more than the matching.
        """
        count = len(starts) - 1
        if count:
            self.make_intervals(int((starts[1:] - starts[:-1]).max()))
        ends = np.zeros(count, dtype=np.int64)
        done = 0
        if len(self._batch_out) < self.rows + 1024:
            self._batch_out = grown(self._batch_out, self.rows + 1024)
        while True:
            self.tidy()
            done = query_batch(self.addresses, starts, names, points, points, done, self._batch_out, ends)
            if done == count:
                break
            if len(self._batch_out) < (int(ends[done - 1]) if done else 0) + self.rows + BLOCK:
                self._batch_out = grown(self._batch_out, len(self._batch_out) * 2 + self.rows)
        return self._batch_out[: ends[-1] if count else 0], ends
