"""Groups of exact mergers, each told as one filter that may let in more.

    merger     the exact mergers it stands for, its *members*, and the filter that is told for them: for one member that
               member itself, for several a filter that covers all (the hull of boxes, the common part of tree patterns)
    follow     when exact mergers come and go: what a merger covers joins it, what replaces a member takes its place if
               nothing speaks against it, and a merger that loses a member is drawn closer
    join       pairs of mergers become one, those first that let in the fewest more of the unwanted events, each merger
               once: so a mistake shows before it can grow
    split      a merger falls apart into mergers that let in none of the unwanted events

A merger never lets in everything, and limits all attributes that one of its two parts limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from covey.core.attributes.filter import AttributeFilter, hull
from covey.core.attributes.imperfect import hull_of_boxes
from covey.core.filter import Filter
from covey.core.keywords.filter import KeywordFilter
from covey.core.keywords.normal import EVERYTHING as ANY_WORDS
from covey.core.xpath.filter import XPathFilter
from covey.core.xpath.merging import EVERYTHING as ANY_DOCUMENT
from covey.routing.messages import Key
from covey.strategies.merging.maximal import Changes, label_of
from covey.strategies.told import Item

# How many pairs are looked at when mergers are joined, and how far apart in order the two may be.
PAIRS: Final = 256
REACH: Final = 3


class Merger:
    """What is told as one, and the exact mergers it stands for."""

    __slots__ = ("filter", "label", "members")

    def __init__(self, members: dict[Key, Filter], filter: Filter) -> None:
        self.members = members
        self.filter = filter
        self.label = label_of(filter)

    @property
    def is_loose(self) -> bool:
        """Whether it stands for several, and so may let in more than they do."""
        return len(self.members) > 1


# -- filters -------------------------------------------------------------------------------------------------


def loosely_merged(filters: Iterable[Filter]) -> Filter | None:
    """Return a filter that covers all of them, None if there is none worth telling. The order does not matter."""
    first, *others = sorted(filters, key=lambda filter: filter.encode())
    names = _names(first)
    result = first
    for other in others:
        if other.family != result.family:
            return None
        if isinstance(result, AttributeFilter) and isinstance(other, AttributeFilter):
            result = hull(result, other)
        else:
            result = result.merge(other).filter
        names = min(names, _names(other), key=len)
    return None if _lets_in_everything(result) or _names(result) != names else result


def _names(filter: Filter) -> frozenset[str]:
    """Return the attributes that a filter limits, whatever else it says; none for other families."""
    if isinstance(filter, AttributeFilter) and filter.conjunctions:
        return frozenset(name for name, _ in hull_of_boxes(filter.conjunctions).constraints)
    return frozenset()


def _lets_in_everything(filter: Filter) -> bool:
    match filter:
        case AttributeFilter(conjunctions=conjunctions):
            return any(not box.constraints for box in conjunctions)
        case XPathFilter(pattern=pattern):
            return pattern == ANY_DOCUMENT
        case KeywordFilter(conjunctions=formula):
            return formula == ANY_WORDS
    return False


def _let_in(filter: Filter, unwanted: Sequence[Any]) -> int:
    """Return which of the unwanted events a filter matches, as bits."""
    return sum(1 << place for place, event in enumerate(unwanted) if filter.matches(event))


# -- groups --------------------------------------------------------------------------------------------------


class Groups:
    """The exact mergers of one neighbour, each in one group."""

    def __init__(self) -> None:
        self._of: dict[Key, Merger] = {}  # by member

    def mergers(self) -> list[Merger]:
        """Return all mergers, ordered by label."""
        found = {merger.label: merger for merger in self._of.values()}
        return [found[label] for label in sorted(found)]

    def items(self) -> list[Item]:
        """Return what is told."""
        return [Item(merger.label, merger.filter) for merger in self.mergers()]

    def loose(self) -> list[Merger]:
        """Return the mergers that stand for several, ordered by label."""
        found = {merger.label: merger for merger in self._of.values() if merger.is_loose}
        return [found[label] for label in sorted(found)]

    def _put(self, members: dict[Key, Filter], filter: Filter) -> Merger:
        """Let the members be told as that filter, with whatever else it covers."""
        if len(members) > 1:
            for other in self.mergers():
                if filter.covers(other.filter):
                    members = members | other.members
        merger = Merger(members, filter)
        self._of.update(dict.fromkeys(members, merger))
        return merger

    def _changes(self, before: list[Item]) -> Changes:
        now, then = dict(self.items()), dict(before)
        return Changes(
            [Item(label, filter) for label, filter in now.items() if label not in then],
            [Item(label, filter) for label, filter in then.items() if label not in now],
        )

    # -- when exact mergers change -----------------------------------------------------------------------------

    def follow(self, exact: Changes, unwanted: Sequence[Any]) -> Changes:
        """Take over what has changed of the exact mergers; return what changes of what is told."""
        before = self.items()
        orphaned: dict[Key, Merger] = {}
        for item in exact.left:
            merger = self._of.pop(item.key)
            del merger.members[item.key]
            if merger.members:
                orphaned[merger.label] = merger
        for item in exact.entered:
            self._enter(item, exact.left, orphaned, unwanted)
        for merger in orphaned.values():
            self._draw_closer(merger)
        return self._changes(before)

    def _enter(
        self, item: Item, left: Sequence[Item], orphaned: dict[Key, Merger], unwanted: Sequence[Any]
    ) -> None:
        """Put a new exact merger to a merger that covers it, to one that lost what it replaces, or alone."""
        for merger in self.loose():
            if merger.filter.covers(item.filter):
                merger.members[item.key] = item.filter
                self._of[item.key] = merger
                return
        if any(item.filter.overlaps(gone.filter) for gone in left):
            for merger in orphaned.values():
                wider = loosely_merged([merger.filter, item.filter])
                if wider is not None and not _let_in(wider, unwanted) & ~_let_in(merger.filter, unwanted):
                    merger.members[item.key] = item.filter
                    self._of[item.key] = merger
                    return
        self._put({item.key: item.filter}, item.filter)

    def _draw_closer(self, merger: Merger) -> None:
        """Let a merger that lost a member cover no more than it must; apart, if its members have nothing in common."""
        members = {key: filter for key, filter in merger.members.items() if self._of.get(key) is merger}
        if not members:
            return  # another merger has taken them all
        filter = loosely_merged(members.values())
        if filter is not None:
            self._put(members, filter)
            return
        for key, member in members.items():
            self._put({key: member}, member)

    # -- adaptation --------------------------------------------------------------------------------------------

    def join(self, unwanted: Sequence[Any], allowed: int, start: int) -> tuple[Changes, int]:
        """Join pairs, at most `allowed`, that let in at most so many more of the unwanted events; return also how many.

        Of many candidates some are looked at each time, from `start` on.
        """
        before = self.items()
        mergers = self.mergers()
        bits = [_let_in(merger.filter, unwanted) for merger in mergers]
        candidates = []
        for rank, (i, j) in enumerate(_turn(_near(mergers), start)):
            filter = loosely_merged([mergers[i].filter, mergers[j].filter])
            if filter is not None:
                cost = (_let_in(filter, unwanted) & ~(bits[i] | bits[j])).bit_count()
                candidates.append((cost, rank, i, j, filter))
        joined: set[Key] = set()
        count = 0
        for cost, _, i, j, filter in sorted(candidates, key=lambda candidate: candidate[:2]):
            one, two = mergers[i], mergers[j]
            if max(cost, 1) <= allowed and not (one.label in joined or two.label in joined):
                allowed -= max(cost, 1)  # what is not known to cost anything may do so yet
                count += 1
                merger = self._put(one.members | two.members, filter)
                joined |= {one.label, two.label, merger.label}
                joined |= {other.label for other in mergers if filter.covers(other.filter)}
        return self._changes(before), count

    def split(self, mistake: object, unwanted: Sequence[Any]) -> tuple[Changes, int]:
        """Split the mergers that let in a mistake; return also how many they were."""
        before = self.items()
        guilty = [merger for merger in self.loose() if merger.filter.matches(mistake)]
        for merger in guilty:
            self._fall_apart(merger, unwanted)
        return self._changes(before), len(guilty)

    def _fall_apart(self, merger: Merger, unwanted: Sequence[Any]) -> None:
        """Let the members be told in runs, in order of their wire form, that let in nothing unwanted."""
        run: dict[Key, Filter] = {}
        so_far: Filter | None = None
        for key, member in sorted(merger.members.items(), key=lambda item: item[1].encode()):
            wider = None if so_far is None else loosely_merged([so_far, member])
            if so_far is not None and (wider is None or _let_in(wider, unwanted)):
                self._of.update(dict.fromkeys(run, Merger(run, so_far)))
                run, wider = {}, None
            run = run | {key: member}
            so_far = member if wider is None else wider
        if so_far is not None:
            self._of.update(dict.fromkeys(run, Merger(run, so_far)))


def _near(mergers: Sequence[Merger]) -> list[tuple[int, int]]:
    """Return pairs of mergers that are near each other in one of several orders, nearest first."""
    orders = [sorted(range(len(mergers)), key=lambda k: mergers[k].filter.encode())]
    sides: dict[str, list[tuple[Any, int]]] = {}
    for k, merger in enumerate(mergers):
        if isinstance(merger.filter, AttributeFilter) and len(merger.filter.conjunctions) == 1:
            for name, side in merger.filter.conjunctions[0].constraints:
                sides.setdefault(name, []).append((side, k))
    orders += [[k for _, k in sorted(sides[name])] for name in sorted(sides)]
    pairs: dict[tuple[int, int], None] = {}
    for distance in range(1, REACH + 1):
        for order in orders:
            for one, two in zip(order, order[distance:], strict=False):
                if mergers[one].filter.family == mergers[two].filter.family:
                    pairs[min(one, two), max(one, two)] = None
    return list(pairs)


def _turn(pairs: list[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """Return as many pairs as are looked at, beginning elsewhere each time."""
    if len(pairs) <= PAIRS:
        return pairs
    start %= len(pairs)
    return (pairs[start:] + pairs[:start])[:PAIRS]
