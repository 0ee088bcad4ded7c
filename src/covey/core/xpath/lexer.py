"""The words of an XPath filter's text.

One expression knows all tokens and takes them off the text from left to right, each character once. What no token
begins with is refused where it stands, with a hint for what full XPath would have allowed there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from covey.core.xpath.pattern import MAX_TEXT_LENGTH, MAX_TOKENS, NAME
from covey.errors import FilterError

END = "end"

_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
        (?P<slashes>//) | (?P<slash>/) | (?P<open>\[) | (?P<close>\]) | (?P<at>@) | (?P<star>\*) | (?P<equals>=)
      | (?P<literal>'(?:[^']|'')*' | "(?:[^"]|"")*")
      | (?P<name>{NAME.pattern})
      | (?P<dot>\.(?!\.))
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)

_HINTS = {
    "'": "close the value with another '",
    '"': 'close the value with another "',
    ".": "the parent axis .. is not part of the language",
    "(": "functions and parentheses are not part of the language",
    "|": "the union of paths is not part of the language: use two filters",
    "!": "only = compares: [@a='v']",
    "<": "only = compares: [@a='v']",
    ">": "only = compares: [@a='v']",
    **dict.fromkeys("0123456789", "names begin with a letter; values are in quotes: [@a='5']"),
    ":": "axes such as child:: are not part of the language: use / and //",
}


class Token(NamedTuple):
    """A word of the text: what it is, how it is written and where it begins."""

    kind: str
    text: str
    position: int


def scan(text: str) -> list[Token]:
    """Return the tokens of the text, the last one of kind END; raise FilterError beyond the limits."""
    if len(text) > MAX_TEXT_LENGTH:
        raise FilterError(
            f"the filter's text has {len(text)} characters", expected=f"at most {MAX_TEXT_LENGTH}"
        )
    tokens: list[Token] = []
    position = 0
    match_token = _TOKEN.match
    while True:
        match = match_token(text, position)
        if match is None:
            raise _unknown(text, position)
        kind = match.lastgroup or END
        start, position = match.span(kind)
        if kind == END:
            tokens.append(Token(END, "", len(text)))
            return tokens
        if len(tokens) == MAX_TOKENS:
            raise FilterError(
                "the filter has too many tokens", text=text, position=start, expected=f"at most {MAX_TOKENS}"
            )
        tokens.append(Token(kind, text[start:position], start))


def _unknown(text: str, position: int) -> FilterError:
    while text[position] in " \t\r\n":
        position += 1
    return FilterError(
        f"unexpected {text[position]!r}",
        text=text,
        position=position,
        expected="a name, *, /, //, @ or [",
        hint=_HINTS.get(text[position]),
    )


def value_of(token: Token) -> str:
    """Return the value that a literal stands for."""
    mark = token.text[0]
    return token.text[1:-1].replace(mark + mark, mark)
