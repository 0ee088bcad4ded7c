"""What clients may do, said by filters: subscribe to what an allowed filter covers, publish what one matches.

A permission is a filter's text, a table that names its language, or a list of these; it allows what any of them
allows. Families of filters do not mix: a client with a permission in one language only may do nothing in another.

    subscribe = "symbol = 'IBM'"
    publish = ["price > 0", { language = "xpath", filter = "/order" }]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from covey.core.attributes.filter import AttributeFilter
from covey.core.families import DEFAULT_LANGUAGE, parse
from covey.core.filter import Filter
from covey.errors import ConfigError, FilterError


class AllowedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A permission as it is configured, where its language is named."""

    filter: str
    language: str = DEFAULT_LANGUAGE


Rule = str | AllowedText
Rules = Rule | list[Rule]


class Allowed:
    """Filters of one or several families, any of which may allow."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        listed = list(filters)
        attributes = [one for one in listed if isinstance(one, AttributeFilter)]
        # A union covers what none of its parts covers alone.
        self.attributes = AttributeFilter.any_of(attributes) if attributes else None
        union: list[Filter] = [] if self.attributes is None else [self.attributes]
        self.filters = tuple(union + [one for one in listed if not isinstance(one, AttributeFilter)])

    def covers(self, filter: Filter) -> bool:
        """Return True only if everything that the filter matches is allowed."""
        return any(one.covers(filter) for one in self.filters)

    def matches(self, event: object) -> bool:
        """Return whether the event is allowed."""
        return any(one.matches(event) for one in self.filters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Allowed) and self.filters == other.filters

    def __hash__(self) -> int:
        return hash(self.filters)

    def __str__(self) -> str:
        return "; ".join(f"{one.family}: {one}" for one in self.filters)

    def __repr__(self) -> str:
        return f"<allowed {self}>"


@dataclass(frozen=True)
class Permissions:
    """What a client may do, and what it is called in errors and reports; None allows everything."""

    name: str = ""
    subscribe: Allowed | None = None
    publish: Allowed | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Return them for a report."""
        return {
            "name": self.name,
            "subscribe": None if self.subscribe is None else str(self.subscribe),
            "publish": None if self.publish is None else str(self.publish),
        }


EVERYTHING = Permissions()


def allows(allowed: Allowed | None, filter: Filter) -> bool:
    """Return whether a permission, None for everything, covers all that a filter matches."""
    return allowed is None or allowed.covers(filter)


def read_rules(rules: Rules | None, place: str) -> Allowed | None:
    """Return what configured rules allow, None for no rules; ConfigError that names the place for a bad filter."""
    if rules is None:
        return None
    filters = []
    for rule in rules if isinstance(rules, list) else [rules]:
        text, language = (rule, DEFAULT_LANGUAGE) if isinstance(rule, str) else (rule.filter, rule.language)
        try:
            filters.append(parse(text, language))
        except FilterError as error:
            raise ConfigError(f"{place}: {error}") from None
    return Allowed(filters)
