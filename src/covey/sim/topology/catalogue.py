"""Things that are built by name: which there are, which parameters each has, and clear errors for all others.

A catalogue is a mapping of names to builders. What a builder's signature says is checked here, before it is called:
the names of the parameters, that none is missing, and the kind of each value as far as it is annotated with int, float,
bool, str, a Literal, or one of these or None. Ranges are the builder's own business; `check_range` words its error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from covey.errors import ConfigError

T = TypeVar("T")

_KINDS: Mapping[object, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    NoneType: "nothing",
}


def build_named(
    what: str,
    catalogue: Mapping[str, Callable[..., T]],
    kind: str,
    given: tuple[object, ...],
    parameters: Mapping[str, object],
) -> T:
    """Return what the builder called `kind` makes of the positional arguments `given` and the parameters.

    `what` is the word for such a thing in errors. Raises ConfigError, in one line that lists what there is, for an
    unknown kind or parameter, a missing parameter, and a value that the parameter cannot have.
    """
    builder = catalogue.get(kind) if isinstance(kind, str) else None
    if builder is None:
        raise ConfigError(f"there is no {what} {kind!r:.60}; there are: {', '.join(catalogue)}")
    place = f"{what} {kind}"
    _check_parameters(place, parameters_of(builder, skipped=len(given)), parameters)
    try:
        return builder(*given, **parameters)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def parameters_of(builder: Callable[..., object], skipped: int = 0) -> dict[str, inspect.Parameter]:
    """Return the parameters of a builder by name, without the first `skipped` positional ones."""
    signature = inspect.signature(builder, eval_str=True)
    return dict(list(signature.parameters.items())[skipped:])


def check_range(name: str, value: float, low: float, high: float | None = None) -> None:
    """Raise ConfigError unless low <= value, and value <= high if there is one."""
    if high is None:
        if not value >= low:
            raise ConfigError(f"{name} must be at least {low}, not {value}")
    elif not low <= value <= high:
        raise ConfigError(f"{name} must be from {low} to {high}, not {value}")


def check_ranges(low: float, high: float, **values: float) -> None:
    """Raise ConfigError unless all of the named values lie between low and high."""
    for name, value in values.items():
        check_range(name, value, low, high)


def _check_parameters(
    place: str, known: Mapping[str, inspect.Parameter], parameters: Mapping[str, object]
) -> None:
    for name, value in parameters.items():
        if name not in known:
            raise ConfigError(f"{place} has no parameter {name!r:.60}; it has: {_listed(known)}")
        accepted = _alternatives(known[name].annotation)
        if accepted and not any(_is_a(value, one) for one in accepted):
            expected = " or ".join(_words(one) for one in accepted)
            raise ConfigError(f"{place}: {name} must be {expected}, not {value!r:.60}")
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in parameters:
            raise ConfigError(f"{place} needs the parameter {name!r}; it has: {_listed(known)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the kinds that an annotation allows; none when it is not one that is checked here."""
    parts = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    checkable = all(part in _KINDS or get_origin(part) is Literal for part in parts)
    return parts if checkable else ()


def _is_a(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, kind)


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    return _KINDS[kind]
