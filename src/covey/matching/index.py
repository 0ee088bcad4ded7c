"""Index: many filters under keys, asked all at once.

    match(event)          keys of the filters that match an event; match_batch for many events
    links(event)          only where the event must go: the links of those filters, found without finding the filters
    match_packed, links_packed     the same for many events in their packed form, answered by arrays
    covering(filter)      keys of the filters that cover a filter; `covers` says whether there is one
    covered(filter)       keys of the filters that a filter covers
    overlapping(filter)   keys of the filters that overlap a filter; `overlaps` says whether there is one

Filters of all families may be in one index: an event, or a filter, concerns those of its own family. Answers are those
of scan.py, which asks each filter in turn. An index may be changed between any two questions; it is not for
use by several threads at once.

Changes to filters of attributes wait until something is asked, and are then made all at once, which takes a third of
the time that they take one by one; a filter that leaves before anything is asked costs next to nothing. At most
MOST_WAITING wait, with MOST_WAITING_BYTES of wire form: whoever adds large filters pays for them, and no question of
somebody else.

An index with up to FEW filters of a family has no arrays for them, and asks them in turn: a broker has many small
tables, arrays take 80 KB, and to make them takes longer than many questions. They are made for more filters, when
PATIENCE with the few is over, and for kernels that ask the index (`view`, and questions about packed events); then they
stay.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.parser import parse_attributes
from covey.core.event import content_of, flatten
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.parser import parse_keywords
from covey.core.packing import pack
from covey.core.xpath.document import Document
from covey.core.xpath.filter import XPathFilter, as_document, parse_xpath
from covey.errors import FilterError
from covey.matching.attributes.checking import are_packed, count_values
from covey.matching.attributes.index import AttributeIndex
from covey.matching.attributes.packed import PackedEvents
from covey.matching.attributes.view import IndexView
from covey.matching.jit import Ints, Longs
from covey.matching.keyset import Keys, KeyTable, take_keys
from covey.matching.keywords import KeywordIndex
from covey.matching.linkset import LinkTable
from covey.matching.xpath.index import XPathIndex

ATTRIBUTES, XPATH, KEYWORDS = AttributeFilter.family, XPathFilter.family, KeywordFilter.family

FEW: Final = 16
VERY_FEW: Final = 4  # to ask so many never takes longer than a kernel
PATIENCE: Final = 512  # filters; to ask more than these takes longer than to make the arrays
MOST_WAITING: Final = 32
MOST_WAITING_BYTES: Final = 4_096
BATCH: Final = 512  # events that are matched at a time: the arrays of more would leave the caches
PREPARED: Final = 256  # rows that are made ready at a time for `covered`

_ATTRIBUTES: Final = frozenset((AttributeFilter,))
_SCALARS: Final = frozenset((int, float, str, bool, type(None)))
_NO_KEYS = Keys(np.zeros(0, dtype=np.int64))


class Place(NamedTuple):
    """Where a key's filter is: the index of its family and the handle there."""

    family: str
    handle: int


class Index:
    """Filters by key; see the module's text. A key is anything hashable, a link too."""

    def __init__(self) -> None:
        # Of a filter of attributes just its handle: almost all are, and there may be very many.
        self._places: dict[Hashable, Place | int] = {}
        self._attributes: AttributeIndex | None = None
        # Changes that wait: handles with filters and the numbers of their links; and handles that were given up, and
        # may have been given to filters since that are coming.
        self._coming: dict[int, tuple[AttributeFilter, int]] = {}
        self._coming_bytes = 0
        self._leaving: dict[int, None] = {}
        self._leaving_rows = 0
        self._scanned = 0  # filters that were asked in turn
        self._is_prepared = False
        # Of the other families: filters by handle, which their index needs to remove them; and indexes, once there are
        # more than a few.
        self._filters: dict[str, dict[int, Filter]] = {}
        self._others: dict[str, Any] = {}
        self._keys = KeyTable()
        self._other_keys: dict[str, KeyTable] = {}
        self._links = LinkTable()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __getstate__(self) -> dict[str, object]:
        self.attributes()
        return vars(self)

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays of the attribute index take, keys and links not counted."""
        return self.attributes().store.nbytes

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, key: Hashable, filter: Filter, link: Hashable = None) -> None:
        """Add a filter under a new key; `link` says where events go that match it. ValueError if the key is in use."""
        if key in self._places:
            raise ValueError(f"key {key!r} is in the index already")
        if isinstance(filter, AttributeFilter):
            handle = self._places[key] = self._keys.add(key)
            self._coming[handle] = filter, 0 if link is None else self._links.add(key, link)
            self._coming_bytes += len(filter.wire or b"")
            if len(self._coming) >= MOST_WAITING or self._coming_bytes >= MOST_WAITING_BYTES:
                self.attributes()
        else:
            self._add_other(key, filter, link)

    def _add_other(self, key: Hashable, filter: Filter, link: Hashable) -> None:
        _check_family(filter)
        handle = self._other_keys.setdefault(filter.family, KeyTable()).add(key)
        self._places[key] = Place(filter.family, handle)
        self._links.add(key, link)
        known = self._filters.setdefault(filter.family, {})
        known[handle] = filter
        index = self._others.get(filter.family)
        if index is not None:
            index.add(handle, filter)
        elif len(known) > FEW:
            index = self._others[filter.family] = XPathIndex() if filter.family == XPATH else KeywordIndex()
            for known_handle, known_filter in known.items():
                index.add(known_handle, known_filter)  # type: ignore[arg-type]

    def add_batch(
        self, keys: Sequence[Hashable], filters: Sequence[Filter], links: Sequence[Hashable] | None = None
    ) -> None:
        """Add many filters, faster than one by one; nothing is added if one of the keys is in use."""
        keys, filters = list(keys), list(filters)
        links = [None] * len(keys) if links is None else list(links)
        if not len(keys) == len(filters) == len(links):
            raise ValueError(
                f"{len(keys)} keys, {len(filters)} filters and {len(links)} links do not fit together"
            )
        self._check_new(keys)
        if not _ATTRIBUTES.issuperset(map(type, filters)):
            for filter in filters:
                _check_family(filter)
            others = [n for n, filter in enumerate(filters) if not isinstance(filter, AttributeFilter)]
            for n in others:
                self._add_other(keys[n], filters[n], links[n])
            for n in reversed(others):
                del keys[n], filters[n], links[n]
        handles = self._keys.add_batch(keys)
        self._places.update(zip(keys, handles, strict=True))
        numbers = list(map(self._links.add, keys, links))
        self._coming.update(zip(handles, zip(filters, numbers, strict=True), strict=True))  # type: ignore[arg-type]
        if len(self._coming) >= MOST_WAITING:
            self.attributes()

    def attributes(self) -> AttributeIndex:
        """Return the index of filters of attributes, in which no change waits any more."""
        attributes = self._attributes
        if attributes is None:
            attributes = self._attributes = AttributeIndex()
            if self._is_prepared:
                attributes.store.make_postings(PREPARED)
        if self._leaving:
            leaving, self._leaving, self._leaving_rows = self._leaving, {}, 0
            attributes.remove_batch(list(leaving))
        if self._coming:
            coming, self._coming, self._coming_bytes = self._coming, {}, 0
            if self._links.in_use:
                store = attributes.store
                handles, links = list(coming), [link for _, link in coming.values()]
                store.make_handles(max(handles) + 1)
                store.set_link(handles[0], links[0])  # which sees to it that links are noted
                store.links[handles] = links
            attributes.add_batch(list(coming), [filter for filter, _ in coming.values()])
        return attributes

    def _check_new(self, keys: Sequence[Hashable]) -> None:
        if len(set(keys)) == len(keys) and self._places.keys().isdisjoint(keys):
            return
        seen: set[Hashable] = set()
        for key in keys:
            if key in self._places or key in seen:
                raise ValueError(f"key {key!r} is in the index already")
            seen.add(key)

    def remove(self, key: Hashable) -> None:
        """Remove a key and its filter; KeyError if it is not there."""
        self._take_out(key, self._places.pop(key))
        if self._leaving_rows >= MOST_WAITING:
            self.attributes()

    def remove_batch(self, keys: Iterable[Hashable]) -> None:
        """Remove many keys; KeyError, and nothing is removed, if one is not there."""
        places = {key: self._places[key] for key in keys}
        for key, place in places.items():
            del self._places[key]
            self._take_out(key, place)
        if len(self._leaving) >= MOST_WAITING:
            self.attributes()

    def _take_out(self, key: Hashable, place: Place | int) -> None:
        if self._links.in_use:
            self._links.remove(key)
        if isinstance(place, int):
            self._keys.remove(place)
            if self._coming.pop(place, None) is None:
                assert self._attributes is not None, "it has been added"
                self._leaving[place] = None
                self._leaving_rows += self._attributes.rows_of(place)
        else:
            family, handle = place
            filter = self._filters[family].pop(handle)
            if not self._filters[family]:
                self._others.pop(family, None)
            elif family in self._others:
                self._others[family].remove(handle, filter)
            self._other_keys[family].remove(handle)

    # -- few filters -----------------------------------------------------------------------------------------

    def _are_few(self) -> bool:
        """Return whether filters of attributes are asked in turn this time, as they wait to be added."""
        count = len(self._coming)
        if self._attributes is not None or count > FEW:
            return False
        self._scanned += count
        return count <= VERY_FEW or self._scanned <= PATIENCE

    def _match_few(self, event: Mapping[str, Any]) -> Keys:
        if not _SCALARS.issuperset(map(type, event.values())):
            event = flatten(event)  # which says so if it nests too deep
        return self._few_keys([h for h, (filter, _) in self._coming.items() if filter.matches(event)])

    def _few_keys(self, handles: list[int]) -> Keys:
        return Keys(self._keys.take(np.array(handles, np.int32))) if handles else _NO_KEYS

    # -- events ----------------------------------------------------------------------------------------------

    def match(self, event: object) -> Keys:
        """Return the keys of filters that match the event."""
        content = content_of(event)
        if type(content) is dict or isinstance(content, Mapping):
            rows = self._attributes
            if rows is None or self._coming or self._leaving:
                if self._are_few():
                    return self._match_few(content)
                rows = self.attributes()
            return Keys(rows.match_keys(content, self._keys))
        return self._match_other(content)

    def _match_other(self, content: Any) -> Keys:
        family = family_of(content)
        known = self._filters.get(family)
        if not known:
            return _NO_KEYS
        index = self._others.get(family)
        if index is None:
            content = as_document(content) if family == XPATH else content
            found = np.array([h for h, filter in known.items() if filter.matches(content)], np.int32)
        else:
            found = index.match(content)
        return Keys(self._other_keys[family].take(found))

    def match_batch(self, events: Iterable[object]) -> list[NDArray[Any]]:
        """Return for each event the keys of filters that match it, as an array."""
        contents = [content_of(event) for event in events]
        if not self._are_few() and all(isinstance(content, Mapping) for content in contents):
            rows = self.attributes()
            answers: list[NDArray[Any]] = []
            for first in range(0, len(contents), BATCH):
                handles, ends = rows.match_batch(contents[first : first + BATCH])
                keys = self._keys.take(handles)
                answers += [keys[start:end] for start, end in pairwise([0, *ends.tolist()])]
            return answers
        return [self.match(content).array for content in contents]

    def links(self, event: object) -> set[Hashable]:
        """Return the links of filters that match the event: where it must go."""
        content = content_of(event)
        if not isinstance(content, Mapping):
            return self._links.of_keys(self._match_other(content))
        if not self._links.in_use:
            return set()
        if self._are_few():
            return self._links.of_keys(self._match_few(content))
        return self._links.labels(self.attributes().links_one(content, self._links.count))

    def links_batch(self, events: Iterable[object]) -> list[set[Hashable]]:
        """Return for each event the links of filters that match it."""
        contents = [content_of(event) for event in events]
        if self._are_few():
            return [self.links(content) for content in contents]
        mappings = [content for content in contents if isinstance(content, Mapping)]
        answers: Iterator[list[int]] = iter(())
        if mappings and self._links.in_use:
            rows = self.attributes()
            answers = iter(rows.links(rows.encode(mappings), self._links.count))
        result: list[set[Hashable]] = []
        for content in contents:
            if isinstance(content, Mapping):
                result.append(self._links.labels(next(answers, ())))
            else:
                result.append(self._links.of_keys(self._match_other(content)))
        return result

    # -- packed events ---------------------------------------------------------------------------------------

    def match_packed(self, events: PackedEvents) -> tuple[Ints, Longs]:
        """Return the handles of filters that match each packed event in one array, and where those of each event end.

        `keys_of` has the keys of handles. The array is a view, valid until the next question. EventError for bytes that
        are no packed event (`checking.are_packed` tells before).
        """
        rows = self.attributes()
        return rows.match_encoded(rows.encode_packed(events))

    def matches_packed(self, events: PackedEvents) -> NDArray[np.bool_]:
        """Return for each packed event whether a filter matches it."""
        _, ends = self.match_packed(events)
        result = np.empty(len(ends), np.bool_)
        result[:1] = ends[:1] > 0
        np.greater(ends[1:], ends[:-1], out=result[1:])
        return result

    def keys_of(self, handles: Ints) -> NDArray[Any]:
        """Return the keys of handles that `match_packed` found."""
        return self._keys.take(handles)

    def stamps(self) -> Longs:
        """Return a number for each handle of `match_packed`, which changes when the handle gets another key."""
        return self._keys.stamps

    def links_packed(self, events: PackedEvents) -> tuple[list[Hashable], NDArray[np.bool_]]:
        """Return links, and for each of them and each packed event whether it must go there: `links` for many."""
        links = self._links.all()
        if len(links) == 1:
            return links, np.zeros((1, len(events)), np.bool_)
        rows = self.attributes()
        return links, rows.link_hits(rows.encode_packed(events), len(links))

    def view(self) -> IndexView:
        """Return the filters of attributes as kernels see them; it holds until the index changes."""
        return self.attributes().view(self._links.count)

    def numbered_links(self) -> Sequence[Hashable]:
        """Return the link of each number that kernels know it by; None for a number that is not in use."""
        return self._links.all()

    # -- filters ---------------------------------------------------------------------------------------------

    def covers(self, filter: Filter) -> bool:
        """Return whether some filter here covers the given one; quicker than `covering`."""
        if isinstance(filter, AttributeFilter):
            rows = self._attributes
            if rows is None or self._coming or self._leaving:
                if self._are_few():
                    return any(other.covers(filter) for other, _ in self._coming.values())
                rows = self.attributes()
            return rows.covers_any(filter)
        return bool(self.covering(filter))

    def overlaps(self, filter: Filter) -> bool:
        """Return whether some filter here overlaps the given one; quicker than `overlapping`."""
        if isinstance(filter, AttributeFilter):
            if self._are_few():
                return any(filter.overlaps(other) for other, _ in self._coming.values())
            return self.attributes().overlaps_any(filter)
        return bool(self.overlapping(filter))

    def covering(self, filter: Filter) -> Keys:
        """Return the keys of filters that cover the given one."""
        return self._ask(filter, "covering")

    def covered(self, filter: Filter) -> Keys:
        """Return the keys of filters that the given one covers."""
        return self._ask(filter, "covered")

    def preparing(self) -> Iterator[int]:
        """Make what `covered` needs a little at a time; the first question would otherwise have to do it all at once.

        Each value is how much was done, in units of about a microsecond. Changes and questions may come in between.
        """
        self._is_prepared = True
        while self._attributes is not None and not self._attributes.store.make_postings(PREPARED):
            yield PREPARED

    def overlapping(self, filter: Filter) -> Keys:
        """Return the keys of filters that overlap the given one."""
        return self._ask(filter, "overlapping")

    def _ask(self, filter: Filter, question: str) -> Keys:
        if isinstance(filter, AttributeFilter):
            if self._are_few():
                some = ((handle, other) for handle, (other, _) in self._coming.items())
                return self._few_keys(_scan(some, filter, question))
            # What is leaving is left out of the answer here: whoever leaves with many filters asks after each of them.
            rows = self.attributes() if self._coming or self._attributes is None else self._attributes
            found: Ints = getattr(rows, question)(filter)
            if not len(found):
                return _NO_KEYS
            if self._leaving:
                stays = [handle for handle in found.tolist() if handle not in self._leaving]
                found = np.array(stays, np.int32)
            return Keys(self._keys.take(found))
        known = self._filters.get(filter.family)
        if not known:
            return _NO_KEYS
        index = self._others.get(filter.family)
        if index is None:
            found = np.array(_scan(known.items(), filter, question), np.int32)
        else:
            found = getattr(index, question)(filter)
        return Keys(self._other_keys[filter.family].take(found))


def _scan(filters: Iterable[tuple[int, Filter]], asked: Filter, question: str) -> list[int]:
    """Ask filters in turn; return the handles of those that cover the given one, that it covers or overlaps."""
    if question == "covering":
        return [handle for handle, filter in filters if filter.covers(asked)]
    holds = asked.covers if question == "covered" else asked.overlaps
    return [handle for handle, filter in filters if holds(filter)]


def _check_family(filter: Filter) -> None:
    if getattr(filter, "family", None) not in (ATTRIBUTES, XPATH, KEYWORDS):
        raise FilterError(f"{type(filter).__name__} is not a filter", hint="make one with covey.parse")


def family_of(content: object) -> str:
    """Return the family of filters that can match an event with this content; "" if none can."""
    if isinstance(content, Mapping):
        return ATTRIBUTES
    if isinstance(content, Document | str | bytes):
        return XPATH
    return KEYWORDS if isinstance(content, set | frozenset) else ""


_GROWING = 600  # filters of a family


def warm_up() -> None:
    """Compile every kernel that an index uses, or load it from the cache: seconds the first time, a fraction after.

    Call it before time matters; an index does the same by itself at the first use of each kernel.
    """
    warm_up_attributes()
    warm_up_documents()


def warm_up_attributes() -> None:
    """Do so for filters of attributes only."""
    index = Index()
    index.attributes()  # few filters would be asked without kernels
    filters = [
        parse_attributes("a > 1 and b = 1 and c < 1"),
        parse_attributes("a between 1 and 2 and d = 'x'"),
        parse_attributes("a < 1 or b > 2"),
        parse_attributes("d like '%x_' and c <> 1"),
    ]
    event = {"a": 2, "b": 1, "c": 0, "d": "x"}
    # The second event has a value that is judged by itself: its text has no encoding.
    _ask(index, filters, [event, {"d": "\ud800", "c": 2}])
    list(index.attributes().store.read(np.array([0], np.int32)))
    data = pack(event)
    size = np.array([0, len(data)], np.int64)
    packed = PackedEvents(np.frombuffer(data, np.uint8), size[:1], size[1:])
    assert are_packed(packed).all(), "what is packed is a packed event"
    assert count_values(packed.data, 0, len(data), 99) == 1 + 2 * len(event), "a map, names and values"
    index.match_packed(packed)
    index.links_packed(packed)
    take_keys(np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64))
    # So many that every table has to grow; and those who have gone make room.
    many = [parse_attributes(f"a = {n} and b = 't{n}' and c > {n}") for n in range(_GROWING)]
    many += [parse_attributes(f"d like '%t{n}_%'") for n in range(_GROWING)]
    keys = range(len(filters), len(filters) + len(many))
    index.add_batch(keys, many)
    index.match_packed(packed)
    index.attributes().store.consider(1)
    index.attributes().store.give_back()
    index.remove_batch(keys)
    index.match_packed(packed)
    index.remove_batch(range(len(filters)))


def warm_up_documents() -> None:
    """Do so for filters of documents only: XPath and keywords."""
    index = Index()
    # So many that they are not asked in turn, and that tables have to grow.
    many: list[Filter] = [parse_xpath(f"/a/b[c{n}]/d") for n in range(_GROWING)]
    many += [parse_keywords(f"k{n} and m") for n in range(FEW + 1)]
    keys = range(2, 2 + len(many))
    index.add_batch(keys, many)
    _ask(index, [parse_xpath("/a[b]"), parse_keywords("a and b or c")], ["<a><b/></a>", frozenset("abc")])
    index.remove_batch(keys)
    index.remove_batch(range(2))


def _ask(index: Index, filters: Sequence[Filter], events: Sequence[Any]) -> None:
    """Add filters under 0, 1, … and ask all questions."""
    index.add_batch(range(len(filters)), filters, ["link"] * len(filters))
    index.match_batch(events)
    index.links_batch(events)
    for event in events:
        index.match(event)
        index.links(event)
    for filter in filters:
        index.covering(filter)
        index.covered(filter)
        index.overlapping(filter)
        index.covers(filter)
        index.overlaps(filter)
