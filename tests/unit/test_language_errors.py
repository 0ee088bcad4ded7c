"""What a mistake in a filter's text gets: the place, what could have stood there, and what to try."""

from __future__ import annotations

import pytest

from covey.core.attributes.parser import parse_attributes
from covey.errors import FilterError

# (text, position of the mistake, part of the problem, part of what was expected, part of the hint)
MISTAKES = [
    # what the language leaves out on purpose
    ("a = b", 4, "b does not fit", "a number, a string", "break exact covering"),
    ("price > other.price", 8, "other.price does not fit", "a number", "attributes cannot be compared"),
    ("a IN (1, b)", 9, "b does not fit", "a number", "attributes cannot be compared"),
    ("active", 0, "active alone is not a condition", "= <> <", "write active = TRUE"),
    ("NOT active", 4, "active alone is not a condition", "= <> <", "write active = TRUE"),
    ("a = 1 AND active OR b = 2", 10, "active alone", "IS [NOT] NULL", "write active = TRUE"),
    ("5 < a", 0, "5 does not fit", "a condition", "write the attribute first: a > 5"),
    ("'x' = a", 0, "'x' does not fit", "a condition", "a = 'x'"),
    ("1 <= 2", 0, "1 does not fit", "a condition", "write the attribute first"),
    ("TRUE = a", 5, "= does not fit", "AND, OR or the end", "write the attribute first"),
    ("a + 1 = 2", 2, "`+` is not part", None, "no arithmetic"),
    ("a = 1 + 1", 6, "`+` is not part", None, "no arithmetic"),
    ("a = 3 -1", 6, "-1 does not fit", "AND, OR", "no arithmetic"),
    ("a -1 = 2", 2, "-1 does not fit", "= <>", "no arithmetic"),
    ("a * 2 = 4", 2, "`*` is not part", None, "no arithmetic"),
    ("upper(a) = 'X'", 5, "( does not fit", "= <>", "no functions"),
    ("a = upper('x')", 4, "upper does not fit", "a number", "no functions"),
    ("1 < a < 5", 0, "1 does not fit", "a condition", "a > 1"),
    ("a > 1 < 5", 6, "< does not fit", "AND, OR", "BETWEEN 1 AND 5"),
    # habits from other languages
    ("a == 5", 2, "`==` is not an operator", None, "write ="),
    ("a = 1 && b = 2", 6, "`&&` is not an operator", None, "write AND"),
    ("a = 1 || b = 2", 6, "`||` is not an operator", None, "write OR"),
    ("!a", 0, "`!` is not an operator", None, "write NOT"),
    ("a => 5", 3, "> does not fit", "a number", "<> <= >="),
    ("a > = 5", 4, "= does not fit", "a number", "without a space"),
    ('symbol = "IBM"', 9, '"IBM" does not fit', "single quotes", "'IBM'"),
    ("symbol = ‘IBM’", 9, "`‘` is not a quote", None, "straight quotes"),
    ("symbol = `IBM`", 9, "backticks", None, "strings with '...'"),
    ("a = NULL", 4, "NULL does not fit", "a number", "IS NULL"),
    ("a IS TRUE", 5, "TRUE does not fit", "NULL", "active = TRUE"),
    ("a IS NOT 5", 9, "5 does not fit", "NULL", "IS tests presence"),
    ("a NOT = 5", 6, "= does not fit", "BETWEEN, IN or LIKE", "NOT a = 5"),
    ("WHERE a = 1", 6, "a does not fit", "= <>", "the condition only"),
    ("SELECT a FROM b", 7, "a does not fit", "= <>", "the condition only"),
    ("a = 1 ORDER BY b", 6, "ORDER does not fit", "AND, OR", "the condition only"),
    ("a = 1;", 5, "`;` does not end", None, "leave it out"),
    ("a = 1 -- why", 6, "comments", None, "leave the comment out"),
    ("a = ?", 4, "`?` is not part", None, "parameters"),
    ("a = :x", 4, "`:` is not part", None, "parameters"),
    ("a contains 'x'", 2, "contains does not fit", "= <>", "'%ab%' contains"),
    ("a = 1, b = 2", 5, ", does not fit", "AND, OR", "AND or OR"),
    ("a = 1 b = 2", 6, "b does not fit", "AND, OR", "AND or OR"),
    ("a = (5)", 4, "( does not fit", "a number", "without parentheses"),
    ("in = 5", 0, "in does not fit", "a condition", '"in"'),
    ("a.5 = 1", 1, ".5 does not fit", "= <>", 'a."5"'),
    ("2nd = 1", 0, "the number is malformed", "a number such as", '"2nd"'),
    ("a\u00a0= 1", 1, "U+00A0 is not white space", None, "plain space"),
    # numbers
    ("a = NaN", 4, "NaN does not fit", "a number", "finite"),
    ("a < Infinity", 4, "Infinity does not fit", "a number", "finite"),
    ("a = -inf", 4, "`-` is not part", None, "finite"),
    ("a > - Infinity", 4, "`-` is not part", None, "finite"),
    ("a = 9223372036854775808", 4, "the integer is out of range", "9223372036854775807", "1e20"),
    ("a = -9223372036854775809", 4, "the integer is out of range", "-9223372036854775808", "1e20"),
    ("a = " + "9" * 4000, 4, "the integer is out of range", "9223372036854775807", "1e20"),
    ("a = 1e309", 4, "the number is out of range", "64-bit", None),
    ("a = 1e" + "9" * 4000, 4, "the number is out of range", "64-bit", None),
    ("a = 0x10", 4, "the number is malformed", "a number such as", None),
    ("a = 1.2.3", 4, "the number is malformed", "a number such as", None),
    ("a = 1e", 4, "the number is malformed", "a number such as", None),
    ("a = 5L", 4, "the number is malformed", "a number such as", None),
    ("a = - 5", 4, "`-` is not part", None, "without a space: -5"),
    # types
    ("a < TRUE", 4, "TRUE does not fit", "a number or a string", "booleans have no order"),
    ("a BETWEEN 1 AND 'x'", 16, "'x' does not fit", "a number", "both ends"),
    ("a BETWEEN 'x' AND 1", 18, "1 does not fit", "a string", "both ends"),
    ("a BETWEEN FALSE AND TRUE", 10, "FALSE does not fit", "a number or a string", "no ranges"),
    ("a LIKE 5", 7, "5 does not fit", "a string", "LIKE 'ab%'"),
    ("a LIKE b", 7, "b does not fit", "a string", "LIKE 'ab%'"),
    # LIKE
    ("a LIKE 'x' ESCAPE 'ab'", 7, "must be one character", None, "ESCAPE '\\'"),
    ("a LIKE 'x' ESCAPE ''", 7, "must be one character", None, None),
    ("a LIKE 'x' ESCAPE '%'", 7, "must be one character", None, None),
    ("a LIKE 'x' ESCAPE 5", 18, "5 does not fit", "a string", "ESCAPE '\\'"),
    ("a LIKE 'x!' ESCAPE '!'", 7, "ends with its escape", None, None),
    ("a LIKE 'x!y' ESCAPE '!'", 7, "before an ordinary character", "after !", None),
    (f"a LIKE '{'x' * 257}'", 7, "longer than 256", None, "its beginning and %"),
    (f"a LIKE '{'x' * 257}' ESCAPE '!'", 7, "longer than 256", None, "its beginning and %"),
    ("a = 1 ESCAPE 'x'", 6, "ESCAPE does not fit", "AND, OR", "LIKE"),
    # what is missing
    ("", 0, "the text is empty", "a condition", "TRUE matches every event"),
    (" \t\n", 0, "the text is empty", "a condition", "TRUE matches every event"),
    ("a =", 3, "ends too early", "a number", None),
    ("a", 0, "a alone", "= <>", "a = TRUE"),
    ("a = 1 AND", 9, "ends too early", "a condition", None),
    ("NOT", 3, "ends too early", "a condition", None),
    ("AND a = 1", 0, "AND does not fit", "a condition", None),
    ("(a = 1", 6, "ends too early", "AND, OR or )", "opens at character 1"),
    ("a = 1 AND (b = 2 OR (c = 3)", 27, "ends too early", "AND, OR or )", "opens at character 11"),
    ("a = 1)", 5, ") does not fit", "AND, OR or the end", "no parenthesis is open"),
    ("()", 1, ") does not fit", "a condition", "between the parentheses"),
    ("a IN ()", 6, ") does not fit", "a number", "at least one value"),
    ("a IN (1,)", 8, ") does not fit", "a number", "no comma after the last"),
    ("a IN (1 2)", 8, "2 does not fit", ", or )", "IN (1, 2, 3)"),
    ("a IN 1", 5, "1 does not fit", "(", "IN (1, 2, 3)"),
    ("a BETWEEN 1 OR 5", 12, "OR does not fit", "AND", "BETWEEN 10 AND 20"),
    ("EXISTS", 6, "ends too early", "an attribute's name", "EXISTS a"),
    ("EXISTS (a", 9, "ends too early", ")", "EXISTS (a)"),
    ("EXISTS 'a'", 7, "'a' does not fit", "an attribute's name", "EXISTS a"),
    ("a = 'x", 4, "the string is not closed", "a closing '", "'it''s'"),
    ("a = 'it's'", 9, "the string is not closed", "a closing '", "'it''s'"),
    ('"a = 1', 0, "the quoted name is not closed", 'a closing "', "single quotes"),
    ('"" = 1', 0, "a quoted name is empty", "an attribute's name", "''"),
    ("a. = 1", 1, "a dot stands", None, "a.b.c"),
    # characters
    ("a # b", 2, "`#` is not part", None, None),
    ("\0", 0, "U+0000 is not part", None, None),
    ("a = '\ud800'", 5, "unpaired surrogate", "well-formed", None),
    ('"\udfff" = 1', 1, "unpaired surrogate", "well-formed", None),
    (f"{'n' * 257} = 1", 0, "more than 256 characters", None, None),
]


@pytest.mark.parametrize(("text", "position", "problem", "expected", "hint"), MISTAKES)
def test_a_mistake_is_named_with_its_place(
    text: str, position: int, problem: str, expected: str | None, hint: str | None
) -> None:
    with pytest.raises(FilterError) as caught:
        parse_attributes(text)
    error = caught.value
    assert error.position == position
    assert problem in error.problem
    assert expected is None or expected in (error.expected or "")
    assert hint is None or hint in (error.hint or "")
    assert f"at character {position + 1}" in str(error)


@pytest.mark.parametrize("text", ["a 'x\ny'", "a = b\r\n=", "a =\n\n'x\n", '"x\ny"', "a = \x1b[31m"])
def test_an_error_is_one_printable_line(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_attributes(text)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", [None, 5, b"a = 1", ["a = 1"]])
def test_only_strings_are_text(text: object) -> None:
    with pytest.raises(FilterError, match="must be a string"):
        parse_attributes(text)  # type: ignore[arg-type]
