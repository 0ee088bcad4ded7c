"""One table of a scenario file while it is read.

Every key is asked for by name with what it must be; `done` complains about the keys that nobody asked for. A mistake is
one line: the file, the table, the key, what is expected there and what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from covey.errors import ConfigError

REQUIRED: Any = object()
MAX_DEPTH = 32
EXCERPT = 60


class Section:
    """The values of one table; `title` is how the file names it, empty for the top; `number` is its place."""

    def __init__(self, file: str, title: str, values: Mapping[str, Any], number: int = 0) -> None:
        self.file = file
        self.title = title
        self._number = number
        self._values = dict(values)
        self._known: dict[str, None] = {}

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise the mistake."""
        raise mistake(self.place, key, problem)

    @property
    def place(self) -> str:
        """The file and the table, as errors name them."""
        if self._number:
            return f"{self.file}: [[{self.title}]] {self._number}"
        return f"{self.file}: [{self.title}]" if self.title else self.file

    def has(self, key: str) -> bool:
        """Return whether the key is given."""
        self._known[key] = None
        return key in self._values

    def take(self, key: str, default: Any, expected: str, accepts: Callable[[Any], bool]) -> Any:
        """Return the value of a key, or the default where it has one."""
        self._known[key] = None
        if key not in self._values:
            if default is REQUIRED:
                self.fail(key, f"expected {expected}, and it is missing")
            return default
        value = self._values[key]
        if not accepts(value):
            self.fail(key, f"expected {expected}, not {shown(value)}")
        return value

    def text(self, key: str, default: Any = REQUIRED) -> Any:
        """Return a text that is not empty."""
        return self.take(key, default, "a text", lambda value: isinstance(value, str) and value != "")

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        return bool(self.take(key, default, "true or false", lambda value: isinstance(value, bool)))

    def integer(self, key: str, default: Any = REQUIRED, low: int = 0) -> Any:
        """Return an integer."""
        return self.take(
            key, default, f"an integer from {low} up", lambda v: type(v) is int and low <= v < 1 << 63
        )

    def number(self, key: str, default: Any = REQUIRED, low: float = 0.0, above: bool = False) -> Any:
        """Return a finite number from `low` up, or above it."""
        expected = f"a number above {low:g}" if above else f"a number from {low:g} up"

        def accepts(value: Any) -> bool:
            if type(value) not in (int, float) or not math.isfinite(value):
                return False
            return bool(value > low or (value == low and not above))

        found = self.take(key, default, expected, accepts)
        return found if found is default else float(found)

    def choice(self, key: str, among: Iterable[str], default: Any = REQUIRED) -> Any:
        """Return one of several words."""
        words = list(among)
        value = self.take(key, default, f"one of {', '.join(words)}", lambda value: isinstance(value, str))
        if value is not default and value not in words:
            self.fail(key, f"expected one of {', '.join(words)}, not {shown(value)}{hint(value, words)}")
        return value

    def texts(self, key: str, count: int | None = None) -> tuple[str, ...]:
        """Return a list of texts, of that length or of any but none."""
        expected = f"a list of {count} texts" if count else "a list of texts"
        value = self.take(key, REQUIRED, expected, lambda value: _is_texts(value, count))
        return tuple(value)

    def table(self, key: str) -> Section | None:
        """Return the table of that name, None if there is none."""
        title = f"{self.title}.{key}" if self.title else key
        value = self.take(key, None, "a table", lambda value: isinstance(value, dict))
        return None if value is None else Section(self.file, title, value)

    def tables(self, key: str) -> list[Section]:
        """Return the tables of that name, numbered from 1."""
        value = self.take(key, [], f"tables [[{key}]]", _is_tables)
        return [Section(self.file, key, table, number) for number, table in enumerate(value, start=1)]

    def rest(self, known: Iterable[str] | None = None) -> dict[str, Any]:
        """Return what nobody asked for yet, as plain values; where `known` is given, no other keys may be left."""
        left = {key: value for key, value in self._values.items() if key not in self._known}
        for key, value in left.items():
            if known is not None:
                self._check_known(key, [*self._known, *known])
            if not is_plain(value):
                self.fail(
                    key, f"expected texts, numbers, true, false, lists and tables of them, not {shown(value)}"
                )
        self._known.update(dict.fromkeys(left))
        return left

    def done(self) -> None:
        """Complain about the first key that nobody asked for."""
        for key in self._values:
            self._check_known(key, list(self._known))

    def _check_known(self, key: str, known: list[str]) -> None:
        if key not in known:
            there = f"there are {', '.join(known)}" if known else "there are none"
            self.fail("", f"there is no key {shown(key)}{hint(key, known)}; {there}")


def mistake(place: str, key: str, problem: str) -> ConfigError:
    """Return the error for a key at a place; an empty key is the place itself."""
    return ConfigError(": ".join(part for part in (place, key, problem) if part))


def shown(value: object) -> str:
    """Return a value as it stands in an error, cut short."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"


def hint(word: str, known: Iterable[str]) -> str:
    """Return which known word may have been meant, as the end of a sentence."""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether a value is made of texts, finite numbers, booleans, lists and tables, not nested too deeply."""
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(inner, depth + 1) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(is_plain(inner, depth + 1) for inner in value)
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _is_texts(value: Any, count: int | None) -> bool:
    if not isinstance(value, list | tuple) or len(value) != (count or len(value)) or not value:
        return False
    return all(isinstance(item, str) and item for item in value)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, dict) for item in value)
