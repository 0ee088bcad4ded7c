"""What to tell people whose filter does not parse: the problem, what could have stood there, and what to try.

Called only once a mistake is certain, so nothing here needs to be fast. Every function is given the tokens
and the index of the first one that does not fit, and returns the FilterError to raise. The hints name what
the language leaves out on purpose (arithmetic, functions, comparing attributes) and habits from other
languages.
"""

from __future__ import annotations

from typing import Final

from covey.core.attributes.lexer import FINITE_HINT, KEYWORDS, Token, quote_string
from covey.errors import FilterError

_OPERATORS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_AN_OPERATOR: Final = "= <> < <= > >=, [NOT] BETWEEN, [NOT] IN, [NOT] LIKE or IS [NOT] NULL"
_A_VALUE: Final = "a number, a string in single quotes, TRUE or FALSE"
_A_CONDITION: Final = "a condition such as price > 10"
_NOT_FINITE: Final = frozenset(("nan", "inf", "infinity"))
_SQL_CLAUSES: Final = frozenset(("select", "where", "from", "having", "delete", "drop", "insert", "update"))
_LIKE_RELATIVES: Final = frozenset(
    ("contains", "endswith", "ilike", "matches", "regexp", "rlike", "startswith")
)

_FUNCTIONS_HINT: Final = "the language has no functions: they would break exact covering"
_ARITHMETIC_HINT: Final = "the language has no arithmetic: write the result as one number"
_ATTRIBUTE_FIRST_HINT: Final = "write the attribute first"
_CHAIN_HINT: Final = "one comparison a condition: join two with AND, or write a BETWEEN 1 AND 5"
_EXCERPT: Final = 20


def unexpected(text: str, tokens: list[Token], at: int, expected: str, hint: str | None) -> FilterError:
    """Say that the token at `at` is not what could stand there."""
    kind, _, position = tokens[at]
    problem = "the text ends too early" if kind == "end" else f"{_shown(text, tokens, at)} does not fit"
    return FilterError(problem, text=text, position=position, expected=expected, hint=hint)


def no_condition(text: str, tokens: list[Token], at: int) -> FilterError:
    """A condition should begin at `at` and does not."""
    kind, value, _ = tokens[at]
    following = tokens[at + 1][0] if kind != "end" else "end"
    hint = None
    if kind == "end":
        if at == 0:
            hint = "TRUE matches every event, FALSE none"
            return FilterError("the text is empty", text=text, position=0, expected=_A_CONDITION, hint=hint)
    elif kind in ("number", "string"):
        hint = _attribute_first(text, tokens, at)
    elif kind == ")":
        hint = "something must stand between the parentheses"
    elif kind in KEYWORDS and following in _OPERATORS | {"IS", "IN", "LIKE", "BETWEEN"}:
        hint = f'{kind} is a keyword: an attribute of that name is quoted, "{value}"'
    return unexpected(text, tokens, at, _A_CONDITION, hint)


def no_operator(text: str, tokens: list[Token], at: int, *, negated: bool) -> FilterError:
    """After an attribute's name (and perhaps NOT) stands nothing that makes a condition of it."""
    kind, value, position = tokens[at]
    name_at = at - 2 if negated else at - 1
    name = _shown(text, tokens, name_at)
    if negated:
        return unexpected(text, tokens, at, "BETWEEN, IN or LIKE", "NOT before a whole condition: NOT a = 5")
    hint = None
    word = str(value).lower()
    first = str(tokens[name_at][1]).lower()
    if kind == "(":
        hint = _FUNCTIONS_HINT
    elif first in _SQL_CLAUSES:
        hint = "write the condition only, as after WHERE"
    elif kind == "name" and word in _LIKE_RELATIVES:
        hint = "write LIKE: 'ab%' begins with ab, '%ab%' contains it, '%ab' ends with it"
    elif kind == "number":
        hint = _ARITHMETIC_HINT
        if text[position] == ".":
            hint = 'a path\'s part that begins with a digit is quoted: a."5"'
    elif kind in ("end", "AND", "OR", ")"):
        hint = f"a condition is a comparison: write {name} = TRUE"
        return FilterError(
            f"{name} alone is not a condition",
            text=text,
            position=tokens[name_at][2],
            expected=_AN_OPERATOR,
            hint=hint,
        )
    return unexpected(text, tokens, at, _AN_OPERATOR, hint)


def no_value(text: str, tokens: list[Token], at: int) -> FilterError:
    """A value should stand at `at` and does not."""
    kind, value, position = tokens[at]
    hint = None
    if kind == "NULL":
        hint = "nothing equals NULL: write IS NULL or IS NOT NULL"
    elif kind == "(":
        hint = "a value stands without parentheses; a list needs IN: a IN (1, 2, 3)"
    elif kind == "name":
        if text[position] == '"':
            hint = f'"..." quotes a name; a string takes single quotes: {_brief(quote_string(str(value)))}'
        elif str(value).lower() in _NOT_FINITE:
            hint = FINITE_HINT
        elif tokens[at + 1][0] == "(":
            hint = _FUNCTIONS_HINT
        else:
            hint = (
                "attributes cannot be compared with each other: it would break exact covering; "
                f"a string takes single quotes: {_brief(quote_string(str(value)))}"
            )
    elif kind == ")":
        hint = "a list has at least one value and no comma after the last"
    elif kind in _OPERATORS:
        hint = "write the operators <> <= >= without a space, and only one"
    return unexpected(text, tokens, at, _A_VALUE, hint)


def after_condition(text: str, tokens: list[Token], at: int, *, inside: int | None) -> FilterError:
    """A condition is complete and the token at `at` continues nothing; `inside` is the open parenthesis."""
    kind, value, _ = tokens[at]
    expected = "AND, OR or the end" if inside is None else "AND, OR or )"
    hint = None
    if kind == "end" and inside is not None:
        hint = f"close the parenthesis that opens at character {tokens[inside][2] + 1}"
    elif kind == ")":
        hint = "no parenthesis is open here: leave it out"
    elif kind == "number" and tokens[at - 1][0] == "number":
        hint = _ARITHMETIC_HINT
    elif kind in _OPERATORS:
        hint = _ATTRIBUTE_FIRST_HINT if tokens[at - 1][0] in ("TRUE", "FALSE") and at == 1 else _CHAIN_HINT
    elif kind == "ESCAPE":
        hint = "ESCAPE follows a LIKE pattern"
    elif kind == "name" and str(value).lower() in ("order", "group", "limit"):
        hint = "write the condition only"
    elif kind in ("name", ",", "(", "NOT", "EXISTS"):
        hint = "conditions are joined with AND or OR"
    return unexpected(text, tokens, at, expected, hint)


def bad_pattern(text: str, tokens: list[Token], at: int, error: FilterError) -> FilterError:
    """Give an error about the pattern or escape at `at` its place in the text."""
    return FilterError(
        error.problem,
        text=text,
        position=tokens[at][2],
        expected=error.expected,
        hint=error.hint or r"with ESCAPE '\', \% is a percent sign, \_ an underscore and \\ a backslash",
    )


def _attribute_first(text: str, tokens: list[Token], at: int) -> str:
    """The hint for `5 < a`: the same comparison the other way round, where it can be seen."""
    operator = tokens[at + 1][0]
    if operator in _OPERATORS and tokens[at + 2][0] == "name":
        name, value = _shown(text, tokens, at + 2), _shown(text, tokens, at)
        return f"{_ATTRIBUTE_FIRST_HINT}: {name} {_MIRRORED[operator]} {value}"
    return f"{_ATTRIBUTE_FIRST_HINT}, then the operator, then the value"


def _shown(text: str, tokens: list[Token], at: int) -> str:
    """The token as it was written."""
    start = tokens[at][2]
    end = tokens[at + 1][2] if at + 1 < len(tokens) else len(text)
    return _brief(text[start:end].rstrip(" \t\r\n\f"))


def _brief(piece: str) -> str:
    """The piece on one line, cut short."""
    short = piece if len(piece) <= _EXCERPT else piece[: _EXCERPT - 1] + "…"
    return "".join([c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in short])
