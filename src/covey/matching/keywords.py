"""The index of keyword filters.

A conjunction is tried only for documents that have its rarest word, and then its other words are looked up in
the document; the rest of the index is never touched. The other questions are the same work on other input:

    who covers f      those that match every conjunction of f, each taken as a document
    whom f covers     those whose every conjunction contains one of f's, found in the postings of its rarest

Answers are exactly those of asking each filter in turn. What is fast about it is in `keyword_kernels`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from covey.core.keywords.filter import KeywordFilter
from covey.matching.jit import Ints, Longs
from covey.matching.keyword_kernels import (
    AT_ONCE,
    CHAINS,
    FILTER_SIZE,
    HANDLE,
    HEAD_SIZE,
    META_LENGTH,
    POSTINGS_LIST,
    TOP,
    Bytes,
    add_filter,
    match,
    remove_filter,
    supersets,
)

Numbers = TypeVar("Numbers", Ints, Longs, Bytes)

MOST_STAMPS = 255  # in a byte

_NONE: Ints = np.empty(0, np.int32)


class KeywordIndex:
    """Keyword filters by handle, small numbers that the caller chooses; see the module's text."""

    def __init__(self) -> None:
        self._word_ids: dict[str, int] = {}
        self._free_ids: list[int] = []
        self._everything: set[int] = set()
        self._size = 0
        self._memory: Ints = np.zeros(1024, np.int32)
        self._meta: Longs = np.zeros(META_LENGTH, np.int64)
        self._meta[TOP] = CHAINS
        self._heads: Ints = np.zeros(64 * HEAD_SIZE, np.int32)
        self._seen: Bytes = np.zeros(64, np.uint8)
        self._filters: Ints = np.zeros(64 * FILTER_SIZE, np.int32)
        self._found: Bytes = np.zeros(64, np.uint8)
        self._stamp = 0
        self._matched: Ints = np.zeros(AT_ONCE, np.int32)

    def __len__(self) -> int:
        return self._size

    def add(self, handle: int, filter: KeywordFilter) -> None:
        """Add a filter under a handle that is not in use."""
        if FILTER_SIZE * handle >= len(self._filters):
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
        self._memory = add_filter(
            self._memory,
            self._meta,
            self._heads,
            self._filters,
            handle,
            np.array(words, np.int32),
            np.array(ends, np.int32),
        )

    def remove(self, handle: int, filter: KeywordFilter) -> None:
        """Remove the filter that was added under the handle."""
        self._size -= 1
        if filter.conjunctions == ((),):
            self._everything.remove(handle)
            return
        remove_filter(self._memory, self._meta, self._heads, self._filters, handle)
        for conjunction in filter.conjunctions:
            for word in conjunction:
                word_id = self._word_ids.get(word)
                if word_id is not None and not self._heads[HEAD_SIZE * word_id + POSTINGS_LIST + 1]:
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
        records = [self._supersets(conjunction) for conjunction in filter.conjunctions]
        distinct = records[0] if len(records) == 1 else np.unique(np.concatenate(records))
        handles, counts = np.unique(self._memory[distinct + HANDLE], return_counts=True)
        # A filter of several conjunctions is covered if all of them are among those found.
        return handles[counts == self._filters[FILTER_SIZE * handles + 1]]

    def overlapping(self, filter: KeywordFilter) -> Ints:
        """Return the handles of the filters that overlap `filter`: all of them."""
        return self._all()

    def _match(self, words: Iterable[object]) -> Ints:
        find = self._word_ids.get
        known = [word_id for word in words if (word_id := find(word)) is not None]  # type: ignore[call-overload]
        if len(self._matched) < self._size + AT_ONCE:
            self._matched = np.zeros(2 * self._size + AT_ONCE, np.int32)
        self._stamp += 1
        if self._stamp > MOST_STAMPS:
            self._found[:] = 0
            self._stamp = 1
        ids: Ints = np.array(known, np.int32)
        count = match(self._memory, self._heads, self._seen, self._found, ids, self._stamp, self._matched)
        matched = self._matched[:count]
        return np.concatenate((matched, _array(self._everything))) if self._everything else matched

    def _supersets(self, conjunction: tuple[str, ...]) -> Ints:
        known = [self._word_ids.get(word) for word in conjunction]
        if None in known:
            return _NONE
        return supersets(self._memory, self._heads, np.array(known, np.int32))

    def _all(self) -> Ints:
        stored = np.flatnonzero(self._filters[1::FILTER_SIZE]).astype(np.int32)
        return np.concatenate((stored, _array(self._everything)))

    def _new_word(self, word: str) -> int:
        word_id = self._free_ids.pop() if self._free_ids else len(self._word_ids)
        self._word_ids[word] = word_id
        if word_id >= len(self._seen):
            self._heads = _grown(self._heads, HEAD_SIZE * (word_id + 1))
            self._seen = _grown(self._seen, word_id + 1)
        return word_id

    def _grow_filters(self, count: int) -> None:
        self._filters = _grown(self._filters, FILTER_SIZE * count)
        self._found = _grown(self._found, len(self._filters) // FILTER_SIZE)


def _array(handles: set[int]) -> Ints:
    return np.fromiter(handles, np.int32, len(handles))


def _grown(array: Numbers, length: int) -> Numbers:
    """Return a copy of at least `length`, and half as long again as before; what is new is zero."""
    larger = np.zeros(max(length, len(array) + len(array) // 2), array.dtype)
    larger[: len(array)] = array
    return larger
