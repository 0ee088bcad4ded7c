"""Text to tokens: the words, numbers, strings and symbols of the attribute language.

One compiled expression does the work. Every repetition in it is possessive, so it never tries a second way to
read the same characters and the time is linear in the text, whatever the text is. A whole dotted path is one
token, so a keyword is only a keyword when it stands alone: `order.in` needs no quotes, `"in"` does.

A token's kind is "name", "number", "string" or "end"; keywords and symbols are their own kind ("AND", "<=").
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from covey.core.attributes.values import INTEGER_MAX, INTEGER_MIN
from covey.errors import FilterError

KEYWORDS: Final = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "EXISTS", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE")
)

_INTEGER_DIGITS: Final = 19  # no 64-bit integer has more

# A path part that needs no quotes. Letters and digits of every script, `_` and `$`; no digit first.
_WORD: Final = r"[^\W\d][\w$]*+|\$[\w$]*+"
_QUOTED: Final = r'"[^"]*+(?:""[^"]*+)*+"'
_PART: Final = rf"(?:{_WORD}|{_QUOTED})"
_NUMBER: Final = r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+(?![\w$.])"
_STRING: Final = r"'[^']*+(?:''[^']*+)*+'"
_SYMBOL: Final = r"<=|>=|<>|!=|=(?!=)|[<>(),]"

_TOKEN: Final = re.compile(
    rf"[ \t\r\n\f]*+(?:({_PART}(?:\.{_PART})*+)|({_NUMBER})|({_STRING})|({_SYMBOL})|(.)|\Z)", re.DOTALL
)
_NAME_GROUP, _NUMBER_GROUP, _STRING_GROUP, _SYMBOL_GROUP = 1, 2, 3, 4
_ONE_PART: Final = re.compile(_PART)
_BARE_NAME: Final = re.compile(rf"(?:{_WORD})(?:\.(?:{_WORD}))*+\Z")


# One token: its kind, what it means, where its first character stands. A plain tuple: this is the hot part.
Token: TypeAlias = tuple[str, str | int | float, int]


def tokenise(text: str, limit: int | None = None) -> list[Token]:
    """Return the tokens of `text`, the last of kind "end"; raise FilterError where there is none.

    More than `limit` tokens are refused before the rest is read.
    """
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        if group is None:
            break
        if len(tokens) == limit:
            raise FilterError(
                f"the text has more than {limit:,} tokens", text=text, position=match.start(group)
            )
        piece = match[group]
        position = match.start(group)
        if group == _NAME_GROUP:
            keyword = piece.upper()
            if keyword in KEYWORDS and piece.isascii():
                tokens.append((keyword, piece, position))
            elif '"' in piece:
                tokens.append(("name", _unquoted_name(text, piece, position), position))
            else:
                tokens.append(("name", piece, position))
        elif group == _SYMBOL_GROUP:
            tokens.append(("<>" if piece == "!=" else piece, piece, position))
        elif group == _NUMBER_GROUP:
            tokens.append(("number", _number(text, piece, position), position))
        elif group == _STRING_GROUP:
            tokens.append(("string", piece[1:-1].replace("''", "'"), position))
        else:
            raise _no_token(text, position)
    tokens.append(("end", "", len(text)))
    return tokens


def quote_name(name: str) -> str:
    """Return the attribute name as the language writes it: quoted only where it must be."""
    if _BARE_NAME.match(name) and not (name.isascii() and name.upper() in KEYWORDS):
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_string(value: str) -> str:
    """Return the string as a literal of the language."""
    return "'" + value.replace("'", "''") + "'"


def _unquoted_name(text: str, piece: str, position: int) -> str:
    parts = []
    for match in _ONE_PART.finditer(piece):
        part = match[0]
        if part[0] == '"':
            part = part[1:-1].replace('""', '"')
            if not part:
                raise FilterError(
                    "a quoted name is empty",
                    text=text,
                    position=position + match.start(),
                    expected="an attribute's name between the double quotes",
                    hint="an empty string is written ''",
                )
        parts.append(part)
    return ".".join(parts)


def _number(text: str, piece: str, position: int) -> int | float:
    digits = piece.lstrip("+-")
    if digits.isdigit():
        # The length first: turning thousands of digits into an integer takes quadratic time.
        significant = digits.lstrip("0")
        value = int(piece) if len(significant) <= _INTEGER_DIGITS else INTEGER_MAX + 1
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise FilterError(
                "the integer is out of range",
                text=text,
                position=position,
                expected=f"an integer from {INTEGER_MIN} to {INTEGER_MAX}",
                hint="write it as a floating-point number, such as 1e20",
            )
        return value
    real = float(piece)
    if real in (float("inf"), float("-inf")):
        raise FilterError(
            "the number is out of range",
            text=text,
            position=position,
            expected="a number that a 64-bit floating-point number can hold",
        )
    return real


# What people write by habit from other languages, and what it is called here. Longest first.
_HABITS: Final = (
    ("==", "`==` is not an operator", "write ="),
    ("&&", "`&&` is not an operator", "write AND"),
    ("||", "`||` is not an operator", "write OR"),
    ("--", "comments are not part of the language", "leave the comment out"),
    ("/*", "comments are not part of the language", "leave the comment out"),
    ("!", "`!` is not an operator", "write NOT, or <> for unequal"),
    ("&", "`&` is not an operator", "write AND"),
    ("|", "`|` is not an operator", "write OR"),
    ("`", "nothing is quoted with backticks", "quote names with \"...\" and strings with '...'"),
    (";", "`;` does not end a filter", "leave it out"),
    ("[", "`[` is not part of the language", 'quote names with "..." and write lists as (1, 2, 3)'),
    ("?", "`?` is not part of the language", "parameters are not supported: write the value"),
    (":", "`:` is not part of the language", "parameters are not supported: write the value"),
)
FINITE_HINT: Final = "values are finite numbers; leave a range open with < or >"
_INFINITE: Final = re.compile(r"[+-]\s*(?:nan|inf|infinity)\b", re.IGNORECASE)
_TYPOGRAPHIC_QUOTES: Final = "‘’‚“”„«»´"


def _no_token(text: str, position: int) -> FilterError:
    problem, expected, hint = _diagnose(text, position)
    return FilterError(problem, text=text, position=position, expected=expected, hint=hint)


def _diagnose(text: str, position: int) -> tuple[str, str | None, str | None]:
    """Say why no token begins at `position`: (problem, expected, hint)."""
    character = text[position]
    if character == "'":
        return "the string is not closed", "a closing '", "a quote inside a string is written twice: 'it''s'"
    if character == '"':
        return "the quoted name is not closed", 'a closing "', "strings take single quotes: 'text'"
    for written, problem, hint in _HABITS:
        if text.startswith(written, position):
            return problem, None, hint
    if character in "0123456789" or re.match(r"[+-]?[.0-9]", text[position : position + 3]):
        return _diagnose_number(text, position)
    if _INFINITE.match(text, position):
        return f"`{character}` is not part of the language", None, FINITE_HINT
    if character in "+-*/%^~":
        return (
            f"`{character}` is not part of the language",
            None,
            "filters have no arithmetic; a negative number is written without a space: -5",
        )
    if character in _TYPOGRAPHIC_QUOTES:
        return f"`{character}` is not a quote of the language", None, "use straight quotes: 'text'"
    if character.isspace():
        return f"the character U+{ord(character):04X} is not white space here", None, "use a plain space"
    shown = f"`{character}`" if character.isprintable() else f"the character U+{ord(character):04X}"
    return f"{shown} is not part of the language", None, "other characters belong in 'strings' or \"names\""


def _diagnose_number(text: str, position: int) -> tuple[str, str | None, str | None]:
    if text[position] == "." and not text[position + 1 : position + 2].isdigit():
        return "a dot stands where no name or number does", None, "a path is written a.b.c, without spaces"
    hint = "a name that begins with a digit is quoted: \"2nd\"; a string takes single quotes: '2nd'"
    return "the number is malformed", "a number such as 5, -5, 1.5 or 1e3", hint
