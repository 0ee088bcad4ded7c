"""Whatever the text, the answer is a filter or FilterError: nothing else, and one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.filter_texts import texts, trees

from covey.core.attributes.lexer import KEYWORDS
from covey.core.attributes.parser import parse_attributes
from covey.errors import FilterError

PIECES = [
    *(keyword.lower() for keyword in sorted(KEYWORDS)),
    *(
        "a",
        "b.c",
        '"d e"',
        '"',
        "'",
        "'x'",
        "'%'",
        "'\\'",
        "1",
        "-1",
        "+1",
        "1.5",
        ".5",
        "1e3",
        "1e999",
        "9" * 30,
    ),
    *(
        "=",
        "==",
        "<>",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "(",
        ")",
        ",",
        ".",
        ";",
        "!",
        "&&",
        "||",
        "-",
        "*",
        "--",
        "/*",
    ),
    *("nan", "Infinity", "\0", "\n", "\u00a0", "\ud800", "\u2019", "$", "select", "upper("),
]


def check(text: str) -> None:
    try:
        filter = parse_attributes(text)
    except FilterError as error:
        assert error.position is None or 0 <= error.position <= len(text)
        assert str(error).isprintable()
        return
    assert parse_attributes(str(filter)) == filter


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
def test_any_characters(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(["", " "]))
def test_any_pieces_of_the_language(pieces: list[str], joint: str) -> None:
    check(joint.join(pieces))


@given(st.data())
def test_filters_with_a_change(data: st.DataObject) -> None:
    text = data.draw(trees.flatmap(texts))
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, min(len(text), at + 6)))
    check(text[:at] + data.draw(st.sampled_from(["", *PIECES])) + text[end:])
