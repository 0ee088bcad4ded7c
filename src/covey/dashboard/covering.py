"""Covering as a tree: which filters of a table are covered by which, and what is forwarded if one of them leaves.

A node is a filter, with all rows that have it. The parent of a filter is the first, in the order of the table, of those
that cover it with nothing between them: a filter that several cover is shown below one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from covey.core.families import parse
from covey.core.filter import Filter
from covey.errors import CoveyError

MAX_ROWS: Final = 400  # filters that are compared with each other
CUT: Final = "…"  # with which the text of a filter ends that a broker has cut


def tree_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the filters of a table as a tree: `parent` of each by its place, None for those that nothing covers.

    `holders` of a filter are the rows that have it, `uncovered` the places of filters that would be covered by nothing
    if it left. Rows with a filter that cannot be read, because a broker has cut its text, are counted in `unread`.
    """
    filters: dict[int, Filter] = {}
    places: dict[Filter, int] = {}
    holders: dict[int, list[Mapping[str, Any]]] = {}
    unread = 0
    for place, row in enumerate(rows[:MAX_ROWS]):
        try:
            if str(row["filter"]).endswith(CUT):
                raise CoveyError("its text is cut")
            filter = parse(row["filter"], row.get("language", "attributes"))
        except (CoveyError, KeyError):
            unread += 1
            continue
        first = places.setdefault(filter, place)
        filters[first] = filter
        holders.setdefault(first, []).append(row)
    above = {place: _above(place, filters) for place in filters}
    parents = {place: _nearest(over, above) for place, over in above.items()}
    return {
        "rows": [
            {
                "filter": str(filters[place]),
                "holders": holders[place],
                "place": place,
                "parent": parents[place],
                "uncovered": [other for other in filters if above[other] == [place]],
            }
            for place in filters
        ],
        "unread": unread,
        "left_out": max(0, len(rows) - MAX_ROWS),
    }


def _above(place: int, filters: Mapping[int, Filter]) -> list[int]:
    """Return the places of filters that cover one; of equal ones those before it."""
    mine = filters[place]
    return [
        other
        for other, filter in filters.items()
        if other != place and filter.covers(mine) and (other < place or not mine.covers(filter))
    ]


def _nearest(over: Sequence[int], above: Mapping[int, Sequence[int]]) -> int | None:
    """Return one of those above that is not above another of them."""
    return next((one for one in over if not any(one in above[other] for other in over)), None)
