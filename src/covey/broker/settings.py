"""Settings: what each may be, how it is read from text, and what people are told of it.

A setting is a field of a dataclass, made by `setting`. Everything else follows from the dataclass: how files, the
environment and flags are read (`config_reading`), what a reload may change, and the table in docs/operations.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final

from covey.errors import ConfigError

EXCERPT: Final = 60


@dataclass(frozen=True)
class Kind:
    """What a setting may be: for people, as a check, and read from a text. `table` is the dataclass of a table."""

    expected: str
    accepts: Callable[[Any], bool]
    read: Callable[[str], Any] = str
    table: type | None = None


def text(*, empty: bool = True, longest: int = 1_000) -> Kind:
    """A text."""
    expected = "a text" if empty else "a text that is not empty"
    return Kind(expected, lambda v: isinstance(v, str) and (empty or v != "") and len(v) <= longest)


def flag() -> Kind:
    """True or false."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    return Kind("true or false", lambda v: isinstance(v, bool), lambda said: words.get(said.lower(), said))


def integer(low: int = 0, high: int = (1 << 63) - 1) -> Kind:
    """An integer between bounds."""
    expected = f"an integer from {low:,} to {high:,}" if high < 1 << 40 else f"an integer from {low:,} up"
    return Kind(expected, lambda v: type(v) is int and low <= v <= high, _read_as(int))


def number(above: float = 0.0) -> Kind:
    """A finite number above another."""
    return Kind(
        f"a number above {above:g}",
        lambda v: type(v) in (int, float) and math.isfinite(v) and v > above,
        _read_as(float),
    )


def share() -> Kind:
    """A number from 0 to 1."""
    return Kind(
        "a number from 0 to 1", lambda v: type(v) in (int, float) and 0.0 <= v <= 1.0, _read_as(float)
    )


def choice(words: Iterable[str]) -> Kind:
    """One of some words."""
    known = list(words)
    return Kind(f"one of {', '.join(known)}", lambda v: isinstance(v, str) and v in known)


def table(of: type) -> Kind:
    """A table whose keys are the settings of a dataclass."""
    return Kind("a table", lambda v: isinstance(v, dict), table=of)


def free_table() -> Kind:
    """A table of anything, whose meaning is somebody else's."""
    return Kind("a table", lambda v: isinstance(v, Mapping))


def _read_as(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(said: str) -> Any:
        try:
            return kind(said)
        except ValueError:
            return said  # which is then refused as what it is

    return read


def setting(
    kind: Kind,
    about: str,
    *,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    reload: bool = False,
) -> Any:
    """Return a dataclass field; `reload` says that it may change while the broker runs."""
    metadata = {"kind": kind, "about": about, "reload": reload}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Setting:
    """One setting, as it is documented; `path` is its name in a file, with the table's before a dot."""

    path: str
    kind: Kind
    about: str
    default: Any
    reload: bool

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "COVEY_" + self.path.replace(".", "_").upper()


def settings_of(config: type, prefix: str = "", *, reload: bool | None = None) -> Iterator[Setting]:
    """Yield all settings of a dataclass that hold one value, tables opened."""
    for one in fields(config):
        kind = one.metadata.get("kind")
        if kind is None:
            continue
        again = one.metadata["reload"] if reload is None else reload
        if kind.table is not None:
            own = one.default_factory() if one.default_factory is not MISSING else None
            for inner in settings_of(kind.table, f"{prefix}{one.name}.", reload=again):
                name = inner.path.rpartition(".")[2]
                yield Setting(inner.path, inner.kind, inner.about, getattr(own, name), again)
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        yield Setting(f"{prefix}{one.name}", kind, one.metadata["about"], default, again)


def as_table(config: type) -> str:
    """Return the settings of a dataclass as a table in Markdown."""
    lines = ["| setting | default | what it is |", "|---|---|---|"]
    for one in settings_of(config):
        default = "" if one.default is MISSING else f"`{shown_default(one.default)}`"
        about = f"{one.about}; {one.kind.expected}" + (" · *reload*" if one.reload else "")
        lines.append(f"| `{one.path}` | {default} | {about} |")
    return "\n".join(lines)


def shown_default(value: object) -> str:
    """Return a default as a file would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_table(of: type, values: Mapping[str, Any], place: str, known: Iterable[str] = ()) -> dict[str, Any]:
    """Return the checked values of a dataclass's settings; `known` are keys that are somebody else's.

    ConfigError, one line that names the setting, for whatever is wrong.
    """
    kinds = {one.name: one for one in fields(of) if "kind" in one.metadata}
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in known:
            continue
        if key not in kinds:
            raise mistake(place, "", f"there is no setting {shown(key)}{hint(key, [*kinds, *known])}")
        kind: Kind = kinds[key].metadata["kind"]
        if not kind.accepts(value):
            raise mistake(place, key, f"expected {kind.expected}, not {shown(value)}")
        if kind.table is not None:
            default = kinds[key].default_factory
            inner = read_table(kind.table, value, f"{place}: [{key}]")
            value = _changed(default() if default is not MISSING else None, kind.table, inner)
        found[key] = float(value) if type(value) is int and kind.expected.startswith("a number") else value
    return found


def _changed(default: Any, of: type, values: Mapping[str, Any]) -> Any:
    kept = {} if default is None else {one.name: getattr(default, one.name) for one in fields(of)}
    return of(**{**kept, **values})


def mistake(place: str, key: str, problem: str) -> ConfigError:
    """Return the error for a setting at a place; an empty key is the place itself."""
    return ConfigError(": ".join(part for part in (place, key, problem) if part))


def shown(value: object) -> str:
    """Return a value as it stands in an error, cut short."""
    said = str(value).lower() if isinstance(value, bool) else repr(value)
    return said if len(said) <= EXCERPT else said[: EXCERPT - 1] + "…"


def hint(word: str, known: Iterable[str]) -> str:
    """Return which known word may have been meant, as the end of a sentence."""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
