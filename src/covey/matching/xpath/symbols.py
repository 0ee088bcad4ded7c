"""Numbers for names: what the graph calls symbols are element names, attribute tests and the wildcard, which is 0."""

from __future__ import annotations

from covey.core.xpath.pattern import WILDCARD, Test
from covey.errors import FilterError
from covey.matching.xpath.memory import MAX_SYMBOLS, WILDCARD_SYMBOL


class SymbolTable:
    """Gives each name and test a number while it is in use, and uses numbers again."""

    __slots__ = ("_free", "_names", "_numbers", "tested")

    def __init__(self) -> None:
        self._numbers: dict[str | Test, int] = {WILDCARD: WILDCARD_SYMBOL}
        self._names: list[str | Test | None] = [WILDCARD]
        self._free: list[int] = []
        # By attribute: the symbols of the tests on it, by the value asked for, None for mere presence.
        self.tested: dict[str, dict[str | None, int]] = {}

    def __len__(self) -> int:
        """Return how many numbers there are, those not in use included."""
        return len(self._names)

    def find(self, name: str | Test) -> int:
        """Return the symbol of a label or a test; -1 if there is none."""
        return self._numbers.get(name, -1)

    def find_all(self, names: tuple[str, ...]) -> list[int]:
        """Return the symbols of the labels, -1 for those without."""
        find = self._numbers.get
        return [find(name, -1) for name in names]

    def intern(self, name: str | Test) -> int:
        """Return the symbol of a label or a test, a new one if there is none yet."""
        number = self._numbers.get(name)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
            self._names[number] = name
        else:
            number = len(self._names)
            if number >= MAX_SYMBOLS:
                raise FilterError("the index holds too many different names")
            self._names.append(name)
        self._numbers[name] = number
        if not isinstance(name, str):
            self.tested.setdefault(name[0], {})[name[1] if len(name) == 2 else None] = number
        return number

    def release(self, number: int) -> None:
        """Forget a symbol that is no longer used; the wildcard stays."""
        name = self._names[number]
        if number == WILDCARD_SYMBOL or name is None:
            return
        self._names[number] = None
        self._free.append(number)
        del self._numbers[name]
        if not isinstance(name, str):
            values = self.tested[name[0]]
            del values[name[1] if len(name) == 2 else None]
            if not values:
                del self.tested[name[0]]

    def met_by(self, name: str, value: str | None) -> list[int]:
        """Return the symbols of the tests that an attribute meets; of value None when the value is not known."""
        values = self.tested.get(name)
        if values is None:
            return []
        met = [values[None]] if None in values else []
        if value is not None and value in values:
            met.append(values[value])
        return met

    def meeting(self, test: Test) -> list[int]:
        """Return the symbols of the tests that imply this one."""
        values = self.tested.get(test[0], {})
        if len(test) == 1:
            return list(values.values())
        return [values[test[1]]] if test[1] in values else []

    def contradicting(self, test: Test) -> list[int]:
        """Return the symbols of the tests that cannot hold together with this one."""
        if len(test) == 1:
            return []
        return [
            n for value, n in self.tested.get(test[0], {}).items() if value is not None and value != test[1]
        ]
