"""Which filters are wanted over which ways: where a producer ahead may publish what a filter matches.

Filters that overlap the same advertisements are of one *class*; there are few of them. Without advertisements there is
one class, and it is wanted everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covey.core.attributes.filter import FALSE, TRUE, AttributeFilter
from covey.core.families import decode
from covey.core.filter import Filter
from covey.matching.index import Index
from covey.matching.jit import Ints
from covey.pipeline.tables.kernels import Flags
from covey.pipeline.tables.overlay import Overlay

FEW = 8  # advertisements are asked in turn, as a broker does


class Wanting:
    """The classes of filters met so far, and over which ways each is wanted.

    `advertised` has wire forms with the brokers of their producers; None: there are no advertisements, all is wanted.
    """

    def __init__(self, overlay: Overlay, advertised: Iterable[tuple[str, bytes]] | None) -> None:
        self._overlay = overlay
        self._by_wire: dict[bytes, int] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._wanted: list[Flags] = []
        self._everything = advertised is None
        homes: dict[bytes, set[int]] = {}
        for broker, wire in advertised or ():
            homes.setdefault(wire, set()).add(overlay.number(broker, "an advertisement"))
        self._filters = [decode(wire) for wire in homes]
        self._homes = [sorted(some) for some in homes.values()]
        self._index: Index | None = None
        if len(self._filters) > FEW:
            self._index = Index()
            self._index.add_batch(range(len(self._filters)), self._filters)
        attributes = [filter for filter in self._filters if isinstance(filter, AttributeFilter)]
        # A usual case, in which no attribute filter has to be decoded: producers announce everything or nothing.
        self._all_or_nothing = all(filter == TRUE for filter in attributes)

    def classes(self, encoded: pa.Array) -> Ints:
        """Return the class of each filter, by its wire form."""
        if self._everything:
            return np.full(len(encoded), self._class(()), np.int32)
        found = np.full(len(encoded), -1, np.int32)
        if self._all_or_nothing and len(encoded):
            is_attributes = pc.equal(pc.binary_slice(encoded, 0, 1), b"A")
            plain = pc.and_(is_attributes, pc.not_equal(encoded, FALSE.encode())).to_numpy(
                zero_copy_only=False
            )
            found[plain] = self._class(tuple(k for k, ad in enumerate(self._filters) if ad == TRUE))
        left = np.flatnonzero(found < 0)
        if len(left):
            known = self._by_wire
            for row, wire in zip(left.tolist(), encoded.take(pa.array(left)).to_pylist(), strict=True):
                number = known.get(wire)
                if number is None:
                    number = known[wire] = self.class_of(decode(wire))
                found[row] = number
        return found

    def class_of(self, filter: Filter) -> int:
        """Return the class of one filter."""
        if self._everything:
            return self._class(())
        if self._index is not None:
            return self._class(tuple(sorted(self._index.overlapping(filter))))
        return self._class(tuple(k for k, ad in enumerate(self._filters) if ad.overlaps(filter)))

    def _class(self, advertised: Sequence[int]) -> int:
        number = self._numbers.get(tuple(advertised))
        if number is None:
            number = self._numbers[tuple(advertised)] = len(self._wanted)
            homes = sorted({home for k in advertised for home in self._homes[k]})
            ahead: Flags = np.any(~self._overlay.behind[:, homes], axis=1)
            self._wanted.append(ahead | self._everything)
        return number

    def wanted(self) -> Flags:
        """Return for the classes met so far, by row, whether each is wanted over a way, by column."""
        return np.array(self._wanted).reshape(-1, len(self._overlay.tells))

    def is_wanted(self, number: int, way: int) -> bool:
        """Return whether a class is wanted over a way."""
        return bool(self._wanted[number][way])
