"""Who subscribes to what: tree patterns over a document type, each at one of the 24 consumers' brokers.

Patterns have height at most 10, p* = p// = 0.1, branch 0.1 and skew 1, as in section 6.1. The paper draws from NITF.
Where a file `nitf.dtd` is among the lab's data (see `data`), patterns are drawn from it too; Covey's own newspaper type
has as many elements and attributes and stands in for it otherwise.

The paper names a largest height and no rule by which a pattern ends before it. Two readings, both computed:

    full     a walk ends only at that height, or where nothing can follow: no parameter is made up
    even     a walk ends at a height drawn evenly from 1 to the largest, as in Covey's own workload; one subscription in
             ten then has the root element alone, which every document has

In a *unique* set all filters differ; in the other, a *multiple* set, the same one may be drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covey.core.filter import Filter
from covey.core.xpath.filter import XPathFilter
from covey.core.xpath.text import check_size
from covey.errors import ConfigError, FilterError
from covey.lab import data
from covey.workloads.dtd import DocumentType, newspaper, parse_dtd
from covey.workloads.xpath import XPathWorkload

WALKS = ("full", "even")
FILE = "nitf.dtd"
OURS = "newspaper"
MAX_FRUITLESS = 10_000

Subscribed = list[tuple[str, Filter]]  # brokers and filters, in the order of registration


class FullWalks(XPathWorkload):
    """Patterns that end only at the largest height, or where the document type does."""

    def filter(self) -> XPathFilter:
        """Return one filter."""
        while True:
            pattern = self._node(self.doctype.root, 0, self.options.height)
            try:
                check_size(pattern)
            except FilterError:
                continue
            return XPathFilter(pattern)


def doctypes() -> list[str]:
    """Return the document types there are: ours, and that of the file, by its digest, if it was given."""
    digest = data.digest(FILE)
    return [OURS] if digest is None else [OURS, f"{FILE} {digest}"]


def doctype_of(name: str) -> DocumentType:
    """Return one of them."""
    return newspaper() if name == OURS else parse_dtd(data.content(FILE).decode(errors="replace"))


def population(
    brokers: Sequence[str], count: int, *, unique: bool, walks: str, seed: int, doctype: str = OURS
) -> Subscribed:
    """Return so many subscriptions at brokers drawn evenly. A smaller population is the beginning of a larger one."""
    if walks not in WALKS:
        raise ConfigError(f"there is no reading {walks!r:.40} of patterns (hint: {', '.join(WALKS)})")
    kind = FullWalks if walks == "full" else XPathWorkload
    source = kind(doctype_of(doctype), np.random.default_rng([seed, 1]))
    places = np.random.default_rng([seed, 2]).integers(0, len(brokers), count)
    return [
        (brokers[place], filter) for place, filter in zip(places, draw(source, count, unique), strict=True)
    ]


def draw(source: XPathWorkload, count: int, unique: bool) -> list[XPathFilter]:
    """Return so many filters, all different if they must be; ConfigError when no more different ones are found."""
    if not unique:
        return [source.filter() for _ in range(count)]
    found: dict[XPathFilter, None] = {}
    fruitless = 0
    while len(found) < count:
        before = len(found)
        found[source.filter()] = None
        fruitless = 0 if len(found) > before else fruitless + 1
        if fruitless == MAX_FRUITLESS:
            raise ConfigError(f"only {len(found)} different patterns were found")
    return list(found)
