"""Text to filter: the attribute language by recursive descent, then into normal form.

    filter      = disjunction ;
    disjunction = conjunction, { OR, conjunction } ;
    conjunction = negation, { AND, negation } ;
    negation    = NOT, negation | "(", disjunction, ")" | TRUE | FALSE | condition ;
    condition   = EXISTS, name | name, ( comparison | [ NOT ], ( between | in | like ) | IS, [ NOT ], NULL ) ;

One method for each rule; docs/filters.md has the whole grammar. The limits come first: length before anything
else, tokens before parsing, depth while parsing, so that hostile text costs no more than it should. Only
FilterError leaves this module; what it says of a mistake is worked out in mistakes.py, after the mistake.
"""

from __future__ import annotations

from typing import Final

from covey.core.attributes import mistakes
from covey.core.attributes.constraint import MAX_IN_VALUES
from covey.core.attributes.filter import AttributeFilter
from covey.core.attributes.lexer import Token, tokenise
from covey.core.attributes.like import MAX_PATTERN_LENGTH, parse_pattern
from covey.core.attributes.normalise import to_filter
from covey.core.attributes.syntax import (
    And,
    Between,
    Comparison,
    Like,
    Literal,
    Not,
    Null,
    Or,
    Tree,
    Truth,
    Within,
)
from covey.core.attributes.values import MAX_NAME_LENGTH
from covey.errors import FilterError

MAX_CHARACTERS: Final = 4096
MAX_TOKENS: Final = 200
MAX_DEPTH: Final = 32

# Canonical text may be longer than text written by hand: distribution repeats conditions.
MAX_CANONICAL_CHARACTERS: Final = 16_384
MAX_CANONICAL_TOKENS: Final = 8_192
# A text of n characters has a normal form of at most this many times n characters a conjunction.
_MAX_EXPANSION: Final = 5

_OPERATORS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
_LISTED: Final = frozenset(("number", "string", "TRUE", "FALSE", ","))


def parse_attributes(text: str) -> AttributeFilter:
    """Return the filter that `text` says; raise FilterError with position, expectation and hint if none.

    Text beyond the limits of hand-written text is accepted only if it is canonical: what str() gives.
    """
    _check_text(text, MAX_CANONICAL_CHARACTERS)
    tokens, excess = _read(text)
    if excess is not None:
        return _parse_canonical(text, tokens, excess)
    result = to_filter(_Parser(text, tokens).filter())
    if len(result.conjunctions) * len(text) * _MAX_EXPANSION > MAX_CANONICAL_CHARACTERS:
        _check_canonical_length(result)
    return result


def parse_tree(text: str) -> Tree:
    """Return the syntax tree of `text`, as written; raise FilterError if it is not in the language."""
    _check_text(text, MAX_CHARACTERS)
    tokens, excess = _read(text)
    if excess is not None:
        raise excess
    return _Parser(text, tokens).filter()


def _check_text(text: str, limit: int) -> None:
    """Raise FilterError unless `text` is a string of acceptable length without unpaired surrogates."""
    if not isinstance(text, str):
        raise FilterError(f"a filter's text must be a string, not {type(text).__name__}")
    if len(text) > limit:
        raise _too_long(text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FilterError(
                "the text has an unpaired surrogate",
                position=error.start,
                expected="well-formed Unicode text",
            ) from None


def _read(text: str) -> tuple[list[Token], FilterError | None]:
    """Return the tokens, and the error to raise if they are too many for text that is not canonical."""
    if len(text) <= MAX_CHARACTERS:
        tokens = tokenise(text)
        return tokens, _too_many_tokens(text, tokens) if len(tokens) > MAX_TOKENS + 1 else None
    excess = _too_long(text)
    try:
        return tokenise(text, MAX_CANONICAL_TOKENS), excess
    except FilterError:
        raise excess from None


def _parse_canonical(text: str, tokens: list[Token], excess: FilterError) -> AttributeFilter:
    try:
        result = to_filter(_Parser(text, tokens).filter())
    except FilterError:
        raise excess from None
    if str(result) != text:
        raise excess
    return result


def _check_canonical_length(result: AttributeFilter) -> None:
    length = len(str(result))
    if length > MAX_CANONICAL_CHARACTERS:
        raise FilterError(
            f"the filter's normal form takes {length:,} characters",
            expected=f"at most {MAX_CANONICAL_CHARACTERS:,}",
            hint="an AND of many ORs multiplies: split the filter",
        )


def _too_long(text: str) -> FilterError:
    return FilterError(
        f"the text of {len(text):,} characters passes the limit",
        position=MAX_CHARACTERS,
        expected=f"at most {MAX_CHARACTERS:,}",
        hint="split the filter into several",
    )


def _too_many_tokens(text: str, tokens: list[Token]) -> FilterError | None:
    """Return the error at the first token too many, if there is one; an IN list counts as one token."""
    count = 0
    in_list = False
    previous = ""
    for kind, _, position in tokens:
        in_list = kind in _LISTED if in_list else kind == "(" and previous == "IN"
        previous = kind
        if not in_list and kind != "end":
            count += 1
            if count > MAX_TOKENS:
                return FilterError(
                    f"the text has more than {MAX_TOKENS} tokens",
                    text=text,
                    position=position,
                    hint="use IN (...) for several values of one attribute: a list counts as one token",
                )
    return None


class _Parser:
    """One pass over the tokens; `at` is the next one to read."""

    __slots__ = ("at", "text", "tokens")

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0

    def filter(self) -> Tree:
        tree = self.disjunction(0)
        if self.tokens[self.at][0] != "end":
            raise mistakes.after_condition(self.text, self.tokens, self.at, inside=None)
        return tree

    def disjunction(self, depth: int) -> Tree:
        first = self.conjunction(depth)
        if self.tokens[self.at][0] != "OR":
            return first
        operands = [first]
        while self.tokens[self.at][0] == "OR":
            self.at += 1
            operands.append(self.conjunction(depth))
        return Or(tuple(operands))

    def conjunction(self, depth: int) -> Tree:
        first = self.negation(depth)
        if self.tokens[self.at][0] != "AND":
            return first
        operands = [first]
        while self.tokens[self.at][0] == "AND":
            self.at += 1
            operands.append(self.negation(depth))
        return And(tuple(operands))

    def negation(self, depth: int) -> Tree:
        kind, _, position = self.tokens[self.at]
        if kind == "name":
            return self.condition(self.name())
        if kind == "NOT" or kind == "(":
            if depth == MAX_DEPTH:
                raise FilterError(
                    f"parentheses and NOT nest deeper than {MAX_DEPTH} levels",
                    text=self.text,
                    position=position,
                )
            self.at += 1
            return Not(self.negation(depth + 1)) if kind == "NOT" else self.group(depth + 1)
        if kind == "EXISTS":
            self.at += 1
            return self.existence()
        if kind == "TRUE" or kind == "FALSE":
            self.at += 1
            return Truth(kind == "TRUE")
        raise mistakes.no_condition(self.text, self.tokens, self.at)

    def group(self, depth: int) -> Tree:
        opening = self.at - 1
        tree = self.disjunction(depth)
        if self.tokens[self.at][0] != ")":
            raise mistakes.after_condition(self.text, self.tokens, self.at, inside=opening)
        self.at += 1
        return tree

    def existence(self) -> Tree:
        enclosed = self.tokens[self.at][0] == "("
        if enclosed:
            self.at += 1
        if self.tokens[self.at][0] != "name":
            raise self.unexpected("an attribute's name", "EXISTS asks for one attribute: EXISTS a")
        name = self.name()
        if enclosed:
            self.take(")", "EXISTS asks for one attribute: EXISTS (a)")
        return Null(name, negated=True)

    def name(self) -> str:
        _, name, position = self.tokens[self.at]
        assert isinstance(name, str)
        if len(name) > MAX_NAME_LENGTH:
            problem = f"the attribute's name has more than {MAX_NAME_LENGTH} characters"
            raise FilterError(problem, text=self.text, position=position)
        self.at += 1
        return name

    def condition(self, name: str) -> Tree:
        """Read what follows a condition's name."""
        kind = self.tokens[self.at][0]
        if kind in _OPERATORS:
            self.at += 1
            return self.comparison(name, kind)
        if kind == "IS":
            self.at += 1
            return self.nullness(name)
        negated = kind == "NOT"
        if negated:
            self.at += 1
            kind = self.tokens[self.at][0]
        self.at += 1
        if kind == "BETWEEN":
            return self.between(name, negated)
        if kind == "IN":
            return self.within(name, negated)
        if kind == "LIKE":
            return self.like(name, negated)
        self.at -= 1
        raise mistakes.no_operator(self.text, self.tokens, self.at, negated=negated)

    def comparison(self, name: str, operator: str) -> Tree:
        value = self.literal()
        if isinstance(value, bool) and operator not in ("=", "<>"):
            self.at -= 1
            raise self.unexpected("a number or a string", "booleans have no order: compare them with = or <>")
        return Comparison(name, operator, value)

    def nullness(self, name: str) -> Tree:
        negated = self.tokens[self.at][0] == "NOT"
        if negated:
            self.at += 1
        self.take("NULL", "IS tests presence only; compare a boolean with =: active = TRUE")
        return Null(name, negated)

    def between(self, name: str, negated: bool) -> Tree:
        low = self.bound()
        self.take("AND", "a range is written BETWEEN 10 AND 20")
        high = self.bound()
        if isinstance(low, str) != isinstance(high, str):
            self.at -= 1
            wanted = "a string" if isinstance(low, str) else "a number"
            raise self.unexpected(wanted, "both ends of a range must be numbers, or both strings")
        return Between(name, low, high, negated)

    def bound(self) -> int | float | str:
        value = self.literal()
        if isinstance(value, bool):
            self.at -= 1
            raise self.unexpected("a number or a string", "booleans have no order, so they have no ranges")
        return value

    def within(self, name: str, negated: bool) -> Tree:
        self.take("(", "a list is written IN (1, 2, 3)")
        values = [self.literal()]
        while self.tokens[self.at][0] == ",":
            self.at += 1
            if len(values) == MAX_IN_VALUES:
                raise FilterError(
                    f"the list has more than {MAX_IN_VALUES} values",
                    text=self.text,
                    position=self.tokens[self.at][2],
                )
            values.append(self.literal())
        if self.tokens[self.at][0] != ")":
            raise self.unexpected(", or )", "a list is written IN (1, 2, 3)")
        self.at += 1
        return Within(name, tuple(values), negated)

    def like(self, name: str, negated: bool) -> Tree:
        start = self.at
        pattern = self.string("LIKE compares strings: LIKE 'ab%'")
        escape = None
        if self.tokens[self.at][0] == "ESCAPE":
            self.at += 1
            escape = self.string("ESCAPE names one character: ESCAPE '\\'")
        if escape is not None or len(pattern) > MAX_PATTERN_LENGTH:
            try:
                parse_pattern(pattern, escape)
            except FilterError as error:
                raise mistakes.bad_pattern(self.text, self.tokens, start, error) from None
        return Like(name, pattern, escape, negated)

    def string(self, hint: str) -> str:
        kind, value, _ = self.tokens[self.at]
        if kind != "string":
            raise self.unexpected("a string in single quotes", hint)
        self.at += 1
        return str(value)

    def literal(self) -> Literal:
        kind, value, _ = self.tokens[self.at]
        self.at += 1
        if kind == "number" or kind == "string":
            return value
        if kind == "TRUE" or kind == "FALSE":
            return kind == "TRUE"
        raise mistakes.no_value(self.text, self.tokens, self.at - 1)

    def take(self, kind: str, hint: str) -> None:
        if self.tokens[self.at][0] != kind:
            raise self.unexpected(kind, hint)
        self.at += 1

    def unexpected(self, expected: str, hint: str) -> FilterError:
        return mistakes.unexpected(self.text, self.tokens, self.at, expected, hint)
