"""Links as small numbers, so that an index can keep them as masks.

Number 0 stands for "no link". A link has a number as long as some key uses it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class LinkTable:
    """The link of each key, and the number of each link."""

    def __init__(self) -> None:
        self._number_of: dict[Hashable, int] = {}
        self._labels: list[Hashable] = [None]
        self._uses: list[int] = [0]
        self._free: list[int] = []
        self._of_key: dict[Hashable, int] = {}

    @property
    def in_use(self) -> bool:
        """Whether a key ever had a link."""
        return len(self._labels) > 1

    @property
    def count(self) -> int:
        """One more than the largest number of a link."""
        return len(self._labels)

    def add(self, key: Hashable, link: Hashable) -> int:
        """Note the link of a key; return the link's number."""
        if link is None:
            return 0
        number = self._number_of.get(link)
        if number is None:
            if self._free:
                number = self._free.pop()
            else:
                number = len(self._labels)
                self._labels.append(None)
                self._uses.append(0)
            self._number_of[link] = number
            self._labels[number] = link
        self._uses[number] += 1
        self._of_key[key] = number
        return number

    def remove(self, key: Hashable) -> None:
        """Forget the link of a key."""
        number = self._of_key.pop(key, 0)
        if number:
            self._uses[number] -= 1
            if not self._uses[number]:
                del self._number_of[self._labels[number]]
                self._labels[number] = None
                self._free.append(number)

    def all(self) -> list[Hashable]:
        """Return the link of each number; None for one that is not in use."""
        return self._labels

    def labels(self, numbers: Iterable[int]) -> set[Hashable]:
        """Return the links with these numbers."""
        return {self._labels[number] for number in numbers if number}

    def of_keys(self, keys: Iterable[Hashable]) -> set[Hashable]:
        """Return the links of these keys."""
        return self.labels(self._of_key.get(key, 0) for key in keys)
