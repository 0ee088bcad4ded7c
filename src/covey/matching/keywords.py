"""The index of keyword filters.

A conjunction is tried only for documents that have its rarest word, and then its other words are looked up in
the document; the rest of the index is never touched. The other questions are the same work on other input:

    who covers f      those that match every conjunction of f, each taken as a document
    whom f covers     those whose every conjunction contains one of f's, found in the postings of its rarest

Answers are exactly those of asking each filter in turn. What is fast about it is in `keyword_kernels`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from covey.core.keywords.filter import KeywordFilter
from covey.matching.attributes.heap import META_LENGTH, TOP, WANTED
from covey.matching.attributes.room import Room, grown
from covey.matching.jit import Ints, Longs
from covey.matching.keyword_kernels import (
    AT_ONCE,
    LISTS,
    POSTINGS,
    Bytes,
    Conjunction,
    EntryList,
    Memory,
    Stored,
    add_filter,
    match,
    remove_filter,
    supersets,
)
from covey.matching.records import addresses_of, note_addresses

MOST_STAMPS = 255  # in a byte

_NONE: Ints = np.empty(0, np.int32)


class KeywordIndex:
    """Keyword filters by handle, small numbers that the caller chooses; see the module's text."""

    def __init__(self) -> None:
        self._word_ids: dict[str, int] = {}
        self._free_ids: list[int] = []
        self._everything: set[int] = set()
        self._size = 0
        self._heap = Room(np.zeros(512, np.int64))
        self._meta: Longs = np.zeros(META_LENGTH, np.int64)
        self._meta[TOP] = 1  # word 0 is null
        # A row for each list of each word, and for each handle; a byte for each word and each handle.
        self._lists: Ints = np.zeros((64 * LISTS, EntryList.length_in()), np.int32)
        self._filters: Ints = np.zeros((64, Stored.length_in()), np.int32)
        self._seen: Bytes = np.zeros(64, np.uint8)
        self._found: Bytes = np.zeros(64, np.uint8)
        self._stamp = 0
        self._matched: Ints = np.zeros(AT_ONCE, np.int32)
        self._addresses: Longs = np.zeros(addresses_of(Memory), np.int64)
        self._note_addresses()

    def _note_addresses(self) -> None:
        """Tell kernels where the arrays are; to be called after any of them was replaced."""
        arrays = {
            "f": self._heap.array,
            "lists": self._lists,
            "filters": self._filters,
            "meta": self._meta,
            "seen": self._seen,
            "found": self._found,
            "answers": self._matched,
        }
        note_addresses(self._addresses, Memory, arrays)

    def __getstate__(self) -> dict[str, object]:
        """Return the arrays as another process can have them."""
        return vars(self) | {"_heap": Room(self._heap.array[: int(self._meta[TOP])].copy())}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._addresses = np.zeros_like(self._addresses)
        self._note_addresses()

    def __len__(self) -> int:
        return self._size

    def add(self, handle: int, filter: KeywordFilter) -> None:
        """Add a filter under a handle that is not in use."""
        if handle >= len(self._filters):
            self._grow_filters(handle + 1)
        self._size += 1
        if filter.conjunctions == ((),):
            self._everything.add(handle)
            return
        words: list[int] = []
        ends: list[int] = []
        for conjunction in filter.conjunctions:
            for word in conjunction:
                word_id = self._word_ids.get(word)
                words.append(self._new_word(word) if word_id is None else word_id)
            ends.append(len(words))
        given, last = np.array(words, np.int32), np.array(ends, np.int32)
        done = 0
        while (done := add_filter(self._addresses, len(self._heap.array), handle, given, last, done)) < len(
            ends
        ):
            self._heap.grow(int(self._meta[TOP] + self._meta[WANTED]))
            self._note_addresses()

    def remove(self, handle: int, filter: KeywordFilter) -> None:
        """Remove the filter that was added under the handle."""
        self._size -= 1
        if filter.conjunctions == ((),):
            self._everything.remove(handle)
            return
        remove_filter(self._addresses, handle)
        for conjunction in filter.conjunctions:
            for word in conjunction:
                word_id = self._word_ids.get(word)
                if word_id is not None and not self._postings_of(word_id):
                    del self._word_ids[word]
                    self._free_ids.append(word_id)

    def match(self, content: object) -> Ints:
        """Return the handles of the filters that match a document, each once; a view, valid until the next question."""
        if not isinstance(content, set | frozenset):
            return _NONE
        return self._match(content)

    def covering(self, filter: KeywordFilter) -> Ints:
        """Return the handles of the filters that cover `filter`."""
        first, *others = filter.conjunctions
        handles = self._match(first).copy()
        for conjunction in others:
            if not len(handles):
                break
            handles = np.intersect1d(handles, self._match(conjunction), assume_unique=True)
        return handles

    def covered(self, filter: KeywordFilter) -> Ints:
        """Return the handles of the filters that `filter` covers."""
        if filter.conjunctions == ((),):
            return self._all()
        found = [self._supersets(conjunction) for conjunction in filter.conjunctions]
        distinct = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        numbers = self._heap.array.view(np.int32)
        place = Conjunction.index_of("handle")
        handles, counts = np.unique(numbers[2 * distinct + place], return_counts=True)
        # A filter of several conjunctions is covered if all of them are among those found.
        return handles[counts == self._filters[handles, Stored.index_of("conjunctions")]]

    def overlapping(self, filter: KeywordFilter) -> Ints:
        """Return the handles of the filters that overlap `filter`: all of them."""
        return self._all()

    def _match(self, words: Iterable[object]) -> Ints:
        find = self._word_ids.get
        known = [word_id for word in words if (word_id := find(word)) is not None]  # type: ignore[call-overload]
        if len(self._matched) < self._size + AT_ONCE:
            self._matched = np.zeros(2 * self._size + AT_ONCE, np.int32)
            self._note_addresses()
        self._stamp += 1
        if self._stamp > MOST_STAMPS:
            self._found[:] = 0
            self._stamp = 1
        matched = self._matched[: match(self._addresses, np.array(known, np.int32), self._stamp)]
        return np.concatenate((matched, _array(self._everything))) if self._everything else matched

    def _supersets(self, conjunction: tuple[str, ...]) -> Ints:
        known = [self._word_ids.get(word) for word in conjunction]
        if None in known:
            return _NONE
        room: Ints = np.empty(min(map(self._postings_of, known)), np.int32)  # type: ignore[arg-type]
        return room[: supersets(self._addresses, np.array(known, np.int32), room)]

    def _postings_of(self, word_id: int) -> int:
        """Return how many conjunctions have a word."""
        return int(self._lists[LISTS * word_id + POSTINGS, EntryList.index_of("length")])

    def _all(self) -> Ints:
        stored = np.flatnonzero(self._filters[:, Stored.index_of("conjunctions")]).astype(np.int32)
        return np.concatenate((stored, _array(self._everything)))

    def _new_word(self, word: str) -> int:
        word_id = self._free_ids.pop() if self._free_ids else len(self._word_ids)
        self._word_ids[word] = word_id
        if word_id >= len(self._seen):
            self._seen = grown(self._seen, word_id + 1)
            self._lists = grown(self._lists, LISTS * len(self._seen))
            self._note_addresses()
        return word_id

    def _grow_filters(self, count: int) -> None:
        self._filters = grown(self._filters, count)
        self._found = grown(self._found, len(self._filters))
        self._note_addresses()


def _array(handles: set[int]) -> Ints:
    return np.fromiter(handles, np.int32, len(handles))
