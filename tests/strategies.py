"""Random filters and events that several tests share.

Domains are small on purpose: constants of filters collide with each other and with the values of events, so
that equalities hold, intervals touch and filters cover each other often. `attribute_values` has what lies
between and beyond the constants too, and values of every kind that an event may hold.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from covey.core.attributes import constraint as conditions
from covey.core.attributes.constraint import Constraint
from covey.core.attributes.filter import FALSE, TRUE, AttributeFilter
from covey.errors import FilterError
from tests import special_values

NAMES = ("a", "b", "c", "quote.price")
NUMBERS: tuple[int | float, ...] = (0, 1, 2, 3, 2.5)
RARE_NUMBERS: tuple[int | float, ...] = (
    -1,
    0.1,
    2**53,
    float(2**53),
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    1e300,
    -1e-300,
)
STRINGS = ("", "a", "ab", "b", "ba")
RARE_STRINGS = ("a\0", "A", "aé", "%", "a_b", "\\", "it's", "\U0010ffff", "ab" * 20)
PATTERNS = ("a%", "%a", "%b%", "_", "a_", "_b%", "%a_b%", "", "%", "_%", "a\\", "ab", "%ab", "__%")

# What an event may hold: constants, what lies between and beyond them, and values that compare with nothing.
EVENT_NUMBERS: tuple[int | float, ...] = (
    *NUMBERS, *RARE_NUMBERS, 0.5, 1.5, 2.25, -2, 4, 2**64, -(2**70), float("inf"), float("-inf"), -0.0, 1.0,
)  # fmt: skip
EVENT_STRINGS = (*STRINGS, *RARE_STRINGS, "aa", "abb", "bab", "c", "a\ud800", "\ud7ff", "1", "true")
EVENT_OTHERS: tuple[Any, ...] = (float("nan"), [1], (), b"a", None)


def constants() -> st.SearchStrategy[Any]:
    """A value that a filter may hold."""
    return st.one_of(
        st.sampled_from(NUMBERS),
        st.sampled_from(STRINGS),
        st.booleans(),
        st.sampled_from(NUMBERS),
        st.sampled_from(RARE_NUMBERS),
        st.sampled_from(RARE_STRINGS),
        special_values.constants(),
    )


def _ordered_constants() -> st.SearchStrategy[Any]:
    return constants().filter(lambda value: not isinstance(value, bool))


def conditions_on_one(likes: bool = True) -> st.SearchStrategy[Constraint]:
    """The constraint of one condition of the language; without general LIKE patterns if so asked."""
    numbers = st.sampled_from(NUMBERS)
    choices = [
        st.builds(conditions.compare, st.sampled_from(("=", "<>")), constants()),
        st.builds(conditions.compare, st.sampled_from(conditions.COMPARISONS), _ordered_constants()),
        st.builds(conditions.compare, st.sampled_from(conditions.COMPARISONS), numbers),
        st.builds(conditions.between, numbers, numbers),
        st.builds(conditions.not_between, numbers, numbers),
        st.builds(conditions.between, _ordered_constants(), _ordered_constants()),
        st.builds(conditions.within, st.lists(constants(), min_size=1, max_size=4)),
        st.builds(conditions.not_within, st.lists(constants(), min_size=1, max_size=2)),
        st.builds(conditions.null),
        st.builds(conditions.present),
    ]
    if likes:
        patterns = st.sampled_from(PATTERNS)
        choices += [st.builds(conditions.like, patterns), st.builds(conditions.not_like, patterns)]
    return st.one_of(choices)


def constraints(likes: bool = True) -> st.SearchStrategy[Constraint]:
    """A constraint in normal form: one condition, or two joined by AND or OR."""
    one = conditions_on_one(likes)

    def join(a: Constraint, b: Constraint, union: bool) -> Constraint:
        return (a.union(b) if union else a.intersect(b)) or a

    return st.one_of(one, st.builds(join, one, one, st.booleans()))


def attribute_conjunctions(
    names: tuple[str, ...] = NAMES, likes: bool = True, max_constraints: int = 3
) -> st.SearchStrategy[AttributeFilter]:
    """A filter that is one conjunction, or FALSE where its constraints contradict each other."""
    sides = st.builds(AttributeFilter.of, st.sampled_from(names), constraints(likes))
    return st.lists(sides, min_size=1, max_size=max_constraints).map(AttributeFilter.all_of)


def attribute_filters(
    names: tuple[str, ...] = NAMES, likes: bool = True, max_conjunctions: int = 3
) -> st.SearchStrategy[AttributeFilter]:
    """A filter of any form: most often one conjunction, sometimes several, rarely TRUE or FALSE."""
    one = attribute_conjunctions(names, likes)
    several = st.lists(one, min_size=2, max_size=max_conjunctions).map(AttributeFilter.any_of)
    return st.one_of(one, one, several, several, one, st.sampled_from((TRUE, FALSE)))


def attribute_values() -> st.SearchStrategy[Any]:
    """A value that an event may hold; None is absence."""
    return st.one_of(
        st.sampled_from(NUMBERS),
        st.sampled_from(STRINGS),
        st.booleans(),
        st.sampled_from(EVENT_NUMBERS),
        st.sampled_from(EVENT_STRINGS),
        st.sampled_from(EVENT_OTHERS),
        special_values.values(),
        st.floats(),
        st.integers(),
    )


def attribute_events(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[dict[str, Any]]:
    """An event's attributes: some of the names, dotted ones flat or nested, and one in no filter."""

    def nest(flat: dict[str, Any], nested: bool) -> dict[str, Any]:
        if not nested:
            return flat
        event: dict[str, Any] = {}
        for name, value in flat.items():
            head, dot, rest = name.partition(".")
            if dot:
                event.setdefault(head, {})[rest] = value
            else:
                event[name] = value
        return event

    flat = st.dictionaries(st.sampled_from((*names, "unused")), attribute_values(), max_size=len(names) + 1)
    return st.builds(nest, flat, st.booleans())


def hostile_filters() -> st.SearchStrategy[AttributeFilter | None]:
    """A filter of many conjunctions, or None where it would pass the limits."""

    def join(filters: list[AttributeFilter], union: bool) -> AttributeFilter | None:
        try:
            return AttributeFilter.any_of(filters) if union else AttributeFilter.all_of(filters)
        except FilterError:
            return None

    several = st.lists(attribute_filters(), min_size=4, max_size=8)
    return st.builds(join, several, st.booleans())
