"""Why an event is not in a filter: the parts that are named fail, and the others hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.filter_texts import texts, trees

import covey
from covey import cli
from covey.core.explain import why_not

EVENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.one_of(st.integers(-3, 3), st.sampled_from(["x", "y", ""]), st.booleans(), st.floats(-2, 2)),
)


def said(text: str, event: Any, language: str = "attributes") -> list[list[str]]:
    return [[str(miss) for miss in misses] for misses in why_not(covey.parse(text, language), event)]


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("price > 10", {"price": 11}, []),
        ("price > 10", {"price": 5}, [["price > 10: price is 5"]]),
        ("price > 10", {}, [["price > 10: there is no price"]]),
        ("price > 10", {"price": "dear"}, [["price > 10: price is 'dear'"]]),
        ("a.b = 1 AND c = 2", {"a": {"b": 3}, "c": 2}, [["a.b = 1: a.b is 3"]]),
        ("a = 1 OR b = 2", {"b": 1}, [["a = 1: there is no a"], ["b = 2: b is 1"]]),
        ("FALSE", {}, [["FALSE: no event is in this filter"]]),
        ("a = 1", {"w"}, [["a = 1: the event is of another kind: this filter asks for a mapping"]]),
    ],
)
def test_attributes(text: str, event: Any, expected: list[list[str]]) -> None:
    assert said(text, event) == expected


def test_keywords() -> None:
    assert said("new AND york", {"new", "york"}, "keywords") == []
    assert said("new AND york OR taxi", {"new"}, "keywords") == [
        ["york: the words lack it"],
        ["taxi: the words lack it"],
    ]


@pytest.mark.parametrize(
    ("text", "document", "wanted"),
    [
        ("/a/b", "<c/>", "/a"),
        ("/a/b", "<a><c/></a>", "/a/b"),
        ("/a[@k='1']/b", "<a k='2'><b/></a>", "/a[@k='1']"),
        ("/a[b]/c/d", "<a><b/><c><e/></c></a>", "/a[b]/c/d"),
        ("//x[y][z]", "<a><x><y/></x></a>", "//x[z]/y"),
    ],
)
def test_patterns(text: str, document: str, wanted: str) -> None:
    ((miss,),) = why_not(covey.parse(text, "xpath"), document)
    assert miss.wanted == wanted


def test_a_pattern_that_fits() -> None:
    assert said("/a/b", "<a><b/></a>", "xpath") == []


@given(trees.flatmap(texts), EVENTS)
def test_there_is_a_reason_exactly_when_there_is_no_match(text: str, event: dict[str, Any]) -> None:
    try:
        filter = covey.parse(text)
    except covey.FilterError:
        return
    failed = why_not(filter, event)
    assert bool(failed) == (not filter.matches(event))
    for misses in failed:
        assert misses
        for miss in misses:
            assert not covey.parse(miss.wanted).matches(event), miss


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", '{"price": 5}', "--filter", "price > 10"]) == 1
    assert capsys.readouterr().out == "the event does not match\n  price > 10: price is 5\n"
    assert cli.run(["explain", '{"price": 15}', "--filter", "price > 10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["matches"] is True
    assert cli.run(["explain", "taxi rain", "--filter", "york OR taxi AND sun", "-l", "keywords"]) == 1
    assert "alternative 2 of 2, york: the words lack it" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["{}"],
        ["{}", "--filter", "a = 1", "--to", "~1/1"],
        ["{}", "--to", "~1/1"],
        ["{}", "--to", "~1/1", "--at", "ftp://x"],
        ["{}", "--to", "~1/1", "--at", "127.0.0.1:1"],
        ["{", "--filter", "a = 1"],
        ["{}", "--filter", "a ="],
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert cli.run(["explain", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("covey: ")
    assert error.count("\n") == 1
