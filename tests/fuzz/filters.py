"""Filters of the three languages, as text and as bytes: each is read, or refused with a place and a hint.

A filter that is read keeps its contract: its text parses back and its bytes decode to an equal filter, it judges any
event, compares with other filters, and goes into an index and out again.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import covey
from covey.core.families import LANGUAGES, decode, parse
from covey.core.filter import Filter
from covey.errors import FilterError
from tests.fuzz.harness import Input, Target
from tests.fuzz.mutation import mutated

TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "attributes": (
        "price > 10 AND symbol = 'IBM' OR a LIKE 'x%y'",
        "a IN (1, 2, 'x', TRUE) AND b.c IS NULL",
        "NOT (a BETWEEN 1 AND 5 OR b NOT LIKE '%a_b%') AND \"odd name\" <> 1.5e300",
        "(a = 1 OR b = 2) AND (c = 3 OR d = 4) AND (e < 5 OR f >= 6)",
        "a NOT IN ('é', 'it''s', '') AND b IS NOT NULL",
        "TRUE",
        "FALSE OR a = -9223372036854775808",
        "s LIKE 'a!%b' ESCAPE '!'",
    ),
    "xpath": (
        "/news//item[title]/body",
        "//a[@k='1' and b//c[@d]]/*[./e]/@f",
        '/*//x:y[@z="it\'s"]',
        "//@a",
        "/a[b][c][d/e[f]]",
        "/a/*//b[.//c]",
    ),
    "keywords": (
        "nokia and (phone or watch)",
        "new AND york OR taxi",
        "'new york' or 'it''s'",
        "*",
        "(a or b) and (c or d) and (e or f)",
    ),
}
PIECES: Final[dict[str, tuple[str, ...]]] = {
    "attributes": (
        " ", " ", "a", "b.c", '"d e"', "'x'", "'%'", "1", "-1", "1.5", "1e3", "1e999", "9" * 30, "=", "<>", "!=",
        "<", "<=", ">", ">=", "(", ")", ",", ".", ";", " and ", " or ", " not ", " in (", " like ", " between ",
        " is null", " is not null", " escape ", "true", "false", "nan", "\0", "\n", "\u00a0", "\ud800", "--", "/*",
        "a = 1 or ", "(a = 1 or b = 2) and ", "a like '%x%_y%' and ", "a in (1,2,3,4,5,6,7,8) and ",
    ),
    "xpath": (
        "/", "//", "*", "a", "b", "x:y", "[", "]", "[", "]", "@", "@k", "='1'", "=\"2\"", " and ", ".", "./", ".//",
        "[a]", "[b/c]", "[@k='1']", "//*", "/*", "not(", "text()", "|", "1", "::", "\ud800", "'", "[.//a][.//b]",
    ),
    "keywords": (
        " ", "a", "b", "c", "nokia", "'x y'", "'", "*", "(", ")", " and ", " or ", " not ", "&", "|", ",", "!", "-a",
        "\0", "\ud800", "(a or b) and ", "a and b or ", "é",
    ),
}  # fmt: skip
EVENTS: Final[tuple[Any, ...]] = (
    {"price": 11, "symbol": "IBM", "a": "xay", "b": {"c": None}},
    {"a": 1, "b": "a\0", "c": 1 << 70, "d": float("inf"), "s": "a%b"},
    {"a": True, "b": [1], "c": b"x"},
    {},
    {"nokia", "watch", "new york"},
    "<news><a k='1'><b><c d=''/></b></a><item><title/><body/></item></news>",
)
FILTERS: Final = tuple(parse(text, language) for language in LANGUAGES for text in TEXTS[language])


def check(filter: Filter, language: str) -> None:
    """See that a filter keeps its contract."""
    encoded = filter.encode()
    assert decode(encoded) == filter
    assert parse(str(filter), language) == filter
    for event in EVENTS:
        filter.matches(event)
    for other in FILTERS:
        if other.covers(filter) and filter.covers(other):
            assert other.overlaps(filter) or str(filter).upper() == "FALSE"
    index = covey.Index()
    index.add("key", filter)
    for event in EVENTS:
        assert ("key" in index.match(event)) == filter.matches(event)
    index.remove("key")


def language_of(filter: Filter) -> str:
    """Return the language in which a filter has its text."""
    return {b"A": "attributes", b"X": "xpath", b"K": "keywords"}[filter.encode()[:1]]


# -- text ----------------------------------------------------------------------------------------------------


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def draw_text(draw: Random, language: str) -> Input:
    """Return a filter's text with changes, or pieces of the language one after another, few or many."""
    corpus, pieces = [_encoded(one) for one in TEXTS[language]], PIECES[language]
    lot = draw.random()
    if lot < 0.5:
        return (mutated(draw, corpus),)
    if lot < 0.8:
        return (_encoded("".join(draw.choices(pieces, k=draw.randrange(1, 20)))),)
    if lot < 0.9:
        return (_encoded(_nested(draw, language, draw.randrange(1, 6))),)
    piece = "".join(draw.choices(pieces, k=draw.randrange(1, 4)))
    head, tail = draw.choice(("", draw.choice(TEXTS[language]))), draw.choice(("a", "a = 1", ")", "]", ""))
    return (_encoded(head + piece * draw.choice((3, 10, 30, 100, 300, 1_000, 10_000)) + tail),)


def _nested(draw: Random, language: str, depth: int) -> str:
    if language == "xpath":
        conditions = "".join(
            f"[{_nested(draw, language, depth - 1)}]" for _ in range(draw.randrange(3) if depth else 0)
        )
        path = draw.choice(("", "/", "//", ".//")) + draw.choice("abc*") + conditions
        return path + (draw.choice(("/", "//")) + draw.choice("abc*") if draw.random() < 0.5 else "")
    if not depth:
        return (
            draw.choice(("a = 1", "b > 2", "c like 'x%'", "d in (1, 2)", "e is null"))
            if language == "attributes"
            else draw.choice("abcdefgh")
        )
    joint = draw.choice((" and ", " or "))
    inner = joint.join(_nested(draw, language, depth - 1) for _ in range(draw.randrange(1, 4)))
    negation = "not " if language == "attributes" and draw.random() < 0.2 else ""
    return f"{negation}({inner})"


def _text_target(language: str) -> Target:
    def read(given: Input) -> None:
        if given:
            text = (
                given[0].decode(errors="surrogatepass") if _is_text(given[0]) else given[0].decode("latin-1")
            )
            check(parse(text, language), language)

    valid = tuple((_encoded(text),) for text in TEXTS[language])
    return Target(f"{language}-text", lambda draw: draw_text(draw, language), read, valid, (FilterError,))


def _is_text(data: bytes) -> bool:
    try:
        data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


# -- bytes ---------------------------------------------------------------------------------------------------

ENCODED: Final = tuple(one.encode() for one in FILTERS)


def draw_encoded(draw: Random) -> Input:
    """Return a filter's wire form with changes."""
    return (mutated(draw, ENCODED),)


def read_encoded(given: Input) -> None:
    """Decode it; a filter has one wire form."""
    if given:
        filter = decode(given[0])
        assert filter.encode() == given[0]
        check(filter, language_of(filter))


TARGETS: Final = (
    *(_text_target(language) for language in LANGUAGES),
    Target("filter-bytes", draw_encoded, read_encoded, tuple((one,) for one in ENCODED), (FilterError,)),
)
