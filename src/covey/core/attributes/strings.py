"""Sets of strings: cuts narrowed by LIKE patterns.

A set is a triple (strings, likes, unlikes): what lies in the cuts, matches all of `likes` and none of
`unlikes`. Patterns that cuts can express (a plain string, `abc%`, `abc_%`) never stay among the patterns. The
normal form leaves out what adds nothing, as far as the tests on pairs of patterns show it:

- the interval of every like's prefix is intersected into the cuts;
- an interval or point that no string can stand in, given the patterns, is left out;
- a like that all intervals are within, or that another like is within, is left out; so is an unlike that
cannot
  meet the intervals or a like, or that lies within another unlike.

Whatever these tests do not see only makes `cover` say False and `overlap` say True, never the other way
round.
"""

from __future__ import annotations

from functools import lru_cache

from covey.core.attributes import cuts
from covey.core.attributes.cuts import StringCut, StringCuts
from covey.core.attributes.like import (
    MANY,
    ONE,
    Tokens,
    like,
    literal_prefix,
    parse_pattern,
    pattern_contains,
    pattern_text,
    patterns_intersect,
    prepare,
)

Patterns = tuple[str, ...]
Strings = tuple[StringCuts, Patterns, Patterns]

NO_STRINGS: Strings = ((), (), ())

# The most LIKE patterns, wanted and unwanted together, that may narrow one attribute of a conjunction.
MAX_PATTERNS = 16


def like_strings(pattern: str, escape: str | None) -> Strings:
    """Return the strings that match a LIKE pattern."""
    tokens = parse_pattern(pattern, escape)
    plain = pattern_cuts(tokens)
    if plain is not None:
        return plain, (), ()
    text = pattern_text(tokens)
    return like_prefix(text), (text,), ()


def like_prefix(pattern: str) -> StringCuts:
    """Return the strings that begin as the canonical pattern does, up to its first wildcard."""
    return cuts.prefix_interval(literal_prefix(pattern))


def unlike_strings(pattern: str, escape: str | None) -> Strings:
    """Return the strings that do not match a LIKE pattern."""
    tokens = parse_pattern(pattern, escape)
    plain = pattern_cuts(tokens)
    if plain is not None:
        return cuts.complement(plain, cuts.STRING_BOTTOM, cuts.STRING_TOP), (), ()
    return cuts.ALL_STRINGS, (), (pattern_text(tokens),)


def pattern_cuts(tokens: Tokens) -> StringCuts | None:
    """Return the cuts that hold exactly what the pattern matches, if there are such."""
    prefix = "".join(token for token in tokens if token not in (ONE, MANY))
    wild = tokens[len(prefix) :]
    if not wild:
        return cuts.string_points([prefix]) if tokens == tuple(prefix) else None
    if tokens[: len(prefix)] != tuple(prefix):
        return None
    if wild == (MANY,):
        return cuts.prefix_interval(prefix)
    if wild == (ONE, MANY):
        return ((0, prefix + "\0"), cuts.after_prefix(prefix))
    return None


def normal(strings: StringCuts, likes: Patterns, unlikes: Patterns) -> Strings:
    """Return the normal form of a set of strings."""
    if not strings:
        return NO_STRINGS
    if not likes and not unlikes:
        return strings, (), ()
    for pattern in likes:
        strings = cuts.intersect(strings, like_prefix(pattern))
    shapes = [
        (low, high, shape)
        for low, high in cuts.intervals(strings)
        for shape in (_shape(low, high),)
        if all(_meets(shape, pattern) for pattern in likes)
        and not any(_within(shape, pattern) for pattern in unlikes)
    ]
    if not shapes:
        return NO_STRINGS
    strings = tuple([cut for low, high, _ in shapes for cut in (low, high)])
    likes = _smallest([p for p in likes if not all(_within(shape, p) for _, _, shape in shapes)])
    if any(_apart(a, b) for i, a in enumerate(likes) for b in likes[:i]):
        return NO_STRINGS
    if any(_contains(unlike, pattern) for unlike in unlikes for pattern in likes):
        return NO_STRINGS
    unlikes = _largest([p for p in unlikes if not _avoids(strings, likes, p)])
    return strings, likes, unlikes


def contains(strings: Strings, value: str) -> bool:
    """Return whether the string is in the set."""
    included, likes, unlikes = strings
    if not cuts.contains_string(included, value):
        return False
    return all(like(value, pattern) for pattern in likes) and not any(
        like(value, pattern) for pattern in unlikes
    )


def cover(a: Strings, b: Strings) -> bool:
    """Return True only if `b` is a subset of `a`; exact when neither has patterns."""
    strings, likes, unlikes = b
    if not strings:
        return True
    if not cuts.contains_set(a[0], strings):
        return False
    for pattern in a[1]:
        if pattern not in likes and not _keeps_to(strings, likes, pattern):
            return False
    for pattern in a[2]:  # noqa: SIM110 - the same loop as the one before
        if pattern not in unlikes and not _keeps_off(strings, likes, unlikes, pattern):
            return False
    return True


def _keeps_to(strings: StringCuts, likes: Patterns, pattern: str) -> bool:
    """Return True only if all strings of the set match the pattern."""
    for inner in likes:
        if _contains(pattern, inner):
            return True
    return _all_within(strings, pattern)


def _keeps_off(strings: StringCuts, likes: Patterns, unlikes: Patterns, pattern: str) -> bool:
    """Return True only if no string of the set matches the pattern."""
    for outer in unlikes:
        if _contains(outer, pattern):
            return True
    return _avoids(strings, likes, pattern)


def intersect(a: Strings, b: Strings) -> Strings:
    """Return what is in both sets."""
    strings = cuts.intersect(a[0], b[0])
    if not strings:
        return NO_STRINGS
    if not (a[1] or a[2] or b[1] or b[2]):
        return strings, (), ()
    return normal(strings, _join(a[1], b[1]), _join(a[2], b[2]))


def overlap(a: Strings, b: Strings) -> bool:
    """Return False only if no string is in both sets; exact when neither has patterns."""
    if not cuts.intersects(a[0], b[0]):
        return False
    if not (a[1] or a[2] or b[1] or b[2]):
        return True
    if is_one_pattern(a) and is_one_pattern(b):
        return not _apart(a[1][0], b[1][0])
    return bool(intersect(a, b)[0])


def is_one_pattern(strings: Strings) -> bool:
    """Return whether the set is exactly what one general pattern matches."""
    included, likes, unlikes = strings
    return len(likes) == 1 and not unlikes and included == like_prefix(likes[0])


def difference(a: Strings, b: Strings) -> list[Strings]:
    """Return sets that together hold exactly what is in `a` and not in `b`."""
    inside = cuts.intersect(a[0], b[0])
    pieces = [normal(cuts.difference(a[0], b[0]), a[1], a[2])]
    pieces += [normal(inside, a[1], _join(a[2], (pattern,))) for pattern in b[1]]
    pieces += [normal(inside, _join(a[1], (pattern,)), a[2]) for pattern in b[2]]
    return [piece for piece in pieces if piece[0]]


def union(a: Strings, b: Strings) -> Strings | None:
    """Return the set of what is in `a` or `b` if one triple can say it, else None."""
    if not a[1] and not a[2] and not b[1] and not b[2]:
        return cuts.union(a[0], b[0]), (), ()
    if cover(a, b):
        return a
    if cover(b, a):
        return b
    together = cuts.union(a[0], b[0])
    if a[1:] == b[1:]:
        return normal(together, a[1], a[2])
    for plain, narrowed in ((a, b), (b, a)):
        # Cuts alone, all of which keep to the other's patterns, can go under those patterns.
        if not plain[1] and not plain[2] and cover((cuts.ALL_STRINGS, *narrowed[1:]), plain):
            return normal(together, narrowed[1], narrowed[2])
    if a[:2] == b[:2]:
        return _union_of_unlikes(a, b)
    return _union_of_complements(a, b) or _union_of_complements(b, a)


def _union_of_unlikes(a: Strings, b: Strings) -> Strings | None:
    """Return the union of sets that differ in their unlikes: it misses only what an unlike of each matches."""
    common = []
    for mine in a[2]:
        for theirs in b[2]:
            if _contains(mine, theirs):
                common.append(theirs)
            elif _contains(theirs, mine):
                common.append(mine)
            elif not _apart(mine, theirs):
                return None
    return normal(a[0], a[1], tuple(sorted({*common})))


def _union_of_complements(a: Strings, b: Strings) -> Strings | None:
    """Return the union when `a` is like a pattern that `b` is unlike and they agree otherwise."""
    if len(a[1]) != 1 or b[2] != a[1] or a[2] or b[1]:
        return None
    prefix = like_prefix(a[1][0])
    return (b[0], (), ()) if a[0] == cuts.intersect(b[0], prefix) else None


def hull(a: Strings, b: Strings) -> Strings:
    """Return a small set that holds both: their cuts joined, under the patterns that both keep to."""
    exact = union(a, b)
    if exact is not None:
        return exact
    likes = _join(_kept(a[1], (), b), _kept(b[1], (), a))
    unlikes = _join(_kept((), a[2], b), _kept((), b[2], a))
    return normal(cuts.union(a[0], b[0]), likes, unlikes)


def _kept(likes: Patterns, unlikes: Patterns, by: Strings) -> Patterns:
    """Return those of the patterns (one of the two tuples is empty) that all strings of `by` keep to."""
    return tuple(p for p in likes if cover((cuts.ALL_STRINGS, (p,), ()), by)) + tuple(
        p for p in unlikes if cover((cuts.ALL_STRINGS, (), (p,)), by)
    )


def _join(a: Patterns, b: Patterns) -> Patterns:
    return tuple(sorted({*a, *b})) if a and b else a or b


@lru_cache(maxsize=1_024)
def _contains(outer: str, inner: str) -> bool:
    wide, narrow = prepare(outer), prepare(inner)
    if wide.least_length > narrow.least_length or not wide.accepts.keys() <= narrow.accepts.keys():
        return False
    return pattern_contains(wide, narrow.tokens)


@lru_cache(maxsize=1_024)
def _apart(a: str, b: str) -> bool:
    return not patterns_intersect(prepare(a), prepare(b).tokens)


def _shape(low: StringCut, high: StringCut) -> str | Tokens:
    """Return the only string between the cuts, or a pattern that all strings between them match."""
    if cuts.is_string_point(low, high):
        return low[1]
    prefix = cuts.common_prefix(low, high)
    return (*prefix, MANY) if prefix == low[1] else (*prefix, ONE, MANY)


def _within(shape: str | Tokens, pattern: str) -> bool:
    """Return True only if all strings of the shape match the pattern."""
    return like(shape, pattern) if isinstance(shape, str) else pattern_contains(prepare(pattern), shape)


def _meets(shape: str | Tokens, pattern: str) -> bool:
    """Return False only if no string of the shape matches the pattern."""
    return like(shape, pattern) if isinstance(shape, str) else patterns_intersect(prepare(pattern), shape)


def _all_within(strings: StringCuts, pattern: str) -> bool:
    if strings == cuts.ALL_STRINGS:
        # Only % holds all strings, and cuts express that.
        return False
    return all(_within(_shape(low, high), pattern) for low, high in cuts.intervals(strings))


def _avoids(strings: StringCuts, likes: Patterns, unlike: str) -> bool:
    """Return True only if no string of the set matches `unlike`."""
    for pattern in likes:
        if _apart(pattern, unlike):
            return True
    if strings == cuts.ALL_STRINGS:
        return False
    near = cuts.intersect(strings, like_prefix(unlike))
    return not any(_meets(_shape(low, high), unlike) for low, high in cuts.intervals(near))


def _smallest(patterns: list[str]) -> Patterns:
    """Return the patterns, sorted, without those that hold another."""
    return tuple(
        sorted(p for p in patterns if not any(q != p and _contains(p, q) for q in patterns)),
    )


def _largest(patterns: list[str]) -> Patterns:
    """Return the patterns, sorted, without those that another holds."""
    return tuple(
        sorted(p for p in patterns if not any(q != p and _contains(q, p) for q in patterns)),
    )
